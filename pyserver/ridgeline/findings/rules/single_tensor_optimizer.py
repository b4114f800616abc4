"""``single-tensor-optimizer``: the optimizer updates parameter after parameter."""

from __future__ import annotations

from collections import defaultdict

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.stretches import time_of
from ridgeline.profile import SourceRef

OPS_PER_STEP = 40
"""Leaf operations of one optimizer step. A fused or foreach step takes a handful; a single-tensor one four to twelve for
each parameter, so this is the update of a model of three layers."""
FUSED_WORDS = ("_fused_", "_foreach_", "multi_tensor_apply")
HAS_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
HAS_FOREACH = (*HAS_FUSED, "Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
"""torch's own; what another optimizer can do is not known."""
CPU_LOUD_PCT = 5.0
"""Of the step, on a CPU. There one tensor after another is torch's default, so every program does it; below this it is no
more than a hint."""
DEVICE_SPEEDUP = 8.0
CPU_SPEEDUP = 3.0
"""Of the step of the optimizer once it is fused; measured with AdamW and SGD on layers of 256 to 1024."""


def rule(facts: Facts) -> list[Candidate]:
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
    claims, device_us = time_of(facts, calls)
    speedup = CPU_SPEEDUP if facts.on_cpu else DEVICE_SPEEDUP
    saving = facts.real(claims) * (1.0 - 1.0 / speedup)
    if not facts.on_cpu and facts.judged:
        change = facts.whatif.without(calls, part=1.0 / speedup)
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
    cost = facts.real(claims)
    fused, known = kind in HAS_FUSED, kind in HAS_FOREACH
    judged = facts.judged
    default = facts.on_cpu and saving < CPU_LOUD_PCT / 100.0 * facts.base_us
    return Candidate(
        code="single-tensor-optimizer",
        title="The optimizer updates one tensor after another",
        fact=f"{kind}.step issues {words.count(leaves / len(calls))} operations one by one"
        + (
            f" and takes {words.time(facts.per_step(cost))} {facts.per}."
            if judged
            else f"; their work is {words.time(facts.per_step(device_us))} {facts.per}."
        ),
        advice=f"{kind}(..., fused=True) updates all parameters in one pass."
        if fused
        else f"{kind}(..., foreach=True) updates them together."
        if known
        else "If it is yours: torch._foreach_* functions update all parameters in one call each.",
        at=_line(facts, calls[0]),
        cost_us=cost if judged else None,
        saving_us=saving if judged and known else None,
        claims=claims if judged and known else None,
        hint=not known or default,
        evidence={
            "operations_per_step": leaves / len(calls),
            "threshold_per_step": OPS_PER_STEP,
            "optimizer": kind,
            "assumed_speedup": speedup,
            **({"mend": "fused-optimizer"} if fused else {}),
        },
    )


def _line(facts: Facts, call: tuple[int, float, float]) -> SourceRef | None:
    tid, lo, hi = call
    return facts.context.attribution.host_line(tid, lo) or facts.context.attribution.host_line(tid, (lo + hi) / 2)
