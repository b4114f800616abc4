"""Copies and memsets by direction and kind of host memory, as the vendors name them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np

from ridgeline.trace.tables import Trace, Work

Direction = Literal["host to device", "device to host", "device to device", "peer to peer", "set", "unknown"]
_DIRECTIONS: tuple[tuple[Direction, re.Pattern[str]], ...] = (
    (
        "host to device",
        re.compile(r"HtoD|H2D|(?:Host|Pageable|Pinned|Paged) -> Device|HOST_TO_DEVICE|M2D", re.IGNORECASE),
    ),
    (
        "device to host",
        re.compile(r"DtoH|D2H|Device -> (?:Host|Pageable|Pinned|Paged)|DEVICE_TO_HOST|D2M", re.IGNORECASE),
    ),
    ("peer to peer", re.compile(r"PtoP|P2P|Peer", re.IGNORECASE)),
    ("device to device", re.compile(r"DtoD|D2D|Device -> Device|DEVICE_TO_DEVICE", re.IGNORECASE)),
)


class CopyTotal(NamedTuple):
    direction: Direction
    pinned: bool | None
    """Of the host side; None where the trace does not say (ROCm, device to device)."""
    copies: int
    time_us: float
    bytes: float | None
    """None where none was recorded: ROCm writes 0 for memsets and some copies."""

    @property
    def gb_per_s(self) -> float | None:
        """Decimal GB/s; None without bytes or time."""
        return self.bytes / self.time_us / 1000.0 if self.bytes and self.time_us > 0 else None


def direction_of(name: str) -> Direction:
    """Which way the copy ``name`` goes."""
    return next((direction for direction, pattern in _DIRECTIONS if pattern.search(name)), "unknown")


def pinned_of(name: str) -> bool | None:
    """Whether the host side is page-locked, as far as the name says."""
    if "Pageable" in name:
        return False
    return True if "Pinned" in name else None


def copy_totals(trace: Trace, device: int | None = None) -> list[CopyTotal]:
    """One row for each direction and kind of memory, the longest time first."""
    events = trace.device_events
    wanted = events.work != Work.KERNEL
    if device is not None:
        wanted &= events.device == device
    groups: dict[tuple[Direction, bool | None], list[int]] = {}
    keys = {
        name: (direction_of(trace.strings[name]), pinned_of(trace.strings[name]))
        for name in np.unique(events.name[wanted]).tolist()
    }
    for row in np.flatnonzero(wanted).tolist():
        direction, pinned = keys[int(events.name[row])]
        if events.work[row] == Work.MEMSET:
            direction, pinned = "set", None
        groups.setdefault((direction, pinned), []).append(row)
    out = []
    for (direction, pinned), rows in groups.items():
        sizes = events.bytes[rows]
        known = float(np.nansum(sizes))
        complete = known > 0 and not np.isnan(sizes).any()
        out.append(CopyTotal(direction, pinned, len(rows), float(events.dur[rows].sum()), known if complete else None))
    return sorted(out, key=lambda row: -row.time_us)
