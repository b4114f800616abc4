"""When to record: the state machine between the program's markers and the profiler.

``early``   from the import of torch on, so that a program that ends before it settles still leaves a result. It ends
            with the first clean steps, pauses over compilations, and the last of them gives the events of one step.
``settle``  unprofiled; the steady detector watches. These steps are the plain ones that profiled steps are compared to.
``timer``   a recording without steps, for programs that show no marker; opened and ended by ``watch``.
``warm``    one step with the profiler prepared but not recording: on a device the first one takes several times as long
            as those that follow. It counts neither as plain nor as profiled.
``window``  the recording proper, as long as ``sizing`` says.
``bare``    on a CPU, a few steps are recorded once more, without their lines (``bare``).
``plain``   CUPTI is detached (``cupti``), unprofiled steps follow, then the result is published.
``counted`` the same after ``timer``: no steps are seen, but the allocations of the device's memory are counted (``counted``).
``user``    the program's own profiler is at work; ours keeps out of its way and harvests it.
``done``    published; markers cost one comparison.
"""

from __future__ import annotations

import time
from collections.abc import Hashable

from .kineto import mute
from .session import OpenRecording
from .steady import Steady, Track
from .stretches import Stretches
from .take import NO_CLOCK

AGAIN = 2
"""A window whose device records have lost their clock likewise; each try costs as much as a window."""
SPOILED = 3
"""A window with a compilation inside is recorded anew, this many times."""


