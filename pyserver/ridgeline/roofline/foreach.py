"""PyTorch's multi-tensor kernels (``_foreach_*``, fused optimizers): bytes from the lists that the functor reads and writes."""

from __future__ import annotations

import math
import re

from ridgeline.roofline.costs import COST
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import base_name, tensor_lists

CHUNK = 65536
"""Elements that one block of ``multi_tensor_apply`` takes (ATen/native/cuda/MultiTensorApply.cuh, kChunkSize)."""
FILL = 0.86
"""How full chunks are on average where the shapes were not recorded."""
FUNCTOR = re.compile(r"(\w*(?:Functor|Functor_\w+|Op))<\s*([\w:]+(?: \w+)?)[^,<>]*, *(\d{1,9}), *(\d{1,9}), *(\d{1,9})")
FUSED = re.compile(r"Fused(\w+?)MathFunctor<\s*([\w:]+(?: \w+)?)[^,<>]*, *(\d{1,9})")
COPY = re.compile(r"CopyFunctor<\s*([\w:]+(?: \w+)?)[^,<>]*, *([\w:]+(?: \w+)?)")
FIRST_TYPE = re.compile(r"Functor<\s*([\w:]+)")
ISSUE_A_LIST = 1.5
"""Instructions an element: as many for the loop and the arithmetic as for a list that is read or written, and as much again for its conversion from half precision."""
FUSED_ISSUE = 54.0
"""Of an optimizer's step: two correct divisions (13.6 each), a correct root (15), a dozen multiplications and sums."""
FUSED_LISTS = {"Adam": (4, 3), "Sgd": (3, 2), "Adagrad": (3, 2)}
"""Lists read and written, where the functor does not say how many it has: parameter, gradient and moments."""
FUSED_PARTS = {"adam": 1.0, "adagrad": 0.5, "sgd": 0.0}
"""Share of that arithmetic: Adagrad divides once, SGD not at all (ATen/native/cuda/fused_*_utils.cuh)."""


def is_foreach(kernel: KernelInput) -> bool:
    return "multi_tensor_apply" in kernel.symbol or base_name(kernel).startswith(("_foreach", "_fused_"))


def demand(kernel: KernelInput) -> Demand | None:
    """None for helpers of these ops that are not the multi-tensor kernel, or lists of scalars."""
    if "multi_tensor_apply" not in kernel.symbol or not kernel.grid:
        return None
    symbol, name = kernel.symbol, base_name(kernel)
    read_lists, written_lists, element = lists_of(symbol, name)
    blocks = math.prod(kernel.grid)
    room = float(blocks * CHUNK)
    known = tensor_lists(kernel)
    elements = room * FILL
    if known:
        elements = min(room, float(sum(math.prod(s) for s in known[0])))
    size = itemsize(element) or 4
    read, write = elements * size * read_lists, elements * size * written_lists
    copied = COPY.search(symbol)
    if copied:
        written_size, read_size = itemsize(copied.group(1)) or 4, itemsize(copied.group(2)) or 4
        read, write = elements * read_size, elements * written_size
    issue = ISSUE_A_LIST * (1 + read_lists + written_lists)
    if "sqrt" in symbol.lower() or "sqrt" in name or "addcdiv" in name or "_div" in name:
        issue += COST["sqrt_rn"]
    fused = FUSED.search(symbol)
    if fused or "Fused" in symbol:
        kind = fused.group(1).lower() if fused else ""
        issue += FUSED_ISSUE * next((n for mark, n in FUSED_PARTS.items() if mark in kind), 1.0)
    if size == 2:
        issue += ISSUE_A_LIST * (read_lists + written_lists)
    return Demand(
        read=read,
        write=write,
        flops=elements * (10 if "Fused" in symbol else 2),
        flop_type="fp32",
        issued=elements / 32 * issue,
        cold=False,
        guessed=not known,
        top="loads, conversions and arithmetic of the optimizer",
    )


def lists_of(symbol: str, name: str) -> tuple[int, int, str]:
    """Lists read, lists written, element type. The functor's template arguments are (type, depth, r_args_depth,
    res_arg_index); ``addcmul_(g, g)`` passes one list twice."""
    fused = FUSED.search(symbol)
    if fused:
        lists = next((v for k, v in FUSED_LISTS.items() if k.lower() in fused.group(1).lower()), (3, 2))
        depth = int(fused.group(3))
        return (
            depth or lists[0],
            depth - 1 if depth > 1 else lists[1],
            fused.group(2),
        )  # all but the gradient are written
    found = FUNCTOR.search(symbol)
    first = FIRST_TYPE.search(symbol)
    element = found.group(2) if found else first.group(1) if first else "float"
    if "Norm" in symbol:
        return 1, 0, element
    lists_passed = re.search(r"Metadata<(?:[\w:]+, )?(\d{1,9})>", symbol)
    read = int(found.group(4)) if found else int(lists_passed.group(1)) if lists_passed else 2
    if name == "_foreach_addcmul":
        read = min(read, 2)
    return read, 1, element
