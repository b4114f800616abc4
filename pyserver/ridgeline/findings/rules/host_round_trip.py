"""``host-round-trip``: the step takes whole tensors to the host, for NumPy or for Python, in double precision at worst."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePath

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.blocking import Block, direction_of
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.copies import waits_for
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import Change
from ridgeline.findings.rules.hidden_sync import SCALAR_BYTES
from ridgeline.profile import SourceRef

PER_STEP = 0.5
"""Copies a step. Less often is a checkpoint or a log."""
SMALL_BYTES = 4096
"""A copy of less than a page is what a program must know (the tokens of a decoding step); where its gap cannot be judged it
is a hint, unless it was made double on the way."""
SPEEDUP = 10.0
"""Of the host's part once the computation stays on the device."""
BETWEEN_US = 50_000.0
"""Longest host computation that is counted as belonging to the copy before it."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    places: dict[tuple[str, int], SourceRef] = {}
    for row in map(int, facts.copies()):
        if direction_of(facts.event_name(row)) != "DtoH":
            continue
        op = int(facts.trace.device_events.op[row])
        chain = [facts.op_name(r) for r in facts.ancestors(op)]
        at = facts.line_of_event(row)
        if at is None or not any(name in ("aten::copy_", "aten::_to_copy", "aten::to") for name in chain):
            continue
        if facts.trace.device_events.bytes[row] <= SCALAR_BYTES:
            continue
        groups[at.file, at.line].append(row)
        places[at.file, at.line] = at
    often = [(places[key], rows) for key, rows in groups.items() if len(rows) >= PER_STEP * facts.n]
    # Into pinned memory, asynchronously, is how a tensor should be taken to the host.
    return [_candidate(facts, at, rows, waits) for at, rows in often if (waits := waits_for(facts, rows, "DtoH"))]


def _advice(facts: Facts, at: SourceRef, rows: list[int], *, double: bool) -> str:
    pinned = all("pinned" in facts.event_name(r).lower() for r in rows)
    told = "Keep the computation on the device: torch.nonzero for np.argwhere, torch.where, masks"
    told += ", and single precision if it must be copied." if double else "."
    if pinned:
        told += " If the host needs it: its memory is pinned, so with non_blocking=True nothing waits until you do, a step later."
    elif "non_blocking=True" in (at.text or ""):
        told += (
            " non_blocking=True changes nothing here, for the host's memory is pageable: "
            "copy into torch.empty(..., pin_memory=True)."
        )
    return told


def _candidate(facts: Facts, at: SourceRef, rows: list[int], waits: list[Block]) -> Candidate:
    events = facts.trace.device_events
    # The host then works on the copy while the device idles: all of the gap up to the next launch is the round trip's.
    gap = spans.of(
        (g.start, g.end)
        for g in facts.queue.late_gaps
        for b in waits
        if b.start <= g.end and g.start <= b.end and g.end - g.start < BETWEEN_US
    )
    gap = spans.together(gap, *(b.gap for b in waits))
    gap = spans.subtract(facts.clip(gap), facts.loader_spans)
    exposed = facts.exposed(np.array(rows, dtype=np.int32))
    judged = facts.judged
    idle = facts.real(gap)
    cost = spans.measure(exposed) + (idle if judged else 0.0)
    double = any("double" in facts.types_of(r) for row in rows for r in facts.ancestors(int(events.op[row])))
    known = [r for r in rows if np.isfinite(events.bytes[r])]
    nbytes = float(events.bytes[known].sum())
    back = _way_back(facts, rows)
    saving = facts.whatif.saving(_mended(facts, rows, waits, asks=back is not None)) if judged else None
    cost = max(
        cost, saving or 0.0
    )  # the gaps at the program's own pace, where the steps played again tell more of them
    size = f" of {words.size(nbytes / facts.n)}" if known else ""
    return Candidate(
        code="host-round-trip",
        title="A tensor goes to the host inside the step",
        fact=f"{words.times(len(rows) / facts.n).capitalize()} {facts.per} a tensor{size} is copied to the host"
        f"{', in double precision' if double else ''}; the host waits for it, and the device waits for the host"
        + (
            f", and what comes of it is copied back at {PurePath(back.file).name}:{back.line}"
            if back is not None
            else ""
        )
        + (f": {words.time(facts.per_step(cost))}." if judged else f" (not judged in time: {facts.unjudged_because})."),
        advice=_advice(facts, at, rows, double=double),
        at=at,
        cost_us=cost if judged else None,
        known_us=spans.measure(exposed) + sum(b.wait_us for b in waits),
        saving_us=saving,
        claims=spans.together(gap, exposed) if judged else None,
        noted=True,
        hint=not judged and not double and bool(known) and nbytes / len(known) < SMALL_BYTES,
        evidence={
            "copies_per_step": len(rows) / facts.n,
            "bytes_per_step": nbytes / facts.n if known else None,
            "double_precision": double,
            "back_at": {"file": back.file, "line": back.line} if back is not None else None,
            "related": [{"file": back.file, "line": back.line, "text": "copied back to the device"}]
            if back is not None
            else [],
            "wait_us_per_step": facts.per_step(sum(b.wait_us for b in waits)),
            "gap_us_per_step": facts.per_step(idle) if judged else None,
            "threshold_per_step": PER_STEP,
        },
    )


def _mended(facts: Facts, rows: list[int], waits: list[Block], *, asks: bool) -> Change:
    """On the device no copy is made, and what the host does with it until the next launch takes a tenth. Where the program goes on
    with what comes of it (``asks``), the host still waits for how much that is."""
    calls = facts.trace.calls
    begun = np.sort(calls.start[facts.launch_calls])
    computing = []
    for wait in waits:
        at = int(np.searchsorted(begun, wait.end))
        if at < len(begun) and begun[at] - wait.end < BETWEEN_US:
            computing.append((wait.end, float(begun[at])))
    return Change(
        host=spans.of(computing),
        host_part=1.0 / SPEEDUP,
        events=rows,
        waits=set() if asks else {c for wait in waits for c in wait.calls},
    )


def _way_back(facts: Facts, rows: list[int]) -> SourceRef | None:
    """Where the program takes to the device what it made of the copies: the statement of the first copy to the device after
    each, if no kernel was launched between and most of them come from that one statement."""
    events, calls = facts.trace.device_events, facts.trace.calls
    order = facts.device_rows
    seen: Counter[tuple[str, int]] = Counter()
    places: dict[tuple[str, int], SourceRef] = {}
    for row in rows:
        at = int(np.searchsorted(order, row)) + 1
        while at < len(order) and direction_of(facts.event_name(int(order[at]))) == "DtoH":
            at += 1  # one statement may copy several tensors
        following = int(order[at]) if at < len(order) else -1
        if following < 0 or direction_of(facts.event_name(following)) != "HtoD":
            continue
        call, mine = int(events.call[following]), int(events.call[row])
        place = facts.line_of_event(following)
        later = call >= 0 and mine >= 0 and 0 <= calls.start[call] - calls.start[mine] < BETWEEN_US
        if place is not None and later:
            seen[place.file, place.line] += 1
            places[place.file, place.line] = place
    if not seen:
        return None
    key, count = seen.most_common(1)[0]
    return places[key] if 2 * count > len(rows) else None
