"""Eager code: from the instant of a launch to the user statement that its thread was in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.backward import BackwardMap
from ridgeline.attribution.builder import Builder
from ridgeline.attribution.call_stacks import CallStacks
from ridgeline.attribution.frames import FrameLines
from ridgeline.attribution.host import Host
from ridgeline.attribution.model import TRIAL, PhaseOf, Stays
from ridgeline.attribution.timeline import LineTimeline
from ridgeline.attribution.trials import trials
from ridgeline.inductor.names import is_generic, take_apart
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I32, I64, Call, Trace
from ridgeline.trace.work import WorkTable

BEFORE = "launched before recording began"
NO_LINES = "recorded without Python stacks or lines"
OTHER_THREAD = "other threads, whose Python lines were not recorded"
NO_FRAME = "no user code on the stack"
_BACKWARD_CALL = re.compile(r"\.backward\(|\bautograd\.(?:grad|backward)\(|\bgrad\(")


@dataclass(slots=True)
class HostLines:
    """User statements by (thread, instant, op): the timeline first, then frames; backward ops by their forward op."""

    trace: Trace
    timeline: LineTimeline | None
    frames: FrameLines
    backward: BackwardMap
    zero_ns: float | None
    """Unix nanoseconds of offset 0, None where the clocks cannot be compared."""
    call_stacks: CallStacks
    _derived: dict[tuple[int, str, float], SourceRef] = field(default_factory=dict)

    def nodes(self, thread: I64, time: F64) -> I32:
        """Timeline nodes at (thread, µs)."""
        if self.timeline is None or self.zero_ns is None:
            return np.full(len(time), -1, dtype=np.int32)
        safe = np.nan_to_num(time, nan=0.0)
        unix = np.rint(safe * 1000).astype(np.int64) + np.int64(self.zero_ns)
        nodes = self.timeline.at(thread, unix)
        return np.where(np.isnan(time), np.int32(-1), nodes).astype(np.int32)

    def visits(self, thread: I64, time: F64) -> I32:
        """The number of the thread's stay at a statement, by the timeline; -1 where it is not known."""
        if self.timeline is None or self.zero_ns is None:
            return np.full(len(time), -1, dtype=np.int32)
        unix = np.rint(np.nan_to_num(time, nan=0.0) * 1000).astype(np.int64) + np.int64(self.zero_ns)
        return np.where(np.isnan(time), np.int32(-1), self.timeline.visit(thread, unix)).astype(np.int32)

    def at(self, thread: int, time: float, op: int = -1) -> SourceRef | str:
        """The statement, or in words why there is none."""
        node = int(self.nodes(np.array([thread]), np.array([time]))[0])
        if node >= 0 and self.timeline is not None and (ref := self.timeline.ref(node)) is not None:
            return ref
        if self.frames.recorded:
            row = int(self.frames.innermost(np.array([thread]), np.array([time]))[0])
            return self.frames.ref(row, op)
        return NO_LINES if self.timeline is None else OTHER_THREAD

    def derived(self, ref: SourceRef, method: str, factor: float) -> SourceRef:
        """The same statement, known by a longer chain; one object a (statement, method)."""
        key = (id(ref), method, factor)
        if key not in self._derived:
            self._derived[key] = replace(ref, method=method, confidence=round(ref.confidence * factor, 4))
        return self._derived[key]

    def caller_of_backward(self, time: float) -> SourceRef | None:
        """The statement ``loss.backward()`` that a thread is waiting in, if exactly one thread is."""
        found: dict[int, SourceRef] = {}
        if self.timeline is not None:
            for tid in self.timeline.threads:
                ref = self.at(tid, time)
                if isinstance(ref, SourceRef) and _BACKWARD_CALL.search(ref.text or ""):
                    found[tid] = ref
        elif self.frames.recorded:
            for tid in self.frames.threads:
                row = int(self.frames.innermost(np.array([tid]), np.array([time]))[0])
                if (
                    row >= 0
                    and self.frames.calls_backward(row)
                    and isinstance(ref := self.frames.ref(row, -1), SourceRef)
                ):
                    found[tid] = ref
        return next(iter(found.values())) if len(found) == 1 else None


