"""``exposed-communication``: collectives that nothing on the device hides, and collectives whose time varies so much
that a rank is being waited for (``communication-skew``, which claims nothing: the time is the same)."""

from __future__ import annotations

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts

SHARE_PCT = 5.0
"""Of the step. TraceLens' threshold for exposed communication; below it overlap is as good as it gets."""
OVERLAPPED_PCT = 90.0
"""Of communication. What is hidden to this degree is left alone."""
SKEW = 3.0
"""Longest over shortest launch of one collective of one size. Congestion alone rarely makes more than two."""
SKEW_LAUNCHES = 4
SAVING_SHARE = 0.5
"""Of the exposed time. What overlap can hide depends on how much independent work there is, which a trace does not say:
half, with all of it as the bound."""
NAMES = ("nccl", "rccl", "oneccl", "hccl")


def is_communication(name: str) -> bool:
    """By the library's prefix, for the kind of collective cannot be had from a kernel's name."""
    return name.lower().startswith(NAMES)


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    wanted = [i for i, text in enumerate(facts.names) if is_communication(text)]
    rows = facts.device_rows[np.isin(facts.trace.device_events.name[facts.device_rows], wanted)]
    rows = np.array([r for r in rows if facts.within(float(facts.trace.device_events.start[r]))], dtype=np.int32)
    if not len(rows):
        return []
    total, alone = spans.measure(facts.event_spans(rows)), facts.exposed(rows)
    exposed = spans.measure(alone)
    overlapped = 100.0 * (1.0 - exposed / total) if total > 0 else 100.0
    share = 100.0 * exposed / facts.recorded_us
    found = []
    if share >= SHARE_PCT and overlapped < OVERLAPPED_PCT:
        longest = int(rows[int(np.argmax(facts.trace.device_events.dur[rows]))])
        found.append(
            Candidate(
                code="exposed-communication",
                title="Communication that nothing hides",
                fact=f"{words.time(facts.per_step(exposed))} {facts.per} ({words.percent(share)}) the device only communicates; "
                f"{words.percent(overlapped)} of communication runs beside computation.",
                advice="Overlap it: DistributedDataParallel with buckets of the right size, prefetching in FSDP, larger batches, "
                "gradient accumulation with no_sync(), or a smaller type for gradients.",
                at=facts.line_of_event(longest),
                cost_us=exposed,
                saving_us=exposed * SAVING_SHARE,
                claims=alone,
                evidence={
                    "communication_us_per_step": facts.per_step(total),
                    "exposed_us_per_step": facts.per_step(exposed),
                    "overlapped_pct": overlapped,
                    "collectives_per_step": len(rows) / facts.n,
                    "threshold_pct": SHARE_PCT,
                },
            )
        )
    return found + _skew(facts, rows)


def _skew(facts: Facts, rows: np.ndarray) -> list[Candidate]:
    events = facts.trace.device_events
    for name in np.unique(events.name[rows]):
        mine = rows[events.name[rows] == name]
        low, high = float(events.dur[mine].min()), float(events.dur[mine].max())
        if len(mine) >= SKEW_LAUNCHES and low > 0 and high / low >= SKEW:
            return [
                Candidate(
                    code="communication-skew",
                    title="A collective waits for another rank",
                    fact=f"{facts.names[int(name)]} takes between {words.time(low)} and {words.time(high)}: the long ones wait for a "
                    "rank that arrives late. Waiting is not transfer; the slow rank is the one whose collectives are short.",
                    advice="Compare the ranks' traces: ridgeline analyze rank0.json rank1.json …",
                    hint=True,
                    at=facts.line_of_event(int(mine[int(np.argmax(events.dur[mine]))])),
                    evidence={
                        "min_us": low,
                        "max_us": high,
                        "launches": len(mine),
                        "ratio": high / low,
                        "threshold": SKEW,
                    },
                )
            ]
    return []
