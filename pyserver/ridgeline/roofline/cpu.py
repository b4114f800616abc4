"""Kernels that run on the processor: Inductor's C++ kernels and PyTorch's own. The bound follows from the rates reached
against the measured bandwidth and vector rate at the thread count in use; no unit is named."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.roofline import attention, conv, cpp_source, cpp_work, gemm
from ridgeline.roofline.aten import moved
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput
from ridgeline.roofline.tensors import base_name, tensors

BOUND_PCT = 60.0
SMALL_US = 5.0
"""Under this the call itself, not its work, takes the time of a CPU kernel."""
FREE = {"view", "reshape", "transpose", "t", "permute", "expand", "unsqueeze", "squeeze", "as_strided", "detach", "slice", "select", "empty", "empty_strided", "empty_like", "alias", "narrow", "split", "chunk", "unbind"}  # fmt: skip


def work_of(kernel: KernelInput) -> tuple[float | None, float | None, str | None]:
    """(bytes, FLOPs, type) of the launch from its recorded tensors."""
    product = gemm.product(kernel)
    if product is not None:
        return product.read + product.write, product.flops, rate_key(product.type)
    convolution = conv.convolution(kernel)
    if convolution is not None:
        bytes_ = convolution.input.bytes + convolution.weight.bytes + convolution.output_bytes
        return float(bytes_), convolution.flops, rate_key(convolution.input.type)
    scores = attention.attention(kernel)
    if scores is not None:
        return scores.read + scores.write, scores.flops, rate_key(scores.type)
    counted = cpp_source.traffic(kernel.kernel_source) if kernel.category == "cpp" and kernel.kernel_source else None
    if counted is not None:
        done = cpp_work.work(kernel.kernel_source or "")
        return sum(counted), done.flops if done else None, "fp32"
    found = tensors(kernel)
    if not found or base_name(kernel) in FREE:
        return None, None, None
    if kernel.category == "cpp":  # arguments of a fused kernel: inputs and outputs, each moved once
        return float(sum(t.distinct_bytes for t in found)), None, "fp32"
    read, write, _ = moved(base_name(kernel), found, kernel)
    return read + write, None, "fp32"


def estimate(kernel: KernelInput, device: DeviceSpec) -> Estimate:
    """Memory or compute bound from 60 % of a measured peak, latency bound where the launch is tiny, else unknown."""
    moved_bytes, flops, kind = work_of(kernel)
    seconds = kernel.duration_us * 1e-6
    if seconds <= 0:
        return Estimate(bytes=moved_bytes, flops=flops, flop_type=kind)
    gb_s = moved_bytes / seconds / 1e9 if moved_bytes else None
    flop_s = flops / seconds if flops else None
    peak = device.flops.get(kind or "fp32")
    memory = 100 * gb_s / device.bandwidth_gb_s if gb_s and device.bandwidth_gb_s else None
    compute = 100 * flop_s / peak if flop_s and peak else None
    done = cpp_work.work(kernel.kernel_source) if kernel.category == "cpp" and kernel.kernel_source else None
    if done is not None and peak:  # exponentials and divisions keep the vector units busy for longer than one FLOP
        compute = 100 * done.effort / seconds / peak
    base = Estimate(
        bytes=moved_bytes,
        flops=flops,
        flop_type=kind,
        arithmetic_intensity=flops / moved_bytes if flops and moved_bytes else None,
        gb_per_s=gb_s,
        tflop_per_s=flop_s / 1e12 if flop_s else None,
        memory_pct=memory,
        compute_pct=compute,
    )
    threads = f" at {device.threads} threads" if device.threads else ""
    if done is not None and compute is not None:
        compute = min(compute, 100.0)
        base = replace(base, compute_pct=compute)
    if compute is not None and compute > 105:
        # an op whose children do its work keeps only its own time: no rate of it means anything
        none = replace(base, compute_pct=None, memory_pct=None, tflop_per_s=None, gb_per_s=None)
        return replace(none, reason="the rate exceeds the measured peak: bound not reported")
    if compute is not None and compute >= BOUND_PCT and compute > (memory or 0):
        return replace(
            base,
            bound="compute",
            confidence=0.7,
            reason=f"compute bound: {compute:.0f} % of the vector rate measured{threads}.",
        )
    if memory is not None and memory > 105:
        note = f"{memory:.0f} % of the memory's measured bandwidth: the data came from cache."
        return replace(base, memory_pct=None, reason=note)
    if memory is not None and memory >= BOUND_PCT:
        return replace(
            base,
            bound="memory",
            resource="dram",
            confidence=0.7,
            reason=f"memory bound: {gb_s:.0f} GB/s, {memory:.0f} % of the bandwidth measured{threads}.",
        )
    if kernel.duration_us < SMALL_US:
        return replace(
            base,
            bound="latency",
            cause="too_small",
            confidence=0.8,
            reason="latency bound: too little work for the cost of a call.",
        )
    if compute is None and memory is None:
        return base
    shown = " and ".join(
        f"{what} {pct:.0f} %" for what, pct in (("vector units", compute), ("memory", memory)) if pct is not None
    )
    reason = f"latency bound: {shown} of what was measured{threads}: threads wait, or other programs had the processor."
    return replace(base, bound="latency", cause="dependency", borderline=True, confidence=0.5, reason=reason)
