"""Where the host waited for the device, and what that cost the device.

A wait itself costs nothing while the device works. Its price is the gap that follows: the queue is empty when the host
comes back, and refills only as fast as the host outruns the device. Without the wait the host would be ahead by the time
it waited; so the price is the device's idle time until a kernel is again launched that long before its turn, and never
more than the wait:

    cost = min(device idle from the end of the work waited for until the queue is as full as before, host wait)
"""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import I32, Call, Work

Direction = Literal["HtoD", "DtoH", "DtoD", "none"]


@dataclass(slots=True, frozen=True, kw_only=True)
class Block:
    """One wait: consecutive blocking calls of one outermost op, or one bare synchronising call."""

    start: float
    end: float
    host_us: float
    """Time of the whole op (``aten::item``…), or of the call where there is no op."""
    wait_us: float
    """Time of its blocking calls."""
    tid: int
    op: int
    """Outermost enclosing op, -1 if the user synchronised explicitly."""
    op_name: str
    call_name: str
    direction: Direction
    """Of the copy it waited for."""
    nbytes: float
    """Of its copies; NaN where not recorded."""
    gap: Spans
    """Device idle that it caused."""
    at: SourceRef | None
    calls: tuple[int, ...] = ()
    """Its blocking calls, rows of ``Trace.calls``."""


@functools.cache
def direction_of(name: str) -> Direction:
    """Copy direction from an event's name, NVIDIA's and AMD's words alike."""
    flat = name.lower().replace(" ", "")
    for key, words in (
        ("HtoD", ("htod", "host->device", "pageable->device", "pinned->device")),
        ("DtoH", ("dtoh", "device->host", "device->pageable", "device->pinned")),
        ("DtoD", ("dtod", "device->device")),
    ):
        if any(word in flat for word in words):
            return key  # type: ignore[return-value]
    return "none"


def waiting_calls(facts: Facts) -> I32:
    """Rows of the calls that stop the host until the device is done."""
    calls, events = facts.trace.calls, facts.trace.device_events
    copies = np.flatnonzero((events.call >= 0) & (events.work == Work.MEMCPY))
    copy_of = dict(zip(events.call[copies].tolist(), copies.tolist()))
    rows = np.flatnonzero((calls.kind == Call.SYNC) | (calls.kind == Call.MEMCPY))
    return np.array([r for r in rows.tolist() if _waits(facts, r, copy_of)], dtype=np.int32)


def blocks(facts: Facts) -> list[Block]:
    """Every wait of the recorded steps, in order. The profiler's own last synchronisation is not among them: it has no
    op and no user statement, and it stands at the end."""
    calls, events = facts.trace.calls, facts.trace.device_events
    copies = np.flatnonzero((events.call >= 0) & (events.work == Work.MEMCPY))
    copy_of = dict(zip(events.call[copies].tolist(), copies.tolist()))
    grouped: dict[tuple[int, int], list[int]] = {}
    waiting = waiting_calls(facts)
    for row in waiting[facts.all_within(calls.start[waiting])].tolist():
        start = float(calls.start[row])
        op = facts.op_at(int(calls.tid[row]), start)
        top = facts.outermost(op) if op >= 0 else -1
        if top >= 0 and facts.op_name(top).startswith(
            ("ProfilerStep", "Torch-Compiled", "## Call", "autograd::engine")
        ):
            top = -1
        grouped.setdefault((top, -1 if top >= 0 else row), []).append(row)
    found = []
    ordered = sorted(grouped.items(), key=lambda item: float(calls.start[item[1][0]]))
    debts = [(float(calls.start[rows[-1]] + calls.dur[rows[-1]]), float(calls.dur[rows].sum())) for _, rows in ordered]
    gaps = _paid(facts, debts)
    for at_group, ((top, _), rows) in enumerate(ordered):
        at = facts.line_of_op(top) if top >= 0 else facts.line_of_call(rows[0])
        if at is None and top >= 0:  # in the backward pass: what the operation's own copies lead to
            copied = _copies_in(facts, top, copy_of)
            at = next((place for r in copied if (place := facts.line_of_event(copy_of[r])) is not None), None)
        if top < 0 and at is None and _is_profilers(facts, rows[-1]):
            continue
        start, end = float(calls.start[rows[0]]), float(calls.start[rows[-1]] + calls.dur[rows[-1]])
        wait = float(calls.dur[rows].sum())
        siblings = (
            [r for r in copy_of if start - 1e-3 <= calls.start[r] <= end]
            if top < 0
            else _copies_in(facts, top, copy_of)
        )
        directions = {direction_of(facts.event_name(copy_of[r])) for r in siblings}
        found.append(
            Block(
                start=start,
                end=end,
                host_us=float(facts.trace.ops.dur[top]) if top >= 0 else wait,
                wait_us=wait,
                tid=int(calls.tid[rows[0]]),
                op=top,
                op_name=facts.op_name(top) if top >= 0 else "",
                call_name=facts.call_name(rows[-1]),
                nbytes=float(sum(events.bytes[copy_of[r]] for r in siblings)),
                direction="DtoH" if "DtoH" in directions else "HtoD" if "HtoD" in directions else "none",
                gap=gaps[at_group],
                at=at,
                calls=tuple(rows),
            )
        )
    return found


