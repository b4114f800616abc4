"""Which line of one run is which line of another: by its text, and among lines of the same text by its position.

Line numbers alone do not do, for code above may have grown; text alone does not either, for ``x = self.act(x)`` may stand in
three places. Standard library only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A line of a run's sources; ``line`` counts from one, ``text`` is empty where it is not known."""

    file: str
    line: int
    text: str

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.file.rsplit("/", 1)[-1]


Pair = tuple[Place | None, Place | None]
_Shifts = dict[str, list[tuple[int, int]]]


def pairs(before: Iterable[Place], after: Iterable[Place]) -> list[Pair]:
    """Every place of both runs once: with its counterpart, or alone (``None`` on the other side).

    A file is the same under the same path, else under the same name. As many lines of a text on both sides are the same in
    their order. Where the numbers differ, those are that stand nearest to where the lines around them have moved.
    """
    sides = (list(dict.fromkeys(before)), list(dict.fromkeys(after)))
    common = {p.file for p in sides[0]} & {p.file for p in sides[1]}
    groups: dict[tuple[str, str], tuple[list[Place], list[Place]]] = defaultdict(lambda: ([], []))
    for side, places in enumerate(sides):
        for place in sorted(places):
            file = place.file if place.file in common else place.name
            groups[file, place.text.strip() or str(place.line)][side].append(place)
    shifts: _Shifts = defaultdict(list)
    for (file, _), (olds, news) in groups.items():
        if len(olds) == len(news) == 1:
            shifts[file].append((olds[0].line, news[0].line))
    for known in shifts.values():
        known.sort()
    found: list[Pair] = []
    for (file, _), (olds, news) in groups.items():
        found += zip(olds, news) if len(olds) == len(news) else _nearest(olds, news, shifts.get(file, []))
    return found


def _nearest(olds: Sequence[Place], news: Sequence[Place], shifts: Sequence[tuple[int, int]]) -> list[Pair]:
    """The closest pairs first; what is left over stands alone."""
    choices = sorted(
        (abs(_expected(old.line, shifts) - new.line), i, j) for i, old in enumerate(olds) for j, new in enumerate(news)
    )
    left, right = set(range(len(olds))), set(range(len(news)))
    found: list[Pair] = []
    for _, i, j in choices:
        if i in left and j in right:
            left.discard(i)
            right.discard(j)
            found.append((olds[i], news[j]))
    return found + [(olds[i], None) for i in sorted(left)] + [(None, news[j]) for j in sorted(right)]


def _expected(line: int, shifts: Sequence[tuple[int, int]]) -> int:
    """Where a line should stand now, had it moved as the nearest line whose move is certain."""
    at = bisect_left(shifts, (line, 0))
    near = min(shifts[max(at - 1, 0) : at + 1], key=lambda pair: abs(pair[0] - line), default=None)
    return line + near[1] - near[0] if near is not None else line
