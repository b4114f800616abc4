"""Names that are assigned more than once, and what is made of them."""

from __future__ import annotations

import ast

import pytest

from ridgeline.findings.constant_text import constants

HEAD = "import torch\ndef bank(x, n: int, k: int):\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # One after the other in one block.
        (
            ["edge = torch.linspace(0, 1, n)", "edge = edge.exp() - 1", "table = torch.minimum(edge, edge[:1])"],
            [3, 4, 5],
        ),
        (["for _ in x:", "    at = torch.arange(n)", "    at = at * 2", "    y = at + at"], [4, 5, 6]),
        # In between it is something else.
        (["edge = torch.linspace(0, 1, n)", "edge = edge * x", "table = edge + edge"], [3]),
        (["edge = torch.linspace(0, 1, n)", "a = edge + edge", "edge = x", "b = edge + edge"], [3, 4]),
        # Carried from round to round, or from a branch.
        (["w = torch.ones(n)", "for _ in x:", "    w = w * 0.9", "    y = w + w"], [3]),
        (["w = torch.ones(n)", "if k:", "    w = x", "y = w + w"], [3]),
        (["w = torch.ones(n)", "for w in x:", "    pass", "y = w + w"], [3]),
        (["w = torch.ones(n)", "w += x", "w = w * 2"], []),
    ],
)
def test_a_name_that_is_assigned_again(lines: list[str], found: list[int]) -> None:
    tree = ast.parse(HEAD + "".join(f"    {line}\n" for line in lines))
    assert [c.statement.lineno for c in constants(tree) if c.known] == found


SETTINGS = """
import torch
from dataclasses import dataclass

@dataclass
class Settings:
    bins: int = 96
    rate: float = 8.0
    weights: torch.Tensor = None

class Front(torch.nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings
        self.q = 1.0 / settings.rate

    def atoms(self):
        c = self.settings
        freqs = c.rate * 2.0 ** (torch.arange(c.bins) / self.settings.bins)
        length = (self.q * c.rate / freqs)[:, None]
        other = length * c.weights
        return length
"""


def test_settings_that_are_declared_as_numbers_are_numbers() -> None:
    found = {c.statement.lineno: c.known for c in constants(ast.parse(SETTINGS))}
    assert found == {19: True, 20: True, 22: True}
    written = SETTINGS + "\ndef warm(settings):\n    settings.rate = torch.rand(3)\n"
    assert 19 not in {c.statement.lineno for c in constants(ast.parse(written)) if c.known}
    twice = SETTINGS + "\nclass Batch:\n    rate: torch.Tensor\n"
    assert 19 not in {c.statement.lineno for c in constants(ast.parse(twice)) if c.known}