@dataclass(slots=True)
class TimelineStays:
    """``model.HostStays`` of a line timeline."""

    timeline: LineTimeline
    zero_ns: int
    """Unix nanoseconds of offset 0."""

    def of(self, thread: int) -> Stays | None:
        events = self.timeline.events_of(thread)
        if events is None:
            return None
        # Subtracted as integers: a double of Unix nanoseconds has only 200 of them left.
        return Stays(start=(events[0] - np.int64(self.zero_ns)) / 1000.0, node=events[1], calls=events[2])

    def frame(self, node: int) -> tuple[int, int]:
        return self.timeline.frame(node)

    def ref(self, node: int) -> SourceRef | None:
        return self.timeline.ref(node)


@dataclass(slots=True)
class EagerCode:
    trace: Trace
    work: WorkTable
    host: Host
    lines: HostLines
    builder: Builder
    _threads: frozenset[int] | None = None

    def run(self, rows: I64) -> None:
        """Fill the given rows of work."""
        backward = self.lines.backward
        op = self.host.op[rows]
        thread, time = self.host.thread[rows].copy(), self.host.time[rows].copy()
        node_op = (
            np.where(op >= 0, backward.node[np.maximum(op, 0)], -1) if len(backward.node) else np.full(len(rows), -1)
        )
        forward = (
            np.where(op >= 0, backward.forward[np.maximum(op, 0)], -1)
            if len(backward.forward)
            else np.full(len(rows), -1)
        )
        # User code that the engine calls (a custom backward, a hook, a recomputed forward) speaks for itself.
        own = self._own_code(node_op, thread, time)
        follow = (forward >= 0) & ~own
        thread[follow], time[follow] = self.trace.ops.tid[forward[follow]], self.trace.ops.start[forward[follow]]
        source_op = np.where(follow, forward, op)
        nodes = self.lines.nodes(thread, time)
        need = np.flatnonzero(nodes < 0)
        frame_rows = np.full(len(rows), -1, dtype=np.int32)
        if len(need) and self.lines.frames.recorded:
            known = need[~np.isnan(time[need])]
            frame_rows[known] = self.lines.frames.innermost(thread[known], time[known])
        engine = np.unique(self.trace.ops.tid[backward.node >= 0]) if len(backward.node) else np.zeros(0, np.int64)
        # A thread of the engine's own: what it does outside of nodes (reducing gradients) is the backward pass too.
        in_backward = (node_op >= 0) | (
            np.isin(self.host.thread[rows], engine) & ~np.isin(self.host.thread[rows], self._driven())
        )
        graph = np.zeros(len(rows), dtype=bool)
        call = self.host.call[rows]
        if len(self.trace.calls.kind):
            graph = (call >= 0) & (self.trace.calls.kind[np.maximum(call, 0)] == int(Call.GRAPH_LAUNCH))
        visit = self.lines.visits(self.host.thread[rows], self.host.time[rows])
        trial = trials(self.trace, self.work, self.host, rows, visit, self.lines.frames.tree)
        for i, row in enumerate(rows.tolist()):
            suffix = "+sequence" if follow[i] else "+via_graph" if graph[i] else ""
            if trial[i]:
                self._set_trial(row)
                continue
            ref = self._ref(int(nodes[i]), int(frame_rows[i]), int(source_op[i]), row)
            self._set(row, ref, suffix, bool(in_backward[i]), bool(follow[i]))

    def _set_trial(self, row: int) -> None:
        name = self.trace.strings[int(self.work.name[row])]
        self.builder.symbol[row] = self.builder.symbol_id(f"{name} (autotuning trial)")
        self.builder.reason[row] = self.builder.reason_id(TRIAL)

    def _driven(self) -> I64:
        """Threads that made forward ops or that run the user's Python: not the engine's own."""
        ops = self.trace.ops
        outside = self.lines.backward.node < 0
        own = [np.unique(ops.tid[outside & (ops.sequence >= 0)])]
        if self.lines.timeline is not None:
            own.append(np.array(self.lines.timeline.threads, dtype=np.int64))
        return np.concatenate(own)

    def _own_code(self, node_op: I32, thread: I64, time: F64) -> npt.NDArray[np.bool_]:
        """Where the innermost user frame began inside the backward node."""
        own = np.zeros(len(node_op), dtype=bool)
        inside = np.flatnonzero((node_op >= 0) & ~np.isnan(time))
        if not len(inside):
            return own
        began = self.trace.ops.start[node_op[inside]]
        here, before = self.lines.nodes(thread[inside], time[inside]), self.lines.nodes(thread[inside], began)
        own[inside] = (here >= 0) & (here != before)
        if self.lines.frames.recorded:
            unseen = inside[~own[inside] & (here < 0)]
            for i, row in zip(unseen.tolist(), self.lines.frames.innermost(thread[unseen], time[unseen]).tolist()):
                own[i] = self.lines.frames.began_after(row, float(self.trace.ops.start[node_op[i]]))
        return own

    def _ref(self, node: int, frame: int, op: int, row: int) -> SourceRef | str:
        if node >= 0 and self.lines.timeline is not None and (ref := self.lines.timeline.ref(node)) is not None:
            return ref
        if self.lines.call_stacks.recorded and op >= 0:
            return self.lines.call_stacks.ref(op) or NO_FRAME
        if self.lines.frames.recorded and self.host.time[row] == self.host.time[row]:
            return self.lines.frames.ref(frame, op, int(self.work.name[row]))
        if self.host.call[row] < 0 and self.host.op[row] < 0:
            return BEFORE
        if self.lines.timeline is not None or (
            self.host.op[row] < 0 and int(self.host.thread[row]) not in self._op_threads()
        ):
            return OTHER_THREAD
        return NO_LINES

    def _op_threads(self) -> frozenset[int]:
        if self._threads is None:
            self._threads = frozenset(int(tid) for tid in np.unique(self.trace.ops.tid))
        return self._threads

    def _set(self, row: int, ref: SourceRef | str, suffix: str, in_backward: bool, followed: bool) -> None:
        builder = self.builder
        phase = (
            PhaseOf.OPTIMIZER if self.host.in_optimizer[row] else PhaseOf.BACKWARD if in_backward else PhaseOf.FORWARD
        )
        if in_backward and not followed and isinstance(ref, str) and not np.isnan(self.host.time[row]):
            # Accumulation of gradients and the like: no forward op made it, the call of backward did.
            caller = self.lines.caller_of_backward(float(self.host.time[row]))
            if caller is not None:
                method = "function+backward_call" if caller.method.startswith("function") else "backward_call"
                ref = self.lines.derived(caller, method, 0.8)
        if isinstance(ref, str):
            if self.host.call[row] >= 0 or self.host.op[row] >= 0:
                builder.phase[row] = int(phase) if in_backward or self.host.in_optimizer[row] else int(PhaseOf.UNKNOWN)
            builder.reason[row] = builder.reason_id(ref)
        else:
            if phase is PhaseOf.FORWARD and _BACKWARD_CALL.search(ref.text or "") and ".backward(" in (ref.text or ""):
                phase = PhaseOf.BACKWARD
            if suffix:
                ref = self.lines.derived(ref, ref.method + suffix, 0.98)
            builder.phase[row] = int(phase)
            builder.source[row] = builder.source_id((ref,))

    def name(self, rows: I64) -> None:
        """Symbols and ATen ops of rows that have none yet."""
        trace = self.trace
        generic = (
            np.array([is_generic(text) for text in trace.strings], dtype=bool) if trace.strings else np.zeros(0, bool)
        )
        ids: dict[int, int] = {}
        aten: dict[int, int] = {}
        for row in rows.tolist():
            name, op = int(self.work.name[row]), int(self.host.op[row])
            op_name = int(trace.ops.name[op]) if op >= 0 else -1
            if self.builder.symbol[row] < 0:
                chosen = op_name if op_name >= 0 and generic[name] else name
                if chosen not in ids:
                    ids[chosen] = self.builder.symbol_id(trace.strings[chosen])
                self.builder.symbol[row] = ids[chosen]
            if self.builder.aten_set[row] < 0 and op_name >= 0:
                if op_name not in aten:
                    text = trace.strings[op_name]
                    aten[op_name] = self.builder.aten_id(_aten(text))
                self.builder.aten_set[row] = aten[op_name]


def _aten(op: str) -> tuple[str, ...]:
    """``aten::mm`` -> ``aten.mm``; a generated kernel's launch -> the ops in its name; nothing for marks of regions."""
    if "::" in op and " " not in op:
        return (op.replace("::", "."),)
    return take_apart(op).ops
