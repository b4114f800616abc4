"""Which interval of its thread encloses an instant: for regions, ranges and Python frames.

Intervals of one thread nest (a call returns before its caller does). All times are microseconds of the trace.
"""

from __future__ import annotations

import numpy as np

from ridgeline.trace.tables import F64, I32, I64

_DEEPEST = 1000
"""Levels: Python's own limit of recursion. What lies deeper hangs on the interval at this level, so that climbing is short
whatever the trace says."""
_SLACK_US = 1e-3
"""Profilers write times with three decimals: a child may seem to end a nanosecond after its parent."""


class Nest:
    """Intervals (start, dur, thread), rows in any order; rows are referred to by their index there."""

    def __init__(self, start: F64, dur: F64, thread: I64) -> None:
        self.start, self.end, self.thread = start, start + dur, thread
        self.parent: I32 = np.full(len(start), -1, dtype=np.int32)
        """Row of the enclosing interval, -1 at the top."""
        self._by_thread: dict[int, tuple[I64, F64, F64]] = {}
        order = np.lexsort((-dur, start, thread))
        if len(order):
            cuts = np.flatnonzero(np.diff(thread[order])) + 1
            for rows in np.split(order, cuts):
                self._by_thread[int(thread[rows[0]])] = (rows, start[rows], self.end[rows])
                self._nest(rows)

    def _nest(self, rows: I64) -> None:
        starts, ends, parent = self.start[rows].tolist(), self.end[rows].tolist(), [-1] * len(rows)
        stack: list[int] = []
        for i, start in enumerate(starts):
            while stack and (ends[stack[-1]] <= start or ends[i] > ends[stack[-1]] + _SLACK_US):
                stack.pop()
            if stack:
                parent[i] = stack[-1] if len(stack) <= _DEEPEST else stack[_DEEPEST - 1]
            stack.append(i)
        local = np.asarray(parent, dtype=np.int64)
        self.parent[rows] = np.where(local >= 0, rows[local], -1)

    def innermost(self, thread: I64, time: F64) -> I32:
        """For every (thread, instant) the row of the innermost interval that contains it, -1 for none."""
        found: I32 = np.full(len(time), -1, dtype=np.int32)
        for tid, (rows, starts, _) in self._by_thread.items():
            at = np.flatnonzero(thread == tid)
            if not len(at):
                continue
            local = np.searchsorted(starts, time[at], side="right") - 1
            row = np.where(local >= 0, rows[np.maximum(local, 0)], -1)
            active = np.flatnonzero((row >= 0) & (self.end[np.maximum(row, 0)] < time[at]))
            while len(active):
                row[active] = self.parent[row[active]]
                active = active[(row[active] >= 0) & (self.end[np.maximum(row[active], 0)] < time[at[active]])]
            found[at] = row
        return found

    def chain(self, row: int) -> list[int]:
        """``row`` and its enclosing intervals, innermost first."""
        rows: list[int] = []
        while row >= 0:
            rows.append(row)
            row = int(self.parent[row])
        return rows
