"""From an op of the backward pass to the forward op that made its node.

Autograd numbers its nodes per forward thread; an op records the number that the next node will get, so the *last* forward
op with a number is the one that made the node. ``Fwd thread id`` is torch's own numbering of threads (or, in some
recordings, the operating system's), so which thread it means is found from the numbers that both sides hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ridgeline.attribution.host import nearest_ancestor
from ridgeline.trace.tables import I32, I64, Trace

_EVALUATE = "autograd::engine::evaluate_function: "
_BACKWARD = re.compile(r"^(?P<op>\w+?)Backward\d*$")


@dataclass(slots=True)
class BackwardMap:
    node: I32
    """For every op the nearest of it and its ancestors that is a node of the backward pass, -1 outside of one."""
    forward: I32
    """For every op the forward op that made that node, -1 for none."""


def backward_map(trace: Trace) -> BackwardMap:
    ops = trace.ops
    n = len(ops.name)
    engine = (
        np.array([text.startswith(_EVALUATE) for text in trace.strings], dtype=bool)
        if trace.strings
        else np.zeros(0, bool)
    )
    is_node = ops.forward_thread > 0
    if n:
        is_node = is_node | engine[ops.name]
    node = nearest_ancestor(trace, is_node)
    forward: I32 = np.full(n, -1, dtype=np.int32)
    made = np.flatnonzero((ops.sequence >= 0) & (ops.forward_thread == 0) & ~is_node)
    asked = np.flatnonzero(is_node & (ops.sequence >= 0) & (ops.forward_thread > 0))
    if len(made) and len(asked):
        per_node = _match(trace, made, asked)
        forward = np.where(node >= 0, per_node[np.maximum(node, 0)], -1).astype(np.int32)
        # The engine's wrapper holds the same number as the node inside; where only one of them has it, take that one.
        bare = np.flatnonzero((node >= 0) & (forward < 0))
        above = np.where(node[bare] >= 0, ops.parent[np.maximum(node[bare], 0)], -1)
        outer = np.where(above >= 0, node[np.maximum(above, 0)], -1)
        forward[bare] = np.where(outer >= 0, per_node[np.maximum(outer, 0)], -1)
    return BackwardMap(node=node, forward=forward)


def _match(trace: Trace, made: I64, asked: I64) -> I32:
    """For the ops ``asked`` their forward op, in an array over all ops."""
    ops = trace.ops
    found: I32 = np.full(len(ops.name), -1, dtype=np.int32)
    threads = thread_of_forward(trace, made, asked)
    for number, tid in threads.items():
        wanted = asked[ops.forward_thread[asked] == number]
        mine = made[ops.tid[made] == tid]
        order = mine[np.lexsort((ops.start[mine], ops.sequence[mine]))]
        keys = ops.sequence[order]
        # The last op of the number that began before the node ran.
        right = np.searchsorted(keys, ops.sequence[wanted], side="right")
        left = np.searchsorted(keys, ops.sequence[wanted], side="left")
        for row, low, high in zip(wanted.tolist(), left.tolist(), right.tolist()):
            before = order[low:high]
            before = before[ops.start[before] < ops.start[row]]
            if len(before):
                found[row] = before[-1]
    return found


def thread_of_forward(trace: Trace, made: I64, asked: I64) -> dict[int, int]:
    """``Fwd thread id`` -> tid of the thread whose forward ops it numbers; only those that are sure."""
    ops = trace.ops
    numbers = [int(v) for v in np.unique(ops.forward_thread[asked])]
    tids = [int(v) for v in np.unique(ops.tid[made])]
    if any(number in tids for number in numbers):  # the operating system's own ids
        return {number: number for number in numbers if number in tids}
    if len(numbers) == 1 and len(tids) == 1:
        return {numbers[0]: tids[0]}
    sequences = {tid: _kinds(trace, made[ops.tid[made] == tid]) for tid in tids}
    result: dict[int, int] = {}
    for number in numbers:
        nodes = asked[ops.forward_thread[asked] == number]
        scores = sorted(((_agreement(trace, nodes, sequences[tid]), tid) for tid in tids), reverse=True)
        if scores and scores[0][0] > 0 and (len(scores) == 1 or scores[0][0] > scores[1][0]):
            result[number] = scores[0][1]
    return result


def _kinds(trace: Trace, rows: I64) -> dict[int, set[str]]:
    kinds: dict[int, set[str]] = {}
    for sequence, name in zip(trace.ops.sequence[rows].tolist(), trace.ops.name[rows].tolist()):
        kinds.setdefault(sequence, set()).add(_plain(trace.strings[name]))
    return kinds


def _agreement(trace: Trace, nodes: I64, kinds: dict[int, set[str]]) -> int:
    """How many nodes have a forward op of their number and kind on a thread."""
    score = 0
    for sequence, name in zip(trace.ops.sequence[nodes].tolist(), trace.ops.name[nodes].tolist()):
        match = _BACKWARD.match(trace.strings[name].removeprefix(_EVALUATE))
        if match is not None and sequence in kinds and any(k.startswith(_plain(match["op"])) for k in kinds[sequence]):
            score += 1
    return score


def _plain(name: str) -> str:
    return name.rpartition("::")[2].replace("_", "").lower()
