"""What a change saves: the steps played as they are against the steps played without it, at the program's own pace.

A recording slows the host: every operation and every launch is written down. The device works as fast as ever. So before
anything is taken away the host's pace is found at which the steps, played as they are, take the time that a step took without
a profiler. Where the device sets the pace that time says little about the host (it is hidden), and where there is no such
time it says nothing: then the host is taken to be as much faster as hosts were in recordings whose programs' times are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from ridgeline.findings import spans
from ridgeline.findings.blocking import waiting_calls
from ridgeline.findings.facts import Facts
from ridgeline.findings.queue import LAUNCH_US
from ridgeline.findings.replay import NOTHING, Change, Pace, Replay
from ridgeline.findings.spans import Spans
from ridgeline.findings.stretches import Stretch
from ridgeline.trace.tables import I32, Call

USUAL_HOST, HOST_SPREAD = 0.45, 0.10
"""The host's time without a profiler over its time in a recording of ours, and how much that varies: 0.34 to 0.44 of three programs
that the host bounds alone on a machine with an H200, 0.40 to 0.68 of seven with three others running beside them (the middles of
both sets: 0.41 and 0.50)."""
USUAL_DEVICE, DEVICE_SPREAD = 1.01, 0.03
"""What the device takes in a long run over what it took in a recording: 0.94 to 1.05 of sixteen programs on an H200 that it bounds and
that wait for nothing. Dense 16-bit products meet the power limit in a long run."""
CONSTANT_SPREAD = 0.2
"""How much the host's own work (NumPy over a table, files, texts) varies between the recording and the unprofiled steps: such
programs differed by a fifth and more between five runs of their own (``tests/seeded/README.md``), and by as much from step to step."""
CONSTANT_MOST = 3.0
"""Within which its factor is looked for."""
LIMITS = (0.8, 1.3)
"""Within which the device's factor is looked for."""
FULL = 20.0
"""Times the usual length of a launch call from which it stood before a full queue, and no less than ``FULL_US``."""
FULL_US = 100.0
STEPS = 10
"""Halvings of the interval in which a pace lies."""
EXACT = 0.002
"""Of a step: played ones are as long as they should be."""
PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)


