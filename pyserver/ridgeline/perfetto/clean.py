"""A copy of a trace that Perfetto renders right; the original is left alone.

What is mended: illegal text, impossible durations, process and thread ids that Perfetto mistakes (0, or a thread whose
id is its process's), slices that overlap on one lane without nesting (programmatic dependent launch: Perfetto drops
the second). Lanes are named, launches joined to their kernels by arrows, and tracks added: device busy, launch queue,
memory, findings. Two passes over the stream, so memory is a few dozen bytes an event.
"""

from __future__ import annotations

import gzip
import json
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ridgeline.perfetto.lanes import Lanes, micros, sublanes
from ridgeline.perfetto.tracks import Tracks
from ridgeline.trace.kinds import CATEGORIES, Kind
from ridgeline.trace.records import RecordStream
from ridgeline.trace.source import ByteSource

DEVICE_CATEGORIES = frozenset(c for c, kind in CATEGORIES.items() if kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET))
WORK_CATEGORIES = DEVICE_CATEGORIES | {c for c, kind in CATEGORIES.items() if kind in (Kind.OP, Kind.RANGE)}
"""What may be a kernel of a profile: without an accelerator operators are, and the ranges of generated C++ kernels."""
HOST_CATEGORIES = frozenset(c for c, kind in CATEGORIES.items() if kind is Kind.CALL)
NEAR_US = 1.0
"""A profile's times are floats: of traces that count from 1970 they are a quarter of a microsecond off at most."""
LATEST_US = 9e15
"""Nanoseconds beyond fit no 64-bit integer, Perfetto's neither."""
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True, frozen=True, kw_only=True)
class Wanted:
    """The launch that is to be selected, as the profile knows it: times in the file's own microseconds."""

    symbol: str
    ts_us: float
    dur_us: float


@dataclass(slots=True, frozen=True, kw_only=True)
class Selected:
    """Where that launch is in the copy."""

    ts_ns: int
    dur_ns: int
    pid: int
    tid: int


@dataclass(slots=True, kw_only=True)
class Cleaned:
    path: Path
    events: int = 0
    moved: int = 0
    """Slices put on a lane of their own because they overlapped."""
    selected: Selected | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Slice:
    lane: tuple[str, Any, Any]
    start_ns: int
    dur: float
    """Microseconds."""
    name: str
    category: str
    args: bytes


def clean(
    source: Path,
    target: Path,
    *,
    tracks: Tracks | None = None,
    links: dict[str, str] | None = None,
    wanted: Wanted | None = None,
) -> Cleaned:
    """Write the cleaned copy of ``source`` to ``target`` (gzip). ``links`` maps a kernel's symbol to a URL that its
    slices carry, ``tracks`` adds counters and findings, ``wanted`` is looked for. Raises
    ``ridgeline.trace.errors.TraceError``."""
    lanes, starts, durs, rows = Lanes(), array("q"), array("d"), array("i")
    for item in _slices(source):
        rows.append(lanes.id_of(item.lane))
        starts.append(item.start_ns)
        durs.append(item.dur)
    lane_rows = np.array(rows, dtype=np.int32)
    begins = np.array(starts, dtype=np.int64)
    # Relative: a float64 does not hold every nanosecond since 1970.
    begin_us = (begins - (begins.min() if len(begins) else 0)) / 1000
    level = sublanes(lane_rows, begin_us, np.array(durs, dtype=np.float64))
    result = Cleaned(path=target, moved=int((level > 0).sum()))
    launches: dict[int, tuple[int, int, int]] = {}
    best = math.inf
    with gzip.open(target, "wb", compresslevel=1) as out:
        out.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        first = True
        for event in lanes.names(level, lane_rows):
            first = _put(out, event, first)
        for item in _slices(source):
            pid, tid = lanes.ids(int(lane_rows[result.events]), int(level[result.events]))
            result.events += 1
            args = _args(item, links)
            first = _put(
                out,
                {"ph": "X", "cat": item.category, "name": item.name, "pid": pid, "tid": tid,
                 "ts": micros(item.start_ns), "dur": item.dur, "args": args},
                first,
            )  # fmt: skip
            for flow in _arrow(item, args, pid, tid, launches):
                first = _put(out, flow, first)
            if wanted is not None and (off := _distance(item, wanted)) < best:
                best = off
                result.selected = Selected(ts_ns=item.start_ns, dur_ns=round(item.dur * 1000), pid=pid, tid=tid)
        for event in tracks.events(lanes) if tracks is not None else ():
            first = _put(out, event, first)
        out.write(b"\n]}\n")
    return result


