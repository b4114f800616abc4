"""Convolutions as implicit matrix products: 2·N·Cout·Cin/groups·(kernel size)·(output positions) FLOPs, the same again for
the gradient of the input and of the weight (torch.utils.flop_counter, conv_flop_count)."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import Any

from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.gemm import (
    OLD_INSTRUCTIONS,
    OLD_RATE,
    SIMT_ISSUE,
    SIMT_SHARED,
    SINGLE_CLOCKS,
    SINGLE_TURNED,
    SPLIT_REDUCE_ISSUE,
    TURNED,
    by_tiles,
    feed,
    is_simt,
    programs,
    shared_per_tensor,
    sums_stored,
    tile_of,
    transposed_factors,
    up,
    warps,
)
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, base_name, tensors

FORWARD = {
    "convolution", "_convolution", "cudnn_convolution", "conv1d", "conv2d", "conv3d", "cudnn_convolution_relu",
    "cudnn_convolution_add_relu", "cudnn_convolution_transpose", "miopen_convolution", "mkldnn_convolution", "slow_conv2d_forward",
    "_slow_conv2d_forward", "thnn_conv2d", "conv_transpose2d", "_conv_depthwise2d", "conv_depthwise3d", "_convolution_pointwise",
    "convolution_overrideable", "conv_transpose1d", "conv_transpose3d",
}  # fmt: skip
KERNEL_SIZE_FIRST = {
    "_conv_depthwise2d",
    "conv_depthwise3d",
    "slow_conv2d_forward",
    "_slow_conv2d_forward",
    "thnn_conv2d",
}
"""Ops whose first list is the size of the filter."""
BACKWARD = {"convolution_backward", "cudnn_convolution_backward", "miopen_convolution_backward", "convolution_backward_overrideable"}  # fmt: skip
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
PREPARATION = ("init_device_workspace",)
SPLIT_REDUCTION = ("reducesplitk", "splitkreduce", "execute_split_k_kernel")
LAYOUT_TILE, LAYOUT_ISSUE = 1024, 28.0
"""Elements a block, and instructions for 32 of them, of cuDNN's layout conversions: read off Nsight Compute."""
GROUPED = re.compile(r"_g(\d+)(?:_|$)")
"""Channels of the groups that a block of cuDNN's grouped kernels multiplies at once."""
CACHE_LINE = 128
DEPTHWISE_ISSUE = 4.0
"""Instructions for one fused multiply-add of a depthwise kernel: load, convert, address, multiply."""
CUDNN_DEPTHWISE = {"dgrad2d_c1": 9.5, "wgrad2d_c1": 7.2}
"""The same of cuDNN's own kernels for gradients, one each."""
CUDNN_TAP, CUDNN_RESULT, CUDNN_PIXEL = 2.0, 6.0, 6.0
"""Instructions of cuDNN's depthwise kernel in half precision for a tap, a result, and a pixel that it fetches and converts: eight
kernels of 3x3 and 7x7 filters with strides of 1 and 2 within 12 % (Nsight Compute)."""
GENERIC_DEPTHWISE = {"forward": 12.8, "backward": 18.6, "grad_weight": 40.6}
"""The same where the size of the filter is no template argument (ATen/native/cuda/DepthwiseConv2d.cu): a bounds check, an
address, for gradients divisions a tap; read off Nsight Compute, one kernel each."""
DIRECT = {"convolve_common_engine": 3.1, "precomputed_convolve_sgemm": 2.5}
DIRECT_SHARED = 0.25
"""Instructions for 32 multiply-adds of kernels that cuDNN has for few channels, and clocks of the first-level cache for one: one
kernel each, of three channels (same source), so that their bound is borderline."""
HOPPERS = ("nvjet", "sm90_xmma_gemm", "sm90_xmma_fprop_implicit")
GATHERED_ISSUE = 24.0
"""Instructions for 32 elements that a kernel without shared memory gathers from an image of few channels: two, 19 and 29."""
THIN, THIN_ISSUE = 32, 1.5
"""Positions below which a tile of a layout conversion is mostly empty, and what its single elements cost more (same source)."""


