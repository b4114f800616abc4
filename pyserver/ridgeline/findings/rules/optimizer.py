"""``single-tensor-optimizer``: the optimizer updates parameter after parameter; ``zero-grad``: gradients are filled with
zeros instead of dropped."""

from __future__ import annotations

from collections import defaultdict

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef

OPS_PER_STEP = 40
"""Leaf operations of one optimizer step. A fused or foreach step takes a handful; a single-tensor one four to twelve for
each parameter, so this is the update of a model of three layers."""
FUSED_WORDS = ("_fused_", "_foreach_", "multi_tensor_apply")
HAS_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
DEVICE_SPEEDUP = 8.0
CPU_SPEEDUP = 3.0
"""Of the step of the optimizer once it is fused; measured with AdamW and SGD on layers of 256 to 1024."""
ZERO_OPS = ("aten::zero_", "aten::_foreach_zero_", "aten::fill_")


def rule(facts: Facts) -> list[Candidate]:
    return _single_tensor(facts) + _zero_grad(facts)


def _single_tensor(facts: Facts) -> list[Candidate]:
    found = []
    by_name: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for tid, entries in facts.optimizer_spans.items():
        for lo, hi, name in entries:
            if name.startswith("Optimizer.step#") and facts.within(lo):
                by_name[name].append((tid, lo, hi))
    for name, calls in by_name.items():
        leaves, fused = 0, False
        for tid, lo, hi in calls:
            rows = facts.ops_between(tid, lo, hi)
            names = [facts.op_name(r) for r in rows] + [
                facts.event_name(e) for e in facts.events_launched_between(tid, lo, hi)
            ]
            fused = fused or any(word in n for n in names for word in FUSED_WORDS)
            leaves += (
                sum(not facts.has_children(r) for r in rows)
                if facts.on_cpu
                else len(facts.events_launched_between(tid, lo, hi))
            )
        if fused or leaves / len(calls) < OPS_PER_STEP:
            continue
        found.append(_candidate(facts, name.split("#", 1)[1].split(".", 1)[0], calls, leaves))
    return found


def _candidate(facts: Facts, kind: str, calls: list[tuple[int, float, float]], leaves: int) -> Candidate:
    claims, device_us = _time_of(facts, calls)
    cost = spans.measure(claims)
    fused = kind in HAS_FUSED
    speedup = CPU_SPEEDUP if facts.on_cpu else DEVICE_SPEEDUP
    judged = facts.judged
    return Candidate(
        code="single-tensor-optimizer",
        title="The optimizer updates one tensor after another",
        fact=f"{kind}.step issues {leaves / len(calls):.0f} operations one by one"
        + (
            f" and takes {words.time(facts.per_step(cost))} {facts.per}."
            if judged
            else f"; their work is {words.time(facts.per_step(device_us))} {facts.per}."
        ),
        advice=f"{kind}(..., fused=True) updates all parameters in one pass."
        if fused
        else f"{kind}(..., foreach=True) updates them together.",
        at=_line(facts, calls[0]),
        cost_us=cost if judged else None,
        saving_us=cost * (1.0 - 1.0 / speedup) if judged else None,
        claims=claims if judged else None,
        evidence={
            "operations_per_step": leaves / len(calls),
            "threshold_per_step": OPS_PER_STEP,
            "optimizer": kind,
            "assumed_speedup": speedup,
            **({"mend": "fused-optimizer"} if fused else {}),
        },
    )


def _time_of(facts: Facts, calls: list[tuple[int, float, float]]) -> tuple[Spans, float]:
    """On a CPU the calls themselves; on a device its work launched within them with the gaps before it."""
    if facts.on_cpu:
        claims = facts.clip(spans.of((lo, hi) for _, lo, hi in calls))
        return claims, spans.measure(claims)
    rows = sorted({e for tid, lo, hi in calls for e in facts.events_launched_between(tid, lo, hi)})
    mine = set(rows)
    gaps = facts.clip(spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in mine))
    busy = facts.queue.critical(rows)
    device_us = float(facts.trace.device_events.dur[rows].sum()) if rows else 0.0
    return spans.together(spans.subtract(gaps, facts.queue.excused), busy), device_us


def _line(facts: Facts, call: tuple[int, float, float]) -> SourceRef | None:
    tid, lo, hi = call
    return facts.context.attribution.host_line(tid, lo) or facts.context.attribution.host_line(tid, (lo + hi) / 2)


def _zero_grad(facts: Facts) -> list[Candidate]:
    rows: list[int] = []
    places: dict[int, SourceRef | None] = {}
    for row in map(int, facts.ops_named(*ZERO_OPS)):
        top = facts.outermost(row)
        tid, start = int(facts.trace.ops.tid[top]), float(facts.trace.ops.start[top])
        named = any(
            n.startswith("Optimizer.zero_grad") and lo <= start < hi for lo, hi, n in facts.optimizer_spans.get(tid, [])
        )
        at = facts.line_of_op(top)
        if top == row and (named or (at is not None and "zero_grad(" in (at.text or ""))):
            rows.append(row)
            places[row] = at
    if not rows:
        return []
    tids = {int(facts.trace.ops.tid[r]) for r in rows}
    stretches = [
        (tid, float(facts.trace.ops.start[r]), facts.op_end(r))
        for r in rows
        for tid in tids
        if tid == int(facts.trace.ops.tid[r])
    ]
    claims, device_us = _time_of(facts, stretches)
    cost = spans.measure(claims)
    judged = facts.judged
    return [
        Candidate(
            code="zero-grad",
            title="Gradients are filled with zeros",
            fact=f"zero_grad writes zeros to {len(rows) / facts.n:.3g} gradients {facts.per}"
            + (
                f", {words.time(facts.per_step(cost))},"
                if judged
                else f", {words.time(facts.per_step(device_us))} of device work,"
            )
            + " and the backward pass then adds to them.",
            advice="Drop set_to_none=False: gradients are then made anew, which is the default and is cheaper.",
            at=places[rows[0]],
            cost_us=cost if judged else None,
            saving_us=cost if judged else None,
            claims=claims if judged else None,
            noted=True,
            evidence={"gradients_per_step": len(rows) / facts.n, "mend": "zero-grad-set-to-none"},
        )
    ]
