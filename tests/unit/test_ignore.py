"""The comment that silences a finding."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.ignore import ignored, unmarked, with_ignored


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = loss.item()  # ridgeline: ignore[hidden-sync]", True),
        ("x = loss.item()  # ridgeline: ignore[float64, hidden-sync]", True),
        ("x = loss.item()  #ridgeline:ignore", True),
        ("x = loss.item()  # ridgeline: ignore[float64]", False),
        ("x = loss.item()  # ridgeline: ignore[hidden]", False),
        ("x = loss.item()  # ridgeline: ignore[]", False),
        ("x = loss.item()", False),
    ],
)
def test_marks(text: str, expected: bool) -> None:
    assert ignored(text, "hidden-sync") is expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = loss.item()", "x = loss.item()  # ridgeline: ignore[hidden-sync]"),
        ("x = loss.item()  # why", "x = loss.item()  # why  # ridgeline: ignore[hidden-sync]"),
        ("x = y  # ridgeline: ignore[float64] # why", "x = y  # ridgeline: ignore[float64, hidden-sync] # why"),
        ("x = y  # ridgeline: ignore[]", "x = y  # ridgeline: ignore[hidden-sync]"),
        ("x = y  # ridgeline: ignore", "x = y  # ridgeline: ignore"),
    ],
)
def test_a_mark_is_added(before: str, after: str) -> None:
    assert with_ignored(before, "hidden-sync") == after
    assert ignored(after, "hidden-sync")


def test_a_line_without_its_mark_is_what_was_measured() -> None:
    assert unmarked("    x = loss.item()  # ridgeline: ignore[hidden-sync]") == "    x = loss.item()"
    assert unmarked("x = 1  # why  #ridgeline:ignore") == "x = 1  # why"
    assert unmarked("ridgeline.profile(x)  ") == "ridgeline.profile(x)  "


def _loop() -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        b.step(1000.0 * k, 1000.0)
        b.line(1000.0 * k + 900, 1000.0 * k + 990, "train.py", 2, "total += loss.item()")
        b.op("aten::item", 1000.0 * k + 930, 4)
    return b


def test_a_silenced_line_has_no_finding() -> None:
    text = "for x in loader:\n    total += loss.item()  # ridgeline: ignore[hidden-sync]\n"
    b = _loop()
    assert [f for f in find(b.context()) if f.code == "hidden-sync"]
    assert not [f for f in find(b.context(sources={"train.py": text})) if f.code == "hidden-sync"]
