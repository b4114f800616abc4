"""What the recording itself makes doubtful: nothing here is the program's fault, and nothing is a saving."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.profile import Kernel, SourceRef

COLD_RATIO = 1.5
"""First step over the median of the others. Steady steps differ by a few per cent."""
COLD_GAP_RATIO = 5.0
COLD_GAP_US = 100.0
"""From the start of a range to its first op, on its first run against the median of the others. A warm range reaches its
first op in about 5 µs; 228 µs were measured on a cold one."""
IDLE_PCT = 15.0
SLOWDOWN = 1.25
"""Profiled step over plain step; the recorder aims at 1.1."""
COMPILE_PCT = 1.0
VARIATION = 0.5
"""Standard deviation over mean. Kernels on a quiet device stay within 0.05; 1 is TraceLens' mark for high variance, by
which mean and median differ by a factor of two already."""
VARIATION_COUNT = 10
VARIATION_SHARE_PCT = 5.0
SINGLE_GAP_PCT = 5.0
"""Of the recorded time."""


def rule(facts: Facts) -> list[Candidate]:
    return [
        *_cold_step(facts),
        *_cold_range(facts),
        *_one_step(facts),
        *_compile_in_window(facts),
        *_profilers_idle(facts),
        *_no_device_work(facts),
        *_kernel_variation(facts),
        *_single_gap(facts),
    ]


def _cold_step(facts: Facts) -> list[Candidate]:
    walls = [hi - lo for lo, hi in facts.steps]
    if len(walls) < 3:
        return []
    rest = float(np.median(walls[1:]))
    if rest <= 0 or walls[0] < COLD_RATIO * rest:
        return []
    return [
        Candidate(
            code="cold-step",
            title="The first recorded step is not like the others",
            fact=f"It takes {words.time(walls[0])}, the others {words.time(rest)}: allocation, library start-up or tuning fell into it. "
            "Means over the recording include it.",
            advice="Record later: more warm-up steps (--warmup), or --select-steps 1:.",
            hint=True,
            evidence={"first_us": walls[0], "median_us": rest, "ratio": walls[0] / rest, "threshold": COLD_RATIO},
        )
    ]


def _cold_range(facts: Facts) -> list[Candidate]:
    """The gap between a labelled range's start and its first op."""
    gaps: dict[int, list[float]] = defaultdict(list)
    ranges, ops = facts.trace.ranges, facts.trace.ops
    for row in range(len(ranges.start)):
        start = float(ranges.start[row])
        rows = facts.ops_between(int(ranges.tid[row]), start, start + float(ranges.dur[row]))
        if rows:
            gaps[int(ranges.name[row])].append(float(ops.start[rows[0]]) - start)
    # Step marks carry their number: together they are one range.
    steps = [g for name, values in gaps.items() if facts.names[name].startswith("ProfilerStep#") for g in values]
    groups = {facts.names[n]: v for n, v in gaps.items() if not facts.names[n].startswith("ProfilerStep#")} | {
        "ProfilerStep": steps
    }
    for name, values in groups.items():
        if len(values) < 3:
            continue
        rest = float(np.median(values[1:]))
        if values[0] >= COLD_GAP_US and values[0] >= COLD_GAP_RATIO * max(rest, 1.0):
            return [
                Candidate(
                    code="cold-range",
                    title="A gap that only the first step has",
                    fact=f"The first {name} takes {words.time(values[0])} to reach its first operation, the others {words.time(rest)}: "
                    "start-up of the profiler and of libraries, not a cost of the program.",
                    hint=True,
                    evidence={"range": name, "first_us": values[0], "median_us": rest, "threshold_us": COLD_GAP_US},
                )
            ]
    return []


def _one_step(facts: Facts) -> list[Candidate]:
    if len(facts.steps) != 1:
        return []
    return [
        Candidate(
            code="one-step",
            title="One step was recorded",
            fact="What happens once cannot be told from what happens every step.",
            advice="Confirm over more steps (--steps).",
            hint=True,
            evidence={"steps": 1},
        )
    ]


def _compile_in_window(facts: Facts) -> list[Candidate]:
    compiling = spans.measure(facts.compile_spans)
    share = 100.0 * compiling / facts.recorded_us if facts.recorded_us else 0.0
    if share < COMPILE_PCT:
        return []
    return [
        Candidate(
            code="compile-in-window",
            title="Compilation fell into the recorded steps",
            fact=f"{words.time(compiling)} of the recording ({words.percent(share)}) is compilation or tuning; shares describe the "
            "compiler as much as the program.",
            advice="More warm-up steps (--warmup); if it comes back at every step, see the recompile findings.",
            evidence={"compile_us": compiling, "share_pct": share, "threshold_pct": COMPILE_PCT},
        )
    ]


