"""Exposed time: what nothing else on the device hides."""

from __future__ import annotations

import numpy as np

from ridgeline.trace.tables import F64
from ridgeline.trace.work import WorkTable


def exposed_time(work: WorkTable) -> F64:
    """Microseconds a work row in which it alone occupied its device. Shape (n,).

    On an accelerator: the part of the interval that no other row of the same device overlaps. On a CPU, where a row's
    time is self time in pieces, threads that run side by side share: every row keeps the fraction that the union of
    all intervals is of their sum, so that exposed time never exceeds the wall.
    """
    exposed = np.zeros(len(work.start))
    for device in np.unique(work.device):
        rows = np.flatnonzero(work.device == device)
        if work.on_cpu:
            exposed[rows] = work.time[rows] * _parallel_fraction(work, rows)
        else:
            exposed[rows] = _alone(work.start[rows], work.start[rows] + work.time[rows])
    return exposed


def _alone(start: F64, end: F64) -> F64:
    """Length of each interval that no other covers. A sweep over the boundaries with the count of open intervals."""
    n = len(start)
    if n == 0:
        return np.zeros(0)
    times = np.concatenate([start, end])
    delta = np.concatenate([np.ones(n, np.int64), -np.ones(n, np.int64)])
    order = np.lexsort((delta, times))
    points = times[order]
    depth = np.cumsum(delta[order])
    single = np.where(depth[:-1] == 1, np.diff(points), 0.0)
    before = np.concatenate([[0.0], np.cumsum(single)])
    # Where exactly one interval is open during [a, b), that interval owns the stretch: the lone time inside an
    # interval's own bounds is therefore its own, except stretches owned by one that it contains or is contained in,
    # which have depth two by definition.
    first = np.searchsorted(points, start, side="left")
    last = np.searchsorted(points, end, side="left")
    result: F64 = before[last] - before[first]
    return np.minimum(result, end - start)


def _parallel_fraction(work: WorkTable, rows: np.ndarray) -> float:
    start, end = work.start[rows], work.end[rows]
    total = float(work.time[rows].sum())
    if total <= 0:
        return 0.0
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    previous = np.concatenate([[start[order][0]], reach[:-1]])
    union = float(np.maximum(reach - np.maximum(start[order], previous), 0).sum())
    return min(1.0, union / total)
