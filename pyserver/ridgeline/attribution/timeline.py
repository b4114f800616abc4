"""The user-line timeline: which user statement a thread was in at an instant (see ``sidecar.Timeline``).

The agent records an event whenever a user frame reaches a new line or returns. Replaying them once gives, for every
event, the stack of user frames; equal stacks are one node, so a query is a binary search and a table look-up.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.sources import SourceStore, body_line, calls, plain_function
from ridgeline.profile import Frame, SourceRef
from ridgeline.sidecar import Timeline
from ridgeline.trace.tables import F64, I32, I64

METHOD = "timeline"
CONFIDENCE = 0.99
MAX_DEPTH = 256
LIBRARY = 0x7FFFFFFF
"""As ``agent.timeline`` writes it in a code's place: what stands in the line's counts calls of a library's functions."""
ROUNDS = 5
"""Of a loop, fewer of which say little about a round."""
BROKEN = 0.2
"""Part of its rounds after which the program came to what is around the loop: an inner loop begins anew all the time."""
MOST = 0.7
"""Of the recording: a loop that fills less of it is not what the program does."""


@dataclass(slots=True)
class _Thread:
    time_ns: I64
    node: I32
    """Innermost user frame after each event, -1 for none."""
    reached: npt.NDArray[np.bool_]
    """Whether the event is that frame's coming to its line; not a return to it, nor the entry of a function."""
    calls: I64
    """Of a library's functions since the event before, as far as a tracer was called for them."""


