"""Leave-one-workload-out: what the fitted constants are worth on a workload that they were not fitted to.

usage: python tests/golden/roofline_loo.py CAPTURE… [--least SHARE]

Constants that come from a manual or a paper are left alone. Every constant that was read off counters (``FITTED``) is
refitted for each capture on the other captures, each by itself, to the value of ``FACTORS`` times what the code has that
makes the errors of both percentages smallest; then the capture that was left out is scored with all that was found. Moves that are found one by one and made together overshoot; ``--least 0.01`` makes only those
that save a hundredth of the error, and shows whether any constant by itself is off. ``as is`` is the same with the constants as they stand in the code, which have seen every
capture. What this cannot leave out is the choice of formulas, which was made with all captures at hand: only a new
capture tests that (docs/roofline.md keeps the first scores).
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import roofline_score
from ridgeline.assemble import roof
from ridgeline.roofline import aten, attention, conv, foreach, gemm, instructions, limits, pointwise, triton_model
from ridgeline.roofline.estimator import estimate
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput
from ridgeline.roofline.verdict import classify
from roofline_score import Row, opened, score_capture

FACTORS = (0.8, 1.0, 1.25)
Place = tuple[ModuleType, str, Any]
"""Module, name, and the key where the constant is an entry of a dict."""


def names(module: ModuleType, *constants: str) -> list[Place]:
    return [(module, name, None) for name in constants]


FITTED: list[Place] = [
    *names(limits, "RAMP_US", "COLD_US", "WARM_US", "COLD_OPERANDS_US", "DRAM_EFFICIENCY", "DIRTY_SHARE"),
    *names(limits, "TENSOR_CLOCK_SHORT", "TENSOR_CLOCK_LONG"),
    *names(pointwise, "VECTORIZED", "CASTED", "STRIDED_OPERAND", "STRIDED_DIMENSION"),
    *names(aten, "OTHER", "REDUCE_THREAD", "REDUCE_ELEMENT", "NORM_ISSUE", "SCAN_SHARED"),
    *names(aten, "SOFTMAX_ROW", "SOFTMAX_ELEMENT", "SOFTMAX_NARROW"),
    *names(attention, "BIAS_ISSUE", "BIAS_SHARED"),
    *[(attention, table, key) for table in ("ISSUE", "SHARED") for key in (False, True)],
    *names(conv, "LAYOUT_ISSUE", "DEPTHWISE_ISSUE"),
    *names(foreach, "BASE_ISSUE", "ISSUE_A_LIST", "ISSUE_NARROW", "ROOT_ISSUE", "FUSED_ISSUE"),
    *names(gemm, "OLD_RATE", "SIMT_ISSUE", "SIMT_SHARED", "VECTOR_ISSUE", "SPLIT_REDUCE_ISSUE"),
    *names(triton_model, "MOST_WASTE", "TABLE_BYTES"),
    *names(instructions, "OVERHEAD"),
    *[(instructions, "COST", key) for key in instructions.COST],
    *[(instructions, "REDUCE", key) for key in instructions.REDUCE],
]


@dataclass(slots=True)
class Case:
    """A distinct kernel of a capture."""

    capture: str
    triton: bool
    kernel: KernelInput
    device: DeviceSpec
    sm_pct: float
    memory_pct: float
    launches: int
    ncu_us: float
    """Of all its launches."""


def collect(path: Path) -> list[Case]:
    """The kernels of a capture with what the models are given, as the pipeline gives it."""
    given: dict[tuple[Any, ...], tuple[KernelInput, DeviceSpec]] = {}
    real = estimate

    def noting(kernel: KernelInput, device: DeviceSpec, cold_us: float | None = None) -> Estimate:
        given[kernel.symbol, tuple(kernel.grid or ()), tuple(kernel.block or ()), kernel.duration_us] = kernel, device
        return real(kernel, device, cold_us)

    roof.estimate = roofline_score.estimate = noting  # type: ignore[attr-defined]
    try:
        with opened(path) as folder:
            rows = score_capture(folder)
    finally:
        roof.estimate = roofline_score.estimate = real  # type: ignore[attr-defined]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.kernel.id, []).append(row)
    cases = []
    for group in groups.values():
        k = group[0].kernel
        found = given[k.symbol, tuple(k.launch.grid or ()), tuple(k.launch.block or ()), k.median_us]
        sm, memory = (math.fsum(getattr(r, what) for r in group) / len(group) for what in ("sm_pct", "memory_pct"))
        time = math.fsum(r.ncu_us for r in group)
        cases.append(Case(group[0].capture, group[0].triton, *found, sm, memory, len(group), time))
    return cases


def get(place: Place) -> Any:
    value = getattr(place[0], place[1])
    return value if place[2] is None else value[place[2]]


def put(place: Place, value: Any) -> None:
    if place[2] is None:
        setattr(place[0], place[1], value)
    else:
        getattr(place[0], place[1])[place[2]] = value


def scaled(value: Any, factor: float) -> Any:
    return tuple(v * factor for v in value) if isinstance(value, tuple) else value * factor


def judge(case: Case) -> tuple[float, bool]:
    """Sum of the errors of both percentages, weighted by the root of the time, and whether the verdict is right."""
    found = estimate(case.kernel, case.device)
    right = found.bound == classify(case.memory_pct, case.sm_pct)
    if found.compute_pct is None or found.memory_pct is None:
        return 0.0, right
    error = abs(found.compute_pct - case.sm_pct) + abs(found.memory_pct - case.memory_pct)
    return error * math.sqrt(case.ncu_us), right


def judged(cases: list[Case], *, again: bool) -> list[tuple[float, bool]]:
    """``again``: the costs of instructions changed, so those of generated kernels are to be counted anew."""
    if again:
        triton_model._analyse.cache_clear()
    found = [judge(case) for case in cases]
    if again:
        triton_model._analyse.cache_clear()
    return found


def shares(cases: list[Case], right: list[bool]) -> str:
    """Share of launches and of time that are right."""
    if not cases:
        return "   -  /   -  "
    launches = sum(c.launches for c, r in zip(cases, right) if r) / sum(c.launches for c in cases)
    time = math.fsum(c.ncu_us for c, r in zip(cases, right) if r) / math.fsum(c.ncu_us for c in cases)
    return f"{launches:.3f} / {time:.3f}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--least", type=float, default=0.0, help="share of the error that a move must save")
    args = parser.parse_args(argv)
    cases = [case for path in args.captures for case in collect(path)]
    captures = list(dict.fromkeys(c.capture for c in cases))
    base = judged(cases, again=False)
    # One constant at a time: the errors of every case under every value, from which each fold takes what it may see.
    tried: list[tuple[Place, list[list[float]]]] = []
    for place in FITTED:
        own = get(place)
        errors = []
        for factor in FACTORS:
            put(place, scaled(own, factor))
            results = base if factor == 1.0 else judged(cases, again=place[0] is instructions)
            errors.append([e for e, _ in results])
        put(place, own)
        if any(e != errors[0] for e in errors):
            tried.append((place, errors))
    print(f"{len(cases)} kernels, {len(FITTED)} fitted constants, {len(tried)} of them matter here", file=sys.stderr)
    left_out: list[bool] = [r for _, r in base]
    moved: dict[str, int] = {}
    for capture in captures:
        seen = [i for i, c in enumerate(cases) if c.capture != capture]
        unseen = [i for i, c in enumerate(cases) if c.capture == capture]
        before = [(place, get(place)) for place, _ in tried]
        for (place, errors), (_, own) in zip(tried, before):
            totals = [math.fsum(column[i] for i in seen) for column in errors]
            best = min(range(len(FACTORS)), key=lambda j: (totals[j], abs(FACTORS[j] - 1)))
            if totals[best] > (1 - args.least) * totals[FACTORS.index(1.0)]:
                best = FACTORS.index(1.0)
            moved[capture] = moved.get(capture, 0) + (FACTORS[best] != 1.0)
            put(place, scaled(own, FACTORS[best]))
        for i, (_, right) in zip(unseen, judged([cases[i] for i in unseen], again=True)):
            left_out[i] = right
        for place, own in before:
            put(place, own)
    print(f"{'left out':14} {'launches':>8}  {'triton':15}  {'other':15}  {'all':15}  {'all, as is':15}  refitted")
    for capture in (*captures, "all"):
        chosen = [i for i, c in enumerate(cases) if capture in ("all", c.capture)]
        columns = [
            shares([cases[i] for i in kept], [left_out[i] for i in kept])
            for kept in (
                [i for i in chosen if cases[i].triton],
                [i for i in chosen if not cases[i].triton],
                chosen,
            )
        ]
        columns.append(shares([cases[i] for i in chosen], [base[i][1] for i in chosen]))
        launches = sum(cases[i].launches for i in chosen)
        print(f"{capture:14} {launches:8}  {'  '.join(f'{c:15}' for c in columns)}  {moved.get(capture, '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
