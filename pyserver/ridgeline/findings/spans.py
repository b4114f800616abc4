"""Interval algebra on half-open spans: float64 arrays of shape (n, 2), microseconds, sorted and disjoint.

Every saving is claimed as a set of spans of the recorded time, so that two findings can never claim the same
microsecond; the functions here are all that this takes. None of them changes its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Spans = npt.NDArray[np.float64]


def nothing() -> Spans:
    """The empty set."""
    return np.empty((0, 2), dtype=np.float64)


def union(start: npt.NDArray[np.float64], end: npt.NDArray[np.float64]) -> Spans:
    """The set of instants in any of [start_i, end_i); rows may overlap and come in any order."""
    keep = end > start
    if not keep.any():
        return nothing()
    start, end = start[keep], end[keep]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.empty(len(start), dtype=bool)
    first[0] = True
    first[1:] = start[1:] > reach[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    return np.column_stack((start[first], reach[last]))


def of(pairs: Iterable[tuple[float, float]]) -> Spans:
    """The set of instants in any of the pairs."""
    rows = np.array(list(pairs), dtype=np.float64).reshape(-1, 2)
    return union(rows[:, 0], rows[:, 1])


def together(*sets: Spans) -> Spans:
    """Their union."""
    rows = np.concatenate(list(sets)) if sets else nothing()
    return union(rows[:, 0], rows[:, 1])


def measure(spans: Spans) -> float:
    """Total length in microseconds."""
    return float((spans[:, 1] - spans[:, 0]).sum())


def intersect(a: Spans, b: Spans) -> Spans:
    """Instants in both."""
    if not len(a) or not len(b):
        return nothing()
    lo = np.searchsorted(b[:, 1], a[:, 0], side="right")
    hi = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(hi - lo, 0)
    left = np.repeat(np.arange(len(a)), count)
    if not len(left):
        return nothing()
    right = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(lo, count)
    return union(np.maximum(a[left, 0], b[right, 0]), np.minimum(a[left, 1], b[right, 1]))


def subtract(a: Spans, b: Spans) -> Spans:
    """Instants in ``a`` and not in ``b``."""
    if not len(a) or not len(b):
        return a
    lo, hi = min(a[0, 0], b[0, 0]) - 1.0, max(a[-1, 1], b[-1, 1]) + 1.0
    outside = np.column_stack((np.append(lo, b[:, 1]), np.append(b[:, 0], hi)))
    return intersect(a, outside[outside[:, 1] > outside[:, 0]])
