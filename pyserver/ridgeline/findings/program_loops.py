"""The loops of the program's text that a recorded operation lies in: those around its statement, around the call of its function,
and so on outwards until the loop of which a round is a step."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from ridgeline.findings.code import trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.loop_text import Loop, Loops
from ridgeline.profile import Frame, SourceRef


class Within(NamedTuple):
    """A loop, and where in its body a statement is, or is called."""

    file: str
    loop: Loop
    at: Frame

    @property
    def recurrent(self) -> bool:
        """Whether that place needs the round before."""
        return self.at.line in self.loop.dependent


class ProgramLoops:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[int, tuple[SourceRef, list[Within]]] = {}
        """By the identity of a statement, of which there are few; kept so that no other takes its place."""

    @cached_property
    def _files(self) -> dict[str, Loops]:
        return {path: Loops(tree) for path, tree, _ in trees(self._facts)}

    def around(self, at: SourceRef) -> list[Within]:
        """Innermost first. Empty where the text is not at hand."""
        if id(at) not in self._known:
            frames = at.stack or [Frame(file=at.file, line=at.line, function=at.function)]
            self._known[id(at)] = at, self._around(frames)
        return self._known[id(at)][1]

    def over_parts(self, at: SourceRef) -> list[Within]:
        """Those that go over parts whose rounds do not wait for one another."""
        return [w for w in self.around(at) if w.loop.over_parts and not w.loop.carried]

    def _around(self, frames: list[Frame]) -> list[Within]:
        found: list[Within] = []
        for frame in reversed(frames):
            loops = self._files.get(frame.file)
            for loop in loops.around(frame.line) if loops else ():
                if loop.is_training:
                    return found
                if not any(loop is other.loop for other in found):  # a comprehension is a function of its own
                    found.append(Within(frame.file, loop, frame))
        return found

    def recurrent(self, at: SourceRef) -> bool:
        """Whether the rounds in which a statement repeats have to wait for one another: the innermost loop hands on what the statement
        needs, and no loop around it goes over parts (of samples, each with a recurrence of its own, all can be computed at once)."""
        around = self.around(at)
        return bool(around) and around[0].recurrent and not any(_could_be_one(w) for w in around[1:])

    def between_recurrent(self, at: SourceRef) -> Within | None:
        """The innermost loop around a statement where only it can be computed at once, within rounds that wait for one another."""
        around = self.around(at)
        return around[0] if around and not around[0].recurrent and any(w.recurrent for w in around[1:]) else None


def _could_be_one(within: Within) -> bool:
    return within.loop.over_parts and not within.recurrent
