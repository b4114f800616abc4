"""``provenance-gap``: device time that leads to no user statement, with the reasons. A shortcoming of the recording."""

from __future__ import annotations

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts

SHARE_PCT = 10.0
"""Of the device's time. Copies of layout and gradient additions rarely make more."""


def rule(facts: Facts) -> list[Candidate]:
    row = facts.document.unattributed
    if (row.share_pct or 0.0) < SHARE_PCT:
        return []
    reasons = sorted(row.reason.items(), key=lambda item: -item[1])[:3]
    return [
        Candidate(
            code="provenance-gap",
            title="Device time that leads to no line",
            fact=f"{words.percent(row.share_pct or 0.0)} of the device's time leads to no line of yours: "
            + "; ".join(f"{reason} ({words.time(us)})" for reason, us in reasons)
            + ".",
            hint=True,
            evidence={"share_pct": row.share_pct, "reasons": dict(reasons), "threshold_pct": SHARE_PCT},
        )
    ]
