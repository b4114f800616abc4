"""How busy each unit of the device would be: demand over time over what the unit can do. Nsight Compute's two figures,
"Compute (SM) Throughput" and "Memory Throughput", are the busiest unit of each side.

Nsight Compute times a kernel alone on a cold cache, so the time it would see is not the recorded one: a kernel cannot
finish before the memory pipeline has filled and its bytes have moved, and loses about a microsecond to cold caches.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.profile import BoundResource
from ridgeline.roofline.architecture import (
    BEFORE,
    COLD_US,
    DIRTY_SHARE,
    DRAINED,
    DRAINING,
    DRAM_EFFICIENCY,
    HOPPER,
    LAST_WRITES,
    LONG_US,
    RAMP_US,
    REUSED,
    TENSOR_CLOCK_LONG,
    TENSOR_CLOCK_SHORT,
    WARM_US,
    Architecture,
    architecture,
)
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec


@dataclass(slots=True, frozen=True, kw_only=True)
class Usage:
    """Percent of what each unit can do, over the time that Nsight Compute would see."""

    time_us: float
    memory: dict[BoundResource, float]
    compute: dict[BoundResource, float]

    @property
    def memory_pct(self) -> float:
        return max(self.memory.values(), default=0.0)

    @property
    def compute_pct(self) -> float:
        return max(self.compute.values(), default=0.0)

    @property
    def memory_unit(self) -> BoundResource:
        return max(self.memory, key=lambda u: self.memory[u], default="dram")

    @property
    def compute_unit(self) -> BoundResource:
        return max(self.compute, key=lambda u: self.compute[u], default="issue")


def written_back(demand: Demand, device: DeviceSpec) -> float:
    """Bytes written that reach memory before the kernel ends: the last of them stay in the cache. What is read meanwhile takes its
    share of the cache, so that of a kernel that mostly reads little stays."""
    write, cache = demand.write or 0.0, float(device.l2_bytes or 0)
    share = write / max(1.0, write + (demand.fetched or 0.0))
    return max(0.0, write - cache * min(DIRTY_SHARE, share))


def dram_bytes(demand: Demand, device: DeviceSpec) -> float | None:
    """Bytes between the device's memory and its second-level cache during the kernel, alone and from a cold cache."""
    if demand.fetched is None or demand.write is None or device.l2_bytes is None:
        return None
    return demand.fetched + written_back(demand, device)


def streaming_rate(device: DeviceSpec) -> float | None:
    """Bytes a microsecond that a streaming kernel reaches."""
    pins = device.properties.get("pin_gb_s")
    if device.peaks_source == "measured" and device.bandwidth_gb_s:
        return device.bandwidth_gb_s * 1e3
    rate = pins or device.bandwidth_gb_s
    return rate * DRAM_EFFICIENCY * 1e3 if rate else None


def cold_time(demand: Demand, device: DeviceSpec, duration_us: float) -> float:
    """Microseconds that Nsight Compute would see: alone, on a cold cache.

    Not less than the memory pipeline needs; what is written last stays in the cache, which saves a little of its time. A short
    kernel loses the cache that its predecessor had filled; one that streams all the time gains, because nothing of what
    was written before has to drain first (taken as half of what its own last writes would take). Matrix products are left out of both:
    their results are written while the next tiles are multiplied. But one that mostly reads, and moves more than the cache holds,
    waits in the step for what was written before: half of what it takes longer than streaming would.
    """
    rate = streaming_rate(device)
    if not rate:
        return duration_us
    last = (demand.write or 0.0) - written_back(demand, device)
    moved = (demand.fetched or 0.0) + (demand.write or 0.0)
    saved = (1.0 if demand.tensor_flops or not demand.cold else LAST_WRITES) * last / rate
    streaming = RAMP_US + moved / rate - saved
    time = duration_us
    if (
        demand.cold
        and not demand.tensor_flops
        and duration_us > WARM_US
        and DRAINING * duration_us < RAMP_US + moved / rate < DRAINED * duration_us
    ):
        time -= BEFORE * last / rate
    reads = (demand.fetched or 0.0) > 2 * (demand.write or 0.0) and moved > (device.l2_bytes or 0)
    if demand.cold and demand.tensor_flops and reads and DRAINING * duration_us < streaming < duration_us:
        return duration_us - BEFORE * (duration_us - streaming)
    if not demand.cold:
        return max(streaming, 0.98 * duration_us)
    late = COLD_US * max(0.0, 1.0 - duration_us / WARM_US)
    reused = (demand.fetched or 0.0) + written_back(demand, device) < REUSED * rate * duration_us
    return max(streaming, time + (COLD_US if demand.tensor_flops and reused else late))


