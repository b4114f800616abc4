"""``zero-grad``: gradients are filled with zeros instead of dropped."""

from __future__ import annotations

import math
import re

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import together
from ridgeline.findings.stretches import time_of
from ridgeline.profile import SourceRef

BY_HAND = re.compile(r"\.grad\b.*\.(zero_|fill_)\(|_foreach_zero_\(")
"""``p.grad.zero_()``, ``p.grad.data.fill_(0)``: what ``zero_grad`` did before it could drop gradients."""
PAGED = 128 * 1024
"""Bytes of a gradient from which the C library may give its memory back to the system (``M_MMAP_THRESHOLD`` of mallopt(3))."""
MAPPED = 32 * 2**20
"""Bytes from which it always does, whatever was freed before (``DEFAULT_MMAP_THRESHOLD_MAX``): what adds to a gradient is then made of
new pages as well as the gradient that takes its place."""
KEPT = 2
"""Times the largest block that was freed: what it keeps at the heap's end (``M_TRIM_THRESHOLD``). Where all gradients fit in that, none
costs page faults when it is made anew. Where they do not, five programs had 0 to 5,600 of them a step, differently in every
process, and gained 35 % or lost 15 %; with all memory kept they gained what the rule says or somewhat more."""
PAGES = (
    " Time it: on a CPU memory for these gradients may have to come from the system each time, which can cost as much, so no saving "
    "is promised."
)
ITEMSIZE = {"double": 8, "float": 4, "c10::Half": 2, "c10::BFloat16": 2}
NODE = re.compile(r"\w+Backward\d*")
"""A node of the backward pass; what it is given was made in this step and is freed in it."""
ZERO_OPS = ("aten::zero_", "aten::_foreach_zero_", "aten::fill_")


def rule(facts: Facts) -> list[Candidate]:
    rows: list[int] = []
    places: dict[int, SourceRef | None] = {}
    for row in map(int, facts.ops_named(*ZERO_OPS)):
        top = facts.outermost(row)
        tid, start = int(facts.trace.ops.tid[top]), float(facts.trace.ops.start[top])
        named = any(
            n.startswith("Optimizer.zero_grad") and lo <= start < hi for lo, hi, n in facts.optimizer_spans.get(tid, [])
        )
        at = facts.line_of_op(top)
        by_hand = at is not None and BY_HAND.search(at.text or "") is not None
        if top == row and (named or by_hand or (at is not None and "zero_grad(" in (at.text or ""))):
            rows.append(row)
            places[row] = at
    if not rows:
        return []
    ops = facts.trace.ops
    stretches = [(int(ops.tid[r]), float(ops.start[r]), facts.op_end(r)) for r in rows]
    claims, device_us = time_of(facts, stretches)
    added = _additions(facts, rows)
    if facts.on_cpu or not facts.judged:
        claims = spans.together(claims, facts.claims_of(added))
        saving = facts.real(claims)
    else:
        change = together(facts.whatif.without(stretches), facts.whatif.without_ops(_ops(facts, added)))
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
    cost = facts.real(claims)
    judged = facts.judged
    gradients = sum(max(1, len(facts.all_dims_of(r))) for r in rows) / facts.n
    first = places[rows[0]]
    by_hand = first is not None and BY_HAND.search(first.text or "") is not None
    pages = facts.on_cpu and _may_need_pages(facts, rows)
    return [
        Candidate(
            code="zero-grad",
            title="Gradients are filled with zeros",
            fact=f"{'The loop' if by_hand else 'zero_grad'} writes zeros to {words.count(gradients)} gradients {facts.per}"
            + (
                f", and the backward pass adds to them: {words.time(facts.per_step(cost))}."
                if judged
                else f" ({words.time(facts.per_step(device_us))} of device work), and the backward pass adds to them."
            ),
            advice=(
                "Drop gradients instead (p.grad = None, or optimizer.zero_grad()): they are then made anew, which is cheaper."
                if by_hand
                else "Drop set_to_none=False: gradients are then made anew, which is the default and is cheaper."
            )
            + (PAGES if pages else ""),
            at=first,
            cost_us=cost if judged else None,
            known_us=device_us + facts.time_of(added),
            saving_us=saving if judged and not pages else None,
            claims=claims if judged and not pages else None,
            noted=True,
            evidence={"gradients_per_step": gradients, "pages_may_cost_it": pages}
            | ({} if by_hand else {"mend": "zero-grad-set-to-none"}),
        )
    ]


