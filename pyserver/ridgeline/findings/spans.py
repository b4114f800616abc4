"""Interval algebra as findings use it: ``trace.intervals`` with a constructor from pairs.

Every saving is claimed as a set of spans of the recorded time, so that two findings can never claim the same microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ridgeline.trace.intervals import EMPTY, Intervals, intersect, subtract, union
from ridgeline.trace.intervals import join as together

__all__ = ["Spans", "intersect", "measure", "nothing", "of", "subtract", "together", "union"]

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
