"""Stack strings as Inductor prints them, and which of their frames is the user's statement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ridgeline.attribution.paths import owner
from ridgeline.attribution.sources import MAX_TEXT, SourceStore, plain_function
from ridgeline.profile import Frame, SourceRef

MAX_FRAMES = 64
ANCHOR_LINES = 25
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9}), in (?P<function>.+?)\s*$')
_CARETS = re.compile(r"^\s*[\^~]+\s*$")


@dataclass(slots=True, frozen=True, kw_only=True)
class StackFrame:
    file: str
    line: int
    function: str
    text: str | None


def parse_stack(stack: str) -> tuple[StackFrame, ...]:
    """The frames of one stack string, outermost first; lines that are no frame (carets, remarks) are passed over."""
    frames: list[StackFrame] = []
    rows = stack.split("\n")
    for i, row in enumerate(rows):
        match = _FRAME.match(row)
        if match is None:
            continue
        following = rows[i + 1] if i + 1 < len(rows) else ""
        text = (
            following.strip()
            if following.startswith("    ") and not _CARETS.match(following) and not _FRAME.match(following)
            else None
        )
        frames.append(
            StackFrame(file=match["file"], line=int(match["line"]), function=match["function"], text=text or None)
        )
    return tuple(frames)


@dataclass(slots=True, kw_only=True)
class Resolved:
    """What a kernel's stacks come to."""

    refs: tuple[SourceRef, ...] = ()
    stale: bool = False
    """Some recorded line does not hold its text any more; such stacks were left out."""


@dataclass(slots=True)
class StackResolver:
    """Turns the stacks of one module into statements, believing no line at or below one that has changed.

    An edit moves everything under it, and a moved line can by chance hold the same text as another. So the first recorded
    line of a file that no longer agrees casts doubt on all that follow in that file; and in a file that may have been
    edited since, a line whose text occurs more than once (and in one that surely was edited, any line) is believed only if
    a recorded line shortly below it, whose text occurs once, still stands where it did.
    """

    store: SourceStore
    user_roots: tuple[str, ...] = ()
    method: str = "provenance"
    outer: tuple[StackFrame, ...] = ()
    """The user's frames around the compiled code, outermost first, for the stacks that are shown."""
    stale_from: dict[str, int] = field(default_factory=dict)
    doubtful: set[tuple[str, int]] = field(default_factory=set)
    _parsed: dict[str, tuple[StackFrame, ...]] = field(default_factory=dict)

    def learn(self, stacks: Iterable[str]) -> None:
        """Look through all stacks of the module first, to find where its files have changed since."""
        recorded: dict[str, set[int]] = {}
        for stack in stacks:
            for frame in self.frames(stack):
                if owner(frame.file, self.user_roots) != "user":
                    continue
                recorded.setdefault(frame.file, set()).add(frame.line)
                changed = self.store.check(frame.file, frame.line, frame.text) == "stale" or not self._in_function(
                    frame
                )
                if changed:
                    self.stale_from[frame.file] = min(frame.line, self.stale_from.get(frame.file, frame.line))
        for file, numbers in recorded.items():
            self.doubtful |= self._doubtful(file, sorted(numbers))

    def _doubtful(self, file: str, numbers: list[int]) -> set[tuple[str, int]]:
        lines = self.store.lines(file)
        if lines is None or self.store.unchanged(file):
            return set()
        count = Counter(line.strip() for line in lines)
        stale = self.stale_from.get(file, len(lines) + 1)
        sound = [n for n in numbers if n < stale]
        anchors = [n for n in sound if count[lines[n - 1].strip()] == 1]
        edited = file in self.stale_from
        return {
            (file, n)
            for n in sound
            if (edited or count[lines[n - 1].strip()] > 1)
            and not any(n < anchor <= n + ANCHOR_LINES for anchor in anchors)
        }

    def frames(self, stack: str) -> tuple[StackFrame, ...]:
        if stack not in self._parsed:
            self._parsed[stack] = parse_stack(stack)
        return self._parsed[stack]

    def resolve(self, stacks: Sequence[str]) -> Resolved:
        """The distinct statements of a kernel's stacks: the innermost user line of each, else its innermost library line."""
        refs: dict[tuple[str, int, bool], SourceRef] = {}
        stale = False
        for stack in stacks:
            frames = self.frames(stack)
            user = [f for f in frames if owner(f.file, self.user_roots) == "user"]
            library = [f for f in frames if owner(f.file, self.user_roots) == "library"]
            if any(
                frame.line >= self.stale_from.get(frame.file, frame.line + 1)
                or (frame.file, frame.line) in self.doubtful
                for frame in user
            ):
                stale = True
                continue
            if user or library:
                chosen = user[-1] if user else library[-1]
                ref = self._ref(chosen, frames, library=not user)
                refs.setdefault((ref.file, ref.line, ref.library), ref)
        return Resolved(refs=tuple(refs.values()), stale=stale)

    def _ref(self, chosen: StackFrame, frames: Sequence[StackFrame], *, library: bool) -> SourceRef:
        checked = self.store.check(chosen.file, chosen.line, chosen.text) == "match"
        return SourceRef(
            file=self.store.resolve(chosen.file),
            line=chosen.line,
            function=plain_function(chosen.function),
            text=(chosen.text or self.store.text(chosen.file, chosen.line) or "")[:MAX_TEXT] or None,
            library=library,
            stack=[
                Frame(file=self.store.resolve(f.file), line=f.line, function=f.function)
                for f in (*self.outer, *frames)[-MAX_FRAMES:]
            ],
            method=self.method,
            confidence=0.99 if checked else 0.9,
        )

    def _in_function(self, frame: StackFrame) -> bool:
        return self.store.encloses(frame.file, frame.line, frame.function)
