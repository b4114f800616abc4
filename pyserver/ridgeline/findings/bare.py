"""What lies between a step's operators, by steps that were recorded without their lines (the sidecar's ``Window.bare``).

The gap before a step's k-th operator is the same Python in all steps. So the steps without lines tell how long it takes, and those
with lines which statements fill it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ridgeline.trace.tables import F64, I64

SAME = 0.5
"""Part of the steps, of either recording, that must have as many operators as most of the bare ones have: then gaps are compared one by
one, else all of them together."""

ALIKE = 0.01
"""Gaps in which lines lie as densely as in one another do not tell what is a line's and what the machine's: one less the square of their
correlation, about the origin."""
RATES = (0.5, 2.0)
"""How much slower a machine is for sharing its cores and caches, or quicker for not."""


class Gaps(NamedTuple):
    """Of one step: the times before its first operator, between operators that none encloses, and after the last one. Microseconds.
    Shape (operators + 1,)."""

    start: F64
    end: F64

    @property
    def length(self) -> F64:
        found: F64 = self.end - self.start
        return found


def gaps(start: F64, end: F64, lo: float, hi: float) -> Gaps:
    """Between operators on any thread that begin in the step [lo, hi)."""
    inside = (start >= lo) & (start < hi)
    order = np.lexsort((-end[inside], start[inside]))
    start, end = start[inside][order], np.minimum(end[inside][order], hi)
    until = np.maximum.accumulate(np.append(lo, end))
    alone = start >= until[:-1]
    return Gaps(np.append(until[:-1][alone], until[-1]), np.append(start[alone], hi))


def _rate(spent: F64, looked: F64, meant: F64, otherwise: float) -> float:
    """How long Python takes in bare steps, of its time in the recorded ones beside their lines: so that, with one cost of a line, all
    gaps are as long as they are in bare steps, as well as can be. ``otherwise`` where the gaps do not tell. Per gap, shape (n,)."""
    some = spent > 0
    spent, looked, meant = spent[some], looked[some], meant[some]
    weigh = 1.0 / spent
    dd, dl, ll = (
        float((weigh * spent * spent).sum()),
        float((weigh * spent * looked).sum()),
        float((weigh * looked * looked).sum()),
    )
    dg, lg = float((weigh * spent * meant).sum()), float((weigh * looked * meant).sum())
    apart = dd * ll - dl * dl
    found = (dg * ll - dl * lg) / apart if len(spent) > 1 and apart > ALIKE * dd * ll else otherwise
    return float(np.clip(found, *RATES))


class Bare:
    """Steps with their lines beside steps without them."""

    def __init__(self, recorded: Sequence[Gaps], bare: Sequence[Gaps], plain_us: float | None, pages: float) -> None:
        self.recorded = recorded
        self.plain_us = plain_us
        """Of an unprofiled step beside them."""
        self.pages = pages
        """That a bare step asks the system for, and an unprofiled one does not."""
        counts = np.array([len(step.start) for step in bare])
        values, often = np.unique(counts, return_counts=True)
        most = int(values[int(np.argmax(often))])
        self.alike = np.array([len(step.start) == most for step in recorded])
        """Of the recorded steps those with as many operators as most bare ones."""
        self.matched = float(often.max()) >= SAME * len(bare) and float(self.alike.mean()) >= SAME
        """Whether gaps are compared one by one."""
        each = np.array([step.length for step in bare if len(step.start) == most])
        self.gap_us: F64 = np.median(each, axis=0)
        """Of most steps. Shape (operators + 1,)."""
        whole = [float(step.end[-1] - step.start[0]) for step in bare]
        python = [float(step.length.sum()) for step in bare]
        self.python_us = float(self.gap_us.sum()) if self.matched else float(np.median(python))
        """Of a bare step, outside of operators."""
        self.operators_us = float(np.median(np.array(whole) - np.array(python)))
        known = [s for s, same in zip(recorded, self.alike) if same] if self.matched else list(recorded)
        usual = float(np.median([float(s.end[-1] - s.start[0]) - float(s.length.sum()) for s in known]))
        self.rate = self.operators_us / usual if usual > 0 else 1.0
        """How long the same operators take in them, of their time beside the lines: how much slower the machine was."""

    def unprofiled(self, start: F64, end: F64, looks: F64, python_us: float) -> F64:
        """What each part of the recorded steps' Python, which begins and ends so and in which so much was written down, takes of steps
        without lines. ``python_us`` is all of their Python. Over all recorded steps. Shape (n,)."""
        length = end - start
        if self.matched:
            key, scale = self._place(start)
            size = int(self._first[-1])
            spent: F64 = np.bincount(key[key >= 0], weights=length[key >= 0], minlength=size).astype(np.float64)
            looked: F64 = np.bincount(key[key >= 0], weights=looks[key >= 0], minlength=size).astype(np.float64)
            # Where it is not the whole gap the rest is waiting for a loader, or compilation, which lines do not slow.
            meant: F64 = np.where(spent > 0, np.maximum(self._meant - (self._length - spent), 0.0), 0.0)
            spent, looked, meant = self._together(spent), self._together(looked), self._together(meant)
            once = slice(0, len(self.gap_us))
            rate = _rate(spent[once], looked[once], meant[once], self.rate)
        else:
            key, scale, rate = np.zeros(len(start), dtype=np.int64), 1.0, self.rate
            spent, looked = np.array([python_us]), np.array([looks.sum()])
            meant = np.array([self.python_us * len(self.recorded)])
        length, spent = length * rate, spent * rate
        line = np.divide(np.maximum(spent - meant, 0.0), looked, out=np.zeros(len(spent)), where=looked > 0)
        # What no line explains, and what a step without lines has more of, is shared out by length.
        left = spent - line * looked
        part = np.divide(meant, left, out=np.zeros(len(left)), where=left > 0)
        found: F64 = np.where(key >= 0, (length - line[key] * looks) * part[key] * scale, 0.0)
        return found

    @cached_property
    def _first(self) -> I64:
        """Number of the first gap of each recorded step that is like the bare ones, all counted on, and how many there are."""
        sizes = [len(step.start) for step in self.recorded]
        return np.append(0, np.cumsum(np.array(sizes, dtype=np.int64) * self.alike))

    @cached_property
    def _which(self) -> I64:
        """Of each of these gaps its number within its step."""
        return np.tile(np.arange(len(self.gap_us), dtype=np.int64), int(self.alike.sum()))

    @cached_property
    def _length(self) -> F64:
        """Recorded, of each."""
        return np.concatenate([s.length for s, same in zip(self.recorded, self.alike) if same])

    @cached_property
    def _meant(self) -> F64:
        """Of a bare step, of each."""
        found: F64 = self.gap_us[self._which]
        return found

    def _together(self, each: F64) -> F64:
        """Of each gap the sum over the steps."""
        found: F64 = np.bincount(self._which, weights=each, minlength=len(self.gap_us)).astype(np.float64)[self._which]
        return found

    def _place(self, moments: F64) -> tuple[I64, float]:
        """(of each moment the gap that it lies in, -1 in steps that are not like the bare ones; steps over those that are)."""
        begins = np.array([step.start[0] for step in self.recorded])
        found = np.full(len(moments), -1, dtype=np.int64)
        where = np.searchsorted(begins, moments, side="right") - 1
        for at, step in enumerate(self.recorded):
            mine = np.flatnonzero(where == at) if self.alike[at] else ()
            if len(mine):
                found[mine] = self._first[at] + np.searchsorted(step.start, moments[mine], side="right") - 1
        return found, len(self.recorded) / max(float(self.alike.sum()), 1.0)
