"""Instructions of PyTorch's pointwise kernels (ATen/native/cuda/CUDALoops.cuh) by the way each walks its operands.

``vectorized_elementwise_kernel`` takes whole vectors of contiguous operands. ``unrolled_elementwise_kernel`` converts
types that it learns at run time. ``elementwise_kernel`` finds the place of every element by dividing its number by the
sizes of the dimensions, which is most of what it does.
"""

from __future__ import annotations

import math
import re
from itertools import zip_longest

from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor

FILLS = {
    "fill",
    "zero",
    "normal",
    "uniform",
    "random",
    "bernoulli",
    "exponential",
    "arange",
    "ones",
    "zeros",
    "full",
    "eye",
    "linspace",
}
COMPARISONS = {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "isnan",
    "isinf",
    "isfinite",
    "logical_and",
    "logical_or",
    "logical_not",
    "isin",
}
UNARY = {"exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "reciprocal", "log1p", "neg", "abs", "relu", "floor", "round"}  # fmt: skip
VECTOR_ELEMENTS, VECTOR_BYTES = 8, 16
"""Elements of a thread, and bytes of an access (CUDALoops.cuh; thread_constants.h)."""
ADDRESS = 2.0
CONVERTED = {2: (1.0, 0.5), 1: (2.0, 2.0)}
"""Item size -> instructions to unpack and to pack an element: half precision as the compiler does it for Triton, bytes out of
and into words."""
MOST_ELEMENTS = 256
"""More than a thread of these kernels takes (CUDALoops.cuh: 4 to 16), with room for kernels that loop."""
LOOP = re.compile(r"(?<![a-z_])elementwise_kernel<\d+, (\d+)")
VECTORS, UNROLLED = re.compile(r"vectorized_elementwise_kernel<(\d+)"), re.compile(r", (\d+), TrivialOffsetCalculator")
STRIDED = 12.0
"""An element of ``elementwise_kernel``: for each operand an address, a bounds check and an access; for each dimension a division
by a multiplication (wide product, shift, remainder) and a product for each operand. ``unrolled_elementwise_kernel`` takes two an
operand: it switches over the type at each load and store. Other kernels that access elements one by one take the same."""


def issued(kernel: KernelInput, name: str, elements: float, threads: float, found: list[Tensor]) -> float | None:
    """Warp instructions but for the function itself; None for other kernels."""
    symbol = kernel.symbol.lower()
    if "vectorized_elementwise" in symbol:
        return threads / 32 * vectorized(name, found)
    if "unrolled_elementwise" in symbol:
        return elements / 32 * 2 * STRIDED * max(2, operands_of(name, found))
    if "elementwise_kernel" not in symbol:
        return None
    whole = [t for t in found if t.shape]
    each = STRIDED * (max(2, operands_of(name, found)) + dimensions(whole))
    return elements / 32 * each


def elements_of_thread(symbol: str) -> int | None:
    """Of ``elementwise_kernel``, whose second template argument it is; None for other kernels."""
    match = LOOP.search(symbol)
    return int(match.group(1)) if match else None


def most_of_thread(symbol: str) -> int | None:
    """The same of all three pointwise kernels: where vectors are of sixteen elements, a thread takes one, else eight elements."""
    if match := VECTORS.search(symbol):
        return max(VECTOR_ELEMENTS, int(match.group(1)))
    if match := UNROLLED.search(symbol):
        return int(match.group(1))
    return elements_of_thread(symbol)


def room(kernel: KernelInput) -> int | None:
    """Elements that a launch of ``elementwise_kernel`` has places for; None for other kernels."""
    each = elements_of_thread(kernel.symbol)
    return math.prod((*kernel.grid, *kernel.block)) * each if each and kernel.grid and kernel.block else None


def operands_of(name: str, found: list[Tensor]) -> int:
    """Tensors that are read and written; the result of a copy is among its arguments."""
    whole = sum(1 for t in found if t.shape)
    return whole + (0 if (name in ("copy", "_to_copy", "clone") or name in UNARY) and whole > 1 else 1)


def vectorized(name: str, found: list[Tensor]) -> float:
    """Instructions of a thread: each operand's address and vectors, conversions, one operation an element."""
    whole = [t for t in found if t.shape]
    copies = name in ("copy", "_to_copy", "clone") and len(whole) > 1
    if name in UNARY:
        whole = whole[:1]
    read = [] if name in FILLS else whole[1:2] if copies else whole
    written = 1 if name in COMPARISONS else whole[0].itemsize if whole else 4
    total = STRIDED  # its place, bounds, pointers
    for size, stored in [*((t.itemsize, False) for t in read), (written, True)]:
        total += ADDRESS + max(1.0, VECTOR_ELEMENTS * size / VECTOR_BYTES)
        if not (copies and size != written and not stored):  # a copy converts once
            total += VECTOR_ELEMENTS * CONVERTED.get(size, (0.0, 0.0))[stored]
    return total + (0.0 if copies or not read else VECTOR_ELEMENTS)


def dimensions(found: list[Tensor]) -> int:
    """Dimensions left when those are joined that lie one after another in every operand, as TensorIterator does."""
    if not found:
        return 1
    rank = max(len(t.shape) for t in found)
    sizes = [max(column) for column in zip_longest(*(t.shape[::-1] for t in found), fillvalue=1)]
    steps = [_steps(t, rank) for t in found]
    order = [i for i in reordered(sizes, steps) if sizes[i] > 1]
    steps.append([0] * rank)  # the result, which is laid out in that order
    step = 1
    for axis in order:
        steps[-1][axis] = step
        step *= sizes[axis]
    left = 0
    for place, axis in enumerate(order):
        inner = order[place - 1] if place else None
        if inner is None or any(s[axis] != s[inner] * sizes[inner] for s in steps):
            left += 1
    return max(1, left)


def reordered(sizes: list[int], steps: list[list[int]]) -> list[int]:
    """Dimensions by growing strides, counted from the last, as ``TensorIteratorBase::reorder_dimensions`` sorts them: by insertion, by
    the first operand that has a stride along both."""
    order = list(range(len(sizes)))
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            swap = _swapped(order[before], order[at], sizes, steps)
            if swap < 0:
                break
            if swap > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return order


def _swapped(one: int, other: int, sizes: list[int], steps: list[list[int]]) -> int:
    for step in steps:
        if step[one] and step[other] and step[one] != step[other]:
            return 1 if step[one] > step[other] else -1
        if step[one] and step[other] and sizes[one] > sizes[other]:
            return 1
    return 0


def _steps(tensor: Tensor, rank: int) -> list[int]:
    """Strides from the last dimension on, 0 where an operand is broadcast."""
    sizes = tensor.shape[::-1]
    if tensor.strides is not None and len(tensor.strides) == len(sizes):
        steps = [s if n > 1 else 0 for s, n in zip(tensor.strides[::-1], sizes)]
    else:
        steps, step = [], 1
        for n in sizes:
            steps.append(step if n > 1 else 0)
            step *= n
    return steps + [0] * (rank - len(steps))
