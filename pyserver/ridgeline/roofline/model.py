"""Chooses the model for a kernel: by its source where there is one, by its op otherwise, by its symbol last."""

from __future__ import annotations

import re

from ridgeline.roofline import (
    aten,
    attention,
    channel_norm,
    conv,
    fft,
    foreach,
    gemm,
    rnn,
    sourceless,
    triton_model,
    user_kernels,
)
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec, KernelInput
from ridgeline.roofline.tensors import arguments_are_its_own
from ridgeline.roofline.triton_model import Analysis

SPARSE = re.compile(r"cusparse|csrmm|csrmv|spmm|spmv|sddmm", re.IGNORECASE)
"""Kernels whose work follows from the elements that are stored, of which the op's arguments do not tell the number."""


def demand_of(kernel: KernelInput, device: DeviceSpec) -> tuple[Demand | None, Analysis | None]:
    """What the launch asks of the device, and the walked source where it is a Triton kernel. (None, None) where
    neither source nor shapes say."""
    guess = user_kernels.inferred(kernel, device)
    if guess is not None:
        return guess
    analysis = triton_model.analyse(kernel)
    if analysis is not None and blind(kernel, analysis):
        return None, analysis
    if analysis is None and sourceless.is_generated(kernel):
        return (sourceless.demand(kernel) if arguments_are_its_own(kernel) or kernel.num_gb else None), None
    if analysis is not None:
        return triton_model.demand(kernel, analysis, device.sm_count, device.l2_bytes), analysis
    if "::" not in (kernel.op_name or ""):
        return None, None  # no op, or one whose arguments are not this kernel's: a graph that was replayed
    if SPARSE.search(kernel.symbol):
        return None, None  # recorded sizes are those of the dense matrix
    if foreach.is_foreach(kernel):
        return foreach.demand(kernel), None
    product = gemm.product(kernel)
    if product is not None:
        if is_helper(kernel.symbol):
            return aten.demand(kernel), None
        return gemm.demand(kernel, product, device.l2_bytes), None
    convolution = conv.convolution(kernel)
    if convolution is not None:
        return conv.demand(kernel, convolution, device.l2_bytes), None
    network = rnn.recurrent(kernel)
    if network is not None and not is_helper(kernel.symbol):
        return rnn.demand(kernel, network), None
    scores = attention.attention(kernel)
    if scores is not None:
        return attention.demand(kernel, scores), None
    return fft.demand(kernel) or channel_norm.demand(kernel, device.l2_bytes) or aten.demand(kernel), None


def blind(kernel: KernelInput, analysis: Analysis) -> bool:
    """Whether neither sizes nor block sizes of a user's kernel are known: what the walk counted would mean nothing."""
    source = analysis.source
    if kernel.launched is not None:
        return False
    return not source.by_inductor and not source.signature and not arguments_are_its_own(kernel)


def is_helper(symbol: str) -> bool:
    """Kernels under a product's op that do not multiply: copies, casts, fills."""
    return any(mark in symbol for mark in ("elementwise_kernel", "CatArray", "::reduce_kernel<"))
