"""A copy of a kernel, edited, beside its original: which belong together, and what is said of times and outputs.

The comparison itself runs in the user's interpreter (``inside/against.py``): both on copies of the same arguments, first
once for their outputs, then A-B-A-B for their times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.measure import SAME
from ridgeline.bench.needs import inner
from ridgeline.bench.plan import Kernel, Plan
from ridgeline.bench.verdict import median_of, spread_of

_END = "\n\nasync_compile.wait(globals())\ndel async_compile\n"


@dataclass(slots=True, frozen=True)
class Pair:
    """A kernel of the original file and its edited copy."""

    original: Kernel
    edited: Kernel
    problem: str | None = None
    """Why the two cannot be given the same arguments."""


def pairs(original: Plan, edited: Plan, only: str | None) -> tuple[dict[str, Pair], list[str]]:
    """(original's name of the kernel -> the pair to compare, what a person should know).

    Of a module only the kernels whose text differs, of a single-kernel file, or of one that is named, that one in any case.
    """
    found, notes = {}, []
    copies = {kernel.name: kernel for kernel in edited.kernels}
    alone = len(original.kernels) == 1 and len(edited.kernels) == 1
    for kernel in original.kernels:
        if only is not None and kernel.name != only:
            continue
        copy = edited.kernels[0] if alone else copies.get(kernel.symbol if kernel.launch else kernel.name)
        if copy is None:
            continue
        same = _text(kernel) == _text(copy)
        if same and not alone and only is None:
            continue
        if same:
            notes.append(f"the two texts of {kernel.name} are the same: what differs is the noise of the measurement")
        found[kernel.name] = Pair(kernel, copy, _mismatch(kernel, copy))
    if original.file_kind == edited.file_kind == "module":
        notes += _outside(original, edited)
    return found, notes


def _text(kernel: Kernel) -> str:
    """What is compared: a Triton kernel's Python wherever it stands, else the definition as it stands."""
    if kernel.launch is not None or "triton_heuristics" not in kernel.source:
        return kernel.source.strip()
    text = inner(kernel.source) if "async_compile." in kernel.source and kernel.language == "triton" else kernel.source
    return text.strip()


def _mismatch(kernel: Kernel, copy: Kernel) -> str | None:
    if kernel.launch is not None:
        return None  # Triton binds a user's own kernel by its parameters, and says what does not fit.
    a, b = kernel.signature, copy.signature
    if kernel.language != copy.language:
        return f"the original is a {kernel.language} kernel, the edited one a {copy.language} kernel"
    if len(a.dtypes) != len(b.dtypes):
        return f"the original takes {len(a.dtypes)} arguments, the edited one {len(b.dtypes)}: both must take the same"
    for position, (before, after) in enumerate(zip(_types(a), _types(b), strict=True)):
        if before != after:
            return f"argument {position + 1} is {before} in the original and {after} in the edited one: both must take the same"
    return None


def _types(signature: Any) -> list[str]:
    kinds = zip(signature.dtypes, signature.pointers, strict=True)
    return [f"a buffer of {dtype}" if pointer else f"a number ({dtype})" for dtype, pointer in kinds]


def _outside(original: Plan, edited: Plan) -> list[str]:
    """Whether something else than kernels was edited, which is not compared."""
    ends = [plan.body[plan.body.rfind("async_compile.wait(") :].rstrip() for plan in (original, edited)]
    alone = "def call(" not in ends[1]  # the copy of one kernel, which never had a call function
    return [] if alone or ends[0] == ends[1] else ["what was edited outside of the kernels is not compared"]


def copy_of(text: str, plan: Plan, name: str | None) -> str:
    """The text of an editable copy: the whole file, or of the one kernel ``name`` what it needs to stand alone.

    Raises ``KeyError`` for a kernel that the file does not define.
    """
    if name is None or plan.file_kind == "kernel":
        return text
    kernel = next((one for one in plan.kernels if one.name == name), None)
    if kernel is None:
        raise KeyError(name)
    if plan.file_kind == "launches":
        return kernel.source
    rows = text.splitlines()
    first = min(one.line for one in plan.kernels)
    prelude = rows[: first - 1]
    while prelude and (not prelude[-1].strip() or prelude[-1].lstrip().startswith("#")):
        prelude.pop()  # the comments above the first kernel, which may be another one
    return "\n".join([*prelude, "", "", kernel.source]) + _END


def judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison of one kernel for the document. Times are microseconds a call, parts are fractions."""
    if row.get("problem"):
        return {"problem": row["problem"], "outputs": None, "warm": None, "cold": None, "sentence": row["problem"]}
    times = {cache: _times(row[cache]) if isinstance(row.get(cache), dict) else None for cache in ("warm", "cold")}
    outputs = row["outputs"]
    said = [
        _said(outputs, row.get("hidden") or []),
        *(f"{cache}: {one['sentence']}" for cache, one in times.items() if one is not None),
    ]
    return {
        "problem": None,
        "outputs": outputs,
        # None where there is nothing that could be compared.
        "equal": all(one["state"] != "differs" for one in outputs) if outputs or not row.get("hidden") else None,
        **times,
        "edited_config": row.get("config"),
        "edited_registers": row.get("registers"),
        "edited_spills": row.get("spills"),
        "notes": list(row.get("notes", [])),
        "sentence": "; ".join(said),
    }


def _times(taken: Mapping[str, Any]) -> dict[str, Any]:
    """``before`` and ``after`` are rounds of samples in seconds, of ``calls`` calls each."""
    per_call = {
        which: [[value * 1e6 / calls for value in samples] for samples, calls in taken[which]]
        for which in ("before", "after")
    }
    fastest = min((value for rounds in per_call.values() for samples in rounds for value in samples), default=0.0)
    if fastest <= 0:
        return {"before_us": None, "after_us": None, "speedup": None, "spread": None,
                "state": "unknown", "sentence": "below timer resolution: nothing to compare"}  # fmt: skip
    shortest = min(value for which in ("before", "after") for samples, _ in taken[which] for value in samples)
    a, b = median_of(per_call["before"]), median_of(per_call["after"])
    spread = spread_of(per_call["before"], per_call["after"], within=[taken["tick_s"] / shortest])
    speedup = a / b
    margin = max(spread, SAME)
    state = "faster" if speedup - 1 > margin else "slower" if 1 / speedup - 1 > margin else "same"
    words = {
        "faster": f"the edited one is {speedup:.2f}x as fast",
        "slower": f"the edited one is {1 / speedup:.2f}x slower",
        "same": f"no difference that exceeds the spread over all rounds, {margin:.0%}",
    }
    return {"before_us": a, "after_us": b, "speedup": speedup, "spread": spread,
            "state": state, "sentence": words[state]}  # fmt: skip


def _said(outputs: Sequence[Mapping[str, Any]], hidden: Sequence[str]) -> str:
    """One sentence on the outputs; the worst decides. Of ``hidden`` ones nobody can tell whether they were written."""
    wrong = [one for one in outputs if one["state"] == "differs"]
    if wrong:
        return "; ".join(f"outputs differ: {_difference(one)}" for one in wrong[:3])
    if hidden:
        untold = f"{', '.join(hidden[:3])} cannot be judged: an input shares its memory, which already holds what was written"
        return untold if not outputs else f"{_said(outputs, [])}; {untold}"
    if not outputs:
        return "neither wrote anything: there are no outputs to compare"
    near = [one for one in outputs if one["state"] == "close"]
    if not near:
        return "outputs are the same to the last bit"
    worst = max(near, key=lambda one: one["worst"] or 0.0)
    return (
        f"outputs agree within the tolerance of {worst['dtype']}"
        f" (largest difference {worst['worst']:.2g} in {worst['name']})"
    )


def _difference(one: Mapping[str, Any]) -> str:
    """``out_ptr0 in 12 of 4096 elements (by up to 0.5; allowed 1.3e-06 of the value + 1e-05)``."""
    text = f"{one['name']} in {one['beyond']} of {one['elements']} elements"
    if one["only_finite_in_one"]:
        text += f", {one['only_finite_in_one']} of them infinite or no number in one of the two"
    if one["worst"] is None:
        return text
    allowed = "" if not one["rtol"] else f"; allowed {one['rtol']:.2g} of the value + {one['atol']:.2g}"
    return f"{text} (by up to {one['worst']:.2g}{allowed})"


_GCC = re.compile(r"^(?P<file>[^:\s]+\.cpp):(?P<line>\d+):\d+: error: (?P<what>.*)$", re.MULTILINE)
_GCC_ROW = re.compile(r"^\s*\d+ \| ?(?P<row>.*)$", re.MULTILINE)
_TRITON = re.compile(r"\bat (?P<line>\d+):(?P<column>\d+):")


def place_of_error(message: str, text: str, symbol: str) -> str | None:
    """``line 57: 'y' was not declared``: where in the edited ``text`` a compiler's error lies; None where it does not say.

    g++ names a line of a file that Inductor wrote, but prints that line's text; Triton counts from the kernel's ``def``.
    """
    rows = text.splitlines()
    if (error := _GCC.search(message)) is not None:
        row = _GCC_ROW.search(message, error.end())
        shown = row["row"].strip() if row else ""
        lines = [number for number, one in enumerate(rows, 1) if shown and one.strip() == shown]
        return f"line {lines[0]}: {error['what']}" if lines else error["what"]
    start = next((n for n, one in enumerate(rows, 1) if one.startswith(f"def {symbol}(")), None)
    if start is not None and (at := _TRITON.search(message)) is not None:
        what = [row.strip() for row in message.splitlines() if row.strip()][-1]
        return f"line {start + int(at['line']) - 1}: {what[:200]}"
    return None
