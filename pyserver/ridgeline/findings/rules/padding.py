"""``padding``: part of the products and of attention is done on padding. Weighed by their measured time."""

from __future__ import annotations

from dataclasses import asdict

from ridgeline.findings import padding as model
from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import product_of
from ridgeline.findings.places import related
from ridgeline.profile import Padding, PaddingPlan, SourceRef

USEFUL_PCT = 80.0
"""Of linear layers. More than this is left alone: sorting by length costs randomness, and aligned sizes waste some."""
FLOOR = 0.25
"""A product does not get faster than this part of its time by getting smaller: small ones are limited by launch and
latency, which stay."""
SECONDS_A_DAY = 86_400.0
NEARLY = 0.9
"""Of the best plan's saving: a plan that asks for less is preferred to the last tenth."""
PADDING_FREE = "padding-free"
ATTENTION_WORDS = ("attention", "flash", "fmha", "softmax")


def rule(facts: Facts) -> list[Candidate]:
    measured = measure(facts)
    if measured is None or measured.linear_useful_pct >= USEFUL_PCT:
        return []
    rows = _linear_rows(facts) + _attention_rows(facts)
    claims, total = facts.claims_of(rows), facts.time_of(rows)
    named = _worth_naming(measured.plans)
    at = SourceRef(file=measured.file, line=measured.line) if measured.file and measured.line else None
    promised = next((plan for plan in named if plan.name != PADDING_FREE), None)
    per_step = (promised.saving_us or 0.0) if promised is not None else 0.0
    return [
        Candidate(
            code="padding",
            title="Work on padding",
            fact=f"{words.percent(100 - measured.linear_useful_pct)} of the linear layers' work and "
            f"{words.percent(100 - measured.attention_useful_pct)} of attention's is done on padding "
            f"({measured.batches} batches looked at); together they take {words.time(facts.per_step(total))} {facts.per}.",
            advice="; ".join(_told(facts, plan) for plan in named) + _rate(measured) + ".",
            at=at,
            cost_us=total,
            saving_us=min(per_step * facts.n, spans.measure(claims)),
            claims=claims,
            evidence={
                "linear_useful_pct": measured.linear_useful_pct,
                "attention_useful_pct": measured.attention_useful_pct,
                "plans": [asdict(plan) for plan in measured.plans],
                "related": related(facts, facts.by_line(rows), at, "of products and attention"),
                "promised": promised.name if promised is not None else None,
                "steps_per_day": measured.steps_per_day,
                "threshold_pct": USEFUL_PCT,
                "floor": FLOOR,
            },
        )
    ]


def _worth_naming(plans: list[PaddingPlan]) -> list[PaddingPlan]:
    """The simplest plan that reaches nearly what the best of its kind does, and the one without padding, the first of all
    being the one that is promised."""
    padded = [p for p in plans if p.name != PADDING_FREE]
    best = max((p.saving_us or 0.0 for p in padded), default=0.0)
    simple = next((p for p in padded if (p.saving_us or 0.0) >= NEARLY * best), None)
    first = padded[0] if padded and padded[0] is not simple and (padded[0].saving_us or 0.0) > 0 else None
    return [p for p in (simple, first, *(p for p in plans if p.name == PADDING_FREE)) if p is not None]


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
    rate = _steps_per_day(facts)
    plans = _plans(facts, batches)
    for plan in plans:
        plan.saving_s_per_day = plan.saving_us * rate / 1e6 if plan.saving_us is not None and rate else None
    place = _place(facts)
    return Padding(
        batches=len(batches),
        linear_useful_pct=100.0 * share.linear,
        attention_useful_pct=100.0 * share.attention,
        steps_per_day=rate,
        plans=plans,
        file=place.file if place else None,
        line=place.line if place else None,
    )


