"""``kernel-variation`` and ``single-gap``: what happens in some launches or steps and not in others."""

from __future__ import annotations

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.profile import Kernel, SourceRef

VARIATION = 0.5
"""Standard deviation over mean. Kernels on a quiet device stay within 0.05; 1 is TraceLens' mark for high variance, by
which mean and median differ by a factor of two already."""
VARIATION_COUNT = 10
VARIATION_SHARE_PCT = 5.0
SINGLE_GAP_PCT = 5.0
"""Of the recorded time."""


def rule(facts: Facts) -> list[Candidate]:
    return _kernel_variation(facts) + _single_gap(facts)


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
