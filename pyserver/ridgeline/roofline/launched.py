"""Arguments of a program's own Triton kernel, as the agent saw them, in the form that the walk of its text needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.inputs import KernelInput, Launched
from ridgeline.roofline.source import KernelSource, distinct_elements, parse_kernel
from ridgeline.roofline.symbolic import ABSENT, Descriptor

DEFAULT_WARPS, DEFAULT_STAGES = 4, 3
"""Triton's for NVIDIA devices where a launch names none."""
TYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
}  # fmt: skip


def with_signature(source: KernelSource, launched: Launched) -> KernelSource:
    """The kernel with the types of its arguments, as Triton's own signature would have them."""
    constexprs = source.constexprs
    signature: dict[str, str] = {}
    for one in launched.arguments:
        if one.name in constexprs or (is_constant(one.value, one.type) and one.size is None):
            signature[one.name] = "constexpr"
        elif one.size is not None:
            signature[one.name] = "*" + TYPES.get(one.type or "", "fp32")
        elif isinstance(one.value, bool):
            signature[one.name] = "i1"
        elif isinstance(one.value, int):
            signature[one.name] = "i32" if -(1 << 31) <= one.value < 1 << 31 else "i64"
        elif isinstance(one.value, float):
            signature[one.name] = "fp32"
    return replace(source, signature=signature)


def is_constant(value: Any, kind: str | None) -> bool:
    """Whether Triton compiles a run-time value in: None, the number 1, what is no number."""
    return kind != "unknown" and (
        value is None or (value == 1 and not isinstance(value, (bool, float))) or isinstance(value, str)
    )


def constants(source: KernelSource, launched: Launched) -> dict[str, Any]:
    """Compile-time values by argument: numbers, texts, the names of types, ``ABSENT`` for None, and descriptors."""
    constexprs = source.constexprs
    found: dict[str, Any] = {}
    for one in launched.arguments:
        if one.size is None and one.type != "unknown" and (one.name in constexprs or is_constant(one.value, one.type)):
            found[one.name] = ABSENT if one.value is None else one.value
        elif one.block and one.size is not None and one.stride is not None:
            found[one.name] = Descriptor(one.block, one.size, one.stride)
    return found


def scalars(source: KernelSource, launched: Launched) -> dict[str, float | int]:
    """Run-time numbers by argument."""
    known = constants(source, launched)
    return {
        one.name: one.value
        for one in launched.arguments
        if one.size is None and one.name not in known and isinstance(one.value, (int, float))
    }


def buffer_bytes(launched: Launched) -> dict[str, int]:
    """Bytes at different addresses behind each tensor."""
    sizes: dict[str, int] = {}
    for one in launched.arguments:
        size = itemsize(one.type)
        if one.size is not None and size is not None:
            sizes[one.name] = distinct_elements(one.size, one.stride) * size
    return sizes


def configuration(kernel: KernelInput) -> str:
    """Compile-time numbers as a trace shows those of Inductor's kernels: ``BLOCK=1024,TERMS=4``."""
    text = kernel.launched.text if kernel.launched is not None else None
    source = parse_kernel(text or kernel.kernel_source or "", kernel.symbol)
    if source is None or kernel.launched is None:
        return ""
    constexprs = source.constexprs
    shown = [one for one in kernel.launched.arguments if one.name in constexprs and isinstance(one.value, (int, str))]
    return ",".join(f"{one.name}={one.value}" for one in shown)
