"""cuFFT's kernels: what one does is in its name (length, elements of a thread) and its launch.

A thread keeps ``EPT`` elements in registers and transforms them by that radix; between two such stages all elements of a block
change threads through shared memory. Kernels that make or take real numbers (``symm``) treat them as half as many complex
ones and combine each with its mirror image in the end, which is one exchange more. FLOPs: 5 n log2 n (Cooley and Tukey).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput

KERNEL = re.compile(r"\b(?:vector|regular|multi_bluestein)_fft(_symm_(?:r2c|c2r))?\w*<(\d+)u?, EPT<(\d+)u?>")
IMAGE = re.compile(r"\bfft2d_(r2c|c2r)_(\d+)x\2(?!\d)")
CONFLICTS = 2.5
"""Clocks for 128 bytes that are exchanged: strides of a radix meet in the banks in spite of the padding (four kernels of 128
points, within a fifth: Nsight Compute on an H200)."""
REQUEST_BYTES = 128


def demand(kernel: KernelInput) -> Demand | None:
    """None for other kernels, and for names without lengths."""
    found = KERNEL.search(kernel.symbol)
    if found is None or not kernel.grid or not kernel.block:
        return None
    real, length, each = bool(found.group(1)), int(found.group(2)), int(found.group(3))
    size = 16 if "double" in kernel.symbol.split("(")[0] else 8
    elements = float(math.prod(kernel.grid) * math.prod(kernel.block) * each)
    points = max(2, length // 2 if real else length)
    exchanges = math.ceil(math.log(points) / math.log(max(2, each)) - 1e-9) - 1 + real
    flops = elements * 5 * math.log2(points)
    moved = elements * size
    result = Demand(read=moved, write=moved, flops=flops, flop_type="fp64" if size == 16 else "fp32", guessed=True)
    result.issued = (
        flops + elements * (2 + 4 * exchanges)
    ) / 32  # a load and a store, and of each part at each exchange
    if size == 16:
        result.double = flops / 32
    lanes = max(1, min(32, kernel.block[0])) * size
    lines = max(1.0, REQUEST_BYTES / lanes)  # neighbours of one transform lie together, other transforms elsewhere
    result.shared_clocks = 4 * (2 * moved * lines + 2 * exchanges * moved * CONFLICTS) / REQUEST_BYTES
    result.top = "sums and products of the transform"
    return result


def image_demand(kernel: KernelInput, shapes: Sequence[tuple[int, ...]]) -> Demand | None:
    """cuDNN's transforms of images for its convolutions: a thread holds a row, then, after an exchange through shared memory, a column
    of an image in single precision; of what is complex one half, since the other mirrors it. The images are those of the tensor
    among ``shapes`` that has as many. None for other kernels."""
    found = IMAGE.search(kernel.symbol)
    if found is None or not kernel.grid or not kernel.block:
        return None
    side = int(found.group(2))
    images = math.prod(kernel.grid) * math.prod(kernel.block) / side
    whole, half = images * side * side, images * side * (side // 2 + 1)
    real = next((4.0 * math.prod(s) for s in shapes if len(s) == 4 and s[0] * s[1] == images), 4.0 * whole)
    real = min(real, 4.0 * whole)
    read, write = (real, 8 * half) if found.group(1) == "r2c" else (8 * half, real)
    flops = whole * 2.5 * math.log2(side * side)
    result = Demand(read=read, write=write, flops=flops, flop_type="fp32", guessed=True)
    result.issued = (flops + whole * 6) / 32
    result.shared_clocks = 4 * (read + write + 2 * 8 * half * CONFLICTS) / REQUEST_BYTES
    result.top = "sums and products of the transform"
    return result
