"""The host side of every unit of work: which thread launched it, when, inside which op, in which compiled graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.nesting import Nest
from ridgeline.inductor.names import split_site
from ridgeline.trace.tables import F64, I32, I64, U8, Trace
from ridgeline.trace.work import WorkTable

_GRAPH_CALL = re.compile(r"^## Call CompiledFxGraph (?P<key>\S+) ##$")
_AROUND = re.compile(r"^(?:Torch-Compiled Region: .*|CompiledFunction(?:Backward)?)$")
_OPTIMIZER = re.compile(r"^Optimizer\.(?:step|zero_grad)#")


@dataclass(slots=True)
class Regions:
    """One row for every execution of a compiled graph (``## Call CompiledFxGraph KEY ##``)."""

    start: F64
    dur: F64
    thread: I64
    key: list[str]
    nest: Nest


@dataclass(slots=True)
class Host:
    """One row for every row of work; -1 and NaN where the launch was not recorded."""

    op: I32
    call: I32
    thread: I64
    time: F64
    region: I32
    in_optimizer: U8
    """1 inside ``Optimizer.step`` or ``zero_grad``."""


def host_of(trace: Trace, work: WorkTable, regions: Regions) -> Host:
    op, call = work.op, work.call
    thread: I64 = np.full(len(op), -1, dtype=np.int64)
    time: F64 = np.full(len(op), np.nan)
    with_op = op >= 0
    thread[with_op], time[with_op] = trace.ops.tid[op[with_op]], trace.ops.start[op[with_op]]
    with_call = call >= 0
    thread[with_call], time[with_call] = trace.calls.tid[call[with_call]], trace.calls.start[call[with_call]]
    # The launch's own instant is the sharper one on an accelerator; on a CPU the unit is the op itself.
    region = regions.nest.innermost(thread, np.nan_to_num(time, nan=-np.inf))
    marks = np.array([_OPTIMIZER.match(trace.strings[i]) is not None for i in trace.ranges.name.tolist()], dtype=bool)
    optimizer = Nest(trace.ranges.start[marks], trace.ranges.dur[marks], trace.ranges.tid[marks])
    inside = optimizer.innermost(thread, np.nan_to_num(time, nan=-np.inf)) >= 0
    return Host(op=op, call=call, thread=thread, time=time, region=region, in_optimizer=inside.astype(np.uint8))


def is_graph_call(name: str) -> bool:
    return _GRAPH_CALL.match(name) is not None


def regions_of(trace: Trace) -> Regions:
    """Compiled regions: user annotations since torch 2.11, ops before.

    Recordings without either have at least the op of the compiled function around them; those get the key "".
    """
    keys = {i: m["key"] for i, text in enumerate(trace.strings) if (m := _GRAPH_CALL.match(text)) is not None}
    wanted = np.array(sorted(keys), dtype=np.int32)
    parts = []
    for table in (trace.ranges, trace.ops):
        at = np.flatnonzero(np.isin(table.name, wanted))
        parts.append((table.start[at], table.dur[at], table.tid[at], table.name[at]))
    around = np.array([_AROUND.match(text) is not None for text in trace.strings], dtype=bool)
    outer = np.flatnonzero(around[trace.ops.name]) if len(trace.strings) else np.zeros(0, dtype=np.int64)
    inner = np.concatenate([part[0] for part in parts]), np.concatenate([part[2] for part in parts])
    bare = [row for row in outer.tolist() if not _holds_one(trace, row, *inner)]
    parts.append((trace.ops.start[bare], trace.ops.dur[bare], trace.ops.tid[bare], trace.ops.name[bare]))
    start, dur, thread, name = (np.concatenate([part[i] for part in parts]) for i in range(4))
    return Regions(start, dur, thread, [keys.get(int(i), "") for i in name], Nest(start, dur, thread))


def _holds_one(trace: Trace, op: int, starts: F64, threads: I64) -> bool:
    begin, end = trace.ops.start[op], trace.ops.start[op] + trace.ops.dur[op]
    return bool(((threads == trace.ops.tid[op]) & (starts >= begin) & (starts <= end)).any())


def outermost_in(trace: Trace, ops: I32, since: F64) -> I32:
    """For every op the outermost of it and its ancestors that began after ``since``; -1 for no op.

    Strictly after, for what begins a region is at times an op itself.
    """
    current = ops.copy()
    active = np.flatnonzero(current >= 0)
    while len(active):
        parent = trace.ops.parent[current[active]]
        up = (parent >= 0) & (trace.ops.start[np.maximum(parent, 0)] > since[active])
        active = active[up]
        current[active] = parent[up]
    return current


def site_ops(trace: Trace) -> tuple[I32, dict[int, tuple[str, int, str]]]:
    """For every op the nearest of it and its ancestors that is an instrumented call (``kernel@line#stem``), and the names.

    The second value maps string ids to (kernel, line, stem).
    """
    named = {i: site for i, text in enumerate(trace.strings) if (site := split_site(text)) is not None}
    n = len(trace.ops.name)
    if not named:
        return np.full(n, -1, dtype=np.int32), named
    is_site = np.isin(trace.ops.name, np.array(sorted(named), dtype=np.int32))
    return _nearest(trace.ops.parent, is_site), named


def _nearest(parent: I32, wanted: npt.NDArray[np.bool_]) -> I32:
    """For every row the nearest of it and its ancestors where ``wanted``, -1 for none. Parents precede their children."""
    found = np.where(wanted, np.arange(len(parent), dtype=np.int32), np.int32(-1)).astype(np.int32)
    current = np.where(wanted, np.int32(-1), parent).astype(np.int32)
    active = np.flatnonzero(current >= 0)
    while len(active):
        at = current[active]
        hit = found[at] >= 0
        found[active[hit]] = found[at[hit]]
        active = active[~hit]
        current[active] = parent[current[active]]
        active = active[current[active] >= 0]
    return found


def nearest_ancestor(trace: Trace, wanted: npt.NDArray[np.bool_]) -> I32:
    """Over ops: :func:`_nearest` along ``Ops.parent``."""
    return _nearest(trace.ops.parent, wanted)