class Recorder(Stretches):
    """Thread-safe. ``publish(take)`` is called once, from the thread whose marker completed the result."""

    # ------------------------------------------------------------------ entry points
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
        with self._guarded.lock:
            return self.steady.active(now_ns, quiet_ns)

    def compile_started(self) -> None:
        self._guarded(self._compile_started)

    def compile_ended(self) -> None:
        self._guarded(self._compile_ended)

    def devices_appeared(self) -> None:
        """An accelerator was initialized: an early recording without it is of no use, and another one follows.

        Not at once (``watch`` opens it): this comes from within the program's scopes, and none may span two recordings.
        """

        def react() -> None:
            if self.state in ("off", "deferred"):
                self._open("early", None, "whole")
            elif self.state == "early" and self._open_one is not None:
                self._close(keep=False)
                self._set("settle")
                self.early_wanted = True

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
            self.takes.clear()
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
    def close_window(self) -> None:
        """No marker came for a long time: what is there has to do."""

        def end() -> None:
            if self.state == "warm":
                self._close(keep=False)
                self._set("settle")
            elif self.state == "window":
                self._close(keep=True)
                self._publish_best()

        self._guarded(end)

    def finish_plain(self) -> None:
        self._guarded(lambda: self._publish_best() if self.state in ("bare", "plain", "counted") else None)

    @property
    def leaving(self) -> bool:
        """The program goes on, and CUPTI would slow it."""
        return self.state == "done" and self.detaching.due

    def leave(self) -> None:
        """Let the program go on as if nothing had been recorded, as soon as that can be."""

        def go() -> None:
            if self.leaving:
                self.detaching.now()

        self._guarded(go)

    def publish_best(self) -> None:
        """Publish what there is; nothing where nothing was recorded."""
        self._guarded(self._publish_best)

    @property
    def wants_lines(self) -> bool:
        """An early recording of a Python-heavy program has used up its portion of line events."""
        return self.timeline is not None and self.state == "early" and self.timeline.exhausted

    def user_profiler_starts(self) -> None:
        def yield_to_it() -> None:
            self.detaching.attached()
            if self._open_one is not None:
                self._close(keep=True)
            self.before_session()
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
        if one is not None or self.state == "bare":
            mute(self.torch, True)
        self.state = "done"

    def stop(self) -> None:
        """The program ends: close what is open. Nothing is published here."""

        def close() -> None:
            if self._open_one is not None:
                self._close(keep=True)
            if self.state == "plain":
                self.times.cut()
            self.detaching.due = False
            if self.state != "done":
                self._set("ended")

        self._guarded(close)

    # ------------------------------------------------------------------ transitions
    def _mark(self, kind: str, key: Hashable, now: int) -> None:
        track, interval = self.steady.mark(kind, key, now)
        leads = self.steady.leader() is track
        one = self._open_one
        if leads and self.state not in ("bare", "plain", "counted"):
            self._progress("recording" if one is not None else "warming_up", step=track.count)
        if one is not None and one.started_ns:
            one.mark(track, now)
        if self.state == "deferred" and interval is not None:
            self._set("settle")
        elif self.state == "early" and one is not None and interval is not None:
            if not self.sizing.early_enough(len(one.marks) - 1, interval, bool(one.recording.devices)):
                one.go_on()
                return
            self._close(keep=True)
            self.sizing.events_per_step = float(one.recording.events_since(now - interval))
            self._settle()
        elif self.state == "timer" and interval is not None and leads:
            self._close(keep=True)
            self._settle()
        elif self.state == "settle" and leads:
            self._mark_settle(track, interval)
        elif self.state == "warm" and one is not None and track is one.driver:
            self._start("window", one)
        elif self.state == "window" and one is not None and track is one.driver:
            self._mark_window(one, now)
        elif self.state == "bare" and leads:
            self._mark_bare(interval)
        elif self.state == "plain" and leads:
            self._mark_plain(interval, now)

    def _settle(self) -> None:
        """Unprofiled from now on; the time that closing took belongs to no step."""
        self._set("settle")
        self.steady.restamp(time.time_ns())

    def _mark_settle(self, track: Track, interval: int | None) -> None:
        self.times.before(interval)
        reason = self.forced or self.steady.verdict(track)
        if reason is not None and self.calls.ended():
            self.before_session()
            self._open_one = OpenRecording(
                self.torch, self.spec, self.timeline, self.scopes, "window", reason, track, self.sizing.steps()
            )
            self._open_one.prepare()
            self.steady.restamp(time.time_ns())
            self._set("warm")

    def _mark_window(self, one: OpenRecording, now: int) -> None:
        steps, elapsed = len(one.marks) - 1, now - one.started_ns
        if not self.sizing.full(steps, elapsed, one.target):
            return
        take = self._close(keep=True)
        lost = take is not None and take.order == NO_CLOCK and self._again < AGAIN
        self._again += lost
        if lost or self.sizing.first_was_short(steps, elapsed, one.recording.event_count):
            self.forced = one.reason
            self._settle()
            return
        self.detaching.want(one.recording.devices)
        if "cuda" in one.recording.devices:
            self.cupti_left = False
        self.times.window_closed(one.recording, one.started_ns, steps, None if self.spec.then == "stop" else one.target)
        self._after(self.times.first(take is not None and take.window["lines"]))

    def _after(self, state: str) -> None:
        self._set(state)
        self.times.begin(time.time_ns())
        self.steady.restamp(time.time_ns())

    def _mark_bare(self, interval: int | None) -> None:
        bare = self.times.bare
        if bare.begun:
            if bare.mark(interval is not None):
                self._after("plain")
        elif self.calls.ended():
            bare.begin(self.torch, self.spec)
            self.steady.restamp(time.time_ns())
        else:  # it spans the steps
            self._after("plain")

    def _mark_plain(self, interval: int | None, now: int) -> None:
        if self.detaching.due:  # before the first of them
            self.before_session()
            if self.detaching.now():
                self.cupti_left = self.detaching.gone
                self._after("plain")
        elif self.times.after(interval, now, self.torch):
            self._publish_best()

    def _compile_started(self) -> None:
        self.compiling = True
        self.steady.disturb()
        self._progress("compiling")
        one = self._open_one
        if one is None:
            if self.state == "bare":  # operators on fake tensors are no work
                self._after("plain")
            self.counted.disturb()
            return
        if self.state in ("timer", "warm"):
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
