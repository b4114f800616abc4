"""The user-line timeline: when each thread entered which statement of the user's code.

An operator of the trace is joined to the statement that was current at its start. Two ways to record it:
``sys.monitoring`` (Python 3.12 and newer: reaches all threads, switches itself off for library code at no cost, lives
beside a debugger) and ``sys.settrace`` (older: one tracer a thread, so another's is left alone). Both write pairs of
int64 into one array a thread: ``time_ns``, then ``line << 32 | code``. Line 0 means that the frame returned or
yielded, line -1 that it was entered or resumed: without that a recursive call looks like the next round of a loop.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

IsUser = Callable[[str], bool]

BUDGET = 1_000_000
"""Events a thread, 16 bytes each."""
REFILL = 100_000
CODE_MASK = 0xFFFFFFFF
ENTRY = -1 << 32
"""``ENTRY | code``: the frame was entered or resumed."""
RESUMABLE = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines: they resume in the middle of a line, which then has no event of its own."""


class Timeline:
    """What both ways share: the buffers, the table of code objects, the packing."""

    def __init__(self, is_user: IsUser) -> None:
        self.is_user = is_user
        self.on = False
        self.blocked: str | None = None
        """Why no lines were recorded, in words; None while nothing stood in the way."""
        self.budget = BUDGET
        self._codes: dict[CodeType, int] = {}
        self._buffers: dict[int, array[int]] = {}
        """By native thread id: Python gives the ident of a thread that has ended to the next one."""
        self._own = threading.local()
        """``buffer`` of the running thread, where it has written: dies with the thread, and costs no system call."""

    # -------------------------------------------------------------- what the subclasses implement
    def prepare(self) -> None:
        """Called once, early: reach threads that the program will start."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    # -------------------------------------------------------------- shared
    def code_id(self, code: CodeType) -> int:
        return self._codes.setdefault(code, len(self._codes))

    def buffer(self) -> array[int]:
        """Of the running thread."""
        found = self._own.buffer = self._buffers.setdefault(threading.get_native_id(), array("q"))
        return found

    def enter(self, buffer: array[int], frames: list[FrameType]) -> None:
        """A thread comes into view inside these user frames, outermost first; what was known of it before is void."""
        if not frames:
            return
        now = time.time_ns()
        buffer.extend((now, self.code_id(frames[0].f_code)))
        for frame in frames:
            number = self.code_id(frame.f_code)
            buffer.extend((now, ENTRY | number, now, (frame.f_lineno or 0) << 32 | number))

    def clear(self) -> None:
        """Forget everything recorded; only while off."""
        self._buffers, self._own = {}, threading.local()
        self._codes = {}

    def refill(self) -> None:
        """Allow another portion, up to ``BUDGET`` events a thread in all. Called in the main thread."""
        if self.on and self.budget < BUDGET:
            self.budget = min(self.budget + REFILL, BUDGET)
            self.resume()

    def resume(self) -> None:
        """Go on after the budget was raised."""
        raise NotImplementedError

    @property
    def exhausted(self) -> bool:
        return any(len(buffer) >= 2 * self.budget for buffer in list(self._buffers.values()))

    def take(self) -> Recorded:
        """What was recorded since the last ``clear``, handed over."""
        recorded = Recorded(
            codes=[[c.co_filename, c.co_firstlineno, getattr(c, "co_qualname", c.co_name)] for c in self._codes],
            threads=[(native, buffer) for native, buffer in self._buffers.items() if len(buffer)],
            objects=list(self._codes),
        )
        self.clear()
        return recorded


class Recorded:
    """A finished stretch of timeline."""

    def __init__(
        self, codes: list[list[Any]], threads: list[tuple[int, array[int]]], objects: list[CodeType] | None = None
    ) -> None:
        self.codes = codes
        self.threads = threads
        self.objects = objects or []
        """The code that ran, as long as it is in this process: tells whether a file still holds it."""

    def files(self) -> list[str]:
        return sorted({str(code[0]) for code in self.codes})

    def merge(self, other: Recorded) -> None:
        """Append a later stretch; code indices of ``other`` are renumbered."""
        index = {tuple(code): position for position, code in enumerate(self.codes)}
        renumber = []
        for code in other.codes:
            key = tuple(code)
            if key not in index:
                index[key] = len(self.codes)
                self.codes.append(code)
            renumber.append(index[key])
        mine = dict(self.threads)
        for native, buffer in other.threads:
            target = mine.setdefault(native, array("q"))
            for position in range(0, len(buffer) - 1, 2):
                word = buffer[position + 1]
                target.append(buffer[position])
                target.append((word & ~CODE_MASK) | renumber[word & CODE_MASK])
        self.threads = list(mine.items())

    def pack(self) -> tuple[list[bytes], list[list[int]]]:
        """The chunks of ``timeline.bin`` and its ``threads`` rows [native thread id, byte offset, count].

        Thread after thread: ``count`` int64 times in ns, ``count`` int32 lines, ``count`` int32 code indices.
        """
        chunks: list[bytes] = []
        rows: list[list[int]] = []
        offset = 0
        for native, buffer in self.threads:
            count = len(buffer) // 2
            times = buffer[0 : 2 * count : 2]
            lines, codes = array("i"), array("i")
            for word in buffer[1 : 2 * count : 2]:
                lines.append(word >> 32)
                codes.append(word & CODE_MASK)
            for part in (times, lines, codes):
                if sys.byteorder == "big":
                    part.byteswap()
                chunks.append(part.tobytes())
            rows.append([native, offset, count])
            offset += 16 * count
        return chunks, rows


def user_frames(frame: FrameType | None, is_user: IsUser) -> list[FrameType]:
    """The user's frames on this stack, outermost first."""
    found = []
    while frame is not None:
        if is_user(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def create(is_user: IsUser) -> Timeline:
    """The better of the two ways that this interpreter has."""
    if sys.version_info >= (3, 12):
        from .timeline_monitoring import MonitoringTimeline

        return MonitoringTimeline(is_user)
    from .timeline_settrace import SettraceTimeline

    return SettraceTimeline(is_user)
