"""A copy of a trace that Perfetto renders right; the original is left alone.

What is mended: illegal text, impossible durations, process and thread ids that Perfetto mistakes (0, or a thread whose
id is its process's), slices that overlap on one lane without nesting (programmatic dependent launch: Perfetto drops
the second). Lanes are named, launches joined to their kernels by arrows, and tracks added: device busy, launch queue,
memory, findings. Two passes over the stream, so memory is a few dozen bytes an event.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ridgeline.perfetto.lanes import Lanes, sublanes
from ridgeline.perfetto.tracks import Tracks
from ridgeline.trace.kinds import CATEGORIES, Kind
from ridgeline.trace.records import RecordStream
from ridgeline.trace.source import ByteSource

DEVICE_CATEGORIES = frozenset(c for c, kind in CATEGORIES.items() if kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET))
HOST_CATEGORIES = frozenset(c for c, kind in CATEGORIES.items() if kind is Kind.CALL)
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True, frozen=True, kw_only=True)
class Excerpt:
    """Only what overlaps [start_us, end_us] in the file's own time, and the launches of the kernels in it."""

    start_us: float
    end_us: float


@dataclass(slots=True, kw_only=True)
class Cleaned:
    path: Path
    events: int = 0
    left_out: int = 0
    moved: int = 0
    """Slices put on a lane of their own because they overlapped."""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Slice:
    lane: tuple[str, Any, Any]
    start: float
    dur: float
    name: str
    category: str
    args: bytes
    ordinal: int


def clean(
    source: Path,
    target: Path,
    *,
    excerpt: Excerpt | None = None,
    tracks: Tracks | None = None,
    links: dict[str, str] | None = None,
) -> Cleaned:
    """Write the cleaned copy of ``source`` to ``target`` (gzip). ``links`` maps a kernel's symbol to a URL that its
    slices carry, ``tracks`` adds counters and findings. Raises ``ridgeline.trace.errors.TraceError``."""
    lanes, starts, durs, rows = Lanes(), [], [], []
    for item in _slices(source, excerpt):
        rows.append(lanes.id_of(item.lane))
        starts.append(item.start)
        durs.append(item.dur)
    lane_rows = np.array(rows, dtype=np.int32)
    level = sublanes(lane_rows, np.array(starts, dtype=np.float64), np.array(durs, dtype=np.float64))
    result = Cleaned(path=target, moved=int((level > 0).sum()))
    launches: dict[int, tuple[int, int, float]] = {}
    with gzip.open(target, "wb", compresslevel=1) as out:
        out.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        first = True
        for event in lanes.names(level, lane_rows):
            first = _put(out, event, first)
        for item in _slices(source, excerpt):
            pid, tid = lanes.ids(int(lane_rows[result.events]), int(level[result.events]))
            result.events += 1
            args = _args(item, links)
            first = _put(
                out,
                {"ph": "X", "cat": item.category, "name": item.name, "pid": pid, "tid": tid, "ts": item.start,
                 "dur": item.dur, "args": args},
                first,
            )  # fmt: skip
            for flow in _arrow(item, args, pid, tid, launches):
                first = _put(out, flow, first)
        for event in tracks.events(lanes) if tracks is not None else ():
            first = _put(out, event, first)
        out.write(b"\n]}\n")
    return result


def _put(out: gzip.GzipFile, event: dict[str, Any], first: bool) -> bool:
    out.write((b"" if first else b",\n") + _ENCODER.encode(event))
    return False


def _slices(source: Path, excerpt: Excerpt | None) -> Iterator[_Slice]:
    """The complete events that make slices, in the order of the file; both passes see the same ones."""
    wanted = _launches_of(source, excerpt) if excerpt is not None else None
    ordinal = 0
    for records in RecordStream(ByteSource(source)):
        for record in records:
            if record.ph != "X" or record.name is None:
                continue
            start, dur = _number(record.ts), _number(record.dur)
            if start is None or dur is None or dur < 0:
                continue
            category = record.cat or ""
            if excerpt is not None and not (start <= excerpt.end_us and start + dur >= excerpt.start_us):
                correlation = _correlation(bytes(record.args)) if category in HOST_CATEGORIES else None
                if wanted is None or correlation not in wanted:
                    continue
            yield _Slice(
                _lane(category, record.pid, record.tid), start, dur, record.name, category, bytes(record.args), ordinal
            )
            ordinal += 1


def _lane(category: str, pid: Any, tid: Any) -> tuple[str, Any, Any]:
    """Labels that Kineto projects onto a stream get a lane of their own: their ends cut through kernels."""
    if category in DEVICE_CATEGORIES:
        return ("device", pid, tid)
    if CATEGORIES.get(category) is Kind.LABEL:
        return ("device", pid, f"{tid}, labels")
    return ("host", pid, tid)


def _launches_of(source: Path, excerpt: Excerpt) -> set[int]:
    found: set[int] = set()
    for records in RecordStream(ByteSource(source)):
        for record in records:
            if record.ph == "X" and record.cat in DEVICE_CATEGORIES:
                start, dur = _number(record.ts), _number(record.dur)
                if start is not None and start <= excerpt.end_us and start + (dur or 0) >= excerpt.start_us:
                    correlation = _correlation(bytes(record.args))
                    if correlation is not None:
                        found.add(correlation)
    return found


class _Correlation(msgspec.Struct):
    correlation: int | None = None


_CORRELATION = msgspec.json.Decoder(_Correlation)


def _correlation(args: bytes) -> int | None:
    try:
        return _CORRELATION.decode(args).correlation
    except msgspec.MsgspecError:
        return None


def _number(value: Any) -> float | None:
    """A timestamp as the reader gives it: a float, text, or the raw text of one."""
    try:
        number = float(bytes(value).strip(b'"') if isinstance(value, msgspec.Raw) else value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def _args(item: _Slice, links: dict[str, str] | None) -> dict[str, Any]:
    try:
        args = json.loads(item.args.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        args = {}
    if not isinstance(args, dict):
        args = {}
    if links is not None and item.category in DEVICE_CATEGORIES and item.name in links:
        args["source"] = links[item.name]
    return args


def _arrow(
    item: _Slice, args: dict[str, Any], pid: int, tid: int, launches: dict[int, tuple[int, int, float]]
) -> Iterator[dict[str, Any]]:
    """Both ends of the arrow from a launch to its kernel, once the kernel is seen; a graph's launch points at its first."""
    correlation = args.get("correlation")
    if not isinstance(correlation, int) or correlation <= 0:
        return
    if item.category in HOST_CATEGORIES:
        launches[correlation] = (pid, tid, item.start)
        return
    if item.category not in DEVICE_CATEGORIES or correlation not in launches:
        return
    from_pid, from_tid, start = launches.pop(correlation)
    name = {"cat": "launch", "name": "launch", "id": correlation}
    yield {"ph": "s", "pid": from_pid, "tid": from_tid, "ts": start, **name}
    yield {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": item.start, **name}