def _may_need_pages(facts: Facts, zeroed: list[int]) -> bool:
    """Whether gradients that are made anew may be more than what the C library keeps for them: those that are zeroed now, those that
    are dropped already, and what the optimizer makes of all of them at once."""
    kept = [n for r in zeroed for n in _bytes(facts, r)]
    if not any(PAGED <= n <= MAPPED for n in kept):
        return False
    nodes = [i for i, text in enumerate(facts.names) if NODE.fullmatch(text)]
    backward = np.flatnonzero(np.isin(facts.trace.ops.name, nodes) & facts.all_within(facts.trace.ops.start)).tolist()
    freed = [n for r in backward for n in _bytes(facts, r)]
    new = [
        r
        for r in facts.ops_named("torch::autograd::AccumulateGrad").tolist()
        if not facts.children_named(r, "aten::add_")
    ]
    dropped = [n for r in new for n in _bytes(facts, r)]
    made = sum(sum(_bytes(facts, r)) // _lists(facts, r) for r in _foreach_results(facts))
    at_once = (sum(n for n in [*kept, *dropped] if n <= MAPPED) + made) / facts.n
    return at_once > KEPT * max(n for n in [*kept, *freed] if n <= MAPPED)


def _foreach_results(facts: Facts) -> list[int]:
    """Operations of optimizers that make tensors of all parameters at once: ``_foreach_lerp``, not ``_foreach_lerp_``."""
    ops = facts.trace.ops
    names = [n for n in facts.names if n.startswith("aten::_foreach_") and not n.endswith("_")]
    return [int(r) for r in facts.ops_named(*names) if facts.in_optimizer(int(ops.tid[r]), float(ops.start[r]))]


def _lists(facts: Facts, op: int) -> int:
    """How many lists of tensors an operation takes."""
    args = int(facts.trace.ops.args[op])
    given = (facts.trace.op_args.input_dims[args] or []) if args >= 0 else []
    return max(1, sum(isinstance(d, (list, tuple)) and bool(d) and isinstance(d[0], (list, tuple)) for d in given))


def _bytes(facts: Facts, op: int) -> list[int]:
    """Of the tensors that an operation takes."""
    size = max((ITEMSIZE.get(kind, 0) for kind in facts.types_of(op)), default=0) or ITEMSIZE["float"]
    return [size * math.prod(dims) for dims in facts.all_dims_of(op)]


def _ops(facts: Facts, rows: list[int]) -> list[int]:
    """The additions themselves, of which the kernels are."""
    return [
        next(a for a in facts.ancestors(int(facts.work.op[row])) if facts.op_name(a) == "aten::add_") for row in rows
    ]


def _additions(facts: Facts, zeroed: list[int]) -> list[int]:
    """Work that adds a gradient to one that was filled with zeros: of every zeroed gradient the first addition. Where there
    is none, autograd keeps the new gradient as it is; a second addition (accumulation, a second loss) is made all the same."""
    ops = facts.trace.ops
    adding = [
        r
        for r in facts.recorded_work
        if facts.work.op[r] >= 0
        and (chain := facts.chain_of(r))
        and "aten::add_" in chain
        and "torch::autograd::AccumulateGrad" in chain
    ]
    order = [(float(ops.start[r]), max(1, len(facts.all_dims_of(r))), -1) for r in zeroed]
    order += [(float(ops.start[facts.work.op[r]]), 0, r) for r in adding]
    found: list[int] = []
    left, added = 0, False
    for _, gradients, row in sorted(order):
        if gradients:
            left, added = (0 if added else left) + gradients, False
        else:
            added = True
            if left > 0:
                found.append(row)
                left -= 1
    return found
