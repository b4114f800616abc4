"""The unprofiled steps beside the profiled ones: how long a step takes when nobody looks."""

from __future__ import annotations

import threading
import time
from typing import Any

from . import machine
from .bare import BARE, BareSteps
from .kineto import Recording, synchronize
from .sizing import LEAST_STEPS, STEPS

PLAIN_NS = 1_000_000_000
"""After this much time the steps right after a window are enough, be they few; after five times as much, if none."""
BLOCK_NS = 100_000_000
"""On a device steps are timed in blocks of this length and ``LEAST_STEPS``; the first that has taken ``PLAIN_NS`` is enough."""
ALIKE = 0.03
"""Two blocks in a row that differ by no more: the steps have settled after all that the recording disturbed."""
SETTLED_NS = 3 * PLAIN_NS
"""Blocks that do not settle are waited for as long."""


class StepTimes:
    """Nanoseconds of plain and of profiled steps. On a device, whose work overlaps, means from idle to idle."""

    def __init__(self) -> None:
        self.bare = BareSteps()
        self.plain: list[int] = []
        self.profiled: list[int] = []
        self._devices: list[str] = []
        self._least = 0
        self._steps = 0
        self._began_ns = 0
        self._since_ns = 0
        self._seen_ns = 0
        self._blocks: list[int] = []
        self._computed: tuple[int, int] | None = None
        self._shares: list[tuple[int, int]] = []
        self._after_ns: list[int] = []
        """Of ``plain``, on a CPU, those after the window..."""
        self._faults: list[int] = []
        """...and the pages that the process was given in each."""
        self._given = 0

    @property
    def running(self) -> float | None:
        """What part of its plain steps the thread of the steps computed; the rest it waited, for a core if for nothing else."""
        wall = sum(wall for wall, _ in self._shares)
        return sum(ran for _, ran in self._shares) / wall if wall else None

    def beside(self) -> dict[str, Any]:
        """What of it the sidecar's ``Window`` has."""
        bare = self.bare.row
        return {
            "plain_running": self.running,
            "bare": bare and {**bare, "plain_ns": self._after_ns, "plain_faults": self._faults},
        }

    def _note_running(self, interval_ns: int | None) -> None:
        """At a mark: that the step before it took so long, None if that was no clean one."""
        before, self._computed = self._computed, (threading.get_ident(), time.thread_time_ns())
        if interval_ns and before is not None and before[0] == self._computed[0]:
            self._shares.append((interval_ns, self._computed[1] - before[1]))
            del self._shares[:-STEPS]

    def before(self, interval_ns: int | None) -> None:
        """A plain step of the settling program, None if it was no clean one."""
        self._note_running(interval_ns)
        if interval_ns is None:
            return
        self.plain.append(interval_ns)
        del self.plain[:-STEPS]

    def window_closed(self, recording: Recording, began_ns: int, steps: int, target: int | None) -> None:
        """Plain steps follow, as many as the window should have had, or a few where nobody waits for more (None)."""
        self._least = LEAST_STEPS if target is None else target
        self._devices = recording.devices
        if self._devices:
            self.profiled = [(recording.end_ns - began_ns) // steps]
            self.plain = []
        self.begin(time.time_ns())

    def first(self, lines: bool) -> str:
        """What comes first after a window, as the recorder's state: where it had ``lines``, on a CPU, steps without them."""
        if not lines or self._devices:
            return "plain"
        self._least = max(self._least, BARE)
        return "bare"

    def begin(self, now_ns: int) -> None:
        """The plain steps begin now, the devices being idle."""
        self._steps, self._blocks, self._given = 0, [], machine.faults()
        self._began_ns = self._since_ns = self._seen_ns = now_ns
        self._computed = None

    def after(self, interval_ns: int | None, now_ns: int, torch: Any) -> bool:
        """A plain step after the window has ended, None if it was no clean one; True when there are enough."""
        waited = now_ns - self._began_ns
        self._note_running(interval_ns)
        if interval_ns is None:
            if self._devices:  # a compilation lay in it: the block is of no use
                self._steps, self._since_ns = 0, now_ns
            return waited > 5 * PLAIN_NS
        self._steps += 1
        self._seen_ns = now_ns
        if self._devices:
            return self._after_on_device(now_ns, torch)
        self.plain.append(interval_ns)
        self._after_ns.append(interval_ns)
        self._faults.append(machine.faults() - self._given)
        self._given = machine.faults()
        return self._steps >= self._least or waited > PLAIN_NS

    def _after_on_device(self, now_ns: int, torch: Any) -> bool:
        length = now_ns - self._since_ns
        if length < PLAIN_NS and (length < BLOCK_NS or self._steps < LEAST_STEPS):
            return False
        synchronize(torch, self._devices)
        ended_ns = time.time_ns()
        self._blocks.append((ended_ns - self._since_ns) // self._steps)
        self._steps, self._since_ns = 0, ended_ns
        last = self._blocks[-2:]
        if len(last) == 2 and max(last) <= (1 + ALIKE) * min(last):
            self.plain = last
            return True
        self.plain = last[-1:]
        return length >= PLAIN_NS or ended_ns - self._began_ns > SETTLED_NS

    def cut(self) -> None:
        """The program ends: of a first block that is not full the steps there are, by the host's clock alone."""
        if self._devices and not self.plain and self._steps >= LEAST_STEPS:
            self.plain = [(self._seen_ns - self._since_ns) // self._steps]
