"""Eager code: from the instant of a launch to the user statement that its thread was in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.backward import BackwardMap
from ridgeline.attribution.builder import Builder
from ridgeline.attribution.frames import FrameLines
from ridgeline.attribution.host import Host
from ridgeline.attribution.model import PhaseOf
from ridgeline.attribution.timeline import LineTimeline
from ridgeline.inductor.names import is_generic
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I32, I64, Call, Trace
from ridgeline.trace.work import WorkTable

BEFORE = "launched before recording began"
NO_LINES = "recorded without Python stacks or lines"
OTHER_THREAD = "other threads, whose Python lines were not recorded"
NO_FRAME = "no user code on the stack"
_BACKWARD_CALL = re.compile(r"\.backward\(|\bautograd\.(?:grad|backward)\(|\bgrad\(")
_TRIAL_FRAMES = ("triton/testing.py", "triton/runtime/autotuner.py", "torch/_inductor/runtime/benchmarking.py")


@dataclass(slots=True)
class HostLines:
    """User statements by (thread, instant, op): the timeline first, then frames; backward ops by their forward op."""

    trace: Trace
    timeline: LineTimeline | None
    frames: FrameLines
    backward: BackwardMap
    zero_ns: float | None
    """Unix nanoseconds of offset 0, None where the clocks cannot be compared."""
    _derived: dict[tuple[int, str, float], SourceRef] = field(default_factory=dict)

    def nodes(self, thread: I64, time: F64) -> I32:
        """Timeline nodes at (thread, µs)."""
        if self.timeline is None or self.zero_ns is None:
            return np.full(len(time), -1, dtype=np.int32)
        safe = np.nan_to_num(time, nan=0.0)
        unix = np.rint(safe * 1000).astype(np.int64) + np.int64(self.zero_ns)
        nodes = self.timeline.at(thread, unix)
        return np.where(np.isnan(time), np.int32(-1), nodes).astype(np.int32)

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
                ref = self.at(tid, time)
                if isinstance(ref, SourceRef) and ref.method != "function" and _BACKWARD_CALL.search(ref.text or ""):
                    found[tid] = ref
        return next(iter(found.values())) if len(found) == 1 else None


@dataclass(slots=True)
class EagerCode:
    trace: Trace
    work: WorkTable
    host: Host
    lines: HostLines
    builder: Builder
    _cache: dict[tuple[int, int, int, str], tuple[int, int]] = field(default_factory=dict)

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
        in_backward = node_op >= 0
        graph = np.zeros(len(rows), dtype=bool)
        call = self.host.call[rows]
        if len(self.trace.calls.kind):
            graph = (call >= 0) & (self.trace.calls.kind[np.maximum(call, 0)] == int(Call.GRAPH_LAUNCH))
        for i, row in enumerate(rows.tolist()):
            suffix = "+sequence" if follow[i] else "via_graph" if graph[i] else ""
            ref = self._ref(int(nodes[i]), int(frame_rows[i]), int(source_op[i]), row)
            self._set(row, ref, suffix, bool(in_backward[i]), bool(follow[i]))

    def _own_code(self, node_op: I32, thread: I64, time: F64) -> npt.NDArray[np.bool_]:
        """Where the innermost user frame began inside the backward node."""
        own = np.zeros(len(node_op), dtype=bool)
        inside = np.flatnonzero((node_op >= 0) & ~np.isnan(time))
        if not len(inside):
            return own
        began = self.trace.ops.start[node_op[inside]]
        here, before = self.lines.nodes(thread[inside], time[inside]), self.lines.nodes(thread[inside], began)
        own[inside] = (here >= 0) & (here != before)
        frames = self.trace.frames
        if frames is not None and self.lines.frames.recorded:
            unseen = inside[~own[inside] & (here < 0)]
            for i, row in zip(unseen.tolist(), self.lines.frames.innermost(thread[unseen], time[unseen]).tolist()):
                user, _ = self.lines.frames.user_frame(row) if row >= 0 else (-1, -1)
                own[i] = user >= 0 and frames.start[user] >= self.trace.ops.start[node_op[i]]
        return own

    def _ref(self, node: int, frame: int, op: int, row: int) -> SourceRef | str:
        if node >= 0 and self.lines.timeline is not None and (ref := self.lines.timeline.ref(node)) is not None:
            return ref
        if self.lines.frames.recorded and self.host.time[row] == self.host.time[row]:
            return self.lines.frames.ref(frame, op)
        if self.host.call[row] < 0 and self.host.op[row] < 0:
            return BEFORE
        return NO_LINES if self.lines.timeline is None else OTHER_THREAD

    def _set(self, row: int, ref: SourceRef | str, suffix: str, in_backward: bool, followed: bool) -> None:
        builder = self.builder
        phase = (
            PhaseOf.OPTIMIZER if self.host.in_optimizer[row] else PhaseOf.BACKWARD if in_backward else PhaseOf.FORWARD
        )
        if in_backward and not followed and isinstance(ref, str):
            # Accumulation of gradients and the like: no forward op made it, the call of backward did.
            caller = self.lines.caller_of_backward(float(self.host.time[row]))
            if caller is not None:
                ref = self.lines.derived(caller, "backward_call", 0.8)
        if isinstance(ref, str):
            if self.host.call[row] >= 0 or self.host.op[row] >= 0:
                builder.phase[row] = int(phase) if in_backward or self.host.in_optimizer[row] else int(PhaseOf.UNKNOWN)
            builder.reason[row] = builder.reason_id(ref)
        else:
            if phase is PhaseOf.FORWARD and _BACKWARD_CALL.search(ref.text or "") and ".backward(" in (ref.text or ""):
                phase = PhaseOf.BACKWARD
            if suffix:
                ref = self.lines.derived(ref, ref.method + suffix if suffix[0] == "+" else suffix, 0.98)
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
                    aten[op_name] = (
                        self.builder.aten_id((text.replace("::", "."),)) if "::" in text and " " not in text else -1
                    )
                self.builder.aten_set[row] = aten[op_name]
