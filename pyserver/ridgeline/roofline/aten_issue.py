"""Instructions of PyTorch's own kernels, from what the table of their code says (``aten_code.py``) and what was recorded of a launch."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from ridgeline.roofline import aten_code, pointwise
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, base_name, tensors

REDUCE = re.compile(r"reduce_kernel<\d+, (\d+)")
MASKED = 20.0
"""Instructions of the way that a correct division takes for a numerator of nought: scores that a mask took out have it (the
subroutine for rare operands in the code of ``softmax_warp_forward``)."""
DEEPEST = 3
"""Loops within loops up to which the trips of each are taken to be known."""
VT, LANE = 4, 5
"""Sums that a thread of a reduction keeps apart (``vt0``); instructions of an exchange with another lane but for the function."""
WIDER = 0.4
"""More of ``OTHER`` for each further output of a thread of a reduction."""
SCAN_START, SCAN_ROUND, SCAN_STEP, SCAN_SHARED = 61.0, 66.0, 22.0, 5.0
"""Instructions of a warp before a scan (as in its code, ``aten_sass.py``), in a round of it and in each of its steps, and clocks of shared
memory for 32 elements in a step (Nsight Compute, two launches)."""
ONE_DIMENSION = {"max", "min", "argmax", "argmin", "prod", "any", "all", "median", "mode"}
NOT_BY_CODE = (
    "tensor_kernel_scan_innermost_dim",
    "reduce_kernel",
    "multi_tensor_apply",
    "mbtopk",
    "bitonicSort",
    "radixSort",
    "EmbeddingBag",
    "ctc_loss",
)
"""Kernels whose ways and loops depend on the launch in ways that the table does not tell."""


def machine_code(result: Demand, kernel: KernelInput) -> None:
    """Puts the instructions that the kernel's code has in the place of those that its kind was taken to have."""
    code = aten_code.code_of(kernel.symbol)
    if code is None or not kernel.grid or not kernel.block:
        return
    if any(mark in kernel.symbol for mark in NOT_BY_CODE) or any(loop.depth > DEEPEST for loop in code.loops):
        return
    blocks, threads = math.prod(kernel.grid), math.prod(kernel.block)
    found = tensors(kernel)
    each = blocks * threads
    moved_by_thread = (result.read or 0.0) / each, (result.write or 0.0) / each
    if "_scatter_gather" in kernel.symbol and (code.loops or len(found) < 2):  # tries until nobody was faster
        return
    operands = restrided(kernel, found) if "_scatter_gather" in kernel.symbol else found
    left = pointwise.dimensions([t for t in operands if t.shape]) if code.dimension else 1
    if base_name(kernel) in ("cat", "stack"):
        left = 2  # what lies within a part, and the parts of the result
    if base_name(kernel) == "flip" and found:
        left = max(left, len(found[0].shape) - len(reduced_dimensions(kernel, len(found[0].shape))) and 2)
    if "indexFunc" in kernel.symbol and len(found) > 1:  # a trip is an element, added by one instruction or exchanged
        moved_by_thread = (max(t.elements for t in found[1:]) / each * sum(x.read for x in code.loops[:1]), 0.0)
    if "cub::" in kernel.symbol:
        moved_by_thread = (0.0, 0.0)
    warp = aten_code.of_warp(code, left, *moved_by_thread, taps_of(kernel, found))
    if base_name(kernel) == "_softmax" and found and len(found[0].shape) == 4 and "softmax_warp" in kernel.symbol:
        warp += MASKED * found[0].elements / each
    result.issued = issued = warp * blocks * -(-threads // 32)
    result.alu, result.heavy, result.special, result.double = (
        issued * share for share in (code.alu, code.heavy, code.special, code.double)
    )
    result.doubtful = result.doubtful and "cub::" in kernel.symbol


def restrided(kernel: KernelInput, found: list[Tensor]) -> list[Tensor]:
    """Operands of a gather or scatter as its iterator has them: all of the index's size, the tensor that is looked up with no stride
    along the dimension that the index tells (ATen/native/cuda/ScatterGatherKernel.cu, ``restride_dim``)."""
    index = next((t for t in found[1:] if t.itemsize == 8), found[1])
    own = found[0]
    given = next((int(v) for v in (kernel.concrete_inputs or [])[1:2] if str(v).lstrip("-").isdigit()), None)
    if own.strides is None or given is None or len(own.strides) != len(index.shape):
        return [index]
    axis = given % max(1, len(own.strides))
    steps = tuple(0 if i == axis else s for i, s in enumerate(own.strides))
    rest = [replace(t, shape=index.shape) for t in found[1:] if t.strides and len(t.strides) == len(index.shape)]
    return [replace(own, shape=index.shape, strides=steps), *rest]


def taps_of(kernel: KernelInput, found: list[Tensor]) -> tuple[int, int]:
    """Rows and elements of the window that a kernel goes over; of gradients, the windows that an element lies in."""
    name = base_name(kernel)
    lists = [v for v in map(sizes_of, kernel.concrete_inputs or []) if v]
    step = [1]
    if "pool" in name and "adaptive" not in name and lists:
        size, step = lists[0], lists[1] if len(lists) > 1 else lists[0]
    elif name == "im2col" and lists:
        size = lists[0]
    elif name == "col2im" and len(lists) > 2:
        size, step = lists[1], lists[-1]
    elif "depthwise" in kernel.symbol and len(found) > 1:
        size = list(found[1].shape[2:])
    else:
        return 1, 1
    if not size or not step:
        return 1, 1
    size, step = ((v * 2)[: max(2, len(v))] for v in (size, step))
    if "backward" in name or name == "col2im":
        size = [-(-k // max(1, s)) for k, s in zip(size, step)]
    return max(1, size[0]), max(1, math.prod(size))


def reduced(kernel: KernelInput, elements: float, threads: float, source: Tensor, other: float) -> tuple[float, float]:
    """Warp instructions of ``reduce_kernel``, and those of the integer and comparison unit: a thread adds up its own elements in four sums, which it joins, then with those of
    other lanes and warps (Reduce.cuh); as it is compiled ahead or, named ``reduction_…``, while the program runs."""
    match = REDUCE.search(kernel.symbol)
    outputs = int(match.group(1)) if match else 1
    cost = aten_code.reduction_of(kernel.symbol, source.itemsize)
    dims = reduced_dimensions(kernel, len(source.shape))
    order = sorted((s, i) for i, s in enumerate(source.strides or ()) if source.shape[i] > 1)
    fastest = order[0][1] if order else len(source.shape) - 1
    along = fastest in dims
    total = elements / threads * outputs if threads else 0.0
    width = (kernel.block or (1,))[0]
    each = cost.strided
    if along:
        each = cost.vector if outputs == 1 and source.shape and source.shape[fastest] >= VT else cost.strided
    own = elements / max(1.0, threads) * each
    rest = other * (2 + WIDER * (outputs - 1)) + (VT - 1) * (cost.lane - LANE) * outputs
    if along:
        rest += math.log2(max(1, min(32, width))) * cost.lane + math.log2(max(1.0, width / 32)) * cost.warp
    elif total >= 16 * math.prod((kernel.block or (1, 1))[1:]):
        rest += math.log2(max(1, math.prod((kernel.block or (1, 1))[1:]))) * cost.warp
    return threads / 32 * (own + rest), threads / 32 * (own * cost.alu + rest * aten_code.SUM.alu)


def scanned(kernel: KernelInput, source: Tensor) -> tuple[float, float]:
    """Warp instructions and clocks of shared memory of ``tensor_kernel_scan_innermost_dim`` (ScanUtils.cuh): a block's threads
    along x take a row, two elements each at a time, in a step for every power of two; those beyond the row go along."""
    block, row = kernel.block or (32, 16), max(1, source.shape[-1] if source.shape else 1)
    rows = source.elements / row
    rounds = rows * -(-row // (2 * block[0]))
    steps = math.log2(max(1, block[0])) + 1
    warps = rounds * block[0] / 32
    start = rows * block[0] / 32 * SCAN_START
    return start + warps * (SCAN_ROUND + SCAN_STEP * steps), warps * 2 * SCAN_SHARED * steps


def reduced_dimensions(kernel: KernelInput, rank: int) -> set[int]:
    """Dimensions that a reduction removes: all where its arguments name none."""
    given = list((kernel.concrete_inputs or [])[1:])
    lists = next((v for v in map(literal_list, given) if v), None)
    if lists is None and base_name(kernel) in ONE_DIMENSION and given and str(given[0]).lstrip("-").isdigit():
        lists = [int(given[0])]
    return {d % rank for d in lists} if lists and rank else set(range(rank))


def sizes_of(value: Any) -> list[int]:
    """The numbers of a list as the profiler writes it; empty for anything else."""
    text = value.strip("[] ") if isinstance(value, str) and value.startswith("[") else ""
    parts = [p.strip() for p in text.split(",")] if text else []
    return [int(p) for p in parts] if all(p.isdigit() for p in parts) else []


def literal_list(value: object) -> list[int] | None:
    """``[3, 3]`` or ``[]`` as the trace writes it; None for anything else."""
    if not isinstance(value, str) or value[:1] not in ("[", "("):
        return None
    parts = [p.strip() for p in value.strip("[]() ").split(",") if p.strip()]
    return [int(p) for p in parts] if all(p.lstrip("-").isdigit() for p in parts) else None
