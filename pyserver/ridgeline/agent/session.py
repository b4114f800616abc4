"""An open recording: the profiler, the line timeline and the labels together, and the marks that came meanwhile."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

from . import counted, machine
from .kineto import Recording, initialize, mute
from .labels import Scopes
from .spec import Spec
from .steady import PRIORITY, Track
from .take import NO_CLOCK, Take, order
from .timeline import BUDGET, Timeline

EARLY_LINES = 100_000
"""Line events of a thread in one portion of an early recording: about 30 ms, refilled every quarter second."""


class OpenRecording:
    """``start`` begins it, at best some time after ``prepare``; ``close`` ends it in any case.

    ``state`` is the recorder's state that it belongs to, ``driver`` the track that counts its steps (None: chosen at the
    end among the tracks that marked), ``target`` how many they should be.
    """

    def __init__(
        self,
        torch: Any,
        spec: Spec,
        timeline: Timeline | None,
        scopes: Scopes,
        state: str,
        reason: str,
        driver: Track | None = None,
        target: int = 0,
    ) -> None:
        self.state, self.reason, self.driver, self.target = state, reason, driver, target
        self._paused = False
        self._torch, self._timeline, self._scopes = torch, timeline, scopes
        initialize(torch, spec)
        self.recording = Recording(torch, spec)
        self.started_ns = 0
        """0 until ``start``."""
        self._marks: dict[tuple[str, int], list[int]] = {}
        self._scheduled: tuple[int, int] | None = None
        self._awake: int | None = None
        self._computed = (0, 0)
        self._allocated: int | None = None

    def prepare(self) -> None:
        """Warm the profiler up: what happens from now on until ``start`` pays for its beginning and is not recorded."""
        self.recording.prepare()

    def start(self) -> None:
        self._scopes.begin()
        self.recording.start()
        if self._timeline is not None:
            self._timeline.budget = EARLY_LINES if self.state == "early" else BUDGET
            self._timeline.start()
        self._scheduled = machine.scheduled()
        if self.driver is None:  # steps that are marked need no count
            self._allocated = counted.allocations(self._torch, self.recording.devices)
        self.started_ns = time.time_ns()
        self._awake = machine.awake()
        self._computed = threading.get_ident(), time.thread_time_ns()
        if self.driver is not None:
            self._marks[self.driver.kind, self.driver.order] = [self.started_ns]

    def mark(self, track: Track, now_ns: int) -> None:
        self._marks.setdefault((track.kind, track.order), []).append(now_ns)

    def pause(self) -> None:
        """A compilation begins. Ops on fake tensors are no work, a tracer would slow it, no step may span it.

        The session itself goes on: scopes that span two sessions would be left with a dangling context.
        """
        self._paused = True
        mute(self._torch, True)
        if self._timeline is not None:
            self._timeline.stop()
        self._marks.clear()

    def resume(self) -> None:
        if not self._paused:
            return
        self._paused = False
        mute(self._torch, False)
        if self._timeline is not None:
            self._timeline.start()

    def go_on(self) -> None:
        """An early recording is among the program's steps: from now on it has all of their lines. Steps whose lines had run out by
        then do not count."""
        timeline = self._timeline
        if timeline is None or timeline.budget >= BUDGET or threading.current_thread() is not threading.main_thread():
            return
        if timeline.exhausted:
            self._marks = {key: marks[-1:] for key, marks in self._marks.items()}
        timeline.budget = BUDGET
        timeline.resume()

    @property
    def marks(self) -> list[int]:
        """Of the driver, or of the track nearest to a step that marked at least twice."""
        key = self._key()
        return self._marks.get(key, []) if key is not None else []

    def _key(self) -> tuple[str, int] | None:
        if self.driver is not None:
            return self.driver.kind, self.driver.order
        known = [key for key, marks in self._marks.items() if len(marks) > 1]
        return min(known, key=lambda key: (PRIORITY[key[0]], key[1]), default=None)

    def close(self, keep: bool) -> Take | None:
        """End the recording; with ``keep`` it becomes a take, if it was started."""
        if not self.started_ns:
            self.recording.cancel()
            return None
        if self._paused:
            mute(self._torch, False)
        thread, computed = self._computed
        same = thread == threading.get_ident()
        computed = time.thread_time_ns() - computed if same else 0
        began, ended, lasted = self._awake, machine.awake(), time.time_ns() - self.started_ns
        before, after = self._scheduled, machine.scheduled()
        allocated = None if self._allocated is None else counted.allocations(self._torch, self.recording.devices)
        lines = None
        if self._timeline is not None:
            self._timeline.stop()
            lines = self._timeline.take()
        labels = self._scopes.end()
        self.recording.stop()
        if not keep:
            return None
        key, recording = self._key(), self.recording
        steps = [{"start_ns": a, "end_ns": b} for a, b in pairwise(self.marks)]
        complete = self.state != "window" or len(steps) >= self.target
        window = {
            "trace": "",
            "reason": self.reason,
            "marker": None if key is None else key[0],
            "start_ns": recording.start_ns,
            "end_ns": recording.end_ns,
            "steps": steps,
            "stacks": recording.stacks,
            "shapes": recording.shapes,
            "memory": recording.memory,
            "lines": lines is not None and bool(lines.threads),
            "running": computed / lasted if same and lasted > 0 else None,
            "complete": complete,
            "allocations": counted.between(self._allocated, allocated),
            "ran_ns": None if before is None or after is None else max(after[0] - before[0], 0),
            "waited_ns": None if before is None or after is None else max(after[1] - before[1], 0),
            "asleep_ns": None if began is None or ended is None else max(lasted - (ended - began), 0),
        }
        rank = order(self.state, len(steps), complete, lasted)
        return Take(recording, lines, window, labels, NO_CLOCK if recording.lost_the_clock() else rank)
