"""Kernel rows: every unit of device work belongs to exactly one (device, symbol, generated file, geometry, shapes)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.assemble.categories import classify
from ridgeline.assemble.exposure import exposed_time
from ridgeline.attribution.model import Attribution
from ridgeline.profile import CallLine, Category, GeneratedRef, Kernel, Launch, Slice, SourceRef
from ridgeline.trace.tables import F64, I32, Trace, Work
from ridgeline.trace.work import WorkTable

_NO_ROW = -1
_GRAPH_CALL = "## Call CompiledFxGraph"
Rows = npt.NDArray[np.signedinteger[Any]]
MAX_SOURCES = 16


@dataclass(slots=True, kw_only=True)
class KernelRows:
    """The document's kernels and, beside them, what other rooms need to find their launches again."""

    kernels: list[Kernel]
    of_work: I32
    """Work row -> index in ``kernels``."""
    first_work: list[int]
    """One representative launch a kernel: the one whose time is nearest to the median."""
    category_of_work: list[Category]
    exposed: F64
    """Microseconds a work row, while nothing else ran on its device."""


def op_chain(trace: Trace, op: int, limit: int = 6) -> list[str]:
    """Names of the op and those around it, innermost first."""
    names: list[str] = []
    while op >= 0 and len(names) < limit:
        names.append(trace.strings[int(trace.ops.name[op])])
        op = int(trace.ops.parent[op])
    return names


def triton_args(trace: Trace, op: int) -> dict[str, Any] | None:
    """What Triton told the profiler about the launching op, if anything."""
    if op < 0:
        return None
    row = int(trace.ops.args[op])
    return trace.op_args.triton[row] if row >= 0 else None


def _group_keys(trace: Trace, work: WorkTable, attribution: Attribution, direct: I32 | None) -> I32:
    """A dense group number for every work row."""
    n = len(work.start)
    args = np.full(n, _NO_ROW, dtype=np.int64)
    with_op = work.op >= 0
    args[with_op] = trace.ops.args[work.op[with_op]]
    # Only the module and kernel file tell groups apart, not the call line: a kernel launched from three lines is one row.
    files: dict[tuple[str | None, str | None], int] = {}
    site_file = np.array(
        [files.setdefault((site.module, site.kernel_file), len(files)) for site in attribution.sites] or [0],
        dtype=np.int64,
    )
    file = np.where(attribution.site >= 0, site_file[np.maximum(attribution.site, 0)], _NO_ROW)
    columns = np.stack(
        [
            work.device.astype(np.int64),
            work.work.astype(np.int64),
            attribution.symbol.astype(np.int64),
            file,
            work.launch.astype(np.int64),
            args,
            work.name.astype(np.int64),
            (np.full(n, _NO_ROW) if direct is None else direct).astype(np.int64),
        ],
        axis=1,
    )
    _, inverse = np.unique(columns, axis=0, return_inverse=True)
    return inverse.reshape(-1).astype(np.int32)


def build_kernels(
    trace: Trace,
    work: WorkTable,
    attribution: Attribution,
    *,
    step_wall_us: float | None,
    direct: I32 | None = None,
) -> KernelRows:
    """All kernel rows, largest total first, an autotuner's trials behind them. ``step_wall_us`` is the wall time of all
    recorded steps together; ``direct`` tells launches of a program's own Triton kernels apart by their arguments
    (``DirectLaunches.of_work``)."""
    n = len(work.start)
    if n == 0:
        return KernelRows(
            kernels=[], of_work=np.zeros(0, np.int32), first_work=[], category_of_work=[], exposed=np.zeros(0)
        )
    group = _group_keys(trace, work, attribution, direct)
    groups = int(group.max()) + 1
    total = np.bincount(group, weights=work.time, minlength=groups)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(groups + 1))
    exposed = exposed_time(work)
    exposed_total = np.bincount(group, weights=exposed, minlength=groups)
    trials = attribution.trials
    all_time = float(work.time[~trials].sum())
    tuning = np.bincount(group, weights=trials, minlength=groups) > 0

    ranking = np.lexsort((-total, tuning))  # an autotuner's trials last
    index_of_group = np.empty(groups, dtype=np.int32)
    index_of_group[ranking] = np.arange(groups, dtype=np.int32)
    kernels: list[Kernel] = []
    first_work: list[int] = []
    category: list[Category] = []
    seen: dict[str, int] = {}
    for g in ranking:
        rows = order[bounds[g] : bounds[g + 1]]
        of_user = _is_users_triton(attribution, rows) or bool(direct is not None and direct[rows[0]] >= 0)
        kernel, representative = _kernel(trace, work, attribution, rows, seen, of_user)
        kernel.exposed_us = float(exposed_total[g])
        kernel.tuning = bool(tuning[g])
        if not kernel.tuning:
            kernel.share_pct = 100 * kernel.total_us / all_time if all_time > 0 else None
            kernel.step_share_pct = 100 * kernel.exposed_us / step_wall_us if step_wall_us else None
        kernels.append(kernel)
        first_work.append(representative)
        category.append(kernel.category)
    of_work = index_of_group[group]
    return KernelRows(
        kernels=kernels,
        of_work=of_work,
        first_work=first_work,
        category_of_work=[category[int(i)] for i in of_work],
        exposed=exposed,
    )


