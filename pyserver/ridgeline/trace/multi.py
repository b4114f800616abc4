"""Several ranks' traces of one job: one clock, and who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ridgeline.trace.communication import Overlap, communication_rows, device_overlap
from ridgeline.trace.tables import Trace


def rank_of(trace: Trace) -> int | None:
    """The rank that ``distributedInfo`` names."""
    info = trace.metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if type(rank) is int else None


def world_size_of(trace: Trace) -> int | None:
    """How many ranks the job has, as ``distributedInfo`` says."""
    info = trace.metadata.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, dict) else None
    return size if type(size) is int else None


def unix_ns(trace: Trace, offset_us: float) -> int | None:
    """A moment of the trace on the Unix clock; None where the file does not tell its base."""
    if trace.base_ns is None:
        return None
    return trace.base_ns + trace.origin_ns + round(offset_us * 1000)


def clock_shifts_us(traces: Sequence[Trace]) -> list[float] | None:
    """What to add to each trace's offsets to have all on the first one's clock; None: clocks not comparable."""
    starts = [unix_ns(trace, 0.0) for trace in traces]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or not known:
        return None
    return [(start - known[0]) / 1000.0 for start in known]


class Collective(NamedTuple):
    """One collective as every rank saw it (µs)."""

    name: str
    transfer: float
    """The shortest of the ranks' kernels: what remains when nobody has to wait."""
    waits: tuple[float, ...]
    """By rank, in the order given: the kernel's time beyond ``transfer``."""
    straggler: int
    """Position of the rank that waited least: the one the others waited for."""


def collectives(traces: Sequence[Trace]) -> list[Collective]:
    """Collectives matched across ranks by their order within a kernel name (and recorded group), where every rank has
    as many of it. Durations alone are compared, so clocks need not agree."""
    found: list[dict[tuple[str, str], list[float]]] = []
    for trace in traces:
        events = trace.device_events
        rows: dict[tuple[str, str], list[float]] = {}
        for row in np.flatnonzero(communication_rows(trace)).tolist():
            group = str(trace.collectives.get(row, {}).get("Process Group Name", ""))
            rows.setdefault((trace.strings[events.name[row]], group), []).append(float(events.dur[row]))
        found.append(rows)
    out = []
    for key, first in found[0].items() if found else ():
        columns = [rows.get(key, []) for rows in found]
        if any(len(column) != len(first) for column in columns):
            continue
        for durations in zip(*columns):
            transfer = min(durations)
            waits = tuple(duration - transfer for duration in durations)
            out.append(Collective(key[0], transfer, waits, int(np.argmin(waits))))
    return out


def overlaps(traces: Sequence[Trace]) -> list[list[tuple[int, Overlap]]]:
    """For each trace its devices with the overlap of communication and compute."""
    return [
        [(device.id, device_overlap(trace, device.id)) for device in trace.devices if device.kind != "cpu"]
        for trace in traces
    ]
