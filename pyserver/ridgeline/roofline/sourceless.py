"""A generated Triton kernel whose text is not at hand: bytes from the trace alone.

Inductor's own count (``kernel_num_gb``) where the trace has it. Otherwise every recorded buffer once, and one of them twice
where the kernel must update it in place: when it has no more buffers than its operations have operands.
"""

from __future__ import annotations

import re

from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, tensors

GENERATED = re.compile(r"^triton_(poi|red|per|tem|for|spl|mix|unk)_")
BINARY = re.compile(
    r"(?:^|_)(add|sub|mul|div|maximum|minimum|pow|eq|ne|lt|le|gt|ge|where|addcmul|lerp|copysign|fmod|remainder|bitwise_and|bitwise_or)(?=_|$)"
)
ISSUE = 20.0
"""Instructions for 32 elements of a generated kernel whose operations are not known: the median of the study's kernels."""
IN_PLACE = "the kernel's text is not at hand: one buffer is taken to be updated in place"
NOT_IN_PLACE = "the kernel's text is not at hand: every buffer is taken to be moved once, none updated in place"


def is_generated(kernel: KernelInput) -> bool:
    return bool(GENERATED.match(kernel.symbol) or GENERATED.match(kernel.name))


def demand(kernel: KernelInput) -> Demand | None:
    """None where neither shapes nor Inductor's count were recorded."""
    found = tensors(kernel)
    counted = kernel.num_gb * 1e9 if kernel.num_gb else None
    if not found and counted is None:
        return None
    largest = max((t.distinct_bytes for t in found), default=0)
    every = float(sum(t.distinct_bytes for t in found))
    again = counted is None and in_place(kernel, found)
    total = counted if counted is not None else every + (largest if again else 0)
    written = float(min(total / 2, largest)) if largest else total / 2
    elements = float(max((t.elements for t in found), default=0)) or total / 8
    result = Demand(read=total - written, write=written, flop_type="fp32", issued=elements / 32 * ISSUE, guessed=True)
    result.flops = float(kernel.kernel_flop) if kernel.kernel_flop else None
    if counted is None:
        result.notes.append(IN_PLACE if again else NOT_IN_PLACE)
    result.modelled = "_tem_" not in kernel.symbol
    return result


def in_place(kernel: KernelInput, found: list[Tensor]) -> bool:
    """Whether a pointwise kernel has an operand for each buffer, so that none is left for the result."""
    name = kernel.symbol if GENERATED.match(kernel.symbol) else kernel.name
    if not name.startswith("triton_poi_"):
        return False
    largest = max((t.elements for t in found), default=0)
    whole = [t for t in found if t.elements == largest]
    operands = 1 + len(BINARY.findall(name.removeprefix("triton_poi_fused")))
    return 1 < len(whole) <= operands
