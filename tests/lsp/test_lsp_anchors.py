"""Positions follow edits: untouched lines exactly, touched ones are stale or gone, never on a wrong line."""

from __future__ import annotations

import random
from itertools import count

import pytest
from lsprotocol import types

from ridgeline.lsp.anchors import Anchors, relocate
from ridgeline.lsp.diff import match_lines
from ridgeline.lsp.documents import Document, split_lines


def document(text: str) -> Document:
    return Document("file:///m.py", 1, "python", split_lines(text))


def change(
    line: int, character: int, end_line: int, end_character: int, text: str
) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(
        range=types.Range(types.Position(line, character), types.Position(end_line, end_character)), text=text
    )


def test_lines_are_those_of_lsp() -> None:
    assert split_lines("a\r\nb\rc\nd") == ["a", "b", "c", "d"]
    assert split_lines("a\x0cb\u2028c\x85d") == ["a\x0cb\u2028c\x85d"], "form feeds and the like end no line"
    assert split_lines("") == [""]


def test_edit_in_utf16_units() -> None:
    here = document('x = "😀漢"  # end\n')
    here.apply(change(0, 5, 0, 7, "!"))
    assert here.lines[0] == 'x = "!漢"  # end', "an emoji is two units"
    here.apply(change(0, 999, 99, 0, "?"))
    assert here.lines == ['x = "!漢"  # end?'], "positions outside are clipped"


def test_typing_above_shifts_and_typing_on_the_line_makes_stale() -> None:
    here = document("a = 1\nb = f(a)\nc = 3\n")
    anchors = Anchors(list(here.lines), [(1, 1)])
    anchors.apply(here.apply(change(0, 5, 0, 5, "\nnew = 2")), here.lines)
    assert (anchors.at, anchors.stale) == ([2], [False])
    assert anchors.apply(here.apply(change(2, 4, 2, 4, "x")), here.lines)
    assert (anchors.at, anchors.stale) == ([2], [True])
    assert anchors.apply(here.apply(change(2, 4, 2, 5, "")), here.lines), "an undo"
    assert anchors.stale == [False]


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (change(1, 0, 1, 0, "n = 0\n"), 2),
        (change(1, 8, 1, 8, "\n"), 1),
        (change(0, 0, 1, 0, ""), 0),
        (change(2, 0, 3, 0, ""), 1),
        (change(0, 0, 0, 5, "a = 1\na = 2\na = 3"), 3),
    ],
)
def test_whole_lines_put_in_or_taken_out_beside_it_leave_it_fresh(
    edit: types.TextDocumentContentChangePartial, line: int
) -> None:
    here = document("a = 1\nb = f(a)\nc = 3\n")
    anchors = Anchors(list(here.lines), [(1, 1)])
    anchors.apply(here.apply(edit), here.lines)
    assert (anchors.at, anchors.stale, anchors.lost) == ([line], [False], [False])


def test_a_statement_of_several_lines_is_stale_when_any_of_them_changes() -> None:
    here = document("x = torch.cat(\n    [a, b],\n    dim=1,\n)\ny = 2\n")
    anchors = Anchors(list(here.lines), [(0, 3), (4, 4)])
    anchors.apply(here.apply(change(2, 8, 2, 9, "0")), here.lines)
    assert (anchors.at, anchors.stale) == ([0, 4], [True, False])


def test_reindenting_is_no_edit_of_the_statement() -> None:
    here = document("a = 1\nb = f(a)\n")
    anchors = Anchors(list(here.lines), [(1, 1)])
    anchors.apply(here.apply(change(0, 0, 1, 8, "with g():\n    a = 1\n    b = f(a)")), here.lines)
    assert (anchors.at, anchors.stale, anchors.lost) == ([2], [False], [False])


def test_a_deleted_line_is_lost_and_found_again() -> None:
    here = document("a = 1\nb = f(a)\nc = 3\nd = 4\n")
    anchors = Anchors(list(here.lines), [(1, 1), (3, 3)])
    anchors.apply(here.apply(change(1, 0, 2, 0, "")), here.lines)
    assert (anchors.lost, anchors.at[1]) == ([True, False], 2)
    anchors.apply(here.apply(change(1, 0, 1, 0, "b = f(a)\n")), here.lines)
    anchors.rebuild(here.lines)
    assert (anchors.lost, anchors.at) == ([False, False], [1, 3])


def test_a_formatter_that_replaces_everything_keeps_what_it_kept() -> None:
    old = [f"value_{i} = compute({i})" for i in range(200)]
    here = document("\n".join(old))
    anchors = Anchors(list(here.lines), [(i, i) for i in range(200)])
    new = ["import os", "", *[line for line in old if line != old[50]], ""]
    new[100] = "something_else()"
    here_edit = here.apply(types.TextDocumentContentChangeWholeDocument(text="\n".join(new)))
    anchors.apply(here_edit, here.lines)
    for i, text in enumerate(old):
        if not anchors.lost[i] and not anchors.stale[i]:
            assert here.lines[anchors.at[i]] == text
    assert anchors.lost[50]
    assert sum(anchors.lost) + sum(anchors.stale) <= 2


