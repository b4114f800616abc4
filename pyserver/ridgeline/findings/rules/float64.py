"""``float64``: tensors in double precision, which hardly any model means."""

from __future__ import annotations

import ast

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.places import related
from ridgeline.findings.whatif import gain
from ridgeline.mends import calls_in

SPEEDUP = 2.5
"""Half the bytes, and no conversions from float32 and back any more; on consumer cards products gain far more (64 times).
Measured on two CPU programs: 2.2 and 3."""
MIN_ELEMENTS = 64
"""Scalars and small tables of constants are double in Python and cost nothing."""


def rule(facts: Facts) -> list[Candidate]:
    rows = [r for r in facts.recorded_work if _is_double(facts, r)]
    if not rows:
        return []
    claims, saving = gain(facts, dict.fromkeys(rows, 1.0 / SPEEDUP))
    total = facts.time_of(rows)
    lines = facts.by_line(rows)  # one cause, usually: double precision spreads from where it entered
    asked = _asked_for(facts)
    here = next((at for at, _ in lines if at is not None), None)
    return [
        Candidate(
            code="float64",
            title="Arithmetic in double precision",
            fact=f"{words.count(len(rows) / facts.n)} operations {facts.per} on float64 tensors take "
            f"{words.time(facts.per_step(total))}, most of it here."
            + (" The program makes float64 its default type." if asked else ""),
            advice=""
            if asked
            else "Make the tensor float32 where it enters (NumPy arrays and Python lists of floats arrive as float64). This "
            "changes numerics.",
            at=here,
            cost_us=total,
            saving_us=None if asked else saving,
            claims=None if asked else claims,
            hint=asked,
            evidence={
                "asked_for": asked,
                "operations_per_step": len(rows) / facts.n,
                "assumed_speedup": SPEEDUP,
                "changes_numerics": True,
                "threshold_elements": MIN_ELEMENTS,
                "related": related(facts, lines, here),
            },
        )
    ]


def _asked_for(facts: Facts) -> bool:
    """Whether the program says that it means double precision: ``torch.set_default_dtype(torch.float64)``."""
    return any(
        ast.unparse(argument).endswith(("float64", "double"))
        for _, tree, _ in trees(facts)
        for call in calls_in(tree, "set_default_dtype")
        for argument in [*call.args, *(k.value for k in call.keywords)]
    )


def _is_double(facts: Facts, row: int) -> bool:
    op = int(facts.work.op[row])
    types = facts.types_of(op)
    if "double" not in types:
        return False
    dims = facts.dims_of(op)
    return any(kind == "double" and _elements(shape) >= MIN_ELEMENTS for kind, shape in zip(types, dims))


def _elements(shape: list[int]) -> int:
    count = 1 if shape else 0
    for size in shape:
        count *= size
    return count
