"""Time of what an optimizer does, on either kind of device."""

from __future__ import annotations

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans

Stretch = tuple[int, float, float]
"""Thread, start, end."""


def time_of(facts: Facts, calls: list[Stretch]) -> tuple[Spans, float]:
    """On a CPU the calls themselves; on a device its work launched within them with the gaps before it."""
    if facts.on_cpu:
        claims = facts.clip(spans.of((lo, hi) for _, lo, hi in calls))
        return claims, spans.measure(claims)
    rows = facts.events_launched_in(calls)
    mine = set(rows)
    gaps = facts.clip(spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in mine))
    busy = facts.queue.critical(rows)
    device_us = float(facts.trace.device_events.dur[rows].sum()) if rows else 0.0
    return spans.together(spans.subtract(gaps, facts.queue.excused), busy), device_us
