"""``memory-near-capacity``, ``memory-retries``, ``allocation-in-loop``, ``memory-fragmentation``: what memory costs, or soon will;
``memory-incomplete``: that not all of it was recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import Call

NEAR_PCT = 90.0
"""Of the device's memory (the TensorBoard profiler's threshold): beyond it the allocator begins to free and retry."""
PER_STEP = 0.5
"""Driver allocations a step. A caching allocator has all it needs after the first steps."""
ALLOCATING = ("aten::empty", "aten::empty_strided", "aten::empty_like")
FRAGMENTED_PCT = 30.0
"""Of the reserved peak that was not allocated when the allocated peak was reached."""
FRAGMENTED_BYTES = 1 << 30
RELATED = 3


def rule(facts: Facts) -> list[Candidate]:
    return _capacity(facts) + _retries(facts) + _driver_calls(facts) + _fragmentation(facts) + _incomplete(facts)


def capacity_of(facts: Facts) -> int | None:
    """Bytes of the device's memory, as the program or the trace reports them."""
    if facts.sidecar is not None:
        for device in facts.sidecar.devices:
            if device.get("index", 0) == facts.device and isinstance(device.get("total_memory"), int):
                return int(device["total_memory"])
    info = next((d for d in facts.trace.devices if d.id == facts.device), None)
    total = info.properties.get("totalGlobalMem") if info is not None else None
    return int(total) if isinstance(total, (int, float)) and total > 0 else None


class _Used(NamedTuple):
    """Of the device's memory, in bytes; from the recorded allocations, else from what the allocator counted."""

    allocated: int
    reserved: int | None
    retries: int | None
    """Times since the process began; None where nobody counted."""
    out_of_memory: int
    recorded: bool
    """Whether the allocations themselves were recorded, so that the largest are known."""


def used(facts: Facts) -> _Used | None:
    """None if nothing is known."""
    memory = facts.document.memory
    counted = next(
        (
            d.get("memory") or {}
            for d in (facts.sidecar.devices if facts.sidecar else [])
            if d.get("index") == facts.device
        ),
        {},
    )
    numbers = (
        {key: value for key, value in counted.items() if isinstance(value, int)} if isinstance(counted, dict) else {}
    )
    retries, ooms = numbers.get("retries"), numbers.get("out_of_memory", 0)
    if memory is not None and memory.peak_bytes and (memory.device == facts.device or not numbers):
        return _Used(memory.peak_bytes, memory.reserved_peak_bytes, retries, ooms, recorded=True)
    if facts.on_cpu or not numbers.get("peak_allocated"):
        return None
    return _Used(numbers["peak_allocated"], numbers.get("peak_reserved"), retries, ooms, recorded=False)


def _capacity(facts: Facts) -> list[Candidate]:
    now, total = used(facts), capacity_of(facts)
    if now is None or not total:
        return []
    # What is reserved and not in use is given back when it is needed; unless that has happened it is no need.
    full = max(now.allocated, now.reserved or 0) if now.retries is None or now.retries > 0 else now.allocated
    share = 100.0 * full / total
    if share < NEAR_PCT:
        return []
    memory = facts.document.memory
    top = [a for a in memory.top if a.file and a.line] if memory is not None and now.recorded else []
    at = SourceRef(file=top[0].file or "", line=top[0].line or 0) if top else None
    largest = f" The largest live allocation, {words.size(top[0].bytes)}, is made here." if top else ""
    where = "The next largest stand beside it" if top else "--memory records which lines hold it"
    return [
        Candidate(
            code="memory-near-capacity",
            title="Memory is nearly full",
            fact=f"The peak is {words.size(full)} of {words.size(total)} ({words.percent(share)}).{largest}",
            advice=f"{where}; activation checkpointing, a smaller batch, or a leaner optimizer state.",
            at=at,
            evidence={
                "peak_bytes": full,
                "capacity_bytes": total,
                "retries": now.retries,
                "threshold_pct": NEAR_PCT,
                "related": [
                    {"file": a.file, "line": a.line, "text": f"{words.size(a.bytes)} live at the peak"}
                    for a in top[1 : 1 + RELATED]
                ],
            },
        )
    ]