def _plans(facts: Facts, batches: list[model.Batch]) -> list[PaddingPlan]:
    """Static padding to the longest, to each batch's longest, buckets, and none at all; the plans that need no varlen
    kernel in the order of what they ask for."""
    linear, attention = (
        facts.per_step(facts.time_of(_linear_rows(facts))),
        facts.per_step(facts.time_of(_attention_rows(facts))),
    )

    def plan(name: str, need: model.Useful, detail: str, tops: list[int]) -> PaddingPlan:
        saving = _saving(linear, need.linear) + _saving(attention, need.attention)
        return PaddingPlan(
            name=name,
            saving_us=saving,
            detail=detail,
            bounds=tops,
            once_us=_compiling(facts, len(tops)) if tops else None,
        )

    every = [n for lengths, _ in batches for n in lengths]
    plans = []
    (longest,) = model.bounds(every, 1)
    if all(longest < size for _, size in batches):
        need = model.bucketed(batches, [longest])
        plans.append(
            plan(f"static padding to {longest}", need, f"the longest of {len(every)} sequences; one shape", [longest])
        )
    own = model.to_longest(batches)
    if own.linear < 1.0:
        detail = "a shape for nearly every batch: dynamic shapes, no CUDA graphs"
        plans.append(plan("each batch to its longest", own, detail, []))
    for count in model.BUCKETS:
        tops = model.bounds(every, count)
        if len(tops) < count:
            break
        need = model.bucketed(batches, tops)
        detail = f"bounds {', '.join(map(str, tops))}; {_shapes(facts, len(tops))}; batches drawn by length"
        plans.append(plan(f"{len(tops)} buckets", need, detail, tops))
    share, packed = model.useful(batches), model.packed_attention(batches)
    detail = (
        "cumulative lengths and a varlen attention kernel, a paged KV cache, mask and loss rewritten; without such a kernel "
        f"attention costs {packed:.2g} times what it costs now"
    )
    return [*plans, plan(PADDING_FREE, share, detail, [])]


def _shapes(facts: Facts, count: int) -> str:
    """What that many shapes ask for."""
    once = _compiling(facts, count)
    if once is None:
        return f"{count} shapes to compile or to capture as CUDA graphs"
    return f"{count} shapes, {count - 1} more compilations of the program (~{words.time(once)} once) or one dynamic shape, and a CUDA graph each"


def _compiling(facts: Facts, shapes: int) -> float | None:
    """Compiling the program for so many shapes instead of one, by what it took here; None if nothing was compiled."""
    took = [c.end_ns - c.start_ns for c in facts.sidecar.compiles] if facts.sidecar is not None else []
    first = [c for c in (facts.sidecar.compiles if facts.sidecar is not None else []) if _is_first(c.compile_id)]
    if not took:
        return None
    return sum(c.end_ns - c.start_ns for c in first) / 1e3 * (shapes - 1)


def _is_first(compile_id: str | None) -> bool:
    """Of a frame's compilations (``2/0``, ``2/1``: compiled again) the first."""
    return compile_id is None or compile_id.endswith("/0")


def _place(facts: Facts) -> SourceRef | None:
    """The loader's loop, else the call of the outermost module whose inputs were looked at."""
    sidecar = facts.sidecar
    loader = next((entry for entry in sidecar.loaders if entry.file), None) if sidecar is not None else None
    if loader is not None and loader.file and loader.line:
        return SourceRef(file=loader.file, line=loader.line)
    at = sidecar.lengths_at if sidecar is not None else None
    if at and len(at) == 2 and isinstance(at[0], str) and isinstance(at[1], int):
        return SourceRef(file=at[0], line=at[1])
    return None


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


def _steps_per_day(facts: Facts) -> float | None:
    """As the user says; else of steps one after another."""
    if facts.context.steps_per_day is not None:
        return facts.context.steps_per_day
    step = facts.document.totals.plain_step_us or facts.step_us
    return SECONDS_A_DAY * 1e6 / step if step > 0 else None


def _told(facts: Facts, plan: PaddingPlan) -> str:
    day = f", {_duration(plan.saving_s_per_day)} a day" if plan.saving_s_per_day else ""
    return f"{plan.name}: {words.time(plan.saving_us or 0.0)} {facts.per}{day} ({plan.detail})"


def _rate(measured: Padding) -> str:
    return f" at {measured.steps_per_day:,.0f} steps a day" if measured.steps_per_day else ""


def _duration(seconds: float) -> str:
    """``2.6 h``, ``40 min``, ``12 s``."""
    if seconds >= 3600:
        return f"{seconds / 3600:.2g} h"
    return f"{seconds / 60:.2g} min" if seconds >= 60 else f"{seconds:.2g} s"
