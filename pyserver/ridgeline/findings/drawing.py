"""What of the waits for a loader goes into drawing indices: the sampler runs in the loop's own thread, whatever workers there are."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.loading import PLAIN_WAITS, Wait
from ridgeline.findings.places import most_at
from ridgeline.findings.replay import Change
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef
from ridgeline.sidecar import LoaderInfo

LEFT = 0.1
"""Of drawing, once an epoch is drawn at once, or a table is searched that is made once. ``rng.choice`` with weights over 3 million rows
took 30 ms for 4,096 of them on a Xeon, for it sums them up anew; ``np.searchsorted`` in a sum made once took 2.8."""
MOMENTS = 32
"""Of a wait, at which the statement is looked up."""
SAMPLES = 3
"""Of each draw."""


@dataclass(frozen=True)
class Drawn:
    """Times over the recorded steps, as recorded; ``stands_for`` as of ``data_loading.Waited``."""

    spans: Spans
    timed: bool
    """By the agent; else the program's own statements in the loop's thread say it."""
    plain_us: float | None
    """Without a recorder, over as many waits; None where that was not measured."""
    stands_for: float
    at: SourceRef | None
    """The sampler's own statement, where one is known."""

    def share_pct(self, facts: Facts) -> float:
        return 100.0 * self.stands_for * spans.measure(self.spans) / facts.recorded_us

    def exposed(self, facts: Facts) -> Spans:
        return self.spans if facts.on_cpu else spans.intersect(self.spans, facts.idle)

    def exposed_pct(self, facts: Facts) -> float:
        return 100.0 * self.stands_for * facts.real(self.exposed(facts)) / facts.base_us

    def saving_us(self, facts: Facts) -> float:
        """On a device what the steps, played again, take less: the queue may hide some of it."""
        if facts.on_cpu or not facts.judged:
            return facts.real(self.exposed(facts)) * self.stands_for * (1.0 - LEFT)
        saving = facts.whatif.saving(Change(host=self.spans, host_part=LEFT))
        return saving if self.plain_us is None else min(saving, self.plain_us * (1.0 - LEFT))

    def once(self, facts: Facts, share_pct: float) -> bool:
        """Whether without the step that it took the most of it is less than this share of the others: at its beginning an epoch is
        shuffled. Not where unprofiled waits were as long."""
        if self.plain_us is not None and 100.0 * self.plain_us >= share_pct * facts.base_us * facts.plain_scale:
            return False
        if len(facts.steps) < 2:
            return True
        parts = [
            (spans.measure(spans.intersect(self.spans, spans.of([step]))), step[1] - step[0]) for step in facts.steps
        ]
        most = max(parts)
        drawn, whole = sum(part for part, _ in parts) - most[0], sum(length for _, length in parts) - most[1]
        return 100.0 * drawn < share_pct * whole


def drawn(facts: Facts, loader: LoaderInfo | None, waits: list[Wait]) -> Drawn | None:
    """None where nothing is known of it, or nothing was drawn."""
    if loader is None:
        return None
    timed = loader.draws is not None
    within = _timed(facts, loader, waits) if timed else _of_lines(facts, loader, waits)
    if not len(within.start):
        return None
    plain = loader.plain_drawn_us
    if plain is None or loader.plain_waits < PLAIN_WAITS:
        return Drawn(within, timed, None, 1.0, _statement(facts, loader, within, waits))
    part = min(1.0, plain * len(waits) / spans.measure(within))
    stands_for = min(1.0, part / facts.plain_scale) if facts.on_cpu else 1.0
    return Drawn(within, timed, plain * len(waits), stands_for, _statement(facts, loader, within, waits))


def _timed(facts: Facts, loader: LoaderInfo, waits: list[Wait]) -> Spans:
    draws = spans.of((facts.offset(draw.start_ns), facts.offset(draw.end_ns)) for draw in loader.draws or ())
    return facts.clip(spans.intersect(draws, spans.of((start, end) for start, end, _, _ in waits)))


def _of_lines(facts: Facts, loader: LoaderInfo, waits: list[Wait]) -> Spans:
    """In recordings of earlier versions: with workers the program's own code runs in the loop's thread for nothing but drawing (and where
    a batch of its own classes is unpickled). Without workers its data set does, too, and nothing is known."""
    if not loader.num_workers:
        return spans.nothing()
    found = []
    for start, end, tid, _ in waits:
        width = (end - start) / MOMENTS
        for k in range(MOMENTS):
            if _own(facts, loader, tid, start, start + (k + 0.5) * width) is not None:
                found.append((start + k * width, start + (k + 1) * width))
    return facts.clip(spans.of(found))


def _own(facts: Facts, loader: LoaderInfo, tid: int, begun: float, moment: float) -> SourceRef | None:
    """The statement at a moment of a wait, if it is the program's and not the loop that waits."""
    at = facts.context.attribution.host_line(tid, moment)
    if at is None or at.library or (at.file, at.line) == (loader.file, loader.line):
        return None
    loop = facts.context.attribution.host_line(tid, begun)
    return None if loop is not None and (at.file, at.line) == (loop.file, loop.line) else at


def _statement(facts: Facts, loader: LoaderInfo, within: Spans, waits: list[Wait]) -> SourceRef | None:
    """That most of the drawing is at; None where no one has a third of it (a library's sampler has none)."""
    moments = []
    for begun, end, tid, _ in waits:
        mine = spans.intersect(within, spans.of([(begun, end)]))
        for lo, hi in zip(mine.start.tolist(), mine.end.tolist()):
            moments += [_own(facts, loader, tid, begun, lo + (hi - lo) * (k + 0.5) / SAMPLES) for k in range(SAMPLES)]
    return most_at(moments)
