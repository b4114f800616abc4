"""The tables that a trace becomes. Every column is declared here; nothing else travels between the rooms.

All arrays of one table have the same length n. Times are float64 microseconds relative to ``Trace.origin_ns`` (the
smallest timestamp kept), so that differences are exact to the trace's own precision whatever the epoch. Names and
argument texts are interned in ``Trace.strings``; a column of ids holds -1 where the event has no value. Row order is
by (start, -duration), so that a parent precedes its children.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.profile import Quality

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]


class Work(IntEnum):
    """What a device event is. Annotations projected onto a device are labels, never work, and are not in the table."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class Call(IntEnum):
    """What a runtime or driver call does."""

    LAUNCH = 0
    GRAPH_LAUNCH = 1
    MEMCPY = 2
    MEMSET = 3
    SYNC = 4
    MALLOC = 5
    QUERY = 6
    OTHER = 7


@dataclass(slots=True, kw_only=True)
class DeviceEvents:
    """Kernels, copies and memsets of all devices."""

    start: F64
    dur: F64
    name: I32
    work: U8
    device: I32
    stream: I64
    correlation: I64
    external_id: I64
    call: I32
    """Row of the launching call in ``Trace.calls``, -1 if none was recorded."""
    op: I32
    """Row of the innermost cpu_op that launched it, -1 if none."""
    bytes: F64
    """Of copies and memsets; NaN where not recorded."""
    launch: I32
    """Row in ``Trace.launch_configs``, -1 if none."""
    graph_node: I64
    """CUDA graph node id, -1 if not recorded."""


@dataclass(slots=True, kw_only=True)
class LaunchConfigs:
    """Distinct launch geometries, few; plain lists."""

    grid: list[tuple[int, ...] | None] = field(default_factory=list)
    block: list[tuple[int, ...] | None] = field(default_factory=list)
    registers: list[int | None] = field(default_factory=list)
    shared_memory: list[int | None] = field(default_factory=list)
    occupancy_pct: list[float | None] = field(default_factory=list)
    warps_per_sm: list[float | None] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Calls:
    """Runtime and driver calls of the host (CUDA, HIP, XPU…)."""

    start: F64
    dur: F64
    name: I32
    kind: U8
    pid: I64
    tid: I64
    correlation: I64
    external_id: I64


@dataclass(slots=True, kw_only=True)
class Ops:
    """``cpu_op`` events."""

    start: F64
    dur: F64
    self_dur: F64
    """Duration less what direct children (ops of the same thread, clipped to the parent) cover; never negative."""
    name: I32
    pid: I64
    tid: I64
    parent: I32
    """Row of the enclosing op of the same thread, -1 at the top."""
    external_id: I64
    sequence: I64
    forward_thread: I64
    args: I32
    """Row in ``Trace.op_args``, -1 if none."""


@dataclass(slots=True, kw_only=True)
class OpArgs:
    """Distinct argument sets of ops (interned as a whole), plain Python values as the trace gives them."""

    input_dims: list[list[Any] | None] = field(default_factory=list)
    input_types: list[list[str] | None] = field(default_factory=list)
    input_strides: list[list[Any] | None] = field(default_factory=list)
    concrete_inputs: list[list[Any] | None] = field(default_factory=list)
    triton: list[dict[str, Any] | None] = field(default_factory=list)
    """kernel_file, kernel_hash, kernel_backend, num_warps, num_stages, kernel_kwargs, kernel_num_gb, kernel_flop, grid"""


@dataclass(slots=True, kw_only=True)
class Ranges:
    """``user_annotation`` events on the host: ProfilerStep#N, record_function labels, compiled-region marks."""

    start: F64
    dur: F64
    name: I32
    pid: I64
    tid: I64
    external_id: I64


@dataclass(slots=True, kw_only=True)
class Frames:
    """``python_function`` events, read only when lines are wanted."""

    start: F64
    dur: F64
    name: I32
    pid: I64
    tid: I64
    python_id: I64
    python_parent: I64
    open_end: U8
    """1 where the frame never closed (it ends with many others at one instant): its duration means nothing."""


@dataclass(slots=True, kw_only=True)
class MemoryEvents:
    """``[memory]`` instants."""

    time: F64
    bytes: I64
    address: I64
    total_allocated: I64
    total_reserved: I64
    device_type: I32
    device: I32
    tid: I64


@dataclass(slots=True, kw_only=True)
class StepRow:
    name: str
    start: float
    dur: float
    window: int = 0
    asked: tuple[float, float] | None = None
    """Where the host runs ahead and the step is the device's: from when to when the host handed its work over."""


@dataclass(slots=True, kw_only=True)
class DeviceInfo:
    """From ``deviceProperties``, or inferred where the trace has none."""

    id: int
    name: str
    kind: str
    """cuda | rocm | xpu | npu | mtia | cpu"""
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Trace:
    path: str
    origin_ns: int
    """Nanoseconds, in the file's own time, of offset 0."""
    base_ns: int | None
    """``baseTimeNanoseconds``; unix ns = base_ns + origin_ns + 1000 * offset. None: clocks not comparable."""
    strings: list[str]
    device_events: DeviceEvents
    launch_configs: LaunchConfigs
    calls: Calls
    ops: Ops
    op_args: OpArgs
    ranges: Ranges
    frames: Frames | None
    memory: MemoryEvents | None
    steps: list[StepRow]
    devices: list[DeviceInfo]
    metadata: dict[str, Any]
    """Top-level keys other than traceEvents, and with_stack, record_shapes, profile_memory, distributedInfo."""
    quality: Quality
    thread_names: dict[int, str] = field(default_factory=dict)
    collectives: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Row in ``device_events`` -> what the communication library recorded of it (``Collective name``, ``Group size``…)."""
    overhead: Ranges | None = None
    """What the profiler itself took (``overhead`` records: buffer flushes, instrumentation); None if none was recorded."""
    bounded: tuple[F64, Bool] | None = None
    """What :func:`ridgeline.trace.bounds.bounded` found, once it was asked: counted durations, and which were bounded."""
    call_stacks: dict[int, str] = field(default_factory=dict)
    """Row in ``ops`` -> its Python stack, innermost first, joined by ``;`` (traces of 2021 keep it with the op)."""
