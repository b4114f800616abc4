"""Convolutions as implicit matrix products, by the kernel that computes one."""

from __future__ import annotations

import math
import re

from ridgeline.roofline import aten, fft, pointwise
from ridgeline.roofline.conv_layouts import LAYOUT, flipped, layout_change
from ridgeline.roofline.conv_shapes import BACKWARD, Convolution, convolution
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.gemm import (
    OLD_INSTRUCTIONS,
    OLD_RATE,
    ROW,
    Product,
    by_tiles,
    is_simt,
    matrix_vector,
    shared_per_tensor,
    sums_stored,
    tile_of,
    turned,
    up,
)
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.simt import USUAL, without_matrix_units
from ridgeline.roofline.tensors import base_name
from ridgeline.roofline.traffic import ATOMIC
from ridgeline.roofline.warp_fed import (
    PROLOGUE,
    SINGLE_CLOCKS,
    SINGLE_TURNED,
    blocks_along,
    feed,
    programs,
    transposed_factors,
    warps,
)

__all__ = ["Convolution", "convolution", "demand"]
PREPARATION = ("init_device_workspace",)
SPLIT_REDUCTION = ("reducesplitk", "splitkreduce", "execute_split_k_kernel")
GROUPED = re.compile(r"_g(\d+)(?:_|$)")
"""Channels of the groups that a block of cuDNN's grouped kernels multiplies at once."""
FIRST_LAYER = re.compile(r"image_first_layer\w*_k\d+c(\d+)r(\d+)s(\d+)_stride\d+x\d+_tile(\d+)x(\d+)x(\d+)")
"""Channels, rows and columns of the filters; rows and columns of the image, and filters, that a block makes."""
CACHE_LINE = 128
ROW_LOOKED_UP = 0.6
"""Clocks of the first-level cache for a row of a tile that CUTLASS's kernels copy (sixteen between 0.35 and 0.83; none with xmma's)."""
COPIED = 16
"""Bytes that a thread copies into shared memory at once, past its registers."""
CUDNN_TAP, CUDNN_PIXEL = 2.0, 6.0
"""Instructions of cuDNN's depthwise kernel in half precision for a tap, and for a result and a pixel that it fetches and converts: eight
kernels of 3x3 and 7x7 filters with strides of 1 and 2 within 12 % (Nsight Compute)."""
LOOPED_DEPTHWISE = {
    "conv_depthwise2d_forward_kernel_generic": (204.0, 28.0, 5.4),
    "conv_depthwise2d_backward_kernel<0": (180.0, 17.0, 12.25),
}
"""Instructions of a result, of a row of the filter and of a tap, where its size is no template argument: the tap (and the backward row)
as in the loops of these kernels' code (``aten_sass.py``), the rest, divisions that find the place, from four launches."""
GENERIC_DEPTHWISE = {"forward": 1, "backward": 2, "grad_weight": 3}
"""Times of ``pointwise.STRIDED`` for a tap where the size of the filter is no template argument
(ATen/native/cuda/DepthwiseConv2d.cu): a bounds check, an address, for gradients divisions a tap; one kernel each. Other
kernels take two of ``CUDNN_TAP``: load, convert, address, multiply."""
DIRECT = ("convolve_common_engine", "dgrad_engine", "wgrad_alg0_engine", "precomputed_convolve_sgemm")
PRECOMPUTED = (64, 128, 8)
"""Positions, filters and depth of a tile of the last of them: its grid, and the first number among its parameters."""
DIRECT_ISSUE = 2.8
DIRECT_SHARED, WGRAD_SHARED = 0.7, 1.15
"""Instructions, and clocks of the first-level cache, for 32 multiply-adds of kernels that cuDNN has for few channels: five kernels
within a tenth, of three channels (same source); their bound is borderline."""
WINOGRAD = 2.25
"""Products that a tile of 2 by 2 results of filters of 3 by 3 saves: 36 over 16 (Lavin and Gray, 2015); its transforms were not counted here."""
COMPLEX = "c10::complex<float>"
SECTOR = 32
MOST_IDLE = 1.25
"""Room over tiles beyond which blocks are shared out in some other way."""
PAIR = 2
"""Blocks of a cluster of xmma's kernels whose grid is one high (Nsight Compute's launch statistics)."""
GATHERED_LINES = 2
"""Times that a line takes the second-level cache when threads fetch it 16 bytes at a time."""
HOPPERS = ("nvjet", "sm90_xmma_gemm", "sm90_xmma_fprop_implicit")
GATHERED_ISSUE = 19.0
"""Instructions for 32 elements that a kernel without shared memory gathers from an image of few channels: five within a tenth."""


