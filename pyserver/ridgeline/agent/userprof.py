"""The program's own use of torch's profiler: kept out of its way, and harvested.

Two sessions cannot run at once: the inner one would take the other's place without an error. So ours ends before the
program's begins, what the program recorded becomes a window too, and its flags and its files stay as they are. Kineto
saves a result once only; the program's own export goes first, and we copy what it wrote.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .kineto import Recording, mute
from .labels import Scopes
from .recorder import Recorder
from .runfolder import RunFolder
from .timeline import Recorded, Timeline

LIMIT = 4
"""Windows harvested."""


class UserSession:
    """One recording of the program's own."""

    def __init__(self, profile: Any) -> None:
        self.profile = profile
        self.start_ns = time.time_ns()
        self.end_ns = 0
        self.raw: str | None = None
        self.lines: Recorded | None = None
        self.labels: list[list[Any]] = []
        self.steps: list[int] = []

    def window(self) -> dict[str, Any]:
        """Its row for ``Sidecar.windows``, without the trace's name."""
        inside = [mark for mark in self.steps if self.start_ns <= mark <= self.end_ns]
        return {
            "trace": "",
            "reason": "user_profiler",
            "marker": "profiler_step" if len(inside) > 1 else None,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "steps": [{"start_ns": a, "end_ns": b} for a, b in pairwise(inside)],
            "stacks": bool(self.profile.with_stack),
            "shapes": bool(self.profile.record_shapes),
            "memory": bool(self.profile.profile_memory),
            "lines": self.lines is not None and bool(self.lines.threads),
            "complete": True,
        }


class UserProfiler:
    """Hooks on ``torch.autograd.profiler.profile``, which all of torch's profiler interfaces go through."""

    def __init__(
        self,
        recorder: Recorder,
        folder: RunFolder,
        timeline: Timeline | None,
        scopes: Scopes,
        complain: Callable[[str, BaseException | str], None],
    ) -> None:
        self._recorder, self._folder, self._timeline = recorder, folder, timeline
        self._scopes, self._complain = scopes, complain
        self.sessions: list[UserSession] = []
        self._current: UserSession | None = None
        self._marks: list[int] = []

    def step_marked(self) -> None:
        """The program called ``profiler.step()``."""
        self._marks.append(time.time_ns())
        del self._marks[:-1000]

    def install(self, torch: Any) -> None:
        profile = torch.autograd.profiler.profile
        prepare, begin, leave = profile._prepare_trace, profile._start_trace, profile.__exit__
        export = profile.export_chrome_trace
        me = self

        def _prepare_trace(self: Any) -> Any:
            if os.getpid() != me._folder.pid:
                mute(torch, False)  # a child that was forked while we recorded
            elif not Recording.is_ours(self):
                me.save_pending()
                me._recorder.user_profiler_starts()
            return prepare(self)

        def _start_trace(self: Any) -> Any:
            result = begin(self)
            if os.getpid() == me._folder.pid and not Recording.is_ours(self):
                me._started(self)
            return result

        def __exit__(self: Any, *exception: Any) -> Any:
            if os.getpid() != me._folder.pid or Recording.is_ours(self):
                return leave(self, *exception)
            me._stopping(self)
            result = leave(self, *exception)
            me._recorder.user_profiler_stopped()
            return result

        def export_chrome_trace(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            session = me._session_of(self)
            if session is None:
                return export(self, path, *args, **kwargs)
            if session.raw is not None and session.end_ns and not kwargs.get("use_python_export"):
                shutil.copyfile(session.raw, path)
                return None
            result = export(self, path, *args, **kwargs)
            me._copy(session, os.fspath(path))
            return result

        profile._prepare_trace, profile._start_trace, profile.__exit__ = _prepare_trace, _start_trace, __exit__
        profile.export_chrome_trace = export_chrome_trace

    def _session_of(self, profile: Any) -> UserSession | None:
        return next((session for session in self.sessions if session.profile is profile), None)

    def _started(self, profile: Any) -> None:
        self._current = None
        if len(self.sessions) >= LIMIT or not getattr(profile, "enabled", True):
            return
        self._current = UserSession(profile)
        self._scopes.begin()
        if self._timeline is not None:
            self._timeline.start()

    def _stopping(self, profile: Any) -> None:
        session, self._current = self._current, None
        if session is None or session.profile is not profile:
            return
        session.end_ns = time.time_ns()
        session.steps = [session.start_ns, *self._marks] if self._marks else []
        if self._timeline is not None:
            self._timeline.stop()
            session.lines = self._timeline.take()
        session.labels = self._scopes.end(detach=False)
        self.sessions.append(session)

    def _raw_path(self, session: UserSession) -> str:
        return self._folder.file(f"user_{self.sessions.index(session)}.json.part")

    def _copy(self, session: UserSession, path: str) -> None:
        try:
            shutil.copyfile(path, self._raw_path(session))
            session.raw = self._raw_path(session)
        except OSError as error:
            self._complain("copy of the program's own trace", error)

    def save_pending(self) -> None:
        """Save results that the program has not exported; it can still export them, and gets a copy."""
        for session in self.sessions:
            results = getattr(session.profile, "kineto_results", None)
            if session.raw is None and results is not None:
                try:
                    results.save(self._raw_path(session))
                    session.raw = self._raw_path(session)
                except RuntimeError as error:
                    self._complain("harvest of the program's own profile", error)
