"""A trace is what somebody's file says. What cannot be of a launch is unknown before any model sees it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ridgeline.roofline.inputs import KernelInput

MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_THREADS, MOST_REGISTERS, MOST_SHARED = 1024, 1024, 1 << 24
"""Of a block, a thread and a block: as much as any device takes, with room (CUDA C++ programming guide, "Compute capabilities")."""
MOST_WARPS = MOST_THREADS // 32
MOST_DIMENSIONS = 64
"""Of a tensor (ATen, ``dim_bitset_size``)."""
MOST_ELEMENTS = 2**48
"""What addresses reach."""
NO_NUMBER = re.compile(r"--|\d{19}")
"""In a recorded argument: digits that are no 64-bit number, signs that are none."""

NO_BLOCK = re.compile(r"BLOCK\w*\s*=\s*(?:-|0+(?!\d)|\d{10})")
"""In a configuration: blocks of nothing, or of more than a launch has."""


def sane(kernel: KernelInput) -> KernelInput:
    """The launch with None for what cannot be: grids of no blocks, sizes below nought, strides of other tensors, times that are no
    number. Lists keep their places."""
    dims = [shape(v) for v in kernel.input_dims] if isinstance(kernel.input_dims, list) else None
    strides = kernel.input_strides if isinstance(kernel.input_strides, list) else None
    if dims is not None and strides is not None:
        strides = [s if of_shape(s, d) else None for s, d in zip(strides, dims)]
    types = kernel.input_types if isinstance(kernel.input_types, list) else None
    arguments = kernel.concrete_inputs if isinstance(kernel.concrete_inputs, list) else None
    us = kernel.duration_us
    return replace(
        kernel,
        duration_us=us if math.isfinite(us) and us > 0 else 0.0,
        grid=kernel.grid if within(kernel.grid, MOST_BLOCKS) else None,
        block=kernel.block
        if within(kernel.block, (MOST_THREADS,) * 3) and math.prod(kernel.block or ()) <= MOST_THREADS
        else None,
        registers=known(kernel.registers, MOST_REGISTERS),
        shared_memory=known(kernel.shared_memory, MOST_SHARED),
        num_warps=known(kernel.num_warps, MOST_WARPS),
        kernel_kwargs=None if kernel.kernel_kwargs and NO_BLOCK.search(kernel.kernel_kwargs) else kernel.kernel_kwargs,
        input_dims=dims,
        input_strides=strides,
        input_types=[t if isinstance(t, str) else "" for t in types] if types is not None else None,
        concrete_inputs=[argument(v) for v in arguments] if arguments is not None else None,
        num_gb=finite(kernel.num_gb),
        kernel_flop=finite(kernel.kernel_flop),
        copy_bytes=finite(kernel.copy_bytes),
    )


def sizes(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) <= MOST_DIMENSIONS
        and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST_ELEMENTS for n in value)
        and math.prod(value) <= MOST_ELEMENTS
    )


def shape(value: Any) -> Any:
    """A tensor's sizes, or those of a list of tensors; None for anything else."""
    if sizes(value):
        return value
    return value if isinstance(value, (list, tuple)) and all(sizes(v) for v in value) else None


def of_shape(strides: Any, own: Any) -> bool:
    """Whether they are the strides of such a tensor, or of a list of them (which nobody reads)."""
    if not isinstance(strides, (list, tuple)) or own is None or len(strides) != len(own):
        return False
    if any(isinstance(n, (list, tuple)) for n in own):
        return True
    return all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST_ELEMENTS for n in strides)


def within(value: Sequence[Any] | None, most: Sequence[int]) -> bool:
    return bool(value) and all(isinstance(n, int) and 1 <= n <= limit for n, limit in zip(value or (), most))


def known(value: int | None, most: int) -> int | None:
    return value if value is not None and 0 < value <= most else None


def argument(value: Any) -> str:
    """As the profiler writes it: text of plain letters."""
    return value if isinstance(value, str) and value.isascii() and not NO_NUMBER.search(value) else ""


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None
