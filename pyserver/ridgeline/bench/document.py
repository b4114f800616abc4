"""The document of ``ridgeline bench``: the plan and the raw times put together."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from ridgeline.bench import measure, multi, search, verdict, workbench
from ridgeline.bench.bytes import moved_bytes
from ridgeline.bench.needs import inner
from ridgeline.bench.plan import Kernel, Plan, Site
from ridgeline.inductor.kernel_file import parse_kernel_file
from ridgeline.inductor.names import take_apart

SCHEMA = 1
GIGA = 1e9


@dataclass(slots=True)
class Against:
    """The edited copy that the file is compared with."""

    path: str
    """As the person named it."""
    copy: str
    """Where the text to load lies."""
    text: str
    pairs: dict[str, workbench.Pair]
    tolerance: tuple[float | None, float | None] = (None, None)
    """(relative, absolute) instead of the element type's own."""


def request(
    plan: Plan,
    *,
    path: str,
    caches: list[str],
    timeout_s: float,
    verify: bool,
    only: str | None = None,
    against: Against | None = None,
) -> dict[str, Any]:
    """What the user's interpreter is asked to do; ``path`` is where the copy of the file will lie."""
    kernels = chosen(plan, only, against)
    cuda = any(
        isinstance(value, dict) and str(value.get("device")).startswith("cuda")
        for kernel in kernels
        for site in kernel.sites
        for value in site.arguments
    ) or any(kernel.language == "triton" and "type='cuda'" in kernel.source for kernel in kernels)
    return {
        "path": path,
        "shown": PurePath(plan.path).name,
        "stem": PurePath(plan.path).stem,
        "file_kind": plan.file_kind,
        "cuda": cuda,
        "inputs": plan.inputs,
        "constants": plan.constants,
        "unbacked": plan.unbacked,
        "multi": {choice.name: list(choice.members) for choice in plan.choices},
        "caches": caches,
        "timeout_s": timeout_s,
        "edited": against.copy if against is not None else None,
        "kernels": [
            {
                "name": kernel.name,
                "index": index,
                "bound": kernel.bounds,
                "sites": [asdict(site) for site in kernel.sites],
                "launch": kernel.launch and {**kernel.launch, "symbol": kernel.symbol, "text": kernel.source},
                "search": _search(kernel, plan.file_kind) if verify else None,
                "against": _against(kernel, against),
            }
            for index, kernel in enumerate(kernels)
        ],
    }


def chosen(plan: Plan, only: str | None, against: Against | None) -> list[Kernel]:
    """The kernels to measure: all, the one that is named, or those that the edited copy has as well."""
    return [
        kernel
        for kernel in plan.kernels
        if (only is None or named(kernel, only)) and (against is None or kernel.name in against.pairs)
    ]


def cut_short(result: dict[str, Any], status: int, timeout_s: float) -> None:
    """Puts into ``result`` that the measuring process died, how, and in which kernel. ``status`` is a shell's."""
    number = status - 128
    name = signal.Signals(number).name if number in {one.value for one in signal.Signals} else f"status {status}"
    if name == "SIGALRM":
        how = f"did not come to its end within the time (--timeout {timeout_s:g}) and a minute more, and was stopped"
    else:
        how = f"died ({name})" if number > 0 else f"ended with {name}"
    at, rows = result.get("at"), result.setdefault("kernels", {})
    if at is not None and at not in rows:
        rows[at] = {"problem": f"the process {how} in it"}
    result.setdefault("notes", []).append(f"the measuring process {how}: what was measured until then is shown")


def named(kernel: Kernel, name: str) -> bool:
    """Whether a person means it: of a program's own kernel the name stands for every set of arguments."""
    return kernel.name == name or (kernel.launch is not None and kernel.symbol == name)


def _against(kernel: Kernel, against: Against | None) -> dict[str, Any] | None:
    pair = against.pairs[kernel.name] if against is not None else None
    if against is None or pair is None or pair.problem is not None:
        return None
    return {
        "name": pair.edited.name,
        "names": list(kernel.signature.names),
        "reduces": _reduces(kernel),
        "tolerance": list(against.tolerance),
    }


