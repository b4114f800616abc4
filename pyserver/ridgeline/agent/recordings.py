"""One recording at a time: what is open, how it is opened and closed, which take is the best, and its publication."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .calls import UnfinishedCalls
from .counted import Counted
from .detaching import Detaching
from .guard import Guard
from .kineto import accelerators
from .labels import Scopes
from .plain import StepTimes
from .session import OpenRecording
from .sizing import Sizing
from .spec import Spec
from .steady import Steady, Track
from .take import FEW, NO_CLOCK, ORDER, Take, Takes
from .timeline import Timeline


class Recordings:
    """The part of the recorder that knows no marks: what others build its transitions of."""

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
        self.calls = UnfinishedCalls(torch.__path__[0])
        self.state = "off"
        self.times = StepTimes()
        self.counted = Counted(torch)
        self.takes = Takes()
        self.notes: list[str] = []
        self.state_since_ns = time.time_ns()
        self._guarded = Guard(self._failed)
        self._open_one: OpenRecording | None = None
        self.sizing = Sizing(spec, self.notes.append)
        self._spoiled = 0
        self._again = 0
        self.compiling = False
        self.forced: str | None = None
        self.cupti_left: bool | None = None
        """Whether the plain steps ran with CUPTI detached; None where there was none, or no such steps."""
        self.before_session: Callable[[], None] = self.takes.secure
        self.detaching = Detaching(torch, spec, self.calls)
        self.early_wanted = False
        """Another early recording should follow, once the scopes of the last one have closed."""

    def _failed(self, error: BaseException) -> None:
        self._complain(f"recorder in state {self.state}", error)
        self._set("done")

    def _set(self, state: str) -> None:
        if self.state == "bare" and self.times.bare.begun:
            self.times.bare.end()
            self.calls.note()
        self.state = state
        self.state_since_ns = time.time_ns()

    def best(self) -> Take | None:
        return self.takes.best

    def _publish_best(self) -> None:
        take = self.best()
        self._set("done")
        if take is not None:
            take.window.update({**self.times.beside(), "plain_counts": self.counted.rows})
            self.notes += take.unseen(accelerators(self.torch, self.spec.device))
            self._publish(take)
            if self.spec.then == "continue":
                self.detaching.want(take.recording.devices)

    def _open(self, state: str, driver: Track | None, reason: str) -> None:
        self.before_session()
        self._open_one = OpenRecording(
            self.torch, self.spec, self.timeline, self.scopes, state, reason, driver, self.sizing.steps()
        )
        self._start(state, self._open_one)

    def _start(self, state: str, one: OpenRecording) -> None:
        self._progress("recording", step=None if one.driver is None else one.driver.count)
        self.detaching.attached()
        one.start()
        self.steady.restamp(one.started_ns)
        self._set(state)

    def _close(self, keep: bool) -> Take | None:
        """End the open recording, if there is one; with ``keep`` it becomes a take, and the best take stays."""
        one, self._open_one = self._open_one, None
        if one is None:
            return None
        take = one.close(keep)
        self.calls.note()
        if take is None:
            return None
        if take.order == NO_CLOCK:
            self.notes.append("a recording gave the device's times in another clock than the host's, and is of no use")
        if not take.window["steps"]:
            take.events = one.recording.event_count()
        self.takes.add(take)
        if take is self.takes.best and take.order in (ORDER["window"], FEW):
            self.times.profiled = [step["end_ns"] - step["start_ns"] for step in take.window["steps"]]
        return take
