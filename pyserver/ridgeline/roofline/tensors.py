"""The tensors among an op's recorded arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.source import distinct_elements

BURST = 64
"""Bytes that memory delivers at least."""
SECTOR = 32
"""Bytes that the second-level cache keeps as one: where only some are written, the others are fetched."""


@dataclass(slots=True, frozen=True)
class Tensor:
    position: int
    """Among the op's arguments."""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    type: str
    itemsize: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def distinct_bytes(self) -> int:
        """Bytes at different addresses: expanded dimensions count once."""
        return distinct_elements(self.shape, self.strides) * self.itemsize

    @property
    def fetched_bytes(self) -> float:
        """Bytes that memory delivers for them, in bursts: more where even the closest elements lie apart."""
        steps = [s for s, n in zip(self.strides or (), self.shape) if n > 1 and s > 0]
        apart = min(steps, default=1)
        return self.distinct_bytes * min(max(1.0, BURST / self.itemsize), float(max(1, apart)))

    @property
    def sector_share(self) -> float:
        """Bytes of the sectors that hold its elements over its own: 1 where the closest lie next to each other."""
        steps = [s for s, n in zip(self.strides or (), self.shape) if n > 1 and s > 0]
        return min(max(1.0, SECTOR / self.itemsize), float(max(1, min(steps, default=1))))

    @property
    def bytes(self) -> int:
        return self.elements * self.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether its elements fill a stretch of memory in some order of its dimensions (expanded ones do not)."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return True
        expected = 1
        for stride, size in sorted((s, n) for s, n in zip(self.strides, self.shape) if n != 1):
            if stride != expected:
                return False
            expected *= size
        return True


def _ints(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, (list, tuple)) and all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        return tuple(value)
    return None


def arguments_are_its_own(kernel: KernelInput) -> bool:
    """Whether the recorded arguments are those of the Triton kernel itself: a kernel that a CUDA graph replays stands
    under the op that replayed the graph, with that op's arguments."""
    if kernel.kernel_kwargs is not None or kernel.num_warps is not None:  # recorded with the launching op alone
        return True
    op = kernel.op_name or ""
    return op in (kernel.name, kernel.symbol) or op.rstrip("0123456789") == f"{kernel.symbol}_"


def tensors(kernel: KernelInput) -> list[Tensor]:
    """Single tensors, in order of the arguments. Empty where shapes were not recorded."""
    strides = kernel.input_strides or []
    found = []
    for i, (shape, kind) in enumerate(zip(kernel.input_dims or [], kernel.input_types or [])):
        size, sizes = itemsize(kind), _ints(shape)
        if size is not None and sizes is not None:
            found.append(Tensor(i, sizes, _ints(strides[i]) if i < len(strides) else None, kind, size))
    return found


def tensor_lists(kernel: KernelInput) -> list[list[tuple[int, ...]]]:
    """Shapes of the tensors of each ``TensorList`` argument whose shapes were recorded (the profiler leaves long ones
    out)."""
    lists = []
    for shapes, kind in zip(kernel.input_dims or [], kernel.input_types or []):
        if kind == "TensorList" and isinstance(shapes, list) and shapes:
            known = [s for s in map(_ints, shapes) if s is not None]
            if len(known) == len(shapes):
                lists.append(known)
    return lists


def base_name(kernel: KernelInput) -> str:
    """The op's name without namespace, overload and the trailing underscore of in-place variants."""
    name = (kernel.op_name or "").split("::")[-1].split(".")[0]
    return name.rstrip("_") if not name.startswith("_") else "_" + name[1:].rstrip("_")
