"""``progress.jsonl``: what the agent says while the program runs, and the supervisor's events for whoever started it.

Events are JSON objects, one a line, with an ``event`` key:

========== ==========================================================================================
started    ``run_dir``, ``pid`` of the program
progress   ``phase``, ``step``, ``elapsed_s``, ``message``, as in ``progress.jsonl``; phases of the supervisor's own
           are ``starting``, ``analyzing`` and ``stopping``
output     ``stream`` (``stdout``/``stderr``), ``text``: the program's, only with ``output: "events"``
note       ``code``, ``message``: what a person should know
captured   the window is on disk; the program may go on
profile    ``profile.json`` is there (again, when the program's end added to it); ``running``: the program goes on
finished   the last one: ``run_dir``, ``status`` (finished, failed, cancelled, empty), ``exit_status`` as a shell gives it or
           null, ``profile`` (whether there is one), ``cause`` (``code``, ``message``, ``hint``) or null
========== ==========================================================================================
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LINE_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of ``progress.jsonl``; ``phase`` is one of starting, importing, compiling, warming_up, recording, saving,
    published, running, done, failed."""

    phase: str
    step: int | None = None
    elapsed_s: float | None = None
    message: str | None = None

    @classmethod
    def parse(cls, line: str) -> Progress | None:
        """``None`` for a line that is none (half written, or not ours)."""
        try:
            data = json.loads(line)
        except ValueError:
            return None
        if not isinstance(data, dict) or not isinstance(data.get("phase"), str):
            return None
        step, elapsed, message = data.get("step"), data.get("elapsed_s"), data.get("message")
        return cls(
            phase=data["phase"],
            step=step if isinstance(step, int) else None,
            elapsed_s=float(elapsed) if isinstance(elapsed, (int, float)) else None,
            message=message if isinstance(message, str) else None,
        )


@dataclass
class ProgressTail:
    """Reads what was appended since the last look. Never raises: the file may not be there yet."""

    path: Path
    _offset: int = 0
    _rest: bytes = field(default=b"", repr=False)

    def read(self) -> list[Progress]:
        try:
            if self.path.stat().st_size <= self._offset:
                return []
            with self.path.open("rb") as source:
                source.seek(self._offset)
                data = source.read()
        except OSError:
            return []
        self._offset += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE_LIMIT]
        parsed = (Progress.parse(line.decode(errors="replace")) for line in lines)
        return [one for one in parsed if one is not None]


@dataclass
class Events:
    """Writes events to a descriptor; once nobody reads any more, silently no longer."""

    fd: int
    closed: bool = False

    def emit(self, event: str, **data: Any) -> None:
        if self.closed:
            return
        line = json.dumps({"event": event, **data}, allow_nan=False).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self.fd, line) :]
        except OSError:
            self.closed = True
