"""cuDNN's batch normalisation of images stored channel by channel: a block works off a channel of all images.

It goes over its channel twice, for the moments (or the sums of gradients) and for the result, and finds in the second-level cache
what of the first sweep has stayed there beside what is written.
"""

from __future__ import annotations

from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import tensors

FORWARD, BACKWARD = "cudnn::bn_fw_tr_", "cudnn::bn_bw_"
ONE_SWEEP = "singleread"
ISSUE = {FORWARD: 76.0, BACKWARD: 49.0}
"""Instructions for 32 elements in both sweeps: running moments and the result, or two sums and the gradient (three kernels each within 7 %: Nsight
Compute)."""


def demand(kernel: KernelInput, cache_bytes: int | None) -> Demand | None:
    """``cache_bytes``: of the second-level cache. None for other kernels."""
    kind = next((mark for mark in ISSUE if mark in kernel.symbol), None)
    found = [t for t in tensors(kernel) if len(t.shape) >= 3]
    if kind is None or not found:
        return None
    image = found[0]
    read = float(image.bytes * (2 if kind == BACKWARD else 1))
    result = Demand(read=read, write=float(image.bytes), flops=0.0, flop_type="fp32", guessed=True)
    if cache_bytes and ONE_SWEEP not in kernel.symbol:
        lost = (read + image.bytes) / cache_bytes - 1
        result.fetched = read * (1 + min(1.0, max(0.0, lost)))
    result.issued = image.elements / 32 * ISSUE[kind]
    result.top = "running moments" if kind == FORWARD else "sums of gradients"
    return result
