"""Lines of two runs matched by text and position."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.same_lines import Place, pairs

ACT = "x = self.act(x)"


def matched(before: list[Place], after: list[Place]) -> dict[int | None, int | None]:
    """Lines before to lines after."""
    return {a.line if a else None: b.line if b else None for a, b in pairs(before, after)}


def test_a_line_moves_with_its_text() -> None:
    before = [Place("/w/m.py", 3, "y = f(x)"), Place("/w/m.py", 9, "z = g(y)")]
    after = [Place("/w/m.py", 13, "    y = f(x)"), Place("/w/m.py", 9, "z = h(y)")]
    assert matched(before, after) == {3: 13, 9: None, None: 9}


def test_as_many_lines_of_one_text_are_the_same_in_their_order() -> None:
    before = [Place("m.py", line, ACT) for line in (5, 8, 11)]
    after = [Place("m.py", line, ACT) for line in (15, 18, 21)]
    assert matched(before, after) == {5: 15, 8: 18, 11: 21}


def test_where_one_is_missing_those_are_the_same_that_moved_as_their_surroundings() -> None:
    """Ten lines came in above; the first of three has no device time any more. By plain distance 11 would go to 18."""
    before = [Place("m.py", 4, "def"), *[Place("m.py", line, ACT) for line in (5, 8, 11)], Place("m.py", 12, "end")]
    after = [Place("m.py", 14, "def"), *[Place("m.py", line, ACT) for line in (18, 21)], Place("m.py", 22, "end")]
    assert matched(before, after) == {4: 14, 8: 18, 11: 21, 5: None, 12: 22}


def test_files_are_the_same_by_path_and_else_by_name() -> None:
    both = [Place("/a/m.py", 1, ACT), Place("/b/m.py", 1, ACT)]
    assert set(pairs(both, both)) == {(place, place) for place in both}
    (pair,) = pairs([Place("/job1/m.py", 1, ACT)], [Place("/job2/m.py", 4, ACT)])
    assert pair == (Place("/job1/m.py", 1, ACT), Place("/job2/m.py", 4, ACT))


def test_lines_without_a_text_are_compared_by_number() -> None:
    assert matched([Place("m.py", 3, "")], [Place("m.py", 3, "")]) == {3: 3}
    assert matched([Place("m.py", 3, "")], [Place("m.py", 4, "")]) == {3: None, None: 4}


places = st.lists(st.builds(Place, st.just("m.py"), st.integers(1, 30), st.sampled_from(["a", "b", ""])), unique=True)


@given(places, places)
def test_every_place_stands_in_one_pair(before: list[Place], after: list[Place]) -> None:
    found = pairs(before, after)
    assert sorted(a for a, _ in found if a) == sorted(before)
    assert sorted(b for _, b in found if b) == sorted(after)
    assert all(a.text == b.text for a, b in found if a and b)