def _profilers_idle(facts: Facts) -> list[Candidate]:
    idle = spans.measure(facts.idle)
    share = 100.0 * idle / facts.recorded_us if facts.recorded_us else 0.0
    if facts.on_cpu or share < IDLE_PCT:
        return []
    if not facts.judged:
        fact = (
            f"The device idles {words.percent(share)} of this recording, but {facts.unjudged_because}, which slows the host"
            + (" several times over" if facts.stacks else "")
            + ": the idle time may be the profiler's, and no finding is based on it."
        )
        return [_profiler_note(fact, {"idle_share_pct": share, "stacks": facts.stacks})]
    if facts.slowdown is not None and facts.slowdown >= SLOWDOWN:
        plain = facts.document.totals.plain_step_us or facts.step_us
        busy = facts.per_step(spans.measure(facts.busy))
        corrected = max(0.0, 100.0 * (1.0 - busy / plain))
        fact = (
            f"Profiling made the step {facts.slowdown:.2f} times as long ({words.time(plain)} without it): of {words.percent(share)} idle time "
            f"{words.percent(corrected)} are the program's, the rest is likely from profiling."
        )
        return [
            _profiler_note(
                fact,
                {
                    "idle_share_pct": share,
                    "corrected_idle_pct": corrected,
                    "slowdown": facts.slowdown,
                    "threshold": SLOWDOWN,
                },
            )
        ]
    return []


def _profiler_note(fact: str, evidence: dict[str, object]) -> Candidate:
    return Candidate(
        code="profiler-idle",
        title="Idle time that the profiler made",
        fact=fact,
        advice="Record more steps, without stacks, to judge idle time.",
        hint=True,
        evidence=evidence,
    )


def _no_device_work(facts: Facts) -> list[Candidate]:
    marks = [(s.start, s.start + s.dur) for s in facts.trace.steps]
    if facts.on_cpu or not marks:
        return []
    starts = facts.trace.device_events.start[facts.device_rows]
    empty = [k for k, (lo, hi) in enumerate(marks) if not ((starts >= lo) & (starts < hi)).any()]
    if not empty:
        return []
    return [
        Candidate(
            code="no-device-work",
            title="Steps without device work",
            fact=f"{len(empty)} of {len(marks)} recorded steps hold no kernel: the device's part was not recorded, or the step mark does "
            "not enclose it.",
            hint=True,
            evidence={"steps": empty[:10], "count": len(empty)},
        )
    ]


def _kernel_variation(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []  # whatever else runs on a CPU makes its times vary
    found = []
    for kernel in facts.document.kernels:
        if (
            (kernel.cov or 0.0) >= VARIATION
            and kernel.count >= VARIATION_COUNT
            and (kernel.share_pct or 0.0) >= VARIATION_SHARE_PCT
        ):
            found.append(_variation(kernel))
    return found[:3]


def _variation(kernel: Kernel) -> Candidate:
    mean = kernel.total_us / kernel.count
    place = next((s for s in kernel.source if not s.library), None)
    return Candidate(
        code="kernel-variation",
        title="A kernel's time varies between launches",
        fact=f"{kernel.name} takes {words.time(kernel.median_us)} in the middle and {words.time(mean)} on average "
        f"({words.time(kernel.min_us)} to {words.time(kernel.max_us)}): trust the median, and confirm over more steps.",
        hint=True,
        at=SourceRef(file=place.file, line=place.line, text=place.text) if place else None,
        evidence={
            "mean_us": mean,
            "median_us": kernel.median_us,
            "cov": kernel.cov,
            "count": kernel.count,
            "threshold": VARIATION,
        },
    )


def _single_gap(facts: Facts) -> list[Candidate]:
    """A long gap in one of several steps."""
    if facts.on_cpu or len(facts.steps) < 3 or not facts.judged:
        return []
    limit = SINGLE_GAP_PCT / 100.0 * facts.recorded_us
    long = [(lo, hi) for lo, hi in zip(facts.idle.start, facts.idle.end) if hi - lo >= limit]
    if len(long) != 1:
        return []
    lo, hi = map(float, long[0])
    others = sorted((b - a for a, b in zip(facts.idle.start, facts.idle.end) if b - a < limit), reverse=True)
    if others and others[0] > 0.5 * (hi - lo):
        return []
    return [
        Candidate(
            code="single-gap",
            title="A long gap that occurs once",
            fact=f"One gap of {words.time(hi - lo)} in {len(facts.steps)} steps; a cost of every step it is not. Confirm over more steps.",
            hint=True,
            evidence={"start_us": lo, "gap_us": hi - lo, "threshold_pct": SINGLE_GAP_PCT},
        )
    ]