def demand(kernel: KernelInput, work: Convolution, cache_bytes: int | None = None) -> Demand:
    """One kernel of a convolution. Helpers that change the layout move one of its tensors; the others do the product.
    ``cache_bytes``: of the second-level cache."""
    symbol = kernel.symbol.lower()
    sizes = (work.input.bytes, work.weight.bytes, work.output_bytes)
    if any(mark in symbol for mark in LAYOUT):
        return layout_change(kernel, work, sizes)
    transform = fft.image_demand(kernel, (work.input.shape, work.output_shape, work.weight.shape))
    if transform is not None:
        return transform
    if "flip_filter" in symbol:
        return flipped(kernel, work)
    if any(mark in symbol for mark in PREPARATION):
        issued = programs(kernel) * warps(kernel) * aten.OTHER
        return Demand(read=0.0, write=0.0, flops=0.0, issued=issued, guessed=True)
    if any(mark in symbol for mark in SPLIT_REDUCTION):  # at least two parts in fp32 are added
        made = float(sizes[1] if base_name(kernel) in BACKWARD else sizes[2 if work.makes == "output" else 0])
        elements = made / work.input.itemsize
        issued = programs(kernel) * warps(kernel) * aten.OTHER
        return Demand(read=8.0 * elements, write=made, flops=elements, issued=issued, guessed=True)
    tensors = {"input": float(sizes[0]), "weight": float(sizes[1]), "output": float(sizes[2])}
    write = tensors.pop(work.makes)
    if "input" in tensors:
        tensors["input"] = work.used_bytes
    read = sum(tensors.values())
    kind = rate_key(work.input.type)
    result = Demand(read=read, write=write, flops=work.flops, flop_type=kind)
    if work.depthwise or "depthwise" in symbol:
        operands = next((n for k, n in GENERIC_DEPTHWISE.items() if f"conv_depthwise2d_{k}" in symbol), None)
        generic = operands * pointwise.STRIDED if operands else 2 * CUDNN_TAP
        result.issued = work.flops / 2 / 32 * generic
        looped = next((n for k, n in LOOPED_DEPTHWISE.items() if k in symbol), None)
        if looped is not None:
            each, row, tap = looped
            rows, taps = math.prod(work.weight.shape[2:-1]), math.prod(work.weight.shape[2:])
            made = work.input.elements if work.makes == "input" else math.prod(work.output_shape)
            result.issued = made / 32 * (each + rows * row + taps * tap)
        if "conv2d_c1" in symbol:
            results = math.prod(work.output_shape) / 32
            taps = math.prod(work.weight.shape[2:])
            pixels = work.input.elements / 32
            result.issued = results * CUDNN_TAP * taps + (results + pixels) * CUDNN_PIXEL
        result.top = "address arithmetic and loads of a depthwise convolution"
        return result
    if "scalepackedtensor" in symbol:  # cleared, because others add to it; not read when the factor is zero
        threads = float(programs(kernel) * warps(kernel) * 32)
        return Demand(
            read=0.0, write=threads * work.input.itemsize, flops=0.0, issued=threads / 32 * aten.OTHER, guessed=True
        )
    if "reduce_wgrad" in symbol:  # adds what each image gave
        parts = float(work.input.shape[0] * sizes[1])
        issued = programs(kernel) * warps(kernel) * aten.OTHER
        return Demand(read=parts, write=float(sizes[1]), flops=parts / work.input.itemsize, issued=issued, guessed=True)
    if any(mark in symbol for mark in DIRECT):
        result.issued = work.flops / 2 / 32 * DIRECT_ISSUE
        if "precomputed_convolve_sgemm" in symbol:  # any number of channels: a plain product
            without_matrix_units(result, kernel, PRECOMPUTED, as_product(work))
        along = WGRAD_SHARED if work.makes == "weight" else DIRECT_SHARED
        result.shared_clocks = 4 * work.flops / 2 / 32 * along
        if work.makes == "input":  # each tap that reaches an element adds to it, alone
            added = work.input.elements * math.prod(work.weight.shape[2:]) / work.phases
            result.cache_write = added * ATOMIC * SECTOR
        result.top = "addresses and multiply-adds of a convolution of few channels"
        result.doubtful = True
        return result
    if "gemv" in symbol:
        matrix_vector(result, kernel, work.flops, as_product(work).k)
        result.top = "loads"
        return result
    if tile_of(symbol) and ("simt_sgemm" in symbol or "ffma" in symbol):
        return simt_product(result, kernel, work)
    if is_simt(kernel.symbol, work.input.type) or "simt" in symbol or "sgemm" in symbol:
        without_matrix_units(result, kernel, None, as_product(work))
        if "winograd" in symbol:
            result.flops = work.flops / WINOGRAD
            result.issued, result.shared_clocks = (result.issued or 0.0) / WINOGRAD, result.shared_clocks / WINOGRAD
            result.doubtful = True
        return result
    tile = tile_of(kernel.symbol)
    filled = 1.0
    columns = work.weight.shape[0] // work.groups
    depth = work.weight.shape[1] * math.prod(work.weight.shape[2:])
    if work.makes == "input":  # the sides change their roles, and each tap is padded
        columns, depth = work.weight.shape[1], columns
    if tile and columns and depth:
        narrow = min(tile[0], tile[1])
        least = narrow if work.makes == "input" and "sm90_xmma" in symbol else min(narrow, up(columns, 8))
        filled = up(columns, least) / columns * up(depth, min(tile[2], 64)) / depth
        if (
            work.makes == "output" and "sm90_xmma" in symbol and "warpgroupsize" in symbol
        ):  # whole tiles of every side, and of the channels of each tap
            channels = work.weight.shape[1]
            positions = work.output_shape[0] * math.prod(work.output_shape[2:])
            filled = up(columns, tile[1]) / columns * up(channels, tile[2]) / channels
            filled *= up(positions, tile[0] * blocks_along(kernel, 1)) / positions
        if work.makes == "weight" and "wgrad" in symbol:  # filters by channels of one tap, in whole tiles
            channels = work.weight.shape[1]
            filled = up(columns, tile[0]) / columns * up(channels, tile[1]) / channels
            filled *= idle(kernel, math.prod(work.weight.shape[2:]) * -(-columns // tile[0]) * -(-channels // tile[1]))
    result.tensor_flops = work.flops * filled
    result.flop_type = "tf32" if kind == "fp32" else kind
    result.tensor_rate = OLD_RATE if OLD_INSTRUCTIONS.search(kernel.symbol) else 1.0
    first = FIRST_LAYER.search(kernel.symbol)
    if first:
        first_layer(result, kernel, tuple(int(number) for number in first.groups()))
    elif tile and result.tensor_rate < 1 and work.makes == "output":
        implicit(result, kernel, work, tile)
    elif tile and result.tensor_rate < 1:
        blocks = float(programs(kernel))
        steps = result.tensor_flops / (2 * blocks * math.prod(tile))
        feed(result, kernel, tile, blocks, steps, work.input.itemsize)
        placed(result, kernel, tile, blocks, steps, work.input.itemsize)
    else:
        result.shared_per_tensor = shared_per_tensor(kernel.symbol, tile)
        if tile:
            on_hopper(result, kernel, work, tile, cache_bytes)
    return result


def as_product(work: Convolution) -> Product:
    """Its sides as one product's."""
    filters, depth = work.weight.shape[0], math.prod(work.weight.shape[1:])
    made = work.output_shape[0] * math.prod(work.output_shape[2:])
    rows, columns, along = {
        "output": (made, filters, depth),
        "input": (made, depth, filters),
        "weight": (filters, depth, made),
    }[work.makes]
    size = work.input.itemsize
    return Product(1, rows, columns, along, size, size, work.input.type, 0.0)


def simt_product(result: Demand, kernel: KernelInput, work: Convolution) -> Demand:
    """Without matrix units; of complex numbers, for each frequency of a transformed image, one in each layer of the grid."""
    product = as_product(work)
    if "cf32cf32" in kernel.symbol:
        images, filters, channels = work.input.shape[0], *work.weight.shape[:2]
        sides = {
            "output": (images, filters, channels),
            "input": (images, channels, filters),
            "weight": (filters, channels, images),
        }
        m, n, k = sides[work.makes]
        layers = blocks_along(kernel, 2)
        product = Product(layers, m, n, k, 8, 8, COMPLEX, float(layers * k * (m + n) * 8))
        result = Demand(read=product.read, write=product.write, flops=product.flops, flop_type="fp32", guessed=True)
    tile = tile_of(kernel.symbol)
    without_matrix_units(result, kernel, tile, product)
    if tile and "implicit" in kernel.symbol:  # the places of single elements of the image and the filters
        gathered = programs(kernel) * up(product.k, USUAL[2]) * (tile[0] + tile[1]) / 32
        result.issued = (result.issued or 0.0) + gathered * GATHERED_ISSUE
    return result


def on_hopper(
    result: Demand, kernel: KernelInput, work: Convolution, tile: tuple[int, int, int], cache_bytes: int | None
) -> None:
    """With Hopper's copies of whole tiles: factors and sums as in a product (:mod:`ridgeline.roofline.gemm`)."""
    symbol, size = kernel.symbol, work.input.itemsize
    taps = math.prod(work.weight.shape[2:])
    if work.makes == "output" and any(mark in symbol for mark in HOPPERS) and work.groups == 1:
        positions = work.output_shape[0] * math.prod(work.output_shape[2:])
        sides = (1, positions, work.weight.shape[0], work.weight.shape[1] * taps)
        by_tiles(result, symbol, tile, sides, size, size)
        if "xmma_fprop" in symbol:
            multicast(result, kernel, sides, tile, size)
        result.shared_clocks += sums_stored(symbol, float(work.output_bytes), size)
    elif work.makes != "output" and "sm90_xmma" in symbol and work.groups == 1:
        filters, channels = work.weight.shape[:2]
        made, given = (shape[0] * math.prod(shape[2:]) for shape in (work.output_shape, work.input.shape))
        if work.makes == "weight":  # a product for every tap
            by_tiles(result, symbol, tile, (taps, filters, channels, made), size, size)
        else:  # a stride leaves only some taps to a position
            depth = round(filters * taps * made / given)
            result.shared_clocks += sums_stored(symbol, result.write or 0.0, size)
            if result.flop_type == "tf32" and tile[0] > tile[1]:
                # filters do not run along the depth: such a factor must come from registers, which takes the instruction's rows
                result.shared_per_tensor = shared_per_tensor(symbol, (ROW, tile[0], tile[2]))
            by_tiles(result, symbol, tile, (1, given, channels, depth), size, size)
            if "indexed" in symbol:
                indexed(result, work, tile, (given, channels, depth), cache_bytes)
    if "xmma" in symbol and result.flop_type == "tf32":
        turned(result, kernel, tile, (True, True) if "wgrad" in symbol else transposed_factors(symbol))


def idle(kernel: KernelInput, tiles: int) -> float:
    """Tiles that the grid has room for over ``tiles``: it has as many blocks for each, and clusters make an odd number even."""
    blocks = programs(kernel)
    room = next((n for n in range(max(1, tiles), blocks + 1) if blocks % n == 0), tiles)
    return room / tiles if tiles and room <= MOST_IDLE * tiles else 1.0


def multicast(
    result: Demand, kernel: KernelInput, sides: tuple[int, int, int, int], tile: tuple[int, int, int], size: int
) -> None:
    """What passes the second-level cache of a convolution of (1, positions, filters, depth) in clusters: filters once for the tiles of
    positions that a cluster works on, which are as many as the grid is high, or two; positions once for every tile of filters.

    Positions are copied pixel by pixel, so that the cache serves data and not whole lines.
    """
    _, positions, filters, depth = sides
    high = blocks_along(kernel, 1)
    together = high if high > 1 else PAIR
    across = -(-positions // tile[0])
    read = positions * -(-filters // tile[1]) + filters * -(-across // together)
    result.tiles_read, result.cache_sectors = 0.0, float(read * depth * size)


def indexed(
    result: Demand, work: Convolution, tile: tuple[int, int, int], sides: tuple[int, int, int], cache_bytes: int | None
) -> None:
    """A gradient of a strided convolution's input, phase after phase of the stride: threads fetch the positions, 16 bytes each.

    Each of their lines then takes the second-level cache twice as long as with a copy of whole tiles (six kernels in 16 and 32 bits
    within a tenth); blocks that lie beside each other ask for the same positions at the same time, which costs it once. Every
    phase reads all that there is: from memory again as far as it does not stay in the cache beside what is written.
    """
    rows, columns, depth = sides
    size = work.input.itemsize
    filters = up(columns * size, CACHE_LINE)  # a row of them takes a line however short it is
    result.tiles_read = float(depth * (GATHERED_LINES * rows * size + filters * -(-rows // tile[0])))
    if cache_bytes:
        lost = ((result.read or 0.0) + (result.write or 0.0)) / cache_bytes - 1
        result.fetched = (result.read or 0.0) * (1 + (work.phases - 1) * min(1.0, max(0.0, lost)))


def implicit(result: Demand, kernel: KernelInput, work: Convolution, tile: tuple[int, int, int]) -> None:
    """A forward convolution in blocks of positions x filters, without Hopper's copies of whole tiles.

    The depth goes through the filter's taps, and within one through the channels, whole tiles of both. Every step fetches
    the positions and the filters anew from the second-level cache, which serves the data itself.
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
    result.cache_sectors = float(blocks * steps * (positions + filters) * row)
    if gathered:
        loads = blocks * steps * (positions + filters) * depth / 32
        result.shared_clocks = 4 * loads * (SINGLE_CLOCKS + (SINGLE_TURNED if size == 4 else 0.0))
        # straight from registers: a store of a warp is two sums of each lane, in eight rows
        result.shared_clocks += 4 * 8 * (result.write or 0.0) / (64 * size)
        result.issued = loads * GATHERED_ISSUE + blocks * warps(kernel) * PROLOGUE * aten.OTHER
        result.top = "addresses of single elements of the image"
        return
    feed(result, kernel, (positions, filters, depth), blocks, steps, size)
    placed(result, kernel, (positions, filters, depth), blocks, steps, size)


def placed(
    result: Demand, kernel: KernelInput, tile: tuple[int, int, int], blocks: float, steps: float, size: int
) -> None:
    """What it takes to find the pixels that a block of an implicit product copies, 16 bytes a thread: the places of all before the
    first copy, and of each with its tap."""
    if not any(mark in kernel.symbol for mark in ("fprop", "dgrad", "wgrad")):  # a plain product
        return
    copies = blocks * steps * (tile[0] + tile[1]) * tile[2] * size / COPIED / 32
    before = blocks * warps(kernel) * PROLOGUE * aten.OTHER
    result.issued = (result.issued or 0.0) + copies * pointwise.STRIDED + before
    if "cutlass" in kernel.symbol:  # a line looked up for every row of a tile
        result.shared_clocks += 4 * blocks * steps * (tile[0] + tile[1]) * ROW_LOOKED_UP


def first_layer(result: Demand, kernel: KernelInput, sizes: tuple[int, ...]) -> None:
    """An image's first convolution, all filters at once: a block goes through the rows of its part of the image, and for each
    through those of the filter, whose columns and channels are the depth."""
    channels, rows, columns, high, wide, filters = sizes
    blocks, depth = float(programs(kernel) * high), up(columns * channels, 8)
    result.tensor_flops = 2.0 * blocks * wide * filters * depth * rows
    feed(result, kernel, (wide, filters, depth), blocks, rows, 2)