def _search(kernel: Kernel, file_kind: str) -> dict[str, str] | None:
    """The copies to compare; None for a kernel that has no configurations of Inductor's to search."""
    if kernel.language != "triton" or kernel.launch is not None:
        return None
    source = kernel.source if file_kind == "kernel" else inner(kernel.source)
    found = parse_kernel_file(source, "")
    try:
        symbol = found.symbol if found else kernel.name
        return {**search.copies(source, symbol), "symbol": symbol}
    except search.NoMetadata:
        return None


def build(
    plan: Plan,
    result: Mapping[str, Any],
    *,
    verify: bool,
    exposed_share: float | None = None,
    only: str | None = None,
    against: Against | None = None,
) -> dict[str, Any]:
    """The document. Times are microseconds, GB are 10^9 bytes, unknown is None."""
    rows = result.get("kernels", {})
    kernels = [
        {
            **_kernel(kernel, rows.get(kernel.name), verify=verify, exposed_share=exposed_share),
            "against": _compared(kernel, rows.get(kernel.name), against),
        }
        for kernel in chosen(plan, only, against)
    ]
    return {
        "schema": SCHEMA,
        "kind": "bench",
        "file": plan.path,
        "against": against.path if against is not None else None,
        "file_kind": plan.file_kind,
        "module_kind": plan.module_kind,
        "run": plan.run,
        "torch": result.get("torch"),
        "python": result.get("python"),
        "device": result.get("device"),
        "kernels": kernels,
        "multi_kernels": [multi.ranked(choice, kernels) for choice in plan.choices],
        "fallbacks": plan.fallbacks if only is None else [],
        "notes": [*plan.notes, *result.get("notes", [])],
        "warnings": list(result.get("warnings", [])),
    }


def _compared(kernel: Kernel, row: Mapping[str, Any] | None, against: Against | None) -> dict[str, Any] | None:
    """The edited copy beside the original; None where none was asked for."""
    if against is None:
        return None
    pair = against.pairs[kernel.name]
    taken = (row or {}).get("against")
    if pair.problem is not None:
        return workbench.judged({"problem": pair.problem})
    if not isinstance(taken, dict):
        return workbench.judged({"problem": "not compared: the original was not measured"})
    if taken.get("problem") and taken.get("raw"):
        place = workbench.place_of_error(taken["raw"], against.text, pair.edited.symbol)
        if place is not None:
            return workbench.judged({"problem": f"{against.path}, {place}"})
    return workbench.judged(taken)


def _kernel(
    kernel: Kernel, row: Mapping[str, Any] | None, *, verify: bool, exposed_share: float | None
) -> dict[str, Any]:
    row = row or {"problem": "not reached: the benchmark ended before"}
    moved, method = _bytes(kernel, row)
    heuristic = parse_kernel_file(_python(kernel), "") if kernel.language == "triton" else None
    timings = {
        cache: asdict(
            measure.timing(
                taken["seconds"],
                cache=cache,
                clock=taken["clock"],
                calls=taken["calls"],
                tick_s=taken["tick_s"],
                overhead_s=taken.get("overhead_s") or 0.0,
                waited=taken.get("waited"),
                moved_bytes=moved,
            )
        )
        if isinstance(taken := row.get(cache), dict)
        else None
        for cache in ("warm", "cold")
    }
    notes = [*kernel.notes, *(note for note in (row.get("note"),) if note)]
    host = next((taken["host_s"] for c in ("cold", "warm") if (taken := row.get(c)) and taken.get("host_s")), None)
    own = next((t["median_us"] for t in (timings["cold"], timings["warm"]) if t and t["median_us"]), None)
    if host is not None and own is not None and (said := measure.Overhead(own, host * 1e6).sentence):
        notes.append(said)
    if kernel.bounds is not None and moved is not None:
        notes.append("it goes through an index: GB counts the whole of the table, so GB/s is an upper bound")
    candidate = verdict.fixed_configuration(heuristic.heuristic, row.get("configurations")) if heuristic else None
    if candidate:
        notes.append(candidate)
    return {
        "name": kernel.name,
        "category": take_apart(kernel.name).category,
        "language": kernel.language,
        "line": kernel.line,
        "launched": _launched(kernel),
        "call_lines": [s.line for s in kernel.sites],
        "arguments": row.get("arguments"),
        "gb": None if moved is None else moved / GIGA,
        "gb_method": method,
        "tflop_per_s": measure.rate_tflops(flop, own) if (flop := _flop(kernel)) and own else None,
        "host_us": None if host is None else host * 1e6,
        **timings,
        "inductor_us": None if row.get("inductor_s") is None else row["inductor_s"] * 1e6,
        "config": row.get("config"),
        "registers": row.get("registers"),
        "spills": row.get("spills"),
        "shared_memory": row.get("shared_memory"),
        "needs": kernel.needs,
        "notes": notes,
        "problem": row.get("problem"),
        "autotune": _autotune(kernel, row, exposed_share) if verify else None,
    }


