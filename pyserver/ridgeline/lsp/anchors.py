"""Where profiled lines stand in a text that is being edited.

An anchor is a profiled statement: the lines ``start`` to ``end`` of the text as it was profiled. It is

- fresh: its lines read as they did (indentation and ``# ridgeline: ignore`` aside), wherever they stand now;
- stale: it was edited, but it is known which line it became;
- lost: deleted, or rewritten beyond recognition. A wrong line is worse than no line, so a lost anchor is not shown. It is
  kept, and :meth:`Anchors.rebuild` finds it again when its text comes back (an undo, a checkout).

Edits above shift, edits elsewhere do nothing. One edit costs one pass over the anchors below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from ridgeline.ignore import unmarked
from ridgeline.lsp.diff import match_lines
from ridgeline.lsp.documents import Edit

SIMILAR = 0.6
"""Least ratio of :class:`difflib.SequenceMatcher` for a rewritten line to be called the same line, edited."""
MAX_SIMILAR_GAP = 40
"""Gaps longer than this are not searched for similar lines: the search is quadratic."""


def relocate(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each old line the index of the line it became, equal or edited; ``None`` if it is gone. The indices grow."""
    positions = match_lines(old, new)
    low_old, low_new = 0, 0
    for i in range(len(old) + 1):
        j = positions[i] if i < len(old) else len(new)
        if j is None:
            continue
        _fill_gap(positions, old, new, (low_old, i, low_new, j))
        low_old, low_new = i + 1, j + 1
    return positions


def _fill_gap(
    positions: list[int | None], old: Sequence[str], new: Sequence[str], gap: tuple[int, int, int, int]
) -> None:
    low_old, high_old, low_new, high_new = gap
    if low_old == high_old or low_new == high_new:
        return
    if high_old - low_old == high_new - low_new:
        for offset in range(high_old - low_old):
            positions[low_old + offset] = low_new + offset
        return
    if max(high_old - low_old, high_new - low_new) > MAX_SIMILAR_GAP:
        return
    next_new = low_new
    for i in range(low_old, high_old):
        text = old[i].strip()
        if not text:
            continue
        best, best_ratio = None, SIMILAR
        matcher = SequenceMatcher(None, b=text, autojunk=False)
        for j in range(next_new, high_new):
            matcher.set_seq1(new[j].strip())
            if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
                ratio = matcher.ratio()
                if ratio > best_ratio or (best is None and ratio == best_ratio):
                    best, best_ratio = j, ratio
        if best is not None:
            positions[i], next_new = best, best + 1


class Anchors:
    """Anchors of one file, in the order of their lines.

    ``at[i]`` is the zero-based line where anchor ``i`` stands now (where it stood last, if lost), ``stale[i]`` and ``lost[i]``
    say in what state. ``at`` never decreases with ``i``.
    """

    def __init__(self, profiled: Sequence[str], spans: Iterable[tuple[int, int]]) -> None:
        """``spans``: distinct (first, last) lines, zero-based and sorted, in the text ``profiled``; others are clipped away."""
        self.profiled = profiled
        self.spans = [
            (first, max(first, min(last, len(profiled) - 1))) for first, last in spans if 0 <= first < len(profiled)
        ]
        self.index = {first: i for i, (first, _) in enumerate(self.spans)}
        self._text = [[unmarked(line).strip() for line in profiled[first : last + 1]] for first, last in self.spans]
        self.longest = max((last - first for first, last in self.spans), default=0)
        self._reset()

    def _reset(self) -> None:
        self.at = [first for first, _ in self.spans]
        self.stale = [False] * len(self.spans)
        self.lost = [False] * len(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def edited(self) -> bool:
        return any(self.stale) or any(self.lost)

    def rebuild(self, current: Sequence[str]) -> None:
        """Finds all anchors anew in ``current`` by comparing it with the text that was profiled."""
        self._reset()
        if list(current) == list(self.profiled):
            return
        positions = relocate(self.profiled, current)
        last = 0
        for i, (first, _) in enumerate(self.spans):
            position = positions[first]
            if position is None:
                self.lost[i], self.at[i] = True, last
            else:
                self.at[i] = last = position
                self._judge(i, current)

    def place(self, positions: Sequence[int | None], current: Sequence[str]) -> None:
        """Puts anchor ``i`` on line ``positions[i]``; one without a position, or that would break the order, is lost."""
        self._reset()
        last = 0
        for i, position in enumerate(positions):
            if position is None or position < last:
                self.lost[i], self.at[i] = True, last
            else:
                self.at[i] = last = position
                self._judge(i, current)

    def apply(self, edit: Edit, current: Sequence[str]) -> bool:
        """Follows one edit; ``current`` is the text after it. Returns whether any anchor became stale, lost or fresh."""
        old, new, first = edit.old, edit.new, edit.first
        common = min(len(old), len(new))
        head = 0
        while head < common and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < common - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        old, new, first = old[head : len(old) - tail], new[head : len(new) - tail], first + head
        if not old and not new:
            return False
        low = bisect_left(self.at, first)
        high = bisect_left(self.at, first + len(old), low)
        delta = len(new) - len(old)
        if delta:
            self.at[high:] = [line + delta for line in self.at[high:]]
        changed = self._touch(range(low, high), old, new, first, current) if low < high else False
        # Statements that began above and reach into the edit.
        i = low - 1
        while i >= 0 and self.at[i] + self.longest + abs(delta) >= first:
            first_line, last_line = self.spans[i]
            if not self.lost[i] and last_line > first_line and self.at[i] + last_line - first_line >= first:
                changed |= self._judge(i, current)
            i -= 1
        return changed

    def _touch(self, touched: range, old: list[str], new: list[str], first: int, current: Sequence[str]) -> bool:
        positions = relocate(old, new)
        changed = False
        last = first
        for i in touched:
            position = positions[self.at[i] - first]
            if position is None or self.lost[i]:
                changed |= not self.lost[i]
                self.lost[i], self.at[i] = True, last
            else:
                self.at[i] = last = first + position
                changed |= self._judge(i, current)
        return changed

    def _judge(self, i: int, current: Sequence[str]) -> bool:
        """Compares a statement with what was profiled; returns whether its state changed."""
        text = self._text[i]
        start = self.at[i]
        stale = [unmarked(line).strip() for line in current[start : start + len(text)]] != text
        changed = stale != self.stale[i]
        self.stale[i] = stale
        return changed