@dataclass(slots=True, frozen=True)
class Convolution:
    input: Tensor
    weight: Tensor
    output_shape: tuple[int, ...]
    groups: int
    transposed: bool

    @property
    def flops(self) -> float:
        positions = math.prod((self.input.shape if self.transposed else self.output_shape)[2:])
        taps = math.prod(self.weight.shape[2:])
        batch = self.input.shape[0]
        return 2.0 * batch * positions * taps * self.weight.shape[0] * self.weight.shape[1]

    @property
    def output_bytes(self) -> int:
        return math.prod(self.output_shape) * self.input.itemsize

    @property
    def used_bytes(self) -> float:
        """Of the input what any filter reaches: with a stride beyond the filter's size it skips pixels, which lie apart where the
        channels run fastest."""
        source = self.input
        if self.transposed or not source.strides or source.strides[1] != 1:
            return float(source.bytes)
        reached = 1.0
        for size, taps, out in zip(source.shape[2:], self.weight.shape[2:], self.output_shape[2:]):
            reached *= min(1.0, taps * out / size)
        return source.bytes * reached

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.weight.shape[1] == 1


def convolution(kernel: KernelInput) -> Convolution | None:
    """Shapes of a convolution from its op's arguments; None for other ops or where shapes are missing."""
    name = base_name(kernel)
    found = [t for t in tensors(kernel) if len(t.shape) >= 3]
    values = [_literal(v) for v in kernel.concrete_inputs or []]
    if name in BACKWARD and len(found) >= 3:
        gradient, source, weight = found[0], found[1], found[2]
        return Convolution(source, weight, gradient.shape, _groups(values, source, weight), _flag(values))
    if name not in FORWARD or len(found) < 2:
        return None
    source, weight = found[0], found[1]
    transposed = "transpose" in name or (name in ("convolution", "_convolution") and _flag(values))
    groups = _groups(values, source, weight)
    lists = [v for v in values if isinstance(v, list) and v and all(isinstance(n, int) for n in v)]
    if name in KERNEL_SIZE_FIRST:
        lists = lists[1:]
    spatial = len(source.shape) - 2
    if name.startswith(("cudnn", "miopen")) and len(lists) >= 2:
        if "transpose" in name and len(lists) > 3:
            del lists[1]  # what is added to the output's sides
        padding, stride = lists[0], lists[1]
    else:
        stride, padding = (lists[0] if lists else [1]), (lists[1] if len(lists) > 1 else [0])
    dilation = lists[2] if len(lists) > 2 else [1]
    stride, padding, dilation = (_wide(v, spatial) for v in (stride, padding, dilation))
    if len(weight.shape) != len(source.shape):
        return None
    if transposed:
        sizes = [
            (n - 1) * s - 2 * p + d * (w - 1) + 1
            for n, w, s, p, d in zip(source.shape[2:], weight.shape[2:], stride, padding, dilation)
        ]
        channels = weight.shape[1] * groups
    else:
        sizes = [
            (n + 2 * p - d * (w - 1) - 1) // max(1, s) + 1
            for n, w, s, p, d in zip(source.shape[2:], weight.shape[2:], stride, padding, dilation)
        ]
        channels = weight.shape[0]
    if any(n <= 0 for n in sizes):
        return None
    return Convolution(source, weight, (source.shape[0], channels, *sizes), groups, transposed)


