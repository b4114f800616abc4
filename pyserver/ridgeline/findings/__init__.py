"""What a profile means, on the line that causes it: ``find`` runs every rule and puts the answers through the funnel."""

from __future__ import annotations

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.context import Context
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import settle
from ridgeline.findings.rules import RULES
from ridgeline.findings.rules.padding import measure
from ridgeline.findings.summary import summarise
from ridgeline.profile import Finding, Padding

__all__ = ["Context", "find", "measure_padding"]


def find(context: Context) -> list[Finding]:
    """Findings of a profile, most worth doing first; the first of all is the summary."""
    facts = Facts(context)
    candidates: list[Candidate] = [candidate for rule in RULES for candidate in rule(facts)]
    findings = settle(facts, candidates)
    return [summarise(facts, findings), *findings]


def measure_padding(context: Context) -> Padding | None:
    """``ProfileDocument.padding``; None where no lengths were sampled."""
    return measure(Facts(context))
