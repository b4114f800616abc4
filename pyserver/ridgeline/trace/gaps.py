"""Why the device did nothing: every gap of its work, cut by cause.

A gap ends with the next piece of work. If that was launched before the gap began (and longer ago than a launch takes
to arrive), the queue was not empty: the device waited for something else (``other``). If not, the host was late, and
what it did until the launch is the cause: it served the profiler, compiled, waited for data, waited for the device,
copied, allocated (``other``), or prepared and made the launch (``launch``). A gap that begins while the host waits for
the device is the wait's as far as nothing else explains it: had the host not waited, it would have prepared the next
work meanwhile. What the device did before its first work of the recording is not known, and the profiler is started in
that time: what nothing else explains of it is no late launch (``other``). Behind the last work lies the ``tail``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ridgeline.profile import Idle
from ridgeline.sidecar import Sidecar
from ridgeline.trace import host
from ridgeline.trace.bounds import bounded
from ridgeline.trace.intervals import Intervals, clip, complement, join, overlap_of, subtract, union
from ridgeline.trace.tables import F64, I32, I64, U8, Call, Trace

LAUNCH_ARRIVES_US = 10.0
"""From the start of a launch call to the start of its kernel on an idle device: 3 to 8 µs on current hardware."""
_EDGE_US = 0.5
"""How far clocks may disagree on whether a wait was on when the gap began."""


class Cause(IntEnum):
    """As in ``profile.Idle``; columns of :attr:`Gaps.by_cause`."""

    LAUNCH = 0
    SYNC = 1
    LOADER = 2
    COPY = 3
    COMPILE = 4
    PROFILER = 5
    TAIL = 6
    OTHER = 7


@dataclass(slots=True, kw_only=True)
class Gaps:
    """The gaps of one device in a window, in order of time (µs offsets)."""

    start: F64
    end: F64
    queue_empty: U8
    """1 where the work that ends the gap had not been launched when the gap began; 0 too where that is not known."""
    next_event: I32
    """Row in ``device_events`` of the work that ends the gap; -1 where none follows."""
    call: I32
    """Row in ``calls`` of its launch, -1 if unknown."""
    wait: I32
    """Row in ``calls`` of the wait that was on when the gap began, -1 if none."""
    tid: I64
    """Thread of the launch that ended the gap, -1 if unknown: whose line to blame."""
    cause: U8
    """The :class:`Cause` of the largest part."""
    by_cause: F64
    """[gap, cause] microseconds; a row sums to the gap's length."""


