"""What a method or property returns is a constant in the others of its class; sizes that constructors get are numbers."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ridgeline.findings.constant_text import constants
from ridgeline.findings.numbers import functions, numbers_of

GRID = """
import torch
class Grid(nn.Module):
    def __init__(self, rows, columns, waves, x=None):
        super().__init__()
        self.rows, self.columns, self.other = rows, columns, x
        self.register_buffer("waves", waves)

    def _points(self{parameters}):
        lat = torch.arange(self.rows) / self.rows
        lon = torch.arange(self.columns) / self.columns
        lat, lon = torch.meshgrid(lat, lon, indexing="ij")
        return {returned}

    @property
    def features(self):
        with torch.no_grad():
            phase = self._points({given}) @ self.waves
            table = torch.cat([phase.sin(), phase.cos()], dim=-1)
            return table.permute(2, 0, 1)

    def forward(self, x):
        y = self.features.unsqueeze(0) * 2
        return x + self.features
{more}
"""


def _known(text: str) -> list[int]:
    tree = ast.parse(text)
    return sorted(c.statement.lineno for c in constants(tree) if c.known)


STACK = "torch.stack([lat, lon], dim=-1)"


@pytest.mark.parametrize(
    ("returned", "parameters", "given", "more", "expected"),
    [
        (STACK, "", "", "", True),
        (f"{STACK} * self.other", "", "", "", False),
        (f"{STACK} + torch.randn(2)", "", "", "", False),
        (f"self._points() + {STACK}", "", "", "", False),
        (STACK, ", x", "x", "", False),
        (f"{STACK}\n        yield 1", "", "", "", False),
        (STACK, "", "", "class Sphere(Grid):\n    def _points(self):\n        return self.other\n", False),
        (
            STACK,
            "",
            "",
            "class A(Grid): pass\nclass Sphere(A):\n    def _points(self):\n        return self.other\n",
            False,
        ),
        (STACK, "", "", "class Sphere(Other):\n    def _points(self):\n        return self.other\n", True),
        (STACK, "", "", "grid._points = lambda: x\n", False),
        (STACK, "", "", "grid.waves.mul_(2)\n", False),
    ],
)
def test_what_a_method_returns(returned: str, parameters: str, given: str, more: str, expected: bool) -> None:
    text = GRID.format(returned=returned, parameters=parameters, given=given, more=more)
    lines = text.splitlines()
    chain = [
        k + 1 for k, line in enumerate(lines) if line.strip().startswith(("phase =", "table =", "return table", "y ="))
    ]
    assert [line for line in _known(text) if line in chain] == (chain if expected else [])


def test_what_is_a_size_of_a_constructor_is_a_number() -> None:
    text = textwrap.dedent("""
        class Net:
            def __init__(self, rows, columns, scale, depth, given):
                self.rows, self.columns, self.scale, self.depth = rows, columns, scale, depth
                self.given = given
            def forward(self, x):
                at = torch.arange(self.rows, device=self.given)
                grid = torch.ones((self.columns, 2)) * self.scale
                self.depth = 4
                return torch.eye(self.depth)
    """)
    (found,) = [(f, c) for f, c in functions(ast.parse(text)) if f.name == "forward"]
    assert numbers_of(*found) == {"self.rows", "self.columns"}
