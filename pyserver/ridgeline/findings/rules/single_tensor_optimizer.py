"""``single-tensor-optimizer``: the optimizer updates parameter after parameter."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.overhead import RECORDED
from ridgeline.findings.places import RELATED
from ridgeline.findings.stretches import Stretch, time_of
from ridgeline.findings.updates import SMALL, Own, by_hand, left_on_cpu, own, together
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
"""Of the step of the optimizer once it is fused."""
PASSES = {"SGD": 3, "Adam": 7, "AdamW": 7, "Adagrad": 5}
"""Tensors that a fused update reads and writes, once each: parameter and gradient, parameter written back, and every state both
ways. Plain SGD does the same one by one: fused it took 0.98 to 1.35 times as long for tensors of 256 x 256 and more."""
MOMENTUM_PASSES = 6.5
"""Of SGD with momentum, which multiplies its state in every step. Five; but most of its time goes into fetching parameter, gradient and
state once, as it does when fused: of four operations' computing 0.76, 0.68, 0.42, 0.52, 0.51, 0.41 stayed for tensors of 64 x 64 to
2048 x 2048."""
KEPT_OPS = {"SGD": 0.6}
KEPT_OPS_WITH_STEP = 1.6
"""What of the operations' own cost (dispatch, Python) a fused update keeps for each parameter, in operations: it still collects
parameters and states, and all but SGD count their steps. On a Xeon with 64 numbers a parameter 1.2 µs of 2.4 (SGD), 1.8 of 9.8
(four operations, with momentum), 4.6 of 29 (ten, Adam), 3.9 of 14.4 (six, Adagrad)."""
OP_US = 5.0
"""An operation on a CPU, as recorded, that has next to nothing to compute takes no longer."""


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
        kind = name.split("#", 1)[1].split(".", 1)[0]
        mine = own(facts, calls)
        found.append(
            _candidate(facts, kind, calls, leaves)
            if mine is None
            else _of_the_program(facts, kind, calls, leaves, mine)
        )
    others = [_of_the_program(facts, None, calls, len(loop.ops), loop) for loop, calls in by_hand(facts, OPS_PER_STEP)]
    return [*found, *others]


def _of_the_program(facts: Facts, kind: str | None, calls: list[Stretch], leaves: int, mine: Own) -> Candidate:
    """An optimizer in the program's own text, or, without a ``kind``, another loop over parameters."""
    claims, device_us = time_of(facts, calls)
    left = left_on_cpu(facts, calls, mine.ops, _computing(facts, mine.ops)) if facts.on_cpu else 1.0
    saving = facts.real(claims) * (1.0 - left)
    if not facts.on_cpu and facts.judged:
        change = together(facts, calls, mine.rounds)
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
    cost, judged = facts.real(claims), facts.judged
    return Candidate(
        code="single-tensor-optimizer",
        title=f"{'The optimizer' if kind else 'A loop over parameters'} updates one tensor after another",
        fact=f"{f'{kind}.step goes over its' if kind else 'This loop goes over'} parameters one by one: "
        f"{words.count(leaves / len(calls))} operations, "
        + (
            f"{words.time(facts.per_step(cost))} {facts.per}, most of them here."
            if judged
            else f"with {words.time(facts.per_step(device_us))} of work {facts.per}."
        ),
        advice="torch._foreach_* functions take the parameters as lists: as many calls as there are operations for one of them now"
        + (f" (on a CPU quicker up to about {SMALL:,} numbers each)." if facts.on_cpu else "."),
        at=mine.at,
        cost_us=cost if judged else None,
        known_us=device_us,
        saving_us=saving if judged else None,
        claims=claims if judged else None,
        hint=facts.on_cpu and saving < CPU_LOUD_PCT / 100.0 * facts.base_us,
        evidence={
            "operations_per_step": leaves / len(calls),
            "threshold_per_step": OPS_PER_STEP,
            "optimizer": kind,
            "times_round": mine.rounds,
            **({"assumed_speedup": 1.0 / left} if facts.on_cpu else {}),
            "related": [{"file": o.file, "line": o.line, "text": "of the same loop"} for o in mine.others[:RELATED]],
        },
    )