def idle_by_cause(
    trace: Trace, device: int, window: tuple[float, float], sidecar: Sidecar | None = None
) -> tuple[Idle, Gaps]:
    """The idle time of ``device`` in ``window`` (offsets in µs) by cause, and gap by gap. The causes sum to it."""
    low, high = window
    events, calls = trace.device_events, trace.calls
    time, _ = bounded(trace)
    here = np.flatnonzero(events.device == device)
    idle = complement(union(events.start[here], (events.start + time)[here]), low, high)
    n = len(idle.start)
    start, end = idle.start, idle.end

    position = np.searchsorted(events.start[here], end - 1e-6, side="left")
    following = np.where(
        position < len(here), here[np.minimum(position, max(len(here) - 1, 0))] if len(here) else -1, -1
    )
    following = following.astype(np.int32)
    call = np.where(following >= 0, events.call[np.maximum(following, 0)] if len(events.call) else -1, -1)
    known = call >= 0
    safe = np.maximum(call, 0)
    launched = calls.start[safe] if len(calls.start) else np.zeros(n)
    launched_end = launched + (calls.dur[safe] if len(calls.start) else 0.0)
    # The next work may begin behind the window: what counts is when it begins, not where the window ends.
    begins = events.start[np.maximum(following, 0)] if len(events.start) else np.zeros(n)
    queued = known & (launched_end <= start) & (begins - launched > LAUNCH_ARRIVES_US)
    late = known & ~queued

    by_cause = np.zeros((n, len(Cause)))
    length = end - start
    by_cause[~known & (following >= 0), Cause.OTHER] = length[~known & (following >= 0)]
    by_cause[queued, Cause.OTHER] = length[queued]
    last = following < 0
    host_seen = len(calls.start) + len(trace.ops.start) > 0
    by_cause[last, Cause.TAIL if host_seen else Cause.OTHER] = length[last]

    # The host's part of a late gap ends where its launch begins; the rest is the launch on its way.
    prepared = np.where(late, np.clip(launched, start, end), start)
    first = (
        (start <= low) & (following == here[np.argmin(events.start[here])]) if len(here) else np.zeros(n, dtype=bool)
    )
    launching = np.where(first, Cause.OTHER, Cause.LAUNCH)
    by_cause[late, launching[late]] += (end - prepared)[late]
    waiting, wait_call = _waits(trace, start)
    remaining = prepared - start
    for cause, cover in _covers(trace, sidecar, waiting, low, high):
        part = np.minimum(overlap_of(start, prepared, cover), remaining)
        by_cause[:, cause] += part
        remaining = remaining - part
    rest = np.where(wait_call >= 0, Cause.SYNC, launching)
    by_cause[np.arange(n), rest] += np.maximum(remaining, 0.0)

    totals = by_cause.sum(axis=0)
    return (
        Idle(**{cause.name.lower(): float(totals[cause]) for cause in Cause}),
        Gaps(
            start=start,
            end=end,
            queue_empty=late.astype(np.uint8),
            next_event=following,
            call=call.astype(np.int32),
            wait=wait_call,
            tid=np.where(known, calls.tid[safe] if len(calls.tid) else -1, -1).astype(np.int64),
            cause=by_cause.argmax(axis=1).astype(np.uint8) if n else np.empty(0, dtype=np.uint8),
            by_cause=by_cause,
        ),
    )


def _waits(trace: Trace, moments: F64) -> tuple[Intervals, I32]:
    """Waits of the threads that launch work; and the call of the wait that is on at each moment, -1 if none."""
    found = host.waits(trace)
    threads = host.call_threads(trace)
    launching = np.unique(threads[np.isin(trace.calls.kind, (Call.LAUNCH, Call.GRAPH_LAUNCH, Call.MEMCPY))])
    rows = np.flatnonzero(np.isin(found.thread, launching))
    on = np.full(len(moments), -1, dtype=np.int32)
    if len(rows):
        begin, until = found.start[rows], found.end[rows]
        # Of several threads' waits the one that lasts longest so far.
        reach = np.maximum.accumulate(until)
        holder = np.maximum.accumulate(np.where(until >= reach, np.arange(len(rows)), 0))
        position = np.searchsorted(begin, moments + _EDGE_US, side="right") - 1
        inside = (position >= 0) & (reach[np.maximum(position, 0)] >= moments - _EDGE_US)
        on[inside] = found.call[rows[holder[position[inside]]]]
    return union(found.start[rows], found.end[rows]), on


def _covers(
    trace: Trace, sidecar: Sidecar | None, waiting: Intervals, low: float, high: float
) -> list[tuple[Cause, Intervals]]:
    """What the host did, each moment under one cause: the first of the list that claims it."""
    claims = (
        (Cause.PROFILER, host.serving_profiler(trace)),
        (Cause.COMPILE, host.compiling(trace, sidecar)),
        (Cause.LOADER, host.loading(trace, sidecar)),
        (Cause.SYNC, waiting),
        (Cause.COPY, host.calls_of(trace, Call.MEMCPY)),
        (Cause.OTHER, host.calls_of(trace, Call.MALLOC)),
    )
    taken = Intervals(np.empty(0), np.empty(0))
    out = []
    for cause, cover in claims:
        own = subtract(clip(cover, low, high), taken)
        out.append((cause, own))
        taken = join(taken, own)
    return out
