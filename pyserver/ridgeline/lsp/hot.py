"""``ridgeline/hotKernels``: the hottest kernels of a run as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.places import location, plain, uri_of
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.store import ShownRun

SORTS: dict[str, Callable[[wording.Json], Any]] = {
    "total": lambda kernel: -kernel["total_us"],
    "time": lambda kernel: -kernel["total_us"],
    "median": lambda kernel: -kernel["median_us"],
    "count": lambda kernel: -kernel["count"],
    "name": lambda kernel: kernel["name"],
    "saving": lambda kernel: -_saving(kernel),
}


def _saving(kernel: wording.Json) -> float:
    speedup = (kernel.get("autotune") or {}).get("speedup") or 1.0
    return float(kernel["total_us"]) * (1.0 - 1.0 / max(speedup, 1.0))


def sorted_kernels(kernels: list[Any], sort: str) -> list[Any]:
    return sorted(kernels, key=SORTS.get(sort, SORTS["total"]))


def hot_kernels(server: RidgelineServer, params: protocol.Json) -> protocol.Json:
    """``ridgeline/hotKernels``: of the document's run, of a named run, or of the newest. The 200 hottest can be listed."""
    run = server.library.find(params["run"]) if params.get("run") else server.run_of(params.get("uri"))
    if run is None:
        return {"run": None, "total": 0, "kernels": []}
    text = str(params.get("filter") or "").lower()
    kernels = [kernel for kernel in run.hot()["kernels"] if text in _searchable(kernel)]
    kernels = sorted_kernels(kernels, str(params.get("sort") or "total"))
    offset, limit = int(params.get("offset") or 0), int(params.get("limit") or 50)
    return {
        "run": run.wire(),
        "total": len(kernels),
        "kernels": [_hot_kernel(server, run, kernel) for kernel in kernels[offset : offset + limit]],
    }


def _searchable(kernel: wording.Json) -> str:
    sources = " ".join(str(source["file"]) for source in kernel.get("source") or [])
    return f"{kernel['name']} {kernel['category']} {' '.join(kernel.get('aten') or [])} {sources}".lower()


def _hot_kernel(server: RidgelineServer, run: ShownRun, kernel: wording.Json) -> protocol.Json:
    sources = [place_of(server, run, s["file"], s["line"]) for s in kernel.get("source") or [] if s.get("line")]
    generated = [
        place_of(server, run, g["file"], g.get("line") or (g.get("calls") or [1])[0])
        for g in kernel.get("generated") or []
    ]
    return {
        "id": kernel["id"],
        "name": kernel["name"],
        "category": kernel["category"],
        "count": kernel["count"],
        "totalUs": kernel["total_us"],
        "stepUs": kernel["total_us"] / run.steps if run.steps else None,
        "sharePct": kernel.get("share_pct"),
        "stepSharePct": kernel.get("step_share_pct"),
        "medianUs": kernel["median_us"],
        "bound": kernel.get("bound") or "unknown",
        "estimated": kernel.get("bound_source") != "counters",
        "reason": kernel.get("bound_reason"),
        "aten": kernel.get("aten") or [],
        "source": [place for place in sources if place is not None],
        "generated": [place for place in generated if place is not None],
        "autotune": kernel.get("autotune"),
        "slice": kernel.get("slice"),
    }


def place_of(server: RidgelineServer, run: ShownRun, path: str, line: int) -> protocol.Json | None:
    """A place in the workspace as a wire location, only where there is exactly one; an open file's lines as numbered now."""
    found = server.places.find(path, run.folder, run.files.get(path)) if line > 0 else []
    if len(found) != 1:
        return None
    view = server.view(uri_of(found[0]))
    if view is not None and not view.generated and (line - 1) in view.anchors.index:
        where = view.line_of(line)
        line = where[0] + 1 if where is not None else line
    return plain(location(found[0], line))


def register(server: RidgelineServer) -> None:
    @server.feature(protocol.HOT_KERNELS)
    def on_hot_kernels(ls: RidgelineServer, params: protocol.Json) -> protocol.Json:
        return hot_kernels(ls, params)
