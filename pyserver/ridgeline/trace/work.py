"""Units of device work: what is counted, whatever the device.

With an accelerator a unit is a kernel, copy or memset. On a CPU-only machine the device is the CPU itself: a unit is
an op's own time (less its children), so that nested ops count once; Inductor's C++ kernels appear as the ops that the
agent wrapped around them. Attribution, categories, shares and lines all work on this one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeline.trace.bounds import bounded
from ridgeline.trace.tables import F64, I32, I64, U8, Trace, Work


@dataclass(slots=True, kw_only=True)
class WorkTable:
    on_cpu: bool
    start: F64
    time: F64
    """Counted microseconds: the duration on an accelerator (bounded where the record is impossible), self time on a CPU."""
    end: F64
    """start + full duration (on a CPU this includes the children)."""
    name: I32
    """In ``Trace.strings``."""
    work: U8
    """``tables.Work``"""
    device: I32
    stream: I64
    """Stream on an accelerator, thread id on a CPU."""
    call: I32
    op: I32
    launch: I32
    event: I32
    """Row in ``Trace.device_events``, -1 on a CPU."""


def work_table(trace: Trace) -> WorkTable:
    """The units of ``trace``, in order of start.

    ``on_cpu`` holds where the trace knows no accelerator at all. A trace with launches and no device events gives an
    empty table on the accelerator: nothing is known of it, which is not the same as no time.
    """
    on_cpu = all(device.kind == "cpu" for device in trace.devices)
    return _of_ops(trace) if on_cpu else _of_device(trace)


def _of_device(trace: Trace) -> WorkTable:
    events = trace.device_events
    time, _ = bounded(trace)
    return WorkTable(
        on_cpu=False,
        start=events.start,
        time=time,
        end=events.start + time,
        name=events.name,
        work=events.work,
        device=events.device,
        stream=events.stream,
        call=events.call,
        op=events.op,
        launch=events.launch,
        event=np.arange(len(events.start), dtype=np.int32),
    )


def asked_at(trace: Trace, work: WorkTable) -> F64:
    """When the host asked for each piece of work; where nothing tells, when it began."""
    asked: F64 = work.start.copy()
    for table, index in ((trace.ops, work.op), (trace.calls, work.call)):
        known = index >= 0
        asked[known] = table.start[index[known]]
    return asked


def within_marks(trace: Trace, work: WorkTable) -> bool:
    """Whether any of the trace's steps has work of its own, asked for or begun in it. Marks that enclose none of a device's work
    (a benchmark's label of something between its runs) are not steps of it."""
    asked = asked_at(trace, work)
    marks = [step.asked or (step.start, step.start + step.dur) for step in trace.steps]
    return any(bool(((t >= lo) & (t < hi)).any()) for lo, hi in marks for t in (asked, work.start))


def _of_ops(trace: Trace) -> WorkTable:
    ops = trace.ops
    n = len(ops.start)
    none = np.full(n, -1, dtype=np.int32)
    return WorkTable(
        on_cpu=True,
        start=ops.start,
        time=ops.self_dur,
        end=ops.start + ops.dur,
        name=ops.name,
        work=np.full(n, Work.KERNEL, dtype=np.uint8),
        device=np.full(n, trace.devices[0].id if trace.devices else 0, dtype=np.int32),
        stream=ops.tid,
        call=none,
        op=np.arange(n, dtype=np.int32),
        launch=none,
        event=none,
    )
