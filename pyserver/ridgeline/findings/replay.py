"""How long a step would take if something in it were taken away: the recorded steps played again, in order, with it gone.

Two clocks. The host's goes from call to call: the time between is its own work, a launch gives the device an event, a wait
stops it until the event waited for has ended. The device's goes from event to event in recorded order: an event begins when
the one before has ended and its launch has reached the device. Played as it is, a recording gives back its own times. The
steps are played over and over from where the last pass ended, until the passes are as long as each other: a host that is
ahead stays ahead, which no difference of recorded gaps can tell.

An event that ran beside others counts with what it added to the device's time (streams keep their overlap). The host's work
is one line however many threads do it, as autograd's thread works while the one that called it waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ridgeline.findings import spans
from ridgeline.findings.spans import Spans
from ridgeline.trace.intervals import overlap_of
from ridgeline.trace.tables import F64, I32, I64, Call, Trace

PASSES = 3
"""Times that the steps are played; the last is measured. A host that is behind or ahead for good shows it in the second."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Change:
    """What is taken away from the recorded steps, or made faster."""

    host: Spans = field(default_factory=spans.nothing)
    """Time of the host that is gone, on the thread that was at work."""
    host_part: float = 0.0
    """What part of it stays."""
    events: I32 | list[int] = field(default_factory=list)
    """Rows of ``Trace.device_events`` that are gone."""
    faster: dict[int, float] = field(default_factory=dict)
    """Row of ``Trace.device_events`` -> part of its time that stays."""
    merged: dict[int, float] = field(default_factory=dict)
    """The same where fewer events do their work: of the gaps between them stays the same part."""
    waits: set[int] = field(default_factory=set)
    """Rows of ``Trace.calls`` that do not wait any more."""


NOTHING = Change()


@dataclass(slots=True, frozen=True)
class Pace:
    """How much faster or slower than recorded the two sides are: factors of their times."""

    host: float = 1.0
    device: float = 1.0
    constant: float = 1.0
    """Of the host's time that no profiler slows, which differs from run to run all the same."""


AS_RECORDED = Pace()


class Replay:
    """The recorded steps of one device, ready to be played."""

    def __init__(self, trace: Trace, rows: I32, host: Spans, blocking: I32, constant: Spans) -> None:
        """``rows``: the device's events in order of start; ``host``: when the host was at the steps; ``blocking``: the calls
        that stop it until the device is done; ``constant``: time of the host that passes whatever its own speed."""
        self.host, self.constant = host, constant
        calls, events = trace.calls, trace.device_events
        start, end = events.start[rows], events.start[rows] + events.dur[rows]
        before = np.append(-np.inf, np.maximum.accumulate(end)[:-1]) if len(rows) else end
        call = events.call[rows]
        launched = np.where(call >= 0, calls.start[np.maximum(call, 0)] if len(calls.start) else np.nan, np.nan)
        mine = spans.within(host, launched)
        late = mine & (launched > before)
        delay = np.maximum(0.0, start - launched)
        usual = float(np.median(delay[late])) if late.any() else 0.0
        delay = np.minimum(delay, usual)
        self.rows: I32 = rows[mine]
        self.launched: F64 = launched[mine]
        self.delay: F64 = delay[mine]
        self.added: F64 = np.maximum(0.0, end - np.maximum(start, before))[mine]
        """What each event adds to the time in which the device works."""
        # A gap that the host is not the cause of stays: the hardware's own, or another stream's.
        self.own_gap: F64 = np.maximum(0.0, start - np.maximum(before, launched + delay))[mine]
        self.waits = self._find_waits(trace, blocking, end[mine]) if mine.any() else []
        # The host's own time: what lies outside waits.
        at_work = spans.subtract(host, spans.of((w.begun, w.returned) for w in self.waits))
        self._constant = spans.intersect(at_work, constant)
        self._paced = spans.subtract(at_work, self._constant)
        self._moments: F64 = np.concatenate([self.launched, [w.begun for w in self.waits], host.end[-1:]])

    def _find_waits(self, trace: Trace, blocking: I32, end: F64) -> list[Wait]:
        calls, events = trace.calls, trace.device_events
        launching = np.unique(calls.tid[events.call[self.rows]])
        copy_of = {int(events.call[row]): at for at, row in enumerate(self.rows.tolist())}
        reach = np.maximum.accumulate(end)
        found = []
        for row in blocking[spans.within(self.host, calls.start[blocking])].tolist():
            if calls.tid[row] not in launching:
                continue  # a loader's thread waits for its own copies
            begun, returned = float(calls.start[row]), float(calls.start[row] + calls.dur[row])
            copied = calls.kind[row] == Call.MEMCPY and row in copy_of
            until = copy_of[row] if copied else int(np.searchsorted(reach, returned, side="right")) - 1
            ended = float(reach[until]) if until >= 0 else -np.inf
            if not copied and ended < begun and "Event" in trace.strings[int(calls.name[row])]:
                continue  # which event it asked for is not known; it had ended
            found.append(Wait(row, begun, returned, until + 1, max(0.0, returned - max(begun, ended))))
        return sorted(found, key=lambda wait: wait.begun)

    @cached_property
    def _as_recorded(self) -> _Layout:
        return _Layout(self._until(self._paced), self._until(self._constant))

    def layout(self, change: Change) -> _Layout:
        """Of every launch, every wait's begin and the end of the host's time, without what a change takes of it."""
        whole = self._as_recorded
        if not len(change.host.start):
            return whole
        gone = 1.0 - change.host_part
        return _Layout(
            whole.paced - gone * self._until(spans.intersect(self._paced, change.host)),
            whole.constant - gone * self._until(spans.intersect(self._constant, change.host)),
        )

    def _until(self, cover: Spans) -> F64:
        """How much of these spans lies before every moment."""
        if not len(cover.start):
            return np.zeros(len(self._moments))
        return overlap_of(np.full(len(self._moments), cover.start[0]), self._moments, cover)

    def step_us(self, steps: int, change: Change = NOTHING, pace: Pace = AS_RECORDED) -> float:
        """Microseconds of a step once the passes are as long as each other."""
        if not len(self.rows) or not len(self.host.start):
            return 0.0
        player = _Player(self, change, pace)
        ends = [player.play() for _ in range(PASSES)]
        return (ends[-1] - ends[-2]) / steps


