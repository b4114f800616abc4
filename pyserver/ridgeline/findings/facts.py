"""What several rules derive from a context, each computed once: steps, the device's busy and idle time, what the host
waited for, and where an event stands in the user's code. Pure: nothing here changes the context."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ridgeline.findings import spans
from ridgeline.findings.host import HostFacts
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I32, Call, Work
from ridgeline.trace.work import within_marks

if TYPE_CHECKING:
    from ridgeline.findings.blocking import Block
    from ridgeline.findings.fresh import Fresh
    from ridgeline.findings.queue import Queue
    from ridgeline.findings.whatif import WhatIf

COLD_RATIO = 1.5
"""First step over the median of the others. Steady steps differ by a few per cent; the first recorded one also holds the
start of the recording, 3 to 4 ms on a device."""
LOADER_PREFIX = "enumerate(DataLoader)#"


def without_cold_start(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The steps less a first one that is not like the others: what it holds is not the cost of a step."""
    if len(steps) < 3:
        return steps
    walls = [hi - lo for lo, hi in steps]
    return steps[1:] if walls[0] >= COLD_RATIO * float(np.median(walls[1:])) else steps


class Facts(HostFacts):
    """A context and what follows from it. ``per_step`` turns a total over the recorded time into a step's part."""

    # -- steps ------------------------------------------------------------------------------------------------------

    @cached_property
    def on_cpu(self) -> bool:
        return self.work.on_cpu

    @cached_property
    def steps(self) -> list[tuple[float, float]]:
        """Start and end of every recorded step, offsets in microseconds; empty where the recording has no steps."""
        if self.trace.steps:
            if not self.on_cpu and not within_marks(self.trace, self.work):
                return []
            return without_cold_start([(s.start, s.start + s.dur) for s in self.trace.steps])
        if self.sidecar is None or self.trace.base_ns is None:
            return []
        return without_cold_start(
            [
                (self.offset(step.start_ns), self.offset(step.end_ns))
                for window in self.sidecar.windows
                for step in window.steps
            ]
        )

    @cached_property
    def host_steps(self) -> list[tuple[float, float]]:
        """When the host was at each of ``steps``. Where it runs ahead, and a step is the device's, that is when it handed the step's work
        over: several steps of the host may lie in one of the device's, so that what the host did is to be counted by these."""
        asked = {step.start: step.asked for step in self.trace.steps if step.asked is not None}
        found = [asked[lo] for lo, _ in self.steps if lo in asked]
        return found if len(found) == len(self.steps) else self.steps

    @cached_property
    def n(self) -> int:
        """Recorded steps; 1 where there are none: then the whole recording is looked at as one."""
        return max(1, len(self.steps))

    @cached_property
    def recorded(self) -> Spans:
        """The time that findings are about: the steps, or everything from the first event to the last."""
        if self.steps:
            return spans.of(self.steps)
        ends = [t for t in (self.trace.ops, self.trace.device_events, self.trace.calls) if len(t.start)]
        if not ends:
            return spans.nothing()
        if not self.on_cpu and len(self.trace.device_events.start):
            events = self.trace.device_events
            # Without steps the host's part before the first launch and after the last kernel is start and stop of the
            # profiler, never the user's cost.
            return spans.of([(float(events.start.min()), float((events.start + events.dur).max()))])
        return spans.of([(min(float(t.start.min()) for t in ends), max(float((t.start + t.dur).max()) for t in ends))])

    @cached_property
    def recorded_us(self) -> float:
        return spans.measure(self.recorded)

    @cached_property
    def step_us(self) -> float:
        """Mean wall time of a recorded step."""
        return self.recorded_us / self.n

    @cached_property
    def gate_us(self) -> float:
        """What gains are weighed against: the steps, or, where the recording has none and its edges are arbitrary, the time
        in which the device worked."""
        busy = spans.measure(self.busy)
        return self.base_us if self.steps or self.on_cpu or busy <= 0 else busy

    @property
    def whole(self) -> str:
        """What shares are shares of."""
        return "the step" if self.steps else "the recording"

    @property
    def per(self) -> str:
        """How views call the unit."""
        return "per step" if self.steps else "in the recording"

    def per_step(self, total_us: float) -> float:
        return total_us / self.n

    def offset(self, unix_ns: int) -> float:
        """Offset in the trace's own time of a moment of the Unix clock; the trace must have ``base_ns``."""
        assert self.trace.base_ns is not None
        return (unix_ns - self.trace.base_ns - self.trace.origin_ns) / 1000.0

    def real(self, claims: Spans) -> float:
        """Microseconds of a set of spans as they would be without the profiler: busy time as it is, idle time scaled. Of a CPU as
        recorded: there the recorder slows the operations and the Python between them about alike, so that shares stay what they
        are, and ``plain_scale`` turns them into an unprofiled step's time."""
        whole = self.clip(claims)
        if self.idle_scale == 1.0:
            return spans.measure(whole)
        idle = spans.measure(spans.intersect(whole, self.idle))
        return spans.measure(whole) - idle + idle * self.idle_scale

    @cached_property
    def plain_scale(self) -> float:
        """On a CPU the time of a step without the profiler over that of the recorded one, of which gains are shares; 1 where only
        the recorded one is known, and where the unprofiled ones took longer, which is others' doing: no saving is then above what
        the thing cost. (On a device ``base_us`` is the unprofiled step already.)"""
        plain = self.document.totals.plain_step_us
        if not (self.on_cpu and plain and self.steps and self.base_us > 0):
            return 1.0
        return min(1.0, plain * self.n / self.base_us)

    @cached_property
    def base_us(self) -> float:
        """What gains are shares of, over all recorded steps: their time as it would be without the profiler."""
        return self.real(self.recorded)

    def clip(self, pairs: Spans) -> Spans:
        return spans.intersect(pairs, self.recorded)

    def within(self, start: float) -> bool:
        """Whether a moment lies in the recorded steps."""
        rows = self.recorded
        at = int(np.searchsorted(rows.start, start, side="right")) - 1
        return at >= 0 and start < rows.end[at]

    def all_within(self, starts: F64) -> npt.NDArray[np.bool_]:
        """``within`` for many moments. Shape (n,)."""
        if not len(self.recorded.start):
            return np.zeros(len(starts), dtype=bool)
        at = np.searchsorted(self.recorded.start, starts, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (starts < self.recorded.end[np.maximum(at, 0)])
        return inside

    # -- how the recording was made ---------------------------------------------------------------------------------

    @cached_property
    def stacks(self) -> bool:
        """Whether Python stacks were recorded, which slows the host several times over."""
        recorded = self.document.source.recorded_with.stacks
        return bool(recorded) or bool(self.trace.metadata.get("with_stack"))

    @cached_property
    def slowdown(self) -> float | None:
        """Profiled step over plain step, both measured in this run; None where no plain step was measured."""
        plain, profiled = self.document.totals.plain_step_us, self.document.totals.profiled_step_us
        if not plain or plain <= 0:
            return None
        return (profiled or self.step_us) / plain

    @cached_property
    def lines(self) -> bool:
        """Whether the line timeline ran, which slows a host-bound step by up to a quarter."""
        return self.sidecar is not None and any(window.lines for window in self.sidecar.windows)

    @property
    def judged(self) -> bool:
        """Whether gaps on the device say anything about the program: not when stacks or the line timeline slowed the host
        and no plain step says by how much."""
        return self.on_cpu or self.slowdown is not None or not (self.stacks or self.lines)

    @property
    def unjudged_because(self) -> str:
        """Why gaps are not judged, in words."""
        return (
            "stacks were recorded" if self.stacks else "lines were recorded and no plain step was measured beside them"
        )

    @cached_property
    def idle_scale(self) -> float:
        """What part of the recorded idle time exists without the profiler: (plain - busy) / (recorded step - busy), so that the
        steps are as long as they were without it. 1 where no plain step was measured."""
        plain = self.document.totals.plain_step_us
        if not plain or self.on_cpu:
            return 1.0
        busy = self.per_step(spans.measure(self.busy))
        return min(1.0, max(0.0, plain - busy) / (self.step_us - busy)) if self.step_us > busy else 1.0

    # -- the device -------------------------------------------------------------------------------------------------

    @cached_property
    def device(self) -> int:
        """The accelerator with the most work, -1 on a CPU-only machine. Findings about idle time are about this one."""
        events = self.trace.device_events
        if self.on_cpu or not len(events.start):
            return -1
        ids, where = np.unique(events.device, return_inverse=True)
        return int(ids[int(np.argmax(np.bincount(where, weights=events.dur)))])

    @cached_property
    def device_rows(self) -> I32:
        """Rows of ``Trace.device_events`` of that device, in order of start."""
        return np.flatnonzero(self.trace.device_events.device == self.device).astype(np.int32)

    @cached_property
    def busy(self) -> Spans:
        """Time of the recorded steps in which the device worked."""
        return self.event_spans(self.device_rows)

    @cached_property
    def idle(self) -> Spans:
        return spans.subtract(self.recorded, self.busy)

    @cached_property
    def queue(self) -> Queue:
        """Gaps and criticality of that device."""
        from ridgeline.findings.queue import Queue

        return Queue(self)

    def late_us(self, part: Spans) -> float:
        """Microseconds of a part of the late launches, in the same figures as the document's idle time by cause: what that puts down
        to late launches is shared out by length."""
        whole = spans.together(
            self.queue.launch_spans,
            spans.subtract(self.clip(spans.of((g.start, g.end) for g in self.queue.long_gaps)), self.queue.excused),
        )
        known = self.document.idle.launch * self.n / (self.document.source.steps or self.n)
        measured = spans.measure(whole)
        return known * min(1.0, spans.measure(part) / measured) if known > 0 and measured > 0 else self.real(part)

    @cached_property
    def whatif(self) -> WhatIf:
        """What changes to the recorded steps save."""
        from ridgeline.findings.whatif import WhatIf

        return WhatIf(self)

    @cached_property
    def fresh(self) -> Fresh:
        """What new memory cost the recorded operations on a CPU."""
        from ridgeline.findings.fresh import fresh

        return fresh(self)

    @cached_property
    def blocks(self) -> list[Block]:
        """Every wait of the host for the device, and what it cost."""
        from ridgeline.findings.blocking import blocks

        return blocks(self)

    def event_spans(self, rows: Iterable[int] | I32) -> Spans:
        """Recorded time covered by these device events."""
        at = np.asarray(list(rows) if not isinstance(rows, np.ndarray) else rows, dtype=np.int64)
        events = self.trace.device_events
        return self.clip(spans.union(events.start[at], events.start[at] + events.dur[at]))

    def exposed(self, rows: Iterable[int] | I32) -> Spans:
        """Recorded time in which the device did nothing but these events."""
        mine = np.asarray(list(rows) if not isinstance(rows, np.ndarray) else rows, dtype=np.int64)
        others = self.device_rows[~np.isin(self.device_rows, mine)]
        return spans.subtract(self.event_spans(mine), self.event_spans(others))

    def event_name(self, row: int) -> str:
        return self.names[int(self.trace.device_events.name[row])]

    def claims_of(self, rows: Iterable[int]) -> Spans:
        """Time that the step would lose if these rows of work took none: on a device where they are critical
        (``Queue.critical``), on a CPU the ops' own stretches on the thread that runs the steps."""
        at = np.array(sorted(rows), dtype=np.int64)
        if not len(at):
            return spans.nothing()
        if not self.on_cpu:
            return self.queue.critical(self.work.event[at])
        return self.self_spans(self.work.op[at])

    def self_spans(self, ops: I32) -> Spans:
        """Recorded time in which these ops themselves ran, less what their children cover that are not of them: from the start of
        each, or the end of a child, to the start of the next child, or the end."""
        table, rows = self.trace.ops, np.unique(ops[ops >= 0])
        inside = np.flatnonzero(np.isin(table.parent, rows))
        ends = table.start + table.dur
        starts_of = np.concatenate([rows, table.parent[inside]])
        start = np.concatenate([table.start[rows], ends[inside]])
        ends_of = np.concatenate([table.parent[inside], rows])
        end = np.concatenate([table.start[inside], ends[rows]])
        lo, hi = start[np.lexsort((start, starts_of))], end[np.lexsort((end, ends_of))]
        return self.clip(spans.union(lo[lo < hi], hi[lo < hi]))

    def time_of(self, rows: Iterable[int]) -> float:
        """Counted microseconds of rows of work within the recorded steps."""
        return float(sum(self.work.time[r] for r in rows if self.within(float(self.work.start[r]))))

    @cached_property
    def recorded_work(self) -> list[int]:
        """Rows of work that start within the recorded steps."""
        return [int(r) for r in np.flatnonzero(self.all_within(self.work.start))]

    def by_line(self, rows: Iterable[int]) -> list[tuple[SourceRef | None, list[int]]]:
        """Rows of work by user statement, the one with the most time first; None for those without one."""
        groups: dict[tuple[str, int] | None, list[int]] = {}
        places: dict[tuple[str, int] | None, SourceRef | None] = {None: None}
        for row in rows:
            at = self.line_of_work(row)
            key = (at.file, at.line) if at is not None else None
            groups.setdefault(key, []).append(row)
            places[key] = at
        return sorted(
            ((places[k], v) for k, v in groups.items()), key=lambda item: -float(self.work.time[item[1]].sum())
        )

    def chain_of(self, row: int) -> list[str]:
        """Names of the ops that enclose a row of work, innermost first."""
        return [self.op_name(r) for r in self.ancestors(int(self.work.op[row]))]

    def copies(self) -> I32:
        """Rows of the device's copies within the recorded steps."""
        events = self.trace.device_events
        rows = self.device_rows
        return np.array(
            [r for r in rows[events.work[rows] == Work.MEMCPY] if self.within(float(events.start[r]))], dtype=np.int32
        )

    # -- what the host waited for -----------------------------------------------------------------------------------

    @cached_property
    def loader_waits(self) -> list[tuple[float, float, int, int]]:
        """(start, end, thread, index of the sidecar's loader or -1) of every wait for the data loader in the steps."""
        found: list[tuple[float, float, int, int]] = []
        if self.sidecar is not None and self.trace.base_ns is not None:
            for which, loader in enumerate(self.sidecar.loaders):
                for wait in loader.waits:
                    found.append((self.offset(wait.start_ns), self.offset(wait.end_ns), self.host_thread, which))
        if not found:
            for table in (self.trace.ranges, self.trace.ops):
                wanted = {i for i, text in enumerate(self.names) if text.startswith(LOADER_PREFIX)}
                for row in np.flatnonzero(np.isin(table.name, list(wanted))) if wanted else ():
                    start = float(table.start[row])
                    found.append((start, start + float(table.dur[row]), int(table.tid[row]), -1))
        return sorted(w for w in found if spans.measure(self.clip(spans.of([(w[0], w[1])]))) > 0)

    @cached_property
    def loader_spans(self) -> Spans:
        return self.clip(spans.of((start, end) for start, end, _, _ in self.loader_waits))

    @cached_property
    def compile_spans(self) -> Spans:
        """Compilation and autotuning within the recorded steps."""
        if self.sidecar is None or self.trace.base_ns is None:
            return spans.nothing()
        return self.clip(spans.of((self.offset(c.start_ns), self.offset(c.end_ns)) for c in self.sidecar.compiles))

    def op_spans(self, rows: Iterable[int] | I32) -> Spans:
        at = np.asarray(list(rows) if not isinstance(rows, np.ndarray) else rows, dtype=np.int64)
        return self.clip(spans.union(self.trace.ops.start[at], self.trace.ops.start[at] + self.trace.ops.dur[at]))

    # -- calls ------------------------------------------------------------------------------------------------------

    def call_name(self, row: int) -> str:
        return self.names[int(self.trace.calls.name[row])]

    @cached_property
    def launch_calls(self) -> I32:
        """Rows of the launching calls within the recorded steps."""
        calls = self.trace.calls
        launches = (calls.kind == Call.LAUNCH) | (calls.kind == Call.GRAPH_LAUNCH)
        return np.flatnonzero(launches & self.all_within(calls.start)).astype(np.int32)

    def events_launched_between(self, tid: int, start: float, end: float) -> list[int]:
        """Rows of the device's events that a thread launched in [start, end)."""
        return self.events_launched_in([(tid, start, end)])

    def events_launched_in(self, stretches: Iterable[tuple[int, float, float]]) -> list[int]:
        """Rows of the device's events that were launched in any of these stretches (thread, start, end), each once, in order."""
        calls, rows = self.trace.calls, self.device_rows
        inside = self.calls_in(stretches)
        call = self.trace.device_events.call[rows]
        known: list[int] = np.sort(rows[(call >= 0) & inside[np.maximum(call, 0)]]).tolist() if len(calls.start) else []
        return known

    def calls_in(self, stretches: Iterable[tuple[int, float, float]]) -> npt.NDArray[np.bool_]:
        """Whether each call began on a thread in one of its stretches [start, end). Shape (calls,)."""
        calls, known = self.trace.calls, list(stretches)
        inside = np.zeros(len(calls.start), dtype=bool)
        for tid in {tid for tid, _, _ in known}:
            inside |= (calls.tid == tid) & spans.within(spans.of((a, b) for t, a, b in known if t == tid), calls.start)
        return inside

    @cached_property
    def graph_launches(self) -> int:
        """How many CUDA graphs were replayed in the recorded steps."""
        return int((self.trace.calls.kind[self.launch_calls] == Call.GRAPH_LAUNCH).sum())

    @cached_property
    def call_us(self) -> float:
        """Time the host spent in calls that give the device work (waits excluded), a part that Python stacks do not
        slow down: it is C code of the driver."""
        calls = self.trace.calls
        rows = np.flatnonzero((calls.kind != Call.SYNC) & (calls.kind != Call.MEMCPY) & (calls.kind != Call.MALLOC))
        return spans.measure(self.clip(spans.union(calls.start[rows], calls.start[rows] + calls.dur[rows])))
