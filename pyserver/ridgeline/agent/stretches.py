"""Recordings without steps, which the clock opens and ends, and what follows them: for programs that show no marker."""

from __future__ import annotations

from .recordings import Recordings
from .take import Take


class Stretches(Recordings):
    """The part of the recorder that ``watch`` drives."""

    def end_early(self) -> int | None:
        """Time is up for the early recording of a program without steps; its events, None if it had ended already."""
        counted: list[int] = []

        def end() -> None:
            if self.state == "early" and self._open_one is not None:
                take = self._close(keep=True)
                self._set("settle")
                if take is not None:
                    take.cut = True
                    elapsed = max(take.window["end_ns"] - take.window["start_ns"], 1)
                    self.sizing.events_per_ns = take.events / elapsed
                    counted.append(take.events)

        self._guarded(end)
        return counted[0] if counted else None

    def early_again(self) -> None:
        """Go on with another early recording: the last one held little, or no device. Now, or when asked again."""

        def begin() -> None:
            if self.state == "settle" and self.calls.ended():
                self.early_wanted = False
                self._open("early", None, "whole")

        self._guarded(begin)

    def open_timer(self, reason: str, length_ns: int) -> int:
        """Record a stretch of time; returns how long it should be, at most ``length_ns``, for its events to fit."""

        def begin() -> None:
            if self.state == "settle" and self.calls.ended():
                self._open("timer", None, reason)

        self._guarded(begin)
        return self.sizing.stretch(length_ns)

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

    def count_plain(self) -> None:
        """The last stretch is recorded. How long the program takes without the profiler is measured before that is published, where
        its allocations tell (``counted``)."""

        def begin() -> None:
            take = self.best()
            if self.state != "settle" or take is None or not self.counted.of_use(take):
                self._publish_best()
                return
            self.detaching.want(take.recording.devices)
            self.counted.begin(take.recording.devices)
            self._set("counted")

        self._guarded(begin)

    def count(self) -> None:
        """Another look at the allocations, the first one once CUPTI is detached; publishes when they tell enough."""

        def look() -> None:
            if self.state != "counted":
                return
            if self.detaching.due:
                self.before_session()
                if not self.detaching.now():
                    return
            if "cuda" in self.counted.devices:
                self.cupti_left = self.detaching.gone
            if self.counted.look():
                self._publish_best()

        self._guarded(look)
