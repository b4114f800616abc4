"""Tracks that the trace does not have: how busy the device is, how long its queue, memory, and the findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from ridgeline.perfetto.lanes import micros
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

    def events(self, lanes: Lanes) -> Iterator[dict[str, Any]]:
        yield from self._busy(lanes)
        yield from self._queue(lanes)
        yield from self._memory(lanes)
        yield from self._findings()

    def _counter(self, pid: int, name: str, time: F64, value: Any) -> Iterator[dict[str, Any]]:
        """Of too many points each stretch keeps its highest: what the track is looked at for."""
        values = np.asarray(value)
        step = -(-len(time) // MAX_POINTS)
        if step > 1:
            starts = np.arange(0, len(time), step)
            highest = np.maximum.reduceat(values, starts)
            time, values = time[starts], highest
        # The interface shows the name and the value's key, with a space between them.
        what, _, key = name.partition(" ")
        for t, v in zip(time.tolist(), values.tolist()):
            yield {"ph": "C", "name": what, "pid": pid, "ts": self._ts(t), "args": {key: v}}

    def _ts(self, offset_us: float) -> msgspec.Raw:
        """In the file's own time, to the nanosecond."""
        return micros(self._trace.origin_ns + round(offset_us * 1000))

    def _busy(self, lanes: Lanes) -> Iterator[dict[str, Any]]:
        """1 while anything runs on a device."""
        events = self._trace.device_events
        for device, pid, mine in self._devices(lanes):
            busy = union(events.start[mine], events.start[mine] + events.dur[mine])
            time = np.stack([busy.start, busy.end], axis=1).reshape(-1)
            yield from self._counter(pid, f"device busy, GPU {device}", time, np.tile([1, 0], len(busy.start)))

    def _queue(self, lanes: Lanes) -> Iterator[dict[str, Any]]:
        """Launched and not yet begun."""
        events, calls = self._trace.device_events, self._trace.calls
        for device, pid, mine in self._devices(lanes):
            rows = np.flatnonzero(mine & (events.call >= 0) & (events.work == Work.KERNEL))
            if not len(rows):
                continue
            asked, begun = calls.start[events.call[rows]], events.start[rows]
            time = np.concatenate([asked, np.maximum(begun, asked)])
            change = np.concatenate([np.ones(len(rows)), -np.ones(len(rows))])
            order = np.lexsort((-change, time))
            yield from self._counter(
                pid, f"launches waiting, GPU {device}", time[order], np.cumsum(change[order]).astype(np.int64)
            )

    def _devices(self, lanes: Lanes) -> Iterator[tuple[int, int, npt.NDArray[np.bool_]]]:
        """Each device with the process of its lanes, and which events are its own."""
        of = self._trace.device_events.device
        for device in np.unique(of).tolist():
            pid = lanes.process("device", str(device))
            if pid is not None:
                yield device, pid, of == device

    def _memory(self, lanes: Lanes) -> Iterator[dict[str, Any]]:
        """What the allocators hold, where memory was recorded."""
        memory = self._trace.memory
        if memory is None:
            return
        for device in np.unique(memory.device).tolist():
            pid = lanes.process("device", str(device)) if device >= 0 else None
            pid = pid if pid is not None else lanes.process("host")
            rows = np.flatnonzero((memory.device == device) & (memory.total_allocated >= 0))
            if pid is None or not len(rows):
                continue
            where = "" if device < 0 else f", GPU {device}"
            rows = rows[np.argsort(memory.time[rows], kind="stable")]
            time = memory.time[rows]
            yield from self._counter(pid, f"memory allocated{where}", time, memory.total_allocated[rows])
            reserved = memory.total_reserved[rows]
            if (reserved > 0).any():
                yield from self._counter(pid, f"memory reserved{where}", time, reserved)

    def _findings(self) -> Iterator[dict[str, Any]]:
        """One slice a finding over the recorded steps, so that its text is at hand beside the timeline."""
        document = self._document
        if document is None or not document.findings:
            return
        zero = self._trace.origin_ns / 1000
        starts = [s.start_us for s in document.steps] or [zero]
        ends = [s.start_us + s.wall_us for s in document.steps] or [zero + (document.totals.wall_us or 0.0)]
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