def _waits(facts: Facts, row: int, copy_of: dict[int, int]) -> bool:
    """A synchronising call waits; a copy call does when it returns only after its copy has ended (pageable memory)."""
    calls, events = facts.trace.calls, facts.trace.device_events
    if calls.kind[row] == Call.SYNC:
        return True
    copy = copy_of.get(row)
    if copy is None:
        return False
    return float(calls.start[row] + calls.dur[row]) >= float(events.start[copy] + events.dur[copy]) - 0.5


def _copies_in(facts: Facts, op: int, copy_of: dict[int, int]) -> list[int]:
    calls, lo, hi = facts.trace.calls, float(facts.trace.ops.start[op]), facts.op_end(op)
    first, last = np.searchsorted(calls.start, (lo, hi))
    tid = facts.trace.ops.tid[op]
    return [r for r in range(int(first), int(last)) if r in copy_of and calls.tid[r] == tid]


def _is_profilers(facts: Facts, row: int) -> bool:
    """The profiler synchronises the device when it stops: nothing is launched after it."""
    calls = facts.trace.calls
    return not (calls.start[facts.launch_calls] > calls.start[row]).any()


def _paid(facts: Facts, debts: list[tuple[float, float]]) -> list[Spans]:
    """For each wait (its end, its length, in order) the device idle time that it caused.

    A wait throws the host back by its length: a debt. Every gap that follows pays it off, the oldest debt first, until a
    launch comes as long before its turn as is still owed: then the queue is as full as it was. One pass over the events.
    """
    events, calls, rows = facts.trace.device_events, facts.trace.calls, facts.device_rows
    start = events.start[rows]
    reach = np.maximum.accumulate(start + events.dur[rows]) if len(rows) else start
    call = events.call[rows]
    launched = np.where(call >= 0, calls.start[np.maximum(call, 0)] if len(calls.start) else np.nan, np.nan)
    paid: list[list[tuple[float, float]]] = [[] for _ in debts]
    owed: deque[list[float]] = deque()  # [which, how much is left]
    upcoming = 0
    for row in range(1, len(rows)):
        while upcoming < len(debts) and debts[upcoming][0] < start[row]:
            owed.append([upcoming, debts[upcoming][1]])
            upcoming += 1
        if not owed:
            continue
        before = float(reach[row - 1])
        if before - launched[row] >= sum(left for _, left in owed):
            owed.clear()  # the host is as far ahead as the waits had thrown it back
        at, end = before, float(start[row])
        while owed and at < end:
            which, left = owed[0]
            upto = min(end, at + left)
            paid[int(which)].append((at, upto))
            owed[0][1] -= upto - at
            at = upto
            if owed[0][1] <= 1e-9:
                owed.popleft()
    return [facts.clip(spans.of(pairs)) for pairs in paid]
