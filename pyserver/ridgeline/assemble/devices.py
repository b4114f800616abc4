"""Device rows, categories and steps: how the device spends its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeline.assemble.kernels import KernelRows
from ridgeline.assemble.pace import handed_over
from ridgeline.profile import CATEGORIES, Category, CategoryRow, Device, Step
from ridgeline.sidecar import Sidecar
from ridgeline.trace.intervals import EMPTY, clip, subtract, union
from ridgeline.trace.tables import F64, DeviceInfo, Trace, Work
from ridgeline.trace.work import WorkTable, within_marks


@dataclass(slots=True, frozen=True)
class WindowOf:
    """The recorded stretch in offsets of the trace, and how many steps it holds."""

    start: float
    end: float
    steps: int | None
    wall_us: float
    """Wall time of the steps; of the span where steps are unknown."""
    known: bool
    """Whether steps delimit it."""


def window_of(trace: Trace, work: WorkTable) -> WindowOf:
    """From the first step to the last, edges included, and on to the end of the device work that they launched."""
    if trace.steps and (work.on_cpu or not len(work.start) or within_marks(trace, work)):
        start = min(step.start for step in trace.steps)
        end = max(step.start + step.dur for step in trace.steps)
        wall = end - start
        if not work.on_cpu and len(work.end):
            end = max(end, float((work.start + work.time).max()))
        return WindowOf(start, end, len(trace.steps), wall, True)
    starts = [t for t in (work.start, trace.ops.start, trace.calls.start) if len(t)]
    if not starts:
        return WindowOf(0.0, 0.0, None, 0.0, False)
    start = min(float(t.min()) for t in starts)
    ends = [float(work.end.max())] if len(work.end) else []
    ends += [float((t.start + t.dur).max()) for t in (trace.ops, trace.calls) if len(t.start)]
    return WindowOf(start, max(ends), None, max(ends) - start, False)


def device_rows(trace: Trace, work: WorkTable, rows: KernelRows, window: WindowOf) -> list[Device]:
    """One row a device that did work."""
    category = np.array([CATEGORIES.index(c) for c in rows.category_of_work], dtype=np.int64)
    communication = category == CATEGORIES.index("communication") if len(category) else np.zeros(0, bool)
    devices = []
    for info in _infos(trace, work):
        mine = work.device == info.id
        end = work.start + work.time if not work.on_cpu else work.end
        busy = union(work.start[mine], end[mine])
        kind = {w: mine & (work.work == w) for w in Work}
        copies = kind[Work.MEMCPY] | kind[Work.MEMSET]
        comm = mine & communication
        compute = mine & ~copies & ~communication if len(category) else mine
        span = float(busy.end[-1] - busy.start[0]) if len(busy.start) else None
        busy_us = busy.total if len(busy.start) else None
        inside = clip(busy, window.start, window.end).total
        window_us = window.end - window.start if window.known else None
        devices.append(
            Device(
                id=info.id,
                name=info.name,
                kind=info.kind,  # type: ignore[arg-type]  # the reader names only kinds of the contract
                span_us=span,
                busy_us=busy_us,
                idle_pct=100 * (1 - busy_us / span) if span and busy_us is not None else None,
                window_us=window_us,
                window_idle_pct=max(0.0, 100 * (1 - inside / window_us)) if window_us else None,
                kernel_us=float(work.time[kind[Work.KERNEL]].sum()),
                memcpy_us=float(work.time[kind[Work.MEMCPY]].sum()),
                memset_us=float(work.time[kind[Work.MEMSET]].sum()),
                communication_us=float(work.time[comm].sum()),
                exposed_copy_us=_exposed(work, end, copies, mine & ~copies),
                exposed_communication_us=_exposed(work, end, comm, compute),
                streams=len(np.unique(work.stream[mine])),
            )
        )
    return devices


def _exposed(work: WorkTable, end: F64, these: np.ndarray, others: np.ndarray) -> float:
    return subtract(union(work.start[these], end[these]), union(work.start[others], end[others])).total


def _infos(trace: Trace, work: WorkTable) -> list[DeviceInfo]:
    used = {int(d) for d in np.unique(work.device)} if len(work.device) else set()
    known = {info.id: info for info in trace.devices}
    return [known.get(d, DeviceInfo(id=d, name=f"device {d}", kind="cuda")) for d in sorted(used)]


def category_rows(work: WorkTable, rows: KernelRows) -> list[CategoryRow]:
    """Time a category and device without an autotuner's trials; shares of the device's summed time add to 100."""
    totals: dict[tuple[int, Category], tuple[float, int]] = {}
    for kernel in rows.kernels:
        if kernel.tuning:
            continue
        time, count = totals.get((kernel.device, kernel.category), (0.0, 0))
        totals[kernel.device, kernel.category] = (time + kernel.total_us, count + kernel.count)
    whole: dict[int, float] = {}
    for (device, _), (time, _count) in totals.items():
        whole[device] = whole.get(device, 0.0) + time
    ranked = sorted(totals.items(), key=lambda item: (item[0][0], -item[1][0]))
    return [
        CategoryRow(
            device=device,
            category=category,
            time_us=time,
            share_pct=100 * time / whole[device] if whole[device] > 0 else 0.0,
            count=count,
        )
        for (device, category), (time, count) in ranked
    ]


def step_rows(trace: Trace, work: WorkTable) -> list[Step]:
    """Each step's wall time and the device work that it launched (by when the host asked for it).

    Where the CPU is the device nothing runs later: a step's work is what ran in it, up to its end, from whichever step.
    """
    end = work.start + work.time if not work.on_cpu else work.end
    steps = []
    all_busy = union(work.start, end) if work.on_cpu else EMPTY
    for row, mine in zip(trace.steps, handed_over(trace, work), strict=True):
        busy = clip(all_busy, row.start, row.start + row.dur) if work.on_cpu else union(work.start[mine], end[mine])
        steps.append(
            Step(
                name=row.name,
                start_us=trace.origin_ns / 1000 + row.start,
                wall_us=row.dur,
                busy_us=busy.total,
                kernels=len(mine),
                window=row.window,
            )
        )
    return steps


def median_us(values_ns: list[int]) -> float | None:
    return float(np.median(values_ns)) / 1000 if values_ns else None


def overhead_pct(sidecar: Sidecar | None) -> float | None:
    """How much slower a profiled step is than a plain one, measured in the same run."""
    if sidecar is None or not sidecar.plain_steps_ns or not sidecar.profiled_steps_ns:
        return None
    plain, profiled = np.median(sidecar.plain_steps_ns), np.median(sidecar.profiled_steps_ns)
    # Below zero is noise, and says that the overhead cannot be told from it.
    return max(0.0, float(100 * (profiled / plain - 1))) if plain > 0 else None
