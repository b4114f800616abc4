"""When to record: the state machine between the program's markers and the profiler.

``early``   from the import of torch on, so that a program that ends before it settles still leaves a result. It ends
            with the first clean step, pauses over compilations, and its length gives the events of one step.
``settle``  unprofiled; the steady detector watches. These steps are the plain ones that profiled steps are compared to.
``timer``   a recording without steps, for programs that show no marker; opened and ended by ``watch``.
``window``  the recording proper: about 20 steps or 2 s, at most ``EVENT_LIMIT`` events.
``plain``   unprofiled steps right after it, then the result is published.
``user``    the program's own profiler is at work; ours keeps out of its way and harvests it.
``done``    published; markers cost one comparison.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from .kineto import mute, synchronize
from .labels import Scopes
from .session import OpenRecording
from .spec import Spec
from .steady import Steady, Track
from .take import Take, Times
from .timeline import Timeline

EVENT_LIMIT = 200_000
"""A window of more events costs seconds and gigabytes to stop (2 µs and 2.7 kB an event)."""
STEPS = 20
STEPS_UNKNOWN = 5
"""Where no early recording told how many events a step has."""
WINDOW_NS = 2_000_000_000
LEAST_STEPS = 3
LONGEST_NS = 20_000_000_000
PLAIN_NS = 1_000_000_000
SPOILED = 3
"""A window with a compilation inside is recorded anew, this many times."""


class Recorder:
    """Thread-safe. ``publish(take)`` is called once, from the thread whose marker completed the result."""

    def __init__(
        self,
        torch: Any,
        spec: Spec,
        timeline: Timeline | None,
        scopes: Scopes,
        publish: Callable[[Take], None],
        progress: Callable[..., None],
        complain: Callable[[str, BaseException | str], None],
    ) -> None:
        self.torch, self.spec, self.timeline = torch, spec, timeline
        self.scopes = scopes
        self._publish, self._progress, self._complain = publish, progress, complain
        self.steady = Steady(spec.warmup)
        self.state = "off"
        self.times = Times()
        self.takes: list[Take] = []
        self.notes: list[str] = []
        self.state_since_ns = time.time_ns()
        self._lock = threading.RLock()
        self._inside = False
        self._pid = os.getpid()
        self._open_one: OpenRecording | None = None
        self._target = 0
        self._devices: list[str] = []
        self._events_per_step: float | None = None
        self._events_per_ns: float | None = None
        self._spoiled = 0
        self.compiling = False
        self.forced: str | None = None
        self._plain_after = 0

    # ------------------------------------------------------------------ entry points
    def _guarded(self, action: Callable[[], None]) -> bool:
        """Run ``action`` under the lock; False in a forked child, and when a hook of ours fired within our own work."""
        if os.getpid() != self._pid:
            return False
        with self._lock:
            if self._inside:
                return False
            self._inside = True
            try:
                action()
            except Exception as error:  # noqa: BLE001 - a failing recorder must not break the user's step
                self._complain(f"recorder in state {self.state}", error)
                self._set("done")
            finally:
                self._inside = False
        return True

    def mark(self, kind: str, key: Hashable) -> None:
        """One step marker of the program."""
        if self.state in ("done", "off"):
            return
        now = time.time_ns()
        self._guarded(lambda: self._mark(kind, key, now))

    def begin(self) -> None:
        """Record from now on, unless a time was asked for."""
        if self.spec.after is None and self.state in ("off", "deferred"):
            self._guarded(lambda: self._open("early", None, "whole"))

    def defer(self) -> None:
        """Start no session before the program uses its accelerator or shows a step."""
        if self.spec.after is None:
            self._set("deferred")

    def markers_active(self, now_ns: int, quiet_ns: int) -> bool:
        """Whether steps are coming: the last mark is no older than ``quiet_ns`` or four intervals."""
        with self._lock:
            for track in self.steady.tracks.values():
                usual = max(track.clean[-3:], default=0)
                if track.count > 1 and now_ns - track.seen_ns < max(quiet_ns, 4 * usual):
                    return True
        return False

    def compile_started(self) -> None:
        self._guarded(self._compile_started)

    def compile_ended(self) -> None:
        self._guarded(self._compile_ended)

    def devices_appeared(self) -> None:
        """An accelerator was initialized: an early recording without it is of no use; the window will have it."""

        def react() -> None:
            if self.state in ("off", "deferred"):
                self._open("early", None, "whole")
            elif self.state == "early" and self._open_one is not None:
                self._close(keep=False)
                self._set("settle")

        if self.spec.after is None:
            self._guarded(react)

    def force(self, reason: str) -> None:
        """Open at the next marker, settled or not."""

        def begin() -> None:
            self.forced = reason
            self._set("settle")

        self._guarded(begin)

    def open_manual(self) -> None:
        """The program itself says where the window is (``ridgeline.window``); it outranks all others."""

        def begin() -> None:
            if self._open_one is not None:
                self._close(keep=False)
            self.takes = []
            self.steady = Steady()
            self._open("manual", None, "manual")

        self._guarded(begin)

    def close_manual(self) -> None:
        def end() -> None:
            if self.state == "manual":
                self._close(keep=True)
                self._publish_best()

        self._guarded(end)

    def manual_step(self) -> None:
        self.mark("profiler_step", "manual")

    # ------------------------------------------------------------------ for ``watch``
    def end_early(self) -> int | None:
        """Time is up for the early recording of a program without steps; its events, None if it had ended already."""
        counted: list[int] = []

        def end() -> None:
            if self.state == "early" and self._open_one is not None:
                take = self._close(keep=True)
                self._set("settle")
                if take is not None:
                    elapsed = max(take.window["end_ns"] - take.window["start_ns"], 1)
                    self._events_per_ns = take.events / elapsed
                    counted.append(take.events)

        self._guarded(end)
        return counted[0] if counted else None

    def early_again(self) -> None:
        """Go on with another early recording, for the last one held little."""
        self._guarded(lambda: self._open("early", None, "whole") if self.state == "settle" else None)

    def open_timer(self, reason: str, length_ns: int) -> int:
        """Record a stretch of time; returns how long it should be, at most ``length_ns``, for its events to fit."""
        length = length_ns
        if self._events_per_ns:
            length = min(length_ns, int(EVENT_LIMIT / self._events_per_ns))

        def begin() -> None:
            if self.state == "settle":
                self._open("timer", None, reason)

        self._guarded(begin)
        return length

    def close_timer(self) -> Take | None:
        """The take of the open timer stretch, None if something else has ended it."""
        taken: list[Take] = []

        def end() -> None:
            if self.state == "timer":
                take = self._close(keep=True)
                self._set("settle")
                if take is not None:
                    taken.append(take)

        self._guarded(end)
        return taken[0] if taken else None

    def close_window(self) -> None:
        """No marker came for a long time: what is there has to do."""

        def end() -> None:
            if self.state == "window":
                self._close(keep=True)
                self._publish_best()

        self._guarded(end)

    def finish_plain(self) -> None:
        self._guarded(lambda: self._publish_best() if self.state == "plain" else None)

    def publish_best(self) -> None:
        """Publish what there is; nothing where nothing was recorded."""
        self._guarded(self._publish_best)

    @property
    def wants_lines(self) -> bool:
        """An early recording of a Python-heavy program has used up its portion of line events."""
        return self.timeline is not None and self.state == "early" and self.timeline.exhausted

    def user_profiler_starts(self) -> None:
        def yield_to_it() -> None:
            if self._open_one is not None:
                self._close(keep=True)
            if self.state != "done":
                self._set("user")

        self._guarded(yield_to_it)

    def user_profiler_stopped(self) -> None:
        def resume() -> None:
            self.steady.disturb()
            if self.state == "user":
                self._set("settle")

        self._guarded(resume)

    def abandon(self) -> None:
        """In a forked child: let go of the session that the parent has open."""
        one, self._open_one = self._open_one, None
        self.state = "done"
        if one is not None:
            mute(self.torch, True)

    def stop(self) -> None:
        """The program ends: close what is open. Nothing is published here."""

        def close() -> None:
            if self._open_one is not None:
                self._close(keep=True)
            if self.state != "done":
                self._set("ended")

        self._guarded(close)

    def best(self) -> Take | None:
        return max(self.takes, key=lambda take: take.goodness, default=None)

    # ------------------------------------------------------------------ transitions
    def _set(self, state: str) -> None:
        self.state = state
        self.state_since_ns = time.time_ns()

    def _mark(self, kind: str, key: Hashable, now: int) -> None:
        track, interval = self.steady.mark(kind, key, now)
        leads = self.steady.leader() is track
        one = self._open_one
        if leads and self.state != "plain":
            self._progress("recording" if one is not None else "warming_up", step=track.count)
        if one is not None:
            one.mark(track, now)
        if self.state == "deferred" and interval is not None:
            self._set("settle")
        elif self.state == "early" and one is not None and interval is not None:
            self._close(keep=True)
            self._events_per_step = float(one.recording.events_since(now - interval))
            self._settle()
        elif self.state == "timer" and interval is not None and leads:
            self._close(keep=True)
            self._settle()
        elif self.state == "settle" and leads:
            self._mark_settle(track, interval)
        elif self.state == "window" and one is not None and track is one.driver:
            self._mark_window(one, now)
        elif self.state == "plain" and leads:
            self._mark_plain(interval, now)

    def _settle(self) -> None:
        """Unprofiled from now on; the time that closing took belongs to no step."""
        self._set("settle")
        self.steady.restamp(time.time_ns())

    def _mark_settle(self, track: Track, interval: int | None) -> None:
        if interval is not None:
            self.times.plain.append(interval)
            del self.times.plain[:-STEPS]
        reason = self.forced or self.steady.verdict(track)
        if reason is not None:
            self._open("window", track, reason)

    def _mark_window(self, one: OpenRecording, now: int) -> None:
        steps, elapsed = len(one.marks) - 1, now - one.started_ns
        enough = steps >= one.target
        if self.spec.steps is None:
            enough = enough or (elapsed >= WINDOW_NS and steps >= LEAST_STEPS) or elapsed >= LONGEST_NS
        if not enough:
            return
        self._close(keep=True)
        if self._events_per_step is None and self.spec.steps is None:
            # The first, short window of a program whose step's size was unknown; the real one follows.
            self._events_per_step = one.recording.event_count() / steps
            if self._steps_wanted() > steps and elapsed < WINDOW_NS:
                self.forced = one.reason
                self._settle()
                return
        self._target = one.target
        self._plain_after = 0
        self._set("plain")
        if one.recording.devices:
            # Steps overlap on a device, and their ends on the host mean little: from idle to idle, over all of them.
            self._devices = one.recording.devices
            self.times.profiled = [(one.recording.end_ns - one.started_ns) // steps]
            self.times.plain = []
        self.steady.restamp(time.time_ns())

    def _mark_plain(self, interval: int | None, now: int) -> None:
        if interval is not None:
            self._plain_after += 1
            if not self._devices:
                self.times.plain.append(interval)
        least = LEAST_STEPS if self.spec.then == "stop" else self._target
        waited = now - self.state_since_ns
        if self._plain_after >= least or (waited > PLAIN_NS and self._plain_after) or waited > 5 * PLAIN_NS:
            if self._devices and self._plain_after:
                synchronize(self.torch, self._devices)
                self.times.plain = [(time.time_ns() - self.state_since_ns) // self._plain_after]
            self._publish_best()

    def _publish_best(self) -> None:
        take = self.best()
        self._set("done")
        if take is not None:
            self._publish(take)
            self.takes = [take]

    def _compile_started(self) -> None:
        self.compiling = True
        self.steady.disturb()
        self._progress("compiling")
        one = self._open_one
        if one is None:
            return
        if self.state == "timer":
            self._close(keep=True)
            self._set("settle")
        elif self.state == "window" and self._spoiled < SPOILED:
            self._spoiled += 1
            self._close(keep=len(one.marks) > 1)
            self._set("settle")
        else:
            one.pause()

    def _compile_ended(self) -> None:
        self.compiling = False
        self.steady.disturb()
        self._progress("warming_up")
        if self._open_one is not None:
            self._open_one.resume()
        if self.state == "settle":
            self._set("settle")  # counts anew for the timer

    # ------------------------------------------------------------------ recordings
    def _open(self, state: str, driver: Track | None, reason: str) -> None:
        self._progress("recording", step=None if driver is None else driver.count)
        self._open_one = OpenRecording(
            self.torch, self.spec, self.timeline, self.scopes, state, reason, driver, self._steps_wanted()
        )
        self.steady.restamp(self._open_one.started_ns)
        self._set(state)

    def _steps_wanted(self) -> int:
        wanted = self.spec.steps or (STEPS if self._events_per_step is not None else STEPS_UNKNOWN)
        if self._events_per_step:
            most = max(1, int(EVENT_LIMIT / self._events_per_step))
            if self.spec.steps is not None and wanted > most:
                self.notes.append(f"{most} steps recorded, not {wanted}: a step has {self._events_per_step:.0f} events")
            wanted = min(wanted, most)
        return wanted

    def _close(self, keep: bool) -> Take | None:
        """End the open recording, if there is one; with ``keep`` it becomes a take, and the best take stays."""
        one, self._open_one = self._open_one, None
        if one is None:
            return None
        take = one.close(keep)
        if take is None:
            return None
        if not take.window["steps"]:
            take.events = one.recording.event_count()
        better = self.best()
        if better is None or take.goodness >= better.goodness:
            self.takes = [take]
        if one.state == "window":
            self.times.profiled = [step["end_ns"] - step["start_ns"] for step in take.window["steps"]]
        return take
