"""The other lines of a finding, for ``evidence["related"]``: editors show them beside the one that it stands on; and the one that most of
some moments were at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ridgeline.findings import words
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef

RELATED = 3
"""More than these a reader does not follow."""
THIRD = 3
"""Of moments a statement must have one in so many to be named."""


def related(
    facts: Facts, lines: Iterable[tuple[SourceRef | None, list[int]]], at: SourceRef | None, what: str = ""
) -> list[dict[str, object]]:
    """Lines with their rows of work (``Facts.by_line``), most time first, without the one that the finding stands on."""
    here = (at.file, at.line) if at is not None else None
    others = [(p, rows) for p, rows in lines if p is not None and (p.file, p.line) != here]
    return [
        {
            "file": place.file,
            "line": place.line,
            "text": f"{words.time(facts.per_step(facts.time_of(rows)))} {facts.per}{f' {what}' if what else ''}",
        }
        for place, rows in others[:RELATED]
    ]


def most_at(moments: Iterable[SourceRef | None]) -> SourceRef | None:
    """The statement that most of these moments were at, None if no one had a third of them."""
    found = list(moments)
    seen = Counter((at.file, at.line) for at in found if at is not None)
    if not seen:
        return None
    key, count = seen.most_common(1)[0]
    last = next(at for at in reversed(found) if at is not None and (at.file, at.line) == key)
    return last if THIRD * count >= len(found) else None
