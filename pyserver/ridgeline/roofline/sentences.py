"""One sentence for a person: what binds, by how much, and what that makes worth doing."""

from __future__ import annotations

import math

from ridgeline.profile import BoundCause
from ridgeline.roofline.architecture import architecture, blocks_per_sm
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.gemm import SKINNY, Product
from ridgeline.roofline.inputs import DeviceSpec, KernelInput
from ridgeline.roofline.limits import Usage

BASIS = "Estimate of the kernel alone on a cold cache, as Nsight Compute measures it."
UNIT = {
    "dram": "DRAM",
    "l2": "the L2 cache",
    "shared_memory": "shared memory",
    "issue": "issue slots",
    "special_function": "the special-function units",
    "tensor": "tensor cores",
    "fp64": "the FP64 units",
}


def size(count: float) -> str:
    """Decimal: 16.8 MB, 1.07 GB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def memory(kernel: KernelInput, demand: Demand, usage: Usage, product: Product | None) -> str:
    unit = usage.memory_unit
    pct = usage.memory_pct
    if product is not None and min(product.m, product.n) <= SKINNY and unit == "dram":
        return decode(product, pct)
    moved = size(demand.bytes or 0.0)
    if unit == "dram":
        bound = "at most " if demand.upper_bound else ""
        return f"memory bound: {bound}{moved} at {pct:.0f} % of DRAM's rate; only moving less helps: fuse with a neighbour, or a narrower type."
    dram = usage.memory.get("dram", 0.0)
    if unit == "shared_memory" and demand.exchanged:
        return f"memory bound: the L1 cache's data path {pct:.0f} % (DRAM {dram:.0f} %): shuffles and exchanges between the threads that share a row; fewer warps, or more elements a thread along it, help, fusing does not."
    if unit == "shared_memory" and demand.scattered:
        return f"memory bound: the L1 cache {pct:.0f} % (DRAM {dram:.0f} %): neighbouring threads read addresses far apart; another layout or a tile through shared memory helps, fusing does not."
    if unit == "shared_memory":
        return f"memory bound: shared memory {pct:.0f} % (DRAM {dram:.0f} %), which feeds the arithmetic; another tile shape may help, fusing would not."
    return f"memory bound: the L2 cache {pct:.0f} %, DRAM {dram:.0f} %; writes or short rows bind, so layout helps, fusing does not."


def decode(product: Product, pct: float) -> str:
    """A product with a handful of rows: a decoding step."""
    weights = max(product.k * product.n, product.k * product.m) * product.batch * product.itemsize
    narrower = [("fp8 or int8", 1.0), ("int4", 0.5)] if product.itemsize >= 2 else [("int4", 0.5)]
    share = ", ".join(f"{name} would move {width / product.itemsize:.3g} of it" for name, width in narrower)
    rows = min(product.m, product.n)
    return (
        f"memory bound: {rows} row{'s' if rows > 1 else ''} against {size(weights)} of weights, which are what moves ({pct:.0f} % of DRAM's rate): {share}; "
        "a chip with twice the FLOPs would change nothing."
    )


def compute(kernel: KernelInput, demand: Demand, usage: Usage) -> str:
    unit = usage.compute_unit
    pct = usage.compute_pct
    if unit == "tensor":
        waste = ""
        if demand.flops and demand.tensor_flops and demand.tensor_flops > 1.15 * demand.flops:
            waste = f"; {100 - 100 * demand.flops / demand.tensor_flops:.0f} % of it is padding to whole tiles"
        return f"compute bound: tensor cores {pct:.0f} %{f' in {demand.flop_type}' if demand.flop_type else ''}{waste}; only fewer FLOPs or a narrower type helps."
    if unit == "fp64":
        return f"compute bound: the FP64 units {pct:.0f} %; double precision where single would do is what costs."
    text = f"compute bound: {UNIT[unit]} {pct:.0f} %"
    if demand.top:
        text += f", above all {demand.top}"
    if demand.top and demand.top.startswith("erf"):
        return f"{text}. A cheaper GELU changes numerics: measure."
    if demand.top and demand.top.startswith(("exp", "sigmoid", "tanh", "sin", "pow", "log")):
        return f"{text}. A cheaper approximation changes numerics: measure."
    return f"{text}; fewer instructions an element help, moving less does not."


def latency(
    kernel: KernelInput, device: DeviceSpec, usage: Usage | None, cause: BoundCause, waves: float | None
) -> str:
    blocks = math.prod(kernel.grid) if kernel.grid else None
    busy = f" (memory {usage.memory_pct:.0f} %, compute {usage.compute_pct:.0f} %)" if usage else ""
    if cause == "too_small":
        if waves is not None and blocks is not None and waves < 1:
            plural = "" if blocks == 1 else "s"
            return f"latency bound: {waves:.2g} wave ({blocks} block{plural} on {device.sm_count} SMs){busy}; too small to fill the device: fuse or batch."
        return f"latency bound: {kernel.duration_us:.1f} us is mostly start and end{busy}; fuse or batch."
    if cause == "tail":
        return f"latency bound: {waves:.2g} waves of blocks, the last one mostly empty{busy}; another block size may fill it."
    if cause == "low_occupancy":
        per_sm = blocks_per_sm(kernel, architecture(device)) or 0
        warps = per_sm * -(-math.prod(kernel.block or (0,)) // 32)
        limit = f", {kernel.registers} registers a thread" if kernel.registers else ""
        return f"latency bound: {warps} of {architecture(device).warps} warps fit on an SM{limit}{busy}; too few to hide latency."
    return (
        f"latency bound: warps wait on their own results or on memory{busy}; a wider search of configurations may help."
    )


def padding(useful_pct: float | None, product: Product | None) -> str | None:
    """For a product whose rows are mostly padding, where lengths were recorded."""
    if useful_pct is None or product is None or useful_pct >= 80:
        return None
    return (
        f"{100 - useful_pct:.0f} % of its rows are padding: without them it would do {useful_pct:.0f} % of the FLOPs."
    )
