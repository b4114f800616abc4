"""Accelerators whose units are not described here: the classical roofline. The rates reached against both roofs; the
nearer one binds if it is near at all. No unit is named but memory and the matrix units."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.profile import BoundCause, BoundResource
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput
from ridgeline.roofline.sentences import size

NEAR_PCT, SURE_PCT = 40.0, 60.0
"""Of the vendor's figures, which real kernels reach to some 55 (matrix) and 85 percent (memory)."""
TINY_US = 4.0


def judged(kernel: KernelInput, device: DeviceSpec, demand: Demand, base: Estimate) -> Estimate:
    """``base`` with bytes, FLOPs and rates, completed by the bound."""
    memory = 100 * base.gb_per_s / device.bandwidth_gb_s if base.gb_per_s and device.bandwidth_gb_s else None
    peak = device.flops.get(demand.flop_type or "")
    compute = 100 * base.tflop_per_s * 1e12 / peak if base.tflop_per_s and peak else None
    if memory is None and compute is None:
        return base
    memory_pct, compute_pct = min(100.0, memory or 0.0), min(100.0, compute or 0.0)
    high = max(memory_pct, compute_pct)
    base = replace(
        base,
        memory_pct=memory_pct if memory is not None else None,
        compute_pct=compute_pct if compute is not None else None,
    )
    if high < NEAR_PCT:
        if not demand.modelled and kernel.duration_us >= TINY_US:
            return replace(base, reason="what binds this kernel is not modelled.")
        blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2] if kernel.grid and len(kernel.grid) == 3 else None
        where = (
            f"{blocks} block{'' if blocks == 1 else 's'}, "
            if blocks is not None and blocks < (device.sm_count or 0)
            else ""
        )
        cause: BoundCause = "too_small" if where or kernel.duration_us < TINY_US else "dependency"
        reason = f"latency bound: {where}{'under 0.1' if high < 0.1 else f'{high:.2g}'} % of the nearer roof."
        return replace(base, bound="latency", cause=cause, reason=reason, confidence=0.7)
    borderline = high < SURE_PCT
    confidence = 0.6 if borderline else 0.8
    if memory_pct >= compute_pct:
        reason = f"memory bound: {size(demand.bytes or 0.0)} at {memory_pct:.0f} % of the memory's rate."
        return replace(
            base, bound="memory", resource="dram", borderline=borderline, reason=reason, confidence=confidence
        )
    reason = f"compute bound: {compute_pct:.0f} % of the {demand.flop_type} rate."
    resource: BoundResource | None = "tensor" if demand.tensor_flops else None
    return replace(
        base, bound="compute", resource=resource, borderline=borderline, reason=reason, confidence=confidence
    )
