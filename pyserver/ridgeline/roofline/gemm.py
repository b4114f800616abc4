"""Matrix products: 2·B·M·N·K FLOPs (torch.utils.flop_counter), operands and result moved once."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ridgeline.roofline import aten, pointwise
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.simt import without_matrix_units
from ridgeline.roofline.tensors import Tensor, base_name, tensors
from ridgeline.roofline.traffic import KEPT
from ridgeline.roofline.warp_fed import SINGLE, blocks_along, feed, one_by_one, programs, transposed_factors, warps

PRODUCTS = {
    "mm": 0, "bmm": 0, "_int_mm": 0, "_scaled_mm": 0, "matmul": 0, "addmm": 1, "_addmm_activation": 1, "baddbmm": 1, "addbmm": 1,
    "linear": 0, "mv": 0, "dot": 0, "addmv": 1, "_mixed_mm": 0, "_weight_int8pack_mm": 0, "mkldnn_linear": 0, "_mkl_linear": 0,
    "_linear_pointwise": 0,
}  # fmt: skip
"""Op -> position of its first factor among the tensors."""
TRANSPOSED_SECOND = {"linear", "_weight_int8pack_mm", "_mkl_linear", "mkldnn_linear", "_linear_pointwise"}
TILE = re.compile(
    r"(?<![a-zA-Z0-9])(?:tilesize|tile)?(?!0+\D)(\d{2,3})x(?!0+\D)(\d{1,3})(?:x|_)(?!0+(?:\D|$))(\d{2,3})(?=x\d|[^a-zA-Z0-9]|$)"
)
ANY_TILE = re.compile(r"(?!0+\D)(\d{2,3})x(?!0+(?:\D|$))(\d{2,3})")
OLD_INSTRUCTIONS = re.compile(r"s16816|s1688|hmma|sm80|ampere|cutlass_80|wmma|16816|h884|s884|i16832", re.IGNORECASE)
OLD_RATE = 0.605
"""Share of Hopper's rate that the instructions of earlier generations reach on it."""
OLD_SHARED = 0.62
"""Shared memory against matrix units with 64x64 tiles a warp: 4 KiB at 128 B a clock in the time of 131 kFLOP. For kernels
whose name gives no tile; :func:`feed` reckons with the tile."""
ROW = 64
"""Elements of half precision in a row of shared memory as matrix instructions read it (128 bytes)."""
TURNED_ISSUE = 4.2
"""Instructions for 32 such elements: loaded, rounded, stored (eight kernels of four tiles within a tenth)."""
REGISTERS_FED = 0.5
"""n/4 over n/2: what a matrix instruction reads from shared memory whose rows come from registers."""
LINE = 128
HOPPERS_XMMA = re.compile(r"sm90_xmma_gemm\w*warpgroupsize")
"""Its first side lies along the rows of a result that is stored by rows, the second along its columns."""
SWEEPING = re.compile(r"sm90_xmma_gemm\w*_n[nt]_n_tilesize\w*warpgroupsize1x1x1")
"""Of its kernels those that go along the longer side first (three products that memory delivers two and three times)."""
MOST_SWEEPS = 8
"""Tiles of the shorter side up to which they were seen to do so (nine products, two of them with more)."""
FOUR, FOURS = 4, 120
"""Blocks of a cluster, and blocks of the grid that such clusters fill on Hopper's 132 multiprocessors: groups of them hold no whole number of fours."""
CLUSTER = re.compile(r"nvjet_\w+?_\d+x\d+_\d+x\d+_([1-9]\d?)x([1-9]\d?)")
"""Of nvjet's names, after the tile and its depth and stages: blocks of a cluster along each side of a tile."""
NVJET_LETTERS = re.compile(r"nvjet_\w*_[NT][NT]([NT])(?:_|$)")
DEFAULT_COLUMNS, MOST_COLUMNS = 128, 256
"""Columns of a matrix instruction where no tile is known, and at most (PTX manual, wgmma)."""
TURNED = 32.0
"""Of a factor in tf32 that does not run along the depth: Hopper's instructions take such only in 16-bit types (PTX manual, wgmma),
so it is stored once more, 4 bytes an element at 128 a clock, while 2048 FLOPs are done: this over the tile's other side."""
SKINNY = 16
"""Rows under which a product is a matrix-vector product in effect: weights are what moves."""


