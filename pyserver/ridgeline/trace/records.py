"""The records of a trace, in chunks, from any top-level shape, whole or damaged.

A chunk ends where one record closes and the next opens. That it was a true record boundary is proved by decoding: the
text up to there is a well-formed array only if the cut lies at the array's own depth. Where a chunk does not decode,
:mod:`~ridgeline.trace.salvage` reads it run by run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ridgeline.trace import repair
from ridgeline.trace.decode import Failure, RecordDecoder, Records
from ridgeline.trace.errors import TraceError
from ridgeline.trace.salvage import BOUNDARY, Buffer, Damage, Salvage, end_of_record
from ridgeline.trace.source import ByteSource

__all__ = ["CHUNK", "Damage", "RecordStream", "Records"]

CHUNK = 1 << 22
_LARGEST_CHUNK = 1 << 26
_LARGEST_METADATA = 1 << 24
_DEEPEST = 8

_KEY = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)
_SCALAR = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^,}\]\s]+', re.DOTALL)
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT_KEYS = frozenset((b"ph", b"cat", b"pid", b"tid", b"ts", b"dur"))


class RecordStream:
    """Iterates lists of records; ``metadata`` and ``damage`` are complete once it is exhausted."""

    def __init__(self, source: ByteSource, chunk: int = CHUNK) -> None:
        self.metadata: dict[str, Any] = {}
        self.damage = Damage()
        self._source = source
        self._chunk = chunk
        self._buffer = Buffer(iter(source))
        self._decoder = RecordDecoder()

    def __iter__(self) -> Iterator[Records]:
        yield from self._top_level()
        if self._source.damage is not None:
            self.damage.truncated = self._source.damage

    def _top_level(self) -> Iterator[Records]:
        buffer = self._buffer
        opening = buffer.peek()
        if opening == b"[":
            buffer.at += 1
            if buffer.peek() == b"[":
                raise TraceError(
                    f"{self._source.path} holds rows, not trace events; a memory timeline is no trace of its own"
                )
            yield from self._array()
        elif opening == b"{":
            key = _KEY.match(buffer.text, buffer.at + 1)
            if key is not None and key[1] in _EVENT_KEYS:
                yield from self._array()  # Records without brackets, one after another.
            else:
                buffer.at += 1
                yield from self._object(0)
        elif not opening:
            raise TraceError(f"{self._source.path} is empty")
        else:
            raise TraceError(f"{self._source.path} is no trace: it holds no JSON")

    def _object(self, depth: int) -> Iterator[Records]:
        buffer = self._buffer
        while True:
            opening = buffer.peek()
            if opening == b"}":
                buffer.at += 1
                return
            if not opening:
                self.damage.cut("the file ends before its closing bracket")
                return
            buffer.fill(1 << 16)
            key = _KEY.match(buffer.text, buffer.at)
            if key is None:
                # Damaged metadata; the events may still be found behind it.
                self.damage.skipped.append(buffer.offset)
                if not self._seek_events():
                    return
                yield from self._array()
                continue
            buffer.at = key.end()
            name = key[1].decode("utf-8", "replace")
            kind = buffer.peek()
            if name == "traceEvents" and kind == b"[":
                buffer.at += 1
                yield from self._array()
            elif name == "traceEvents" and kind == b"{" and depth < _DEEPEST:
                buffer.at += 1
                yield from self._object(depth + 1)
            elif not self._keep(name):
                if not self._seek_events():
                    return
                yield from self._array()

    def _seek_events(self) -> bool:
        """Goes behind the next ``"traceEvents": [``; False, at the end, if there is none."""
        buffer = self._buffer
        while True:
            buffer.fill(self._chunk)
            match = _EVENTS.search(buffer.text, buffer.at)
            if match is not None:
                buffer.at = match.end()
                return True
            if buffer.ended:
                buffer.at = len(buffer.text)
                return False
            buffer.at = max(buffer.at, len(buffer.text) - 64)

    def _keep(self, name: str) -> bool:
        """Reads one metadata value and keeps it; False where its end cannot be found."""
        buffer = self._buffer
        size = 1 << 16
        while True:
            whole = buffer.fill(size)
            end = self._end_of_value()
            if end is not None and (end < len(buffer.text) or buffer.ended):
                break
            if not whole or size > _LARGEST_METADATA:
                self.damage.skipped.append(buffer.offset)
                return False
            size *= 4
        text, offset = buffer.text[buffer.at : end], buffer.offset
        buffer.at = max(end, buffer.at + 1)
        try:
            self.metadata[name] = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            fixed, mends = repair.mend_thoroughly(text)
            try:
                self.metadata[name] = msgspec.json.decode(fixed)
                self.damage.mends += mends
            except (msgspec.DecodeError, RecursionError):
                self.damage.skipped.append(offset)
        return True

    def _end_of_value(self) -> int | None:
        text, start = self._buffer.text, self._buffer.at
        if text[start : start + 1] in (b"{", b"["):
            return end_of_record(text, start, len(text))
        match = _SCALAR.match(text, start)
        return match.end() if match else start

    def _array(self) -> Iterator[Records]:
        """The records up to the bracket that closes the array, or to the end of the stream."""
        buffer, size = self._buffer, self._chunk
        while True:
            opening = buffer.peek()
            if opening == b"]":
                buffer.at += 1
                return
            if not opening:
                self.damage.cut("the file ends in the middle of the events")
                return
            more = buffer.fill(size)
            last = self._last_boundary() if more else None
            if more and last is None and size < _LARGEST_CHUNK:
                size *= 4
                continue
            size = self._chunk
            if last is not None:
                records = self._decoder.parse(memoryview(buffer.text)[buffer.at : last.start() + 1])
                if not isinstance(records, Failure):
                    buffer.at = last.end() - 1
                    yield records
                    continue
            salvage = Salvage(buffer, self._decoder, self.damage)
            yield from salvage
            if salvage.closed:
                return

    def _last_boundary(self) -> re.Match[bytes] | None:
        text, low = self._buffer.text, self._buffer.at + 1
        window = 1 << 14
        while True:
            start = max(low, len(text) - window)
            last = None
            for last in BOUNDARY.finditer(text, start):  # noqa: B007 - the last match is wanted
                pass
            if last is not None or start == low:
                return last
            window *= 8
