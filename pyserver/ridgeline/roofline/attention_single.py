"""Attention in single precision by PyTorch's memory-efficient kernels (``fmha_cutlassF_f32``, ``fmha_cutlassB_f32``), by their machine code.

Each product of single precision is three of tf32. A warp multiplies 32 rows by 32 columns over a depth of 32 at a time: 96 matrix
instructions of 470 to 590, for it takes every factor apart into two parts, element by element. What the loops of PyTorch 2.11's
kernels for Hopper hold was counted in the library (``nvdisasm``), what is left of a tile in two launches.
"""

from __future__ import annotations

import re

from ridgeline.roofline.aten import OTHER
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.gemm import up
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.warp_fed import PROLOGUE, programs, warps

KERNEL = re.compile(r"fmha_cutlass([FB])_f32_(?:not)?aligned_(\d+)x(\d+)_(\w+?)_sm\d+")
SIDE = 32
"""Rows, columns and depth that a warp multiplies at a time."""
PARTS = 3
UNIT_ISSUE = 544
"""Instructions for them: loads, parts, matrix instructions (470 to 590 in six loops)."""
UNIT_SHARED = 64
"""Clocks of shared memory in which both factors get into registers: 16 loads of matrices, or 64 of single words."""
NARROWEST = 64
"""Columns of a result that the warps of a block share out, however narrow a head is."""
SCORE_ISSUE = {"F": 50.0, "B": 80.0}
"""Instructions for 32 scores beside the products: two launches each, within 3 %."""
SCORE_SHARED = {"F": 147 / 32, "B": 663 / 32}
"""Accesses of shared memory for 32 scores there."""
SPILLED = {"64x64_rf": (23, 32, 93)}
"""Registers that a warp stores in its own memory, which the second-level cache takes: for a unit of scores, for a unit of results, and for 1,024
scores beside."""
LINE = 128


def demand(kernel: KernelInput, result: Demand, sides: tuple[int, int, int, int, int], share: float = 1.0) -> bool:
    """Adds what such a kernel does with ``sides`` (heads of all images, queries, keys, width, width of values) to its bytes, in the
    ``share`` of blocks that a mask leaves. False for other kernels."""
    found = KERNEL.search(kernel.symbol)
    if found is None:
        return False
    kind, rows, columns, place = found.group(1), int(found.group(2)), int(found.group(3)), found.group(4)
    heads, queries, keys, width, value_width = sides
    tiles = share * float(heads * -(-queries // rows) * -(-keys // columns))
    scores = tiles * rows * columns / SIDE
    depths = -(-width // SIDE), -(-value_width // SIDE)
    wide = up(width, NARROWEST) / SIDE, up(value_width, NARROWEST) / SIDE
    made = scores / SIDE * (depths[0] if kind == "F" else sum(depths))
    used = scores / SIDE * (wide[1] if kind == "F" else 2 * wide[0] + wide[1])
    units = made + used
    result.tensor_flops = 2.0 * PARTS * units * SIDE**3
    result.issued = (
        units * UNIT_ISSUE + scores * SCORE_ISSUE[kind] + programs(kernel) * warps(kernel) * PROLOGUE * OTHER
    )
    result.shared_clocks = 4 * (units * UNIT_SHARED + scores * SCORE_SHARED[kind])
    spilled = SPILLED.get(f"{rows}x{columns}_{place}") if kind == "F" else None
    if spilled:
        stores = made * spilled[0] + used * spilled[1] + scores / SIDE * spilled[2]
        result.cache_write = (result.write or 0.0) + stores * LINE
        result.shared_clocks += 4 * 2 * stores
        result.top = "parts of products in single precision; registers that do not suffice"
    return True