def _retries(facts: Facts) -> list[Candidate]:
    """The allocator found the device full, gave its cache back to the driver and tried again."""
    now = used(facts)
    if now is None or not now.retries:
        return []
    calls = facts.trace.calls
    rows = [int(r) for r in np.flatnonzero((calls.kind == Call.MALLOC) & facts.all_within(calls.start))]
    frees = [r for r in rows if "Free" in facts.call_name(r)]
    at = next((place for r in frees or rows if (place := facts.line_of_call(r)) is not None), None)
    within = (
        f" In the recorded steps it is at it ({words.count(len(frees) / facts.n)} frees {facts.per})." if frees else ""
    )
    caught = f" {words.times(now.out_of_memory).capitalize()} even that did not help." if now.out_of_memory else ""
    return [
        Candidate(
            code="memory-retries",
            title="The device's memory was full, and the allocator tried again",
            fact=f"{words.times(now.retries).capitalize()} since the program began the allocator gave its cache back to the driver, which "
            f"waits for the device, and tried again.{caught}{within}",
            advice="Lower the peak (a smaller batch, activation checkpointing), or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True if "
            "much is reserved and not in use.",
            at=at,
            hint=not frees,
            evidence={
                "retries": now.retries,
                "out_of_memory": now.out_of_memory,
                "frees_per_step": len(frees) / facts.n,
                "peak_bytes": now.allocated,
                "reserved_peak_bytes": now.reserved,
            },
        )
    ]


def _driver_calls(facts: Facts) -> list[Candidate]:
    """cudaMalloc and cudaFree within the steps: the allocator's cache is emptied, by hand or because memory ran out."""
    calls = facts.trace.calls
    rows = [int(r) for r in np.flatnonzero((calls.kind == Call.MALLOC) & facts.all_within(calls.start))]
    if not facts.steps or len(rows) < max(2.0, PER_STEP * facts.n):
        return []
    groups: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    places: dict[tuple[str, int] | None, SourceRef | None] = {}
    for row in rows:
        at = facts.line_of_call(row)
        key = (at.file, at.line) if at else None
        groups[key].append(row)
        places[key] = at
    key = max(groups, key=lambda k: (k is not None, float(calls.dur[groups[k]].sum())))
    names = Counter(facts.call_name(r) for r in rows)
    host = spans.union(calls.start[rows], calls.start[rows] + calls.dur[rows])
    claims = facts.clip(host) if facts.on_cpu else spans.intersect(facts.clip(host), facts.idle)
    cost = saving = spans.measure(claims)
    if not facts.on_cpu and facts.judged:
        saving = facts.whatif.saving(Change(host=host, waits=set(rows)))
    frees = sum(count for name, count in names.items() if "Free" in name)
    return [
        Candidate(
            code="allocation-in-loop",
            title="Memory is taken from the driver inside the step",
            fact=f"{words.count(len(rows) / facts.n)} calls {facts.per} ({', '.join(f'{c} {n}' for n, c in names.most_common(3))} in all): the host "
            f"spends {words.time(facts.per_step(float(calls.dur[rows].sum())))} {facts.per} in them"
            + (", and each cudaFree waits for the device." if frees else "."),
            advice="Do not call torch.cuda.empty_cache() in the loop; if memory runs out instead, lower the peak or set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            at=places[key],
            cost_us=cost,
            saving_us=saving,
            claims=claims,
            noted=True,
            evidence={
                "calls_per_step": len(rows) / facts.n,
                "calls": dict(names),
                "host_us_per_step": facts.per_step(float(calls.dur[rows].sum())),
                "threshold_per_step": PER_STEP,
            },
        )
    ]


def _fragmentation(facts: Facts) -> list[Candidate]:
    now = used(facts)
    if now is None or not now.reserved:
        return []
    unused = now.reserved - now.allocated
    share = 100.0 * unused / now.reserved
    if share < FRAGMENTED_PCT or unused < FRAGMENTED_BYTES:
        return []
    return [
        Candidate(
            code="memory-fragmentation",
            title="Much reserved memory is not in use",
            fact=f"{words.size(now.reserved)} are reserved, {words.size(now.allocated)} allocated at the peak: "
            f"{words.percent(share)} lies in pieces that did not fit.",
            advice="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or fewer different sizes (padding to buckets).",
            hint=True,
            evidence={
                "reserved_peak_bytes": now.reserved,
                "peak_bytes": now.allocated,
                "threshold_pct": FRAGMENTED_PCT,
            },
        )
    ]


def _incomplete(facts: Facts) -> list[Candidate]:
    """Threads that allocate without any of their memory in the recording: the profiler follows some threads' ops only."""
    memory = facts.trace.memory
    if memory is None or not len(memory.time):
        return []
    rows = facts.ops_named(*ALLOCATING)
    silent = {int(t) for t in facts.trace.ops.tid[rows]} - {int(t) for t in memory.tid}
    if not silent:
        return []
    first = next(int(r) for r in rows if int(facts.trace.ops.tid[r]) in silent)
    return [
        Candidate(
            code="memory-incomplete",
            title="Not all memory was recorded",
            fact=f"{len(silent)} threads allocate, and the recording holds none of it (worker memory not recorded): peak and live "
            "allocations are a lower bound.",
            hint=True,
            at=facts.line_of_op(first),
            evidence={"threads": len(silent)},
        )
    ]
