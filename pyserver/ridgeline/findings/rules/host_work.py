"""``host-work``: the device waits while the host does something that gives it no work: Python over files, texts or lists, a
metric, a log, a checkpoint. CUDA graphs do not help there; doing it less often, later, or in another process does. On a CPU, which
does all of it itself, it is such work in the steps while no operator runs."""

from __future__ import annotations

from ridgeline.findings import spans, words
from ridgeline.findings.arrays import on_arrays
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.places import RELATED, most_at
from ridgeline.findings.queue import LAUNCH_US
from ridgeline.findings.quiet import QUIET_US, Quiet
from ridgeline.findings.quiet_work import QuietWork, Work
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef

SHARE_PCT = 5.0
"""Of the step, as for the loader: both are the host's work that could be done beside the device's."""
PER_STEP = 0.5
"""Such gaps a step. Less often is an evaluation or a checkpoint now and then."""
SAMPLES = 16
"""Moments of a gap at which the host's statement is looked up."""
HINT_PCT = 2.0
"""On a CPU. Below, the loop itself and the handing over of batches come near."""
SPEEDUP = 10.0
"""On a CPU: of the work once it is done every so many steps, or as a few operations on whole tensors (as of ``small-kernels``)."""


def rule(facts: Facts) -> list[Candidate]:
    if not facts.judged or len(facts.steps) < 2:
        return []
    return _on_cpu(facts) if facts.on_cpu else _beside_device(facts)


def _on_cpu(facts: Facts) -> list[Candidate]:
    """Of each statement that does it by itself."""
    quiet = Quiet(facts)
    whole = quiet.plain_us
    if whole <= 0 or quiet.stays is None:
        return []
    found = QuietWork(quiet)
    work = found.work(SHARE_PCT / 100.0 * whole)
    if work:
        return [_of_cpu(facts, quiet, each, hint=_is_unsure(facts, each)) for each in work]
    return [_of_cpu(facts, quiet, each, hint=True) for each in found.work(HINT_PCT / 100.0 * whole)[:1]]


def _is_unsure(facts: Facts, work: Work) -> bool:
    """Whether the statement computes on whole arrays, which is arithmetic like an operator's and often just what the program is for,
    or runs operators itself, so that a library's functions around them (a walk over all parameters) may be what takes the time."""
    if work.looped:
        return False
    return work.operating or on_arrays(facts.context.sources.get(work.at.file, ""), work.at.line)


def _of_cpu(facts: Facts, quiet: Quiet, work: Work, *, hint: bool) -> Candidate:
    share = 100.0 * work.us / quiet.plain_us
    cost = facts.base_us * share / 100.0
    recorded = spans.measure(work.claims)
    return Candidate(
        code="host-work",
        title="Work in plain Python while no operator runs",
        fact=f"{words.times(work.times).capitalize()} {facts.per} the program is at this statement with no operator running, "
        f"{words.time(facts.per_step(work.us))} in all without a profiler, {words.percent(share)} of {facts.whole}.",
        advice="Do it every so many steps, once before the loop, in a worker process, or as operations on whole tensors.",
        at=work.at,
        cost_us=cost,
        saving_us=cost * (1.0 - 1.0 / SPEEDUP),
        claims=work.claims,
        stands_for=cost / recorded if recorded > 0 else 1.0,
        hint=hint,
        evidence={
            "times_per_step": work.times,
            "unprofiled_us_per_step": facts.per_step(work.us),
            "recorded_us_per_step": facts.per_step(recorded),
            "share_pct": share,
            "threshold_pct": SHARE_PCT,
            "threshold_us": QUIET_US,
            "assumed_speedup": SPEEDUP,
            "related": [{"file": o.file, "line": o.line, "text": "of the same loop"} for o in work.others[:RELATED]],
        },
    )


def _beside_device(facts: Facts) -> list[Candidate]:
    gaps = facts.queue.long_gaps
    lost = spans.subtract(facts.clip(spans.of((g.start, g.end) for g in gaps)), facts.queue.excused)
    cost = facts.real(lost)
    share = 100.0 * cost / facts.base_us if facts.base_us else 0.0
    if share < SHARE_PCT or len(gaps) < PER_STEP * facts.n:
        return []
    at = _line(facts, [(g.start, g.end) for g in gaps])
    saving = facts.whatif.saving(Change(host=lost))
    # No profiler slows such work: what the steps, played again, lose by it is more of it than of other idle time.
    cost = max(facts.late_us(lost), min(saving, spans.measure(lost)))
    share = 100.0 * cost / facts.base_us
    return [
        Candidate(
            code="host-work",
            title="The device waits for work of the host",
            fact=f"{words.times(len(gaps) / facts.n).capitalize()} {facts.per} the host gives the device nothing to do for more than "
            f"{words.time(LAUNCH_US)}, {words.time(facts.per_step(cost))} in all ({words.percent(share)}), without waiting for it.",
            advice="Do this work beside the device's: after the next launches, every so many steps, in a worker process, or as tensor "
            "operations on the device.",
            at=at,
            cost_us=cost,
            saving_us=saving,
            claims=lost,
            evidence={
                "gaps_per_step": len(gaps) / facts.n,
                "share_pct": share,
                "threshold_pct": SHARE_PCT,
                "threshold_us": LAUNCH_US,
                "threshold_per_step": PER_STEP,
            },
        )
    ]


def _line(facts: Facts, gaps: list[tuple[float, float]]) -> SourceRef | None:
    """The user statement in which the host spent most of these gaps, None if no one had a third of them."""
    at = facts.context.attribution.host_line
    return most_at(
        at(facts.host_thread, start + (end - start) * (k + 0.5) / SAMPLES)
        for start, end in gaps
        for k in range(SAMPLES)
    )
