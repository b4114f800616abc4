"""``padding``: part of the products and of attention is done on padding. Weighed by their measured time."""

from __future__ import annotations

from ridgeline.findings import padding as model
from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import product_of
from ridgeline.profile import Padding, PaddingPlan, SourceRef

USEFUL_PCT = 80.0
"""Of linear layers. More than this is left alone: sorting by length costs randomness, and aligned sizes waste some."""
FLOOR = 0.25
"""A product does not get faster than this part of its time by getting smaller: small ones are limited by launch and
latency, which stay."""
SECONDS_A_DAY = 86_400.0
ATTENTION_WORDS = ("attention", "flash", "fmha", "softmax")


def rule(facts: Facts) -> list[Candidate]:
    measured = measure(facts)
    if measured is None or measured.linear_useful_pct >= USEFUL_PCT:
        return []
    rows = _linear_rows(facts) + _attention_rows(facts)
    claims, total = facts.claims_of(rows), facts.time_of(rows)
    best = max(measured.plans, key=lambda plan: plan.saving_us or 0.0, default=None)
    per_step = best.saving_us if best is not None and best.saving_us else 0.0
    at = SourceRef(file=measured.file, line=measured.line) if measured.file and measured.line else None
    return [
        Candidate(
            code="padding",
            title="Work on padding",
            fact=f"{words.percent(100 - measured.linear_useful_pct)} of the linear layers' work and "
            f"{words.percent(100 - measured.attention_useful_pct)} of attention's is done on padding "
            f"({measured.batches} batches looked at); together they take {words.time(facts.per_step(total))} {facts.per}.",
            advice="; ".join(
                f"{plan.name}: {words.time(plan.saving_us or 0.0)} {facts.per}, {_per_day(facts, plan)} ({plan.detail})"
                for plan in measured.plans
            )
            + ".",
            at=at,
            cost_us=total,
            saving_us=min(per_step * facts.n, spans.measure(claims)),
            claims=claims,
            evidence={
                "linear_useful_pct": measured.linear_useful_pct,
                "attention_useful_pct": measured.attention_useful_pct,
                "plans": [{"name": p.name, "saving_us": p.saving_us, "detail": p.detail} for p in measured.plans],
                "threshold_pct": USEFUL_PCT,
                "floor": FLOOR,
            },
        )
    ]


def measure(facts: Facts) -> Padding | None:
    """``ProfileDocument.padding`` from the sampled lengths; None where none were sampled."""
    sidecar = facts.sidecar
    if sidecar is None or not sidecar.lengths or not sidecar.padded_to:
        return None
    batches: list[model.Batch] = [
        (lengths, size) for lengths, size in zip(sidecar.lengths, sidecar.padded_to) if lengths and size > 0
    ]
    if not batches:
        return None
    share = model.useful(batches)
    linear, attention = (
        facts.per_step(facts.time_of(_linear_rows(facts))),
        facts.per_step(facts.time_of(_attention_rows(facts))),
    )
    every = [n for lengths, _ in batches for n in lengths]
    plans: list[PaddingPlan] = []
    for count in model.BUCKETS:
        tops = model.bounds(every, count)
        if len(tops) < count and plans:
            break
        need = model.bucketed(batches, tops)
        plans.append(
            PaddingPlan(
                name=f"{len(tops)} buckets",
                saving_us=_saving(linear, need.linear) + _saving(attention, need.attention),
                detail=f"bounds {', '.join(map(str, tops))}; {len(tops)} shapes to compile or to capture as CUDA graphs",
            )
        )
    packed = model.packed_attention(batches)
    plans.append(
        PaddingPlan(
            name="padding-free",
            saving_us=_saving(linear, share.linear) + _saving(attention, share.attention),
            detail="cumulative lengths and a varlen attention kernel, a paged KV cache, mask and loss rewritten; without such a kernel "
            f"attention costs {packed:.2g} times what it costs now",
        )
    )
    loader = next((entry for entry in sidecar.loaders if entry.file), None)
    return Padding(
        batches=len(batches),
        linear_useful_pct=100.0 * share.linear,
        attention_useful_pct=100.0 * share.attention,
        plans=plans,
        file=loader.file if loader else None,
        line=loader.line if loader else None,
    )


def _saving(time_us: float, needed: float) -> float:
    return time_us * (1.0 - max(FLOOR, min(1.0, needed)))


def _linear_rows(facts: Facts) -> list[int]:
    found = []
    for row in facts.recorded_work:
        op = product_of(facts, row)
        if op >= 0 and facts.op_name(op) in ("aten::mm", "aten::addmm") and not _is_attention(facts, row):
            found.append(row)
    return found


def _attention_rows(facts: Facts) -> list[int]:
    return [r for r in facts.recorded_work if _is_attention(facts, r)]


def _is_attention(facts: Facts, row: int) -> bool:
    name = facts.names[int(facts.work.name[row])].lower()
    return any(word in name for word in ATTENTION_WORDS) or any(
        "attention" in text or text == "aten::bmm" for text in facts.chain_of(row)
    )


def _per_day(facts: Facts, plan: PaddingPlan) -> str:
    step = facts.document.totals.plain_step_us or facts.step_us
    if step <= 0 or plan.saving_us is None:
        return "unknown a day"
    return f"{SECONDS_A_DAY * plan.saving_us / step / 3600:.2g} h of a day of such steps"
