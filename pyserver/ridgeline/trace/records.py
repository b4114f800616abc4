"""The records of a trace, in chunks, from any top-level shape, whole or damaged.

A chunk ends where one record closes and the next opens. That it was a true record boundary is proved by decoding: the
text up to there is a well-formed array only if the cut lies at the array's own depth. Where a chunk does not decode,
the longest good runs in it are found by halving, and the one record that is at fault is mended or left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ridgeline.trace import repair
from ridgeline.trace.errors import TraceError
from ridgeline.trace.schema import Event, ExactEvent, event_of
from ridgeline.trace.source import ByteSource

CHUNK = 1 << 22
_LONGEST_RECORD = 1 << 18
"""How far a broken record is searched for its end before the next record's opening is taken."""
_LARGEST_METADATA = 1 << 24
EXACT_ABOVE = 2.0**43
"""Microseconds above which a float64 cannot hold every nanosecond."""

_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
_OPENING = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_NESTING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_SPACE = re.compile(rb"[\s,]*")
_KEY = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)
_SCALAR = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^,}\]\s]+', re.DOTALL)
_EVENT_KEYS = frozenset(("ph", "cat", "pid", "tid", "ts", "dur"))

Records = list[Event] | list[ExactEvent]


@dataclass(slots=True)
class Damage:
    """What was mended and what was lost on the way."""

    mends: Counter[str] = field(default_factory=Counter)
    mended_records: int = 0
    skipped: list[int] = field(default_factory=list)
    """Byte offsets (in the decompressed text) of records that were left out."""
    truncated: str | None = None


