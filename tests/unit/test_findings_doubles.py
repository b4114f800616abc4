"""Where double precision enters a step, and what makes it: the recording's part and the text's."""

from __future__ import annotations

import ast

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.double_text import makers
from ridgeline.findings.rules.float64 import LOOPED, MIN_ELEMENTS
from ridgeline.profile import Finding

TEXT = """import numpy as np
import torch
from torch import nn
class Loss(nn.Module):
    def __init__(self, weights):
        self.register_buffer("prior", torch.from_numpy(weights))
    def forward(self, x, y):
        x = x * self.prior
        z = x.exp()
        return (z - y).sum()
"""
BIG = [64, 64]


def _float64(b: TraceBuilder, text: str = TEXT) -> Finding:
    (finding,) = [f for f in find(b.context(sources={"loss.py": text})) if f.code == "float64"]
    return finding


def _step(b: TraceBuilder, k: int, *ops: tuple[int, str, float, list[object], list[str]]) -> None:
    """One step of 1000 µs; each operation (line, name, µs, dims, types) at its line, 2 µs after the one before."""
    t = 1000.0 * k
    b.step(t, 1000.0)
    at = t + 5
    for line, name, dur, dims, types in ops:
        b.line(at, at + dur + 1, "loss.py", line)
        b.op(name, at, dur, dims=dims, types=types)
        at += dur + 2


def _meets(
    line: int, dur: float = 20, shape: list[int] | None = None
) -> tuple[int, str, float, list[object], list[str]]:
    return line, "aten::mul", dur, [BIG, shape or BIG], ["float", "double"]


def test_the_statement_at_which_they_enter_not_the_one_with_the_most_time() -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(
            b,
            k,
            _meets(8),
            (9, "aten::exp", 400, [BIG], ["double"]),
            (10, "aten::sub", 30, [BIG, BIG], ["double", "float"]),
        )
    finding = _float64(b)
    assert finding.line == 8, "what meets float32 at line 10 is what was made of line 8"
    assert "they enter here, by what loss.py:6 makes; most of the time goes into loss.py:9" in finding.message
    assert "Make the tensor float32 at loss.py:6" in finding.message
    assert finding.evidence["enters"] == {"file": "loss.py", "line": 8}
    assert [r["line"] for r in finding.evidence["related"]][:2] == [6, 9]


def test_of_two_statements_that_cost_the_same_the_first() -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(b, k, _meets(8, 100), (10, "aten::sub", 100, [BIG, BIG], ["double", "float"]))
    assert _float64(b).line == 8


