"""The device's queue: which gaps exist because the host came late, and which kernels the step really waits for."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans
from ridgeline.trace.tables import F64, I32, Call

HOST_BOUND_PCT = 15.0
"""Of the step; the threshold of ``launch-bound``."""
LAUNCH_US = 1500.0
"""Longest gap that is put down to launching. An eager operation takes the host 5 to 50 µs, an optimizer that reads its step
counts one by one a millisecond; in a longer gap the host does something else (``host-work``). HTA leaves gaps of more than
1.5 ms between kernels unexplained for the same reason."""


OPERATOR = "aten::"
"""Torch's own. What a program registers (``mylib::op``) may be Python, which is work like any other of the program's."""


class Gap(NamedTuple):
    """Device idle before an event."""

    start: float
    end: float
    event: int
    """Row of ``Trace.device_events`` that ended it."""


class Queue:
    """Gaps and criticality of one device."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        events, calls, rows = facts.trace.device_events, facts.trace.calls, facts.device_rows
        self.rows: I32 = rows
        self.start: F64 = events.start[rows]
        self.reach: F64 = np.maximum.accumulate(self.start + events.dur[rows]) if len(rows) else self.start
        call = events.call[rows]
        safe = np.maximum(call, 0)
        self.launched: F64 = np.where(call >= 0, calls.start[safe] if len(calls.start) else np.nan, np.nan)

    @cached_property
    def before(self) -> F64:
        """End of all work before each event: the moment from which the device was free for it."""
        return np.append(-np.inf, self.reach[:-1]) if len(self.reach) else self.reach

    @cached_property
    def late(self) -> npt.NDArray[np.bool_]:
        """Events whose launch began only after the device had run dry."""
        return (self.start > self.before) & (self.launched > self.before)

    @cached_property
    def late_gaps(self) -> list[Gap]:
        """Gaps within the recorded time that end with an event launched late. Not the one before the very first event: what
        the device did before the recording is not known."""
        found = []
        for at in np.flatnonzero(self.late & np.isfinite(self.before)):
            lo, hi = float(self.before[at]), float(self.start[at])
            lo = max(lo, float(self.facts.recorded.start[0])) if len(self.facts.recorded.start) else lo
            if hi > lo and self.facts.within(hi):
                found.append(Gap(lo, hi, int(self.rows[at])))
        return found

    @cached_property
    def excused(self) -> Spans:
        """Time in which the host waited, loaded, copied or compiled, and gaps that a wait left behind."""
        calls = self.facts.trace.calls
        busy = np.flatnonzero((calls.kind == Call.SYNC) | (calls.kind == Call.MEMCPY) | (calls.kind == Call.MALLOC))
        waiting = spans.union(calls.start[busy], calls.start[busy] + calls.dur[busy])
        return spans.together(
            waiting,
            self.facts.loader_spans,
            self.facts.compile_spans,
            *(block.gap for block in self.facts.blocks),
        )

    @cached_property
    def launching(self) -> list[Gap]:
        """Late gaps that are put down to launching: short ones, and those throughout which the host was within the operator that
        launched what ended them. A library that prepares for milliseconds before it launches (cuDNN's recurrent layers, backward) is as
        slow a launch as any, and no work of the program's own."""
        return [gap for gap in self.late_gaps if gap.end - gap.start <= LAUNCH_US or self._in_operator(gap)]

    def _in_operator(self, gap: Gap) -> bool:
        facts, op = self.facts, int(self.facts.trace.device_events.op[gap.event])
        return any(
            facts.op_name(row).startswith(OPERATOR) and facts.trace.ops.start[row] <= gap.start
            for row in facts.ancestors(op)
        )

    @cached_property
    def launch_spans(self) -> Spans:
        """Device idle whose only cause is that the host launches too slowly."""
        gaps = self.facts.clip(spans.of((g.start, g.end) for g in self.launching))
        return spans.subtract(gaps, self.excused)

    @cached_property
    def long_gaps(self) -> list[Gap]:
        """Late gaps too long for launching, in which no operator was at it, before whose end the host neither waited, loaded, copied nor compiled."""
        found = []
        for gap in self.late_gaps:
            if gap.end - gap.start > LAUNCH_US and not self._in_operator(gap):
                left = spans.subtract(self.facts.clip(spans.of([(gap.start, gap.end)])), self.excused)
                if spans.measure(left) > LAUNCH_US:
                    found.append(gap)
        return found

    @cached_property
    def short_gaps(self) -> tuple[int, float]:
        """(count, µs) of the gaps under a full queue: about a microsecond each, a matter of fusion, not of the host."""
        gap = (self.start > self.before) & ~self.late & np.isfinite(self.before)
        inside = [i for i in np.flatnonzero(gap) if self.facts.within(float(self.start[i]))]
        return len(inside), float((self.start[inside] - self.before[inside]).sum()) if inside else 0.0

    @cached_property
    def host_bound(self) -> bool:
        """Whether late launches are a large part of the step: then the host's clock decides when most kernels begin."""
        return self.facts.real(self.launch_spans) >= HOST_BOUND_PCT / 100.0 * self.facts.base_us

    def critical(self, rows: I32 | list[int]) -> Spans:
        """Recorded time that the step would lose if these events took none: they run alone, and what comes next was
        already queued, or the host stood waiting for them. Before a late launch a faster kernel only idles longer; in a
        step that is host-bound that holds for everything up to the next late launch, unless the host waits between."""
        mine = np.asarray(rows, dtype=np.int64)
        events = self.facts.trace.device_events
        ends = events.start[mine] + events.dur[mine]
        follows = np.searchsorted(self.rows, mine) + 1
        late_rows = np.flatnonzero(self.late)
        if self.host_bound:
            at = np.searchsorted(late_rows, follows)
            known = at < len(late_rows)
            next_late = np.full(len(mine), np.inf)
            next_late[known] = self.start[late_rows[at[known]]]
        else:
            known = follows < len(self.rows)
            next_late = np.full(len(mine), np.inf)
            directly = np.zeros(len(mine), dtype=bool)
            directly[known] = self.late[follows[known]]
            next_late[directly] = self.start[follows[directly]]
        waits = np.searchsorted(self._waits, ends)
        waited = np.zeros(len(mine), dtype=bool)
        inside = waits < len(self._waits)
        waited[inside] = self._waits[waits[inside]] <= next_late[inside]
        return self.facts.exposed(mine[~np.isfinite(next_late) | waited].astype(np.int32))

    @cached_property
    def _waits(self) -> F64:
        """Ends of the host's waits, in order."""
        return np.sort(np.array([b.end for b in self.facts.blocks], dtype=np.float64))
