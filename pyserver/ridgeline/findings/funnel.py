"""From candidates to findings: ranked, no saving claimed twice, gated and capped, the summary first.

gain = exposed share of the step * (1 - 1/s). Savings are taken off the recorded time in the order of their size: what an
earlier finding claims, a later one cannot. Below 0.5 % of the step nothing is suggested; below 1 % nothing is shown in
the editor (the finding is a hint with ``evidence["editor"] = False``); at most ten findings a file.
"""

from __future__ import annotations

import math
from collections import Counter

from ridgeline.findings import spans
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.ignore import ignored
from ridgeline.profile import Finding, Frame, Severity

SUGGEST_PCT = 0.5
"""Of the step. Less than this is within what two runs of the same program differ by."""
EDITOR_PCT = 1.0
"""Of the step. A squiggle must be worth the reader's eye."""
PER_FILE = 10
SEVERITY_ORDER: dict[Severity, int] = {"warning": 0, "information": 1, "hint": 2}


def settle(facts: Facts, candidates: list[Candidate]) -> list[Finding]:
    """The findings of a profile, most worth doing first, without the summary."""
    taken = spans.nothing()
    budget = facts.base_us
    found: list[Finding] = []
    wanted = [candidate for candidate in candidates if not _silenced(facts, candidate)]
    for candidate in sorted(wanted, key=_worth, reverse=True):
        saving, bound = candidate.saving_us, candidate.bound_us
        if saving is not None and candidate.cost_us is not None:
            # More than the thing is said to cost reads wrong, and would be; of the unprofiled step that is a larger share.
            saving = min(saving, candidate.cost_us * max(1.0, min(candidate.stands_for, 1.0 / facts.plain_scale)))
        if candidate.claims is not None:
            claims = facts.clip(candidate.claims)
            free = spans.subtract(claims, taken)
            left, whole = spans.measure(free), spans.measure(claims)
            most = left * candidate.stands_for
            bound = most if bound is None else min(bound, most)
            if saving is not None:
                saving = saving * (left / whole) if whole > 0 else 0.0
        if saving is not None:
            bound = saving if bound is None else bound
            bound = min(bound, budget)
            saving = max(0.0, min(saving, bound))
        finding = _gate(facts, candidate, saving, bound)
        if finding is None:
            continue
        if finding.saving_us is not None:
            budget -= finding.saving_us * facts.n / facts.plain_scale
            if candidate.claims is not None:
                taken = spans.together(taken, facts.clip(candidate.claims))
        found.append(finding)
    return _cap(found)


def _worth(candidate: Candidate) -> tuple[bool, float, float]:
    return (not candidate.general, candidate.saving_us or 0.0, candidate.cost_us or 0.0)


def _silenced(facts: Facts, candidate: Candidate) -> bool:
    """By a comment on its line."""
    at = candidate.at
    if at is None:
        return False
    lines = facts.context.sources.get(at.file, "").splitlines()
    text = lines[at.line - 1] if 0 < at.line <= len(lines) else at.text or ""
    return ignored(text, candidate.code)


def _gate(facts: Facts, candidate: Candidate, saving: float | None, bound: float | None) -> Finding | None:
    gain = None if saving is None or facts.base_us <= 0 else 100.0 * saving / facts.base_us
    weighed = saving if saving is not None else candidate.cost_us
    weight = None if weighed is None or facts.gate_us <= 0 else 100.0 * weighed / facts.gate_us
    severity: Severity = "hint" if candidate.hint else "information"
    message = f"{candidate.fact} {candidate.advice}".strip()
    evidence = dict(candidate.evidence)
    if candidate.min_gain_pct is not None and gain is not None and gain < candidate.min_gain_pct:
        return None
    if weight is not None and weight < SUGGEST_PCT:
        if not candidate.noted:
            return None
        severity, message, saving, bound, gain = "hint", candidate.fact, None, None, None
        evidence["editor"] = False
    elif (weight if weight is not None else _known_pct(facts, candidate)) < EDITOR_PCT:
        severity = "hint"
        evidence["editor"] = False
    evidence.setdefault("threshold_pct", SUGGEST_PCT)
    if saving is not None:
        plain = facts.steps and facts.document.totals.plain_step_us and (not facts.on_cpu or facts.plain_scale < 1.0)
        evidence["saving_of"] = "unprofiled step" if plain else "recorded time"
    at = candidate.at
    if at is not None and at.stack:
        evidence.setdefault("stack", [_frame(f) for f in at.stack])
    return Finding(
        code=candidate.code,
        title=candidate.title,
        severity=severity,
        message=message,
        file=at.file if at else None,
        line=at.line if at else None,
        time_us=_finite(candidate.cost_us, facts),
        saving_us=_finite(_plain(saving, facts), facts),
        saving_bound_us=_finite(_plain(bound, facts) if saving is not None else None, facts),
        step_gain_pct=gain,
        evidence=evidence,
        doc=f"docs/findings/{candidate.code}.md",
    )


def _known_pct(facts: Facts, candidate: Candidate) -> float:
    """Of the step, what a thing surely takes whose cost is not judged; without bound where not even that is known."""
    if candidate.known_us is None or facts.gate_us <= 0:
        return math.inf
    return 100.0 * candidate.known_us / facts.gate_us


def _cap(found: list[Finding]) -> list[Finding]:
    """Ten a file, most worth first; what has no line counts as a file of its own."""
    seen: Counter[str | None] = Counter()
    kept = []
    for finding in sorted(
        found, key=lambda f: (SEVERITY_ORDER[f.severity], -(f.saving_us or 0.0), -(f.time_us or 0.0))
    ):
        seen[finding.file] += 1
        if seen[finding.file] <= PER_FILE:
            kept.append(finding)
    return kept


def _plain(total: float | None, facts: Facts) -> float | None:
    """In the time of an unprofiled step, where one was measured."""
    return None if total is None else total * facts.plain_scale


def _finite(total: float | None, facts: Facts) -> float | None:
    return None if total is None or not math.isfinite(total) else facts.per_step(total)


def _frame(frame: Frame) -> dict[str, object]:
    return {"file": frame.file, "line": frame.line, "function": frame.function}
