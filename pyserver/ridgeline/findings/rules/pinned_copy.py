"""``blocking-copy``: the host waits for a copy from pinned memory, which need not be waited for. ``exposed-copy``: such
copies run while the device does nothing else, though they could run beside the step before."""

from __future__ import annotations

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.blocking import Block
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.copies import to_device, waits_for
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef

EXPOSED_PCT = 5.0
"""Of the step. TraceLens' mark for a direction of copies; a stream of one's own and its events are not worth less."""
LOUD_PCT = 15.0
"""Of the step, from which it is more than a hint: pinned memory and ``non_blocking=True`` is how it should be done, and a
second stream makes a loop harder to read."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    found = []
    for at, rows in to_device(facts, "pinned"):
        waits = waits_for(facts, rows, "HtoD")
        if waits and facts.judged:
            found.append(_blocking(facts, at, rows, waits))
        exposed = facts.exposed(np.array(rows, dtype=np.int32))
        if spans.measure(exposed) >= EXPOSED_PCT / 100.0 * facts.base_us:
            found.append(_exposed(facts, at, rows, exposed))
    return found


def _blocking(facts: Facts, at: SourceRef | None, rows: list[int], waits: list[Block]) -> Candidate:
    gap = spans.subtract(spans.together(*(b.gap for b in waits)), facts.loader_spans)
    if facts.queue.host_bound:
        # While the host waits for the copy it launches nothing; where it sets the pace the whole wait is lost, and no more.
        copying = facts.exposed(np.array(rows, dtype=np.int32))
        gap = spans.together(gap, spans.intersect(copying, spans.of((b.start, b.end) for b in waits)))
    cost = min(facts.real(gap), sum(b.wait_us for b in waits))
    return Candidate(
        code="blocking-copy",
        title="The host waits for a copy from pinned memory",
        fact=f"The host waits for its copy {words.times(len(waits) / facts.n)} {facts.per}, "
        f"{words.time(facts.per_step(sum(b.wait_us for b in waits)))}; {words.time(facts.per_step(cost))} of the device's time are lost by it.",
        advice="non_blocking=True: the memory is pinned, so the copy can run while the host goes on.",
        at=at,
        cost_us=cost,
        saving_us=min(cost, facts.whatif.saving(Change(waits={c for b in waits for c in b.calls}))),
        claims=gap,
        noted=True,
        evidence={
            "copies_per_step": len(rows) / facts.n,
            "waits_per_step": len(waits) / facts.n,
            "wait_us_per_step": facts.per_step(sum(b.wait_us for b in waits)),
            "mend": "non-blocking",
        },
    )


def _exposed(facts: Facts, at: SourceRef | None, rows: list[int], exposed: spans.Spans) -> Candidate:
    """Beside the step's computation they would cost nothing, as far as that lasts."""
    alone = spans.measure(exposed)
    computing = max(0.0, spans.measure(facts.busy) - alone)
    events = facts.trace.device_events
    known = [r for r in rows if np.isfinite(events.bytes[r])]
    nbytes, took = float(events.bytes[known].sum()), float(events.dur[known].sum())
    rate = f" at {nbytes / took / 1e3:.3g} GB/s" if took > 0 and nbytes > 0 else ""
    return Candidate(
        code="exposed-copy",
        title="Copies to the device run alone",
        fact=f"{words.things(len(rows) / facts.n, 'copy')} {facts.per} from pinned memory{rate}: {words.time(facts.per_step(alone))} in which "
        "the device does nothing else.",
        advice="Copy the next batch on a stream of its own (torch.cuda.stream, record_stream, wait_stream) while this one is computed.",
        at=at,
        cost_us=alone,
        saving_us=min(alone, computing),
        claims=exposed,
        hint=alone < LOUD_PCT / 100.0 * facts.base_us,
        evidence={
            "copies_per_step": len(rows) / facts.n,
            "exposed_us_per_step": facts.per_step(alone),
            "gb_per_s": nbytes / took / 1e3 if rate else None,
            "threshold_pct": EXPOSED_PCT,
        },
    )
