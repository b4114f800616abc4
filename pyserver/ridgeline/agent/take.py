"""A finished recording that may become the result."""

from __future__ import annotations

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
    """One closed recording, not yet saved."""

    recording: Recording
    lines: Recorded | None
    window: dict[str, Any]
    labels: list[list[Any]]
    order: int
    """See ``ORDER``."""
    events: int = 0
    """Counted for recordings without steps only: the busier one says more."""
    cut: bool = False
    """An early recording that ended by the clock, while the program went on."""

    @property
    def goodness(self) -> tuple[int, int, int]:
        return (-self.order, len(self.window["steps"]), self.events)
