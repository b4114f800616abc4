"""What operations cost on a CPU whatever they compute, and what they compute."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict

import numpy as np

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans

OF_PARTS = re.compile(r"(autograd::engine::evaluate_function: )?(Select|Slice)Backward\d*")
"""Nodes that give a part's gradient the size of the whole tensor, with zeros, and add it to those of the others: that many times only
because the parts were taken one by one."""
OP_US = 5.0
"""An operation on a CPU, as recorded, that has next to nothing to compute takes no longer."""
RECORDED = 2.5
"""Times as long as without a profiler takes, recorded, what operations and Python cost besides their computing: 6.9 µs an operation
of SGD with momentum, for 2.5. Computing is slowed by nothing but new memory (``fresh.py``)."""


def computing(facts: Facts, within: Spans) -> float:
    """Microseconds of the operations that start within these spans which go into what they compute. How much that is of an operation
    is told by its like, of one name and shapes, in the middle: at times another program had the core, whatever the operation."""
    ops = facts.trace.ops
    times: dict[tuple[int, tuple[tuple[int, ...], ...]], list[float]] = defaultdict(list)
    for row in np.flatnonzero(spans.within(within, ops.start)).tolist():
        if float(ops.self_dur[row]) > OP_US and any(OF_PARTS.fullmatch(facts.op_name(a)) for a in facts.ancestors(row)):
            continue
        times[int(ops.name[row]), tuple(map(tuple, facts.dims_of(row)))].append(float(ops.self_dur[row]))
    whole = sum(sum(each) * (1.0 - OP_US / max(OP_US, statistics.median(each))) for each in times.values())
    return min(whole, spans.measure(within))
