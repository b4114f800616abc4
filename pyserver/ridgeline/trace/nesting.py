"""Nested host ranges: parents, self time, the innermost range at a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.trace.tables import F64, I32, I64

DEEPEST = 128
"""Levels of ops; real ones have some thirty. What lies deeper hangs on the range at this level, so that a walk to the
outermost range is short whatever the trace says."""


def threads_of(pid: I64, tid: I64) -> I32:
    """A small number for each (process, thread)."""
    if not len(pid):
        return np.empty(0, dtype=np.int32)
    _, process = np.unique(pid, return_inverse=True)
    names, thread = np.unique(tid, return_inverse=True)
    _, inverse = np.unique(process.reshape(-1) * len(names) + thread.reshape(-1), return_inverse=True)
    out: I32 = inverse.reshape(-1).astype(np.int32)
    return out


def nest(start: F64, dur: F64, thread: I32) -> tuple[I32, F64]:
    """(row of the enclosing range or -1, self time) of ranges sorted by (start, -dur), thread by thread.

    A moment belongs to the range that started last of those that are open: a child that sticks out of its parent
    takes nothing from the parent beyond the parent's end, so self times add up to the union of the ranges.
    """
    n = len(start)
    parent = np.full(n, -1, dtype=np.int32)
    own = dur.astype(np.float64, copy=True)
    starts, ends = start.tolist(), (start + dur).tolist()
    selfs = own.tolist()
    parents = parent.tolist()
    stacks: dict[int, list[int]] = {}
    for row, where in enumerate(thread.tolist()):
        stack = stacks.get(where)
        if stack is None:
            stack = stacks[where] = []
        begin, end = starts[row], ends[row]
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            above = stack[-1]
            parents[row] = above if len(stack) <= DEEPEST else stack[DEEPEST - 1]
            if end <= ends[above]:
                selfs[above] -= end - begin
            else:
                covered = begin
                for outer in reversed(stack):
                    reach = min(end, ends[outer])
                    if reach > covered:
                        selfs[outer] -= reach - covered
                        covered = reach
                # Whatever ends no later than this one can own nothing any more; dropping it keeps the work linear.
                while stack and ends[stack[-1]] <= end:
                    stack.pop()
        stack.append(row)
    return np.array(parents, dtype=np.int32), np.maximum(np.array(selfs, dtype=np.float64), 0.0)


def latest(group: npt.NDArray[np.integer[Any]], time: F64, at_group: npt.NDArray[np.integer[Any]], at: F64) -> I64:
    """For each moment ``at``: the row of the same group with the latest ``time`` not after it; -1 if there is none.

    Of equal times the last row wins. One sort of rows and moments together, whatever the number of groups.
    """
    rows, wanted = len(time), len(at)
    if not rows or not wanted:
        return np.full(wanted, -1, dtype=np.int64)
    groups = np.concatenate([group, at_group])
    order = np.lexsort((np.repeat([0, 1], [rows, wanted]), np.concatenate([time, at]), groups))
    is_row = order < rows
    last = np.maximum.accumulate(np.where(is_row, np.arange(len(order)), -1))
    found = np.where(last >= 0, order[np.maximum(last, 0)], -1)
    found = np.where((found >= 0) & (groups[np.maximum(found, 0)] == groups[order]), found, -1)
    out = np.empty(wanted, dtype=np.int64)
    out[order[~is_row] - rows] = found[~is_row]
    return out


def innermost(start: F64, end: F64, thread: I32, parent: I32, at: F64, at_thread: I32) -> I32:
    """Row of the innermost range of ``at_thread`` that holds the moment ``at``, -1 for none.

    ``start`` ascends; ``parent`` is :func:`nest`'s. Climbs from the last range that began before the moment.
    """
    current = latest(thread, start, at_thread, at)
    climbing = np.flatnonzero(current >= 0)
    while len(climbing):
        climbing = climbing[end[current[climbing]] < at[climbing]]
        current[climbing] = parent[current[climbing]]
        climbing = climbing[current[climbing] >= 0]
    return current.astype(np.int32)


def rows_by(ids: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, I64]]:
    """(id, its rows in ascending order) for each distinct id, with one sort."""
    order = np.argsort(ids, kind="stable")
    distinct, first = np.unique(ids[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, first[1:]))