def _literal(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return None


def _flag(values: list[Any]) -> bool:
    return next((v for v in values if isinstance(v, bool)), False)


def _groups(values: list[Any], source: Tensor, weight: Tensor) -> int:
    whole = source.shape[1] // weight.shape[1] if weight.shape[1] and source.shape[1] % weight.shape[1] == 0 else 1
    return max(1, whole)


def _wide(values: list[int], spatial: int) -> list[int]:
    return (values * spatial)[:spatial] if len(values) == 1 else values[:spatial]


def demand(kernel: KernelInput, work: Convolution) -> Demand:
    """One kernel of a convolution. Helpers that change the layout move one of its tensors; the others do the product."""
    symbol = kernel.symbol.lower()
    sizes = (work.input.bytes, work.weight.bytes, work.output_bytes)
    if any(mark in symbol for mark in LAYOUT):
        return layout_change(kernel, work, sizes)
    if any(mark in symbol for mark in PREPARATION):
        issued = programs(kernel) * warps(kernel) * SPLIT_REDUCE_ISSUE
        return Demand(read=0.0, write=0.0, flops=0.0, issued=issued, guessed=True)
    if any(mark in symbol for mark in SPLIT_REDUCTION):  # at least two parts in fp32 are added
        made = float(sizes[1] if base_name(kernel) in BACKWARD else sizes[2])
        elements = made / work.input.itemsize
        issued = programs(kernel) * warps(kernel) * SPLIT_REDUCE_ISSUE
        return Demand(read=8.0 * elements, write=made, flops=elements, issued=issued, guessed=True)
    if base_name(kernel) in BACKWARD:
        weight_gradient = "wgrad" in symbol or "weight" in symbol
        read = float(sizes[2] + (work.used_bytes if weight_gradient else sizes[1]))
        write = float(sizes[1] if weight_gradient else sizes[0])
    else:
        read, write = work.used_bytes + sizes[1], float(sizes[2])
    kind = rate_key(work.input.type)
    result = Demand(read=read, write=write, flops=work.flops, flop_type=kind)
    if work.depthwise or "depthwise" in symbol:
        generic = next((n for k, n in GENERIC_DEPTHWISE.items() if f"conv_depthwise2d_{k}" in symbol), DEPTHWISE_ISSUE)
        generic = next((n for k, n in CUDNN_DEPTHWISE.items() if k in symbol), generic)
        result.issued = work.flops / 2 / 32 * generic
        if "conv2d_c1" in symbol:
            results = math.prod(work.output_shape) / 32
            taps = math.prod(work.weight.shape[2:])
            pixels = work.input.elements / 32
            result.issued = results * (CUDNN_TAP * taps + CUDNN_RESULT) + pixels * CUDNN_PIXEL
        result.top = "address arithmetic and loads of a depthwise convolution"
        return result
    if "reduce_wgrad" in symbol:  # adds what each image gave
        parts = float(work.input.shape[0] * sizes[1])
        issued = programs(kernel) * warps(kernel) * SPLIT_REDUCE_ISSUE
        return Demand(read=parts, write=float(sizes[1]), flops=parts / work.input.itemsize, issued=issued, guessed=True)
    direct = next((n for k, n in DIRECT.items() if k in symbol), None)
    if direct is not None:
        result.issued = work.flops / 2 / 32 * direct
        result.shared_clocks = 4 * result.issued * DIRECT_SHARED
        result.top = "addresses and multiply-adds of a convolution of few channels"
        result.doubtful = True
        return result
    if is_simt(kernel.symbol, work.input.type) or "simt" in symbol or "sgemm" in symbol:
        result.issued = work.flops / 2 / 32 * SIMT_ISSUE
        result.shared_clocks = work.flops / 2 / 32 * SIMT_ISSUE * SIMT_SHARED
        result.top = "fused multiply-adds without matrix units"
        return result
    tile = tile_of(kernel.symbol)
    filled = 1.0
    columns = work.weight.shape[0] // work.groups
    depth = work.weight.shape[1] * math.prod(work.weight.shape[2:])
    if base_name(kernel) in BACKWARD and "dgrad" in symbol:  # the sides change their roles, and each tap is padded
        columns, depth = work.weight.shape[1], columns
    if tile and columns and depth:
        narrow = min(tile[0], tile[1])
        filled = up(columns, min(narrow, up(columns, 8))) / columns * up(depth, min(tile[2], 64)) / depth
        filled = min(8.0, filled)
        if "wgrad" in symbol:  # filters by channels of one tap, in whole tiles
            channels = work.weight.shape[1]
            filled = up(columns, tile[0]) / columns * up(channels, tile[1]) / channels
    result.tensor_flops = work.flops * filled
    result.flop_type = "tf32" if kind == "fp32" else kind
    result.tensor_rate = OLD_RATE if OLD_INSTRUCTIONS.search(kernel.symbol) else 1.0
    if tile and result.tensor_rate < 1 and base_name(kernel) in FORWARD and not work.transposed:
        implicit(result, kernel, work, tile)
    elif tile and result.tensor_rate < 1:
        blocks = float(programs(kernel))
        feed(result, kernel, tile, blocks, result.tensor_flops / (2 * blocks * math.prod(tile)), work.input.itemsize)
    else:
        result.shared_per_tensor = shared_per_tensor(kernel.symbol, tile)
        if tile:
            on_hopper(result, kernel, work, tile)
    return result


def on_hopper(result: Demand, kernel: KernelInput, work: Convolution, tile: tuple[int, int, int]) -> None:
    """With Hopper's copies of whole tiles: factors and sums as in a product (:mod:`ridgeline.roofline.gemm`)."""
    symbol, size = kernel.symbol, work.input.itemsize
    taps = math.prod(work.weight.shape[2:])
    forward = base_name(kernel) in FORWARD and not work.transposed
    if forward and any(mark in symbol for mark in HOPPERS) and work.groups == 1:
        positions = work.output_shape[0] * math.prod(work.output_shape[2:])
        sides = (1, positions, work.weight.shape[0], work.weight.shape[1] * taps)
        by_tiles(result, symbol, tile, sides, size, size)
        result.shared_clocks += sums_stored(symbol, float(work.output_bytes), size)
    elif base_name(kernel) in BACKWARD and "sm90_xmma" in symbol and work.groups == 1:
        filters, channels = work.weight.shape[:2]
        made, given = (shape[0] * math.prod(shape[2:]) for shape in (work.output_shape, work.input.shape))
        if "wgrad" in symbol:  # a product for every tap
            by_tiles(result, symbol, tile, (taps, filters, channels, made), size, size)
        elif "dgrad" in symbol:  # a stride leaves only some taps to a position
            by_tiles(result, symbol, tile, (1, given, channels, round(filters * taps * made / given)), size, size)
    if "xmma" in symbol and result.flop_type == "tf32":
        first, second = (True, True) if "wgrad" in symbol else transposed_factors(symbol)
        result.shared_per_tensor += TURNED * (first / tile[1] + second / tile[0])


def implicit(result: Demand, kernel: KernelInput, work: Convolution, tile: tuple[int, int, int]) -> None:
    """A forward convolution in blocks of positions x filters, without Hopper's copies of whole tiles.

    The depth goes through the filter's taps, and within one through the channels, whole tiles of both. Every step fetches
    the positions and the filters anew from the second-level cache, in rows of the tile's depth; a row shorter than a line
    costs a line, unless it is all the channels, so that the next position's lies beside it.
    """
    positions, filters, depth = tile
    grouped = GROUPED.search(kernel.symbol)
    if work.groups > 1 and grouped:
        depth = min(depth, int(grouped.group(1)))
    size = work.input.itemsize
    channels = work.weight.shape[1]
    planned = -(-work.input.shape[0] * math.prod(work.output_shape[2:]) // positions)
    planned *= work.groups * -(-work.weight.shape[0] // work.groups // filters)
    blocks = min(programs(kernel), planned) if kernel.grid else planned  # a grid in strips has blocks beyond the edge
    if work.groups > 1 and blocks * work.groups <= planned:  # a kernel for each group
        for name in ("read", "write", "fetched", "flops"):
            setattr(result, name, getattr(result, name) / work.groups)
    steps = math.prod(work.weight.shape[2:]) * -(-channels // depth)
    gathered = "wo_smem" in kernel.symbol
    if gathered:  # the depth goes through taps and channels at once
        steps = -(-math.prod(work.weight.shape[2:]) * channels // depth)
    result.tensor_flops = 2.0 * blocks * positions * filters * depth * steps
    row = min(depth, channels) * size
    waste = max(1.0, CACHE_LINE / row) if channels > depth else 1.0
    result.cache_read = float(blocks * steps * (positions + filters) * row * waste)
    if gathered:
        loads = blocks * steps * (positions + filters) * depth / 32
        result.shared_clocks = 4 * loads * (SINGLE_CLOCKS + SINGLE_TURNED)
        result.issued = loads * GATHERED_ISSUE
        result.top = "addresses of single elements of the image"
        return
    feed(result, kernel, (positions, filters, depth), blocks, steps, size)
    if (
        "cutlass" in kernel.symbol and work.groups == 1 and row < CACHE_LINE and channels >= depth
    ):  # a line looked up for every row of a tile
        result.shared_clocks += 4 * blocks * steps * (positions + filters)
    if channels < depth:  # short rows: each is a line looked up, but that several positions lie in one
        together = max(1.0, CACHE_LINE / (channels * size))
        result.shared_clocks += 4 * blocks * steps * (positions / together + filters)


def layout_change(kernel: KernelInput, work: Convolution, sizes: tuple[int, int, int]) -> Demand:
    """Moves one tensor of the convolution, a tile of 32 by 32 elements a block."""
    itemsize = 2 if any(mark in kernel.symbol for mark in ("__half", "bfloat16", "BFloat16")) else 4
    elements = float(math.prod(kernel.grid or (1,)) * LAYOUT_TILE)
    moved = min(elements * itemsize, float(max(sizes)))
    issue = LAYOUT_ISSUE
    # the one whose sides the grid has: blocks of positions, of channels, of images
    for shape in (work.weight.shape, work.input.shape, work.output_shape):
        positions = math.prod(shape[2:])
        sides = [-(-positions // THIN), -(-shape[1] // THIN), shape[0]]
        if kernel.grid and list(kernel.grid) == sides:
            moved = min(moved, float(math.prod(shape) * itemsize))
            issue *= THIN_ISSUE if positions < THIN else 1.0
            break
    return Demand(read=moved, write=moved, flops=0.0, issued=elements / 32 * issue, guessed=True)
