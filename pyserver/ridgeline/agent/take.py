"""A finished recording that may become the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .kineto import Recording
from .sizing import LEAST_STEPS, WINDOW_NS
from .timeline import Recorded

ORDER = {"manual": -1, "window": 0, "timer": 2, "early": 4}
"""Which kind of recording is preferred; lower is better. 1 is the program's own profiler, 5 a window without a step, 6
any without a usable clock. See ``order`` for 3."""

FEW = 3
"""A window that the program's end left with fewer steps than say something, and an early recording that has as many: of these the
one with more steps."""
NO_STEPS = 5
NO_CLOCK = 6


def order(state: str, steps: int, complete: bool, lasted_ns: int) -> int:
    """Of a recording that the recorder opened in a state."""
    if state == "window" and not complete and steps < LEAST_STEPS:
        return NO_STEPS if not steps else FEW if lasted_ns < WINDOW_NS else ORDER[state]
    return FEW if state == "early" and steps >= LEAST_STEPS else ORDER[state]


@dataclass
class Take:
    """One closed recording."""

    recording: Recording
    lines: Recorded | None
    window: dict[str, Any]
    labels: list[list[Any]]
    order: int
    """See ``ORDER``."""
    events: int = 0
    """Counted for recordings without steps only: the busier one says more."""
    raw: str | None = None
    """The plain trace, once it is saved."""
    cut: bool = False
    """An early recording that ended by the clock, while the program went on."""

    def drop(self) -> None:
        """Another take is better."""
        raw, self.raw = self.raw, None
        if raw is not None:
            with suppress(OSError):
                os.unlink(raw)

    def unseen(self, used: list[str]) -> list[str]:
        """A note on accelerators in use of which it has nothing, if there are any."""
        missed = set(used).difference(self.recording.devices)
        if not missed:
            return []
        return [f"no work of {', '.join(sorted(missed))} was recorded: it was not in use at the start"]

    @property
    def goodness(self) -> tuple[int, int, int]:
        return (-self.order, len(self.window["steps"]), self.events)


class Takes:
    """The best take so far. A worse one is dropped at once."""

    def __init__(self) -> None:
        self.best: Take | None = None
        self.save: Callable[[Take], str] | None = None
        """Writes the plain trace of a take and returns its path."""

    def add(self, take: Take) -> None:
        if self.best is not None and take.goodness < self.best.goodness:
            take.drop()
            return
        self.clear()
        self.best = take

    def clear(self) -> None:
        if self.best is not None:
            self.best.drop()
        self.best = None

    def secure(self) -> None:
        """Before any other session is set up, of whomever: save what has times of a device, or it loses them."""
        if self.best is not None and self.best.recording.devices and self.best.raw is None and self.save is not None:
            self.best.raw = self.save(self.best)
