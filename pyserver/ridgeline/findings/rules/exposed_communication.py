"""``exposed-communication``: collectives that nothing on the device hides, and collectives whose time varies so much
that a rank is being waited for (``communication-skew``, which claims nothing: the time is the same)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import EDITOR_PCT
from ridgeline.profile import SourceRef
from ridgeline.trace.communication import communication_rows, hint_from_name
from ridgeline.trace.tables import I32, Work

SHARE_PCT = 5.0
"""Of the step. TraceLens' threshold for exposed communication; below it overlap is as good as it gets."""
OVERLAPPED_PCT = 90.0
"""Of communication. What is hidden to this degree is left alone."""
SKEW = 3.0
"""Longest over shortest launch of one collective of one size. Congestion alone rarely makes more than two."""
SKEW_LAUNCHES = 4
SAVING_SHARE = 0.5
"""Of the exposed time, and never more than the computation that runs alone. How much of that is independent of it a trace does
not say: half, with all of the exposed time as the bound."""
FIRST_RATIO = 3.0
"""First over the longest other launch of the same collective: as ``SKEW``, which the ranks of one program rarely reach."""
RELATED = 3
GLOO = "gloo:"
PEER_WORDS = ("ptop", "peer")
"""Copies between devices, as ``nn.DataParallel`` makes them."""
DATA_PARALLEL = ("Broadcast", "Scatter", "Gather")
"""Autograd functions that ``nn.DataParallel`` calls, all of them in every step."""


class _Kind(NamedTuple):
    name: str
    recorded: bool
    """From what the library recorded, not from a kernel's name, which may mislead."""
    rows: list[int]


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    rows = _rows(facts)
    found = [*_exposed(facts, rows), *_skew(facts, rows)] if len(rows) else []
    return [*found, *_through_the_host(facts)]


def _rows(facts: Facts) -> I32:
    """Collectives and copies between devices, on this one, within the recorded steps."""
    events, mine = facts.trace.device_events, facts.device_rows
    peers = [i for i, text in enumerate(facts.names) if any(w in text.lower().replace(" ", "") for w in PEER_WORDS)]
    communicates = communication_rows(facts.trace)[mine]
    communicates |= (events.work[mine] == Work.MEMCPY) & np.isin(events.name[mine], peers)
    rows = mine[communicates & facts.all_within(events.start[mine])]
    return rows.astype(np.int32)


def _exposed(facts: Facts, rows: I32) -> list[Candidate]:
    first = _late_ranks(facts, rows)
    kept = rows if first is None else rows[rows != first]
    total, alone = spans.measure(facts.event_spans(kept)), facts.exposed(kept)
    exposed = spans.measure(alone)
    overlapped = 100.0 * (1.0 - exposed / total) if total > 0 else 100.0
    share = 100.0 * exposed / facts.recorded_us
    if share < SHARE_PCT or overlapped >= OVERLAPPED_PCT:
        return []
    others = facts.device_rows[~np.isin(facts.device_rows, rows)]
    computing = spans.measure(spans.subtract(facts.event_spans(others), facts.event_spans(rows)))
    kinds = _kinds(facts, kept)
    lines = _lines(facts, kept)
    saving = min(SAVING_SHARE * exposed, computing)
    return [
        Candidate(
            code="exposed-communication",
            title="Communication that nothing hides",
            fact=f"{words.time(facts.per_step(exposed))} {facts.per} ({words.percent(share)}) the device only communicates; "
            f"{words.percent(overlapped)} of communication runs beside computation. Most of it is {_named(facts, kinds[0])}; "
            f"{words.time(facts.per_step(computing))} of computation run without any beside them.{_left_out(facts, first)}",
            advice=_advice(facts, kinds[0].name),
            at=lines[0][0] if lines else None,
            cost_us=exposed,
            # With nothing to compute beside it, overlap saves nothing; what smaller messages save is not known.
            saving_us=saving if 100.0 * saving >= EDITOR_PCT * facts.base_us else None,
            claims=alone,
            evidence={
                "communication_us_per_step": facts.per_step(total),
                "exposed_us_per_step": facts.per_step(exposed),
                "overlapped_pct": overlapped,
                "computation_alone_us_per_step": facts.per_step(computing),
                "collectives_per_step": len(rows) / facts.n,
                "collectives": [_evidence(facts, kind) for kind in kinds],
                "left_out_first_us": float(facts.trace.device_events.dur[first]) if first is not None else None,
                "data_parallel": _is_data_parallel(facts),
                "threshold_pct": SHARE_PCT,
                "related": [
                    {"file": at.file, "line": at.line, "text": f"{words.time(facts.per_step(us))} {facts.per} of it"}
                    for at, us in lines[1 : 1 + RELATED]
                ],
            },
        )
    ]


def _late_ranks(facts: Facts, rows: I32) -> int | None:
    """The first collective of the recording, if it is far longer than the others of its name: recordings of the ranks do not
    begin at one moment, and it waits for the last of them. That is the measurement's, not the program's."""
    events = facts.trace.device_events
    rows = rows[events.work[rows] != Work.MEMCPY]
    if len(rows) < 2:
        return None
    first = int(rows[int(np.argmin(events.start[rows]))])
    others = rows[(events.name[rows] == events.name[first]) & (rows != first)]
    if not len(others):
        others = rows[rows != first]
    return first if float(events.dur[first]) >= FIRST_RATIO * float(events.dur[others].max()) else None


