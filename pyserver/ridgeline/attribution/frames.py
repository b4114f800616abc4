"""Statements from the Python frames of a trace: which of the user's functions an op ran in, and at which statement.

Frames name functions, not statements. A statement is claimed only where exactly one in the function's source can have
made the call, and never because the profiler happened to start there.
"""

from __future__ import annotations

import re

import numpy as np

from ridgeline.attribution.frame_tree import FrameTree, ParsedFrame
from ridgeline.attribution.paths import is_notebook_cell
from ridgeline.attribution.source_match import MatchedCall, matching_statement
from ridgeline.attribution.sources import Function, SourceStore
from ridgeline.profile import Frame, SourceRef
from ridgeline.trace.tables import F64, I32, I64, Trace

_BUILTIN = re.compile(r"^<built-in (?:function|method) (?P<name>\w+)")
_MODULE = re.compile(r"^nn\.Module: (?P<type>\w+?)(?:_\d+)?$")
_COMPILED_ENTRY = re.compile(r"(?:^|/)torch/_dynamo/eval_frame\.py\(\d+\): (?:__call__|_fn|compile_wrapper)$")
_TRITON_LAUNCH = re.compile(r"(?:^|/)triton/runtime/(?:jit|autotuner)\.py\(\d+\): ")

FUNCTION = "function"
SOURCE_MATCH = "source_match"
UNKNOWN_START = "the profiler started inside this function and its file is not at hand"
LIBRARY_ONLY = "only library code on the stack"
NOTEBOOK = "a notebook cell whose source is not at hand"
MODULE_LEVEL = "code at a module's top level, at a statement that the recording does not tell"


class FrameLines:
    """Statements by the frame around an instant. Without frames there are none."""

    def __init__(self, trace: Trace, store: SourceStore, user_roots: tuple[str, ...] = ()) -> None:
        self.trace, self.store = trace, store
        recorded = trace.frames is not None and len(trace.frames.name) > 0
        self.tree = FrameTree(trace, user_roots) if recorded else None
        self._refs: dict[tuple[int, bool, int, int], SourceRef | str] = {}

    @property
    def recorded(self) -> bool:
        return self.tree is not None

    @property
    def threads(self) -> list[int]:
        return self.tree.threads if self.tree is not None else []

    def innermost(self, thread: I64, time: F64) -> I32:
        """Row of the innermost frame at each instant."""
        if self.tree is None:
            return np.full(len(time), -1, dtype=np.int32)
        return self.tree.innermost(thread, time)

    def ref(self, row: int, op: int, kernel: int = -1) -> SourceRef | str:
        """The statement around frame ``row`` that ran ``op`` (a row of ops, -1 for none) or launched ``kernel`` (a string
        id), or the reason why there is none."""
        tree = self.tree
        if row < 0 or tree is None or tree.user[row] < 0:
            return LIBRARY_ONLY
        user, child, named = int(tree.user[row]), int(tree.child[row]), int(tree.named[row])
        names = tree.frames.name
        call, called = MatchedCall(kind="unknown", name=""), -1
        if child >= 0:
            called = int(names[named])
            text = self.trace.strings[int(names[child])]
            if _COMPILED_ENTRY.search(text):
                call, called = MatchedCall(kind="compiled", name=""), int(names[child])
            elif kernel >= 0 and op < 0 and _TRITON_LAUNCH.search(text):
                call, called = MatchedCall(kind="kernel", name=self.trace.strings[kernel]), -2 - kernel
            else:
                call = self.call_of(called)
        elif op >= 0:
            called = int(self.trace.ops.name[self._outermost(op, float(tree.frames.start[user]))])
            call = MatchedCall(kind="op", name=self.trace.strings[called].rpartition("::")[2])
        key = (int(tree.chain[row]), user in tree.running, called, int(child >= 0))
        if key not in self._refs:
            self._refs[key] = self._make(user, call)
        return self._refs[key]

    def calls_backward(self, row: int) -> bool:
        """Whether the user's innermost frame around ``row`` is in a call of ``backward`` or ``grad``."""
        return self.tree is not None and bool(self.tree.user[row] >= 0 and self.tree.in_autograd[row])

    def began_after(self, row: int, time: float) -> bool:
        """Whether the innermost user frame around ``row`` was entered at or after an instant."""
        if self.tree is None or row < 0 or self.tree.user[row] < 0:
            return False
        return float(self.tree.frames.start[self.tree.user[row]]) >= time

    def is_trial(self, row: int) -> bool:
        return self.tree is not None and row >= 0 and bool(self.tree.trial[row])

    def _outermost(self, op: int, since: float) -> int:
        ops = self.trace.ops
        while ops.parent[op] >= 0 and ops.start[ops.parent[op]] >= since:
            op = int(ops.parent[op])
        return op

    def _make(self, user: int, call: MatchedCall) -> SourceRef | str:
        assert self.tree is not None
        parsed = self.tree.parsed[int(self.tree.frames.name[user])]
        assert parsed is not None
        running = user in self.tree.running
        function = self._function(parsed, running)
        if function is None and is_notebook_cell(parsed.file):
            return NOTEBOOK
        if function is None and (running or parsed.line < 1):
            return MODULE_LEVEL if parsed.function == "<module>" else UNKNOWN_START
        matched = None
        if function is not None:
            matched = matching_statement(function, call, self.store.class_of(parsed.file, function))
        if matched is None and parsed.function == "<module>":
            return MODULE_LEVEL
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
        if parsed.function == "<module>":
            return self.store.module_level(parsed.file)
        if running:
            return self.store.enclosing(parsed.file, parsed.line, parsed.function)
        return self.store.function_at(parsed.file, parsed.line, parsed.function)

    def call_of(self, called: int) -> MatchedCall:
        """How the source would spell a call whose frame has this name (a string id)."""
        assert self.tree is not None
        text = self.trace.strings[called]
        if (builtin := _BUILTIN.match(text)) is not None:
            return MatchedCall(kind="name", name=builtin["name"])
        if (module := _MODULE.match(text)) is not None:
            return MatchedCall(kind="module", name=module["type"])
        if (parsed := self.tree.parsed.get(called)) is not None:
            return MatchedCall(kind="name", name=parsed.function.rpartition(".")[2])
        return MatchedCall(kind="unknown", name="")

    def _stack(self, row: int) -> list[Frame]:
        """The user's frames around, outermost first; those with a line that means nothing are left out."""
        assert self.tree is not None
        stack: list[Frame] = []
        while row >= 0 and len(stack) < 64:
            parsed = self.tree.parsed[int(self.tree.frames.name[row])]
            if parsed is not None and self.tree.user[row] == row and row not in self.tree.running:
                stack.append(Frame(file=self.store.resolve(parsed.file), line=parsed.line, function=parsed.function))
            row = int(self.tree.parent[row])
        return stack[::-1]
