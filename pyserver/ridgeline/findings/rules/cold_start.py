"""``cold-step`` and ``cold-range``: what only the first recorded step has."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import COLD_RATIO, Facts
from ridgeline.findings.host import REGION_PREFIXES

COLD_GAP_RATIO = 5.0
COLD_GAP_US = 100.0
"""From the start of a range to its first op, on its first run against the median of the others. A warm range reaches its
first op in about 5 µs; 228 µs were measured on a cold one."""


def rule(facts: Facts) -> list[Candidate]:
    return _cold_step(facts) + _cold_range(facts)


def _cold_step(facts: Facts) -> list[Candidate]:
    walls = [step.dur for step in facts.trace.steps]
    if len(walls) < 3:
        return []
    rest = float(np.median(walls[1:]))
    if rest <= 0 or walls[0] < COLD_RATIO * rest:
        return []
    return [
        Candidate(
            code="cold-step",
            title="The first recorded step is not like the others",
            fact=f"It takes {words.time(walls[0])}, the others {words.time(rest)}: allocation, library start-up or tuning fell into it. "
            "Findings leave it out; means over the recording include it.",
            advice=f"Record later: more warm-up steps (--warmup); or ridgeline analyze … --select-steps 1:{len(walls)}.",
            hint=True,
            evidence={"first_us": walls[0], "median_us": rest, "ratio": walls[0] / rest, "threshold": COLD_RATIO},
        )
    ]


def _cold_range(facts: Facts) -> list[Candidate]:
    """The gap between a labelled range's start and its first op."""
    gaps: dict[int, list[float]] = defaultdict(list)
    ranges, ops = facts.trace.ranges, facts.trace.ops
    for row in range(len(ranges.start)):
        start = float(ranges.start[row])
        rows = facts.ops_between(int(ranges.tid[row]), start, start + float(ranges.dur[row]))
        if rows:
            gaps[int(ranges.name[row])].append(float(ops.start[rows[0]]) - start)
    # Step marks carry their number: together they are one range.
    steps = [g for name, values in gaps.items() if facts.names[name].startswith("ProfilerStep#") for g in values]
    groups = {facts.names[n]: v for n, v in gaps.items() if not facts.names[n].startswith(REGION_PREFIXES)}
    groups["ProfilerStep"] = steps
    for name, values in groups.items():
        if len(values) < 3:
            continue
        rest = float(np.median(values[1:]))
        if values[0] >= COLD_GAP_US and values[0] >= COLD_GAP_RATIO * max(rest, 1.0):
            return [
                Candidate(
                    code="cold-range",
                    title="A gap that only the first step has",
                    fact=f"The first {name} takes {words.time(values[0])} to reach its first operation, the others {words.time(rest)}: "
                    "start-up of the profiler and of libraries, not a cost of the program.",
                    hint=True,
                    evidence={"range": name, "first_us": values[0], "median_us": rest, "threshold_us": COLD_GAP_US},
                )
            ]
    return []
