"""Which statements of the program called one another, and how often it came to them."""

from __future__ import annotations

import statistics

import numpy as np

from ridgeline.attribution.model import Stays
from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I32


class Calling:
    """The recorded stays at statements, where a timeline ran; without one nothing is known here."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.stays = facts.context.attribution.host_stays
        self._known: dict[int, Stays | None] = {}

    def of(self, tid: int) -> Stays | None:
        """A thread's, kept: they are made of all events each time."""
        if tid not in self._known:
            self._known[tid] = self.stays.of(tid) if self.stays is not None else None
        return self._known[tid]

    def path(self, op: int) -> list[int]:
        """The statement that an op's thread was at and the statements that called it, innermost first, as nodes."""
        table = self.facts.trace.ops
        return self.path_at(int(table.tid[op]), float(table.start[op])) if op >= 0 else []

    def path_at(self, tid: int, time: float) -> list[int]:
        """The same of a thread at a moment."""
        known = self.of(tid)
        if known is None or self.stays is None:
            return []
        at = int(np.searchsorted(known.start, time, side="right")) - 1
        found, node = [], int(known.node[at]) if at >= 0 else -1
        while node >= 0:
            found.append(node)
            node = self.stays.frame(node)[0]
        return found

    def once_in(self, rounds: list[int]) -> list[SourceRef]:
        """Statements that the program comes to once from each of these ops to the next, innermost first: those that are around the
        first op. Within them lie the ones that a loop comes to again and again, as it does to a model's layers, and around them
        the ones that the rounds themselves lie in."""
        path = self.path(rounds[0]) if len(rounds) > 1 else []
        if self.stays is None or not path:
            return []
        table = self.facts.trace.ops
        known = self.of(int(table.tid[rounds[0]]))
        if known is None:
            return []
        starts = table.start[rounds]
        found = []
        for node in path:
            begins = self._begins(known.start, known.node, node)
            between = np.diff(np.searchsorted(begins, starts, side="right"))
            place = self.stays.ref(node)
            if place is not None and not place.library and statistics.median(between.tolist()) == 1:
                found.append(place)
        return found

    def times_in(self, node: int, calls: list[Stretch]) -> int:
        """How often the program comes to a statement in these stretches."""
        found = 0
        for tid in {tid for tid, _, _ in calls}:
            known = self.of(tid)
            if known is not None:
                begins = self._begins(known.start, known.node, node)
                inside = spans.within(spans.of((lo, hi) for t, lo, hi in calls if t == tid), begins)
                found += int(inside.sum())
        return found

    def _begins(self, start: F64, nodes: I32, node: int) -> F64:
        """When a thread came to a statement from others, those that it calls apart."""
        assert self.stays is not None
        inside: dict[int, bool] = {-1: False, node: True}
        for each in np.unique(nodes).tolist():
            way = []
            while each not in inside:
                way.append(each)
                each = self.stays.frame(each)[0]
            inside.update(dict.fromkeys(way, inside[each]))
        kinds, at = np.unique(nodes, return_inverse=True)
        mask = np.array([inside[int(k)] for k in kinds], dtype=bool)[at]
        mask[1:] &= ~mask[:-1].copy()
        begins: F64 = start[mask]
        return begins
