"""What a name in generated code or in our own hovers means: operators, kernels, launches (:mod:`ridgeline.explain`)."""

from __future__ import annotations

import re

from lsprotocol import types

from ridgeline.explain import explain
from ridgeline.lsp import wording
from ridgeline.lsp.documents import Document

_NAME = re.compile(r"[A-Za-z_][\w]*(?:(?:\.|::)[A-Za-z_]\w*)*")
_OPERATOR = re.compile(r"(?:\baten(?:\.|::)|^extern_kernels\.)(\w+)")
"""An operator as Inductor writes it: ``aten.addmm``, ``torch.ops.aten.mm.default``, ``extern_kernels.addmm``."""
_LINK = re.compile(r"([\[\]<>])")
MAX_TEXT = 300
TABLE_WORDS = ("self", "total", "calls")
"""Columns of the profiler's tables, which mean other things in code."""


def name_at(document: Document, position: types.Position) -> tuple[list[str], types.Range] | None:
    """What the name under a position may be called in a trace, the likeliest first, and where it stands."""
    if position.line >= len(document.lines):
        return None
    column = document.column(position.line, position.character)
    for match in _NAME.finditer(document.lines[position.line]):
        if not match.start() <= column <= match.end():
            continue
        start, end, text = match.start(), match.end(), match.group()
        operator = _OPERATOR.search(text)
        if operator is not None and column - start <= operator.end():
            end = start + operator.end()
            return [f"aten::{operator.group(1)}"], _range(document, position.line, start, end)
        at = start
        for part in re.split(r"(\.|::)", text):
            if at <= column <= at + len(part) and part not in (".", "::"):
                return [part, *([text] if "::" in text else [])], _range(document, position.line, at, at + len(part))
            at += len(part)
    return None


def _range(document: Document, line: int, start: int, end: int) -> types.Range:
    return types.Range(
        start=types.Position(line, document.units(line, start)), end=types.Position(line, document.units(line, end))
    )


def explained_at(document: Document, position: types.Position) -> tuple[list[str], types.Range] | None:
    """The explanation of the name under a position as one or two lines of markdown; ``None`` where none is known."""
    found = name_at(document, position)
    if found is None:
        return None
    for name in found[0]:
        explanation = explain(name) if name not in TABLE_WORDS else None
        if explanation is not None:
            lines = [f"{wording.code(name)}: {_plain(explanation.text)}"]
            return lines + ([f"→ {_plain(explanation.next)}"] if explanation.next else []), found[1]
    return None


def explained(name: str) -> str:
    """A kernel's or operator's name explained in one line of markdown; empty where nothing certain is known."""
    explanation = explain(name)
    return _plain(explanation.text) if explanation is not None else ""


def _plain(text: str) -> str:
    """Explanations are our own markdown, but may repeat parts of a name from a trace: those must not become links."""
    text = _LINK.sub(r"\\\1", " ".join(text.split()))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
