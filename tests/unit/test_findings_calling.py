"""Which statement stands for a token: the one that the program comes to once for each, not a layer."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.calling import Calling
from ridgeline.findings.facts import Facts
from ridgeline.profile import Finding


def _texts(layers: int, *, enters: bool = False, tokens: int = 12) -> TraceBuilder:
    """Two texts of so many tokens: serve.py:9 asks, model.py:5 goes over layers, each of which begins at layer.py:3."""
    b = TraceBuilder()
    for text in range(2):
        for k in range(tokens):
            t = 1000.0 * (text * tokens + k)
            b.line(t, t + 900, "serve.py", 9, "logits = self.decode(prefix[:, :end])")
            b.line(t + 901, t + 950, "serve.py", 10, "ids[:, n] = logits.argmax(-1)")
            if enters:
                b.line(t + 5, t + 40, "model.py", 2, "x = self.words(ids)")
                b.op("aten::embedding", t + 10, 20, dims=[[500, 64], [4, 48 + k]], types=["float", "long int"])
            for layer in range(layers):
                u = t + 50 + 100 * layer
                b.line(u, u + 90, "model.py", 5, "x = block(x)")
                b.line(u + 1, u + 60, "layer.py", 3, "q = self.qkv(x)")
                b.op("aten::linear", u + 5, 40, dims=[[4, 48 + k, 64], [64, 64]], types=["float"] * 2)
                b.line(u + 61, u + 89, "layer.py", 4, "return x + self.mlp(x)")
    return b


def _decode(b: TraceBuilder) -> Finding:
    (finding,) = [f for f in find(b.context()) if f.code == "token-decode"]
    return finding


def test_the_loop_that_asks_for_tokens_not_its_layers() -> None:
    finding = _decode(_texts(3))
    assert (finding.file, finding.line) == ("serve.py", 9)


def test_one_layer_is_come_to_once_a_token() -> None:
    finding = _decode(_texts(1))
    assert (finding.file, finding.line) == ("serve.py", 9)
    assert finding.evidence["related"] == [{"file": "layer.py", "line": 3, "text": "the text enters the model"}]


def test_where_the_text_enters_the_model_once_a_token() -> None:
    finding = _decode(_texts(3, enters=True))
    assert (finding.file, finding.line) == ("serve.py", 9)
    assert "It enters the model at model.py:2." in finding.message


def test_who_takes_tokens_from_a_generator_does_not_hand_the_text_over() -> None:
    """app.py:3 goes over what serve.py yields: it is come to once a token as well."""
    b = TraceBuilder()
    for k in range(12):
        t = 1000.0 * k
        b.line(t, t + 900, "app.py", 3, "for token in stream(prompt):")
        b.line(t + 1, t + 890, "serve.py", 3, "logits = model(ids)")
        b.line(t + 5, t + 40, "model.py", 2, "x = self.words(ids)")
        b.op("aten::embedding", t + 10, 20, dims=[[500, 64], [4, 48 + k]], types=["float", "long int"])
        b.line(t + 901, t + 990, "app.py", 4, "send(token)")
    texts = {
        "serve.py": "def stream(ids):\n    while True:\n        logits = model(ids)\n        yield logits\n",
        "model.py": "def forward(self, ids):\n    x = self.words(ids)\n",
        "app.py": "def main():\n\n    for token in stream(prompt):\n        send(token)\n",
    }
    (finding,) = [f for f in find(b.context(sources=texts)) if f.code == "token-decode"]
    assert (finding.file, finding.line) == ("serve.py", 3)


@pytest.mark.parametrize("rounds", [[], [0]])
def test_of_one_round_nothing_is_said(rounds: list[int]) -> None:
    assert Calling(Facts(_texts(2).context())).once_in(rounds) == []


def test_without_a_timeline_nothing_is_known() -> None:
    context = _texts(2).context()
    context.attribution.host_stays = None
    assert Calling(Facts(context)).once_in([0, 1]) == []
    assert next(f for f in find(context) if f.code == "token-decode").line == 3