def test_matching_is_monotone_and_only_of_equal_lines() -> None:
    chance = random.Random(7)
    for _ in range(200):
        old = [chance.choice("abcdefgh") for _ in range(chance.randrange(30))]
        new = [chance.choice("abcdefgh") for _ in range(chance.randrange(30))]
        matched = match_lines(old, new)
        pairs = [(i, j) for i, j in enumerate(matched) if j is not None]
        assert all(old[i] == new[j] for i, j in pairs)
        assert [j for _, j in pairs] == sorted({j for _, j in pairs})
        moved = [j for j in relocate(old, new) if j is not None]
        assert moved == sorted(set(moved))


class Tagged:
    """The same text with an identity on each line: what the anchors must find out."""

    def __init__(self, lines: list[str]) -> None:
        self.fresh = count(len(lines))
        self.tags: list[int | None] = list(range(len(lines)))

    def apply(self, line: int, character: int, end_line: int, end_character: int, text: str, before: list[str]) -> None:
        """A line keeps its identity where the edit leaves all of its text on one line of its own."""
        head, tail = before[line][:character], before[end_line][end_character:]
        new = split_lines(head + text + tail)
        tags: list[int | None] = [None] * len(new)
        if new[0] == before[line]:
            tags[0] = self.tags[line]
        if new[-1] == before[end_line] and (len(new) > 1 or line == end_line or tags[0] is None):
            tags[-1] = self.tags[end_line] if tags[-1] is None else tags[-1]
        self.tags[line : end_line + 1] = tags


def random_edits(seed: int, edits: int, lines: int = 300) -> int:
    """Applies random edits; returns how many fresh anchors were checked. Every text is unique, so that a line that reads
    as it did can only be the line itself."""
    chance = random.Random(seed)
    fresh = count(10**6)
    text = [f"    value_{i} = layer_{i}(x, {i})" for i in range(lines)]
    here = document("\n".join(text))
    anchors = Anchors(list(text), [(i, i) for i in range(0, lines, 3)])
    checked = 0
    for _ in range(edits):
        last = len(here.lines) - 1
        line = chance.randrange(last + 1)
        end = min(last, line + chance.choice([0, 0, 0, 0, 1, 2, 5]))
        character = chance.choice([0, 0, len(here.lines[line]), chance.randrange(len(here.lines[line]) + 1)])
        end_character = chance.choice([0, len(here.lines[end]), chance.randrange(len(here.lines[end]) + 1)])
        if end == line and end_character < character:
            character, end_character = end_character, character
        kind = chance.randrange(4)
        if kind == 0:
            end, end_character = line, character
        new = chance.choice(
            ["", "q", "\n", "zz\n", f"n{next(fresh)} = 1\n", f"\nn{next(fresh)} = 2", f"a{next(fresh)}\n\nb\n"]
        )
        before = list(here.lines)
        anchors.apply(here.apply(change(line, character, end, end_character, new)), here.lines)
        assert here.lines == split_lines(
            "\n".join(
                before[:line] + [before[line][:character] + new + before[end][end_character:]] + before[end + 1 :]
            )
        )
        assert anchors.at == sorted(anchors.at)
        where = {content.strip(): number for number, content in enumerate(here.lines)}
        for i, (first, _) in enumerate(anchors.spans):
            original = text[first].strip()
            if not anchors.lost[i] and not anchors.stale[i]:
                assert here.lines[anchors.at[i]].strip() == original, "a fresh anchor on a wrong line"
                checked += 1
            elif original in where:
                # Its very text is there: then it was taken out and put back whole, which only an edit in pieces does.
                assert anchors.lost[i] or here.lines[anchors.at[i]].strip() != original
    return checked


def test_untouched_lines_are_exact_under_random_edits() -> None:
    """No anchor whose line was not touched is ever wrong or stale."""
    chance = random.Random(3)
    lines = [f"line_{i}()" for i in range(400)]
    here = document("\n".join(lines))
    tagged = Tagged(lines)
    anchors = Anchors(list(lines), [(i, i) for i in range(400)])
    for _ in range(400):
        last = len(here.lines) - 1
        line = chance.randrange(last + 1)
        end = min(last, line + chance.choice([0, 0, 1, 3]))
        character = chance.choice([0, len(here.lines[line]), chance.randrange(len(here.lines[line]) + 1)])
        end_character = chance.choice([0, len(here.lines[end]), chance.randrange(len(here.lines[end]) + 1)])
        if end == line and end_character < character:
            character, end_character = end_character, character
        new = chance.choice(["", "w", "\n", "new()\n", "\nnew()"])
        before = list(here.lines)
        tagged.apply(line, character, end, end_character, new, before)
        anchors.apply(here.apply(change(line, character, end, end_character, new)), here.lines)
        where = {tag: number for number, tag in enumerate(tagged.tags) if tag is not None}
        for tag, number in where.items():
            assert not anchors.lost[tag], f"line {tag} was not touched and is lost"
            assert (anchors.at[tag], anchors.stale[tag]) == (number, False)


def test_ten_thousand_random_edits_in_samples() -> None:
    assert sum(random_edits(seed, 100) for seed in range(10)) > 10_000


@pytest.mark.soak
def test_ten_thousand_random_edits() -> None:
    assert sum(random_edits(seed, 500) for seed in range(20)) > 100_000
