"""``host-work``: the device waits while the host does something that gives it no work: Python over files, texts or lists, a
metric, a log, a checkpoint. CUDA graphs do not help there; doing it less often, later, or in another process does."""

from __future__ import annotations

from collections import Counter

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.queue import LAUNCH_US
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef

SHARE_PCT = 5.0
"""Of the step, as for the loader: both are the host's work that could be done beside the device's."""
PER_STEP = 0.5
"""Such gaps a step. Less often is an evaluation or a checkpoint now and then."""
SAMPLES = 16
"""Moments of a gap at which the host's statement is looked up."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu or not facts.judged or len(facts.steps) < 2:
        return []
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
    seen: Counter[tuple[str, int]] = Counter()
    places: dict[tuple[str, int], SourceRef] = {}
    for start, end in gaps:
        for k in range(SAMPLES):
            place = facts.context.attribution.host_line(facts.host_thread, start + (end - start) * (k + 0.5) / SAMPLES)
            if place is not None:
                seen[place.file, place.line] += 1
                places[place.file, place.line] = place
    if not seen:
        return None
    key, count = seen.most_common(1)[0]
    return places[key] if 3 * count >= SAMPLES * len(gaps) else None
