"""An edited copy of a kernel against its original: outputs on the same arguments, then times A-B-A-B.

Outputs are compared first, from buffers that hold the same values in both, so that an element that one of the two does not
write shows. Tolerances are those of ``torch.testing`` by element type; integers and truth values must be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .arguments import copied, make

if TYPE_CHECKING:
    from .kernels import Measuring

ROUNDS = 2
_TOLERANCES = {
    "float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5), "complex32": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
    "float8_e4m3fn": (0.125, 1e-5), "float8_e4m3fnuz": (0.125, 1e-5),
    "float8_e5m2": (0.25, 1e-5), "float8_e5m2fnuz": (0.25, 1e-5), "float8_e8m0fnu": (1.0, 0.0),
}  # fmt: skip
"""(relative, absolute) as ``torch.testing.assert_close`` has them; of an 8-bit type one step of its own."""


def compare(
    measuring: Measuring, original: Any, edited: Any, wanted: dict[str, Any], given: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """Outputs and raw samples (seconds) for ``bench/workbench.py`` to judge."""
    from .kernels import _resources

    torch = measuring.torch
    names = wanted["names"]
    start, unfilled = _with_outputs_filled(torch, given, names)
    results, calls = [], {}
    for which, kernel in (("before", original), ("again", original), ("after", edited)):
        arguments = copied(torch, start)
        measuring.call_of(kernel, arguments, named)()
        measuring._synchronize()
        results.append(arguments)
        if which != "again":
            calls[which] = measuring.call_of(kernel, copied(torch, given), named)
    first, again, after = results
    notes = []
    outputs = []
    for position, value in enumerate(start):
        if not isinstance(value, torch.Tensor):
            continue
        name = names[position] if position < len(names) and names[position] else f"argument {position + 1}"
        written = not _same(torch, value, first[position]) or not _same(torch, value, after[position])
        if not written:
            continue
        found = difference(
            torch, first[position], after[position], reduces=wanted["reduces"], asked=wanted["tolerance"]
        )
        outputs.append({"name": name, **found})
        own = difference(torch, first[position], again[position], reduces=wanted["reduces"], asked=wanted["tolerance"])
        if own["state"] != "same":
            notes.append(f"two calls of the original differ in {name} as well, by up to {own['worst'] or math.inf:.2g}")
    taken: dict[str, Any] = {}
    for cache in measuring.request["caches"]:
        if measuring.session.late:
            raise TimeoutError("the time is up (--timeout)")
        rounds = _rounds(getattr(measuring.clock, cache), calls)
        taken[cache] = rounds
    seen = {one["name"] for one in outputs}
    hidden = [name for name in unfilled if name not in seen]
    return {"outputs": outputs, "hidden": hidden, "notes": notes, "problem": None, **taken, **_resources(edited)}


def _rounds(sample: Callable[[Callable[[], Any]], dict[str, Any]], calls: dict[str, Any]) -> dict[str, Any]:
    rounds: dict[str, Any] = {"before": [], "after": [], "tick_s": 0.0}
    for _ in range(ROUNDS):
        for which, call in calls.items():
            taken = sample(call)
            rounds[which].append([taken["seconds"], taken["calls"]])
            rounds["tick_s"] = taken["tick_s"]
    return rounds


def _with_outputs_filled(torch: Any, given: list[Any], names: list[str]) -> tuple[list[Any], list[str]]:
    """(copies of the arguments in which pure outputs hold random values instead of whatever their memory held before, the
    names of those outputs that were left).

    Memory that was used before can hold the right result by accident, and would hide that an edit no longer writes it.
    Integers keep small values, in range for whatever may read them. Memory that an input shares is left as it is; outputs
    that share it among themselves (parts of a concatenation) are filled.
    """
    start = copied(torch, given)
    read = {
        value.untyped_storage().data_ptr()
        for position, value in enumerate(start)
        if isinstance(value, torch.Tensor) and not _is_output(names, position)
    }
    unfilled = []
    for position, value in enumerate(start):
        if not isinstance(value, torch.Tensor) or not _is_output(names, position) or not value.numel():
            continue
        if value.untyped_storage().data_ptr() in read:
            unfilled.append(names[position])
            continue
        described = {"size": list(value.shape), "stride": list(value.stride()), "device": str(value.device),
                     "dtype": str(value.dtype).removeprefix("torch.")}  # fmt: skip
        value.copy_(make(torch, described, 2, seed=position))
    return start, unfilled


def _is_output(names: list[str], position: int) -> bool:
    return position < len(names) and names[position].startswith("out_ptr")


def _same(torch: Any, a: Any, b: Any) -> bool:
    """Bit by bit, so that what is no number equals itself."""
    return bool(torch.equal(_bits(torch, a), _bits(torch, b)))


def _bits(torch: Any, value: Any) -> Any:
    return value.contiguous().reshape(-1).view(torch.uint8)


def difference(torch: Any, a: Any, b: Any, *, reduces: bool, asked: list[float | None]) -> dict[str, Any]:
    """How ``b`` differs from ``a`` (same shape and type), element by element.

    ``state``: same (to the bit), close (within the tolerance), differs. ``worst`` is the largest absolute difference where
    both are finite. A reduction's rounding error is of the size of its largest values: its absolute tolerance is scaled so.
    """
    name = str(a.dtype).removeprefix("torch.")
    rtol, atol = _TOLERANCES.get(name, (0.0, 0.0))
    found = {"dtype": name, "elements": a.numel(), "beyond": 0, "only_finite_in_one": 0, "worst": 0.0}
    if _same(torch, a, b):
        return {**found, "state": "same", "rtol": rtol, "atol": atol}
    if not a.dtype.is_floating_point and not a.dtype.is_complex:
        wrong = a != b
        apart = (a.to(torch.float64) - b.to(torch.float64)).abs()
        return {
            **found,
            "state": "differs",
            "beyond": int(wrong.sum()),
            "worst": float(apart.max()),
            "rtol": 0.0,
            "atol": 0.0,
        }
    wide = torch.complex128 if a.dtype.is_complex else torch.float64
    x, y = (
        a.to(torch.float32).to(wide) if name.startswith("float8") else a.to(wide),
        (b.to(torch.float32).to(wide) if name.startswith("float8") else b.to(wide)),
    )
    both = torch.isfinite(x) & torch.isfinite(y)
    alike = (x == y) | (torch.isnan(x) & torch.isnan(y))
    apart = torch.where(both, (x - y).abs(), torch.zeros((), dtype=torch.float64, device=x.device))
    size = torch.where(torch.isfinite(x), x.abs(), torch.zeros((), dtype=torch.float64, device=x.device))
    if reduces and size.numel():
        atol = max(atol, rtol * float(size.max()))
    rtol, atol = (rtol if asked[0] is None else asked[0]), (atol if asked[1] is None else asked[1])
    within = alike | (both & (apart <= atol + rtol * size))
    beyond = int((~within).sum())
    odd = int((~alike & ~both).sum())
    worst = float(apart.max()) if apart.numel() else 0.0
    return {
        **found, "state": "differs" if beyond else "close", "beyond": beyond, "only_finite_in_one": odd,
        "worst": worst if math.isfinite(worst) else None, "rtol": rtol, "atol": atol,
    }  # fmt: skip
