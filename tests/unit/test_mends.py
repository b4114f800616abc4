"""Mends as edits: what they turn a program into, and where they keep their hands off."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.mends import TITLES, Edit, edits


def apply(source: str, changes: list[Edit]) -> str:
    lines = source.split("\n")
    starts = [0]
    for row in lines:
        starts.append(starts[-1] + len(row) + 1)
    for edit in sorted(changes, reverse=True):
        lo, hi = starts[edit.line - 1] + edit.column, starts[edit.end_line - 1] + edit.end_column
        source = source[:lo] + edit.text + source[hi:]
    return source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("opt.zero_grad(set_to_none=False)", "opt.zero_grad()"),
        ("über.zero_grad(set_to_none = False)", "über.zero_grad()"),
        ("m.zero_grad(a, set_to_none=False)", "m.zero_grad(a)"),
        ("m.zero_grad(set_to_none=False, b=1)", "m.zero_grad(b=1)"),
    ],
)
def test_set_to_none_is_dropped(before: str, after: str) -> None:
    assert apply(before, edits("zero-grad-set-to-none", before, 1)) == after


@pytest.mark.parametrize(
    "text", ["opt.zero_grad()", "opt.zero_grad(set_to_none=flag)", "opt.zero_grad(set_to_none=True)"]
)
def test_other_calls_of_zero_grad_are_left(text: str) -> None:
    assert edits("zero-grad-set-to-none", text, 1) == []


LOADER = """from torch.utils.data import DataLoader
loader = DataLoader(
    data,
    batch_size=8,
)
for x, y in loader:
    x = x.to(device)
    y = y.to(device, non_blocking=True)
"""


def test_pinned_memory_takes_both_halves() -> None:
    mended = apply(LOADER, edits("pin-memory", LOADER, 7))
    assert "batch_size=8, pin_memory=True,\n" in mended
    assert "x = x.to(device, non_blocking=True)\n    y = y.to(device, non_blocking=True)" in mended
    ast.parse(mended)


def test_two_loaders_are_one_too_many() -> None:
    assert edits("pin-memory", LOADER + "other = DataLoader(data)\n", 7) == []


def test_an_optimizer_becomes_fused() -> None:
    text = "opt = torch.optim.AdamW(model.parameters(), lr=1e-3)\nopt.step()\n"
    assert apply(text, edits("fused-optimizer", text, 2)).startswith(
        "opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "opt = AdamW(p, foreach=False)\nopt.step()",
        "a, b = SGD(p), SGD(q)\na.step()",
        "opt = AdamW(**options)\nopt.step()",
    ],
)
def test_optimizers_that_somebody_thought_about_are_left(text: str) -> None:
    assert edits("fused-optimizer", text, 2) == []


def test_precision_goes_below_the_imports() -> None:
    text = '"""Doc."""\nimport torch\nfrom torch import nn\n\nx = 1\n'
    mended = apply(text, edits("matmul-precision-high", text, 5))
    assert mended.index("set_float32_matmul_precision") > mended.index("from torch import nn")
    ast.parse(mended)
    assert edits("matmul-precision-high", mended, 5) == []


def test_a_block_is_labelled() -> None:
    text = "def f(x):\n    if x:\n        y = model(x)\n    return y\n"
    mended = apply(text, edits("label-block", text, 3))
    assert '        with torch.profiler.record_function("y = model(x)"):\n            y = model(x)\n' in mended
    ast.parse(mended)


def test_a_string_over_several_lines_is_not_indented() -> None:
    assert edits("label-block", 'x = f("""a\nb""")\n', 1) == []


def test_text_that_does_not_parse_gets_no_edit() -> None:
    assert all(edits(mend, "def (", 1) == [] for mend in TITLES)


@given(st.sampled_from(sorted(TITLES)), st.text(max_size=60), st.integers(-2, 5))
def test_any_text_is_survived(mend: str, text: str, line: int) -> None:
    edits(mend, text, line)