class RecordStream:
    """Iterates lists of records; ``metadata`` and ``damage`` are complete once it is exhausted."""

    def __init__(self, source: ByteSource, chunk: int = CHUNK) -> None:
        self.metadata: dict[str, Any] = {}
        self.damage = Damage()
        self.exact = False
        """Whether timestamps are read as text from here on."""
        self._source = source
        self._pieces = iter(source)
        self._chunk = chunk
        self._text = b""
        self._at = 0
        self._before = 0
        """Bytes of the stream that lie before ``_text``."""
        self._ended = False
        self._fast = msgspec.json.Decoder(list[Event])
        self._precise = msgspec.json.Decoder(list[ExactEvent])

    def __iter__(self) -> Iterator[Records]:
        opening = self._peek()
        if opening == b"[":
            self._at += 1
            if self._peek() == b"[":
                raise TraceError(
                    f"{self._source.path} holds rows, not trace events; a memory timeline is no trace of its own"
                )
            yield from self._array()
            return
        if opening == b"{":
            if (key := _KEY.match(self._text, self._at + 1)) and key[1].decode("utf-8", "replace") in _EVENT_KEYS:
                yield from self._array()
            else:
                self._at += 1
                yield from self._object(0)
            return
        if not opening:
            raise TraceError(f"{self._source.path} is empty")
        raise TraceError(f"{self._source.path} is no trace: it holds no JSON")

    # --- the buffer

    def _fill(self, wanted: int) -> bool:
        """Makes ``wanted`` bytes available from the current place; False where the stream ends before."""
        if len(self._text) - self._at >= wanted:
            return True
        parts = [self._text[self._at :]]
        size = len(parts[0])
        while size < wanted and not self._ended:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                if self._source.damage is not None:
                    self.damage.truncated = self._source.damage
                break
            parts.append(piece)
            size += len(piece)
        self._before += self._at
        self._text = b"".join(parts)
        self._at = 0
        return size >= wanted

    def _peek(self) -> bytes:
        """The next byte that is neither space nor comma, at ``_at`` afterwards; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at : self._at + 1]
            if not self._fill(1):
                return b""

    # --- top level

    def _object(self, depth: int) -> Iterator[Records]:
        while True:
            opening = self._peek()
            if opening == b"}":
                self._at += 1
                return
            if not opening:
                self._cut("the file ends before its closing bracket")
                return
            self._fill(1 << 16)
            key = _KEY.match(self._text, self._at)
            if key is None:
                # Damaged metadata. The events may still be found behind it.
                if not self._seek_events():
                    if not self.metadata and depth == 0:
                        raise TraceError(f"{self._source.path} is no trace: it holds no traceEvents")
                    return
                yield from self._array()
                continue
            self._at = key.end()
            name = key[1].decode("utf-8", "replace")
            kind = self._peek()
            if name == "traceEvents" and kind == b"[":
                self._at += 1
                yield from self._array()
            elif name == "traceEvents" and kind == b"{" and depth < 8:
                self._at += 1
                yield from self._object(depth + 1)
            else:
                self._keep(name)

    def _seek_events(self) -> bool:
        pattern = re.compile(rb'"traceEvents"\s*:\s*\[')
        while True:
            self._fill(self._chunk)
            match = pattern.search(self._text, self._at)
            if match is not None:
                self._at = match.end()
                return True
            if self._ended:
                self._at = len(self._text)
                return False
            self._at = max(self._at, len(self._text) - 64)

    def _keep(self, name: str) -> None:
        """Reads one metadata value and keeps it unless it is very large or beyond mending."""
        size = 1 << 16
        while True:
            whole = self._fill(size)
            end = self._end_of_value(self._at, len(self._text))
            if end is not None and (end < len(self._text) or self._ended):
                break
            if not whole or size > _LARGEST_METADATA:
                end = None
                break
            size *= 4
        if end is None:
            self.damage.skipped.append(self._before + self._at)
            if self._seek_events():
                self._text = b"[" + self._text[self._at :]
                self._text = b'"traceEvents":' + self._text
                self._at = 0
            return
        text = self._text[self._at : end]
        self._at = max(end, self._at + 1)
        try:
            self.metadata[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            fixed, mends = repair.mend_thoroughly(text)
            try:
                self.metadata[name] = msgspec.json.decode(fixed)
                self.damage.mends += mends
            except msgspec.DecodeError:
                self.damage.skipped.append(self._before + self._at)

    def _end_of_value(self, start: int, limit: int) -> int | None:
        if self._text[start : start + 1] in (b"{", b"["):
            return self._end_of_record(start, limit)
        match = _SCALAR.match(self._text, start, limit)
        return match.end() if match else start

    def _end_of_record(self, start: int, limit: int) -> int | None:
        """Where the bracket at ``start`` closes, None if not before ``limit``."""
        depth = 0
        for match in _NESTING.finditer(self._text, start, limit):
            token = self._text[match.start()]
            if token in b"{[":
                depth += 1
            elif token in b"}]":
                depth -= 1
                if depth == 0:
                    return match.end()
        return None

    # --- the events

    def _array(self) -> Iterator[Records]:
        size = self._chunk
        while True:
            opening = self._peek()
            if opening == b"]":
                self._at += 1
                return
            if not opening:
                self._cut("the file ends in the middle of the events")
                return
            more = self._fill(size)
            last = self._last_boundary() if more else None
            if more and last is None and size < 1 << 26:
                size *= 4
                continue
            size = self._chunk
            if last is not None:
                end = last.start() + 1
                records = self._decode(self._text[self._at : end])
                if records is not None:
                    self._at = last.end() - 1
                    yield records
                    continue
            closed = False
            for records in self._salvage():
                if records is None:
                    closed = True
                else:
                    yield records
            if closed:
                return

    def _last_boundary(self) -> re.Match[bytes] | None:
        window = 1 << 14
        while True:
            start = max(self._at + 1, len(self._text) - window)
            last = None
            for last in _BOUNDARY.finditer(self._text, start):  # noqa: B007 - the last match is wanted
                pass
            if last is not None or start == self._at + 1:
                return last
            window *= 8

    def _salvage(self) -> Iterator[Records | None]:
        """Reads what is in the buffer run by run; a final None says that the array closed (or the stream ended)."""
        text = self._text
        starts = [self._at]
        ends = []
        for match in _BOUNDARY.finditer(text, self._at + 1):
            ends.append(match.start() + 1)
            starts.append(match.end() - 1)
        ends.append(len(text))
        row, step = 0, len(starts)
        while row < len(starts):
            step = min(step, len(starts) - row)
            records = self._decode(text[starts[row] : ends[row + step - 1]])
            if records is not None:
                yield records
                row += step
                step *= 2
                self._at = ends[row - 1]
                continue
            if step > 1:
                step = (step + 1) // 2
                continue
            outcome, records = self._single(starts[row])
            if records:
                yield records
            if outcome == "closed":
                yield None
                return
            if outcome == "more":
                return
            while row < len(starts) and starts[row] < self._at:
                row += 1
            step = 2
        return

    def _single(self, start: int) -> tuple[str, Records | None]:
        """One record that did not decode up to the next opening: ("next" | "more" | "closed", its rows)."""
        self._at = start
        opening = self._text[start : start + 1]
        if opening != b"{":
            return self._resume(start, None, lost=opening not in (b"]", b"}", b""))
        end = self._end_of_record(start, min(len(self._text), start + _LONGEST_RECORD))
        if end is None:
            if not self._ended and len(self._text) - start < _LONGEST_RECORD:
                self._fill(_LONGEST_RECORD)
                return "more", None
            following = _OPENING.search(self._text, start + 1)
            if following is None and self._ended:
                self._cut("the file ends in the middle of a record")
                self._at = len(self._text)
                return "closed", None
            self.damage.skipped.append(self._before + start)
            self._at = following.start() if following else len(self._text)
            return "next", None
        records = self._decode(self._text[start:end])
        return self._resume(end, records, lost=records is None)

    def _resume(self, end: int, records: Records | None, *, lost: bool) -> tuple[str, Records | None]:
        """Goes on behind ``end``: at the array's close, at the next record, or at the next thing that looks like one."""
        start = self._at
        if lost:
            self.damage.skipped.append(self._before + start)
        match = _SPACE.match(self._text, end)
        self._at = match.end() if match else end
        following = self._text[self._at : self._at + 1]
        if following == b"]":
            self._at += 1
            return "closed", records
        if following == b"{" and not lost:
            return "next", records
        if following == b"":
            if not self._ended:
                return "more", records
            return "next", records
        opening = _OPENING.search(self._text, start + 1 if lost else self._at)
        if opening is None:
            # Nothing more that looks like a record in what is here.
            closing = self._text.find(b"]", self._at)
            self._at = closing if closing >= 0 and lost else len(self._text)
            return "more", records
        if not lost:
            self.damage.skipped.append(self._before + self._at)
        self._at = opening.start()
        return "next", records

    def _cut(self, words: str) -> None:
        if self.damage.truncated is None:
            self.damage.truncated = words

    # --- decoding

    def _decode(self, text: bytes) -> Records | None:
        """The records of ``text`` (objects separated by commas), mended where needed; None if it is no such thing."""
        wrapped = b"[" + text + b"]"
        records = self._parse(wrapped)
        if records is not None:
            return records
        for mend in (repair.mend, repair.mend_thoroughly):
            fixed, done = mend(wrapped)
            if not done:
                continue
            records = self._parse(fixed)
            if records is not None:
                self.damage.mends += done
                self.damage.mended_records += min(
                    len(records), done.total() if hasattr(done, "total") else sum(done.values())
                )
                return records
        return None

    def _parse(self, wrapped: bytes) -> Records | None:
        try:
            if self.exact:
                return self._precise.decode(wrapped)
            records = self._fast.decode(wrapped)
            if any(
                type(record.ts) is float and record.ts >= EXACT_ABOVE for record in records[:: len(records) // 64 + 1]
            ):
                self.exact = True
                return self._precise.decode(wrapped)
            return records
        except msgspec.ValidationError:
            return self._lenient(wrapped)
        except (msgspec.DecodeError, RecursionError):
            return None

    def _lenient(self, wrapped: bytes) -> Records | None:
        try:
            values = msgspec.json.decode(wrapped)
        except (msgspec.DecodeError, RecursionError):
            return None
        return [event for value in values if (event := event_of(value)) is not None]
