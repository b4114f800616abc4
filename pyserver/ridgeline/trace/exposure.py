"""Busy time that is not useful: copies and communication that nothing hides, kernels that do not fill the device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ridgeline.trace.bounds import bounded
from ridgeline.trace.communication import communication_rows
from ridgeline.trace.intervals import Intervals, clip, join, subtract, union
from ridgeline.trace.tables import F64, DeviceInfo, LaunchConfigs, Trace, Work


class Exposure(NamedTuple):
    """Of one device in a window (µs): unions, so that nothing counts twice."""

    busy: Intervals
    compute: Intervals
    communication: Intervals
    copies: Intervals
    exposed_copy: Intervals
    """Copies and memsets under which neither compute nor communication runs."""
    exposed_communication: Intervals
    """Communication under which no compute runs."""
    underfilled: Intervals | None
    """Kernels of less than one wave while no fuller one runs; None where the geometry is unknown."""


def exposure(trace: Trace, device: int, window: tuple[float, float] | None = None) -> Exposure:
    """What ``device`` did in ``window`` (all of the recording if None)."""
    events = trace.device_events
    time, _ = bounded(trace)
    end = events.start + time
    here = events.device == device
    communicating = communication_rows(trace) & here
    computing = here & (events.work == Work.KERNEL) & ~communicating
    copying = here & (events.work != Work.KERNEL)

    def cover(rows: Any) -> Intervals:
        found = union(events.start[rows], end[rows])
        return found if window is None else clip(found, *window)

    compute, communication, copies = cover(computing), cover(communicating), cover(copying)
    underfilled = None
    info = next((each for each in trace.devices if each.id == device), None)
    wave = waves(trace.launch_configs, info)
    known = computing & (events.launch >= 0)
    if len(wave) and known.any() and not np.isnan(wave).all():
        of_row = np.where(events.launch >= 0, wave[np.maximum(events.launch, 0)], np.nan)
        small = computing & (of_row < 1.0)
        underfilled = subtract(cover(small), cover(computing & ~small))
    return Exposure(
        busy=cover(here),
        compute=compute,
        communication=communication,
        copies=copies,
        exposed_copy=subtract(copies, join(compute, communication)),
        exposed_communication=subtract(communication, compute),
        underfilled=underfilled,
    )


def waves(configs: LaunchConfigs, device: DeviceInfo | None) -> F64:
    """For each launch geometry: its blocks over those that the device holds at once; NaN where that is unknown.

    Residency after the CUDA occupancy rules: threads in whole warps, registers in units of 256 a warp, shared memory
    with the 1 KB that a block itself takes, at most 32 blocks a multiprocessor.
    """
    out = np.full(len(configs.grid), np.nan)
    properties = device.properties if device is not None else {}
    sms = properties.get("numSms")
    if not isinstance(sms, int) or sms <= 0:
        return out
    for row, (grid, block) in enumerate(zip(configs.grid, configs.block)):
        if grid is None or block is None:
            continue
        resident = resident_blocks(math.prod(block), configs.registers[row], configs.shared_memory[row], properties)
        if resident:
            out[row] = math.prod(grid) / (sms * resident)
    return out


def resident_blocks(
    threads: int, registers: int | None, shared_memory: int | None, properties: dict[str, Any]
) -> int | None:
    """Blocks of this shape that one multiprocessor holds at once; None where its limits are not recorded."""

    def limit(key: str) -> int | None:
        value = properties.get(key)
        return value if isinstance(value, int) and value > 0 else None

    most_threads = limit("maxThreadsPerMultiprocessor")
    if most_threads is None or threads <= 0:
        return None
    warp = limit("warpSize") or 32
    warps = -(-threads // warp)
    fits = [32, most_threads // (warps * warp)]
    file = limit("regsPerMultiprocessor")
    if file is not None and registers is not None and registers > 0:
        per_warp = -(-registers * warp // 256) * 256
        fits.append(file // (per_warp * warps))
    memory = limit("sharedMemPerMultiprocessor")
    if memory is not None and shared_memory is not None and shared_memory > 0:
        fits.append(memory // (shared_memory + 1024))
    return max(min(fits), 1)
