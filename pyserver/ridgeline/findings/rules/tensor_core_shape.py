"""``tensor-core-shape``: a dimension of a 16-bit product that is no multiple of 8 keeps tensor cores from their tiles."""

from __future__ import annotations

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import Shape, product_of, shape_of

MULTIPLE = 8
"""Elements of 16 bits in the 16 bytes that an aligned load takes (NVIDIA's guide on tensor-core shapes)."""
MIN_DIM = 64
"""Below this a product is too small for alignment to matter."""
HALF = ("c10::Half", "c10::BFloat16")
SPEEDUP = 1.5
"""Unverified until the padded product is timed: between 1.0 and 4 on an H200, depending on which dimension it is."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    rows: list[int] = []
    shapes: dict[int, Shape] = {}
    for row in facts.recorded_work:
        op = product_of(facts, row)
        if op < 0 or not any(t in HALF for t in facts.types_of(op)):
            continue
        shape = shape_of(facts, op)
        if shape is not None and min(shape[1:]) >= MIN_DIM and any(d % MULTIPLE for d in (shape.n, shape.k)):
            rows.append(row)
            shapes[row] = shape
    found = []
    for at, mine in facts.by_line(rows):
        claims, total = facts.claims_of(mine), facts.time_of(mine)
        shape = shapes[mine[0]]
        found.append(
            Candidate(
                code="tensor-core-shape",
                title="A dimension keeps tensor cores from their tiles",
                fact=f"Products of M={shape.m}, N={shape.n}, K={shape.k} take {words.time(facts.per_step(total))} {facts.per}; "
                f"N and K want multiples of {MULTIPLE}.",
                advice="Pad the layer (a vocabulary of 50257 becomes 50304) and time the padded product first: the gain is not certain.",
                at=at,
                cost_us=total,
                saving_us=spans.measure(claims) * (1.0 - 1.0 / SPEEDUP),
                claims=claims,
                evidence={
                    "m": shape.m,
                    "n": shape.n,
                    "k": shape.k,
                    "multiple": MULTIPLE,
                    "assumed_speedup": SPEEDUP,
                    "verified": False,
                },
            )
        )
    return found