class LineTimeline:
    """Queries by native thread id and unix nanoseconds. Nodes are interned stacks of (code, line)."""

    def __init__(self, timeline: Timeline, data: bytes, store: SourceStore) -> None:
        self.codes = timeline.codes
        self.store = store
        self._ids: dict[tuple[int, int, int], int] = {}
        self._nodes: list[tuple[int, int, int]] = []
        """(parent node, code, line)"""
        self._threads: dict[int, _Thread] = {}
        self._refs: dict[int, SourceRef | None] = {}
        self._recursions: dict[tuple[int, int, int], bool] = {}
        self.events = 0
        for tid, offset, count in timeline.threads:
            self._load(int(tid), data, int(offset), int(count))

    def _load(self, tid: int, data: bytes, offset: int, count: int) -> None:
        if offset < 0 or count <= 0 or offset + 16 * count > len(data):
            return
        time_ns = np.frombuffer(data, dtype="<i8", count=count, offset=offset).astype(np.int64)
        line = array("i", data[offset + 8 * count : offset + 12 * count])
        code = array("i", data[offset + 12 * count : offset + 16 * count])
        if sys.byteorder == "big":
            line.byteswap()
            code.byteswap()
        counted = np.asarray(code) == LIBRARY
        before = np.cumsum(np.where(counted, np.asarray(line, dtype=np.int64), 0))[~counted]
        calls = np.diff(before, prepend=0)
        if counted.any():
            time_ns = time_ns[~counted]
            line, code = (
                array("i", np.asarray(line)[~counted].tobytes()),
                array("i", np.asarray(code)[~counted].tobytes()),
            )
        self.events += len(line)
        known = self._threads.get(tid)
        start = int(known.node[-1]) if known is not None and len(known.node) else -1
        node = np.asarray(self._replay(line, code, start), dtype=np.int32)
        reached = np.asarray(line) > 0
        if known is not None:
            time_ns, node = np.concatenate([known.time_ns, time_ns]), np.concatenate([known.node, node])
            reached = np.concatenate([known.reached, reached])
            calls = np.concatenate([known.calls, calls])
        self._threads[tid] = _Thread(time_ns, node, reached, calls)

    def _replay(self, lines: array[int], codes: array[int], node: int) -> list[int]:
        """The node after each event. A negative line is an entry whose first line is still to come."""
        out: list[int] = []
        nodes, ids = self._nodes, self._ids
        marked = any(line < 0 for line in lines)
        entered = False
        for line, code in zip(lines, codes):
            if line == 0:  # a return: leave the frame, and any above it whose own return was missed
                at = node
                while at >= 0 and nodes[at][1] != code:
                    at = nodes[at][0]
                node = nodes[at][0] if at >= 0 else -1
                entered = False
            elif line < 0:
                node = self._node(node, code, self._entry_line(code))
                entered = True
            else:
                on_top = node >= 0 and nodes[node][1] == code
                if on_top and (entered or marked or not self._recurs(code, nodes[node][2], line)):
                    key = (nodes[node][0], code, line)
                    found = ids.get(key)
                    node = self._node(*key) if found is None else found
                else:
                    node = self._node(node, code, line)
                entered = False
            out.append(node)
        return out

    def _node(self, parent: int, code: int, line: int) -> int:
        key = (parent, code, line)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._nodes)
            self._nodes.append(key)
        return found

    def _code(self, code: int) -> tuple[str, int, str]:
        entry = self.codes[code] if 0 <= code < len(self.codes) else []
        return (
            str(entry[0]) if entry else "",
            int(entry[1]) if len(entry) > 1 else 0,
            str(entry[2]) if len(entry) > 2 else "",
        )

    def _entry_line(self, code: int) -> int:
        return max(self._code(code)[1], 1)

    def _recurs(self, code: int, current: int, line: int) -> bool:
        """Whether a line event of the code on top is a recursive entry (recordings without marks of entry).

        It is where the line is the first of the function's body and the statement that was current calls that very name.
        """
        key = (code, current, line)
        if key not in self._recursions:
            file, first_line, qualified = self._code(code)
            name = plain_function(qualified)
            function = self.store.function_at(file, first_line, name)
            self._recursions[key] = (
                function is not None and line == body_line(function) and calls(function, current, name)
            )
        return self._recursions[key]

    @property
    def threads(self) -> list[int]:
        return list(self._threads)

    def events_of(self, thread: int) -> tuple[I64, I32, I64] | None:
        """When a thread came to which node, in unix nanoseconds, in order, and how many calls of a library's functions a tracer had
        been called for since the event before; None for a thread that was not recorded."""
        events = self._threads.get(thread)
        return None if events is None else (events.time_ns, events.node, events.calls)

    def frame(self, node: int) -> tuple[int, int]:
        """(node of the calling statement or -1, number of the code)."""
        return self._nodes[node][0], self._nodes[node][1]

    def rounds(self, thread: int, begin_ns: float, end_ns: float) -> tuple[SourceRef, I64] | None:
        """The outermost loop that a thread was in for most of a time: its first line, and when each of its rounds began (unix
        nanoseconds). None where it was in none of at least ``ROUNDS`` rounds.

        A loop is a statement that one place of the program comes to again and again: of the statements of the outermost such
        place the first in the text, which is the loop's head.
        """
        events = self._threads.get(thread)
        if events is None or end_ns <= begin_ns:
            return None
        mine = events.reached & (events.node >= 0) & (events.time_ns >= begin_ns) & (events.time_ns <= end_ns)
        time, node = events.time_ns[mine], events.node[mine]
        kinds, of_event, counts = np.unique(node, return_inverse=True, return_counts=True)
        # Where each statement stands: how deep, and at which line. What is before it in that order is around it, or another loop.
        places = [(self._depth(one), self._nodes[one][2]) for one in kinds.tolist()]
        order = np.argsort(np.argsort(np.array(places, dtype=np.int64) @ np.array([1 << 32, 1])))
        for at in sorted(np.flatnonzero(counts >= ROUNDS).tolist(), key=lambda k: int(order[k])):
            visits = time[of_event == at]
            around = time[order[of_event] < order[at]]
            broken = len(np.unique(np.searchsorted(visits, around[(around > visits[0]) & (around < visits[-1])])))
            ref = self.ref(int(kinds[at]))
            if ref is None or broken > BROKEN * len(visits) or visits[-1] - visits[0] < MOST * (end_ns - begin_ns):
                continue
            return ref, visits
        return None

    def _depth(self, node: int) -> int:
        depth = 0
        while node >= 0:
            node, depth = self._nodes[node][0], depth + 1
        return depth

    def at(self, thread: I64, unix_ns: F64 | I64) -> I32:
        """The node for every (thread, unix nanoseconds), -1 where the thread was in no user frame."""
        found: I32 = np.full(len(thread), -1, dtype=np.int32)
        for tid, events in self._threads.items():
            rows = np.flatnonzero(thread == tid)
            if len(rows):
                index = np.searchsorted(events.time_ns, unix_ns[rows], side="right") - 1
                found[rows] = np.where(index >= 0, events.node[np.maximum(index, 0)], -1)
        return found

    def visit(self, thread: I64, unix_ns: F64 | I64) -> I32:
        """The index of the event that began each thread's stay at its statement, -1 before the first."""
        found: I32 = np.full(len(thread), -1, dtype=np.int32)
        for tid, events in self._threads.items():
            rows = np.flatnonzero(thread == tid)
            found[rows] = np.searchsorted(events.time_ns, unix_ns[rows], side="right") - 1
        return found

    def stack(self, node: int) -> list[tuple[str, int, str]]:
        """(file, line, qualified name), outermost first."""
        frames: list[tuple[str, int, str]] = []
        while node >= 0 and len(frames) < MAX_DEPTH:
            node, code, line = self._nodes[node]
            file, _, name = self._code(code)
            frames.append((file, line, name))
        return frames[::-1]

    def _in_head(self, node: int) -> bool:
        """Whether a frame is at the head of its own function, before the first statement.

        No op runs there in Python's own frames; the frames of compiled code stay at that line throughout.
        """
        _, code, line = self._nodes[node]
        file, first_line, qualified = self._code(code)
        name = plain_function(qualified)
        function = self.store.function_at(file, first_line, name)
        return function is not None and line < body_line(function) and function.first_line <= line

    def ref(self, node: int) -> SourceRef | None:
        """The statement of a node, with its stack; of a compiled frame, the call of it."""
        if node < 0:
            return None
        if node not in self._refs:
            inner = node
            while self._in_head(inner) and self._nodes[inner][0] >= 0:
                inner = self._nodes[inner][0]
            frames = self.stack(inner)
            file, line, function = frames[-1]
            self._refs[node] = SourceRef(
                file=self.store.resolve(file),
                line=line,
                function=plain_function(function) or None,
                text=self.store.text(file, line),
                stack=[Frame(file=self.store.resolve(f), line=n, function=q or None) for f, n, q in frames],
                method=METHOD,
                confidence=CONFIDENCE,
            )
        return self._refs[node]


def load_timeline(timeline: Timeline, run_dir: Path, store: SourceStore) -> LineTimeline | None:
    """The timeline of a run folder, None where its file is missing."""
    path = run_dir / timeline.file
    try:
        if not path.resolve().is_relative_to(run_dir.resolve()):
            return None
        return LineTimeline(timeline, path.read_bytes(), store)
    except OSError:
        return None