def _computing(facts: Facts, rows: list[int]) -> float:
    """What operations compute, above what each costs whatever it computes. Microseconds."""
    numbers = {row: max((math.prod(dims) for dims in facts.all_dims_of(row)), default=0) for row in rows}
    by_name: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        by_name[int(facts.trace.ops.name[row])].append(row)
    return sum(_computing_us(facts, named, numbers) for named in by_name.values())


def _candidate(facts: Facts, kind: str, calls: list[tuple[int, float, float]], leaves: int) -> Candidate:
    claims, device_us = time_of(facts, calls)
    left = _left_on_cpu(facts, kind, calls) if facts.on_cpu else 1.0 / DEVICE_SPEEDUP
    saving = facts.real(claims) * (1.0 - left)
    if not facts.on_cpu and facts.judged:
        change = facts.whatif.without(calls, part=left)
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
    cost = facts.real(claims)
    fused = kind in HAS_FUSED
    # On a CPU foreach goes over the tensors as well, with more memory for what lies between.
    known = fused or (kind in HAS_FOREACH and not facts.on_cpu)
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
        else f"torch has no fused {kind}, and on a CPU foreach=True is no faster once tensors have ten thousand numbers."
        if kind in HAS_FOREACH
        else "If it is yours: torch._foreach_* functions update all parameters in one call each.",
        at=_line(facts, calls[0]),
        cost_us=cost if judged else None,
        known_us=device_us,
        saving_us=saving if judged and known else None,
        claims=claims if judged and known else None,
        hint=not known or default,
        evidence={
            "operations_per_step": leaves / len(calls),
            "threshold_per_step": OPS_PER_STEP,
            "optimizer": kind,
            **({"assumed_speedup": 1.0 / left} if known else {}),
            **({"mend": "fused-optimizer"} if fused else {}),
        },
    )


def _left_on_cpu(facts: Facts, kind: str, calls: list[Stretch]) -> float:
    """What part of an optimizer's step stays once it is fused. Its operations cost something each, whatever they compute: of that
    some for each parameter stays. What they compute takes as long as the memory that they go over: of that stays what a fused
    update reads and writes."""
    rows = sorted({facts.outermost(r) for tid, lo, hi in calls for r in facts.ops_between(tid, lo, hi)})
    by_name: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        by_name[int(facts.trace.ops.name[row])].append(row)
    numbers = {row: max((math.prod(dims) for dims in facts.all_dims_of(row)), default=0) for row in rows}
    # One operation of each parameter: of a name that is not rare.
    usual = statistics.median(map(len, by_name.values()))
    once = min((r for r in by_name.values() if 2 * len(r) >= usual), key=len)
    gone_over = sum(numbers[r] * (1 + sum(bool(dims) for dims in facts.dims_of(r))) for r in rows)
    passes: float = PASSES.get(kind, 0)
    if kind == "SGD" and "aten::mul_" in {facts.names[name] for name in by_name}:
        passes = MOMENTUM_PASSES
    kept = min(1.0, passes * sum(numbers[r] for r in once) / gone_over) if gone_over else 1.0
    computing = sum(_computing_us(facts, named, numbers) for named in by_name.values())
    whole = spans.measure(facts.clip(spans.of((lo, hi) for _, lo, hi in calls)))
    own = max(0.0, whole - computing) / RECORDED
    kept_ops = min(1.0, KEPT_OPS.get(kind, KEPT_OPS_WITH_STEP) * len(once) / len(rows))
    return (computing * kept + own * kept_ops) / (computing + own) if computing + own > 0 else 1.0


def _computing_us(facts: Facts, rows: list[int], numbers: dict[int, int]) -> float:
    """Of operations of one name: what they take above the smallest of them. How much of its time that is of an operation is told by
    those of its size, in the middle: at times another program had the core."""
    of_size: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        of_size[numbers[row]].append(float(facts.trace.ops.dur[row]))
    floor = min(OP_US, statistics.median(of_size[min(of_size)]))
    return sum(
        sum(each) * (1.0 - floor / max(floor, statistics.median(each))) for each in of_size.values() if sum(each) > 0
    )


def _line(facts: Facts, call: tuple[int, float, float]) -> SourceRef | None:
    tid, lo, hi = call
    return facts.context.attribution.host_line(tid, lo) or facts.context.attribution.host_line(tid, (lo + hi) / 2)