@pytest.mark.parametrize(("times", "line"), [(LOOPED - 1, 8), (LOOPED, 6)])
def test_a_tensor_that_a_loop_uses_is_to_be_changed_where_it_is_made(times: int, line: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        again = [(8, "aten::mul", 20.0, [BIG, BIG], ["double", "double"])] * (times - 1)
        _step(b, k, _meets(8), *again)
    finding = _float64(b)
    assert finding.line == line
    assert finding.evidence["threshold_uses"] == LOOPED
    if line == 6:
        assert "the tensor that brings them is made here; it meets float32 at loss.py:8" in finding.message
        assert finding.evidence["related"][0] == {"file": "loss.py", "line": 8, "text": "meets float32"}


def test_a_tensor_that_enters_at_two_statements_is_to_be_changed_where_it_is_made() -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(b, k, _meets(8, shape=[1, 64]), (9, "aten::exp", 90, [BIG], ["double"]), _meets(10, shape=[1, 64]))
    assert _float64(b).line == 6
    assert _float64(b, "x = 1\n").line == 8, "where the text does not tell, where it enters first"


def test_a_small_thing_in_double_precision_before_the_real_one() -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(
            b, k, _meets(2, shape=[1, 64]), (3, "aten::mean", 5, [BIG], ["double"]),
            _meets(8, shape=[64, 1, 64]), (9, "aten::exp", 400, [[64, 64, 64]], ["double"]),
        )  # fmt: skip
    assert _float64(b).line == 8


def test_the_backward_pass_goes_with_its_statement() -> None:
    """It runs last and has the most time, on the line of its forward operation."""
    b = TraceBuilder()
    for k in range(4):
        _step(
            b, k, _meets(8), (9, "aten::exp", 60, [BIG], ["double"]), (9, "aten::mul", 500, [BIG, BIG], ["double"] * 2)
        )
    assert _float64(b).line == 8


@pytest.mark.parametrize(("code", "line"), [("7", 8), ("6", 9)])
def test_a_conversion_that_is_asked_for(code: str, line: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        _step(b, k, (9, "aten::exp", 400, [BIG], ["double"]))
        b.line(t + 1, t + 4, "loss.py", 8)
        b.op("aten::_to_copy", t + 2, 1, dims=[BIG, []], types=["float", "Scalar"], concrete=["", code])
    assert _float64(b).line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [("w = self.window.double()", 8), ("w = self.window.to(wave.dtype)", 9), ("w = self.window.type_as(wave)", 9)],
)
def test_a_conversion_to_the_type_of_another_tensor_brings_nothing(text: str, line: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        _step(b, k, (9, "aten::exp", 400, [BIG], ["double"]))
        b.line(t + 1, t + 4, "loss.py", 8, text)
        b.op("aten::_to_copy", t + 2, 1, dims=[BIG, []], types=["float", "Scalar"], concrete=["", "7"])
    assert _float64(b).line == line


@pytest.mark.parametrize(("elements", "line"), [(MIN_ELEMENTS - 1, 9), (MIN_ELEMENTS, 8)])
def test_small_tables_make_nothing_of_note(elements: int, line: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(
            b, k, (8, "aten::lift_fresh", 1, [[elements]], ["double"]), (9, "aten::exp", 400, [BIG], ["double"])
        )  # fmt: skip
    assert _float64(b).line == line


def test_all_of_it_is_double_from_before() -> None:
    b = TraceBuilder()
    for k in range(4):
        _step(b, k, (8, "aten::mul", 20, [BIG, BIG], ["double"] * 2), (9, "aten::exp", 400, [BIG], ["double"]))
    finding = _float64(b)
    assert finding.line == 9
    assert "most of it here, of what loss.py:6 makes." in finding.message
    assert finding.evidence["enters"] is None


# -- the text --------------------------------------------------------------------------------------------------------


def _makers(text: str) -> list[int]:
    """Of the statement that is marked."""
    lines = text.splitlines()
    return makers(ast.parse(text), 1 + next(i for i, line in enumerate(lines) if "# here" in line))


HEAD = "import numpy as np\nimport torch\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("made", "known"),
    [
        ("torch.from_numpy(a)", True),
        ("torch.from_numpy(a)[None].to(device)", True),
        ("torch.tensor(np.ones(3))", True),
        ("torch.as_tensor(np.linspace(0, 1, 9))", True),
        ("torch.ones(3).double()", True),
        ("torch.zeros(3, dtype=torch.float64)", True),
        ("torch.ones(3).to(torch.double)", True),
        ("nn.Parameter(torch.from_numpy(a))", True),
        ("torch.from_numpy(a).float()", False),
        ("torch.from_numpy(a).to(device, torch.float32)", False),
        ("torch.from_numpy(a.astype(np.float32))", False),
        ("torch.from_numpy(np.zeros(3, dtype='float32'))", False),
        ("torch.tensor(np.ones(3), dtype=torch.float32)", False),
        ("torch.tensor([0.5, 1.0])", False),
        ("torch.from_numpy(a).argmax(0)", False),
        ("torch.from_numpy(a).to(x.dtype)", False),
    ],
)
@pytest.mark.parametrize("held", ["self.w = {}", 'self.register_buffer("w", {})', "w = self.w = {}"])
def test_what_an_object_holds(made: str, known: bool, held: str) -> None:
    text = f"{HEAD}class A:\n    def __init__(self, a, x):\n        {held.format(made)}\n    def f(self, x):\n        return x * self.w  # here\n"
    assert _makers(text) == ([6] if known else [])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def main(x):\n    w, v = torch.from_numpy(x), 2\n    return x * w  # here\n", [5]),
        ("def main(x):\n    w = torch.from_numpy(x)\n    def hook(y):\n        return y * w  # here\n", [5]),
        ("w = torch.from_numpy(np.ones(9))\ndef main(x):\n    return x * w  # here\n", [4]),
        ("def loss(x, w):\n    return x * w  # here\ndef main(a):\n    loss(a, torch.from_numpy(a))\n", [7]),
        ("def loss(x, w):\n    return x * w  # here\ndef main(a):\n    w = torch.from_numpy(a)\n    loss(a, w=w)\n", [7]),
        ("def table(a):\n    return torch.from_numpy(a)\ndef main(a):\n    w = table(a)\n    return a * w  # here\n", [5]),
        ("def main(x, i):\n    w = torch.from_numpy(x)[i]\n    w = w / w.sum(1)\n    return x * w  # here\n", [5]),
        ("def main(x):\n    w = torch.from_numpy(x).float()\n    return x * w  # here\n", []),
        ("def main(x):\n    a = np.ones(3, dtype=np.float32)\n    w = torch.from_numpy(a)\n    return x * w  # here\n", []),
        ("def main(x):\n    return x * torch.from_numpy(x)  # here\n", []),
        ("class A:\n    def __init__(self, w):\n        self.w = w\n    def f(self, x):\n        return x * self.w  # here\na = A(torch.from_numpy(q))\n", [9]),
    ],
    ids=["names", "a closure", "a global", "given", "given by name", "returned", "of itself", "cast", "single", "its own line", "given to a class"],
)  # fmt: skip
def test_what_names_stand_for(body: str, expected: list[int]) -> None:
    assert _makers(HEAD + body) == expected
