"""What CUDA graphs need, and which of it the recorded steps have. A trace shows a need that is not met; of one that it shows
nothing against, it can only say that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from ridgeline.findings import words
from ridgeline.findings.blocking import direction_of
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import Call

NAMED = 3
"""Lines named of one need."""
FREE_SHARE = 0.1
"""Of the device's memory: as for ``memory-near-capacity``."""
NEW_TENSOR = ("aten::to", "aten::_to_copy", "aten::clone")
"""A copy to the device within one of these goes to a tensor made for it, another every time."""


@dataclass(slots=True, frozen=True)
class Need:
    name: str
    """addresses | shapes | no_syncs | no_host_work | memory"""
    has: bool | None
    """None where the recording does not tell."""
    text: str
    """The need in words."""
    seen: str = ""
    """What the recording shows of it."""
    lines: list[SourceRef] = field(default_factory=list)


def needs(facts: Facts) -> list[Need]:
    """Each need with what the recorded steps say of it."""
    return [_shapes(facts), _syncs(facts), _addresses(facts), _host_work(facts), _memory(facts)]


def told(asked: list[Need]) -> str:
    """In a sentence or two: what is met, what is not, what a recording cannot tell."""
    met = [need.text for need in asked if need.has]
    lacking = [f"{need.text} ({need.seen})" for need in asked if need.has is False]
    unknown = [need.text for need in asked if need.has is None]
    parts = []
    if met:
        parts.append(f"Of what they need these steps have {', '.join(met)}.")
    if lacking:
        parts.append(f"Not met: {'; '.join(lacking)}.")
    if unknown:
        parts.append(f"{'Also needed' if parts else 'They need'}: {', '.join(unknown)}.")
    return " ".join(parts)


def _shapes(facts: Facts) -> Need:
    """The same operations on the same shapes in every step."""
    text = "static shapes"
    steps = [_calls(facts, lo, hi) for lo, hi in facts.host_steps]
    if len(steps) < 2 or not any(steps):
        return Need("shapes", None, text, "fewer than two steps")
    first = [(name, args) for _, name, args in steps[0]]
    for other in steps[1:]:
        mine = [(name, args) for _, name, args in other]
        if mine != first:
            at = next((k for k, (a, b) in enumerate(zip(first, mine)) if a != b), min(len(first), len(mine)))
            row = other[at][0] if at < len(other) else -1
            place = facts.line_of_op(row)
            what = f" from {facts.op_name(row)} on" if row >= 0 else ""
            seen = f"operations or shapes vary between steps{what}"
            return Need("shapes", False, text, seen, [place] if place else [])
    if all(args < 0 for _, args in first):
        return Need("shapes", None, text, "the same operations every step; their shapes were not recorded")
    return Need("shapes", True, text, "the same in every recorded step")


def _calls(facts: Facts, lo: float, hi: float) -> list[tuple[int, str, int]]:
    """(row, name, argument set) of the operations of the thread that runs the steps, without the loader's."""
    waits = facts.loader_spans
    found = []
    for row in facts.ops_between(facts.host_thread, lo, hi):
        name, start = facts.op_name(row), float(facts.trace.ops.start[row])
        at = int(np.searchsorted(waits.start, start, side="right")) - 1
        if not name.startswith(REGION_PREFIXES) and not (at >= 0 and start < waits.end[at]):
            found.append((row, name, int(facts.trace.ops.args[row])))
    return found


def _syncs(facts: Facts) -> Need:
    text = "no synchronisation"
    if not facts.blocks:
        return Need("no_syncs", True, text, "none in the recorded steps")
    lines = _most(block.at for block in facts.blocks)
    seen = f"{words.count(len(facts.blocks) / facts.n)} {facts.per}{_where(lines)}"
    return Need("no_syncs", False, text, seen, lines)


def _addresses(facts: Facts) -> Need:
    """Copies from the host into tensors made for them."""
    places = []
    for row in map(int, facts.copies()):
        op = int(facts.trace.device_events.op[row])
        made = op >= 0 and any(facts.op_name(a) in NEW_TENSOR for a in facts.ancestors(op))
        if made and direction_of(facts.event_name(row)) == "HtoD":
            places.append(facts.line_of_event(row))
    if not places:
        return Need("addresses", None, "stable addresses")
    lines = _most(places)
    seen = f"inputs come in new tensors{_where(lines)}: copy_ into the same"
    return Need("addresses", False, "stable addresses", seen, lines)


def _host_work(facts: Facts) -> Need:
    """What the host must do each time: load, take memory from the driver, work for longer than launching takes."""
    calls = facts.trace.calls
    driver = int(((calls.kind == Call.MALLOC) & facts.all_within(calls.start)).sum())
    loads = len(facts.loader_waits)
    long = len(facts.queue.long_gaps) if facts.judged else 0
    parts = [
        *([f"loading {words.times(loads / facts.n)}"] if loads else []),
        *([f"{words.count(driver / facts.n)} calls for memory"] if driver else []),
        *([f"work of its own {words.times(long / facts.n)}"] if long else []),
    ]
    if not parts:
        return Need("no_host_work", None, "no host work inside that must happen each time")
    seen = f"{', '.join(parts)} {facts.per}, which stays outside"
    return Need("no_host_work", False, "no host work inside", seen)


def _memory(facts: Facts) -> Need:
    """A graph keeps the memory of its intermediate tensors."""
    from ridgeline.findings.rules.memory import capacity_of, used

    now, total = used(facts), capacity_of(facts)
    if now is None or not total:
        return Need("memory", None, "memory of their own")
    peak = max(now.allocated, now.reserved or 0)
    free = max(0, total - peak)
    seen = f"{words.size(free)} of {words.size(total)} are free"
    return Need("memory", free > FREE_SHARE * total, "memory of their own", seen)


def _most(places: Iterable[SourceRef | None]) -> list[SourceRef]:
    """The most frequent lines."""
    known = [p for p in places if p is not None]
    by_line = {(p.file, p.line): p for p in known}
    return [by_line[key] for key, _ in Counter((p.file, p.line) for p in known).most_common(NAMED)]


def _where(lines: list[SourceRef]) -> str:
    return f" at {', '.join(f'{PurePath(p.file).name}:{p.line}' for p in lines)}" if lines else ""
