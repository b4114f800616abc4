"""Reads a damaged stretch of records: long good runs at once, the record at fault mended or left out."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ridgeline.trace import repair
from ridgeline.trace.decode import Failure, RecordDecoder, Records

BOUNDARY = re.compile(rb"\}\s*(?:,\s*)?\{")
_OPENING = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_CLOSING = re.compile(rb'\]\s*(?:\}\s*(?:\Z|,)|,\s*"\w+"\s*:|\Z)')
_NESTING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_SPACE = re.compile(rb"[\s,]*")
_USUAL_RECORD = 1 << 14
_LONGEST_RECORD = 1 << 18
"""How far a broken record is searched for its end before the next record's opening is taken: as far as usual ones are
long, or farther where no other opens in that stretch."""
_MANY = 32
"""Faults in one stretch after which it is mended as a whole."""
_FIRST_WINDOW = 1 << 14
"""What is looked over at once behind a fault; it grows while there is none, so that work stays in proportion."""


@dataclass(slots=True)
class Damage:
    """What was mended and what was lost on the way."""

    mends: Counter[str] = field(default_factory=Counter)
    skipped: list[int] = field(default_factory=list)
    """Byte offsets (in the decompressed text) of records that were left out."""
    truncated: str | None = None

    def cut(self, words: str) -> None:
        """The stream ended early; the first reason stays."""
        if self.truncated is None:
            self.truncated = words


class Buffer:
    """A window on the stream of bytes: ``text[at:]`` is what lies ahead."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.text = b""
        self.at = 0
        self.ended = False
        self._pieces = pieces
        self._before = 0

    @property
    def offset(self) -> int:
        """Bytes of the stream before ``at``."""
        return self._before + self.at

    def fill(self, wanted: int) -> bool:
        """Makes ``wanted`` bytes available ahead; False where the stream ends before."""
        if len(self.text) - self.at >= wanted:
            return True
        parts = [self.text[self.at :]]
        size = len(parts[0])
        while size < wanted and not self.ended:
            piece = next(self._pieces, None)
            if piece is None:
                self.ended = True
                break
            parts.append(piece)
            size += len(piece)
        self._before += self.at
        self.text = b"".join(parts)
        self.at = 0
        return size >= wanted

    def peek(self) -> bytes:
        """The next byte that is neither space nor comma, which ``at`` then points to; empty at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at : self.at + 1]
            if not self.fill(1):
                return b""

    def mend(self, mend: Callable[[bytes], tuple[bytes, Counter[str]]]) -> Counter[str]:
        """Replaces what lies ahead by its mended form; returns what was done. Offsets stay those of the stream's end."""
        ahead = self.text[self.at :]
        mended, done = mend(ahead)
        if done:
            self._before += len(self.text) - len(mended)
            self.text, self.at = mended, 0
        return done


def end_of_record(text: bytes, start: int, limit: int) -> int | None:
    """Where the bracket at ``start`` closes, None if not before ``limit``."""
    depth = 0
    for match in _NESTING.finditer(text, start, limit):
        token = text[match.start()]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


