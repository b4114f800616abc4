"""Where double precision enters a step, as the recording tells: it spreads from there, and most of its time may be elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from ridgeline.attribution.model import PhaseOf
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef

FLOATS = ("float", "c10::Half", "c10::BFloat16")
"""What becomes double beside a tensor that is."""
DOUBLE_CODE = "7"
"""``ScalarType::Double``, as operations record a type that they are asked for."""
CONVERSIONS = ("aten::to", "aten::_to_copy")
FOLLOWS = re.compile(r"\.dtype\b|\.type_as\(")
"""``x.to(y.dtype)`` takes its type from another tensor, which has brought it."""
FROM_HOST = ("aten::lift_fresh",)
"""What ``torch.from_numpy`` and ``torch.tensor`` end with."""

Shape = tuple[int, ...]
Key = tuple[str, int]


class Entry(NamedTuple):
    at: SourceRef
    """The first statement, in the order of a step, at which most of what follows became double."""
    times: float
    """How often a step the tensor that brings it is used there."""
    others: tuple[SourceRef, ...]
    """More statements at which the same tensor meets others that are not double."""


def entry(facts: Facts, rows: list[int], least: int) -> Entry | None:
    """Of rows of work on doubles (in order of time) the statement at which they enter the step; None where no tensor of less
    becomes double in it: all of it is, from before. A tensor without dimensions makes no other double. ``least``: elements of
    the larger of two operands from which it counts.

    What is computed is not recorded with where its operands come from. A double that has the shape of one computed before in the
    same step is taken for that one; any other is new, and of several such the one with the most time in its wake is told."""
    place, phase, mine = facts.line_of_work, facts.context.attribution.phase, set(rows)
    forward = [
        r
        for r in facts.recorded_work
        if phase[r] not in (PhaseOf.BACKWARD, PhaseOf.OPTIMIZER) and (r in mine or _enters(facts, r, least))
    ]
    wake: dict[Key, dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    """Statement -> statements in whose wake it computes on doubles, with its time there."""
    places: dict[Key, SourceRef] = {}
    brought: dict[Key, set[tuple[str, Shape]]] = defaultdict(set)
    """By which operations, and of which shapes."""
    meets: dict[Shape, dict[Key, None]] = defaultdict(dict)
    """Shape of a double -> statements at which one of that shape meets others, in order."""
    for group in _by_step(facts, forward):
        taken, given = set[Shape](), set[Shape]()
        root: Key | None = None
        for row in group:
            at = place(row)
            if at is None or at.library:
                continue
            key = (at.file, at.line)
            places[key] = at
            doubles = _doubles(facts, row)
            if _enters(facts, row, least):
                for shape in doubles:
                    if shape not in given:  # else it may be what was computed
                        meets[shape].setdefault(key)
                if not doubles or (taken | given).isdisjoint(doubles):
                    if root != key:
                        taken, given = set(), set()
                    root = key
                    brought[key] |= {(_name(facts, row), shape) for shape in doubles}
            if root is not None:
                wake[key][root] += float(facts.work.time[row])
                taken |= set(doubles)
                given.add(_together(facts, row))
    if not wake:
        return None
    behind: dict[Key, float] = defaultdict(float)
    for row in rows:
        at = place(row)
        if at is not None and (roots := wake.get((at.file, at.line))):
            behind[max(roots, key=lambda key: roots[key])] += float(facts.work.time[row])
    best = max(behind, key=lambda key: behind[key])
    uses = sum(
        1
        for r in forward
        if _is_at(place(r), best) and any((_name(facts, r), shape) in brought[best] for shape in _doubles(facts, r))
    )
    others = [k for _, shape in sorted(brought[best]) for k in meets[shape] if k != best]
    return Entry(places[best], uses / facts.n, tuple(places[k] for k in dict.fromkeys(others)))


def _by_step(facts: Facts, rows: list[int]) -> list[list[int]]:
    starts = facts.work.start
    if not facts.steps:
        return [rows]
    return [[r for r in rows if lo <= starts[r] < hi] for lo, hi in facts.steps]


def _is_at(at: SourceRef | None, key: Key) -> bool:
    return at is not None and (at.file, at.line) == key


def _name(facts: Facts, row: int) -> str:
    return facts.op_name(int(facts.work.op[row]))


def _doubles(facts: Facts, row: int) -> list[Shape]:
    """Shapes of the double tensors that go in, those without dimensions apart."""
    op = int(facts.work.op[row])
    return [tuple(s) for kind, s in zip(facts.types_of(op), facts.dims_of(op)) if kind == "double" and s]


def _together(facts: Facts, row: int) -> Shape:
    """The shape of what comes out of operands that are spread over one another."""
    shapes = [s for s in facts.dims_of(int(facts.work.op[row])) if s]
    longest = max((len(s) for s in shapes), default=0)
    sides = zip(*([1] * (longest - len(s)) + s for s in shapes))
    return tuple(map(max, sides))


def _enters(facts: Facts, row: int, least: int) -> bool:
    """Whether something that was no double becomes one in this operation, or a double comes from the host in it."""
    op = int(facts.work.op[row])
    if op < 0:
        return False
    inputs = [(kind, s) for kind, s in zip(facts.types_of(op), facts.dims_of(op)) if s]
    kinds = [kind for kind, _ in inputs]
    if max((_elements(s) for _, s in inputs), default=0) < least:
        return False
    name = facts.op_name(op)
    if name == "aten::copy_":
        return kinds[0] == "double" and kinds[1:2] != ["double"] and not _beside(facts, op)
    if name in CONVERSIONS:
        at = facts.line_of_work(row)
        follows = at is not None and FOLLOWS.search(at.text or "") is not None
        return kinds[0] in FLOATS and DOUBLE_CODE in _asked(facts, op)[:2] and not follows and not _beside(facts, op)
    if name in FROM_HOST:
        return kinds[0] == "double"
    return "double" in kinds and any(kind in FLOATS for kind in kinds)


def _beside(facts: Facts, op: int) -> bool:
    """Whether a conversion is within an operation that also takes a double: that one brings it."""
    return any(_takes_both(facts, above) for above in facts.ancestors(op) if above != op)


def _takes_both(facts: Facts, op: int) -> bool:
    kinds = {kind for kind, s in zip(facts.types_of(op), facts.dims_of(op)) if s}
    return "double" in kinds and not kinds.isdisjoint(FLOATS)


def _asked(facts: Facts, op: int) -> list[object]:
    """What an operation was given beside its tensors, in order."""
    args = int(facts.trace.ops.args[op])
    return [c for c in (facts.trace.op_args.concrete_inputs[args] or [])[1:] if c] if args >= 0 else []


def _elements(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
