"""What a record is: by category name of any era and vendor, and what a runtime call does, by its name."""

from __future__ import annotations

import re
from enum import IntEnum

from ridgeline.trace.tables import Call, Work


class Kind(IntEnum):
    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    CALL = 3
    OP = 4
    RANGE = 5
    FRAME = 6
    INSTANT = 7
    LABEL = 8
    """A host range projected onto the device: no work."""
    OVERHEAD = 9
    """What the profiler itself took."""


CATEGORIES: dict[str, Kind] = {
    # Kineto today
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "cuda_runtime": Kind.CALL,
    "cuda_driver": Kind.CALL,
    "xpu_runtime": Kind.CALL,
    "xpu_driver": Kind.CALL,
    "mtia_runtime": Kind.CALL,
    "glow_runtime": Kind.CALL,
    "privateuse1_runtime": Kind.CALL,
    "privateuse1_driver": Kind.CALL,
    "hip_runtime": Kind.CALL,
    "hip_driver": Kind.CALL,
    "mtia_ccp_events": Kind.KERNEL,
    "hpu_op": Kind.KERNEL,
    "cpu_op": Kind.OP,
    "user_annotation": Kind.RANGE,
    "gpu_user_annotation": Kind.LABEL,
    "python_function": Kind.FRAME,
    "cpu_instant_event": Kind.INSTANT,
    "overhead": Kind.OVERHEAD,
    # Kineto of 2021
    "Kernel": Kind.KERNEL,
    "Memcpy": Kind.MEMCPY,
    "Memset": Kind.MEMSET,
    "Runtime": Kind.CALL,
    "Driver": Kind.CALL,
    "Operator": Kind.OP,
    "User_annotation": Kind.RANGE,
}

_LEGACY_PROCESS = {"CPU functions": Kind.OP, "CUDA functions": Kind.KERNEL}


def kind_without_category(process: object) -> Kind | None:
    """The exporter before Kineto wrote no category; its two processes said which side a record was on."""
    return _LEGACY_PROCESS.get(process) if isinstance(process, str) else None


_CALLS: tuple[tuple[Call, re.Pattern[str]], ...] = (
    (Call.GRAPH_LAUNCH, re.compile(r"GraphLaunch|ExecGraph|CommandBuffer\w*Enqueue|EnqueueCommandBuffer")),
    (Call.SYNC, re.compile(r"Synchronize|EventWait$|EventsWait|QueueFinish|HostSynchronize|StreamWaitValue$")),
    (
        Call.LAUNCH,
        re.compile(
            r"LaunchKernel|LaunchCooperativeKernel|ModuleLaunch|LaunchHostFunc|KernelLaunch|EnqueueNDRange"
            r"|LaunchGrid|^(?:cuda|cu|hip)Launch|AppendLaunch|runFunction|submit_for_execution|launch_kernel",
        ),
    ),
    (Call.MEMCPY, re.compile(r"Mem(?:ory)?cpy|MemoryCopy|EnqueueUSMMemcpy|EnqueueMem\w*(?:Read|Write|Copy)")),
    (Call.MEMSET, re.compile(r"Memset|MemsetD\d|USMFill|MemoryFill|MemBufferFill")),
    (
        Call.MALLOC,
        re.compile(
            r"Malloc|Free(?:Async|Host)?$|HostAlloc|HostRegister|MemAlloc|MemFree|MemCreate|MemMap|USM\w*Alloc|USMFree"
        ),
    ),
    (
        Call.QUERY,
        re.compile(
            r"Query|Get(?:Device|LastError|Attribute|Version|Property|Properties|Stream|CaptureInfo|Info)|IsCapturing"
            r"|Attribute|Occupancy|PeekAtLastError|PointerGet|CaptureInfo",
        ),
    ),
)


def call_of(name: str) -> Call:
    """What the runtime or driver call ``name`` (CUDA, HIP, Level Zero, unified runtime, MTIA) does."""
    for kind, pattern in _CALLS:
        if pattern.search(name):
            return kind
    return Call.OTHER


def work_of(name: str, kind: Kind) -> Work:
    """Kernel, copy or memset; MTIA's queue events and some vendors' copies come under the kernel category."""
    if kind is Kind.MEMCPY:
        return Work.MEMCPY
    if kind is Kind.MEMSET:
        return Work.MEMSET
    if name == "dma_request" or re.match(r"Memcpy |zeCommandListAppendMemoryCopy|urEnqueueUSMMemcpy", name):
        return Work.MEMCPY
    if re.match(r"Memset |zeCommandListAppendMemoryFill", name):
        return Work.MEMSET
    return Work.KERNEL