class WhatIf:
    """Savings of changes to the recorded steps. Only where gaps are judged at all (``Facts.judged``)."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def replay(self) -> Replay:
        facts = self.facts
        return Replay(facts.trace, facts.device_rows, self._host, self._blocking, self._constant)

    @cached_property
    def _host(self) -> Spans:
        """When the host was at the recorded steps. Where it runs ahead and a step is the device's, it is when its work was
        handed over; without steps, from the first launch on."""
        facts = self.facts
        asked = [s.asked for s in facts.trace.steps if s.asked is not None and facts.within(s.start + s.dur / 2)]
        if facts.steps:
            return spans.of(asked) if len(asked) == len(facts.steps) else facts.recorded
        launched = facts.queue.launched[np.isfinite(facts.queue.launched)]
        if not len(launched) or not len(facts.recorded.end):
            return spans.nothing()
        return spans.of([(float(launched.min()), float(facts.recorded.end[-1]))])

    @cached_property
    def _blocking(self) -> I32:
        """Calls that stop the host: for the device (which memory is given back only after, too), or before a full queue."""
        calls = self.facts.trace.calls
        launches = np.flatnonzero((calls.kind == Call.LAUNCH) | (calls.kind == Call.GRAPH_LAUNCH))
        usual = float(np.median(calls.dur[launches])) if len(launches) else 0.0
        full = launches[calls.dur[launches] > max(FULL_US, FULL * usual)]
        freeing = [i for i, name in enumerate(self.facts.names) if "Free" in name and "Async" not in name]
        frees = np.flatnonzero((calls.kind == Call.MALLOC) & np.isin(calls.name, freeing))
        return np.unique(np.concatenate([waiting_calls(self.facts), full, frees])).astype(np.int32)

    @cached_property
    def _constant(self) -> Spans:
        """What no profiler slows, for it writes down operations and calls: the driver's copying and taking of memory, waits for
        a loader, and stretches in which the host does neither."""
        calls, ops = self.facts.trace.calls, self.facts.trace.ops
        rows = np.flatnonzero((calls.kind == Call.MEMCPY) | (calls.kind == Call.MALLOC))
        driver = spans.union(calls.start[rows], calls.start[rows] + calls.dur[rows])
        edges = [ops.start, ops.start + ops.dur, calls.start, calls.start + calls.dur, self._host.start, self._host.end]
        moments = np.sort(np.concatenate(edges))
        quiet = spans.of((a, b) for a, b in itertools.pairwise(moments.tolist()) if b - a > LAUNCH_US)
        return spans.together(driver, quiet, self.facts.loader_spans)

    @cached_property
    def pace(self) -> Pace:
        """Of host and device without a profiler, against the recording: of all pairs at which a step takes as long as it did
        unprofiled the one that is least unusual."""
        plain = self.facts.document.totals.plain_step_us
        if not plain:
            return Pace(1.0 if self.facts.queue.host_bound else USUAL_HOST)
        # All of the difference is the host's doing, none of it is, or a part.
        own = self._solve(plain, lambda x: Pace(x, USUAL_DEVICE), 0.0, 1.0)
        _, best = min(
            (
                unusual(plain, own + part * (USUAL_HOST - own))
                for part in PARTS
                for unusual in (self._unusual, self._unusual_work)
            ),
            key=lambda each: each[0],
        )
        return best if self.alone else replace(best, host=min(best.host, USUAL_HOST))

    def _unusual(self, plain: float, host: float) -> tuple[float, Pace]:
        """How far from what is usual a pace of the host is together with the device's that goes with it."""
        device = USUAL_DEVICE
        if abs(self._step(Pace(host, device)) - plain) > EXACT * plain:
            device = self._solve(plain, lambda x: Pace(host, x), *LIMITS)
        return self._far(plain, Pace(host, device)), Pace(host, device)

    def _unusual_work(self, plain: float, host: float) -> tuple[float, Pace]:
        """The same where the unprofiled steps took longer because the host's own work did, and not the device. (That it took
        less is not looked for: the host's pace says that.)"""

        def working(x: float) -> Pace:
            return Pace(host, USUAL_DEVICE, x)

        pace = working(1.0)
        if self._step(pace) < (1.0 - EXACT) * plain:
            pace = working(self._solve(plain, working, 1.0, CONSTANT_MOST))
        return self._far(plain, pace), pace

    def _far(self, plain: float, pace: Pace) -> float:
        missed = abs(self._step(pace) - plain) / plain / EXACT
        return (
            missed
            + ((pace.host - USUAL_HOST) / HOST_SPREAD) ** 2
            + ((pace.device - USUAL_DEVICE) / DEVICE_SPREAD) ** 2
            + ((pace.constant - 1.0) / CONSTANT_SPREAD) ** 2
        )

    def _solve(self, plain: float, pace: Callable[[float], Pace], low: float, high: float) -> float:
        """The largest factor at which a step is no longer than it was unprofiled; the lower end where none is."""
        if self._step(pace(high)) <= plain:
            return high
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._step(pace(middle)) > plain else (middle, high)
        return low

    @property
    def alone(self) -> bool:
        """Whether the plain steps ran without any of the profiler: on CUDA they do only where CUPTI was detached for them; else
        that they took long shows nothing about the host."""
        cuda = any(d.id == self.facts.device and d.kind == "cuda" for d in self.facts.trace.devices)
        return not cuda or (self.facts.sidecar is not None and bool(self.facts.sidecar.cupti_left))

    def _step(self, pace: Pace, change: Change = NOTHING) -> float:
        return self.replay.step_us(self.facts.n, change, pace)

    @cached_property
    def step_us(self) -> float:
        """A step as it is, at that pace."""
        return self._step(self.pace)

    def saving(self, change: Change) -> float:
        """Microseconds over the recorded steps that a change takes off; 0 where it makes the step longer."""
        if not self.step_us:
            return 0.0
        return self.facts.base_us * max(0.0, 1.0 - self._step(self.pace, change) / self.step_us)

    def claims(self, change: Change) -> Spans:
        """Recorded time out of which that can come: the events' where the device does nothing else, the gaps before them, and
        what of the host's time finds the device idle."""
        facts = self.facts
        rows = sorted({*(int(r) for r in change.events), *change.faster, *change.merged})
        mine = set(rows)
        gaps = facts.clip(spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in mine))
        return spans.together(
            facts.exposed(np.array(rows, dtype=np.int32)),
            spans.subtract(gaps, facts.queue.excused),
            spans.intersect(facts.clip(change.host), facts.idle),
        )

    def without(self, stretches: Iterable[Stretch], *, part: float = 0.0) -> Change:
        """The steps without what threads did in these stretches: the host's time, the events that it launched, its waits.
        ``part``: what of it stays."""
        known = list(stretches)
        launched = self.facts.events_launched_in(known)
        host = spans.of((lo, hi) for _, lo, hi in known)
        if part > 0:
            return Change(host=host, host_part=part, merged=dict.fromkeys(launched, part))
        return Change(host=host, events=launched, waits=set(np.flatnonzero(self.facts.calls_in(known)).tolist()))

    def without_ops(self, ops: Iterable[int], *, part: float = 0.0) -> Change:
        """The same of whole operations."""
        table = self.facts.trace.ops
        rows = np.array(sorted(set(ops)), dtype=np.int64)
        stretches = zip(table.tid[rows].tolist(), table.start[rows].tolist(), (table.start + table.dur)[rows].tolist())
        return self.without(stretches, part=part)


def gain(facts: Facts, parts: dict[int, float], *, ops: int | None = None) -> tuple[Spans, float]:
    """What it saves if of rows of work only a part of their time stays: the recorded time out of which it comes, and how much
    of that. ``ops``: how many operations then do the work of all of theirs; the host's time and the gaps between kernels become
    less with their number. On a CPU an operation is its own time; where gaps prove nothing (``Facts.judged``) only what the step
    surely waits for counts."""
    if not facts.on_cpu and facts.judged:
        events = {int(facts.work.event[row]): part for row, part in parts.items()}
        change = Change(faster=events)
        if ops is not None:
            tops = {facts.outermost(int(facts.work.op[row])) for row in parts if facts.work.op[row] >= 0}
            change = Change(
                host=facts.op_spans(sorted(tops)), host_part=min(1.0, ops / len(tops)) if tops else 1.0, merged=events
            )
        return facts.exposed(facts.work.event[sorted(parts)]), facts.whatif.saving(change)
    claims, total = facts.claims_of(parts), facts.time_of(parts)
    left = sum(
        part * float(facts.work.time[row]) for row, part in parts.items() if facts.within(float(facts.work.start[row]))
    )
    return claims, spans.measure(claims) * (1.0 - left / total) if total > 0 else 0.0
