"""Durations that cannot be, told from overlaps that can.

Kernels of one stream run in order. Legal exceptions: programmatic dependent launch lets the next kernel start before
its predecessor ends (it then also ends after it), branches of one CUDA graph share a stream, communication kernels
wait on other ranks, timestamps are rounded. A record that runs past a later launch of its own stream which has both
begun and ended, by far and out of all proportion, is an artefact (a flush that stamped it late): it is bounded to the
start of the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.trace.communication import communication_rows
from ridgeline.trace.tables import F64, Trace

_OVERRUN_US = 100.0
"""Beyond the end of a successor that is over: far above any clock error or prologue."""
_OUT_OF_PROPORTION = 10.0
"""Times the median of the name's other launches; for a name seen once, times the time to the next start."""


def bounded(trace: Trace) -> tuple[F64, npt.NDArray[np.bool_]]:
    """(counted duration in µs, whether it was bounded) for each device event; worked out once a trace."""
    if trace.bounded is None:
        trace.bounded = _bounded(trace)
    return trace.bounded


def _bounded(trace: Trace) -> tuple[F64, npt.NDArray[np.bool_]]:
    events = trace.device_events
    time = events.dur.astype(np.float64, copy=True)
    flagged = np.zeros(len(time), dtype=bool)
    if len(time) < 2:
        return time, flagged
    order = np.lexsort((np.arange(len(time)), events.stream, events.device))
    same = (events.device[order][1:] == events.device[order][:-1]) & (
        events.stream[order][1:] == events.stream[order][:-1]
    )
    end = events.start + events.dur
    one, following = order[:-1][same], order[1:][same]
    suspicious = end[one] > end[following] + _OVERRUN_US
    linked = (events.correlation[one] == events.correlation[following]) & (events.correlation[one] >= 0)
    rows, nexts = one[suspicious & ~linked], following[suspicious & ~linked]
    _bound_to_recording(trace, time, flagged)
    if not len(rows):
        return time, flagged
    gap = events.start[nexts] - events.start[rows]
    usual, alone = _usual_durations(trace)
    usual = np.where(alone[rows], gap, usual[rows])
    wrong = (events.dur[rows] > _OUT_OF_PROPORTION * np.maximum(usual, 1.0)) & ~communication_rows(trace)[rows]
    time[rows[wrong]] = gap[wrong]
    flagged[rows[wrong]] = True
    return time, flagged


def _usual_durations(trace: Trace) -> tuple[F64, npt.NDArray[np.bool_]]:
    """For each device event the median of its name's durations (of two, the shorter), and whether the name is alone."""
    events = trace.device_events
    order = np.lexsort((events.dur, events.name))
    _, first, inverse, count = np.unique(events.name[order], return_index=True, return_inverse=True, return_counts=True)
    middle = events.dur[order][first + (count - 1) // 2]
    inverse = inverse.reshape(-1)
    usual, alone = np.empty(len(order)), np.empty(len(order), dtype=bool)
    usual[order], alone[order] = middle[inverse], (count == 1)[inverse]
    return usual, alone


def _bound_to_recording(trace: Trace, time: F64, flagged: npt.NDArray[np.bool_]) -> None:
    """A single record that outlasts all others together ends with the last of them at the latest."""
    events = trace.device_events
    longest = int(events.dur.argmax())
    others = np.arange(len(time)) != longest
    tables = (trace.calls, trace.ops, trace.ranges)
    starts = [events.start[others], *(table.start for table in tables)]
    ends = [(events.start + events.dur)[others], *(table.start + table.dur for table in tables)]
    first = min(float(start.min()) for start in starts if len(start))
    last = max(float(end.max()) for end in ends if len(end))
    end = float(events.start[longest] + events.dur[longest])
    usual = float(np.median(events.dur[others]))
    if end > last and events.dur[longest] > _OUT_OF_PROPORTION * max(last - first, usual, _OVERRUN_US):
        time[longest] = max(last - float(events.start[longest]), 0.0)
        flagged[longest] = True
