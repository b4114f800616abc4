"""What integer arguments of a program's own Triton kernels held, so that a benchmark can make indices that stay in range.

Noted once for each set of arguments. On the CPU memory is copied without a call into torch; on a GPU one copy is queued
behind the program's own work, never while the profiler records or a graph is captured, and nothing waits for it: it counts
once a later launch finds it done. Floating-point arguments are not looked at.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SAMPLED = 1 << 16
"""Elements looked at in one argument; of more, evenly spaced ones."""
TOTAL = 1 << 23
"""Elements looked at in one process."""
LISTED, LISTED_TOTAL = 4_096, 100_000
"""Elements up to which an argument's values are kept themselves, and of all arguments together; else their range is."""

_C_TYPES = {
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
}  # fmt: skip


@dataclass(slots=True)
class _Copy:
    argument: dict[str, Any]
    """The row of the sidecar that gets ``content``."""
    numbers: Any
    """A sequence of integers, or a tensor in pinned memory that ``event`` completes."""
    whole: bool
    event: Any = None


class Values:
    """Copies on their way, and what is known of those that arrived."""

    def __init__(self) -> None:
        self._left = TOTAL
        self._listed = LISTED_TOTAL
        self._queued: list[_Copy] = []

    def note(self, argument: dict[str, Any], tensor: Any, recording: bool) -> bool:
        """Whether nothing more is to be done: False while a later launch should try again."""
        kind = _C_TYPES.get(argument["dtype"])
        count = _product(argument["size"])
        if kind is None or not count or min(count, SAMPLED) > self._left:
            return True
        if argument["device"] != "cpu" and (recording or _capturing()):
            return False
        try:
            if argument["device"] == "cpu":
                self._from_memory(argument, tensor, kind, count)
            else:
                self._from_device(argument, tensor, count)
        except (RuntimeError, TypeError, ValueError):
            pass  # No memory of its own (a tensor that only stands for one), or none left for a copy: it stays unknown.
        return True

    def _from_memory(self, argument: dict[str, Any], tensor: Any, kind: Any, count: int) -> None:
        size, stride, address = argument["size"], argument["stride"], tensor.data_ptr()
        extent = 1 + sum((n - 1) * s for n, s in zip(size, stride))
        if not address or (count > SAMPLED and extent != count):
            return
        memory = (kind * extent).from_address(address)
        if extent == count and _is_dense(size, stride):
            numbers: Sequence[int] = memory[:: -(-count // SAMPLED)]
        else:
            numbers = [memory[at] for at in _offsets(size, stride)]
        self._left -= len(numbers)
        self._settle(_Copy(argument, numbers, len(numbers) == count))

    def _from_device(self, argument: dict[str, Any], tensor: Any, count: int) -> None:
        torch = sys.modules["torch"]
        if not tensor.is_cuda or (count > SAMPLED and not tensor.is_contiguous()):
            return
        with torch.no_grad():
            taken = tensor.detach().reshape(-1)[:: -(-count // SAMPLED)]
            host = torch.empty(taken.shape, dtype=taken.dtype, pin_memory=True)
            host.copy_(taken, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self._left -= len(host)
        self._queued.append(_Copy(argument, host, len(host) == count, event))

    def arrived(self, recording: bool) -> bool:
        """Settle the copies that are done; whether none is on its way any more. For the threads that launch kernels: a
        question to the driver from elsewhere would end a capture."""
        if self._queued and not recording and not _capturing():
            there = [copy for copy in self._queued if copy.event.query()]
            self._queued = [copy for copy in self._queued if copy not in there]
            for copy in there:
                copy.numbers = copy.numbers.tolist()
                self._settle(copy)
        return not self._queued

    def _settle(self, copy: _Copy) -> None:
        numbers = copy.numbers
        content: dict[str, Any] = {
            "low": min(numbers),
            "high": max(numbers),
            "sorted": all(a <= b for a, b in itertools.pairwise(numbers)),
        }
        if copy.whole and len(numbers) <= min(LISTED, self._listed):
            self._listed -= len(numbers)
            content["values"] = list(numbers)
        copy.argument["content"] = content


def _capturing() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return bool(cuda is not None and cuda.is_available() and cuda.is_current_stream_capturing())


def _product(size: Sequence[int]) -> int:
    count = 1
    for n in size:
        count *= n
    return count


def _is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements in order lie side by side."""
    expected = 1
    for n, s in zip(reversed(size), reversed(stride)):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


def _offsets(size: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Where the elements lie, in order."""
    offsets = [0]
    for n, s in zip(size, stride):
        offsets = [at + i * s for at in offsets for i in range(n)]
    return offsets
