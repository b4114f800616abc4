"""Memory over time, what is alive at its peak, and what each operator allocates, from the allocators' own records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.model import Attribution
from ridgeline.profile import Allocation, Memory
from ridgeline.trace.nesting import innermost
from ridgeline.trace.tables import I32, I64, Trace

MAX_POINTS = 1_000
MAX_ALLOCATIONS = 20


@dataclass(slots=True, frozen=True)
class OpMemory:
    """Bytes allocated less bytes freed by the ops of each group themselves, shape (groups,)."""

    host: I64
    device: I64


def ops_of_events(trace: Trace) -> I32:
    """For each memory record the row of the innermost op of its thread at that moment, -1 for none."""
    events, ops = trace.memory, trace.ops
    assert events is not None
    _, inverse = np.unique(np.concatenate([ops.tid, events.tid]), return_inverse=True)
    threads: I32 = np.asarray(inverse.reshape(-1), dtype=np.int32)
    of_ops, of_events = threads[: len(ops.tid)], threads[len(ops.tid) :]
    return innermost(ops.start, ops.start + ops.dur, of_ops, ops.parent, events.time, of_events)


def memory_of_ops(trace: Trace, group: npt.NDArray[np.integer[Any]], groups: int) -> OpMemory | None:
    """``group`` is each op's group. None where memory was not recorded."""
    events = trace.memory
    if events is None or not len(events.time):
        return None
    op = ops_of_events(trace)
    found = []
    for mine in (events.device < 0, events.device >= 0):
        rows = np.flatnonzero(mine & (op >= 0))
        sums = np.zeros(groups, dtype=np.int64)
        np.add.at(sums, group[op[rows]], events.bytes[rows])
        found.append(sums)
    return OpMemory(*found)


def memory_table(trace: Trace, attribution: Attribution) -> Memory | None:
    """Allocated bytes over time and the largest allocations alive at the peak; None where memory was not recorded.

    The accelerator's memory where there is any, else the host's. The times are microseconds from the trace's origin. What
    was allocated before the recording is in the level, and not among the allocations.
    """
    events = trace.memory
    if events is None or len(events.time) == 0:
        return None
    accelerated = events.device >= 0
    rows = np.flatnonzero(accelerated if accelerated.any() else ~accelerated)
    device = int(events.device[rows[0]])
    rows = rows[events.device[rows] == device]
    rows = rows[np.argsort(events.time[rows], kind="stable")]
    total = events.total_allocated[rows]
    level = total if (total >= 0).any() else np.cumsum(events.bytes[rows])
    peak = int(np.argmax(level))
    alive: dict[int, int] = {}
    for i in range(peak + 1):
        address, size = int(events.address[rows[i]]), int(events.bytes[rows[i]])
        if size > 0:
            alive[address] = i
        else:
            alive.pop(address, None)
    largest = sorted(alive.values(), key=lambda i: -int(events.bytes[rows[i]]))[:MAX_ALLOCATIONS]
    reserved = events.total_reserved[rows]
    ops = ops_of_events(trace)
    return Memory(
        device=device,
        peak_bytes=int(level[peak]),
        reserved_peak_bytes=int(reserved.max()) if (reserved > 0).any() else None,
        timeline=[(float(events.time[rows[i]]), int(level[i])) for i in _picked(level)],
        top=[_allocation(trace, attribution, int(rows[i]), int(ops[rows[i]])) for i in largest],
    )


def _picked(level: npt.NDArray[np.integer[Any]]) -> list[int]:
    """Of too many points each stretch keeps its highest and its lowest; the ends stay."""
    step = -(-2 * len(level) // MAX_POINTS)
    if step <= 2:
        return list(range(len(level)))
    found = {0, len(level) - 1}
    for first in range(0, len(level), step):
        part = level[first : first + step]
        found |= {first + int(part.argmax()), first + int(part.argmin())}
    return sorted(found)


def _allocation(trace: Trace, attribution: Attribution, row: int, op: int) -> Allocation:
    assert trace.memory is not None
    where = attribution.host_line(int(trace.memory.tid[row]), float(trace.memory.time[row]))
    return Allocation(
        bytes=int(trace.memory.bytes[row]),
        file=where.file if where else None,
        line=where.line if where else None,
        op=trace.strings[int(trace.ops.name[op])] if op >= 0 else None,
    )
