"""Host ranges added up so that a nested or recursive one counts once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.trace.nesting import nest, threads_of
from ridgeline.trace.tables import F64, I32, Ranges, Trace

NOT_EXPORTABLE = "unknown"
"""What the exporter writes for a label it cannot encode: several different labels may hide behind it."""


class RangeTotal(NamedTuple):
    name: int
    """In ``Trace.strings``."""
    calls: int
    inclusive: float
    """Microseconds in which at least one range of the name is open, thread by thread: never more than the wall."""
    own: float
    """Less what other ranges inside take."""


def self_times(ranges: Ranges) -> F64:
    """Each range's time less that of the ranges directly inside (µs)."""
    return nest(ranges.start, ranges.dur, threads_of(ranges.pid, ranges.tid))[1]


def range_totals(trace: Trace) -> list[RangeTotal]:
    """One row a label, the largest inclusive time first. ``unknown`` is one row a range: they may be different ones."""
    ranges = trace.ranges
    thread = threads_of(ranges.pid, ranges.tid)
    parent, own = nest(ranges.start, ranges.dur, thread)
    outermost = _outermost(ranges, parent)
    out = []
    for name in np.unique(ranges.name).tolist():
        rows = np.flatnonzero(ranges.name == name)
        groups = [rows[k : k + 1] for k in range(len(rows))] if trace.strings[name] == NOT_EXPORTABLE else [rows]
        for group in groups:
            top = group[outermost[group]]
            out.append(RangeTotal(name, len(group), float(ranges.dur[top].sum()), float(own[group].sum())))
    return sorted(out, key=lambda row: -row.inclusive)


def _outermost(ranges: Ranges, parent: I32) -> npt.NDArray[np.bool_]:
    """Whether no enclosing range has the same name."""
    out = np.ones(len(parent), dtype=bool)
    names, parents = ranges.name.tolist(), parent.tolist()
    for row, name in enumerate(names):
        above = parents[row]
        while above >= 0:
            if names[above] == name:
                out[row] = False
                break
            above = parents[above]
    return out
