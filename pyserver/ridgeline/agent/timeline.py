"""The user-line timeline: when each thread entered which statement of the user's code.

An operator of the trace is joined to the statement that was current at its start. Two ways to record it:
``sys.monitoring`` (Python 3.12 and newer: reaches all threads, switches itself off for library code at no cost, lives
beside a debugger) and ``sys.settrace`` (older: one tracer a thread, so another's is left alone). Both write pairs of
int64 into one array a thread: ``time_ns``, then ``line << 32 | code``. Line 0 means that the frame returned or
yielded, line -1 that it was entered or resumed: without that a recursive call looks like the next round of a loop.
A tracer is called for a library's functions as well; how often is written down, for it makes what calls them slower.
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
CHECK = 100_000
"""Events a thread between two looks for code that is entered all the time and runs nothing of torch's."""
STRIDE = 41
"""Every so manieth event is looked at: a prime, for a loop's events have a period."""
HOT = 0.5
"""Part of the events that is one function's and the next one's..."""
ENTERED = 0.05
"""...of which so many are entries: one event of twenty, no loop that goes round in one call..."""
SLOW_NS, SLOW = 5_000, 0.02
"""...and no more of them last longer than an operator at its shortest takes to be recorded."""
CODE_MASK = 0xFFFFFFFF
LIBRARY = 0x7FFFFFFF
"""``count << 32 | LIBRARY``: so many calls of a library's functions were looked at, and left alone, since the event before."""
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
        """``buffer`` of the running thread, where it has written, with ``looked`` and ``due``, lengths of it: die with the thread,
        and cost no system call."""

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
        self.look_again(found)
        return found

    def look_again(self, buffer: array[int]) -> None:
        """Set the running thread's next look at what it wrote: ``CHECK`` events on, or where its portion is full."""
        self._own.looked = len(buffer)
        self._own.due = min(2 * self.budget, len(buffer) + 2 * CHECK)

    def enter(self, buffer: array[int], frames: list[FrameType]) -> None:
        """A thread comes into view inside these user frames, outermost first; what was known of it before is void."""
        if not frames:
            return
        now = time.time_ns()
        buffer.extend((now, self.code_id(frames[0].f_code)))
        for frame in frames:
            number = self.code_id(frame.f_code)
            buffer.extend((now, ENTRY | number, now, (frame.f_lineno or 0) << 32 | number))

    def codes_of(self, numbers: set[int]) -> list[CodeType]:
        return [code for code, number in self._codes.items() if number in numbers]

    def leave(self, buffer: array[int], frame: FrameType | None) -> None:
        """From here on nothing is known of the thread, whatever its last statement."""
        present = user_frames(frame, self.is_user)
        if present:
            buffer.extend((time.time_ns(), self.code_id(present[0].f_code)))

    def hot(self, buffer: array[int], since: int) -> set[int]:
        """Numbers of the functions in which a thread spends its events from index ``since`` on, if they are called very often and
        are too quick for an operator. Their callers' statements are enough: ``sorted(rows, key=score)`` calls ``score``."""
        events: dict[int, list[int]] = {}
        looked = 0
        for at in range(since & ~1, len(buffer) - 3, 2 * STRIDE):
            word = buffer[at + 1]
            seen = events.setdefault(word & CODE_MASK, [0, 0, 0])
            seen[0] += 1
            seen[1] += word >> 32 == -1
            seen[2] += buffer[at + 2] - buffer[at] > SLOW_NS
            looked += 1
        return {
            number
            for number, (count, entered, slow) in events.items()
            if count >= HOT * looked and entered >= ENTERED * count and slow <= SLOW * count
        }

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
                number = word & CODE_MASK
                target.append((word & ~CODE_MASK) | (number if number == LIBRARY else renumber[number]))
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
