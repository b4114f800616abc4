"""Tracks that the trace does not have: how busy the device is, how long its queue, memory, and the findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.profile import ProfileDocument
from ridgeline.trace.intervals import union
from ridgeline.trace.tables import F64, Trace, Work

if TYPE_CHECKING:
    from ridgeline.perfetto.lanes import Lanes

MAX_POINTS = 50_000
"""Of one counter: more slows the interface and shows nothing."""
FINDINGS_ID = 99
"""Process of the findings track; lanes of the trace start at 100."""


class Tracks:
    """Built from the tables and, where there is one, the profile document. Times as in the file."""

    def __init__(self, trace: Trace, document: ProfileDocument | None = None) -> None:
        self._trace = trace
        self._document = document
        self._zero = trace.origin_ns / 1000

    def events(self, lanes: Lanes) -> Iterator[dict[str, Any]]:
        device, host = lanes.process("device"), lanes.process("host")
        if device is not None:
            yield from self._busy(device)
            yield from self._queue(device)
        if (target := device if device is not None else host) is not None:
            yield from self._memory(target)
        yield from self._findings()

    def _counter(self, pid: int, name: str, time: F64, value: Any) -> Iterator[dict[str, Any]]:
        step = max(1, -(-len(time) // MAX_POINTS))
        for t, v in zip(time[::step].tolist(), value[::step].tolist()):
            yield {"ph": "C", "name": name, "pid": pid, "ts": self._zero + t, "args": {"value": v}}

    def _busy(self, pid: int) -> Iterator[dict[str, Any]]:
        events = self._trace.device_events
        busy = union(events.start, events.start + events.dur)
        time = np.stack([busy.start, busy.end], axis=1).reshape(-1)
        yield from self._counter(pid, "device busy", time, np.tile([1, 0], len(busy.start)))

    def _queue(self, pid: int) -> Iterator[dict[str, Any]]:
        """Launched and not yet begun."""
        events, calls = self._trace.device_events, self._trace.calls
        rows = np.flatnonzero((events.call >= 0) & (events.work == Work.KERNEL))
        if not len(rows):
            return
        asked, begun = calls.start[events.call[rows]], events.start[rows]
        time = np.concatenate([asked, np.maximum(begun, asked)])
        change = np.concatenate([np.ones(len(rows)), -np.ones(len(rows))])
        order = np.lexsort((-change, time))
        yield from self._counter(pid, "launches waiting", time[order], np.cumsum(change[order]).astype(np.int64))

    def _memory(self, pid: int) -> Iterator[dict[str, Any]]:
        memory = self._trace.memory
        if memory is None:
            return
        for device in np.unique(memory.device):
            rows = np.flatnonzero((memory.device == device) & (memory.total_allocated >= 0))
            name = "memory allocated" if device < 0 else f"memory allocated, GPU {device}"
            yield from self._counter(pid, name, memory.time[rows], memory.total_allocated[rows])

    def _findings(self) -> Iterator[dict[str, Any]]:
        """One slice a finding over the recorded steps, so that its text is at hand beside the timeline."""
        document = self._document
        if document is None or not document.findings:
            return
        starts = [s.start_us for s in document.steps] or [self._zero]
        ends = [s.start_us + s.wall_us for s in document.steps] or [self._zero + (document.totals.wall_us or 0.0)]
        yield {"ph": "M", "name": "process_name", "pid": FINDINGS_ID, "args": {"name": "Ridgeline findings"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": FINDINGS_ID, "args": {"sort_index": -1}}
        for number, finding in enumerate(document.findings):
            tid = FINDINGS_ID + 1 + number
            yield {"ph": "M", "name": "thread_name", "pid": FINDINGS_ID, "tid": tid, "args": {"name": finding.code}}
            args: dict[str, Any] = {"message": finding.message}
            if finding.file and finding.line:
                args["line"] = f"{finding.file}:{finding.line}"
            if finding.saving_us is not None:
                args["saves_us_per_step"] = finding.saving_us
            yield {
                "ph": "X", "cat": "finding", "name": finding.title, "pid": FINDINGS_ID, "tid": tid,
                "ts": min(starts), "dur": max(ends) - min(starts), "args": args,
            }  # fmt: skip
