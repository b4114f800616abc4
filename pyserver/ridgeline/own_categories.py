"""Categories of a person's own: kernels by patterns of their names, beside the built-in ones.

They stand in the ``pyproject.toml`` of the program, or are given on the command line (``--category "norms=*layer_norm*"``)::

    [tool.ridgeline.categories]
    norms = ["*layer_norm*", "*batch_norm*"]
    attention = "*attention*"

A pattern is a shell's (``*``, ``?``, ``[abc]``), matched against a kernel's name and the symbol on the device, case aside. A
kernel belongs to the first category that fits it, so rows never count a kernel twice.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.profile import Kernel, OwnCategory, ProfileDocument

MAX_CATEGORIES, MAX_PATTERNS, MAX_PATTERN = 50, 100, 200
MAX_BYTES = 1 << 20


class CategoryError(ValueError):
    """One line: what is wrong with a category and where."""


@dataclass(slots=True, frozen=True)
class Rule:
    name: str
    patterns: tuple[str, ...]

    def fits(self, kernel: Kernel) -> bool:
        names = (kernel.name.lower(), kernel.symbol.lower())
        return any(fnmatch.fnmatchcase(name, pattern.lower()) for pattern in self.patterns for name in names)


def from_options(pairs: Sequence[str]) -> list[Rule]:
    """``NAME=PATTERN`` of the command line; a name that comes again adds a pattern. Raises :class:`CategoryError`."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, pattern = pair.partition("=")
        if not equals or not name.strip() or not pattern.strip():
            raise CategoryError(f'--category {pair}: write NAME=PATTERN, as in "norms=*layer_norm*"')
        found.setdefault(name.strip(), []).append(pattern.strip())
    return _rules(found, "--category")


def from_project(start: Path) -> list[Rule]:
    """The section of the nearest ``pyproject.toml`` at or above ``start`` that has one; empty where none has.

    Raises :class:`CategoryError` for a section that is not names with patterns.
    """
    folder = start if start.is_dir() else start.parent
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        section = _section(path) if path.is_file() else None
        if section is not None:
            return _rules(section, str(path))
    return []


def _section(path: Path) -> Mapping[str, Any] | None:
    """``[tool.ridgeline.categories]``; None where the file has none, or cannot be read here."""
    try:
        import tomllib
    except ImportError:  # Python 3.10: the standard library reads no TOML yet
        return None
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # Another tool's business: a program is profiled beside a broken file as well.
    tools = document.get("tool")
    own = tools.get("ridgeline") if isinstance(tools, dict) else None
    section = own.get("categories") if isinstance(own, dict) else None
    return section if isinstance(section, dict) else None


def _rules(section: Mapping[str, Any], where: str) -> list[Rule]:
    rules = []
    for name, value in section.items():
        patterns = [value] if isinstance(value, str) else value
        good = isinstance(patterns, list) and all(isinstance(p, str) and 0 < len(p) <= MAX_PATTERN for p in patterns)
        if not good or not patterns or len(patterns) > MAX_PATTERNS:
            raise CategoryError(f'{where}: category {name} takes a pattern or a list of them, as in "*layer_norm*"')
        rules.append(Rule(name, tuple(patterns)))
    if len(rules) > MAX_CATEGORIES:
        raise CategoryError(f"{where}: more than {MAX_CATEGORIES} categories")
    return rules


def rows(kernels: Sequence[Kernel], rules: Sequence[Rule]) -> list[OwnCategory]:
    """A row for each rule and device that it has kernels on, largest first. Shares are of the device's summed time."""
    total: dict[int, float] = {}
    found: dict[tuple[int, str], OwnCategory] = {}
    for kernel in kernels:
        total[kernel.device] = total.get(kernel.device, 0.0) + kernel.total_us
        rule = next((rule for rule in rules if rule.fits(kernel)), None)
        if rule is None:
            continue
        row = found.setdefault((kernel.device, rule.name), OwnCategory(name=rule.name, device=kernel.device))
        row.time_us += kernel.total_us
        row.count += kernel.count
        row.kernels.append(kernel.id)
    for row in found.values():
        row.share_pct = row.time_us / total[row.device] * 100 if total[row.device] else None
    return sorted(found.values(), key=lambda row: -row.time_us)


def apply(document: ProfileDocument, rules: Sequence[Rule]) -> None:
    """Fill ``own_categories``; a rule that fits no kernel gets a line in ``quality``, for a typing error looks the same."""
    from ridgeline.profile import QualityWarning

    document.own_categories = rows(document.kernels, rules)
    seen = {row.name for row in document.own_categories}
    missing = [rule for rule in rules if rule.name not in seen]
    document.quality.warnings = [w for w in document.quality.warnings if w.code != "empty-category"]
    for rule in missing:
        text = f"no kernel fits your category {rule.name} ({', '.join(rule.patterns[:3])})"
        document.quality.warnings.append(QualityWarning(code="empty-category", message=text))
