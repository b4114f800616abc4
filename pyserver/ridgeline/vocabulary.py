"""The words of the profile document: values that its fields may have. Standard library only."""

from __future__ import annotations

from typing import Literal, get_args

DeviceKind = Literal["cuda", "rocm", "xpu", "npu", "mtia", "cpu"]
Category = Literal[
    "pointwise",
    "reduction",
    "persistent_reduction",
    "template",
    "foreach",
    "user_triton",
    "cpp",
    "gemm",
    "convolution",
    "attention",
    "communication",
    "memcpy",
    "memset",
    "other",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
Bound = Literal["memory", "compute", "latency", "unknown"]
BoundResource = Literal["dram", "l2", "shared_memory", "issue", "special_function", "tensor", "fp64"]
BoundCause = Literal["too_small", "tail", "low_occupancy", "dependency"]
Severity = Literal["warning", "information", "hint"]
Granularity = Literal["statement", "function"]
