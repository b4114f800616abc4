"""``record_function`` scopes: their labels as the user wrote them, and those that outlive a recording.

Two reasons to watch them. Kineto exports a label with quotes, backslashes or letters outside ASCII as ``unknown``. And
a scope that was entered in one recording and left in a later one makes Kineto write into freed memory (its context
points into the first recording's buffers): a program that labels its whole epoch would crash at our second window.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

LIMIT = 100_000
"""Labels kept."""


class Scopes:
    """Wraps ``torch.autograd.profiler.record_function``; inactive (two comparisons a scope) outside recordings."""

    def __init__(self) -> None:
        self.active = False
        self.rows: list[list[Any]] = []
        """[start_ns, end_ns, native thread id, label] of scopes that the program (not torch) entered."""
        self._open: dict[int, tuple[Any, int, bool]] = {}
        self._kept_alive: list[Any] = []
        self._torch_prefix = ""

    def install(self, torch: Any) -> None:
        record_function = torch.autograd.profiler.record_function
        self._torch_prefix = torch.__path__[0]
        enter, leave = record_function.__enter__, record_function.__exit__
        scopes = self

        def __enter__(self: Any) -> Any:
            if not scopes.active or torch.jit.is_scripting():
                return enter(self)
            start = time.time_ns()
            result = enter(self)
            library = sys._getframe(1).f_code.co_filename.startswith(scopes._torch_prefix)
            scopes._open[id(self)] = (self, start, library)
            return result

        def __exit__(self: Any, *exception: Any) -> Any:
            entry = scopes._open.pop(id(self), None) if scopes._open else None
            result = leave(self, *exception)
            if entry is not None and not entry[2]:
                scopes._keep(entry[1], self)
            return result

        record_function.__enter__, record_function.__exit__ = __enter__, __exit__

    def _keep(self, start_ns: int, scope: Any) -> None:
        if len(self.rows) < LIMIT:
            self.rows.append([start_ns, time.time_ns(), threading.get_native_id(), str(scope.name)])

    def begin(self) -> None:
        """A recording of ours starts."""
        self.rows = []
        self.active = True

    def end(self, detach: bool = True) -> list[list[Any]]:
        """A recording is about to stop; returns its labels. With ``detach`` scopes still open never touch a later one.

        Not needed after the program's own session: it is of another kind than ours, and theirs stay as they are.
        """
        self.active = False
        if not detach:
            self._open.clear()
        for scope, start, library in list(self._open.values()):
            # The scope's exit becomes a no-op; the record lives on, for its destructor would run the exit callbacks.
            self._kept_alive.append(getattr(scope, "record", None))
            scope.run_callbacks_on_exit = False
            if not library:
                self._keep(start, scope)
        self._open.clear()
        rows, self.rows = self.rows, []
        return rows
