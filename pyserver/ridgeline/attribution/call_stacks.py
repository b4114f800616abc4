"""Stacks that recordings of 2021 keep with each op: ``file(line): function`` frames, innermost first.

Unlike the frames of later recordings these show the line that was running, so they name statements. Where both are
there, a later profiler copied its frames' names into this field, and it says no more than they do.
"""

from __future__ import annotations

from ridgeline.attribution.frame_tree import parse_frame
from ridgeline.attribution.frames import LIBRARY_ONLY
from ridgeline.attribution.paths import owner
from ridgeline.attribution.sources import SourceStore
from ridgeline.profile import Frame, SourceRef
from ridgeline.trace.tables import Trace

METHOD = "call_stack"
CONFIDENCE = 0.95


class CallStacks:
    def __init__(self, trace: Trace, store: SourceStore, user_roots: tuple[str, ...] = ()) -> None:
        self.trace, self.store, self.user_roots = trace, store, user_roots
        frames = len(trace.frames.name) if trace.frames is not None else 0
        self.recorded = not frames and bool(trace.call_stacks)
        self._refs: dict[str, SourceRef | str] = {}

    def ref(self, op: int) -> SourceRef | str | None:
        """The statement that ran an op (or an op around it), in words why there is none, None where no stack was kept."""
        while op >= 0:
            text = self.trace.call_stacks.get(op)
            if text is not None:
                if text not in self._refs:
                    self._refs[text] = self._make(text)
                return self._refs[text]
            op = int(self.trace.ops.parent[op])
        return None

    def _make(self, text: str) -> SourceRef | str:
        frames = [frame for part in text.split(";") if (frame := parse_frame(part.strip())) is not None]
        users = [frame for frame in frames if owner(frame.file, self.user_roots) == "user" and frame.line > 0]
        if not users:
            return LIBRARY_ONLY
        innermost = users[0]
        return SourceRef(
            file=self.store.resolve(innermost.file),
            line=innermost.line,
            function=innermost.function,
            text=self.store.text(innermost.file, innermost.line),
            stack=[Frame(file=self.store.resolve(f.file), line=f.line, function=f.function) for f in users[::-1]],
            method=METHOD,
            confidence=CONFIDENCE,
        )
