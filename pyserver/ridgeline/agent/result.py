"""What has been recorded and put on disk so far: windows, their lines and their labels."""

from __future__ import annotations

import os
from typing import Any

from . import publish
from .edited import edited
from .exits import USUAL
from .recorder import Recorder
from .runfolder import RunFolder
from .timeline import Recorded

_SAID = 300
"""Characters of an exception's message that are repeated."""


class Result:
    """The part of the sidecar that grows with every window."""

    def __init__(self, folder: RunFolder, started_ns: int) -> None:
        self.folder = folder
        self.started_ns = started_ns
        self.notes: list[str] = []
        self.windows: list[dict[str, Any]] = []
        self.labels: list[list[Any]] = []
        self.timeline_row: dict[str, Any] | None = None
        self._lines: Recorded | None = None

    def add(self, window: dict[str, Any], raw: str, lines: Recorded | None, labels: list[list[Any]]) -> None:
        """Put the trace at ``raw`` in place and take its lines and labels in; the sidecar is written afterwards."""
        window["trace"] = publish.pack(self.folder, raw, len(self.windows))
        self.windows.append(window)
        self.labels.extend(labels)
        if lines is None or not lines.threads:
            return
        if self._lines is None:
            self._lines = lines
        else:
            self._lines.merge(lines)
        self.timeline_row = publish.write_timeline(self.folder, self._lines)
        for file in lines.files():
            self._keep_source(file, lines)

    def _keep_source(self, file: str, lines: Recorded) -> None:
        """Keep the text that ran; of a file that was edited meanwhile none, for lines beside another text mislead."""
        ran = [code for code in lines.objects if code.co_filename == file]
        if self.folder.keeps(file) or not edited(file, ran, self.started_ns):
            self.folder.snapshot(file, "user")
            return
        self.folder.keep(file, b"", "user")
        name = os.path.basename(file)
        self.notes.append(
            f"{name} was edited while the program ran: its lines are those that ran, their text is not known"
        )


def why_nothing(torch_imported: bool, raised: BaseException | None, status: int | None, how: str) -> str:
    """Why there is no recording at all: the exception that left the program, else its status, else that it just ended."""
    when = "before anything was recorded" if torch_imported else "before it imported torch"
    if raised is not None and not isinstance(raised, (SystemExit, KeyboardInterrupt)):
        try:
            said = str(raised).strip().partition("\n")[0][:_SAID]
        except Exception:  # noqa: BLE001 - the program's own __str__
            said = ""
        kind = type(raised).__name__
        return f"the program failed {when}: {kind}: {said}" if said else f"the program failed {when}: {kind}"
    if status:
        return f"the program ended with status {status} {when}{_unless_usual(how)}"
    if torch_imported:
        return f"nothing was recorded before the program ended{_unless_usual(how)}"
    return f"the program ended{_unless_usual(how)} without importing torch"


def _unless_usual(how: str) -> str:
    return "" if how == USUAL else f" ({how})"


def why_not_steady(recorder: Recorder, how: str) -> str:
    take = recorder.best()
    if take is None or (take.order == 0 and take.window["complete"]):
        return ""
    ended = _unless_usual(how)
    steps = len(take.window["steps"])
    waited = recorder.calls.waited_for()
    if waited is not None:  # the program may have gone on for hours
        return (
            f"one recording ended inside a call into torch, {waited}, which the program never left until it ended{ended}: "
            "no other could be opened, so the first one is shown"
        )
    if take.window["reason"] in ("timer", "after"):
        if recorder.counted.begun:  # it was the last one
            return ""
        return f"the program ended{ended}; no steps were seen in it, so a stretch of time is shown"
    if take.window["reason"] == "whole" and take.cut and not steps:
        seconds = (take.window["end_ns"] - take.window["start_ns"]) / 1e9
        return f"the program ended{ended}; no steps were seen in it: the first {seconds:.2g} s after the import of torch are shown"
    if take.window["reason"] == "whole":
        return (
            f"the program ended{ended} before it had settled: what was recorded from the import of torch on is shown, "
            f"{steps} whole steps"
            if steps
            else f"the program ended{ended} before it marked two steps: all of it after the import of torch is shown"
        )
    return f"the program ended{ended} before its window was full: {steps} steps were recorded"
