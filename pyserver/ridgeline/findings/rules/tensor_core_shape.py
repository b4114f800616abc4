"""``tensor-core-shape``: a dimension of a 16-bit product that is no multiple of 8 keeps tensor cores from their tiles."""

from __future__ import annotations

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import REACHED, Shape, flops_of, product_of, shape_of
from ridgeline.findings.whatif import gain
from ridgeline.profile import SourceRef

MULTIPLE = 8
"""Elements of 16 bits in the 16 bytes that an aligned load takes (NVIDIA's guide on tensor-core shapes)."""
MIN_DIM = 64
"""Below this a product is too small for alignment to matter."""
LARGE = 1024
HALF = ("c10::Half", "c10::BFloat16")
MAX_SPEEDUP = 4.0
"""The most that padding gained on an H200: between 1.0 and 4, depending on which dimension it is."""
MIN_SPEEDUP = 1.1
"""A product this near to what padded ones reach is left alone: the library found a way."""


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
        if (
            shape is not None
            and _speedup(facts, row) != 1.0
            and min(shape[1:]) >= MIN_DIM
            and _misaligned(facts, op, shape)
        ):
            rows.append(row)
            shapes[row] = shape
    return [_candidate(facts, at, mine, shapes[mine[0]]) for at, mine in facts.by_line(rows)]


def _misaligned(facts: Facts, op: int, shape: Shape) -> bool:
    """Whether rows of an operand or of the result begin at odd places. Of a transposed operand (a weight's gradient) that is the
    other dimension, which its strides tell; where they were not recorded N and K count."""
    strides = [s for s in facts.strides_of(op) if len(s) >= 2]
    if len(strides) < 2:
        return any(d % MULTIPLE for d in (shape.n, shape.k))
    steps = [max(s[-2:]) for s in strides[-2:]]
    return shape.n % MULTIPLE != 0 or any(step % MULTIPLE for step in steps)


def _candidate(facts: Facts, at: SourceRef | None, rows: list[int], shape: Shape) -> Candidate:
    total = facts.time_of(rows)
    n, k = _padded(shape.n), _padded(shape.k)
    dtype = _dtype(facts, rows[0])
    statements = [_statement(shape.m, shape.n, shape.k, dtype), _statement(shape.m, n, k, dtype)]
    now, padded = (facts.context.timed.get(s) for s in statements)
    verified = now is not None and padded is not None
    if now is not None and padded is not None:
        speedup: float | None = max(1.0, now / padded)
        known = f" Timed by itself it takes {words.time(now)}, the padded product (N={n}, K={k}) {words.time(padded)}."
    else:
        each = [s for r in rows if (s := _speedup(facts, r)) is not None]
        speedup = sum(each) / len(each) if each else None
        known = f" Products reach up to {speedup:.1f} times their speed on this device." if speedup else ""
    gains = speedup is not None and (not verified or speedup >= MIN_SPEEDUP)
    claims, saving = gain(facts, dict.fromkeys(rows, 1.0 / (speedup or 1.0)))
    if verified:
        advice = "Pad the layer." if gains else "Padding gains next to nothing: leave it as it is."
    else:
        advice = f"Time the padded product (N={n}, K={k}) first (ridgeline time --of RUN): the gain is not certain. Then pad the layer."
    return Candidate(
        code="tensor-core-shape",
        title="A dimension keeps tensor cores from their tiles",
        fact=f"Products of M={shape.m}, N={shape.n}, K={shape.k} take {words.time(facts.per_step(total))} {facts.per}; "
        f"N and K want multiples of {MULTIPLE}.{known}",
        advice=advice,
        at=at,
        cost_us=total,
        saving_us=saving if speedup is not None and gains else None,
        claims=claims if gains else None,
        hint=not gains,
        evidence={
            "m": shape.m,
            "n": shape.n,
            "k": shape.k,
            "multiple": MULTIPLE,
            "assumed_speedup": None if verified else speedup,
            "measured_speedup": speedup if verified else None,
            "threshold_speedup": MIN_SPEEDUP,
            "verified": verified,
            "time": statements,
        },
    )


def _dtype(facts: Facts, row: int) -> str:
    return "float16" if HALF[0] in facts.types_of(product_of(facts, row)) else "bfloat16"


def _padded(size: int) -> int:
    """The next multiple; from a vocabulary's size on one of 64, which whole tiles want."""
    multiple = MULTIPLE if size < LARGE else 64
    return -(-size // multiple) * multiple


def _statement(m: int, n: int, k: int, dtype: str) -> str:
    """For ``ridgeline time``."""
    made = f'device="cuda", dtype=torch.{dtype}'
    return f"torch.empty({m}, {k}, {made}) @ torch.empty({k}, {n}, {made})"


def _speedup(facts: Facts, row: int) -> float | None:
    """What real layers reach on this device over what this product does, 1 where that is hardly more; None if unknown."""
    peaks = next((d.peaks for d in facts.document.devices if d.id == facts.device), None)
    peak, flops, time = peaks.flops.get("bf16") if peaks else None, flops_of(facts, row), float(facts.work.time[row])
    if not peak or flops is None or time <= 0:
        return None
    possible = REACHED * peak * 1e6 / (flops / time)
    return 1.0 if possible < MIN_SPEEDUP else min(MAX_SPEEDUP, possible)
