"""Damages real traces, and says what must hold whatever is read."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import numpy as np

from ridgeline.trace.errors import TraceError
from ridgeline.trace.exposure import exposure
from ridgeline.trace.gaps import idle_by_cause
from ridgeline.trace.intervals import union
from ridgeline.trace.ranges import range_totals
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table

_RECORD = re.compile(rb"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\s*,")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_VALUES = (
    b"null", b"true", b'""', b'"x"', b'"-1"', b"-1", b"0", b"1e999", b"-1e308", b"NaN", b"Infinity", b"[]", b"{}", b"[1]",
    b"[[[[]]]]", b'{"a":{"b":[]}}', b"9223372036854775808", b"-9223372036854775809", b"18446744073709551615",
    b"1" * 400, b'"\\ud800"', b'"\xff\xfe"', b'"a\x00b"', b'"C:\\new\\x.py(3): f"', b"1.5.2", b"0x1f", b"1778650000123456.125",
)  # fmt: skip
_BYTES = b'{}[]",:\\\x00\x1f\xff\n eE.-0123456789'


def pieces_of(text: bytes, rng: random.Random, size: int = 40_000) -> bytes:
    """A whole trace of about ``size`` bytes: the head of ``text``, a stretch of its records, its tail."""
    head = text.index(b"[", text.index(b'"traceEvents"')) + 1
    tail = text.rindex(b"]")
    if tail - head > size:
        start = rng.randrange(head, tail - size)
        records = [match.group() for match in _RECORD.finditer(text, start, start + size)]
        body = b"".join(records).rstrip(b",")
    else:
        body = text[head:tail]
    return text[:head] + body + text[tail:]


def mutated(text: bytes, other: bytes, rng: random.Random) -> bytes:
    """``text`` with one to six wounds."""
    for _ in range(rng.randint(1, 6)):
        n = len(text)
        if n < 4:
            break
        at = rng.randrange(n)
        to = min(n, at + rng.choice((1, 3, 20, 300, 5000)))
        kind = rng.randrange(10)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + bytes((rng.choice(_BYTES),)) + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + text[to:]
        elif kind == 3:
            where = rng.randrange(len(other))
            text = text[:at] + other[where : where + (to - at)] + text[at:]
        elif kind == 4:
            text = text[:at] + text[at:to] * 2 + text[to:]
        elif kind == 5:
            numbers = list(_NUMBER.finditer(text, at, min(n, at + 2000)))
            for match in reversed(rng.sample(numbers, min(len(numbers), 3))):
                text = text[: match.start()] + rng.choice(_VALUES) + text[match.end() :]
        elif kind == 6:
            text = text[:at] + bytes(rng.randrange(256) for _ in range(to - at if to - at < 50 else 50)) + text[to:]
        elif kind == 7:
            word = rng.choice(
                (b'"ts"', b'"dur"', b'"cat"', b'"ph"', b'"args"', b'"pid"', b'"traceEvents"', b'"External id"')
            )
            text = text.replace(
                word, rng.choice((b'"tid"', b'"name"', b'"x"', b"ts", b'"ts', b'"correlation"')), rng.randint(1, 9)
            )
        elif kind == 8:
            words = (
                (b"kernel", b"cpu_op"),
                (b"cpu_op", b"kernel"),
                (b"cuda_runtime", b"user_annotation"),
                (b"X", b"i"),
                (b"}", b"},"),
            )
            old, new = rng.choice(words)
            text = text.replace(old, new, rng.randint(1, 50))
        else:
            close = text.rfind(b"}", 0, at)
            text = (
                text[: close + 1]
                + rng.choice((b",", b",,", b"]", b"}", b"]}", b",null,", b',"x",', b",[],", b"{"))
                + text[close + 1 :]
            )
    if rng.random() < 0.1:
        text = gzip.compress(text, 1)
        if rng.random() < 0.7:
            at = rng.randrange(len(text))
            text = rng.choice((text[:at], text[:at] + b"\x00\xff" + text[at + 2 :]))
    return text


def check(path: Path) -> str:
    """Reads ``path`` and checks what must always hold. Returns "refused" where it is no trace, else "read"."""
    try:
        trace = read_trace(path)
    except TraceError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert str(path) in refusal
        assert "\n" not in refusal
        return "refused"
    tables = [trace.device_events, trace.calls, trace.ops, trace.ranges, trace.frames]
    for table in tables:
        if table is None or not len(table.start):
            continue
        assert np.isfinite(table.start).all()
        assert np.isfinite(table.dur).all()
        assert (table.dur >= 0).all()
        assert (table.start >= 0).all()
        assert (np.diff(table.start) >= 0).all()
        assert table.name.max() < len(trace.strings)
    assert (trace.ops.self_dur >= 0).all()
    assert trace.ops.self_dur.sum() <= trace.ops.dur.sum() * (1 + 1e-9) + 1e-6
    assert (trace.ops.parent < np.arange(len(trace.ops.parent))).all()
    events = trace.device_events
    assert (events.call < len(trace.calls.start)).all()
    assert (events.op < len(trace.ops.start)).all()
    assert (events.launch < len(trace.launch_configs.grid)).all()
    assert (trace.ops.args < len(trace.op_args.triton)).all()
    work = work_table(trace)
    assert np.isfinite(work.time).all()
    assert (work.time >= 0).all()
    # A record days away from the others (a digit was hit) leaves offsets of 1e11 µs, whose last place is 1e-5.
    assert (work.time <= work.end - work.start + 1e-6 + np.spacing(work.end)).all()
    for device in trace.devices:
        if device.kind == "cpu" or not (events.device == device.id).any():
            continue
        here = work.device == device.id
        low, high = float(work.start[here].min()), float(work.end[here].max()) + 1.0
        busy = union(work.start[here], work.end[here]).total
        idle, gaps = idle_by_cause(trace, device.id, (low, high))
        total = sum(getattr(idle, name) for name in idle.__slots__)
        assert np.isfinite(total)
        assert abs(total - (high - low - busy)) <= 1e-6 * max(high - low, 1.0)
        assert (gaps.by_cause >= -1e-9).all()
        shown = exposure(trace, device.id)
        assert abs(shown.busy.total - busy) <= 1e-6 * max(busy, 1.0)
        assert shown.exposed_copy.total <= shown.copies.total + 1e-6
    last_place = float(np.spacing((trace.ranges.start + trace.ranges.dur).max())) if len(trace.ranges.start) else 0.0
    for row in range_totals(trace):
        assert np.isfinite(row.inclusive)
        assert row.own <= row.inclusive + 1e-6 + row.calls * last_place
    for step in trace.steps:
        assert np.isfinite(step.start)
        assert step.dur >= 0
    quality = trace.quality
    assert quality.events >= 0
    for warning in quality.warnings:
        assert warning.message
        assert warning.count > 0
    return "read"
