"""How long the program takes without the profiler where nothing marks its steps: time by allocations.

The rounds of its loop are found afterwards, in the lines that were recorded; of what runs unprofiled there are none. But the
allocator of the device's memory counts what it hands out, whoever looks, and it hands out about the same in every round. So its
count is read at both ends of a recording and, once that is over, now and then at moments at which the devices are idle. What a
round has of allocations in the recording, at the time that one takes without it, is the unprofiled round (``assemble.counted``).

A program that allocates nothing, as one that replays CUDA graphs and does nothing beside, is left at once. The memory of a CPU has
no such counter.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from .kineto import synchronize
from .plain import ALIKE, PLAIN_NS, SETTLED_NS
from .take import Take

FEWEST = 200
"""Allocations in two stretches of time that are compared: one more or less is then a per cent of one of them."""
IDLE_LOOKS = 3
"""After so many looks without ``FEWEST`` allocations there is nothing to count."""


def allocations(torch: Any, kinds: list[str]) -> int | None:
    """Blocks that the caching allocators of all CUDA devices have handed out since the process began, from their cache or not; None
    where no CUDA device is in use, or another allocator that does not count. About 0.1 ms a device.

    ``THCPModule_memoryStats`` of torch/csrc/cuda/Module.cpp names the entries; ``torch.cuda.memory_stats`` flattens them."""
    if "cuda" not in kinds:
        return None
    try:
        devices = range(torch.cuda.device_count())
        return sum(int(torch.cuda.memory_stats(device)["allocation.all.allocated"]) for device in devices)
    except (AttributeError, KeyError, RuntimeError):  # another torch, another allocator
        return None


def between(before: int | None, after: int | None) -> int | None:
    """Allocations from one look to another; None if the program has set the counters back meanwhile."""
    return None if before is None or after is None or after < before else after - before


def capturing(torch: Any, kinds: list[str]) -> bool:
    """Whether the calling thread is capturing a CUDA graph: waiting for the device now would make that fail."""
    return "cuda" in kinds and bool(torch.cuda.is_current_stream_capturing())


class Counted:
    """``begin`` once the last stretch is recorded, ``look`` every now and then until it says that it is enough."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.devices: list[str] = []
        self.begun = False
        self.rows: list[list[int]] = []
        """The sidecar's ``Window.plain_counts``."""

    def of_use(self, take: Take) -> bool:
        """Whether rounds may be found in a take, by its lines, and allocations in it were counted, and were not few."""
        count = take.window.get("allocations")
        return take.window["lines"] and not take.window["steps"] and count is not None and count >= FEWEST

    def begin(self, devices: list[str]) -> None:
        self.devices, self.begun = devices, True
        self.disturb()

    def disturb(self) -> None:
        """Something else than the program's rounds has happened, a compilation: what was seen before it is of no use."""
        self.rows = []

    def look(self) -> bool:
        """Between two statements of the program. True when there is enough, or nothing to be had."""
        if capturing(self._torch, self.devices):
            return False
        synchronize(self._torch, self.devices)
        ended_ns = time.time_ns()
        count = allocations(self._torch, self.devices)
        if count is None:
            return True
        if self.rows and count < self.rows[-1][2]:
            self.disturb()
        self.rows.append([ended_ns, time.time_ns(), count])
        waited = ended_ns - self.rows[0][1]
        if len(self.rows) >= IDLE_LOOKS and count - self.rows[0][2] < FEWEST:
            return True
        return waited >= SETTLED_NS or (waited >= PLAIN_NS and self._settled())

    def _settled(self) -> bool:
        """Whether the last stretch, up to four looks long, has the same pace in both of its halves."""
        half = min(2, (len(self.rows) - 1) // 2)
        if not half:
            return False
        paces = [pace(self.rows[-1 - 2 * half : len(self.rows) - half]), pace(self.rows[-1 - half :])]
        return all(paces) and max(paces) <= (1 + ALIKE) * min(paces)


def pace(rows: list[list[int]]) -> float:
    """Nanoseconds an allocation takes between the first and the last of some looks, 0 where there was none."""
    count = rows[-1][2] - rows[0][2]
    return sum(after[0] - before[1] for before, after in pairwise(rows)) / count if count else 0.0