class Salvage:
    """Iterates the records that can be had from what the buffer holds. Afterwards ``closed`` says whether the array
    of events closed (or the stream ended) on the way; if not, more is to be read."""

    def __init__(self, buffer: Buffer, decoder: RecordDecoder, damage: Damage) -> None:
        self.closed = False
        self._buffer = buffer
        self._decoder = decoder
        self._damage = damage

    def __iter__(self) -> Iterator[Records]:
        buffer = self._buffer
        self._damage.mends += buffer.mend(repair.mend)
        faults, window = 0, _FIRST_WINDOW
        while True:
            starts, ends = self._boundaries(window)
            if not starts:
                return
            faults_before, row, step = faults, 0, len(starts)
            while row < len(starts):
                step = min(step, len(starts) - row)
                outcome = self._decoder.parse(buffer.text[starts[row] : ends[row + step - 1]])
                if not isinstance(outcome, Failure):
                    yield outcome
                    row += step
                    step *= 4
                    buffer.at = ends[row - 1]
                    continue
                if step > 1 and (good := self._good_run(starts, row, step, outcome.at)):
                    step = good
                    continue
                faults += 1
                buffer.at = starts[row]
                records = self._single()
                if records:
                    yield records
                if records is None or self.closed:
                    return
                if faults == _MANY:
                    self._damage.mends += buffer.mend(repair.mend_thoroughly)
                    break
                row = bisect_left(starts, buffer.at, row + 1)
                if row == len(starts) or starts[row] != buffer.at:
                    break
                step = 64
            window = window * 4 if faults == faults_before else _FIRST_WINDOW

    @staticmethod
    def _good_run(starts: list[int], row: int, step: int, at: int | None) -> int:
        """How many of ``step`` records to try next, given where the parser stopped; 0: the first one is at fault."""
        if at is None:
            return step // 2
        return min(bisect_right(starts, starts[row] + at, row, row + step) - 1 - row, step - 1)

    def _boundaries(self, window: int) -> tuple[list[int], list[int]]:
        """Where records seem to start and end in the next ``window`` bytes; the last may not be all there."""
        buffer = self._buffer
        text = buffer.text
        match = _SPACE.match(text, buffer.at)
        at = buffer.at = match.end() if match else buffer.at
        if at >= len(text):
            return [], []
        limit = min(len(text), at + window)
        starts, ends = [at], []
        for match in BOUNDARY.finditer(text, at + 1, limit):
            ends.append(match.start() + 1)
            starts.append(match.end() - 1)
        if limit < len(text) and ends:
            starts.pop()
        else:
            ends.append(limit)
        return starts, ends

    def _single(self) -> Records | None:
        """The one record ahead that did not decode with its neighbours: its rows (none if it is lost), the buffer
        then being at the next. None where the buffer has to be looked at anew (more data, or the end)."""
        buffer, start = self._buffer, self._buffer.at
        if buffer.text[start : start + 1] != b"{":
            return self._go_on(start, [], lost=buffer.text[start : start + 1] not in (b"]", b""))
        size = len(buffer.text)
        end = end_of_record(buffer.text, start, min(size, start + _USUAL_RECORD))
        if end is None and _OPENING.search(buffer.text, start + 1, start + _USUAL_RECORD) is None:
            end = end_of_record(buffer.text, start, min(size, start + _LONGEST_RECORD))
        if end is None:
            if not buffer.ended and size - start < _LONGEST_RECORD:
                buffer.fill(_LONGEST_RECORD)
                return None
            following = _OPENING.search(buffer.text, start + 1)
            # Up to there no other record opens: looked through once, however long it is.
            end = end_of_record(buffer.text, start, following.start() if following else size)
            if end is None and following is None and buffer.ended:
                self._damage.cut("the file ends in the middle of a record")
                buffer.at = size
                self.closed = True
                return None
            if end is None:
                self._damage.skipped.append(buffer.offset)
                buffer.at = following.start() if following else size
                return []
        records = self._mended(buffer.text[start:end])
        return self._go_on(end, records or [], lost=records is None)

    def _mended(self, text: bytes) -> Records | None:
        outcome = self._decoder.parse(text)
        if isinstance(outcome, Failure):
            fixed, done = repair.mend_thoroughly(text)
            outcome = self._decoder.parse(fixed) if done else outcome
            if isinstance(outcome, Failure):
                return None
            self._damage.mends += done
        return outcome

    def _go_on(self, end: int, records: Records, *, lost: bool) -> Records | None:
        """Moves behind ``end``: to the array's close, the next record, or the next thing that looks like one."""
        buffer, start = self._buffer, self._buffer.at
        if lost:
            self._damage.skipped.append(buffer.offset)
        else:
            # Only the end of a record that decoded is trusted: in a broken one, quotes may pair up wrongly.
            match = _SPACE.match(buffer.text, end)
            buffer.at = match.end() if match else end
            following = buffer.text[buffer.at : buffer.at + 1]
            if following in (b"]", b"", b"{"):
                return self._settled(records, following)
        opening = _OPENING.search(buffer.text, start + 1 if lost else buffer.at)
        if opening is not None:
            if not lost:
                self._damage.skipped.append(buffer.offset)
            buffer.at = opening.start()
            return records
        closing = _CLOSING.search(buffer.text, buffer.at) if buffer.ended else None
        buffer.at = closing.start() if closing else len(buffer.text)
        return self._settled(records, b"]" if closing else b"")

    def _settled(self, records: Records, following: bytes) -> Records | None:
        if following == b"]":
            self._buffer.at += 1
            self.closed = True
        return records if following == b"{" or records else None
