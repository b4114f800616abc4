"""Puts the pieces together: demand, limits, verdict, sentence."""

from __future__ import annotations

import math
from dataclasses import replace

from ridgeline.profile import Bound, BoundCause, BoundResource
from ridgeline.roofline import autotune, copies, cpu, gemm, generic, sentences, user_kernels, verdict
from ridgeline.roofline.architecture import waves as waves_of
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput
from ridgeline.roofline.limits import Usage, dram_bytes, usage
from ridgeline.roofline.model import demand_of
from ridgeline.roofline.sane import sane
from ridgeline.roofline.triton_model import Analysis

RESOLUTION_US = 1e-4
"""Traces tell nanoseconds, so that less is no duration."""
PORT_BYTES = 64.0
"""That a multiprocessor takes from the second-level cache in a clock (NVIDIA's V100 and A100 architecture papers)."""


def estimate(kernel: KernelInput, device: DeviceSpec, cold_us: float | None = None) -> Estimate:
    """Bytes, FLOPs, rates and the bound of one kernel row. ``cold_us`` is its duration on a cold cache where that was
    measured; it is predicted otherwise. Never raises on odd input: what is not known is None and ``unknown``."""
    kernel = sane(kernel)
    if kernel.duration_us < RESOLUTION_US:
        kernel = replace(kernel, duration_us=0.0)
    if kernel.on_cpu or device.kind == "cpu":
        return cpu.estimate(kernel, device)
    if kernel.category in ("memcpy", "memset"):
        return copies.estimate(kernel, device)
    demand, analysis = demand_of(kernel, device)
    wave = waves_of(kernel, device)
    if demand is None:
        return without_demand(kernel, device, wave)
    if too_few(kernel, demand, device):  # the op's tensors are not what this launch works on
        return without_demand(kernel, device, wave)
    if not plausible(demand, device, kernel.duration_us):
        if not demand.upper_bound:
            return without_demand(kernel, device, wave)
        limit_to_time(demand, device, kernel.duration_us)
    busy = usage(demand, device, kernel.duration_us, cold_us)
    return judged(kernel, device, demand, analysis, busy, wave)


def without_demand(kernel: KernelInput, device: DeviceSpec, wave: float | None) -> Estimate:
    if 0 < kernel.duration_us < verdict.TINY_US or verdict.few_blocks(kernel, device):
        reason = sentences.latency(kernel, device, None, "too_small", wave)
        return Estimate(bound="latency", cause="too_small", reason=reason, confidence=0.85, waves=wave)
    return Estimate(
        reason="neither source nor shapes of this kernel were recorded: its bound is not known.", waves=wave
    )


def most_bytes(device: DeviceSpec, duration_us: float) -> float | None:
    """Bytes that can move in the time: what the pins carry, and what the cache held before and holds after."""
    pins = device.properties.get("pin_gb_s") or device.bandwidth_gb_s
    return pins * 1e3 * duration_us * verdict.IMPOSSIBLE_PCT / 100 + 2 * (device.l2_bytes or 0) if pins else None


def too_few(kernel: KernelInput, demand: Demand, device: DeviceSpec) -> bool:
    """Whether fewer blocks than multiprocessors were launched than its bytes would need, each with its own way to the cache."""
    if not kernel.grid or not device.clock_hz or not device.sm_count:
        return False
    blocks = math.prod(max(1, n) for n in kernel.grid)
    limit = blocks * PORT_BYTES * device.clock_hz * kernel.duration_us * 1e-6
    return blocks < device.sm_count and (demand.fetched or 0.0) + (demand.write or 0.0) > limit


def plausible(demand: Demand, device: DeviceSpec, duration_us: float) -> bool:
    limit = most_bytes(device, duration_us)
    return limit is None or (demand.fetched or 0.0) + (demand.write or 0.0) <= limit


def limit_to_time(demand: Demand, device: DeviceSpec, duration_us: float) -> None:
    """Loaded indices touch less than they could: not more than the time allows."""
    limit = most_bytes(device, duration_us) or 0.0
    scale = limit / ((demand.fetched or 0.0) + (demand.write or 0.0))
    for name in ("read", "write", "fetched", "cache_read", "cache_write"):
        value = getattr(demand, name)
        if value is not None:
            setattr(demand, name, value * scale)
    demand.guessed = True


def rates(
    kernel: KernelInput, device: DeviceSpec, demand: Demand
) -> tuple[float | None, float | None, list[str], bool]:
    """GB/s, TFLOP/s, remarks on rates that cannot be, and whether the numbers may be believed."""
    seconds = kernel.duration_us * 1e-6
    notes: list[str] = []
    if seconds <= 0:
        return None, None, ["no duration"], False
    gb_s = demand.bytes / seconds / 1e9 if demand.bytes is not None else None
    tflop_s = demand.flops / seconds / 1e12 if demand.flops else None
    believable = True
    peak = device.flops.get(demand.flop_type or "")
    if tflop_s and peak and tflop_s * 1e12 > peak * verdict.IMPOSSIBLE_PCT / 100:
        notes.append(
            f"{100 * tflop_s * 1e12 / peak:.0f} % of the {demand.flop_type} peak: timing not synchronised, or FLOPs wrong"
        )
        tflop_s, believable = None, False
    pins = device.properties.get("pin_gb_s") or device.bandwidth_gb_s
    if gb_s and pins and gb_s > pins * verdict.IMPOSSIBLE_PCT / 100:
        if device.l2_bytes and (demand.bytes or 0) <= 1.2 * device.l2_bytes:
            notes.append(f"{100 * gb_s / pins:.0f} % of DRAM peak: working set fits L2")
        else:
            notes.append(
                f"{100 * gb_s / pins:.0f} % of DRAM peak: part of it came from cache, or the bytes are too many"
            )
            gb_s = None
    return gb_s, tflop_s, notes, believable


