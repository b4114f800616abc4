"""Instructions of PyTorch's pointwise kernels (ATen/native/cuda/CUDALoops.cuh) by the way each walks its operands.

``vectorized_elementwise_kernel`` takes whole vectors of contiguous operands. ``unrolled_elementwise_kernel`` converts
types that it learns at run time. ``elementwise_kernel`` finds the place of every element by dividing its number by the
sizes of the dimensions, which is most of what it does.
"""

from __future__ import annotations

from itertools import zip_longest

from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor

VECTORIZED = 43.0
"""Instructions a thread (four to eight elements): read off Nsight Compute on an H200, as are the others here."""
MOST_ELEMENTS = 256
"""More than a thread of these kernels takes (CUDALoops.cuh: 4 to 16), with room for kernels that loop."""
CASTED = 52.0
"""An element of ``unrolled_elementwise_kernel``: a switch over the type at each load and store."""
STRIDED_OPERAND, STRIDED_DIMENSION = 12.2, 10.3
"""An element of ``elementwise_kernel``: its address, bounds check and access for each operand; a division by a
multiplication (wide product, shift, remainder) and a product for each operand, for each dimension."""


def issued(kernel: KernelInput, name: str, elements: float, threads: float, found: list[Tensor]) -> float | None:
    """Warp instructions but for the function itself; None for other kernels."""
    symbol = kernel.symbol.lower()
    if "vectorized_elementwise" in symbol:
        return threads / 32 * VECTORIZED
    if "unrolled_elementwise" in symbol:
        return elements / 32 * CASTED
    if "elementwise_kernel" not in symbol:
        return None
    whole = [t for t in found if t.shape]
    operands = len(whole) + (0 if name in ("copy", "_to_copy", "clone") and len(whole) > 1 else 1)
    each = STRIDED_OPERAND * max(2, operands) + STRIDED_DIMENSION * dimensions(whole)
    return elements / 32 * each


def dimensions(found: list[Tensor]) -> int:
    """Dimensions left when those are joined that lie one after another in every operand, as TensorIterator does. The
    result is taken to lie as the first operand does."""
    if not found:
        return 1
    rank = max(len(t.shape) for t in found)
    sizes = [max(column) for column in zip_longest(*(t.shape[::-1] for t in found), fillvalue=1)]
    steps = [_steps(t, rank) for t in found]
    order = sorted(range(rank), key=lambda i: (steps[0][i] == 0, steps[0][i], i))
    order = [i for i in order if sizes[i] > 1]
    left = 0
    for place, axis in enumerate(order):
        inner = order[place - 1] if place else None
        if inner is None or any(s[axis] != s[inner] * sizes[inner] for s in steps):
            left += 1
    return max(1, left)


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
