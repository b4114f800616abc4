"""``tf32-off``: matrix products of float32 run without tensor cores, on a device that has them for TF32."""

from __future__ import annotations

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import GEMM_OPS, REACHED, bytes_of, flops_of
from ridgeline.findings.places import related
from ridgeline.findings.whatif import gain

FIRST_MAJOR = 8
"""Compute capability from which TF32 exists."""
DEFAULT_SPEEDUP = 3.0
"""Where no peaks were measured: TF32 is 7 to 8 times as fast in registers, and most layers are then limited by memory."""
FULL_PRECISION = ("ffma", "sgemm", "f32f32_f32f32", "simt")
"""Words of kernels that compute in full float32."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu or not _capable(facts):
        return []
    rows = [r for r in facts.recorded_work if _is_float_gemm(facts, r)]
    if not rows:
        return []
    total = facts.time_of(rows)
    speedup = _speedup(facts, rows, total)
    claims, saving = gain(facts, dict.fromkeys(rows, 1.0 / speedup))
    lines = facts.by_line(rows)
    return [
        Candidate(
            code="tf32-off",
            title="Matrix products in full float32",
            fact=f"{words.count(len(rows) / facts.n)} float32 matrix products {facts.per} take {words.time(facts.per_step(total))} without tensor cores.",
            advice='torch.set_float32_matmul_precision("high") lets them use TF32 (10 bits of mantissa). This changes numerics: '
            "check the loss, or use bfloat16 autocast.",
            at=lines[0][0],
            cost_us=total,
            saving_us=saving,
            claims=claims,
            evidence={
                "products_per_step": len(rows) / facts.n,
                "assumed_speedup": speedup,
                "changes_numerics": True,
                "mend": "matmul-precision-high",
                "related": related(facts, lines, lines[0][0]),
            },
        )
    ]


def _capable(facts: Facts) -> bool:
    info = next((d for d in facts.trace.devices if d.id == facts.device), None)
    major = info.properties.get("computeMajor") if info is not None else None
    return isinstance(major, int) and major >= FIRST_MAJOR


def _is_float_gemm(facts: Facts, row: int) -> bool:
    op = int(facts.work.op[row])
    product = next((r for r in facts.ancestors(op) if facts.op_name(r) in GEMM_OPS), -1)
    types = facts.types_of(product)
    if product < 0 or "float" not in types or any(t.startswith("c10::") for t in types):
        return False
    name = facts.names[int(facts.work.name[row])].lower()
    if "tf32" in name or "tensorop" in name or not ("gemm" in name or "nvjet" in name or "cutlass" in name):
        return False
    precision = facts.sidecar.settings.get("float32_matmul_precision") if facts.sidecar is not None else None
    return precision == "highest" if precision is not None else any(word in name for word in FULL_PRECISION)


def _speedup(facts: Facts, rows: list[int], total: float) -> float:
    peaks = next((d.peaks for d in facts.document.devices if d.id == facts.device), None)
    tf32, bandwidth = (peaks.flops.get("tf32"), peaks.bandwidth_gb_s) if peaks else (None, None)
    if not tf32 or not bandwidth or total <= 0:
        return DEFAULT_SPEEDUP
    mended = 0.0
    for row in rows:
        flops, nbytes = flops_of(facts, row), bytes_of(facts, row, 4)
        now = float(facts.work.time[row])
        if flops is None or nbytes is None:
            mended += now / DEFAULT_SPEEDUP
        else:
            mended += min(now, max(1e6 * flops / (REACHED * tf32), nbytes / (REACHED * bandwidth * 1e3)))
    return max(1.0, total / mended) if mended > 0 else DEFAULT_SPEEDUP