def as_shown(busy: Usage, memory_pct: float, compute_pct: float) -> Usage:
    """The same units with no more than the two figures that are shown; the busiest of each side come first, as they were."""
    sides = ((busy.memory, memory_pct), (busy.compute, compute_pct))
    memory, compute = (
        {unit: min(side[unit], most) for unit in sorted(side, key=side.__getitem__, reverse=True)}
        for side, most in sides
    )
    return replace(busy, memory=memory, compute=compute)


def judged(
    kernel: KernelInput,
    device: DeviceSpec,
    demand: Demand,
    analysis: Analysis | None,
    busy: Usage | None,
    wave: float | None,
) -> Estimate:
    gb_s, tflop_s, notes, believable = rates(kernel, device, demand)
    notes = [*demand.notes, *notes]
    product = gemm.product(kernel) if analysis is None else None
    if remark := sentences.padding(kernel.useful_rows_pct, product):
        notes.append(remark)
    intensity = demand.flops / demand.bytes if demand.flops and demand.bytes else None
    tiny = 0 < kernel.duration_us < verdict.TINY_US
    if believable and device.kind != "cuda":
        known = Estimate(
            bytes=demand.bytes,
            flops=demand.flops,
            flop_type=demand.flop_type,
            arithmetic_intensity=intensity,
            gb_per_s=gb_s,
            tflop_per_s=tflop_s,
            notes=tuple(notes),
        )
        return generic.judged(kernel, device, demand, known)
    bound: Bound = "unknown"
    reason: str | None = None
    memory_pct = compute_pct = confidence = None
    resource: BoundResource | None = None
    cause: BoundCause | None = None
    borderline = False
    if not believable:
        reason = f"{notes[-1]}: bound not reported."
    elif busy is not None and not demand.modelled and verdict.few_blocks(kernel, device):
        bound, cause, confidence = "latency", "too_small", 0.85
        reason = sentences.latency(kernel, device, None, "too_small", wave)
    elif busy is None or (not demand.modelled and not tiny):
        reason = (
            "what binds this kernel is not modelled."
            if busy
            else "the device's size or this kernel's bytes are not known."
        )
    elif max(busy.memory_pct, busy.compute_pct) > verdict.UNMODELLED_PCT:
        if tiny:
            return without_demand(kernel, device, wave)
        reason = "the estimate exceeds what the device can do: not modelled."
    else:
        memory_pct = min(100.0, busy.memory_pct)
        compute_pct = min(100.0, busy.compute_pct, verdict.most_compute_pct(kernel, device))
        limit = verdict.classify(memory_pct, compute_pct)
        points = verdict.margin(memory_pct, compute_pct)
        if tiny and limit != "latency" and max(memory_pct, compute_pct) < verdict.BOUND_PCT + verdict.TINY_MARGIN:
            limit, points = "latency", verdict.BORDERLINE
        bound = limit
        borderline = points < verdict.BORDERLINE
        confidence = verdict.confidence(points, demand.guessed or demand.lower_bound)
        doubted = demand.doubtful or max(busy.memory_pct, busy.compute_pct) > verdict.DOUBTED_PCT
        if doubted or not {user_kernels.NOTE, user_kernels.UNTYPED}.isdisjoint(demand.notes):
            borderline, confidence = True, min(confidence, 0.5)
        busy = as_shown(busy, memory_pct, compute_pct)
        if limit == "memory":
            resource = busy.memory_unit
            reason = sentences.memory(kernel, demand, busy, product)
        elif limit == "compute":
            resource = busy.compute_unit
            reason = sentences.compute(kernel, demand, busy)
        else:
            cause = verdict.latency_cause(kernel, device, wave)
            reason = sentences.latency(kernel, device, busy, cause, wave)
        notes.append(sentences.BASIS)
    return Estimate(
        bytes=demand.bytes,
        dram_bytes=dram_bytes(demand, device),
        flops=demand.flops,
        flop_type=demand.flop_type,
        arithmetic_intensity=intensity,
        gb_per_s=gb_s,
        tflop_per_s=tflop_s,
        bound=bound,
        borderline=borderline,
        resource=resource,
        cause=cause,
        reason=reason,
        confidence=confidence,
        compute_pct=compute_pct,
        memory_pct=memory_pct,
        waves=wave,
        autotune_candidate=analysis is not None and autotune.candidate(kernel, analysis, bound),
        notes=tuple(notes),
    )
