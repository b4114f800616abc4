"""Steps that are recorded once more, without their lines: how long the program's own Python takes.

Writing lines down makes plain Python several times slower, by what no constant tells: Python before 3.12 runs all bytecode of a traced
thread in its slow form, library functions as well. Operators alone hardly touch what lies between them. So a few steps after the
window are recorded with operators and nothing else, and what is between the operators is kept.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from . import machine
from .kineto import Recording
from .spec import Spec

UNSEEN = 1
"""Steps first: the one in which the session begins."""
BARE = 5
"""Steps that count: their median is no single one's."""
ENOUGH_NS = 1_000_000_000
"""After this much time those there are have to do."""
MOST = 50_000
"""Rows that are kept; more are not worth their time and place."""
KINDS = {"cpu_op": 0, "user_annotation": 1}


class BareSteps:
    """``begin``, ``mark`` at the end of each step, ``end`` in any case; then ``row``."""

    def __init__(self) -> None:
        self.begun = False
        self._recording: Recording | None = None
        self._marks: list[tuple[int, bool, int]] = []
        """When, whether the step that ended there was a clean one, and how many pages the process had been given."""
        self.row: dict[str, Any] | None = None
        """The sidecar's ``Window.bare``."""

    def begin(self, torch: Any, spec: Spec) -> None:
        """Not while a call that the window recorded still runs (``calls``)."""
        self.begun = True
        self._recording = Recording(torch, spec)
        self._recording.start()
        self._marks = [(time.time_ns(), True, machine.faults())]

    def mark(self, clean: bool) -> bool:
        """A step has ended, without anything else in it if it is ``clean``. Whether there are enough."""
        self._marks.append((time.time_ns(), clean, machine.faults()))
        counted = len(self._marks) - 1 - UNSEEN
        if counted < BARE and (counted < 1 or self._marks[-1][0] - self._marks[0][0] < ENOUGH_NS):
            return False
        self.end()
        return True

    def end(self) -> None:
        """Record no more."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        recording.stop()
        marks = self._marks[UNSEEN:]
        steps = [(a[0], b[0], b[2] - a[2]) for a, b in pairwise(marks) if b[1]]
        rows = outermost(recording.rows(KINDS)) if steps else []
        if steps and len(rows) <= MOST:
            names = {name: at for at, name in enumerate(dict.fromkeys(row[1] for row in rows))}
            self.row = {
                "steps": [{"start_ns": a, "end_ns": b} for a, b, _ in steps],
                "faults": [given for _, _, given in steps],
                "names": list(names),
                "rows": [[kind, names[name], start, length] for kind, name, start, length, _ in rows],
            }


def outermost(rows: list[tuple[int, str, int, int, int]]) -> list[tuple[int, str, int, int, int]]:
    """(kind, name, start, length, thread) of what runs within no operator of torch's own."""
    kept: list[tuple[int, str, int, int, int]] = []
    until: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (row[2], -row[3])):
        _, name, start, length, thread = row
        if start < until.get(thread, 0):
            continue
        if name.startswith("aten::"):
            until[thread] = start + length
        kept.append(row)
    return kept
