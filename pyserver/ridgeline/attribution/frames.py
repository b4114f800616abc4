"""Python frames of a trace recorded with stacks: which of the user's functions an op ran in, and at which statement.

A frame is called ``file(line): function``, where the line is the function's *first*; a frame that was already running
when recording began shows instead the line it happened to be at, which says nothing about any op and is never used as a
statement. The statement is claimed only where exactly one in the function's source can have made the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ridgeline.attribution.nesting import Nest
from ridgeline.attribution.paths import is_notebook_cell, owner
from ridgeline.attribution.source_match import MatchedCall, matching_statement
from ridgeline.attribution.sources import Function, SourceStore
from ridgeline.profile import Frame, SourceRef
from ridgeline.trace.tables import F64, I32, I64, Trace

_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILTIN = re.compile(r"^<built-in (?:function|method) (?P<name>\w+)")
_MODULE = re.compile(r"^nn\.Module: (?P<type>\w+?)(?:_\d+)?$")

_PROFILER_START = re.compile(
    r"(?:^|/)(?:torch/)?(?:autograd|profiler)/profiler\.py\(\d+\): (?:_?start\w*|__enter__|step|_transit_action|prepare_trace)$"
)
_COMPILED_ENTRY = re.compile(r"(?:^|/)torch/_dynamo/eval_frame\.py\(\d+\): (?:__call__|_fn|compile_wrapper)$")
# Frames between a call and what it is known by: decorators and dispatchers.
_WRAPPERS = frozenset(
    "wrapper inner wrapped decorate_context _fn helper _use_grad profile_hook_step _call_impl _wrapped_call_impl "
    "_use_grad_for_differentiable decorate_autocast fast_path_wrapper".split()
)
MAX_DEPTH = 400
_LATE_US = 1.0

FUNCTION = "function"
SOURCE_MATCH = "source_match"
UNKNOWN_START = "the profiler started inside this function and its file is not at hand"
LIBRARY_ONLY = "only library code on the stack"


@dataclass(slots=True, frozen=True)
class ParsedFrame:
    file: str
    line: int
    function: str


def parse_frame(name: str) -> ParsedFrame | None:
    """``model.py(12): forward``; None for names without a file or a real line (line 0 is none)."""
    match = _FRAME.match(name.replace("\\", "/"))
    if match is None or (int(match["line"]) < 1 and match["function"] != "<module>"):
        return None
    return ParsedFrame(match["file"], int(match["line"]), match["function"])


class FrameLines:
    """Statements by (thread, instant), from the frames around it. Without frames every answer is None."""

    def __init__(self, trace: Trace, store: SourceStore, user_roots: tuple[str, ...] = ()) -> None:
        self.trace, self.store, self.user_roots = trace, store, user_roots
        self.recorded = trace.frames is not None and len(trace.frames.name) > 0
        self._parsed: dict[int, ParsedFrame | None] = {}
        self._owned: dict[int, str] = {}
        self._refs: dict[tuple[int, bool, int, int], SourceRef | str] = {}
        self._chains: dict[int, tuple[int, ...]] = {}
        if not self.recorded or trace.frames is None:
            return
        frames = trace.frames
        dur = frames.dur.copy()
        last: dict[int, float] = {}
        for tid in np.unique(frames.tid):
            mine = frames.tid == tid
            last[int(tid)] = float((frames.start[mine] + frames.dur[mine]).max())
        # A frame that never closed lasts to the end of its thread's recording.
        for row in np.flatnonzero(frames.open_end):
            dur[row] = max(dur[row], last[int(frames.tid[row])] - frames.start[row])
        # A C call whose return was missed seems to outlive its caller, and all that came later to lie inside: left out.
        # (A Python frame of that kind ends where its caller does.)
        limit = self._caller_end(frames.start + dur)
        lost = frames.start + dur > limit + _LATE_US
        builtin = np.array([text.startswith("<built-in") for text in trace.strings], dtype=bool)
        self._kept = np.flatnonzero(~((lost | (frames.open_end > 0)) & builtin[frames.name]))
        dur = np.where(lost, np.maximum(limit - frames.start, 0.0), dur)
        nest = Nest(frames.start[self._kept], dur[self._kept], frames.tid[self._kept])
        self.parent: I32 = np.full(len(frames.name), -1, dtype=np.int32)
        self.parent[self._kept] = np.where(nest.parent >= 0, self._kept[np.maximum(nest.parent, 0)], -1)
        self._nest = nest
        self.threads = [int(t) for t in np.unique(frames.tid)]
        self._running = self._running_at_start()

    def _caller_end(self, end: F64) -> F64:
        """For every frame the end of the frame that called it; infinite where the caller is not recorded."""
        assert self.trace.frames is not None
        ids, parents = self.trace.frames.python_id, self.trace.frames.python_parent
        order = np.argsort(ids, kind="stable")
        at = np.searchsorted(ids[order], parents)
        at = np.minimum(at, len(order) - 1)
        found = (
            (parents >= 0) & (ids[order[at]] == parents) & (self.trace.frames.tid[order[at]] == self.trace.frames.tid)
        )
        return np.where(found, end[order[at]], np.inf)

    def parsed(self, name: int) -> ParsedFrame | None:
        if name not in self._parsed:
            self._parsed[name] = parse_frame(self.trace.strings[name])
        return self._parsed[name]

    def owner(self, name: int) -> str:
        if name not in self._owned:
            parsed = self.parsed(name)
            self._owned[name] = owner(parsed.file, self.user_roots) if parsed is not None else "none"
        return self._owned[name]

    def innermost(self, thread: I64, time: F64) -> I32:
        """Row of the innermost frame at each instant."""
        if not self.recorded:
            return np.full(len(time), -1, dtype=np.int32)
        found = self._nest.innermost(thread, time)
        return np.where(found >= 0, self._kept[np.maximum(found, 0)], -1).astype(np.int32)

    def user_frame(self, row: int) -> tuple[int, int]:
        """(row of the innermost user frame at or around frame ``row``, row of the frame that it called), -1 for none."""
        assert self.trace.frames is not None
        child = -1
        while row >= 0:
            if self.owner(int(self.trace.frames.name[row])) == "user":
                return row, child
            child = row
            row = int(self.parent[row])
        return -1, child

    def ref(self, row: int, op: int) -> SourceRef | str:
        """The statement around frame ``row`` that ran ``op`` (a row of ops, -1 for none), or the reason why there is none."""
        if row < 0 or self.trace.frames is None:
            return LIBRARY_ONLY
        user, child = self.user_frame(row)
        if user < 0:
            return LIBRARY_ONLY
        frames = self.trace.frames
        name = int(frames.name[user])
        running = user in self._running
        chain = self._called(row, user)
        child_name = int(frames.name[chain[0]]) if chain else -1
        named = next((int(frames.name[r]) for r in chain if not self._is_wrapper(int(frames.name[r]))), child_name)
        op_name = (
            int(self.trace.ops.name[self._outermost(op, float(frames.start[max(user, child)]))]) if op >= 0 else -1
        )
        compiled = child_name >= 0 and _COMPILED_ENTRY.search(self.trace.strings[child_name]) is not None
        key = (name, running, child_name if compiled else named, op_name if child < 0 else -1)
        if key not in self._refs:
            call = MatchedCall(kind="compiled", name="") if compiled else self.call_of(named, op_name)
            self._refs[key] = self._make(user, running, call)
        return self._refs[key]

    def _running_at_start(self) -> frozenset[int]:
        """Frames that were on a stack when recording began: the first frame of a thread, its first child, and so on down
        to the profiler's own start."""
        assert self.trace.frames is not None
        frames, spines = self.trace.frames, []
        began = np.inf
        for tid in self.threads:
            rows = np.flatnonzero(frames.tid == tid)
            rows = rows[np.lexsort((-frames.dur[rows], frames.start[rows]))][:MAX_DEPTH]
            spine = [int(rows[0])]
            for row in rows[1:].tolist():
                if int(self.parent[row]) != spine[-1]:
                    break
                spine.append(row)
            spines.append(spine)
            starts = [row for row in spine if _PROFILER_START.search(self.trace.strings[int(frames.name[row])])]
            if starts:
                began = min(began, float(frames.start[starts[-1]]))
        return frozenset(row for spine in spines for row in spine if frames.start[row] <= began)

    def _outermost(self, op: int, since: float) -> int:
        ops = self.trace.ops
        while ops.parent[op] >= 0 and ops.start[ops.parent[op]] >= since:
            op = int(ops.parent[op])
        return op

    def _called(self, row: int, user: int) -> list[int]:
        """Frames from the one that ``user`` called down to ``row``."""
        chain: list[int] = []
        while row >= 0 and row != user:
            chain.append(row)
            row = int(self.parent[row])
        return chain[::-1]

    def _is_wrapper(self, name: int) -> bool:
        parsed = self.parsed(name)
        return parsed is not None and parsed.function.rpartition(".")[2] in _WRAPPERS

    def _make(self, user: int, running: bool, call: MatchedCall) -> SourceRef | str:
        assert self.trace.frames is not None
        parsed = self.parsed(int(self.trace.frames.name[user]))
        assert parsed is not None
        function = self._function(parsed, running)
        if function is None and (running or parsed.line < 1 or is_notebook_cell(parsed.file)):
            return UNKNOWN_START
        matched = None
        if function is not None:
            matched = matching_statement(function, call, self.store.class_of(parsed.file, function))
        line = matched if matched is not None else function.def_line if function is not None else parsed.line
        return SourceRef(
            file=self.store.resolve(parsed.file),
            line=line,
            function=parsed.function,
            text=self.store.text(parsed.file, line),
            stack=self._stack(user),
            method=SOURCE_MATCH if matched is not None else FUNCTION,
            confidence=0.7 if matched is not None else 0.5,
        )

    def _function(self, parsed: ParsedFrame, running: bool) -> Function | None:
        if running:
            return self.store.enclosing(parsed.file, parsed.line, parsed.function)
        return self.store.function_at(parsed.file, parsed.line, parsed.function)

    def call_of(self, child: int, op: int) -> MatchedCall:
        """What the user's frame called, as its source would spell it."""
        if child >= 0:
            text = self.trace.strings[child]
            if (builtin := _BUILTIN.match(text)) is not None:
                return MatchedCall(kind="name", name=builtin["name"])
            if (module := _MODULE.match(text)) is not None:
                return MatchedCall(kind="module", name=module["type"])
            if (parsed := self.parsed(child)) is not None:
                return MatchedCall(kind="name", name=parsed.function.rpartition(".")[2])
            return MatchedCall(kind="unknown", name="")
        if op >= 0:
            return MatchedCall(kind="op", name=self.trace.strings[op].rpartition("::")[2])
        return MatchedCall(kind="unknown", name="")

    def _stack(self, row: int) -> list[Frame]:
        assert self.trace.frames is not None
        stack: list[Frame] = []
        while row >= 0 and len(stack) < 64:
            parsed = self.parsed(int(self.trace.frames.name[row]))
            if (
                parsed is not None
                and self.owner(int(self.trace.frames.name[row])) == "user"
                and row not in self._running
            ):
                stack.append(Frame(file=self.store.resolve(parsed.file), line=parsed.line, function=parsed.function))
            row = int(self.parent[row])
        return stack[::-1]
