"""Where an event of the host stands in the program: its enclosing ops, its arguments, its user statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ridgeline.findings import spans
from ridgeline.findings.context import Context
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import F64, I32

COMPILED = (
    "Torch-Compiled Region",
    "TorchDynamo Cache Lookup",
    "## Call CompiledFxGraph",
    "CompiledFunction",
    "AOTDispatcher",
    "Pregraph bytecode",
)
"""Ranges in which compiled code, its guards and wrappers are at work."""
REGION_PREFIXES = (
    *COMPILED,
    "ProfilerStep",
    "autograd::engine",
    "Optimizer.",
    "enumerate(DataLoader)",
)
"""Names of cpu_op rows that only enclose others: they are places in the program, not work."""
PYTHON_FUNCTION = re.compile(r"(?!\w*Backward\d*$)[A-Z_]\w*")
"""A ``torch.autograd.Function`` written in Python: its name is its class's, and what its ``forward`` calls lies within. Nodes of the
backward pass are none."""


STEPPING = ("ProfilerStep#", "Optimizer.step#", "enumerate(DataLoader)#")
"""Names of what only the thread that runs the steps does, the surest first."""


class HostFacts:
    """The context's host side. ``Facts`` adds steps, the device and what the host waited for."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.trace = context.trace
        self.work = context.work
        self.document = context.document
        self.sidecar = context.sidecar
        self.names = context.trace.strings

    def within(self, start: float) -> bool:
        """Whether a moment lies in the recorded steps."""
        raise NotImplementedError

    def all_within(self, starts: F64) -> npt.NDArray[np.bool_]:
        """``within`` for many moments."""
        raise NotImplementedError

    @cached_property
    def host_thread(self) -> int:
        """The thread that runs the steps: that of their marks, else the one that steps optimizers or waits for the loader, else
        the one with the most ops, autograd's threads apart."""
        for prefix in STEPPING:
            marks = [i for i, text in enumerate(self.names) if text.startswith(prefix)]
            for table in (self.trace.ranges, self.trace.ops):
                rows = np.flatnonzero(np.isin(table.name, marks))
                if len(rows):
                    return int(table.tid[rows[0]])
        if not len(self.trace.ops.tid):
            return -1
        backward = [i for i, text in enumerate(self.names) if text.startswith("autograd::engine")]
        ids, where = np.unique(self.trace.ops.tid, return_inverse=True)
        totals = np.bincount(where, weights=self.trace.ops.self_dur)
        apart = np.isin(ids, np.unique(self.trace.ops.tid[np.isin(self.trace.ops.name, backward)]))
        totals = np.where(apart & ~apart.all(), -1.0, totals)
        return int(ids[int(np.argmax(totals))])

    @cached_property
    def _ops_of_thread(self) -> dict[int, I32]:
        ops = self.trace.ops
        return {int(t): np.flatnonzero(ops.tid == t).astype(np.int32) for t in np.unique(ops.tid)}

    @cached_property
    def _op_starts(self) -> dict[int, F64]:
        return {tid: self.trace.ops.start[rows] for tid, rows in self._ops_of_thread.items()}

    @cached_property
    def _op_names(self) -> list[str]:
        return [self.names[i] for i in self.trace.ops.name.tolist()]

    @cached_property
    def _parents(self) -> list[int]:
        parents: list[int] = self.trace.ops.parent.tolist()
        return parents

    def op_name(self, row: int) -> str:
        return self._op_names[row]

    def op_end(self, row: int) -> float:
        return float(self.trace.ops.start[row] + self.trace.ops.dur[row])

    def op_at(self, tid: int, time: float) -> int:
        """Row of the innermost op of a thread at a moment, -1 if it is in none."""
        rows = self._ops_of_thread.get(tid)
        if rows is None:
            return -1
        at = int(np.searchsorted(self._op_starts[tid], time, side="right")) - 1
        row = int(rows[at]) if at >= 0 else -1
        while row >= 0 and self.op_end(row) < time:
            row = int(self.trace.ops.parent[row])
        return row

    def ops_between(self, tid: int, start: float, end: float) -> list[int]:
        """Rows of a thread's ops that start in [start, end)."""
        rows = self._ops_of_thread.get(tid)
        if rows is None:
            return []
        lo, hi = np.searchsorted(self._op_starts[tid], (start, end))
        return [int(r) for r in rows[lo:hi]]

    def ancestors(self, row: int) -> Iterator[int]:
        """The op and those that enclose it, innermost first."""
        parents = self._parents
        while row >= 0:
            yield row
            row = parents[row]

    def outermost(self, row: int) -> int:
        """The outermost enclosing op that is work: the call that the user or a library made."""
        best, names, places = row, self.trace.ops.name, self._places
        for above in self.ancestors(row):
            if not places[names[above]]:
                best = above
        return best

    @cached_property
    def _places(self) -> list[bool]:
        """By number of a name: whether an op of it only encloses others."""
        return [bool(n.startswith(REGION_PREFIXES) or PYTHON_FUNCTION.fullmatch(n)) for n in self.names]

    def ops_named(self, *names: str) -> I32:
        """Rows of ops of these names that start within the recorded steps."""
        wanted = [i for i, text in enumerate(self.names) if text in names]
        return np.flatnonzero(np.isin(self.trace.ops.name, wanted) & self.all_within(self.trace.ops.start)).astype(
            np.int32
        )

    def line_of_op(self, row: int) -> SourceRef | None:
        """The user statement that the op's thread was in; for an op of the backward pass that of its forward op."""
        if row < 0:
            return None
        return self.context.attribution.host_line(int(self.trace.ops.tid[row]), float(self.trace.ops.start[row]))

    def line_of_call(self, row: int) -> SourceRef | None:
        if row < 0:
            return None
        return self.context.attribution.host_line(int(self.trace.calls.tid[row]), float(self.trace.calls.start[row]))

    def line_of_work(self, row: int) -> SourceRef | None:
        """The first user statement of a row of work."""
        at = int(self.context.attribution.source[row])
        if at < 0:
            return None
        places = self.context.attribution.sources[at]
        return next((p for p in places if not p.library), places[0])

    @cached_property
    def work_of_event(self) -> dict[int, int]:
        """Row of ``Trace.device_events`` -> row of work."""
        return {int(e): i for i, e in enumerate(self.work.event) if e >= 0}

    def line_of_event(self, row: int) -> SourceRef | None:
        """The user statement that caused a device event: by attribution, else by what its host thread was in."""
        at = self.work_of_event.get(row)
        place = self.line_of_work(at) if at is not None else None
        if place is not None:
            return place
        op, call = int(self.trace.device_events.op[row]), int(self.trace.device_events.call[row])
        return self.line_of_op(op) or self.line_of_call(call)

    @cached_property
    def _with_children(self) -> set[int]:
        return {int(p) for p in np.unique(self.trace.ops.parent) if p >= 0}

    def has_children(self, op: int) -> bool:
        return op in self._with_children

    @cached_property
    def unflattened(self) -> frozenset[int]:
        """Copies right after an ``unflatten_dense_tensors``: what was broadcast or reduced as one tensor is brought to where it belongs,
        part by part, by the library that asked for it (torch's ``broadcast_coalesced``, DistributedDataParallel's buffers)."""
        found: set[int] = set()
        for op in [row for row, name in enumerate(self._op_names) if name == "aten::unflatten_dense_tensors"]:
            tid = int(self.trace.ops.tid[op])
            for row in self._ops_of_thread[tid][int(np.searchsorted(self._op_starts[tid], self.op_end(op))) :]:
                if self.op_name(int(row)) != "aten::copy_":
                    break
                found.add(int(row))
        return frozenset(found)

    def has_only(self, op: int, *names: str) -> bool:
        """Whether all direct children of an op, if it has any, are of these names."""
        return not self.has_children(op) or all(self.op_name(int(r)) in names for r in self._children_of(op))

    def children_named(self, op: int, *names: str) -> list[int]:
        """Direct children of an op of these names."""
        return [int(r) for r in self._children_of(op) if self.op_name(int(r)) in names]

    def _children_of(self, op: int) -> I32:
        ops = self.trace.ops
        hi = int(np.searchsorted(ops.start, self.op_end(op), side="right"))
        rows = np.arange(op + 1, hi, dtype=np.int32)
        children: I32 = rows[ops.parent[rows] == op]
        return children

    def types_of(self, op: int) -> list[str]:
        """Input types as the trace names them (``float``, ``c10::BFloat16``, ``Scalar``…); empty if not recorded."""
        args = int(self.trace.ops.args[op]) if op >= 0 else -1
        return self._types[args] if args >= 0 else []

    def dims_of(self, op: int) -> list[list[int]]:
        """Shapes of the inputs, ``[]`` for what is no tensor; empty if not recorded."""
        args = int(self.trace.ops.args[op]) if op >= 0 else -1
        return self._dims[args] if args >= 0 else []

    def strides_of(self, op: int) -> list[list[int]]:
        """Strides of the inputs, ``[]`` for what is no tensor; empty if not recorded."""
        args = int(self.trace.ops.args[op]) if op >= 0 else -1
        rows = (self.trace.op_args.input_strides[args] or []) if args >= 0 else []
        return [list(r) if isinstance(r, (list, tuple)) and all(isinstance(s, int) for s in r) else [] for r in rows]

    @cached_property
    def _types(self) -> list[list[str]]:
        return [list(types or []) for types in self.trace.op_args.input_types]

    @cached_property
    def _dims(self) -> list[list[list[int]]]:
        """Of every distinct set of arguments; there are far fewer of these than of ops."""
        return [
            [list(r) if isinstance(r, (list, tuple)) and all(isinstance(d, int) for d in r) else [] for r in rows or []]
            for rows in self.trace.op_args.input_dims
        ]

    def all_dims_of(self, op: int) -> list[list[int]]:
        """Shapes of the input tensors, those in lists (as ``cat`` takes them) among them."""
        args = int(self.trace.ops.args[op]) if op >= 0 else -1
        rows = (self.trace.op_args.input_dims[args] or []) if args >= 0 else []
        flat = [
            r
            for row in rows
            if isinstance(row, (list, tuple))
            for r in (row if row and isinstance(row[0], (list, tuple)) else [row])
        ]
        return [list(r) for r in flat if len(r) and all(isinstance(d, int) for d in r)]

    @cached_property
    def optimizer_spans(self) -> dict[int, list[tuple[float, float, str]]]:
        """By thread: (start, end, name) of ``Optimizer.step#…`` and ``Optimizer.zero_grad#…`` in order."""
        found: dict[int, list[tuple[float, float, str]]] = {}
        for table in (self.trace.ranges, self.trace.ops):
            wanted = [i for i, text in enumerate(self.names) if text.startswith("Optimizer.")]
            for row in np.flatnonzero(np.isin(table.name, wanted)):
                start = float(table.start[row])
                entry = (start, start + float(table.dur[row]), self.names[int(table.name[row])])
                found.setdefault(int(table.tid[row]), []).append(entry)
        return {tid: sorted(entries) for tid, entries in found.items()}

    @cached_property
    def _in_optimizers(self) -> dict[int, spans.Spans]:
        """By thread, without overlaps: a step may hold the spans of its closure (L-BFGS)."""
        return {tid: spans.of((lo, hi) for lo, hi, _ in entries) for tid, entries in self.optimizer_spans.items()}

    def in_optimizer(self, tid: int, time: float) -> bool:
        """Whether a thread is in an optimizer's step or zero_grad."""
        within = self._in_optimizers.get(tid)
        at = int(np.searchsorted(within.start, time, side="right")) - 1 if within is not None else -1
        return within is not None and at >= 0 and bool(time < within.end[at])

    def in_range(self, tid: int, time: float, prefix: str) -> bool:
        """Whether a thread is inside a range or op whose name starts with ``prefix``."""
        op = self.op_at(tid, time)
        if any(self.op_name(r).startswith(prefix) for r in self.ancestors(op)):
            return True
        ranges = self.trace.ranges
        last = int(np.searchsorted(ranges.start, time, side="right"))
        hits = np.flatnonzero((ranges.tid[:last] == tid) & (ranges.start[:last] + ranges.dur[:last] > time))
        return any(self.names[int(ranges.name[r])].startswith(prefix) for r in hits)
