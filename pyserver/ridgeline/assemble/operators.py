"""The operator table, and the user's labelled ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ridgeline.assemble.memory import memory_of_ops
from ridgeline.attribution.model import Attribution
from ridgeline.profile import Frame, Op, Range
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import F64, I32, Trace
from ridgeline.trace.work import WorkTable

MAX_OPS = 20_000

# Ranges that torch itself writes; all others are the user's.
_TORCH_RANGE = re.compile(
    r"^(ProfilerStep#|## Call CompiledFxGraph |Torch-Compiled Region|Optimizer\.(step|zero_grad)#|enumerate\(DataLoader\)|"
    r"PyTorch Profiler|Pregraph bytecode|TorchDynamo Cache Lookup|AOTDispatcher |nccl:|gloo:|c10d::|"
    r"Activity Buffer Request|DistributedDataParallel\.|FSDP::|triton_|## \w+:\d+ ##|\[pl\])"
)


def _outermost(parent: I32, name: I32) -> np.ndarray:
    """True where no enclosing row has the same name: recursion and nesting count once."""
    nested = np.zeros(len(name), dtype=bool)
    ancestor = parent.copy()
    while (alive := ancestor >= 0).any():
        nested[alive] |= name[ancestor[alive]] == name[alive]
        ancestor[alive] = parent[ancestor[alive]]
    return ~nested


def operator_table(trace: Trace, work: WorkTable, attribution: Attribution) -> list[Op]:
    """One row for every (op, input shapes), self and total, host and device; totals count recursion once."""
    ops = trace.ops
    n = len(ops.start)
    if n == 0:
        return []
    outermost = _outermost(ops.parent, ops.name)
    self_device, device = np.zeros(n), np.zeros(n)
    if not work.on_cpu:
        rows = np.flatnonzero(work.op >= 0)
        current = work.op[rows].astype(np.int64)
        time = work.time[rows]
        np.add.at(self_device, current, time)
        while len(current):
            np.add.at(device, current[outermost[current]], time[outermost[current]])
            current = ops.parent[current].astype(np.int64)
            keep = current >= 0
            current, time = current[keep], time[keep]
    keys = np.stack([ops.name.astype(np.int64), ops.args.astype(np.int64)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    groups = len(unique)
    count = np.bincount(inverse, minlength=groups)
    self_cpu = np.bincount(inverse, weights=ops.self_dur, minlength=groups)
    cpu = np.bincount(inverse, weights=np.where(outermost, ops.dur, 0.0), minlength=groups)
    self_dev = np.bincount(inverse, weights=self_device, minlength=groups)
    dev = np.bincount(inverse, weights=device, minlength=groups)
    memory = memory_of_ops(trace, inverse, groups)
    first = np.zeros(groups, dtype=np.int64)
    first[inverse[::-1]] = np.arange(n)[::-1]
    result = []
    for g in np.argsort(-(self_dev + self_cpu * 1e-9), kind="stable")[:MAX_OPS]:
        row = int(unique[g, 1])
        dims = trace.op_args.input_dims[row] if row >= 0 else None
        where = attribution.host_line(int(ops.tid[first[g]]), float(ops.start[first[g]]))
        result.append(
            Op(
                name=trace.strings[int(unique[g, 0])],
                count=int(count[g]),
                self_cpu_us=float(self_cpu[g]),
                cpu_us=float(cpu[g]),
                self_device_us=None if work.on_cpu else float(self_dev[g]),
                device_us=None if work.on_cpu else float(dev[g]),
                input_shapes=str(dims) if dims else None,
                self_cpu_memory_bytes=int(memory.host[g]) if memory is not None else None,
                self_device_memory_bytes=int(memory.device[g]) if memory is not None and not work.on_cpu else None,
                source=Frame(file=where.file, line=where.line, function=where.function) if where else None,
            )
        )
    return result


@dataclass(slots=True)
class _Label:
    wall: list[tuple[float, float]]
    device_us: float
    first: tuple[int, float]
    count: int


def user_ranges(trace: Trace, work: WorkTable, attribution: Attribution, sidecar: Sidecar | None) -> list[Range]:
    """``record_function`` labels of the user, nested ones of one name counted once, with the device time that was
    launched inside. Labels that the exporter turned into ``unknown`` get the name that the agent saw."""
    ranges = trace.ranges
    labels = _labels_of_sidecar(trace, sidecar)
    device_time = _LaunchedTime(trace, work)
    found: dict[str, _Label] = {}
    for i in range(len(ranges.start)):
        name = trace.strings[int(ranges.name[i])]
        start, tid = float(ranges.start[i]), int(ranges.tid[i])
        end = start + float(ranges.dur[i])
        if name == "unknown":
            name = labels.get(
                (tid, round(start / 50)), labels.get((tid, round(start / 50) - 1), "(label not exportable)")
            )
        if _TORCH_RANGE.match(name):
            continue
        label = found.setdefault(name, _Label([], 0.0, (tid, start), 0))
        label.count += 1
        nested = any(a <= start and end <= b for a, b in label.wall)
        if not nested:
            label.wall.append((start, end))
            label.device_us += device_time.between(tid, start, end)
    result = []
    for name, label in found.items():
        where = attribution.host_line(*label.first)
        result.append(
            Range(
                name=name,
                count=label.count,
                wall_us=sum(b - a for a, b in label.wall),
                device_us=label.device_us if len(work.start) else None,
                source=Frame(file=where.file, line=where.line, function=where.function) if where else None,
            )
        )
    return sorted(result, key=lambda r: -r.wall_us)


def _labels_of_sidecar(trace: Trace, sidecar: Sidecar | None) -> dict[tuple[int, int], str]:
    if sidecar is None or trace.base_ns is None:
        return {}
    table: dict[tuple[int, int], str] = {}
    for start_ns, _end_ns, tid, label in sidecar.labels:
        offset = (int(start_ns) - trace.base_ns - trace.origin_ns) / 1000
        for bucket in (round(offset / 50), round(offset / 50) + 1):
            table.setdefault((int(tid), bucket), str(label))
    return table


class _LaunchedTime:
    """Device time by when and on which host thread it was asked for, ready for range queries."""

    def __init__(self, trace: Trace, work: WorkTable) -> None:
        asked = np.full(len(work.start), np.nan)
        tid = np.full(len(work.start), -1, dtype=np.int64)
        for table, index in ((trace.ops, work.op), (trace.calls, work.call)):
            rows = np.flatnonzero(index >= 0)
            asked[rows] = table.start[index[rows]]
            tid[rows] = table.tid[index[rows]]
        self._by_thread: dict[int, tuple[F64, F64]] = {}
        for thread in np.unique(tid[tid >= 0]):
            rows = np.flatnonzero(tid == thread)
            rows = rows[np.argsort(asked[rows], kind="stable")]
            self._by_thread[int(thread)] = (asked[rows], np.concatenate([[0.0], np.cumsum(work.time[rows])]))

    def between(self, tid: int, start: float, end: float) -> float:
        if tid not in self._by_thread:
            return 0.0
        asked, total = self._by_thread[tid]
        first, last = np.searchsorted(asked, start, side="left"), np.searchsorted(asked, end, side="right")
        return float(total[last] - total[first])
