"""From percentages to a bound: Nsight Compute's rule at 60 %."""

from __future__ import annotations

import math
from typing import Literal

from ridgeline.profile import BoundCause
from ridgeline.roofline.architecture import architecture, blocks_per_sm
from ridgeline.roofline.inputs import DeviceSpec, KernelInput

BOUND_PCT = 60.0
BORDERLINE = 8.0
"""Points of margin under which the other verdict is likely too: about the models' 90th percentile of error."""
TINY_US = 4.0
"""No kernel shorter than this came near either limit in the study; an estimate must exceed the limit by ``TINY_MARGIN``."""
TINY_MARGIN = 10.0
IMPOSSIBLE_PCT = 105.0
"""Of a rate that was reached: the timing, the bytes or the FLOPs must be wrong."""
DOUBTED_PCT, UNMODELLED_PCT = 125.0, 200.0
"""Of a predicted busy time: the estimate is too high, and borderline for that; the model does not describe the kernel.
It is shown as at most 100."""
FEW_BLOCKS_PCT = 40.0
LOW_OCCUPANCY = 0.4
TAIL_LOSS = 1.25

Class = Literal["memory", "compute", "latency"]


def classify(memory_pct: float, compute_pct: float) -> Class:
    if memory_pct >= BOUND_PCT and memory_pct >= compute_pct:
        return "memory"
    return "compute" if compute_pct >= BOUND_PCT else "latency"


def margin(memory_pct: float, compute_pct: float) -> float:
    """Points to the nearest change of the verdict."""
    high, low = max(memory_pct, compute_pct), min(memory_pct, compute_pct)
    return BOUND_PCT - high if high < BOUND_PCT else min(high - BOUND_PCT, high - low)


def most_compute_pct(kernel: KernelInput, device: DeviceSpec) -> float:
    """Multiprocessors that get a block at all, in percent."""
    if not kernel.grid or not device.sm_count:
        return 100.0
    return min(100.0, 100.0 * math.prod(kernel.grid) / device.sm_count)


def few_blocks(kernel: KernelInput, device: DeviceSpec) -> bool:
    """Whether so few multiprocessors have work that neither side can come near its limit."""
    return most_compute_pct(kernel, device) < FEW_BLOCKS_PCT


def confidence(points: float, guessed: bool) -> float:
    """Share of verdicts with such a margin that were right on kernels the models had not seen, lower where sizes were
    inferred."""
    value = 0.97 if points >= 15 else 0.92 if points >= BORDERLINE else 0.65
    return value - 0.2 if guessed else value


def latency_cause(kernel: KernelInput, device: DeviceSpec, waves: float | None) -> BoundCause:
    """Why neither side is busy: less than one wave of blocks, a last wave that is mostly empty, few warps to hide latency
    behind, or waiting within the warps."""
    if kernel.duration_us < TINY_US or (waves is not None and waves < 1):
        return "too_small"
    if waves is not None and math.ceil(waves) / waves >= TAIL_LOSS:
        return "tail"
    arch = architecture(device)
    blocks = blocks_per_sm(kernel, arch)
    if blocks is not None and kernel.block:
        warps = -(-math.prod(kernel.block) // 32)
        if blocks * warps < LOW_OCCUPANCY * arch.warps:
            return "low_occupancy"
    return "dependency"
