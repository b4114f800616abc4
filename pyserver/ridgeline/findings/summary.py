"""``summary``: the first finding of every profile, the three things most worth doing or that there are none."""

from __future__ import annotations

from dataclasses import asdict

from ridgeline.findings import spans, words
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.rules.idle import WORDS
from ridgeline.profile import Finding

WORTH_PCT = 1.0
"""Gain below which a thing is not named among the three."""
OPERATORS_PCT = 50.0
"""Of a step on a CPU. Where operators run less than that it is not arithmetic that the time goes into."""
BUSY_PCT = 85.0
"""Device busy share from which it is called the bottleneck: below, at least 15 % of the step is the host's
(the threshold of TraceLens for idle time)."""


def summarise(facts: Facts, findings: list[Finding]) -> Finding:
    """One finding that speaks of all."""
    worth = [f for f in findings if f.severity != "hint" and (f.step_gain_pct is None or f.step_gain_pct >= WORTH_PCT)]
    worth.sort(key=lambda f: (f.step_gain_pct is None, -(f.step_gain_pct or 0.0)))
    idle = None if facts.on_cpu or not facts.base_us else 100.0 * facts.real(facts.idle) / facts.base_us
    evidence: dict[str, object] = {
        "step_us": facts.step_us,
        "steps": len(facts.steps) or None,
        "idle_pct_without_profiler": idle,
        "top": [{"code": f.code, "file": f.file, "line": f.line, "step_gain_pct": f.step_gain_pct} for f in worth[:3]],
    }
    if worth:
        parts = [f"{k}. {f.title}{_place(f)}{_gain(f, facts)}" for k, f in enumerate(worth[:3], 1)]
        title, message = "Most worth doing", "; ".join(parts) + "."
    else:
        title, message = _nothing(facts, idle)
        message += _hints(findings, facts)
    return Finding(
        code="summary",
        title=title,
        severity="information",
        message=message,
        evidence=evidence,
        doc="docs/findings/summary.md",
    )


def _nothing(facts: Facts, idle: float | None) -> tuple[str, str]:
    if idle is None:
        running = _operators_pct(facts)
        if running < OPERATORS_PCT:
            return (
                "Nothing found",
                f"No finding is worth a per cent of {facts.whole}: operators run in {words.percent(running)} of it, the rest is the "
                "program's own Python, or waits.",
            )
        return (
            "Nothing to do here",
            f"No finding is worth a per cent of {facts.whole}: the time goes into the program's own arithmetic.",
        )
    if not len(facts.device_rows):
        return "No device work recorded", "The recording holds no kernel, so nothing can be said about the device."
    if not facts.judged:
        return (
            "Nothing found",
            f"No finding is worth a per cent of {facts.whole}. Idle time ({words.percent(idle)}) is not judged: {facts.unjudged_because}.",
        )
    if idle > 100.0 - BUSY_PCT:
        return (
            "Nothing found",
            f"The device idles {words.percent(idle)} of {facts.whole}{_cause(facts)}, and no mend is known that is surely worth a per cent."
            + (
                ""
                if facts.whatif.alone or not facts.document.totals.plain_step_us
                else " The unprofiled steps that say so ran with CUPTI attached, which slows launches: some of it is likely the profiler's."
            ),
        )
    hot = [k for k in facts.document.kernels if k.bound in ("memory", "compute")]
    peak = max((max(k.compute_pct or 0.0, k.memory_pct or 0.0) for k in hot[:1]), default=0.0)
    near = ", near its peak" if peak >= 80.0 else ""
    return (
        f"GPU bound{near}: nothing to do here",
        f"The device works {words.percent(100.0 - idle)} of {facts.whole}, and no finding is worth a per cent of it.",
    )


def _cause(facts: Facts) -> str:
    """What most of the idle time is put down to, the profiler's apart."""
    causes = {key: us for key, us in asdict(facts.document.idle).items() if us > 0 and key != "profiler"}
    if not causes:
        return ""
    key = max(causes, key=lambda each: causes[each])
    return f" ({WORDS[key]} for the most part)" if key in WORDS and causes[key] > sum(causes.values()) / 2 else ""


def _hints(findings: list[Finding], facts: Facts) -> str:
    """Those that may be worth more than a per cent all the same."""
    most = max((f for f in findings if (f.step_gain_pct or 0.0) >= WORTH_PCT), key=_gain_pct, default=None)
    return "" if most is None else f" A hint may be: {most.title}{_place(most)}{_gain(most, facts)}."


def _gain_pct(finding: Finding) -> float:
    return finding.step_gain_pct or 0.0


def _operators_pct(facts: Facts) -> float:
    """Share of the recorded time in which an operator runs on any thread of a CPU's."""
    rows = [r for r in range(len(facts.trace.ops.start)) if not facts.op_name(r).startswith(REGION_PREFIXES)]
    return 100.0 * spans.measure(facts.op_spans(rows)) / facts.recorded_us if facts.recorded_us else 0.0


def _gain(finding: Finding, facts: Facts) -> str:
    if finding.saving_us is None or finding.step_gain_pct is None:
        return ""
    return f": ~{words.time(finding.saving_us)} {facts.per}, ~{finding.step_gain_pct:.0f} %"


def _place(finding: Finding) -> str:
    return f" ({finding.file.rsplit('/', 1)[-1]}:{finding.line})" if finding.file and finding.line else ""
