"""``idle``: the device's idle time with its causes, which sum to it. A fact for the reader, not a saving: what can be
saved is claimed by the findings about each cause."""

from __future__ import annotations

from dataclasses import asdict

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts

SHARE_PCT = 15.0
"""Of the step; see ``launch-bound``."""
WORDS = {
    "launch": "late launches",
    "sync": "synchronisation",
    "loader": "data loading",
    "copy": "copies",
    "compile": "compilation",
    "profiler": "the profiler",
    "tail": "before the first and after the last work",
    "other": "not explained",
}


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu or not facts.judged:
        return []
    idle = spans.measure(facts.idle)
    share = 100.0 * idle / facts.recorded_us if facts.recorded_us else 0.0
    causes = {key: us for key, us in asdict(facts.document.idle).items() if us > 0}
    if share < SHARE_PCT or not causes:
        return []
    listed = sorted(causes.items(), key=lambda item: -item[1])
    steps = facts.document.source.steps or facts.n
    return [
        Candidate(
            code="idle",
            title="Where the device's idle time comes from",
            fact=f"The device idles {words.percent(share)} of {facts.whole}: "
            + ", ".join(f"{WORDS.get(key, key)} {words.time(us / steps)}" for key, us in listed)
            + f" {facts.per}.",
            hint=True,
            evidence={"idle_share_pct": share, "causes_us": causes, "threshold_pct": SHARE_PCT},
        )
    ]