def _measured_site(kernel: Kernel, row: Mapping[str, Any]) -> Site | None:
    """The call whose arguments were measured: a kernel may be called in several places, with other sizes."""
    there = [site for site in kernel.sites if site.line == row.get("line")]
    return next((site for site in there or kernel.sites if site.problem is None), None)


def _launched(kernel: Kernel) -> str | None:
    """``x_ptr float32[1000], n=1000; grid 8``: how a program launched its own kernel; None for a generated one."""
    if kernel.launch is None or not kernel.sites:
        return None
    said = []
    for name, value in zip(kernel.sites[0].names, kernel.sites[0].arguments, strict=True):
        if isinstance(value, dict) and "size" in value:
            said.append(f"{name} {value['dtype']}[{', '.join(map(str, value['size']))}]")
        else:
            said.append(f"{name}={value['value'] if isinstance(value, dict) else value}")
    options = [f"{name}={value}" for name, value in kernel.launch["options"].items()]
    return f"{', '.join([*said, *options])}; grid {' x '.join(map(str, kernel.launch['grid']))}"


def _python(kernel: Kernel) -> str:
    """The Python text of a Triton kernel: inside the string of a module, or the kernel's own file."""
    return inner(kernel.source) if "async_compile." in kernel.source else kernel.source


def _bytes(kernel: Kernel, row: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """Bytes of a call and where the number is from: Inductor's own, or every buffer once."""
    stated = kernel.meta.get("kernel_num_gb")
    if isinstance(stated, (int, float)) and stated > 0:
        return float(stated) * GIGA, "inductor"
    given = row.get("given")  # what it was measured with, where that was told
    if given is None:
        site = _measured_site(kernel, row)
        given = site.arguments if site is not None else None
    moved = None if given is None else moved_bytes(kernel.signature, given)
    return (None, None) if moved is None else (float(moved), "buffers")


def _reduces(kernel: Kernel) -> bool:
    """Whether it adds up values, so that another order changes its last bits."""
    return any(
        word in kernel.source for word in ("tl.sum(", "welford", "reduction", "vec_reduce_all", "tmp_acc", "tl.dot(")
    )


def _flop(kernel: Kernel) -> float | None:
    """Inductor's own number, where it counted one (templates, convolutions)."""
    stated = kernel.meta.get("kernel_flop")
    return float(stated) if isinstance(stated, (int, float)) and stated > 0 else None


def _autotune(kernel: Kernel, row: Mapping[str, Any], exposed_share: float | None) -> dict[str, Any]:
    searched = row.get("search")
    if not isinstance(searched, dict):
        if row.get("problem") or row.get("search_problem"):
            reason = str(row.get("problem") or row["search_problem"])
        elif kernel.language == "triton":
            reason = "a user's own kernel: its configurations are in the program"
        else:
            reason = "a C++ kernel has no configurations to search"
        return {"state": "not_applicable", "sentence": reason}
    copies = {
        which: verdict.Copy(
            rounds=[[value * 1e6 for value in samples] for samples in taken["rounds"]],
            config=taken["config"],
            compile_s=taken["compile_s"],
        )
        for which, taken in searched["copies"].items()
    }
    fastest = min((value for copy in copies.values() for samples in copy.rounds for value in samples), default=0.0)
    if fastest <= 0:
        return {"state": "not_applicable", "sentence": "below timer resolution: nothing to compare"}
    judged, searches = verdict.recommend(
        copies["plain"],
        copies["narrow"],
        copies["wider"],
        within=[searched["tick_s"] * 1e6 / fastest],
        exposed_share=exposed_share,
        reduces=_reduces(kernel),
    )
    return {**asdict(judged), "before_config": copies["plain"].config, "searches": searches}
