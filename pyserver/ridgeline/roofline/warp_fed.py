"""Products on matrix units with the instructions before Hopper's: each warp loads its factors from shared memory into registers."""

from __future__ import annotations

import re

from ridgeline.roofline import aten, pointwise
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput

MMA_BYTES = 16 * 8 * 32
"""Products of one of the earlier generations' instructions times the bytes of an element: 16 x 8 x 16 of two, 16 x 8 x 8 of four."""
LAYOUT_LETTERS = re.compile(r"_([nt])([nt])(?:_|$|\W)")
SINGLE = re.compile(r"align1(?!\d)")
"""Of CUTLASS's names: factors are fetched element by element, because their rows begin anywhere."""
SINGLE_CLOCKS, SINGLE_TURNED = 4.25, 2.0
"""Clocks of the first-level cache for such a load of a warp and its store into shared memory; more where both factors run along
the depth in four bytes, so that lanes of one load store into a few banks."""
SINGLE_ISSUE = 3.0
"""Instructions for such a load, its predicate and its store."""
PROLOGUE = 5
"""Times of ``OTHER`` that a warp of a library's product, convolution (twice) or attention needs before its first load: addresses and predicates of
all."""


def feed(
    result: Demand, kernel: KernelInput, tile: tuple[int, int, int], blocks: float, steps: float, itemsize: int
) -> None:
    """What it takes to feed the matrix units from shared memory with the instructions before Hopper's, where each warp
    loads its own factors into registers.

    A block writes two tiles a step into shared memory, and each of its warps reads its rows and its columns of them, 128
    bytes a clock; at the end the sums pass through shared memory in fp32. Factors of one byte whose neighbours along the
    depth do not lie together are gathered byte by byte (there is no transposing load for bytes), and the four lanes that
    share a row then meet in one bank: a clock for 8 bytes. Those of four bytes are loaded into one register at a time, and CUTLASS
    rounds each register to tf32. Sums are scaled and stored, four at a time.
    """
    rows, columns, depth = tile
    sums = rows * columns * max(1, itemsize // 4)  # complex numbers are two of four bytes
    down, across = warp_grid(rows, columns, warps(kernel))
    gathered = transposed_factors(kernel.symbol) if itemsize == 1 else (False, False)
    reads = (rows * across, columns * down)
    apart = [8 if lost else 128 for lost in gathered]
    if itemsize == 2 and "wmma" in kernel.symbol:  # a half a lane where they do not run along the depth
        apart = [64 if across_depth else 128 for across_depth in transposed_factors(kernel.symbol)]
    clocks = sum(n * depth * itemsize / most for n, most in zip(reads, apart))
    clocks += (rows + columns) * depth * itemsize / 128
    met = 4 if "cutlass" in kernel.symbol else 2
    result.shared_clocks += 4 * blocks * (steps * clocks + met * sums * 4 / 128)
    element = min(itemsize, 4)
    along = [not across_depth for across_depth in transposed_factors(kernel.symbol)]
    wide = [512 if element < 4 or runs else 128 for runs in along]
    loads = sum(n * depth * itemsize / (32 if lost else most) for n, lost, most in zip(reads, gathered, wide))
    registers = sum(reads) * depth * itemsize / 128 if element == 4 and "cutlass" in kernel.symbol else 0.0
    result.load_store += blocks * steps * loads
    issued = (result.tensor_flops or 0.0) / 2 / (MMA_BYTES / element) + blocks * steps * (2 * loads + registers)
    issued += blocks * (warps(kernel) * PROLOGUE * aten.OTHER + sums / 32 * pointwise.STRIDED / 4)
    result.issued = (result.issued or 0.0) + issued


def one_by_one(
    result: Demand, kernel: KernelInput, tile: tuple[int, int, int], blocks: float, steps: float, itemsize: int
) -> None:
    """What fetching the factors element by element adds: 32 of them take a load, and a store into shared memory."""
    rows, columns, depth = tile
    loads = blocks * steps * (rows + columns) * depth / 32
    stored = (
        blocks * rows * columns * max(1, itemsize // 4) / 32 * 3 / 4
    )  # of which a warp stores four at once otherwise
    along = transposed_factors(kernel.symbol) == (False, False) and itemsize == 4
    result.shared_clocks += 4 * loads * (SINGLE_CLOCKS + (SINGLE_TURNED if along else 0.0))
    result.load_store += 2 * loads
    result.issued = (result.issued or 0.0) + loads * SINGLE_ISSUE + stored * pointwise.STRIDED
    result.top = "loads of single elements: rows do not begin at multiples of 16 bytes"


def warp_grid(rows: int, columns: int, count: int) -> tuple[int, int]:
    """Warps along the rows and along the columns of a tile, so that each has the squarest part."""
    splits = [(i, count // i) for i in range(1, count + 1) if count % i == 0]
    return min(splits, key=lambda s: rows * s[1] + columns * s[0])


def transposed_factors(symbol: str) -> tuple[bool, bool]:
    """Whether the first and the second factor do not run along the depth: BLAS's letters in the name, n and t of
    matrices that are stored by columns."""
    letters = LAYOUT_LETTERS.search(symbol)
    return (letters.group(1) == "n", letters.group(2) == "t") if letters else (False, False)


def programs(kernel: KernelInput) -> int:
    total = 1
    for n in kernel.grid or ():
        total *= max(1, n)
    return total


def blocks_along(kernel: KernelInput, axis: int) -> int:
    """Blocks along an axis of the grid, at least one."""
    grid = kernel.grid or ()
    return max(1, grid[axis]) if axis < len(grid) else 1


def warps(kernel: KernelInput) -> int:
    total = 1
    for n in kernel.block or ():
        total *= max(1, n)
    return -(-total // 32)