@dataclass(slots=True, frozen=True)
class Product:
    batch: int
    m: int
    n: int
    k: int
    itemsize: int
    out_itemsize: int
    type: str
    read: float
    """Bytes of the operands, distinct addresses."""

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k * (4 if self.complex else 1)

    @property
    def complex(self) -> bool:
        """Four real products each (torch.utils.flop_counter counts one)."""
        return "complex" in self.type.lower()

    @property
    def write(self) -> float:
        return float(self.batch * self.m * self.n * self.out_itemsize)


def product(kernel: KernelInput) -> Product | None:
    """The shapes of a product from its op's arguments; None if the op is none, or shapes are missing."""
    name = base_name(kernel)
    if name not in PRODUCTS:
        return None
    found = tensors(kernel)
    start = PRODUCTS[name]
    if len(found) < start + 2:
        return None
    a, b = found[start], found[start + 1]
    added = found[:start] + ([found[2]] if name == "linear" and len(found) > 2 else [])
    shape = dimensions(a, b, name in TRANSPOSED_SECOND)
    if shape is None:
        return None
    batch, m, n, k = shape
    read = float(
        a.distinct_bytes + b.distinct_bytes + sum(min(t.distinct_bytes, batch * m * n * t.itemsize) for t in added)
    )
    out = 4 if name == "_int_mm" else 2 if name == "_scaled_mm" else a.itemsize
    return Product(batch, m, n, k, a.itemsize, out, a.type, read)


def dimensions(a: Tensor, b: Tensor, transposed: bool) -> tuple[int, int, int, int] | None:
    """(batch, M, N, K) of ``a @ b`` (``a @ b.T`` if transposed), None if the shapes do not fit, or hold nothing."""
    p, q = a.shape, b.shape
    if len(p) == 1:
        p = (1, *p)
    if len(q) == 1:
        q = (*q, 1)
    if len(p) < 2 or len(q) < 2:
        return None
    if transposed:
        q = (*q[:-2], q[-1], q[-2])
    if p[-1] != q[-2]:
        return None
    m, k, n = p[-2], p[-1], q[-1]
    batch = 1
    if len(q) == 2:  # leading dimensions of the first factor are rows
        for size in p[:-2]:
            m *= size
    else:
        for size in q[:-2] if len(q) >= len(p) else p[:-2]:
            batch *= size
    return (batch, m, n, k) if batch * m * n * k else None


def tile_of(symbol: str) -> tuple[int, int, int] | None:
    """Rows, columns and depth of a block's tile as the kernel's name gives them."""
    match = TILE.search(symbol)
    if match:
        return int(match.group(1)), int(match.group(2)), int(match.group(3))
    match = ANY_TILE.search(symbol)
    return (int(match.group(1)), int(match.group(2)), 64) if match else None


