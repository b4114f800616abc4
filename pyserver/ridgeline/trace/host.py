"""What the host does in its runtime calls: working, or waiting for the device."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.sidecar import Interval, Sidecar
from ridgeline.trace.intervals import EMPTY, Intervals, clip, join, union
from ridgeline.trace.nesting import threads_of
from ridgeline.trace.tables import F64, I32, Call, Trace

_CLOCK_US = 2.0
"""Host and device clocks are aligned to about this much."""
_TO_HOST = re.compile(r"DtoH|Device -> (?:Host|Pageable|Pinned)|D2H|DEVICE_TO_HOST", re.IGNORECASE)
_LOADER = re.compile(r"enumerate\(DataLoader\)|_?DataLoaderIter\.__next__")
_COMPILE = re.compile(
    r"torch/_dynamo/convert_frame\.py\(\d+\): _?(?:compile|convert_frame)"
    r"|torch/_inductor/compile_fx\.py\(\d+\): (?:compile_fx|_compile_fx|fx_codegen_and_compile)"
    r"|torch/_inductor/async_compile\.py\(\d+\): (?:triton|cpp\w*|wait)$"
    r"|triton/compiler/compiler\.py\(\d+\): compile$"
    r"|^_compile\.compile_inner|^TorchDynamo compile|^Inductor: "
)


class HostWaits(NamedTuple):
    """Stretches in which a host thread waits for the device, ordered by start."""

    start: F64
    end: F64
    thread: I32
    """A small number for each (process, thread) among the calls; see :func:`call_threads`."""
    call: I32
    """Row in ``Trace.calls``."""


def call_threads(trace: Trace) -> I32:
    """A small number for each (process, thread) of ``Trace.calls``."""
    return threads_of(trace.calls.pid, trace.calls.tid)


def copy_rows(trace: Trace) -> tuple[I32, npt.NDArray[np.bool_]]:
    """(row of the device copy that each call started or -1, whether that copy goes to the host)."""
    calls, events = trace.calls, trace.device_events
    copy = np.full(len(calls.start), -1, dtype=np.int32)
    linked = np.flatnonzero(events.call >= 0)
    copy[events.call[linked]] = linked
    copy[calls.kind != Call.MEMCPY] = -1
    to_host = np.zeros(len(calls.start), dtype=bool)
    rows = np.flatnonzero(copy >= 0)
    if len(rows):
        names = events.name[copy[rows]]
        known = {name: _TO_HOST.search(trace.strings[name]) is not None for name in np.unique(names).tolist()}
        to_host[rows] = np.fromiter((known[name] for name in names.tolist()), dtype=bool, count=len(rows))
    return copy, to_host


def waits(trace: Trace) -> HostWaits:
    """Synchronising calls as a whole, and copies to the host from which the call returned only after they were done.

    ``cudaMemcpyAsync`` to pageable memory is such a copy: what ``.item()`` waits in. Of it, the stretch up to the
    copy's end counts. Copies to the device are work of the host (it stages the bytes).
    """
    calls, events = trace.calls, trace.device_events
    copy, to_host = copy_rows(trace)
    end = calls.start + calls.dur
    blocking = to_host.copy()
    if len(events.start):
        safe = np.maximum(copy, 0)
        done = events.start[safe] + events.dur[safe]
        blocking &= end >= done - _CLOCK_US
        end = np.where(blocking, np.clip(done, calls.start, end), end)
    rows = np.flatnonzero((calls.kind == Call.SYNC) | blocking)
    return HostWaits(calls.start[rows], end[rows], call_threads(trace)[rows], rows.astype(np.int32))


def host_wait_us(trace: Trace, low: float, high: float) -> float:
    """How long at least one host thread waits for the device in [low, high]."""
    found = waits(trace)
    return clip(union(found.start, found.end), low, high).total


def offset_us(trace: Trace, unix_ns: int) -> float | None:
    """A moment of the Unix clock as an offset of the trace; None where the trace does not tell its base."""
    if trace.base_ns is None:
        return None
    return (unix_ns - trace.base_ns - trace.origin_ns) / 1000.0


def from_unix(trace: Trace, intervals: list[Interval]) -> Intervals:
    """Intervals of the sidecar on the trace's clock; none where the clocks are not comparable."""
    if trace.base_ns is None or not intervals:
        return EMPTY
    start = np.array([offset_us(trace, each.start_ns) for each in intervals], dtype=np.float64)
    end = np.array([offset_us(trace, each.end_ns) for each in intervals], dtype=np.float64)
    return union(start, end)


def loading(trace: Trace, sidecar: Sidecar | None = None) -> Intervals:
    """When the program waits for its DataLoader."""
    found = [_named(trace, _LOADER)]
    if sidecar is not None:
        found += [from_unix(trace, loader.waits) for loader in sidecar.loaders]
    return join(*found)


def compiling(trace: Trace, sidecar: Sidecar | None = None) -> Intervals:
    """When something is compiled."""
    found = [_named(trace, _COMPILE)]
    if sidecar is not None:
        compiles = [Interval(start_ns=each.start_ns, end_ns=each.end_ns) for each in sidecar.compiles]
        found.append(from_unix(trace, compiles))
    return join(*found)


def serving_profiler(trace: Trace) -> Intervals:
    """When the profiler itself holds the host up."""
    if trace.overhead is None:
        return EMPTY
    return union(trace.overhead.start, trace.overhead.start + trace.overhead.dur)


def calls_of(trace: Trace, *kinds: Call) -> Intervals:
    """When any thread is in a call of these kinds."""
    rows = np.isin(trace.calls.kind, kinds)
    return union(trace.calls.start[rows], (trace.calls.start + trace.calls.dur)[rows])


def _named(trace: Trace, pattern: re.Pattern[str]) -> Intervals:
    """Union of host ranges, operators and frames whose name the pattern finds."""
    found = []
    for table in (trace.ranges, trace.ops, trace.frames):
        if table is None or not len(table.start):
            continue
        names = [name for name in np.unique(table.name).tolist() if pattern.search(trace.strings[name])]
        if names:
            rows = np.isin(table.name, np.array(names, dtype=np.int32))
            found.append(union(table.start[rows], (table.start + table.dur)[rows]))
    return join(*found)
