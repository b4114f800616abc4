"""Communication kernels: how they are recognised, what they did, and how much of them nothing hides."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ridgeline.trace.intervals import Intervals, intersect, union
from ridgeline.trace.tables import Trace, Work

_NAMES = re.compile(
    r"^(?:void )?(?:nccl|rccl|mccl|oneccl|ccl_|hccl|msccl|ncclDev|ncclKernel|ncclDevKernel)"
    r"|ncclKernel|ncclDevKernel|rccl_|cross_device_reduce|symm_mem|one_shot_all_reduce|two_shot_all_reduce"
    r"|multimem_all_reduce|allreduce_fusion_kernel|deep_ep::|nvshmem|rocshmem|all_?to_?all_kernel",
    re.IGNORECASE,
)
_COLLECTIVE_IN_NAME = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|Gather|Scatter|Send|Recv)", re.IGNORECASE
)
_PROTOCOL_IN_NAME = re.compile(r"(RING|TREE|NVLS|COLLNET|PAT)[A-Za-z_]*?_(LL128|LL|SIMPLE)", re.IGNORECASE)


def is_communication(name: str) -> bool:
    """Whether the kernel ``name`` belongs to a collective library (NCCL, RCCL, MCCL, oneCCL…)."""
    return _NAMES.search(name) is not None


def communication_rows(trace: Trace) -> npt.NDArray[np.bool_]:
    """For each device event whether it is communication: by its recorded collective, else by its name."""
    device = trace.device_events
    names = np.unique(device.name)
    known = np.fromiter(
        (is_communication(trace.strings[name]) for name in names.tolist()), dtype=bool, count=len(names)
    )
    out: npt.NDArray[np.bool_] = (
        known[np.searchsorted(names, device.name)] if len(names) else np.zeros(0, dtype=np.bool_)
    )
    out = out & (device.work == Work.KERNEL)
    if trace.collectives:
        out[list(trace.collectives)] = True
    return out


def collective_of(raw: bytes) -> dict[str, Any]:
    """What a communication kernel's arguments say of the collective, as recorded."""
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    wanted = (
        "Collective name",
        "In msg nelems",
        "Out msg nelems",
        "In split size",
        "Out split size",
        "Group size",
        "dtype",
        "Process Group Name",
        "Process Group Description",
        "Process Group Ranks",
        "Rank",
        "Src Rank",
        "Dst Rank",
        "Seq",
        "Global rank start",
        "Global rank stride",
    )
    return {key: value[key] for key in wanted if key in value} if isinstance(value, dict) else {}


class NameHint(NamedTuple):
    """What a kernel's name suggests; the name may mislead, so recorded metadata always wins."""

    collective: str | None
    algorithm: str | None
    protocol: str | None


def hint_from_name(name: str) -> NameHint:
    """Collective, algorithm and protocol as the kernel's name suggests them."""
    collective = _COLLECTIVE_IN_NAME.search(name)
    protocol = _PROTOCOL_IN_NAME.search(name)
    return NameHint(
        collective[1] if collective else None,
        protocol[1].upper() if protocol else None,
        protocol[2].upper() if protocol else None,
    )


class Overlap(NamedTuple):
    """Microseconds of one device. ``communication`` is a union, so that parallel channels count once."""

    communication: float
    overlapped: float
    """Under compute kernels."""
    exposed: float

    @property
    def overlap_pct(self) -> float | None:
        return 100.0 * self.overlapped / self.communication if self.communication > 0 else None


def overlap(communication: Intervals, compute: Intervals) -> Overlap:
    """How much of the communication runs under compute."""
    total = communication.total
    hidden = intersect(communication, compute).total
    return Overlap(total, hidden, max(total - hidden, 0.0))


def device_overlap(trace: Trace, device: int) -> Overlap:
    """:func:`overlap` of one device; compute is every kernel that is no communication, on any stream."""
    events = trace.device_events
    here = events.device == device
    comm = communication_rows(trace) & here
    compute = here & (events.work == Work.KERNEL) & ~comm
    end = events.start + events.dur
    return overlap(union(events.start[comm], end[comm]), union(events.start[compute], end[compute]))
