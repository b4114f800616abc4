"""The rules, one module each. A rule looks at ``Facts`` and returns candidates; it never looks at another's answer."""

from __future__ import annotations

from collections.abc import Callable

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules import data_loading, hidden_sync

Rule = Callable[[Facts], list[Candidate]]

RULES: tuple[Rule, ...] = (
    data_loading.rule,
    hidden_sync.rule,
)
