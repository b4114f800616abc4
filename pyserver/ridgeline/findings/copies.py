"""Copies between host and device: by the statement that they come from, and what the host waited for them."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

from ridgeline.findings.blocking import Block, Direction, direction_of
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef


def to_device(facts: Facts, memory: Literal["pinned", "pageable"]) -> list[tuple[SourceRef | None, list[int]]]:
    """(statement, rows of device events) of the copies from this kind of host memory; None where the line is not known."""
    groups: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    places: dict[tuple[str, int] | None, SourceRef | None] = {}
    for row in map(int, facts.copies()):
        name = facts.event_name(row)
        if direction_of(name) != "HtoD" or memory not in name.lower():
            continue
        at = facts.line_of_event(row)
        key = (at.file, at.line) if at else None
        groups[key].append(row)
        places[key] = at
    return [(places[key], rows) for key, rows in groups.items()]


def waits_for(facts: Facts, rows: list[int], direction: Direction) -> list[Block]:
    """The host's waits for these copies: in the copy's own call, or in another of the same operation."""
    calls = {int(facts.trace.device_events.call[r]) for r in rows}
    starts = [float(facts.trace.calls.start[c]) for c in calls if c >= 0]
    return [b for b in facts.blocks if b.direction == direction and any(_covers(facts, b, s) for s in starts)]


def _covers(facts: Facts, block: Block, time: float) -> bool:
    if block.start - 1e-3 <= time <= block.end:
        return True
    return block.op >= 0 and float(facts.trace.ops.start[block.op]) <= time <= facts.op_end(block.op)
