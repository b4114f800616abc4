"""``small-kernels``: one statement of the step issues many tiny operations, as a Python loop over tensor elements does."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef

COUNT_PER_STEP = 50
"""From one statement and step. A layer, its loss or a normalisation written out takes five to twenty."""
MEDIAN_US = 10.0
"""TraceLens calls a kernel short below this; a launch costs the host about as much."""
SPEEDUP = 10.0
"""Of the statement once it is one operation on whole tensors: fifty launches become a few."""


def rule(facts: Facts) -> list[Candidate]:
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    places: dict[tuple[str, int], SourceRef] = {}
    for row in range(len(facts.work.start)):
        if not facts.within(float(facts.work.start[row])):
            continue
        at = facts.line_of_work(row)
        if at is None or at.library or (facts.on_cpu and not _leaf(facts, row)) or _is_library_loop(facts, row):
            continue
        groups[at.file, at.line].append(row)
        places[at.file, at.line] = at
    found = []
    for key, rows in groups.items():
        time = facts.work.time[rows]
        if len(rows) >= COUNT_PER_STEP * facts.n and float(np.median(time)) < MEDIAN_US:
            found.append(_candidate(facts, places[key], rows))
    return found


def _leaf(facts: Facts, row: int) -> bool:
    op = int(facts.work.op[row])
    return op >= 0 and not facts.has_children(op)


def _is_library_loop(facts: Facts, row: int) -> bool:
    """Optimizers loop over parameters (``single-tensor-optimizer``), the backward pass over nodes."""
    op, call = int(facts.work.op[row]), int(facts.work.call[row])
    if op >= 0:
        return facts.in_optimizer(int(facts.trace.ops.tid[op]), float(facts.trace.ops.start[op]))
    return call >= 0 and facts.in_optimizer(int(facts.trace.calls.tid[call]), float(facts.trace.calls.start[call]))


def _candidate(facts: Facts, at: SourceRef, rows: list[int]) -> Candidate:
    count, busy = len(rows) / facts.n, float(facts.work.time[rows].sum())
    if facts.on_cpu:
        tops = {facts.outermost(int(facts.work.op[r])) for r in rows}
        claims = _between(facts, sorted(tops))
    else:
        events = [int(facts.work.event[r]) for r in rows]
        mine = set(events)
        gaps = spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in mine)
        claims = spans.together(spans.subtract(facts.clip(gaps), facts.queue.excused), facts.event_spans(events))
    cost = spans.measure(claims)
    judged = facts.on_cpu or not facts.stacks or facts.slowdown is not None
    median = float(np.median(facts.work.time[rows]))
    return Candidate(
        code="small-kernels",
        title="Many tiny operations from one statement",
        fact=f"This statement issues {count:.0f} operations {facts.per}, {words.time(median)} each in the middle; "
        + (
            f"with the gaps before them they take {words.time(facts.per_step(cost))}."
            if judged
            else f"together they compute {words.time(facts.per_step(busy))}; their gaps are not judged, since stacks were recorded."
        ),
        advice="Work on whole tensors instead of a Python loop over their parts, or compile the function so that they fuse.",
        at=at,
        cost_us=cost if judged else None,
        saving_us=cost * (1.0 - 1.0 / SPEEDUP) if judged else None,
        claims=claims if judged else None,
        evidence={
            "operations_per_step": count,
            "median_us": median,
            "busy_us_per_step": facts.per_step(busy),
            "threshold_per_step": COUNT_PER_STEP,
            "threshold_us": MEDIAN_US,
            "assumed_speedup": SPEEDUP,
        },
    )


def _between(facts: Facts, tops: list[int]) -> spans.Spans:
    """Host time from the first of consecutive ops of a statement to the last: Python's part between them included."""
    start = facts.trace.ops.start[tops]
    end = start + facts.trace.ops.dur[tops]
    joined = np.append(start[1:], end[-1])
    near = joined - end < 5 * MEDIAN_US
    return facts.clip(spans.union(start, np.where(near, np.maximum(joined, end), end)))
