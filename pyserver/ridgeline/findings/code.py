"""The user's own text, as the rules that read code see it: parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ridgeline.findings.facts import Facts

MAX_BYTES = 1 << 20
"""Longer files are generated."""


def trees(facts: Facts) -> Iterator[tuple[str, ast.Module, str]]:
    """(path, tree, text) of every file at hand that parses. A text that does not is not the text that ran."""
    for path, text in facts.context.sources.items():
        if len(text) > MAX_BYTES:
            continue
        try:
            yield path, ast.parse(text), text
        except (SyntaxError, ValueError, RecursionError):
            continue


def line_of(text: str, number: int) -> str | None:
    """The text of a line, without its indentation."""
    lines = text.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else None


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement at a line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node if found is None or node.lineno >= found.lineno else found
    return found
