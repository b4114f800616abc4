"""Mends as edits: what they turn a program into, and where they keep their hands off."""

from __future__ import annotations

import ast
from pathlib import Path

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


GAN = """import torch
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
self.opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4)
opt_g.step()
self.opt_d.step()
other.step()
"""


@pytest.mark.parametrize(("line", "made"), [(4, 2), (5, 3)])
def test_of_two_optimizers_the_one_that_the_line_steps(line: int, made: int) -> None:
    mended = apply(GAN, edits("fused-optimizer", GAN, line)).splitlines()
    assert mended[made - 1].endswith("lr=2e-4, fused=True)")
    assert sum("fused" in row for row in mended) == 1


def test_which_of_two_optimizers_is_not_guessed() -> None:
    assert edits("fused-optimizer", GAN, 6) == []


def test_a_cast_is_no_copy_to_make_asynchronous() -> None:
    text = "x = x.to(device).to(torch.bfloat16)"
    assert apply(text, edits("non-blocking", text, 1)) == "x = x.to(device, non_blocking=True).to(torch.bfloat16)"
    assert edits("non-blocking", "x = x.to(torch.float32)", 1) == []


# -- on real programs, at every line: the result is a program, and nothing but the mend has changed ----------------------

PROGRAMS = sorted(Path(__file__).parents[1].glob("seeded/*/*.py")) + sorted(
    Path(__file__).parents[2].glob("examples/*.py")
)
KEYWORDS = {
    "zero-grad-set-to-none": {"set_to_none"},
    "pin-memory": {"pin_memory", "non_blocking"},
    "non-blocking": {"non_blocking"},
    "fused-optimizer": {"fused"},
}


class _Without(ast.NodeTransformer):
    """A program without what a mend may add or take away."""

    def __init__(self, mend: str) -> None:
        self.mend = mend

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if k.arg not in KEYWORDS.get(self.mend, set())]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        self.generic_visit(node)
        if self.mend == "matmul-precision-high" and "set_float32_matmul_precision" in ast.unparse(node):
            return None
        return node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if self.mend == "label-block" and "record_function" in ast.unparse(node.items[0]) else node


WORDS = {
    "zero-grad-set-to-none": ("zero_grad",),
    "pin-memory": (".to(", ".cuda("),
    "non-blocking": (".to(", ".cuda("),
    "fused-optimizer": (".step(",),
    "matmul-precision-high": ("import torch",),
    "label-block": (" = ", "for ", "if ", "def ", "elif ", "@"),
}


def _lines(mend: str, text: str) -> list[int]:
    """Lines on which a finding with the mend may stand, and some others."""
    rows = text.split("\n")
    return [n for n, row in enumerate(rows, 1) if n % 16 == 0 or any(word in row for word in WORDS[mend])]


def _core(text: str, mend: str) -> str:
    return ast.dump(_Without(mend).visit(ast.parse(text)))


@pytest.mark.parametrize("mend", sorted(TITLES))
def test_on_real_programs_nothing_but_the_mend_changes(mend: str) -> None:
    changed = 0
    for path in PROGRAMS:
        text = path.read_text(encoding="utf-8")
        before = _core(text, mend)
        seen: set[tuple[Edit, ...]] = set()
        for line in _lines(mend, text):
            changes = edits(mend, text, line)
            if not changes or tuple(changes) in seen:
                continue
            seen.add(tuple(changes))
            mended = apply(text, changes)
            assert mended != text
            assert _core(mended, mend) == before, f"{path.name}:{line}"
            changed += 1
    assert changed >= 3, "the mend must have been tried"


@pytest.mark.parametrize("mend", sorted(set(TITLES) - {"label-block"}))
def test_a_mended_program_is_not_mended_again(mend: str) -> None:
    for path in PROGRAMS[::4]:
        text = path.read_text(encoding="utf-8")
        for line in _lines(mend, text):
            changes = edits(mend, text, line)
            if changes:
                assert not edits(mend, apply(text, changes), line), f"{path.name}:{line}"


def test_a_mend_that_changes_numerics_says_so() -> None:
    assert [name for name, title in TITLES.items() if "changes numerics" in title] == ["matmul-precision-high"]
