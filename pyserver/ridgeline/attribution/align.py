"""Matching what a module launched, in order, with the lines that launch, in order.

Both sequences come from the same code, so they agree except where something was not recorded or a branch was not taken.
An item is given a place only if every best (longest) matching gives it that same place; where two places fit equally
well it gets none, with the places that fit, because a wrong line is worse than no line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)

MAX_CELLS = 16_000_000
"""Of the dynamic program; longer sequences are matched only where they agree one to one."""

_Bool = npt.NDArray[np.bool_]
_Int = npt.NDArray[np.int32]


@dataclass(slots=True, frozen=True)
class Alignment:
    places: tuple[int, ...]
    """For every item its place, -1 for none."""
    candidates: tuple[tuple[int, ...], ...]
    """For every item all places that some best matching gives it."""
    complete: bool
    """Whether every item has a place and every place an item."""


def align(items: Sequence[A], places: Sequence[B], fits: Callable[[A, B], bool]) -> Alignment:
    """The places of ``items``. ``fits`` is called once for each distinct pair."""
    n, m = len(items), len(places)
    if n == m and all(fits(a, b) for a, b in zip(items, places)):
        return Alignment(tuple(range(n)), tuple((i,) for i in range(n)), True)
    if n == 0 or m == 0 or n * m > MAX_CELLS:
        return Alignment((-1,) * n, ((),) * n, False)
    match = _fit_matrix(items, places, fits)
    before, after = _longest(match), _longest(match[::-1, ::-1])[::-1, ::-1]
    best = int(before[n, m])
    # Through (i, j) goes a best matching if what precedes, itself, and what follows add up to the best length.
    through = match & (before[:-1, :-1] + 1 + after[1:, 1:] == best)
    candidates = tuple(tuple(int(j) for j in np.flatnonzero(row)) for row in through)
    chosen = tuple(c[0] if len(c) == 1 else -1 for c in candidates)
    return Alignment(chosen, candidates, False)


def _fit_matrix(items: Sequence[A], places: Sequence[B], fits: Callable[[A, B], bool]) -> _Bool:
    item_kinds = {item: k for k, item in enumerate(dict.fromkeys(items))}
    place_kinds = {place: k for k, place in enumerate(dict.fromkeys(places))}
    table = np.array([[fits(a, b) for b in place_kinds] for a in item_kinds], dtype=np.bool_)
    rows = np.array([item_kinds[item] for item in items])
    columns = np.array([place_kinds[place] for place in places])
    return np.asarray(table[np.ix_(rows, columns)])


def _longest(match: _Bool) -> _Int:
    """L[i, j]: length of the longest in-order matching of the first i items and the first j places."""
    n, m = match.shape
    table = np.zeros((n + 1, m + 1), dtype=np.int32)
    for i in range(n):
        diagonal = table[i, :-1] + match[i]
        table[i + 1, 1:] = np.maximum.accumulate(np.maximum(diagonal, table[i, 1:]))
    return table
