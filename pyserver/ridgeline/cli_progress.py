"""Progress on standard error, on a terminal only.

While the program runs the terminal is the program's: its output and ours share a line only if ours is whole lines. So
each phase is one line, once; what moves is shown when the program has ended and the analysis runs.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

_WORDS = {
    "compiling": "compiling",
    "warming_up": "waiting for a steady step",
    "recording": "recording",
    "saving": "saving the trace",
    "running": "recorded; the program goes on",
    "stopping": "stopping the program and all it started (Ctrl-C again: at once)",
}


class ProgressLine:
    """Shows the events of a run; use it as a context manager, so that the terminal is left clean."""

    def __init__(self, *, enabled: bool) -> None:
        self._on = enabled and sys.stderr.isatty()
        self._said: set[str] = set()
        self._status: Any = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, event: dict[str, Any]) -> None:
        """Follows one event."""
        if not self._on or event["event"] != "progress":
            return
        phase = event["phase"]
        if phase == "analyzing" and not event.get("running"):
            self._spin("analyzing")
        elif phase in _WORDS and phase not in self._said:
            self._said.add(phase)
            elapsed = f" ({event['elapsed_s']:.1f} s)" if event.get("elapsed_s") is not None else ""
            print(f"ridgeline: {_WORDS[phase]}{elapsed}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the moving line away, so that other lines can be printed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _spin(self, words: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(f"ridgeline: {words}")
            self._status.start()
