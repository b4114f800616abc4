"""What a CPU program computes without the recorder, of the time that was recorded.

While operations are recorded, what is written down of each lies between the large blocks that they free, and most of these no
longer fit where they were: the system hands out new pages, each of which costs a fault at its first touch. Unprofiled the same
program uses the same memory in most steps. Of three programs 1,344, 4,000 and 14,176 faults a recorded step were counted (torch
2.13, the GNU C library), and none in the unprofiled ones after; these steps took 5, 7 and 17 ms longer, 1.2 to 3.6 us a fault. How
much that is altogether follows from the unprofiled steps; the operations have it whose results are large and that took long
enough for it.

What else operations compute is slowed by nothing, while all that they cost besides is. So of an unprofiled step what they compute
is a larger share than of a recorded one.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ridgeline.findings import gemm, overhead, spans
from ridgeline.trace.tables import F64

if TYPE_CHECKING:
    from ridgeline.findings.facts import Facts

PAGE = 4096
LARGE = 128 * 1024
"""Bytes of a block that may be new; smaller ones fit into what others have left (``M_MMAP_THRESHOLD`` of the GNU C library)."""
FAULT_US = 1.0
"""A page's first touch costs more. An operation that took less for each page of its result has had no new memory."""
MOST_FAULT_US = 4.0
"""And less than this: what recorded steps take longer beyond it has another cause."""
STAYS = 0.25
"""Of these faults a fresh process has some without a recorder as well, according to what lies at the end of its heap: of six programs
0, 0, 8, 35, 45 and 100 per cent."""
ITEMSIZE = {
    "double": 8,
    "long int": 8,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "c10::Half": 2,
    "c10::BFloat16": 2,
}
USUAL_ITEMSIZE = 4
PARTS = ("index", "gather", "embedding", "select", "slice", "narrow")
"""Of what names of operations hold that take a part of a tensor: how large it is their operands do not tell."""
CONVOLUTIONS = ("aten::mkldnn_convolution", "aten::_slow_conv2d_forward", "aten::thnn_conv2d", "aten::convolution")


class Fresh(NamedTuple):
    of_op: F64
    """By row of ``Trace.ops``: microseconds of its own time that new memory cost for the recorder's sake."""
    share: float
    """How much of the step a recorded microsecond of computing is without the recorder, in recorded ones; 1 where no unprofiled step was
    measured."""


def fresh(facts: Facts) -> Fresh:
    """Nothing where no unprofiled step was measured, and on a device."""
    ops = facts.trace.ops
    of_op: F64 = np.zeros(len(ops.start), dtype=np.float64)
    plain = _plain_us(facts)
    if plain is None or plain >= facts.base_us:
        return Fresh(of_op, 1.0)
    # What operations and Python cost whatever they compute is slowed, and explains a part of the difference.
    own = max(0.0, facts.base_us - overhead.computing(facts, facts.recorded))
    longer = facts.base_us - plain - own * (1.0 - 1.0 / overhead.RECORDED)
    pages: dict[int, tuple[float, float]] = {}
    """Row -> pages of its result, and what it takes in the middle of its like: at times another program had the core."""
    for rows in _alike(facts, facts.recorded):
        usual, count = statistics.median(float(ops.self_dur[r]) for r in rows), _pages(facts, rows[0])
        if count >= LARGE // PAGE and usual >= FAULT_US * count:
            pages.update(dict.fromkeys(rows, (count, usual)))
    known = sum(count for count, _ in pages.values())
    each = min(MOST_FAULT_US, max(0.0, longer) / known) if known else 0.0
    for row, (count, usual) in pages.items():
        of_op[row] = min(usual, (1.0 - STAYS) * each * count)
    stays = float(of_op.sum()) * STAYS / (1.0 - STAYS)
    return Fresh(of_op, max(1.0, facts.base_us / (plain + stays)))


