"""Units of device work: what is counted, whatever the device.

With an accelerator a unit is a kernel, copy or memset. On a CPU-only machine the device is the CPU itself: a unit is
an op's own time (less its children), so that nested ops count once; Inductor's C++ kernels appear as the ops that the
agent wrapped around them. Attribution, categories, shares and lines all work on this one table.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.trace.tables import F64, I32, I64, U8


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
