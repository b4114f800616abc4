"""Loops over the parts of tensors that the program's text tells: however few rounds, however many operations a round has.

``torch.stack([self.loglik(t, m) for t, m in zip(times, marks)])``: the text says that rounds do not wait for one another, the
recording that what it goes over are tensors (iterating over one asks for ``unbind``, ``x[i]`` takes a row).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ridgeline.findings.facts import Facts
from ridgeline.findings.loops import PARTS, Loops
from ridgeline.findings.program_loops import ProgramLoops, Within
from ridgeline.findings.stretches import Stretch

ROUNDS = 8
"""Done at once these leave an eighth. Fewer are what people write out: the crops of an image, the scales of a network."""
CALLS_PER_STEP = 40
"""As of one operation in a loop that the recording alone tells (``small_kernels.COUNT_PER_STEP``)."""


class PartLoop(NamedTuple):
    within: Within
    rows: list[int]
    """Rows of work that lie in it, the backward pass included."""
    forward: list[int]
    stretches: list[Stretch]
    times: float
    """How often it goes round."""


def part_loops(
    facts: Facts, text: ProgramLoops, loops: Loops, forward: list[int], backward: list[int]
) -> list[PartLoop]:
    """``forward`` and ``backward``: rows of work of statements of the program."""
    rows: dict[int, list[int]] = defaultdict(list)
    behind: dict[int, list[int]] = defaultdict(list)
    found: dict[int, Within] = {}
    for into, given in ((rows, forward), (behind, backward)):
        for row in given:
            at = facts.line_of_work(row)
            for within in text.over_parts(at) if at is not None else ():
                found.setdefault(id(within.loop), within)
                into[id(within.loop)].append(row)
    known = []
    for key, within in found.items():
        ops = {facts.outermost(int(facts.work.op[r])) for r in rows[key] if facts.work.op[r] >= 0}
        if len(ops) < CALLS_PER_STEP * facts.n:
            continue
        stretches = loops.without_others(sorted(ops))
        times = rounds(facts, loops, within)
        if times >= ROUNDS:
            known.append(PartLoop(within, sorted([*rows[key], *behind[key]]), rows[key], stretches, times))
    return known


def rounds(facts: Facts, loops: Loops, within: Within, *, rows: bool = True) -> float:
    """How often it goes round, as far as the tensors that it goes over tell it; 0 where none does. Not ``rows``: also by parts along
    other dimensions than the first."""
    parts = [facts.dims_of(op) for op in _own(facts, within, ("aten::unbind",), within.loop.node.lineno)]
    counts = sorted(dims[0][0] for dims in parts if dims and dims[0])
    if counts:
        return float(counts[len(counts) // 2])
    taken = _own(facts, within, PARTS, within.loop.first)
    return float(len({loops.taken(op) for op in taken if not rows or loops.is_row(op)}))


def _own(facts: Facts, within: Within, names: tuple[str, ...], first: int) -> Iterator[int]:
    """Operations of the loop's own statements, not of functions that it calls."""
    for op in facts.ops_named(*names).tolist():
        at = facts.line_of_op(op)
        if at is not None and at.file == within.file and first <= at.line <= within.loop.last:
            yield op