def _plain_us(facts: Facts) -> float | None:
    """What the recorded steps would have taken unprofiled, both in time of computing, so that others' use of the cores counts for
    neither; in recorded time."""
    plain = facts.document.totals.plain_step_us
    if not (facts.on_cpu and facts.steps and plain and facts.base_us > 0):
        return None
    window = facts.sidecar.windows[0] if facts.sidecar is not None and facts.sidecar.windows else None
    if window is None or not window.running or not window.plain_running:
        return plain * facts.n
    return plain * facts.n * window.plain_running / window.running


def computed(facts: Facts, cover: spans.Spans) -> float:
    """What is gained without all that lies within these spans, in recorded microseconds: of what the operations cost whatever they
    compute, and of Python, its share of the recorded step, for the recorder slows that everywhere; of what they compute its share
    of the unprofiled one."""
    computing = overhead.computing(facts, cover)
    own = spans.measure(cover) - computing
    new = float(facts.fresh.of_op[spans.within(cover, facts.trace.ops.start)].sum())
    return own + max(0.0, _usual(facts, cover, computing) - new) * facts.fresh.share


def _usual(facts: Facts, cover: spans.Spans, measured: float) -> float:
    """What these operations compute, in the middle of their like, stretched by what others took of the cores over the whole recording:
    of few operations it is chance how often that was during one of them."""
    window = facts.sidecar.windows[0] if facts.sidecar is not None and facts.sidecar.windows else None
    if window is None or not window.ran_ns or not window.waited_ns:
        return measured
    own = facts.trace.ops.self_dur
    usual = sum(
        len(rows) * max(0.0, statistics.median(float(own[r]) for r in rows) - overhead.OP_US)
        for rows in _alike(facts, cover)
    )
    return min(measured, usual * (window.ran_ns + window.waited_ns) / window.ran_ns)


def _alike(facts: Facts, cover: spans.Spans) -> list[list[int]]:
    """Operations that start within these spans, those of one name, shapes and parent's name together."""
    ops, found = facts.trace.ops, defaultdict[tuple[int, int, int], list[int]](list)
    for row in np.flatnonzero(spans.within(cover, ops.start)).tolist():
        parent = int(ops.parent[row])
        found[int(ops.name[row]), int(ops.args[row]), int(ops.name[parent]) if parent >= 0 else -1].append(row)
    return list(found.values())


def _pages(facts: Facts, op: int) -> float:
    """Of an operation's result, where it makes a new tensor; 0 where it does not, or its size is not known."""
    name, dims = facts.op_name(op), facts.all_dims_of(op)
    if not name.startswith("aten::") or not dims or any(word in name for word in PARTS):
        return 0.0
    if name.endswith("_") and not _fills_a_new_one(facts, op):
        return 0.0
    kinds = [kind for kind, shape in zip(facts.types_of(op), facts.dims_of(op)) if shape]
    size = max((ITEMSIZE.get(kind, USUAL_ITEMSIZE) for kind in kinds), default=USUAL_ITEMSIZE)
    return _elements(facts, op, name, dims) * size / PAGE


def _fills_a_new_one(facts: Facts, op: int) -> bool:
    """Whether an operation in place is a part of one that makes a tensor (``aten::copy_`` of ``aten::clone``)."""
    parent = int(facts.trace.ops.parent[op])
    above = facts.op_name(parent) if parent >= 0 else ""
    return above.startswith("aten::") and not above.endswith("_")


def _elements(facts: Facts, op: int, name: str, dims: list[list[int]]) -> float:
    if name in gemm.GEMM_OPS:
        shape = gemm.shape_of(facts, op)
        return float(shape.batch * shape.m * shape.n) if shape is not None else 0.0
    if name in CONVOLUTIONS and len(dims) > 1 and len(dims[0]) > 2:
        return float(dims[0][0] * dims[1][0] * math.prod(dims[0][2:]))  # of stride 1: no more than that
    if name == "aten::convolution_backward" and len(dims) > 1:
        return float(math.prod(dims[1]))  # the gradient of what it was given
    if "attention" in name:
        return float(math.prod(dims[0]))
    if name == "aten::cat":
        return float(sum(math.prod(d) for d in dims))
    longest = max(map(len, dims))
    return float(math.prod(map(max, zip(*([1] * (longest - len(d)) + d for d in dims)))))
