"""Kernels beside a convolution's product that move one of its tensors: into another order, filters turned round."""

from __future__ import annotations

import math

from ridgeline.roofline import aten
from ridgeline.roofline.conv_shapes import Convolution
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.warp_fed import blocks_along, programs, warps

LAYOUT = (
    "nchwtonhwc",
    "nhwctonchw",
    "nchw2nhwc",
    "nhwc2nchw",
    "tensortransform",
    "transpose",
    "convertTensor".lower(),
    "pad",
    "slicec",
)
LAYOUT_ISSUE = {"nhwcToNchw": 24.0, "nchwToNhwc": 20.0}
LAYOUT_TILE, LAYOUT_EDGE, LAYOUT_BUSY = 1024, 16.0, 30.0
"""Elements a block of cuDNN's layout conversions; instructions for 32 of them, and more where the block is the one along the channels
that looks where they end: a hundred launches, nearly all within 8 %. Towards channels last a unit without a counter of its own is as busy
as these would keep the schedulers, read off Compute Throughput (Nsight Compute)."""
THIN, THIN_ISSUE = 32, 13.0
"""Positions below which a tile of a layout conversion is mostly empty, and what 32 of its elements cost more (same source)."""


def flipped(kernel: KernelInput, work: Convolution) -> Demand:
    """Filters turned round: with a block for each pair of channels, those of the operand that has as many."""
    pairs = math.prod(kernel.grid or (1,))
    operands = (work.weight.shape, work.input.shape, work.output_shape)
    flipped = next((shape for shape in operands if shape[0] * shape[1] == pairs), work.weight.shape)
    moved = math.prod(flipped) * work.input.itemsize
    issued = programs(kernel) * warps(kernel) * aten.OTHER
    return Demand(read=float(moved), write=float(moved), flops=0.0, issued=issued, guessed=True)


def layout_change(kernel: KernelInput, work: Convolution, sizes: tuple[int, int, int]) -> Demand:
    """Moves one tensor of the convolution, a tile of 32 by 32 elements a block."""
    itemsize = 2 if any(mark in kernel.symbol for mark in ("__half", "bfloat16", "BFloat16")) else 4
    elements = float(math.prod(kernel.grid or (1,)) * LAYOUT_TILE)
    moved = min(elements * itemsize, float(max(sizes)))
    kind = next((mark for mark in LAYOUT_ISSUE if mark in kernel.symbol), None)
    issue = LAYOUT_ISSUE[kind] + LAYOUT_EDGE / blocks_along(kernel, 1) if kind else LAYOUT_BUSY
    if kind != "nhwcToNchw":
        issue = max(issue, LAYOUT_BUSY)
    accesses = 4  # loaded, written to shared memory, read there the other way round, stored
    # the one whose sides the grid has: blocks of positions, of channels, of images
    made = {"output": work.output_shape, "input": work.input.shape, "weight": work.weight.shape}[work.makes]
    results = (made,) if kind == "nhwcToNchw" else ()  # which come back, where others have as many blocks
    for shape in (*results, work.weight.shape, work.input.shape, work.output_shape):
        positions = math.prod(shape[2:])
        sides = [-(-positions // THIN), -(-shape[1] // THIN), shape[0]]
        if kernel.grid and list(kernel.grid) == sides:
            moved = min(moved, float(math.prod(shape) * itemsize))
            issue += THIN_ISSUE if positions < THIN else 0.0
            break
    result = Demand(read=moved, write=moved, flops=0.0, issued=elements / 32 * issue, guessed=True)
    result.shared_clocks = 4 * elements / 32 * accesses
    return result
