"""Launches of a program's own Triton kernels (``@triton.jit``): which of the arguments that the agent saw each one had.

A trace knows a direct launch by its name and grid alone. The agent notes arguments and, while the profiler records, the
time at which each launch was entered, just before the driver is called.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeline.assemble.kernels import triton_args
from ridgeline.roofline.inputs import Launched, LaunchedArgument
from ridgeline.sidecar import Sidecar, TritonKernel
from ridgeline.trace.tables import I32, Trace, Work
from ridgeline.trace.work import WorkTable

_DEFAULT_WARPS = 4
_WARP_THREADS = (32, 64)
_REPLAY = "Graph"
"""In the name of the driver's call that replays launches of before."""


@dataclass(slots=True, frozen=True)
class _Call:
    kernel: TritonKernel
    index: int

    @property
    def row(self) -> dict[str, Any]:
        return self.kernel.calls[self.index]


@dataclass(slots=True, kw_only=True)
class DirectLaunches:
    of_work: I32
    """Work row -> index in ``calls``, -1 where it is no such launch or where its arguments are not known."""
    calls: list[Launched]

    def of(self, row: int) -> Launched | None:
        index = int(self.of_work[row])
        return self.calls[index] if index >= 0 else None


def direct_launches(trace: Trace, work: WorkTable, sidecar: Sidecar | None) -> DirectLaunches:
    """By time where the agent told launches apart; else by grid and warps, where only one set of arguments fits."""
    found = DirectLaunches(of_work=np.full(len(work.start), -1, dtype=np.int32), calls=[])
    kernels: dict[str, list[TritonKernel]] = {}
    for kernel in sidecar.triton_calls if sidecar is not None else []:
        if kernel.calls:
            kernels.setdefault(kernel.name, []).append(kernel)
    if not kernels or work.on_cpu:
        return found
    rows_of = {i: kernels[text] for i, text in enumerate(trace.strings) if text in kernels}
    timelines = {name: _timeline(rows) for name, rows in kernels.items()}
    known: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(np.isin(work.name, list(rows_of))):
        if work.work[row] != Work.KERNEL or (triton_args(trace, int(work.op[row])) or {}).get("kernel_file"):
            continue  # what Inductor launches does not pass the agent's hook
        rows = rows_of[int(work.name[row])]
        call = _call_of(trace, work, int(row), rows, timelines[rows[0].name])
        if call is None:
            continue
        key = (id(call.kernel), call.index)
        if key not in known:
            known[key] = len(found.calls)
            found.calls.append(_launched(call))
        found.of_work[row] = known[key]
    return found


def _timeline(rows: list[TritonKernel]) -> tuple[list[int], list[_Call | None]]:
    """Times and calls of all launches under one name, in order."""
    entries = sorted(
        (
            (at, number, index)
            for number, kernel in enumerate(rows)
            for at, index in (entry for entry in kernel.recorded if len(entry) == 2)
        )
    )
    calls = [_Call(rows[n], i) if 0 <= i < len(rows[n].calls) else None for _, n, i in entries]
    return [at for at, _, _ in entries], calls


def _call_of(
    trace: Trace, work: WorkTable, row: int, rows: list[TritonKernel], timeline: tuple[list[int], list[_Call | None]]
) -> _Call | None:
    config = int(work.launch[row])
    grid = trace.launch_configs.grid[config] if config >= 0 else None
    block = trace.launch_configs.block[config] if config >= 0 else None
    fitting = [
        call
        for kernel in rows
        for call in (_Call(kernel, i) for i in range(len(kernel.calls)))
        if _fits(call.row, grid, block)
    ]
    if len(fitting) == 1:
        return fitting[0]
    launch = int(work.call[row])
    if launch < 0 or trace.base_ns is None or _REPLAY in trace.strings[int(trace.calls.name[launch])]:
        return None
    at = trace.base_ns + trace.origin_ns + int(1000 * float(trace.calls.start[launch]))
    place = bisect_right(timeline[0], at) - 1
    call = timeline[1][place] if place >= 0 else None
    return call if call is not None and call in fitting else None


def _fits(call: dict[str, Any], grid: tuple[int, ...] | None, block: tuple[int, ...] | None) -> bool:
    """Whether a launch of that grid and block can have been this call."""
    asked = [int(n) for n in call.get("grid") or ()]
    if grid is not None and asked and [*asked, 1, 1][:3] != [*grid, 1, 1][:3]:
        return False
    warps = call.get("options", {}).get("num_warps", _DEFAULT_WARPS)
    threads = math.prod(block) if block else None
    return threads is None or not isinstance(warps, int) or threads in [warps * size for size in _WARP_THREADS]


def _launched(call: _Call) -> Launched:
    arguments = []
    for one in call.row.get("arguments", ()):
        of = one.get("of")
        if isinstance(of, dict) and {"size", "stride", "dtype"} <= of.keys():
            argument = LaunchedArgument(
                name=str(one["name"]),
                size=tuple(of["size"]),
                stride=tuple(of["stride"]),
                type=str(of["dtype"]),
                block=tuple(one.get("block", ())) or None,
            )
        elif "size" in one:
            argument = LaunchedArgument(
                name=str(one["name"]),
                size=tuple(one["size"]),
                stride=tuple(one["stride"]),
                type=str(one["dtype"]),
                same_as=one.get("same_as"),
            )
        else:
            argument = LaunchedArgument(name=str(one["name"]), value=one.get("value"), type=one.get("type"))
        arguments.append(argument)
    return Launched(
        text=call.kernel.text or None,
        arguments=tuple(arguments),
        options=tuple(sorted((str(k), v) for k, v in call.row.get("options", {}).items())),
    )