def _left_out(facts: Facts, first: int | None) -> str:
    if first is None:
        return ""
    took = words.time(float(facts.trace.device_events.dur[first]))
    return f" The first collective of the recording ({took}) is left out: it waits until all ranks record."


def _kinds(facts: Facts, rows: I32) -> list[_Kind]:
    """By collective, the one that is most exposed first."""
    groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for row in map(int, rows):
        recorded = facts.trace.collectives.get(row, {}).get("Collective name")
        hint = hint_from_name(facts.event_name(row)).collective
        name = recorded if isinstance(recorded, str) and recorded else hint or "a collective"
        if facts.trace.device_events.work[row] == Work.MEMCPY:
            name = "copies between devices"
        groups[name, isinstance(recorded, str) and bool(recorded)].append(row)
    kinds = [_Kind(name, recorded, mine) for (name, recorded), mine in groups.items()]
    return sorted(kinds, key=lambda kind: -spans.measure(facts.exposed(kind.rows)))


def _named(facts: Facts, kind: _Kind) -> str:
    by = "" if kind.recorded or kind.name.startswith(("a ", "copies")) else " (by the kernel's name)"
    return f"{kind.name}{by}, {words.times(len(kind.rows) / facts.n)} {facts.per}"


def _evidence(facts: Facts, kind: _Kind) -> dict[str, Any]:
    sizes = {facts.trace.collectives.get(row, {}).get("Group size") for row in kind.rows} - {None}
    return {
        "name": kind.name,
        "recorded": kind.recorded,
        "per_step": len(kind.rows) / facts.n,
        "exposed_us_per_step": facts.per_step(spans.measure(facts.exposed(kind.rows))),
        "group_sizes": sorted(int(s) for s in sizes if isinstance(s, (int, float))),
    }


def _lines(facts: Facts, rows: I32) -> list[tuple[SourceRef, float]]:
    """User statements by the exposed time of what they launched; in the backward pass the forward statement's."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    places: dict[tuple[str, int], SourceRef] = {}
    for row in map(int, rows):
        at = facts.line_of_event(row)
        if at is not None:
            groups[at.file, at.line].append(row)
            places[at.file, at.line] = at
    measured = [(places[key], spans.measure(facts.exposed(mine))) for key, mine in groups.items()]
    return sorted(measured, key=lambda item: -item[1])


def _is_data_parallel(facts: Facts) -> bool:
    return all(name in facts.names for name in DATA_PARALLEL)


def _advice(facts: Facts, kind: str) -> str:
    if _is_data_parallel(facts):
        return "nn.DataParallel sends the model out and the results back in every step: DistributedDataParallel, one process a device, does not."
    flat = kind.lower().replace("_", "")
    if "allgather" in flat or "reducescatter" in flat:
        return (
            "Sharded parameters: fetch the next layer's while this one computes (FSDP: forward_prefetch, backward_prefetch; "
            "set_modules_to_forward_prefetch), shard whole blocks instead of single layers, or shard within a host only."
        )
    if "broadcast" in flat:
        return (
            "A broadcast in every step is most often DistributedDataParallel's buffers: broadcast_buffers=False, if no batch-norm "
            "statistics must agree; SyncBatchNorm otherwise."
        )
    if "alltoall" in flat:
        return "Exchange one part while the last is computed (chunks of the batch on a stream of their own), in a smaller type."
    if "send" in flat or "recv" in flat:
        return "Stages wait for one another: more, smaller micro-batches, or a schedule that interleaves them."
    if "copies" in flat:
        return "Keep data where it is used; copies between devices can run on a stream of their own."
    return (
        "Overlap it: DistributedDataParallel with buckets of the right size (bucket_cap_mb), gradient accumulation with no_sync(), "
        "larger batches, or gradients in bfloat16 (bf16_compress_hook; changes numerics)."
    )


def _through_the_host(facts: Facts) -> list[Candidate]:
    """Gloo between devices: what it reduces goes to the host and back."""
    wanted = [i for i, text in enumerate(facts.names) if text.startswith(GLOO)]
    if not wanted:
        return []
    pairs: list[tuple[float, float]] = []
    first: tuple[int, float] | None = None
    for table in (facts.trace.ranges, facts.trace.ops):
        for row in np.flatnonzero(np.isin(table.name, wanted)):
            start = float(table.start[row])
            pairs.append((start, start + float(table.dur[row])))
            first = first or (int(table.tid[row]), start)
    lost = spans.intersect(facts.clip(spans.of(pairs)), facts.idle)
    cost = facts.real(lost)
    if 100.0 * cost < SHARE_PCT * facts.base_us:
        return []
    return [
        Candidate(
            code="exposed-communication",
            title="Devices communicate through the host",
            fact=f"gloo carries the devices' collectives, {words.count(len(pairs) / facts.n)} {facts.per}: they go through the host's memory, and "
            f"the device idles {words.time(facts.per_step(cost))} meanwhile.",
            advice='init_process_group("nccl"): the devices then exchange them directly.',
            at=facts.context.attribution.host_line(*first) if first is not None else None,
            cost_us=cost,
            saving_us=cost * SAVING_SHARE,
            claims=lost,
            evidence={"collectives_per_step": len(pairs) / facts.n, "threshold_pct": SHARE_PCT, "backend": "gloo"},
        )
    ]


def _skew(facts: Facts, rows: I32) -> list[Candidate]:
    events = facts.trace.device_events
    first = _late_ranks(facts, rows)
    rows = rows[(events.work[rows] != Work.MEMCPY) & (rows != (-1 if first is None else first))]
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