def usage(demand: Demand, device: DeviceSpec, duration_us: float, time_us: float | None = None) -> Usage | None:
    """None where the device's size or the bytes are not known. ``time_us`` replaces the predicted cold time."""
    if demand.read is None or demand.write is None or not device.sm_count or not device.clock_hz:
        return None
    arch = architecture(device)
    time = time_us or cold_time(demand, device, duration_us)
    clocks = time * 1e-6 * device.clock_hz * device.sm_count
    memory: dict[BoundResource, float] = {}
    pins = device.properties.get("pin_gb_s") or device.bandwidth_gb_s
    if pins:
        memory["dram"] = 100 * ((demand.fetched or 0.0) + written_back(demand, device)) / (time * pins * 1e3)
    cache_read = demand.fetched if demand.cache_read is None else demand.cache_read
    cache_write = demand.write if demand.cache_write is None else demand.cache_write
    memory["l2"] = 100 * ((cache_read or 0.0) / arch.l2_read_bytes + cache_write / arch.l2_write_bytes) / clocks
    memory["l2"] = max(memory["l2"], 100 * demand.tiles_read / arch.l2_read_bytes / clocks)
    if demand.cache_sectors:
        memory["l2"] = max(memory["l2"], 100 * demand.cache_sectors / arch.l2_data_bytes / clocks)
    if demand.shared_clocks:
        memory["shared_memory"] = 100 * demand.shared_clocks / 4 / clocks
    compute: dict[BoundResource, float] = {}
    issued = demand.issued or 0.0
    units = [issued / arch.issue, demand.alu / arch.alu, demand.heavy / arch.heavy, demand.load_store / arch.load_store]
    if demand.alu:  # what no other unit takes are sums and products
        rest = issued - demand.alu - demand.special - demand.load_store - demand.double
        units.append(max(0.0, rest) / arch.multiply)
    compute["issue"] = 100 * max(units) / clocks
    compute["special_function"] = 100 * demand.special / arch.special / clocks
    compute["fp64"] = 100 * demand.double / arch.double / clocks
    if demand.tensor_flops:
        rate = tensor_rate(demand, device, arch, duration_us)
        compute["tensor"] = 100 * demand.tensor_flops / (time * 1e-6) / rate if rate else 0.0
        if demand.shared_per_tensor:
            fed = compute["tensor"] * demand.shared_per_tensor
            looked_up = memory.get("shared_memory", 0.0)
            # Tags of lines are looked up in one stage of the unit, factors read from it in another: the busier one counts.
            memory["shared_memory"] = max(looked_up, fed) if demand.by_lines else looked_up + fed
    return Usage(time_us=time, memory=memory, compute=compute)


def tensor_rate(demand: Demand, device: DeviceSpec, arch: Architecture, duration_us: float) -> float | None:
    """FLOP/s of the matrix units at the clock that they run at under load, for the operands' type."""
    if not device.sm_count or not device.clock_hz:
        return None
    throttle = TENSOR_CLOCK_LONG + (TENSOR_CLOCK_SHORT - TENSOR_CLOCK_LONG) * max(0.0, 1.0 - duration_us / LONG_US)
    if demand.tensor_rate < 1:
        throttle = 1.0  # older instructions do not reach the power limit
    relative = {"fp8": 2.0, "int8": 2.0, "tf32": 0.5, "fp64": 1 / 15}.get(demand.flop_type or "bf16", 1.0)
    own = demand.tensor_rate if arch.tensor >= HOPPER.tensor else 1.0  # elsewhere these are the instructions of the day
    return arch.tensor * device.sm_count * device.clock_hz * throttle * relative * own