class Wait(NamedTuple):
    """The host stopped for the device."""

    call: int
    """Row of ``Trace.calls``."""
    begun: float
    returned: float
    until: int
    """How many of the events must have ended."""
    after: float
    """How long after that it returned."""


class _Layout(NamedTuple):
    """The host's own time, without its waits, up to every launch, every wait's begin and the end, in two parts."""

    paced: F64
    """What a profiler slows."""
    constant: F64
    """What takes as long without one."""

    def at(self, pace: Pace) -> F64:
        return pace.host * self.paced + pace.constant * self.constant


class _Player:
    """One way of playing: times of the host without its waits, and what each event adds to the device's time.

    Between two waits the device takes its events one after another, and it ends at their sum after the latest moment from
    which they run without a pause. Which waits lie before each launch does not depend on the pass, so of the events that have
    the same ones before them the latest is all that a pass looks at: a pass costs as much as there are waits, not events.
    """

    def __init__(self, replay: Replay, change: Change, pace: Pace) -> None:
        stays = np.ones(len(replay.rows))
        if len(change.events):
            stays[np.isin(replay.rows, np.asarray(change.events, dtype=np.int64))] = 0.0
        gaps = stays.copy()
        for parts in (change.faster, change.merged):
            stays *= np.array([parts.get(row, 1.0) for row in replay.rows.tolist()]) if parts else 1.0
        gaps *= np.array([change.merged.get(row, 1.0) for row in replay.rows.tolist()]) if change.merged else 1.0
        takes: F64 = replay.added * stays * pace.device + replay.own_gap * gaps
        own = replay.layout(change).at(pace)
        arrives = own[: len(takes)] + replay.delay * pace.host
        arrives[stays == 0] = -np.inf
        left = [at for at, wait in enumerate(replay.waits) if wait.call not in change.waits]
        begun = np.array([replay.waits[at].begun for at in left])
        self.whole = float(own[-1])
        at_wait = own[len(takes) : -1][left].tolist()
        self.waits = [(at, replay.waits[k].until, replay.waits[k].after) for at, k in zip(at_wait, left)]
        self.behind: I64 = np.searchsorted(begun, replay.launched).astype(np.int64)
        """How many of the waits lie before each launch."""
        self._stretches = self._latest(takes, arrives)
        self.host = self.device = 0.0

    def _latest(self, takes: F64, arrives: F64) -> list[tuple[float, list[tuple[int, float]]]]:
        """Of the events up to each wait that has new ones to wait for, and of the rest: what they take together, and
        (waits before the launch, latest moment from which events of that many run on without a pause, by the host's own time)."""
        ends, known, done = [], [], 0
        for at, (_, until, _) in enumerate(self.waits):
            if until > done:
                ends.append(until)
                known.append(at)
                done = until
        if done < len(takes):
            ends.append(len(takes))
            known.append(len(self.waits))
        first = np.array([0, *ends[:-1]], dtype=np.int64)
        lengths = np.array(ends, dtype=np.int64) - first
        behind = np.minimum(self.behind, np.repeat(known, lengths))
        before = np.cumsum(takes) - takes
        latest = arrives - (before - np.repeat(before[first], lengths))
        starts = np.zeros(len(takes), dtype=bool)
        starts[first] = True
        starts[1:] |= behind[1:] != behind[:-1]
        runs = np.flatnonzero(starts)
        pairs = list(zip(behind[runs].tolist(), np.maximum.reduceat(latest, runs).tolist()))
        bounds = [*np.searchsorted(runs, first).tolist(), len(runs)]
        total = np.add.reduceat(takes, first).tolist()
        return [(total[k], pairs[bounds[k] : bounds[k + 1]]) for k in range(len(total))]

    def play(self) -> float:
        """Once through the steps; the moment at which both have come to their end."""
        lost = [self.host]
        """Of every moment of the host's own time: what it lies after the pass's begin, by the number of waits before."""
        stretches = iter(self._stretches)
        done = 0
        for at, until, after in self.waits:
            if until > done:
                self._run(next(stretches), lost)
                done = until
            # What has not been played by now was launched later: the wait cannot have been for it.
            lost.append(max(lost[-1], self.device - at if until == done else -np.inf) + after)
        for stretch in stretches:
            self._run(stretch, lost)
        self.host = lost[-1] + self.whole
        return max(self.host, self.device)

    def _run(self, stretch: tuple[float, list[tuple[int, float]]], lost: list[float]) -> None:
        """The device's events up to the next wait for any, which it takes one after another."""
        takes, latest = stretch
        self.device = takes + max(self.device, max(lost[behind] + moment for behind, moment in latest))


def together(*changes: Change) -> Change:
    """All of them at once; what of the host's time stays is as in the first."""
    return Change(
        host=spans.together(*(c.host for c in changes)),
        host_part=changes[0].host_part,
        events=sorted({int(row) for c in changes for row in c.events}),
        faster={row: part for c in changes for row, part in c.faster.items()},
        merged={row: part for c in changes for row, part in c.merged.items()},
        waits=set().union(*(c.waits for c in changes)),
    )