def padded_result(kernel: KernelInput, m: int, n: int, tile: tuple[int, int, int]) -> int:
    """Elements of the result with those beyond its edges: whole tiles, and whole clusters of them, which in xmma's lie along the side
    of more tiles."""
    rows, columns = tile[:2]
    group = CLUSTER.search(kernel.symbol)
    if group:
        along, across = (int(number) for number in group.groups())
        return up(m, columns * across) * up(n, rows * along)
    if HOPPERS_XMMA.search(kernel.symbol):
        high = blocks_along(kernel, 1)
        down, across = -(-m // rows), -(-n // columns)
        return (up(down, high) * across if down >= across else down * up(across, high)) * rows * columns
    return min(up(m, rows) * up(n, columns), up(m, columns) * up(n, rows))


def up(value: int, step: int) -> int:
    return -(-value // step) * step


def shared_per_tensor(symbol: str, tile: tuple[int, int, int] | None) -> float:
    """Hopper's matrix instruction (64 x n x 16) reads both factors from shared memory at 128 bytes a clock while it
    computes for n/2 clocks: (16 + n/4)/(n/2), 1.0 at n = 64 and 0.75 at 128."""
    if OLD_INSTRUCTIONS.search(symbol) or "f64f64" in symbol:
        return OLD_SHARED
    columns = instruction_columns(symbol, tile) if tile else DEFAULT_COLUMNS
    return (16 + columns / 4) / (columns / 2)


def instruction_columns(symbol: str, tile: tuple[int, int, int]) -> int:
    """n of the instructions that fill a tile, whose other side is cut into their 64 rows.

    xmma's names tell rows before columns. nvjet's rows are the first side where the last of its three letters is T, the second
    where it is N; ``coopB`` parts the columns between two groups of warps, ``coopA`` the rows. (The count of matrix instructions
    gives just these for all 150 launches of nvjet.)
    """
    letters = NVJET_LETTERS.search(symbol)
    if letters:
        columns = tile[1] if letters.group(1) == "T" else tile[0]
        columns //= 2 if "coopB" in symbol else 1
    else:
        columns = tile[1] if "xmma" in symbol else min(tile[:2])
    return max(8, min(columns, MOST_COLUMNS))


def by_tiles(
    result: Demand,
    symbol: str,
    tile: tuple[int, int, int],
    sides: tuple[int, int, int, int],
    itemsize: int,
    out_itemsize: int,
) -> None:
    """What passes the second-level cache of a product of ``sides`` (batch, rows, columns, depth): each factor once for every
    row or column of tiles of the other, or once for the blocks of a cluster that share it; results in pieces of a line, which
    cost the lines that they begin and end in whole.

    In nvjet's names the first side of the tile runs along the result's rows; ``coopB`` halves the
    longer side between two groups of warps.
    """
    batch, m, n, k = sides
    first, second = tile[:2]
    group = CLUSTER.search(symbol)
    by_first, by_second = (int(number) for number in group.groups()) if group else (1, 1)
    along, across = -(-n // first), -(-m // second)
    if HOPPERS_XMMA.search(symbol):
        along, across = -(-n // second), -(-m // first)
    elif not group:  # names of other libraries do not say which side is which
        turned = -(-n // second), -(-m // first)
        along, across = min((along, across), turned, key=lambda counts: counts[0] * counts[1])
    result.tiles_read = float(batch * k * itemsize * (m * -(-along // by_first) + n * -(-across // by_second)))
    if group:
        halves = 2 if "coopB" in symbol and first >= second else 1
        piece = min(n, first // halves) * out_itemsize
        begins = math.gcd(piece, n * out_itemsize, LINE)  # at multiples of this
        result.cache_write = (result.write or 0.0) * (piece + LINE - begins) / piece


def swept(kernel: KernelInput, work: Product, tile: tuple[int, int, int], cache_bytes: int) -> float:
    """Bytes from memory where blocks go along the longer side of the result first: its factor is read again for every tile of
    the shorter side (or for those of a cluster), as far as it does not stay in the half of the cache that keeps what is read."""
    sides = sorted((up(n, size) // size, float(n * work.k * work.itemsize)) for n, size in zip((work.m, work.n), tile))
    (tiles, _), (_, longer) = sides
    sweeps = min(MOST_SWEEPS, -(-tiles // (FOUR if programs(kernel) == FOURS else 1)))
    lost = 1 - cache_bytes * KEPT / (longer + work.write / sweeps)
    return work.read + (sweeps - 1) * longer * max(0.0, lost)


def turned(result: Demand, kernel: KernelInput, tile: tuple[int, int, int], across: tuple[bool, bool]) -> None:
    """Factors in tf32 that do not run along the depth, stored once more. Where neither does, both are read and stored, the rows go on
    in registers, and the warps that turn them issue more than the matrix units' do."""
    first, second = across
    result.shared_per_tensor += TURNED * (first / tile[1] + second / tile[0])
    if first and second:
        result.shared_per_tensor = REGISTERS_FED + 2 * TURNED * (1 / tile[1] + 1 / tile[0])
        steps = (result.tensor_flops or 0.0) / 2 / math.prod(tile)
        result.issued = (result.issued or 0.0) + steps * (
            warps(kernel) * aten.OTHER / 2 + TURNED_ISSUE * (tile[0] + tile[1]) * tile[2] / 32
        )


def sums_stored(symbol: str, write: float, itemsize: int) -> float:
    """Clocks (by four) in which sums pass through shared memory on their way out: written and read, in single precision by the
    xmma kernels at half the rate, since rows of four bytes meet in the same banks."""
    return 4 * (4 if "xmma" in symbol and itemsize == 4 else 2) * write / LINE


def is_simt(symbol: str, kind: str) -> bool:
    """Whether a float product runs without matrix units."""
    if rate_key(kind) not in ("fp32", "fp64"):
        return False
    lowered = symbol.lower()
    if rate_key(kind) == "fp64":  # since A100 the matrix units take doubles
        return not any(mark in lowered for mark in ("884", "f64f64", "tensorop_d", "nvjet", "d16816"))
    return not any(mark in lowered for mark in ("tf32", "nvjet", "1688", "884", "s16816", "tensorop"))


def demand(kernel: KernelInput, work: Product, cache_bytes: int | None = None) -> Demand:
    """``cache_bytes``: of the second-level cache."""
    symbol = kernel.symbol
    lowered = symbol.lower()
    result = Demand(read=work.read, write=work.write, flops=work.flops, flop_type=rate_key(work.type))
    if "splitkreduce" in lowered or "reducesplit" in lowered:
        return split_reduction(kernel, work)
    if "gemv" in lowered or "dot_kernel" in lowered:
        matrix_vector(result, kernel, work.flops, work.k)
        result.top = "loads and unpacking of half-precision weights" if work.itemsize < 4 else "loads"
        return result
    if is_simt(symbol, work.type):
        result.cache_read = work.read
        without_matrix_units(result, kernel, tile_of(symbol), work)
        return result
    if result.flop_type == "fp32":
        result.flop_type = "tf32"
    tile = tile_of(symbol)
    m, n, k = work.m, work.n, up(work.k, 16)
    padded = m * n
    if tile:
        depth = tile[2]
        padded = padded_result(kernel, m, n, tile)
        k = up(work.k, depth)
    result.tensor_flops = 2.0 * work.batch * padded * k * (4 if work.complex else 1)
    result.tensor_rate = OLD_RATE if OLD_INSTRUCTIONS.search(symbol) else 1.0
    if tile and result.tensor_rate < 1 and (work.itemsize < 8 or work.complex):
        blocks = work.batch * min(-(-m // tile[0]) * -(-n // tile[1]), -(-m // tile[1]) * -(-n // tile[0]))
        feed(result, kernel, tile, blocks, k // tile[2], work.itemsize)
        if SINGLE.search(symbol):
            one_by_one(result, kernel, tile, blocks, k // tile[2], work.itemsize)
    else:
        result.shared_per_tensor = shared_per_tensor(symbol, tile)
        if tile:
            by_tiles(result, symbol, tile, (work.batch, m, n, work.k), work.itemsize, work.out_itemsize)
        if tile and cache_bytes and SWEEPING.search(symbol) and work.batch == 1:
            result.fetched = swept(kernel, work, tile, cache_bytes)
        if "xmma" in lowered or "nvjet" in lowered:  # the sums pass through shared memory on their way out
            result.shared_clocks += sums_stored(symbol, work.write, work.out_itemsize)
        if tile and "xmma" in lowered and result.flop_type == "tf32":
            turned(result, kernel, tile, transposed_factors(symbol))
    if "splitk" in lowered and tile and kernel.grid:
        parts = max(1, round(programs(kernel) * tile[0] * tile[1] / max(1, work.batch * padded)))
        result.write = float(work.batch * work.m * work.n * 4 * parts)
    return result


def matrix_vector(result: Demand, kernel: KernelInput, flops: float, depth: int) -> None:
    """A matrix times a vector. Where few lanes of a warp share a row, number by number, a load looks up a line for each of the rows, and
    one of the vector."""
    result.issued = flops / 2 / 32 * pointwise.STRIDED
    lanes = max(1, kernel.block[0]) if kernel.block else 32
    if "gemvx" in kernel.symbol and lanes < 32:
        loads = programs(kernel) * warps(kernel) * -(-depth // lanes)
        result.shared_clocks = 4.0 * loads * (32 // lanes + 1)
        result.by_lines = True


def split_reduction(kernel: KernelInput, work: Product) -> Demand:
    """Adds the parts of a split product: at least two, in fp32."""
    return Demand(
        read=2.0 * work.batch * work.m * work.n * 4,
        write=work.write,
        flops=float(work.batch * work.m * work.n),
        flop_type="fp32",
        issued=programs(kernel) * warps(kernel) * aten.OTHER,
    )
