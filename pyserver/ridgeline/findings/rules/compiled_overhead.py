"""``compiled-overhead``: looking up the compiled code, its guards and its wrapper take longer than what it computes."""

from __future__ import annotations

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules.compile_events import RECOMPILES

OVERHEAD = ("TorchDynamo Cache Lookup", "AOTDispatcher Runtime Wrapper Prologue", "Pregraph bytecode")
SHARE_PCT = 5.0
"""Of the step. A compiled call costs 20 to 100 µs on the host whatever it computes (0.2 ms cold, 0.1 ms after, measured
on a graph of one addition); in a step of a few milliseconds that is nothing."""


def rule(facts: Facts) -> list[Candidate]:
    rows = [
        r
        for r in range(len(facts.trace.ops.start))
        if facts.op_name(r).startswith(OVERHEAD) and facts.within(float(facts.trace.ops.start[r]))
    ]
    if not rows:
        return []
    cost = _typical(facts, rows)
    regions = [
        r
        for r in range(len(facts.trace.ops.start))
        if facts.op_name(r).startswith("Torch-Compiled Region") and facts.within(float(facts.trace.ops.start[r]))
    ]
    work = _inside(facts) if facts.on_cpu else spans.measure(facts.busy)
    # A region whose launches take the host longer than calling it does has not too little in it.
    launching = 0.0 if facts.on_cpu else spans.measure(facts.op_spans(regions)) - cost
    # Against a step as most are: on a busy machine a few that were interrupted decide their mean.
    walls = [hi - lo for lo, hi in facts.steps]
    share = 100.0 * cost / (float(np.median(walls)) * len(walls) if walls else facts.recorded_us)
    host_bound = facts.on_cpu or (spans.measure(facts.idle) > spans.measure(facts.busy))
    if share < SHARE_PCT or cost < max(work, launching) or not host_bound:
        return []
    versions = sum(e.kind == "recompile" for e in facts.document.compile_events)
    return [
        Candidate(
            code="compiled-overhead",
            title="The compiled region is too small to be worth calling",
            fact=f"Cache lookup, guards and wrapper take {words.time(facts.per_step(cost))} {facts.per} on the host, "
            f"what the region computes {words.time(facts.per_step(work))}."
            + (f" It has {versions + 1} versions to look through." if versions >= RECOMPILES else ""),
            advice="Compile a larger function (the whole step), or leave this one eager.",
            hint=versions >= RECOMPILES,  # the recompiles are the cause to mend first
            at=facts.line_of_op(regions[0]) if regions else facts.line_of_op(rows[0]),
            cost_us=cost,
            evidence={
                "calls_per_step": len(regions) / facts.n,
                "overhead_us_per_step": facts.per_step(cost),
                "work_us_per_step": facts.per_step(work),
                "threshold_pct": SHARE_PCT,
            },
        )
    ]


def _typical(facts: Facts, rows: list[int]) -> float:
    """Time of these ops if each took the median of its name. Calls of a few microseconds are what an operating system
    interrupts; one such call of ten milliseconds says nothing about the others."""
    ops = facts.trace.ops
    return sum(
        len(mine) * float(np.median(ops.self_dur[mine]))
        for mine in ([r for r in rows if facts.op_name(r) == name] for name in {facts.op_name(r) for r in rows})
    )


def _inside(facts: Facts) -> float:
    """Kernels and leaf ops of compiled regions, on a CPU."""
    return _typical(
        facts,
        [
            r
            for r in range(len(facts.trace.ops.start))
            if not facts.has_children(r)
            and facts.within(float(facts.trace.ops.start[r]))
            and not facts.op_name(r).startswith(OVERHEAD)
            and any(facts.op_name(a).startswith("Torch-Compiled Region") for a in facts.ancestors(r))
        ],
    )
