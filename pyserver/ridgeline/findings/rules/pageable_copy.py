"""``pageable-copy``: batches are copied to the device from pageable memory while it has nothing else to do."""

from __future__ import annotations

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.blocking import Block
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.copies import to_device
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import Work

LINK_GB_S = {7: 12.0, 8: 24.0, 9: 50.0}
"""What a copy from pinned memory runs at, by the major compute capability and the PCI Express that goes with it (16 lanes of its third,
fourth, fifth generation): 12 GB/s of a V100, 52 to 55 of an H200 in recordings. A pageable copy goes through a staging buffer that the
host fills. With non_blocking=True the host is left free as well, which is counted apart."""
LEAST_SPEEDUP = 1.5
"""Of pinned against pageable where the link is not known to be faster."""
LARGE = 1e6
"""Bytes from which a copy's rate is the link's."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    return [_candidate(facts, at, rows) for at, rows in to_device(facts, "pageable") if not _happens_once(facts, rows)]


def _happens_once(facts: Facts, rows: list[int]) -> bool:
    """In a recording of the whole program, without steps, what is copied before the device's first kernel: a model or a data set
    that is taken to the device, however many tensors it has. It is no cost of what the program does again and again."""
    whole = facts.sidecar is not None and any(window.reason == "whole" for window in facts.sidecar.windows)
    if facts.steps or not whole:
        return False
    order = facts.device_rows
    before = order[: int(np.searchsorted(order, max(rows))) + 1]
    return not (facts.trace.device_events.work[before] == Work.KERNEL).any()


def _link_gb_s(facts: Facts) -> float:
    """The rate of pinned copies in this recording, else of the device's kind of link."""
    events, copies = facts.trace.device_events, facts.copies()
    pinned = [r for r in copies.tolist() if "pinned" in facts.event_name(r).lower() and events.bytes[r] >= LARGE]
    if pinned:
        return float(np.median(events.bytes[pinned] / events.dur[pinned])) / 1e3
    info = next((d for d in facts.trace.devices if d.id == facts.device), None)
    major = info.properties.get("computeMajor") if info is not None else None
    return LINK_GB_S[min(max(LINK_GB_S), max(min(LINK_GB_S), major))] if isinstance(major, int) else LINK_GB_S[7]


def _speedup(facts: Facts, rows: list[int]) -> float:
    events = facts.trace.device_events
    large = [r for r in rows if events.bytes[r] >= LARGE and events.dur[r] > 0]
    if not large:
        return LEAST_SPEEDUP
    rate = float(events.bytes[large].sum() / events.dur[large].sum()) / 1e3
    return max(LEAST_SPEEDUP, _link_gb_s(facts) / rate)


def _mended(facts: Facts, rows: list[int], copies: set[int], waits: list[Block], speedup: float) -> Change:
    """From pinned memory the copies are shorter, and the host neither stages them nor waits for them."""
    calls = facts.trace.calls
    return Change(
        host=spans.of((float(calls.start[c]), float(calls.start[c] + calls.dur[c])) for c in copies if c >= 0),
        faster=dict.fromkeys(rows, 1.0 / speedup),
        waits={c for b in waits for c in b.calls},
    )


def _candidate(facts: Facts, at: SourceRef | None, rows: list[int]) -> Candidate:
    events = facts.trace.device_events
    copying = facts.exposed(np.array(rows, dtype=np.int32))
    mine = {int(events.call[r]) for r in rows}
    starts = {float(facts.trace.calls.start[c]) for c in mine if c >= 0}
    waits = [b for b in facts.blocks if b.direction == "HtoD" and any(b.start <= s <= b.end for s in starts)]
    gap = spans.subtract(spans.together(*(b.gap for b in waits)), facts.loader_spans)
    exposed, idle = spans.measure(copying), facts.real(gap)
    speedup = _speedup(facts, rows)
    saving = exposed * (1.0 - 1.0 / speedup) + idle
    if facts.judged:
        saving = facts.whatif.saving(_mended(facts, rows, mine, waits, speedup))
    known = [r for r in rows if np.isfinite(events.bytes[r])]
    nbytes, took = float(events.bytes[known].sum()), float(events.dur[known].sum())
    rate = f" at {nbytes / took / 1e3:.3g} GB/s" if known and took > 0 and nbytes > 0 else ""
    return Candidate(
        code="pageable-copy",
        title="Copies to the device from pageable memory",
        fact=f"{words.things(len(rows) / facts.n, 'copy')} {facts.per}{f' of {words.size(nbytes / facts.n)} together' if known else ''}{rate} "
        f"from pageable memory; the device does nothing else for {words.time(facts.per_step(exposed + idle))}.",
        advice="pin_memory=True in the DataLoader (or tensor.pin_memory()) with non_blocking=True in the copy; on a stream of its "
        "own it can run beside the previous step.",
        at=at,
        cost_us=exposed + idle,
        saving_us=saving,
        claims=spans.together(copying, gap),
        noted=True,
        evidence={
            "copies_per_step": len(rows) / facts.n,
            "bytes_per_step": nbytes / facts.n if known else None,
            "gb_per_s": nbytes / took / 1e3 if rate else None,
            "exposed_us_per_step": facts.per_step(exposed),
            "gap_us_per_step": facts.per_step(idle),
            "assumed_speedup": speedup,
            "mend": "pin-memory",
        },
    )
