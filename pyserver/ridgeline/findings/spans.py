"""Interval algebra as findings use it: ``trace.intervals`` with a constructor from pairs.

Every saving is claimed as a set of spans of the recorded time, so that two findings can never claim the same microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ridgeline.trace.intervals import EMPTY, Intervals, intersect, subtract, union
from ridgeline.trace.intervals import join as together
from ridgeline.trace.tables import F64

__all__ = ["Spans", "intersect", "measure", "nothing", "of", "subtract", "together", "union", "within"]

Spans = Intervals


def nothing() -> Spans:
    """The empty set."""
    return EMPTY


def of(pairs: Iterable[tuple[float, float]]) -> Spans:
    """The set of instants in any of the pairs, which may overlap and come in any order."""
    rows = np.array(list(pairs), dtype=np.float64).reshape(-1, 2)
    return union(rows[:, 0], rows[:, 1])


def measure(spans: Spans) -> float:
    """Total length in microseconds."""
    return spans.total


def within(cover: Spans, moments: F64) -> npt.NDArray[np.bool_]:
    """Whether moments lie in a set of spans; not a number lies nowhere. Shape (n,)."""
    if not len(cover.start):
        return np.zeros(len(moments), dtype=bool)
    at = np.searchsorted(cover.start, moments, side="right") - 1
    inside: npt.NDArray[np.bool_] = (at >= 0) & (moments < cover.end[np.maximum(at, 0)])
    return inside
