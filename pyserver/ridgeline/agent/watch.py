"""A quiet thread that acts where no marker does: programs without a training loop, ``--after``, full buffers.

It never touches the profiler itself while the main thread can: it hands the work over (``MainThread``), and only if
that thread stays inside one C call (a join, a sleep, a server's loop) does it act from here.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable

from .mainthread import MainThread
from .plain import PLAIN_NS
from .recorder import Recorder
from .sizing import LONGEST_NS, WINDOW_NS
from .take import Take

TICK_S = 0.25
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
EARLY_NS = 3_000_000_000
"""An early recording without a step ends after this much time that was no compilation,"""
EARLY_BYTES = 100 << 20
"""or after the process has grown by so much: Kineto holds about 1 kB an event and does not tell how many they are."""
EARLY_EVENTS = 20_000
"""With fewer events than these the growth, or the time, was the program's: another early recording follows,"""
EARLY_TIMES = 10
"""so many times at most."""
PAUSE_NS = 1_000_000_000
QUIET_NS = 5_000_000_000
"""Markers count as absent when the last came longer ago than this and than four intervals."""
ALIKE = 0.95
"""Cosine between the op counts of two stretches from which on the program counts as steady."""
LEAST_OPS = 200
PATIENCE_S = 2.0
LEAVE_NS = 10_000_000_000
"""A call that outlives the last recording is waited for as long, to detach CUPTI after it."""


def likeness(a: dict[str, int], b: dict[str, int]) -> float:
    """Cosine of two histograms, 0 where one is empty."""
    dot = sum(count * b.get(name, 0) for name, count in a.items())
    lengths = math.sqrt(sum(n * n for n in a.values())) * math.sqrt(sum(n * n for n in b.values()))
    return dot / lengths if lengths else 0.0


def resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def importing_torch() -> bool:
    """Whether a module of torch's is half imported just now: starting the profiler imports from it, and would fail."""
    found = [module for name, module in list(sys.modules.items()) if name == "torch" or name.startswith("torch.")]
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in found)


class Watch:
    """Ticks until the recorder is done or the process ends (a daemon)."""

    def __init__(self, recorder: Recorder, main: MainThread, after_s: float | None) -> None:
        self.recorder, self._main = recorder, main
        self._after_ns = None if after_s is None else int(after_s * 1e9)
        self._started_ns = time.time_ns()
        self._compiled_ns = 0
        self._last_tick_ns = self._started_ns
        self._next_timer_ns = 0
        self._backoff_ns = PAUSE_NS
        self._previous: dict[str, int] | None = None
        self._timer_until_ns = 0
        self._early_base: int | None = None
        self._times = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="ridgeline-watch", daemon=True).start()

    def _run(self) -> None:
        while self.recorder.state not in ("done", "ended"):
            time.sleep(TICK_S)
            self._tick()
        until = time.time_ns() + LEAVE_NS
        while self.recorder.leaving and time.time_ns() < until:
            self._act(self.recorder.leave)
            time.sleep(TICK_S)

    def _tick(self) -> None:
        recorder, now = self.recorder, time.time_ns()
        recorder.calls.ended()
        if recorder.compiling:
            self._compiled_ns += now - self._last_tick_ns
        self._last_tick_ns = now
        state, age = recorder.state, now - recorder.state_since_ns
        if state == "deferred" and age > EARLY_NS:
            self._act(recorder.begin)
        elif state == "off" and self._after_ns is not None and now - self._started_ns >= self._after_ns:
            recorder.force("after")
        elif state == "early" and not recorder.compiling:
            self._maybe_end_early(now, age - self._compiled_ns)
        elif state == "settle" and recorder.early_wanted and not recorder.compiling:
            self._act(recorder.early_again)
        elif state == "settle" and not recorder.compiling:
            self._maybe_open_timer(now, age)
        elif state == "timer" and now >= self._timer_until_ns:
            self._act(self._end_timer)
        elif state in ("warm", "window") and age > 3 * LONGEST_NS:
            self._act(recorder.close_window)
        elif state in ("bare", "plain", "counted") and age > 5 * PLAIN_NS:
            self._act(recorder.finish_plain)
        elif state == "counted" and not recorder.compiling:
            self._act(recorder.count)
        if recorder.wants_lines and recorder.timeline is not None:
            self._main.call(recorder.timeline.refill, TICK_S)

    def _act(self, action: Callable[[], None]) -> None:
        """Now, or at a later tick: the main thread comes to this between any two bytecodes, those of an import too."""

        def unless_importing() -> None:
            if not importing_torch():
                action()

        if not self._main.call(unless_importing, PATIENCE_S):
            unless_importing()

    def _maybe_end_early(self, now: int, age: int) -> None:
        if self._early_base is None:
            self._early_base = resident_bytes()
        grown = resident_bytes() - self._early_base
        if (age > EARLY_NS or grown > EARLY_BYTES) and not self.recorder.markers_active(now, QUIET_NS):
            self._act(self._end_early)

    def _end_early(self) -> None:
        events = self.recorder.end_early()
        now = time.time_ns()
        self._early_base, self._compiled_ns = None, 0
        self._next_timer_ns = now + PAUSE_NS
        if events is not None and events < EARLY_EVENTS and self._times < EARLY_TIMES:
            self._times += 1
            self.recorder.early_wanted = True  # from the next tick on: scopes of the last recording have closed by then

    def _maybe_open_timer(self, now: int, age: int) -> None:
        recorder = self.recorder
        if recorder.markers_active(now, QUIET_NS) or now < self._next_timer_ns or age < PAUSE_NS:
            return
        forced = recorder.forced is not None
        if forced and age < 2 * PAUSE_NS:
            return
        self._act(lambda: self._open_timer("after" if forced else "timer"))

    def _open_timer(self, reason: str) -> None:
        length = self.recorder.open_timer(reason, WINDOW_NS)
        self._timer_until_ns = time.time_ns() + length

    def _end_timer(self) -> None:
        recorder = self.recorder
        take = recorder.close_timer()
        if take is None:
            return
        if recorder.forced is not None:
            recorder.count_plain()
            return
        histogram = take.recording.op_histogram()
        if self._steady(histogram, take):
            recorder.count_plain()
            return
        self._previous = histogram
        self._next_timer_ns = time.time_ns() + self._backoff_ns
        self._backoff_ns = min(2 * self._backoff_ns, 60_000_000_000)

    def _steady(self, histogram: dict[str, int], take: Take) -> bool:
        if self._previous is None or sum(histogram.values()) < LEAST_OPS:
            return False
        return likeness(self._previous, histogram) >= ALIKE
