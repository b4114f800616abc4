"""Reading a single-kernel file (the small module with one ``@triton.jit`` function that ``kernel_file`` names) as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Heuristic = Literal[
    "pointwise", "reduction", "persistent_reduction", "split_scan", "template", "foreach", "user_autotune", "unknown"
]

_DECORATOR = re.compile(r"^@(?:triton_heuristics\.)?(?P<name>\w+)\($")
_NAME = re.compile(r"['\"]kernel_name['\"]: ['\"](?P<name>\w+)['\"]")
_DEF = re.compile(r"^def (?P<name>\w+)\(")
_HEURISTICS: dict[str, Heuristic] = {
    "pointwise": "pointwise",
    "reduction": "reduction",
    "cooperative_reduction": "reduction",
    "persistent_reduction": "persistent_reduction",
    "split_scan": "split_scan",
    "template": "template",
    "foreach": "foreach",
    "combo_kernel": "foreach",
    "combo_grid": "foreach",
    "user_autotune": "user_autotune",
    "fixed_config": "user_autotune",
}


@dataclass(slots=True, frozen=True, kw_only=True)
class KernelFile:
    path: str
    symbol: str
    """The jitted function: the name of its device events."""
    line: int
    """Of its ``def``."""
    kernel_name: str
    """The name of its launching op (``inductor_meta``'s), which is the descriptive one."""
    heuristic: Heuristic


def parse_kernel_file(text: str, path: str) -> KernelFile | None:
    """The kernel of a single-kernel file; None where there is no jitted function."""
    heuristic: Heuristic = "unknown"
    kernel_name: str | None = None
    jit = False
    for number, row in enumerate(text.splitlines(), start=1):
        if (match := _DECORATOR.match(row)) is not None and match["name"] in _HEURISTICS:
            heuristic = _HEURISTICS[match["name"]]
        elif kernel_name is None and (match := _NAME.search(row)) is not None:
            kernel_name = match["name"]
        if row.startswith("@triton.jit"):
            jit = True
        elif jit and (match := _DEF.match(row)) is not None:
            return KernelFile(
                path=path,
                symbol=match["name"],
                line=number,
                kernel_name=kernel_name or match["name"],
                heuristic=heuristic,
            )
    return None
