"""Interval algebra against a brute-force count on integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.findings import spans

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def _instants(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for lo, hi in pairs for t in range(lo, hi)}


def _back(found: spans.Spans) -> set[int]:
    assert (found.start[1:] >= found.end[:-1]).all(), "sorted and disjoint"
    return _instants([(int(lo), int(hi)) for lo, hi in zip(found.start, found.end)])


@given(PAIRS, PAIRS)
def test_set_operations(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    left, right = spans.of(a), spans.of(b)
    assert _back(left) == _instants(a)
    assert _back(spans.intersect(left, right)) == _instants(a) & _instants(b)
    assert _back(spans.subtract(left, right)) == _instants(a) - _instants(b)
    assert _back(spans.together(left, right)) == _instants(a) | _instants(b)
    assert spans.measure(left) == len(_instants(a))
