"""A part of a trace that is too large for a browser: a stretch of time, whole in what explains it.

Kept is what overlaps the stretch; the launches of its kernels wherever they lie; the operators, ranges and steps in which
those launches were made; and the memory counters. Two passes over the stream; memory holds a few dozen bytes a host call.
"""

from __future__ import annotations

import gzip
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ridgeline.perfetto.clean import DEVICE_CATEGORIES, HOST_CATEGORIES, nanoseconds, number
from ridgeline.trace.kinds import CATEGORIES, Kind
from ridgeline.trace.records import RecordStream
from ridgeline.trace.source import ByteSource

AROUND_US = 50_000.0
"""Context on each side of a kernel or a step."""
LONGEST_US = 1_000_000.0
"""Of an excerpt: a second of a busy program is some hundred megabytes of JSON."""
_AROUND_A_LAUNCH = frozenset(c for c, kind in CATEGORIES.items() if kind in (Kind.OP, Kind.RANGE, Kind.FRAME))
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True, frozen=True, kw_only=True)
class Excerpt:
    """[start_us, end_us] in the file's own time."""

    start_us: float
    end_us: float


def around(start_us: float, dur_us: float) -> Excerpt:
    """Something with its neighbourhood, of the longest length at most."""
    length = min(dur_us + 2 * AROUND_US, LONGEST_US)
    return Excerpt(start_us=start_us - AROUND_US, end_us=start_us - AROUND_US + length)


def beginning(source: Path) -> Excerpt | None:
    """The first device work of a trace of which nothing is known; None where there is none. Records are in no order."""
    first: int | None = None
    for record in _records(source):
        if record.ph == "X" and record.cat in DEVICE_CATEGORIES:
            start = nanoseconds(record.ts)
            if start is not None and (first is None or start < first):
                first = start
    return around(first / 1000, 0.0) if first is not None else None


def cut(source: Path, target: Path, excerpt: Excerpt) -> int:
    """Write the excerpt of ``source`` to ``target`` (gzip), records as they are; how many. Raises ``TraceError``."""
    first, last = excerpt.start_us, excerpt.end_us
    launches = _launches(source, excerpt)
    count = 0
    with gzip.open(target, "wb", compresslevel=1) as out:
        out.write(b'{"traceEvents":[\n')
        for record in _records(source):
            start, dur = nanoseconds(record.ts), number(record.dur)
            if start is None or record.name is None:
                continue
            begin, end = start / 1000, start / 1000 + (dur or 0.0)
            if not (begin <= last and end >= first) and not _explains(record, begin, end, launches):
                continue
            out.write((b",\n" if count else b"") + _ENCODER.encode(_written(record)))
            count += 1
        out.write(b"\n]}\n")
    return count


def _records(source: Path) -> Iterator[Any]:
    for records in RecordStream(ByteSource(source)):
        yield from records


def _written(record: Any) -> dict[str, Any]:
    """A timestamp that was read as text is written as that text."""
    names = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
    return {name: value for name in names if (value := getattr(record, name)) is not None}


class _Arguments(msgspec.Struct):
    correlation: int | None = None


_ARGUMENTS = msgspec.json.Decoder(_Arguments)


def _correlation(record: Any) -> int | None:
    try:
        return _ARGUMENTS.decode(record.args).correlation
    except msgspec.MsgspecError:
        return None


@dataclass(slots=True)
class _Launches:
    correlations: set[int]
    """Of the kernels, copies and memsets in the stretch."""
    at: dict[tuple[str, str], Any]
    """By process and thread: when their launches began, in order, in microseconds."""


def _launches(source: Path, excerpt: Excerpt) -> _Launches:
    """One pass: calls come before and behind their kernels in a file, so all are noted until it is known which matter."""
    wanted: set[int] = set()
    calls: dict[tuple[str, str], tuple[array[int], array[float]]] = defaultdict(lambda: (array("q"), array("d")))
    for record in _records(source):
        if record.ph != "X" or record.cat is None:
            continue
        on_device = record.cat in DEVICE_CATEGORIES
        if not on_device and record.cat not in HOST_CATEGORIES:
            continue
        start = nanoseconds(record.ts)
        if start is None:
            continue
        begin, end = start / 1000, start / 1000 + (number(record.dur) or 0.0)
        if on_device and not (begin <= excerpt.end_us and end >= excerpt.start_us):
            continue
        correlation = _correlation(record)
        if correlation is None or not 0 < correlation < 1 << 62:
            continue
        if on_device:
            wanted.add(correlation)
        else:
            ids, starts = calls[str(record.pid), str(record.tid)]
            ids.append(correlation)
            starts.append(begin)
    of_interest = np.array(sorted(wanted), dtype=np.int64)
    at = {}
    for thread, (ids, starts) in calls.items():
        kept = np.isin(np.array(ids, dtype=np.int64), of_interest)
        if kept.any():
            at[thread] = np.sort(np.array(starts, dtype=np.float64)[kept])
    return _Launches(wanted, at)


def _explains(record: Any, begin: float, end: float, launches: _Launches) -> bool:
    """A launch of the stretch, or what was going on around one on its thread."""
    if record.ph != "X":
        return False
    if record.cat in HOST_CATEGORIES:
        return _correlation(record) in launches.correlations
    times = launches.at.get((str(record.pid), str(record.tid))) if record.cat in _AROUND_A_LAUNCH else None
    if times is None:
        return False
    following = int(np.searchsorted(times, begin))
    return following < len(times) and bool(times[following] <= end)
