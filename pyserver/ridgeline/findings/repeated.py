"""What a loop repeats, gathered from its statements: each of them makes a loop of its own in a recording."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.program_loops import Within
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef

MAIN = 0.5
"""Part of a loop's operations above which the statement that makes them is what to change; else the one that calls them."""


class Repeated(NamedTuple):
    at: SourceRef
    repeated: list[int]
    """Rows of work that the loop repeats."""
    everything: list[int]
    """All that the statement causes, the backward pass included."""
    stretches: list[Stretch]
    """Of the host, from the first repetition to the last."""
    times: float
    """How often it goes round."""
    within: Within | None = None
    """Where the text alone tells it."""
    others: tuple[SourceRef, ...] = ()
    """More statements of the same loop."""


def merged(facts: Facts, loops: list[Repeated]) -> list[Repeated]:
    """One of each loop: statements whose stretches are mostly the same belong together."""
    kept: list[list[Repeated]] = []
    for loop in sorted(loops, key=lambda x: -float(facts.work.time[x.everything].sum())):
        mine = spans.of((lo, hi) for _, lo, hi in loop.stretches)
        for others in kept:
            theirs = spans.of((lo, hi) for _, lo, hi in others[0].stretches)
            if 2 * spans.measure(spans.intersect(mine, theirs)) > min(spans.measure(mine), spans.measure(theirs)):
                others.append(loop)
                break
        else:
            kept.append([loop])
    return [_one_of(facts, same) for same in kept]


def _one_of(facts: Facts, loops: list[Repeated]) -> Repeated:
    """Statements of one loop as one. The one with the most operations speaks, the first of several: these are the same from run to run,
    and what they cost is about as much for each. Where the text tells a loop whose body only calls those statements, its own speaks,
    unless one of them is most of it."""
    by_text = next((x for x in loops if x.within is not None), None)
    statements = [x for x in loops if x.within is None]
    speaks = by_text or loops[0]
    if statements:
        largest = max(statements, key=lambda x: (len(x.everything), -x.at.line))
        main = by_text is None or len(largest.everything) >= MAIN * len(by_text.everything)
        if main or (by_text is not None and _is_in(by_text.within, largest.at)):
            speaks = largest
    return loops[0]._replace(
        at=speaks.at,
        repeated=sorted({r for x in loops for r in x.repeated}),
        everything=sorted({r for x in loops for r in x.everything}),
        stretches=[s for x in loops for s in x.stretches],
        within=by_text.within if by_text else None,
        times=(by_text or loops[0]).times,
        others=tuple({(x.at.file, x.at.line): x.at for x in loops if not _same_line(x.at, speaks.at)}.values()),
    )


def _same_line(a: SourceRef, b: SourceRef) -> bool:
    return (a.file, a.line) == (b.file, b.line)


def _is_in(within: Within | None, at: SourceRef) -> bool:
    return within is not None and within.file == at.file and within.loop.first <= at.line <= within.loop.last
