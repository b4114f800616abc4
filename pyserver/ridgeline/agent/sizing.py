"""How long a window is: steps, time, and above all events, for those cost memory and time to stop."""

from __future__ import annotations

from collections.abc import Callable

from .spec import Spec

EVENT_LIMIT = 200_000
"""A window of more events costs seconds and gigabytes to stop (2 µs and 2.7 kB an event)."""
STEPS = 20
STEPS_UNKNOWN = 5
"""Where no early recording told how many events a step has."""
WINDOW_NS = 2_000_000_000
LEAST_STEPS = 3
"""Fewer steps say nothing about their spread; for these the limit of events may be exceeded twofold."""
LONGEST_NS = 20_000_000_000
EARLY_NS = 500_000_000
"""An early recording goes on for ``LEAST_STEPS`` while its steps are no longer: a second more has about as many events as a window may."""


class Sizing:
    """What is known of the program's density of events, and the lengths that follow from it."""

    def __init__(self, spec: Spec, note: Callable[[str], None]) -> None:
        self._spec, self._note = spec, note
        self.events_per_step: float | None = None
        self.events_per_ns: float | None = None

    def steps(self) -> int:
        """Steps of the next window."""
        asked, density = self._spec.steps, self.events_per_step
        wanted = asked or (STEPS if density is not None else STEPS_UNKNOWN)
        if density:
            most = max(1, int(EVENT_LIMIT / density))
            if LEAST_STEPS * density <= 2 * EVENT_LIMIT:
                most = max(most, LEAST_STEPS)
            if asked is not None and wanted > most:
                self._note(f"{most} steps recorded, not {wanted}: a step has {density:.0f} events")
            wanted = min(wanted, most)
        return wanted

    def full(self, steps: int, elapsed_ns: int, target: int) -> bool:
        """Whether a window that has so many steps and is so long should close."""
        if steps >= target:
            return True
        if self._spec.steps is not None:
            return False
        return (elapsed_ns >= WINDOW_NS and steps >= LEAST_STEPS) or elapsed_ns >= LONGEST_NS

    def early_enough(self, steps: int, interval_ns: int, on_device: bool) -> bool:
        """Whether the early recording should end with a clean step: a program of a dozen steps may end before its window has
        enough of them. Not where the person says which steps count, and not on a device, whose first steps tell of nothing else."""
        asked = self._spec.steps is not None or self._spec.warmup is not None
        return asked or on_device or interval_ns > EARLY_NS or steps >= LEAST_STEPS

    def first_was_short(self, steps: int, elapsed_ns: int, events: Callable[[], int]) -> bool:
        """After the first window of a program whose density was unknown: whether a longer one should follow."""
        if self.events_per_step is not None or self._spec.steps is not None:
            return False
        self.events_per_step = events() / steps
        return self.steps() > steps and elapsed_ns < WINDOW_NS

    def stretch(self, length_ns: int) -> int:
        """Nanoseconds of a recording without steps, at most ``length_ns``."""
        if not self.events_per_ns:
            return length_ns
        return min(length_ns, int(EVENT_LIMIT / self.events_per_ns))