def _kernel(
    trace: Trace, work: WorkTable, attribution: Attribution, rows: Rows, seen: dict[str, int], of_user: bool
) -> tuple[Kernel, int]:
    times = work.time[rows]
    if len(rows) == 1:  # most rows of a trace with very many, and three percentiles cost more than all that follows
        q1 = median = q3 = mean = float(times[0])
        representative = int(rows[0])
    else:
        q1, median, q3 = (float(v) for v in np.percentile(times, [25, 50, 75]))
        mean = float(times.mean())
        representative = int(rows[int(np.argmin(np.abs(times - median)))])
    op = int(work.op[representative])
    chain = op_chain(trace, op)
    triton = triton_args(trace, op)
    symbol = trace.strings[int(work.name[representative])]
    name_row = int(attribution.symbol[representative])
    name = attribution.symbols[name_row] if name_row >= 0 else symbol
    if name.startswith(_GRAPH_CALL):
        # On a CPU the wrapper's own time is a unit of work; its key changes with every edit, so it is no name.
        name = symbol = _GRAPH_CALL.strip("# ")
    generated = _generated(work, attribution, rows)
    from_inductor = bool(triton and triton.get("kernel_backend", "triton") == "triton" and triton.get("kernel_file"))
    of_user = of_user and not from_inductor
    category = classify(
        symbol,
        chain if not work.on_cpu else [name, *chain[1:]],
        work=Work(int(work.work[representative])),
        on_cpu=work.on_cpu,
        triton=from_inductor or of_user,
        generated=from_inductor or (bool(generated) and not of_user),
    )
    launch = _launch(trace, work, representative, triton)
    shapes = _shapes(trace, op)
    aten_row = int(attribution.aten_set[representative])
    kernel = Kernel(
        id=_identity(int(work.device[representative]), name, symbol, launch, shapes, seen),
        name=name,
        symbol=symbol,
        device=int(work.device[representative]),
        category=category,
        count=len(rows),
        total_us=float(times.sum()),
        min_us=float(times.min()),
        q1_us=q1,
        median_us=median,
        q3_us=q3,
        max_us=float(times.max()),
        cov=float(times.std() / mean) if len(rows) > 1 and mean > 0 else None,
        launch=launch,
        generated=generated,
        aten=list(attribution.aten[aten_row]) if aten_row >= 0 else [],
        source=_sources(attribution, rows, times),
        slice=Slice(
            ts_us=trace.origin_ns / 1000 + float(work.start[representative]),
            dur_us=float(work.end[representative] - work.start[representative]),
        ),
    )
    return kernel, representative


def _is_users_triton(attribution: Attribution, rows: Rows) -> bool:
    """A kernel with a file but no generated module around it is a ``@triton.jit`` function of the user's."""
    site = int(attribution.site[rows[0]])
    return site >= 0 and attribution.sites[site].module is None and attribution.sites[site].kernel_file is not None


def _generated(work: WorkTable, attribution: Attribution, rows: Rows) -> list[GeneratedRef]:
    """The wrapper module with the time of each call line, then the single-kernel file."""
    sites = attribution.site[rows]
    known = sites >= 0
    if not known.any():
        return []
    refs: dict[tuple[str, int | None], GeneratedRef] = {}
    for site_row in np.unique(sites[known]):
        site = attribution.sites[int(site_row)]
        mine = sites == site_row
        if site.module is not None:
            ref = refs.setdefault(
                (site.module, site.definition_line), GeneratedRef(file=site.module, line=site.definition_line)
            )
            if site.call_line is not None:
                ref.call_lines.append(
                    CallLine(line=site.call_line, time_us=float(work.time[rows][mine].sum()), count=int(mine.sum()))
                )
        if site.kernel_file is not None:
            refs.setdefault(
                (site.kernel_file, site.kernel_line), GeneratedRef(file=site.kernel_file, line=site.kernel_line)
            )
    for ref in refs.values():
        ref.call_lines.sort(key=lambda call: call.line)
    return list(refs.values())


def _sources(attribution: Attribution, rows: Rows, times: F64) -> list[SourceRef]:
    """The user statements behind the row, by the time of the launches that they caused."""
    weight: dict[tuple[str, int], float] = {}
    refs: dict[tuple[str, int], SourceRef] = {}
    sources = attribution.source[rows]
    for row in np.unique(sources[sources >= 0]):
        mine = float(times[sources == row].sum())
        for ref in attribution.sources[int(row)]:
            key = (ref.file, ref.line)
            weight[key] = weight.get(key, 0.0) + mine
            refs.setdefault(key, ref)
    ranked = sorted(refs, key=lambda key: (refs[key].library, -weight[key], key))
    return [refs[key] for key in ranked[:MAX_SOURCES]]


def _launch(trace: Trace, work: WorkTable, row: int, triton: dict[str, Any] | None) -> Launch:
    launch = Launch()
    config = int(work.launch[row])
    if config >= 0:
        configs = trace.launch_configs
        grid, block = configs.grid[config], configs.block[config]
        launch.grid = list(grid) if grid is not None else None
        launch.block = list(block) if block is not None else None
        launch.registers = configs.registers[config]
        launch.shared_memory = configs.shared_memory[config]
    if triton:
        launch.num_warps = _integer(triton.get("num_warps"))
        launch.num_stages = _integer(triton.get("num_stages"))
        kwargs = triton.get("kernel_kwargs")
        launch.config = str(kwargs) if kwargs else None
    call = int(work.call[row])
    if call >= 0:
        launch.api = trace.strings[int(trace.calls.name[call])]
    return launch


def _integer(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _shapes(trace: Trace, op: int) -> str:
    row = int(trace.ops.args[op]) if op >= 0 else -1
    if row < 0:
        return ""
    return f"{trace.op_args.input_dims[row]}{trace.op_args.input_types[row]}"


def _identity(device: int, name: str, symbol: str, launch: Launch, shapes: str, seen: dict[str, int]) -> str:
    """Stable over runs: no path of a cache folder goes in; what then collides is told apart by rank of total time."""
    text = "\0".join(map(str, (device, name, symbol, launch.grid, launch.block, shapes)))
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
