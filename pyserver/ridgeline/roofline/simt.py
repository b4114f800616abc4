"""Products without matrix units: each thread holds a part of the result, and reads its rows and columns of both factors from shared
memory for every step along the depth."""

from __future__ import annotations

import math
from typing import Protocol

from ridgeline.roofline import aten, pointwise
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.warp_fed import PROLOGUE, SINGLE, SINGLE_CLOCKS, transposed_factors, warps

LOADS = 7.5
"""What a step costs a thread beside its fused multiply-adds, one for each of its sums, and what it loads from shared memory."""
ENDED = 1.25
"""Times of ``STRIDED`` for each sum of a thread in the end."""
MOST_SUMS = 128
USUAL = (128, 128, 8)
"""Tile of kernels whose names tell none, of four warps; the depth of a step is that of CUTLASS's and xmma's names."""
VECTOR = 4
"""Numbers that a thread loads at once."""
BESIDE, ALONG = 2.0, 6.0
"""Clocks for 128 bytes of a factor on their way into shared memory: a line looked up, a row of banks written. Where they run along the
depth, eight of four bytes of each row, four lines are looked up and each number is stored by itself, two to a bank."""
STORED_SHARED = 4.0
"""Clocks of the first-level cache for each sum of a thread in the end: scaled, checked against the edge, addressed, stored; twice as many
where sums are stored one by one."""


class Sides(Protocol):
    """What a product tells of itself (:class:`ridgeline.roofline.gemm.Product`)."""

    @property
    def batch(self) -> int: ...
    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def flops(self) -> float: ...
    @property
    def complex(self) -> bool: ...


def without_matrix_units(result: Demand, kernel: KernelInput, tile: tuple[int, int, int] | None, work: Sides) -> None:
    """Instructions, and clocks of shared memory, of a product whose tile the name tells; of the usual one otherwise, without what
    padding and the end cost."""
    named = tile is not None and ("sgemm" in kernel.symbol or "ffma" in kernel.symbol)
    parts = 2 if work.complex else 1  # of a number
    if tile is not None and named:
        rows, columns, count = tile[0], tile[1], warps(kernel)
        tiles = work.batch * min(-(-work.m // a) * -(-work.n // b) for a, b in ((rows, columns), (columns, rows)))
        blocks, step = float(tiles), min(tile[2], USUAL[2])
        steps = float(-(-work.k // step))
    else:
        rows, columns, step = USUAL
        count = VECTOR
        blocks, steps = work.flops / 2 / parts**2 / (rows * columns * step), 1.0
    sums = min(float(MOST_SUMS), parts * rows * columns / max(32, 32 * count))
    stored = blocks * rows * columns / 32 if named else 0.0
    fused = blocks * steps * step * rows * columns / 32 * parts**2
    if result.flop_type == "fp64":
        result.double = fused
    result.issued = fused * (1.0 + (LOADS + read_by_a_warp(sums) / 2) / sums) + stored * ENDED * pointwise.STRIDED
    result.issued += blocks * count * PROLOGUE * aten.OTHER if named else 0.0
    single = bool(SINGLE.search(kernel.symbol))
    result.shared_clocks = (
        4
        * blocks
        * steps
        * (
            count * step * read_by_a_warp(sums / parts) * parts
            + fetched(kernel.symbol, (rows, columns), step * parts, single)
        )
    )
    result.shared_clocks += 4 * stored * STORED_SHARED * (2 if single else 1)
    result.top = "fused multiply-adds without matrix units"


def read_by_a_warp(sums: float) -> float:
    """Clocks in which a warp reads what one step of its threads' ``sums`` needs: as square as powers of two allow, four numbers a
    load, which takes two clocks."""
    short = 2.0 ** (int(math.log2(max(1.0, sums))) // 2)
    return 2 * (short + sums / short) / VECTOR


def fetched(symbol: str, sides: tuple[int, int], depth: int, single: bool) -> float:
    """Clocks in which a block's tiles of one step get into shared memory."""
    across = transposed_factors(symbol)
    along = SINGLE_CLOCKS if single else ALONG
    if single and across != (True, True):
        across = (False, False)
    return sum(side * depth / 32 * (BESIDE if beside else along) for side, beside in zip(sides, across))
