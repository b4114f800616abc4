"""``one-step``, ``compile-in-window``, ``no-device-work``: whether the recorded steps can speak for the program."""

from __future__ import annotations

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts

COMPILE_PCT = 1.0


def rule(facts: Facts) -> list[Candidate]:
    return _one_step(facts) + _compile_in_window(facts) + _no_device_work(facts)


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