def _distance(item: _Slice, wanted: Wanted) -> float:
    """Microseconds between a launch and the one looked for; infinite for another kernel, or one a microsecond away."""
    if item.category not in WORK_CATEGORIES or item.name != wanted.symbol:
        return math.inf
    off = abs(item.start_ns / 1000 - wanted.ts_us) + abs(item.dur - wanted.dur_us)
    return off if off < NEAR_US else math.inf


def _put(out: gzip.GzipFile, event: dict[str, Any], first: bool) -> bool:
    out.write((b"" if first else b",\n") + _ENCODER.encode(event))
    return False


def _slices(source: Path) -> Iterator[_Slice]:
    """The complete events that make slices, in the order of the file; both passes see the same ones."""
    for records in RecordStream(ByteSource(source)):
        for record in records:
            if record.ph != "X" or record.name is None:
                continue
            start, dur = nanoseconds(record.ts), number(record.dur)
            if start is None or dur is None or dur < 0:
                continue
            category = record.cat or ""
            yield _Slice(_lane(category, record.pid, record.tid), start, dur, record.name, category, bytes(record.args))


def _lane(category: str, pid: Any, tid: Any) -> tuple[str, Any, Any]:
    """Labels that Kineto projects onto a stream get a lane of their own: their ends cut through kernels."""
    if category in DEVICE_CATEGORIES:
        return ("device", pid, tid)
    if CATEGORIES.get(category) is Kind.LABEL:
        return ("device", pid, f"{tid}, labels")
    return ("host", pid, tid)


def nanoseconds(value: Any) -> int | None:
    """A timestamp (a float, text, or the raw text of one, in microseconds) exactly."""
    if isinstance(value, msgspec.Raw | str):
        text = bytes(value).decode("ascii", "replace") if isinstance(value, msgspec.Raw) else value
        try:
            exact = Decimal(text.strip('" '))
            return int((exact * 1000).to_integral_value()) if exact.is_finite() and abs(exact) < LATEST_US else None
        except (ArithmeticError, ValueError):
            return None
    micros = number(value)
    return None if micros is None or abs(micros) >= LATEST_US else round(micros * 1000)


def number(value: Any) -> float | None:
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
    if links is not None and item.category in WORK_CATEGORIES and item.name in links:
        # First, for it is what a person looks for.
        return {"source": links[item.name], **args}
    return args


def _arrow(
    item: _Slice, args: dict[str, Any], pid: int, tid: int, launches: dict[int, tuple[int, int, int]]
) -> Iterator[dict[str, Any]]:
    """Both ends of the arrow from a launch to its kernel, once the kernel is seen; a graph's launch points at its first."""
    correlation = args.get("correlation")
    if not isinstance(correlation, int) or correlation <= 0:
        return
    if item.category in HOST_CATEGORIES:
        launches[correlation] = (pid, tid, item.start_ns)
        return
    if item.category not in DEVICE_CATEGORIES or correlation not in launches:
        return
    from_pid, from_tid, start = launches.pop(correlation)
    name = {"cat": "launch", "name": "launch", "id": correlation}
    yield {"ph": "s", "pid": from_pid, "tid": from_tid, "ts": micros(start), **name}
    yield {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": micros(item.start_ns), **name}
