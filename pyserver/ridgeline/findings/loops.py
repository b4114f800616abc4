"""Whether operations repeat because a Python loop goes over the parts of a tensor, or because a model has many layers.

Both repeat one operation on one set of shapes from one statement. Over parts a loop repeats it with nothing heavy between
(``(out[i] * w).sum()``), or with another part taken every time (``cell(x[:, t])``). Layers have a product or a convolution
between, with weights of their own, and take no parts, or the same parts every time (the halves of rotary embeddings).
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import GEMM_OPS
from ridgeline.findings.stretches import Stretch
from ridgeline.trace.tables import I32, I64

RUN = 20
"""Repetitions without a product between them that only a loop makes: within one layer an operation on one set of shapes
comes less than ten times (rotary embeddings: four products a layer)."""
FAR = 4.0
"""Times the number of calls from one round to the next: beyond, the loop has ended and begun again."""
ROUND = 0.9
"""What part of the stretches from one repetition to the next are no longer than a round: within a round the operation comes up
to nine times (``alpha * b * exp(-b * dt) * past``), and a loop ends once in twenty."""
VARYING = 0.8
"""Part of the repetitions that take another part than the one before."""
HEAVY = (
    *GEMM_OPS,
    "aten::linear",
    "aten::matmul",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::convolution",
    "aten::_convolution",
    "aten::scaled_dot_product_attention",
    "aten::layer_norm",
    "aten::batch_norm",
    "aten::group_norm",
    "aten::rms_norm",
    "aten::embedding",
)
"""Operations with weights, and attention: what makes a layer."""
PARTS = ("aten::select", "aten::slice", "aten::narrow", "aten::index_select", "aten::index")


class Loops:
    """Calls of the host in order, thread by thread, and what lies between repetitions."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def _calls(self) -> dict[int, I32]:
        """Rows of the outermost ops of a thread, in order."""
        facts = self.facts
        tids = facts.trace.ops.tid
        tops = np.array(sorted({facts.outermost(r) for r in range(len(tids))}), dtype=np.int32)
        return {int(t): tops[tids[tops] == t] for t in np.unique(tids[tops])} if len(tops) else {}

    @cached_property
    def _heavy(self) -> dict[int, I64]:
        """By thread: how many of the calls before each are heavy, themselves or within. Shape (calls + 1,)."""
        return {tid: self._count(rows, HEAVY) for tid, rows in self._calls.items()}

    def _count(self, rows: I32, names: tuple[str, ...]) -> I64:
        facts = self.facts
        wanted = [i for i, text in enumerate(facts.names) if text in names]
        inside = {facts.outermost(int(r)) for r in np.flatnonzero(np.isin(facts.trace.ops.name, wanted))}
        hits = np.array([int(r) in inside for r in rows], dtype=np.int64)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(hits)])

    def over_parts(
        self, ops: list[int], run: int = RUN, *, varying: bool = True, light: bool = True, parts: bool = True
    ) -> list[Stretch]:
        """The loops over parts that the outermost calls of these ops, one operation on one set of shapes, belong to, each
        from its first call to its last: ``run`` repetitions with nothing heavy between, or with another part each. Not
        ``varying``: only another single row each, as the batches of a program's own loop are not. Not ``light``: nothing
        heavy between proves nothing. Not ``parts``: nor does another part each. Empty if it is none."""
        facts = self.facts
        tops = np.array(sorted({facts.outermost(r) for r in ops}), dtype=np.int32)
        tids = facts.trace.ops.tid[tops]
        return [
            s for tid in np.unique(tids) for s in self._loops(int(tid), tops[tids == tid], run, varying, light, parts)
        ]

    def _loops(self, tid: int, tops: I32, run: int, varying: bool, light: bool, parts: bool) -> list[Stretch]:
        calls = self._calls[tid]
        at = np.searchsorted(calls, tops)
        if len(at) < run:
            return []
        apart = np.diff(at)
        near = (apart <= FAR * np.quantile(apart, ROUND)) & (np.diff(self._step_of(tops)) == 0)
        idle = (np.diff(self._heavy[tid][at]) == 0) & near
        found = [(lo, hi) for lo, hi in _runs(idle) if hi - lo + 1 >= run] if light else []
        if not found and parts:
            taken = [self._parts(calls[lo:hi], single=not varying) for lo, hi in itertools.pairwise(at)]
            changes = sum(bool(a) and a != b for a, b in itertools.pairwise(taken))
            if changes >= VARYING * (len(taken) - 1) and changes >= run - 2:
                found = _runs(near)
        start, end = self.facts.trace.ops.start, self.facts.op_end
        return [(tid, float(start[tops[lo]]), end(int(tops[hi]))) for lo, hi in found]

    def _step_of(self, tops: I32) -> I64:
        """The step that each began in: a loop over parts ends with it."""
        steps = np.array([lo for lo, _ in self.facts.steps])
        return np.searchsorted(steps, self.facts.trace.ops.start[tops], side="right").astype(np.int64)

    def without_others(self, ops: list[int]) -> list[Stretch]:
        """From the first to the last of the outermost calls, wherever no call of another statement lies between."""
        facts = self.facts
        start, found = facts.trace.ops.start, list[Stretch]()
        tids = facts.trace.ops.tid[ops]
        for tid in np.unique(tids):
            calls, mine = self._calls[int(tid)], np.array(ops, dtype=np.int32)[tids == tid]
            at = np.searchsorted(calls, mine)
            joined = [
                all(facts.line_of_op(int(calls[k])) is None for k in range(lo + 1, hi))
                for lo, hi in itertools.pairwise(at)
            ]
            edges = [k + 1 for k, same in enumerate(joined) if not same]
            for lo, hi in zip([0, *edges], [*edges, len(mine)]):
                found.append((int(tid), float(start[mine[lo]]), facts.op_end(int(mine[hi - 1]))))
        return found

    def taken(self, op: int) -> str:
        """Which part of a tensor an operation takes."""
        args = int(self.facts.trace.ops.args[op])
        concrete = (self.facts.trace.op_args.concrete_inputs[args] or []) if args >= 0 else []
        return " ".join(str(c) for c in concrete[1:4])

    def _parts(self, calls: I32, *, single: bool) -> tuple[int, ...]:
        """What these calls take out of tensors: their argument sets, which hold the index."""
        facts = self.facts
        takes = [int(r) for r in calls if facts.op_name(int(r)) in PARTS]
        return tuple(int(facts.trace.ops.args[r]) for r in takes if not single or self.is_row(r))

    def is_row(self, op: int) -> bool:
        """Whether one row of a tensor's first dimension is taken: ``x[i]``, ``x[i : i + 1]``. An item of a vector is a number
        (the position of a step in what is decoded), no part of the data.
        """
        dims = self.facts.dims_of(op)
        if not dims or len(dims[0]) < 2:
            return False
        args, name = int(self.facts.trace.ops.args[op]), self.facts.op_name(op)
        concrete = (self.facts.trace.op_args.concrete_inputs[args] or []) if args >= 0 else []
        numbers = [int(c) if isinstance(c, str) and c.lstrip("-").isdigit() else None for c in concrete[1:4]]
        if name == "aten::select":
            return numbers[:1] == [0]
        start, end = (numbers[1], numbers[2]) if len(numbers) == 3 else (None, None)
        return name == "aten::slice" and numbers[0] == 0 and start is not None and end == start + 1


def _runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of true, as the first and the last of the items that they join: flag k stands between items k and k + 1."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(lo), int(hi)) for lo, hi in zip(edges[::2], edges[1::2])]
