"""``profiler-idle``: idle time that the recording made, or of which it cannot be told whether it did."""

from __future__ import annotations

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts

IDLE_PCT = 15.0
SLOWDOWN = 1.25
"""Profiled step over plain step; the recorder aims at 1.1."""


def rule(facts: Facts) -> list[Candidate]:
    idle = spans.measure(facts.idle)
    share = 100.0 * idle / facts.recorded_us if facts.recorded_us else 0.0
    if facts.on_cpu or share < IDLE_PCT:
        return []
    if not facts.judged:
        fact = (
            f"The device idles {words.percent(share)} of this recording, but {facts.unjudged_because}, which slows the host"
            + (" several times over" if facts.stacks else "")
            + ": the idle time may be the profiler's, and no finding is based on it."
        )
        advice = (
            "Record more steps, without stacks, to judge idle time."
            if facts.stacks
            else "Record a longer run, so that unprofiled steps can be timed beside the recorded ones."
        )
        return [_profiler_note(fact, {"idle_share_pct": share, "stacks": facts.stacks}, advice)]
    if facts.slowdown is not None and facts.slowdown >= SLOWDOWN:
        plain = facts.document.totals.plain_step_us or facts.step_us
        busy = facts.per_step(spans.measure(facts.busy))
        corrected = max(0.0, 100.0 * (1.0 - busy / plain))
        fact = (
            f"Profiling made the step {facts.slowdown:.2f} times as long ({words.time(plain)} without it): the device idles "
            f"{words.percent(share)} of the recorded step, and about {words.percent(corrected)} of one without profiling."
        )
        return [
            _profiler_note(
                fact,
                {
                    "idle_share_pct": share,
                    "corrected_idle_pct": corrected,
                    "slowdown": facts.slowdown,
                    "threshold": SLOWDOWN,
                },
            )
        ]
    return []


def _profiler_note(fact: str, evidence: dict[str, object], advice: str = "") -> Candidate:
    return Candidate(
        code="profiler-idle",
        title="Idle time that the profiler made",
        fact=fact,
        advice=advice,
        hint=True,
        evidence=evidence,
    )
