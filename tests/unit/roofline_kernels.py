"""Kernels in Inductor's style, and launches of them, for the tests of the roofline."""

from __future__ import annotations

from typing import Any

from ridgeline.roofline import DeviceSpec, KernelInput
from ridgeline.roofline.peaks import device_spec

H200 = device_spec("NVIDIA H200", "cuda", {"numSms": 132, "computeMajor": 9, "computeMinor": 0})
H100 = device_spec("NVIDIA H100 80GB HBM3", "cuda", {"numSms": 132, "computeMajor": 9, "computeMinor": 0})


def inductor_file(name: str, arguments: dict[str, str], body: str, heuristic: str = "pointwise", **meta: Any) -> str:
    """The text of a single-kernel file: decorator with signature, the function, nothing else."""
    names = ", ".join(a + (": tl.constexpr" if t == "constexpr" else "") for a, t in arguments.items())
    hints = meta.pop("size_hints", {})
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return f"""import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton_heuristics.{heuristic}(
    size_hints={hints!r},
    filename=__file__,
    triton_meta={{'signature': {arguments!r}, 'device': DeviceProperties(type='cuda'), 'constants': {{}}}},
    inductor_meta={{'kernel_name': {name!r}, **{meta!r}}},
)
@triton.jit
def {name}({names}):
{lines}
"""


def pointwise(name: str, pointers: dict[str, str], elements: int, body: str) -> str:
    """A one-dimensional pointwise kernel over ``elements``."""
    head = f"""xnumel = {elements}
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:]
xmask = xindex < xnumel
"""
    return inductor_file(name, {**pointers, "xnumel": "i32", "XBLOCK": "constexpr"}, head + body)


def launch(
    text: str, name: str, blocks: int, config: str = "XBLOCK=1024", warps: int = 4, us: float = 100.0, **more: Any
) -> KernelInput:
    return KernelInput(
        name=name,
        symbol=name,
        category="pointwise",
        duration_us=us,
        count=1,
        grid=(blocks, 1, 1),
        block=(32 * warps, 1, 1),
        num_warps=warps,
        kernel_kwargs=config,
        kernel_source=text,
        **more,
    )


def op(name: str, dims: list[Any], types: list[str], us: float, symbol: str = "kernel", **more: Any) -> KernelInput:
    """A launch of a library kernel under an ATen op."""
    return KernelInput(
        name=symbol,
        symbol=symbol,
        category=more.pop("category", "other"),
        duration_us=us,
        count=1,
        op_name=name,
        input_dims=dims,
        input_types=types,
        **more,
    )


def with_peaks(gb_s: float, **tflops: float) -> DeviceSpec:
    """A device of which only the roofs are known."""
    return DeviceSpec(
        name="roofs",
        kind="rocm",
        bandwidth_gb_s=gb_s,
        flops={t: v * 1e12 for t, v in tflops.items()},
        peaks_source="measured",
    )
