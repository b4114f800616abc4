"""Interval algebra on sorted, disjoint arrays. All in the unit that goes in; half-open, so that touching ones join."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeline.trace.tables import F64


class Intervals(NamedTuple):
    """Disjoint intervals in ascending order; ``start`` and ``end`` have one length."""

    start: F64
    end: F64

    @property
    def total(self) -> float:
        return float((self.end - self.start).sum())


EMPTY = Intervals(np.empty(0), np.empty(0))


def union(start: F64, end: F64) -> Intervals:
    """The set that intervals in any order cover; empty and reversed ones cover nothing."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.empty(len(start), dtype=bool)
    opens[0] = True
    np.greater(start[1:], reach[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return Intervals(start[first], reach[last])


def clip(of: Intervals, low: float, high: float) -> Intervals:
    """The part of ``of`` in [low, high]."""
    start, end = np.maximum(of.start, low), np.minimum(of.end, high)
    keep = end > start
    return Intervals(start[keep], end[keep])


def complement(of: Intervals, low: float, high: float) -> Intervals:
    """What [low, high] holds outside ``of``: the gaps."""
    inside = clip(of, low, high)
    start = np.concatenate([[low], inside.end])
    end = np.concatenate([inside.start, [high]])
    keep = end > start
    return Intervals(start[keep], end[keep])


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """What both cover."""
    if not len(one.start) or not len(other.start):
        return EMPTY
    first = np.searchsorted(other.end, one.start, side="right")
    last = np.searchsorted(other.start, one.end, side="left")
    count = np.maximum(last - first, 0)
    rows = np.repeat(np.arange(len(one.start)), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    others = np.repeat(first, count) + offset
    start = np.maximum(one.start[rows], other.start[others])
    end = np.minimum(one.end[rows], other.end[others])
    keep = end > start
    return Intervals(start[keep], end[keep])


def subtract(one: Intervals, other: Intervals) -> Intervals:
    """What ``one`` covers and ``other`` does not."""
    if not len(one.start):
        return EMPTY
    return intersect(one, complement(other, float(one.start[0]), float(one.end[-1])))


def join(*sets: Intervals) -> Intervals:
    """What any of them covers."""
    if not sets:
        return EMPTY
    return union(np.concatenate([each.start for each in sets]), np.concatenate([each.end for each in sets]))


def overlap_of(start: F64, end: F64, cover: Intervals) -> F64:
    """For each interval (in any order, they may overlap): how much of it ``cover`` covers."""
    if not len(cover.start):
        return np.zeros(len(start))
    lengths = np.concatenate([[0.0], np.cumsum(cover.end - cover.start)])

    def covered_before(moment: F64) -> F64:
        row = np.searchsorted(cover.start, moment, side="right")
        inside = np.maximum(row - 1, 0)
        excess = np.where(row > 0, np.maximum(cover.end[inside] - moment, 0.0), 0.0)
        out: F64 = lengths[row] - excess
        return out

    return np.maximum(covered_before(np.maximum(end, start)) - covered_before(start), 0.0)
