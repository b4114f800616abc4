"""Processes and threads as Perfetto likes them: ids from 100 up, no thread with its process's id, no partial overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]
FIRST_ID = 100
LANE_STEP = 1_000
"""Sublanes of one thread are numbered below this."""
TOLERANCE_US = 0.001
"""Ends and starts are rounded apart by up to a nanosecond."""


_GIVEN = {"-1": "profiler's own work", "Spans": "profiled span", "Traces": "profiled span"}
"""What Kineto files under no process."""


class Lanes:
    """Gives every (kind, pid, tid) of the file a process and a thread of its own."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, Any, Any], int] = {}
        self._processes: dict[tuple[str, Any], int] = {}
        self._keys: list[tuple[str, Any, Any]] = []

    def id_of(self, lane: tuple[str, Any, Any]) -> int:
        """The lane's row, in order of appearance."""
        kind, pid, tid = lane
        key = (kind, str(pid), str(tid))
        if key not in self._lanes:
            self._processes.setdefault((kind, str(pid)), FIRST_ID + len(self._processes))
            self._lanes[key] = len(self._lanes)
            self._keys.append(key)
        return self._lanes[key]

    def ids(self, lane: int, level: int = 0) -> tuple[int, int]:
        """(pid, tid) in the copy."""
        kind, pid, _ = self._keys[lane]
        return self._processes[kind, pid], FIRST_ID * LANE_STEP + lane * LANE_STEP + level

    def process(self, kind: str, pid: str | None = None) -> int | None:
        """The process of a kind, by default the first, where tracks are added."""
        return next((new for (k, old), new in self._processes.items() if k == kind and pid in (None, old)), None)

    def names(self, level: I32, lane_rows: I32) -> Iterator[dict[str, Any]]:
        """Metadata events: what each lane is, devices below the host's threads."""
        for order, ((kind, pid), new) in enumerate(self._processes.items()):
            label = _GIVEN.get(pid) or (
                f"GPU {pid}" if kind == "device" else f"python (pid {pid})" if pid.isdigit() else pid
            )
            yield _meta("process_name", new, {"name": label})
            yield _meta("process_sort_index", new, {"sort_index": order + (1_000 if kind == "device" else 0)})
        deepest = np.zeros(len(self._keys), dtype=np.int32)
        np.maximum.at(deepest, lane_rows, level)
        for lane, (kind, _, tid) in enumerate(self._keys):
            for sub in range(int(deepest[lane]) + 1):
                pid, thread = self.ids(lane, sub)
                name = f"stream {tid}" if kind == "device" else f"thread {tid}"
                yield _meta("thread_name", pid, {"name": name + (" (overlapping)" if sub else "")}, thread)
                yield _meta("thread_sort_index", pid, {"sort_index": lane * 10 + sub}, thread)


def micros(ns: int) -> msgspec.Raw:
    """Nanoseconds as JSON microseconds, exact however far from zero."""
    whole, part = divmod(abs(ns), 1000)
    return msgspec.Raw(b"%s%d.%03d" % (b"-" if ns < 0 else b"", whole, part))


def _meta(name: str, pid: int, args: dict[str, Any], tid: int | None = None) -> dict[str, Any]:
    event: dict[str, Any] = {"ph": "M", "name": name, "pid": pid, "args": args}
    if tid is not None:
        event["tid"] = tid
    return event


def sublanes(lane: I32, start: F64, dur: F64) -> I32:
    """For each slice the sublane on which it nests: 0 unless it begins inside another and ends outside. Shape (n,).

    A slice goes to the first sublane whose open slices contain it wholly; nested calls stay together on 0.
    """
    level = np.zeros(len(lane), dtype=np.int32)
    order = np.lexsort((-dur, start, lane))
    current = -1
    stacks: list[list[float]] = []
    for i in order.tolist():
        if lane[i] != current:
            current, stacks = int(lane[i]), []
        begin, end = float(start[i]), float(start[i] + dur[i])
        for depth, stack in enumerate(stacks):
            while stack and stack[-1] <= begin + TOLERANCE_US:
                stack.pop()
            if not stack or end <= stack[-1] + TOLERANCE_US:
                stack.append(end)
                level[i] = depth
                break
        else:
            stacks.append([end])
            level[i] = len(stacks) - 1
    return level
