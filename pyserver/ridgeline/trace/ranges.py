"""Host ranges added up so that a nested or recursive one counts once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeline.trace.nesting import nest, rows_by, threads_of
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
    _, own = nest(ranges.start, ranges.dur, thread)
    added = _added(ranges, thread)
    out = []
    for name, rows in rows_by(ranges.name):
        groups = [rows[k : k + 1] for k in range(len(rows))] if trace.strings[name] == NOT_EXPORTABLE else [rows]
        for group in groups:
            out.append(RangeTotal(name, len(group), float(added[group].sum()), float(own[group].sum())))
    return sorted(out, key=lambda row: -row.inclusive)


def _added(ranges: Ranges, thread: I32) -> F64:
    """What each range adds to the time in which one of its name is open on its thread."""
    until: dict[tuple[int, int], float] = {}
    starts, ends = ranges.start.tolist(), (ranges.start + ranges.dur).tolist()
    out = np.zeros(len(thread))
    for row, key in enumerate(zip(thread.tolist(), ranges.name.tolist())):
        covered = max(until.get(key, starts[row]), starts[row])
        if ends[row] > covered:
            out[row] = ends[row] - covered
        until[key] = max(covered, ends[row])
    return out
