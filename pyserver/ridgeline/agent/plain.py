"""The unprofiled steps beside the profiled ones: how long a step takes when nobody looks."""

from __future__ import annotations

import time
from typing import Any

from .kineto import Recording, synchronize
from .sizing import LEAST_STEPS, STEPS

PLAIN_NS = 1_000_000_000
"""After this much time the steps right after a window are enough, be they few; after five times as much, if none."""


class StepTimes:
    """Nanoseconds of plain and of profiled steps. On a device, whose work overlaps, one mean each, from idle to idle."""

    def __init__(self) -> None:
        self.plain: list[int] = []
        self.profiled: list[int] = []
        self._devices: list[str] = []
        self._least = 0
        self._steps = 0
        self._since_ns = 0

    def before(self, interval_ns: int) -> None:
        """A plain step of the settling program."""
        self.plain.append(interval_ns)
        del self.plain[:-STEPS]

    def window_closed(self, recording: Recording, began_ns: int, steps: int, target: int | None) -> None:
        """Plain steps follow, as many as the window should have had, or a few where nobody waits for more (None)."""
        self._least = LEAST_STEPS if target is None else target
        self._steps, self._since_ns = 0, time.time_ns()
        self._devices = recording.devices
        if self._devices:
            self.profiled = [(recording.end_ns - began_ns) // steps]
            self.plain = []

    def after(self, interval_ns: int | None, now_ns: int, torch: Any) -> bool:
        """A plain step after the window has ended, None if it was no clean one; True when there are enough."""
        if interval_ns is not None:
            self._steps += 1
            if not self._devices:
                self.plain.append(interval_ns)
        waited = now_ns - self._since_ns
        if self._steps < self._least and not (waited > PLAIN_NS and self._steps) and waited <= 5 * PLAIN_NS:
            return False
        if self._devices and self._steps:
            synchronize(torch, self._devices)
            self.plain = [(time.time_ns() - self._since_ns) // self._steps]
        return True
