"""Matrix products in the op table: which ops they are, their sizes, their work."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.findings.facts import Facts

REACHED = 0.6
"""Part of the peaks that a real layer reaches on tensor cores."""
GEMM_OPS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


class Shape(NamedTuple):
    batch: int
    m: int
    n: int
    k: int


def product_of(facts: Facts, row: int) -> int:
    """The op of the product that a row of work belongs to, -1 if none."""
    return next((r for r in facts.ancestors(int(facts.work.op[row])) if facts.op_name(r) in GEMM_OPS), -1)


def shape_of(facts: Facts, op: int) -> Shape | None:
    """Sizes from the recorded shapes; None if they were not recorded."""
    dims = [d for d in facts.dims_of(op) if d]
    if facts.op_name(op) in ("aten::addmm", "aten::baddbmm"):
        dims = facts.dims_of(op)[1:3]
    if len(dims) < 2 or len(dims[0]) not in (2, 3) or len(dims[0]) != len(dims[1]):
        return None
    a, b = dims[0], dims[1]
    return Shape(a[0] if len(a) == 3 else 1, a[-2], b[-1], a[-1])


def flops_of(facts: Facts, row: int) -> float | None:
    """2·B·M·N·K of the product that a row of work belongs to."""
    shape = shape_of(facts, product_of(facts, row))
    return None if shape is None else 2.0 * shape.batch * shape.m * shape.n * shape.k


def bytes_of(facts: Facts, row: int, itemsize: int) -> float | None:
    """Operands and result, each once."""
    shape = shape_of(facts, product_of(facts, row))
    if shape is None:
        return None
    return float(itemsize * shape.batch * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n))
