"""Copies from the host to the device, by the statement that they come from."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

from ridgeline.findings.blocking import direction_of
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
