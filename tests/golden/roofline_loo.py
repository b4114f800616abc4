"""Captures left out, one, several or half of them at a time: what the fitted constants are worth on workloads that they were
not fitted to.

usage: python tests/golden/roofline_loo.py CAPTURE… [--leave K…] [--least SHARE]

Constants that come from a manual, a paper or the compiler (``roofline_costs.py``) are left alone. Every constant that was
read off counters (``FITTED``) is refitted for each fold on the captures that it keeps, each by itself, to the value of
``FACTORS`` times what the code has that makes the errors of both percentages smallest; then those left out are scored with
all that was found. Moves that are found one by one and made together overshoot; ``--least 0.01`` makes only those that save
a hundredth of the error, and shows whether any constant by itself is off. ``as is`` is the same with the constants as they
stand in the code, which have seen every capture. ``--leave 2 11`` does so for choices of two and of eleven captures.
What this cannot leave out is the choice of formulas, which was made with all captures at hand: only a new capture tests that
(docs/roofline.md keeps the first scores).
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ridgeline.assemble import roof
from ridgeline.roofline import (
    aten,
    aten_issue,
    attention,
    attention_single,
    channel_norm,
    conv,
    conv_layouts,
    fft,
    foreach,
    gemm,
    instructions,
    limits,
    pointwise,
    simt,
    traffic,
    triton_model,
    warp_fed,
)
from ridgeline.roofline.estimator import estimate
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput
from ridgeline.roofline.verdict import classify
from roofline_score import Row, opened, score_capture

FACTORS = (0.8, 1.0, 1.25)
MOST_CHOICES = 250
Place = tuple[ModuleType, str, Any]
"""Module, name, and the key where the constant is an entry of a dict."""


def names(module: ModuleType, *constants: str) -> list[Place]:
    return [(module, name, None) for name in constants]


FITTED: list[Place] = [
    *names(limits, "RAMP_US", "COLD_US", "WARM_US", "DRAM_EFFICIENCY", "DIRTY_SHARE", "LAST_WRITES", "BEFORE"),
    *names(limits, "TENSOR_CLOCK_SHORT", "TENSOR_CLOCK_LONG"),
    *names(pointwise, "STRIDED"),
    *names(aten, "OTHER", "ROW_ELEMENT", "SORT_ISSUE", "SORT_SHARED", "RADIX_VALUE"),
    *names(aten_issue, "SCAN_START", "SCAN_ROUND", "SCAN_STEP", "SCAN_SHARED", "WIDER", "MASKED"),
    *[(conv, "LOOPED_DEPTHWISE", key) for key in conv.LOOPED_DEPTHWISE],
    *[(aten, "SELECT_KEY", key) for key in aten.SELECT_KEY],
    *names(attention, "ISSUE", "OLD_ISSUE"),
    *[(attention, "SHARED", key) for key in (False, True)],
    *[(attention_single, "SCORE_ISSUE", key) for key in attention_single.SCORE_ISSUE],
    *[(conv_layouts, "LAYOUT_ISSUE", key) for key in conv_layouts.LAYOUT_ISSUE],
    *names(conv_layouts, "LAYOUT_EDGE", "LAYOUT_BUSY", "THIN_ISSUE"),
    *names(conv, "GATHERED_ISSUE", "GATHERED_LINES", "ROW_LOOKED_UP"),
    *names(conv, "CUDNN_TAP", "CUDNN_PIXEL", "DIRECT_ISSUE", "DIRECT_SHARED", "WGRAD_SHARED"),
    *names(fft, "CONFLICTS"),
    *[(channel_norm, "ISSUE", key) for key in channel_norm.ISSUE],
    *names(foreach, "ISSUE_A_LIST"),
    *names(gemm, "OLD_RATE", "TURNED_ISSUE"),
    *names(simt, "LOADS", "ENDED", "STORED_SHARED"),
    *names(warp_fed, "SINGLE_CLOCKS", "SINGLE_TURNED", "SINGLE_ISSUE", "PROLOGUE"),
    *names(traffic, "PARTIAL", "ATOMIC", "TABLE_BYTES"),
    *names(instructions, "EXCHANGE_CLOCKS", "SHUFFLE_CLOCKS"),
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

    roof.estimate = noting  # type: ignore[attr-defined]
    try:
        with opened(path) as folder:
            rows = score_capture(folder)
    finally:
        roof.estimate = real  # type: ignore[attr-defined]
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
    if place[0] is instructions:  # a walked kernel is kept with its instructions
        triton_model._analyse.cache_clear()
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


def judged(cases: Iterable[Case]) -> list[tuple[float, bool]]:
    return [judge(case) for case in cases]


def shares(cases: list[Case], right: list[bool]) -> tuple[float, float]:
    """Share of launches and of time that are right."""
    if not cases:
        return math.nan, math.nan
    launches = sum(c.launches for c, r in zip(cases, right) if r) / sum(c.launches for c in cases)
    return launches, math.fsum(c.ncu_us for c, r in zip(cases, right) if r) / math.fsum(c.ncu_us for c in cases)


def shown(pair: tuple[float, float]) -> str:
    return "   -  /   -  " if math.isnan(pair[0]) else f"{pair[0]:.3f} / {pair[1]:.3f}"


Tried = list[tuple[Place, list[list[float]]]]
"""Constants, and the errors of every case under each of ``FACTORS``."""


def attempts(cases: list[Case], base: list[tuple[float, bool]]) -> Tried:
    """One constant at a time: from these each fold takes what it may see. Constants that change nothing are left out."""
    tried: Tried = []
    for place in FITTED:
        own = get(place)
        errors = []
        for factor in FACTORS:
            put(place, scaled(own, factor))
            errors.append([e for e, _ in (base if factor == 1.0 else judged(cases))])
        put(place, own)
        if any(e != errors[0] for e in errors):
            tried.append((place, errors))
    return tried


def without(cases: list[Case], left: frozenset[str], tried: Tried, least: float) -> tuple[dict[int, bool], int]:
    """Verdicts of the captures ``left`` out, refitted on the others, and how many constants moved."""
    seen = [i for i, c in enumerate(cases) if c.capture not in left]
    unseen = [i for i, c in enumerate(cases) if c.capture in left]
    before = [(place, get(place)) for place, _ in tried]
    same = FACTORS.index(1.0)
    moved = 0
    for (place, errors), (_, own) in zip(tried, before):
        totals = [math.fsum(column[i] for i in seen) for column in errors]
        best = min(range(len(FACTORS)), key=lambda j: (totals[j], abs(FACTORS[j] - 1)))
        best = same if totals[best] > (1 - least) * totals[same] else best
        moved += best != same
        put(place, scaled(own, FACTORS[best]))
    right = {i: r for i, (_, r) in zip(unseen, judged(cases[i] for i in unseen))}
    for place, own in before:
        put(place, own)
    return right, moved


def one_by_one(cases: list[Case], base: list[tuple[float, bool]], tried: Tried, least: float) -> None:
    captures = list(dict.fromkeys(c.capture for c in cases))
    right: dict[int, bool] = {}
    moved: dict[str, int] = {}
    for capture in captures:
        found, moved[capture] = without(cases, frozenset((capture,)), tried, least)
        right.update(found)
    print(f"{'left out':14} {'launches':>8}  {'triton':15}  {'other':15}  {'all':15}  {'all, as is':15}  refitted")
    for capture in (*captures, "all"):
        chosen = [i for i, c in enumerate(cases) if capture in ("all", c.capture)]
        columns = []
        for kept in ([i for i in chosen if cases[i].triton], [i for i in chosen if not cases[i].triton], chosen):
            columns.append(shares([cases[i] for i in kept], [right[i] for i in kept]))
        columns.append(shares([cases[i] for i in chosen], [base[i][1] for i in chosen]))
        launches = sum(cases[i].launches for i in chosen)
        print(f"{capture:14} {launches:8}  {'  '.join(f'{shown(c):15}' for c in columns)}  {moved.get(capture, '')}")


def several(cases: list[Case], base: list[tuple[float, bool]], tried: Tried, count: int, least: float) -> None:
    """Every choice of ``count`` captures left out at once, or ``MOST_CHOICES`` of them drawn once for all: the mean and the
    worst over the choices, and as is."""
    captures = list(dict.fromkeys(c.capture for c in cases))
    scores: dict[str, list[tuple[float, float]]] = {"triton": [], "all": [], "triton as is": [], "all as is": []}
    choices = math.comb(len(captures), count)
    drawn = random.Random(0)
    every: Iterable[tuple[str, ...]] = itertools.combinations(captures, count)
    if choices > MOST_CHOICES:
        every = [tuple(drawn.sample(captures, count)) for _ in range(MOST_CHOICES)]
    for left in every:
        right, _ = without(cases, frozenset(left), tried, least)
        generated = [i for i in right if cases[i].triton]
        for kept, name in ((generated, "triton"), (list(right), "all")):
            chosen = [cases[i] for i in kept]
            scores[name].append(shares(chosen, [right[i] for i in kept]))
            scores[f"{name} as is"].append(shares(chosen, [base[i][1] for i in kept]))
    for name, pairs in scores.items():
        known = [p for p in pairs if not math.isnan(p[0])]
        mean = statistics.mean(p[0] for p in known), statistics.mean(p[1] for p in known)
        worst = min(p[0] for p in known), min(p[1] for p in known)
        print(f"{count} left out, {len(known):3} choices  {name:12}  mean {shown(mean)}  worst {shown(worst)}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument(
        "--leave", nargs="*", type=int, default=[], help="how many captures to leave out at once, beside one"
    )
    parser.add_argument("--least", type=float, default=0.0, help="share of the error that a move must save")
    args = parser.parse_args(argv)
    cases = [case for path in args.captures for case in collect(path)]
    base = judged(cases)
    tried = attempts(cases, base)
    print(f"{len(cases)} kernels, {len(FITTED)} fitted constants, {len(tried)} of them matter here", file=sys.stderr)
    one_by_one(cases, base, tried, args.least)
    for count in args.leave:
        several(cases, base, tried, count, args.least)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
