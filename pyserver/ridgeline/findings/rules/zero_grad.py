"""``zero-grad``: gradients are filled with zeros instead of dropped."""

from __future__ import annotations

import math
import re

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import together
from ridgeline.findings.stretches import time_of
from ridgeline.profile import SourceRef

BY_HAND = re.compile(r"\.grad\b.*\.(zero_|fill_)\(|_foreach_zero_\(")
"""``p.grad.zero_()``, ``p.grad.data.fill_(0)``: what ``zero_grad`` did before it could drop gradients."""
PAGED = 32 * 1024
"""Numbers of a gradient from which the C library may give its memory back to the system (128 kB, ``M_MMAP_THRESHOLD`` and
``M_TRIM_THRESHOLD`` of mallopt(3)): made anew it costs page faults, 1.8 µs for 4 kB on the machine of the tests, which is about what
zeroing and adding cost. Whether it happens depends on the heap; one program gained 15 % in one process and lost 25 % in another."""
PAGES = (
    " Time it: on a CPU memory for large gradients may have to come from the system each time, which can cost as much."
)
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
    pages = facts.on_cpu and any(math.prod(dims) >= PAGED for r in rows for dims in facts.all_dims_of(r))
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
            saving_us=saving if judged else None,
            claims=claims if judged else None,
            noted=True,
            evidence={"gradients_per_step": gradients, "pages_may_cost_it": pages}
            | ({} if by_hand else {"mend": "zero-grad-set-to-none"}),
        )
    ]


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
