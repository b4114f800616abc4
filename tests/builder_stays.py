"""Stays at statements, as attribution gives them, from the lines of a ``TraceBuilder``."""

from __future__ import annotations

import numpy as np

from ridgeline.attribution.model import Stays
from ridgeline.profile import SourceRef


class StaysOfLines:
    """``HostStays`` of the lines of a builder: a statement is called by those that were around it when it was given."""

    def __init__(self, lines: list[tuple[int, float, float, SourceRef]]) -> None:
        self._lines = lines
        self._nodes: dict[tuple[int, str, int], int] = {}
        self._refs: list[SourceRef] = []
        self._codes: list[str] = []

    def of(self, thread: int) -> Stays | None:
        mine = [(lo, hi, place) for tid, lo, hi, place in self._lines if tid == thread]
        moments = sorted({t for lo, hi, _ in mine for t in (lo, hi)})
        begins: dict[float, list[int]] = {}
        for k, (lo, _, _) in enumerate(mine):
            begins.setdefault(lo, []).append(k)
        nodes, around = [], list[int]()
        for moment in moments:
            around = sorted([k for k in around if mine[k][1] > moment] + begins.get(moment, []))
            node = -1
            for k in around:
                node = self._node(node, mine[k][2])
            nodes.append(node)
        if not moments:
            return None
        none = np.zeros(len(moments), dtype=np.int64)
        return Stays(np.array(moments, dtype=np.float64), np.array(nodes, dtype=np.int32), none)

    def _node(self, caller: int, place: SourceRef) -> int:
        node = self._nodes.setdefault((caller, place.file, place.line), len(self._nodes))
        if node == len(self._refs):
            self._refs.append(place)
        return node

    def frame(self, node: int) -> tuple[int, int]:
        caller, file, _ = list(self._nodes)[node]
        if file not in self._codes:
            self._codes.append(file)
        return caller, self._codes.index(file)

    def ref(self, node: int) -> SourceRef | None:
        return self._refs[node] if node >= 0 else None
