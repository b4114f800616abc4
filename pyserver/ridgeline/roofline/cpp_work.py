"""Floating-point work of a C++ kernel of Inductor, from its text: each operation times the trips of the loops around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 500_000
LOOP = re.compile(
    r"for\s*\(\s*(?:int64_t|long)\s+(\w+)\s*=\s*static_cast<int64_t>\((\d{1,18})LL?\)\s*;\s*\w+\s*<\s*static_cast<int64_t>\((\d{1,18})LL?\)"
)
ARITHMETIC = re.compile(r"=\s*(?:\w+\()?-?[\w.]+ ([-+*/]) -?[\w.]+\)?;")
FUNCTION = re.compile(
    r"(?:\.|std::)(erf|erfc|exp|exp_u20|expm1|tanh|log|log1p|log2|sin|cos|pow|rsqrt|sqrt|sigmoid|fmadd)\("
)
CHOICE = re.compile(r"\b(?:maximum|minimum|blendv|max_propagate_nan|min_propagate_nan|clamp_min|clamp_max)\b")
COST = {
    "/": 5.0, "erf": 40.0, "erfc": 40.0, "exp": 15.0, "exp_u20": 10.0, "expm1": 20.0, "tanh": 45.0, "log": 25.0, "log1p": 30.0, "log2": 25.0,
    "sin": 30.0, "cos": 30.0, "pow": 60.0, "rsqrt": 6.0, "sqrt": 5.0, "sigmoid": 20.0,
}  # fmt: skip
"""Vector instructions of an operation: those of Sleef's polynomials, divisions and roots by their throughput."""
FMA = 2.0
"""FLOPs that a vector unit could have done in the time of one instruction."""


@dataclass(slots=True, frozen=True)
class Work:
    flops: float
    """As a person counts: a function is one."""
    effort: float
    """FLOPs that fused multiply-adds would have done in the same time."""


@lru_cache(maxsize=1024)
def work(text: str) -> Work | None:
    """None where the text has no loop."""
    if len(text) > LONGEST or LOOP.search(text) is None:
        return None
    loops: list[tuple[int, int]] = []  # depth of the loop's body, elements
    depth = 0
    skipped: int | None = None
    flops = effort = 0.0
    for line in text.splitlines():
        loop = LOOP.search(line)
        if loop:
            count = 1 if loop[1].endswith("_inner") else max(1, int(loop[3]) - int(loop[2]))
            loops.append((depth + 1, count))
        elif "C10_UNLIKELY" in line and skipped is None:
            skipped = depth  # the tail repeats what the body before it does
        elif skipped is None and "static_cast<int64_t>" not in line:
            here = 1.0
            for _, count in loops:
                here *= count
            operations = ["/" if sign == "/" else "+" for sign in ARITHMETIC.findall(line)]
            operations += FUNCTION.findall(line) + ["choice"] * len(CHOICE.findall(line))
            flops += here * len([o for o in operations if o != "choice"])
            effort += here * FMA * sum(COST.get(o, 1.0) for o in operations)
        depth += line.count("{") - line.count("}")
        if "}" in line:
            loops = [(level, count) for level, count in loops if level <= depth]
            if skipped is not None and depth <= skipped:
                skipped = None
    return Work(flops, effort)
