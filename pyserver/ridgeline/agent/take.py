"""A finished recording that may become the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .kineto import Recording
from .timeline import Recorded

ORDER = {"manual": -1, "window": 0, "timer": 2, "early": 3}
"""Which kind of recording is preferred; lower is better. 1 is the program's own profiler, 4 a window without a step, 5
any without a usable clock."""

NO_CLOCK = 5


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
