"""Loops over parameters that are no optimizer's: moving averages, clipping, decay."""

from __future__ import annotations

import ast

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.parameter_text import parameter_loops
from ridgeline.findings.rules.single_tensor_optimizer import CPU_LOUD_PCT, OPS_PER_STEP
from ridgeline.findings.updates import KEPT
from ridgeline.profile import Finding

TEXT = """def update(student, teacher, decay):
    for p, q in zip(student.parameters(), teacher.parameters()):
        q.mul_(decay)
        q.add_(p, alpha=1 - decay)
"""
NAMES = ("aten::mul_", "aten::add_")


def _average(
    rounds: int = 30, *, names: tuple[str, ...] = NAMES, text: str = TEXT, rest: float = 500.0, between: bool = False
) -> list[Finding]:
    """train.py:9 calls a function whose loop of two statements goes round so often, 3 µs an operation and 1 µs of Python after it;
    ``between``: half-way something else is computed."""
    b = TraceBuilder()
    for k in range(3):
        t = u = 10_000.0 * k
        b.op("aten::addmm", t + 1, rest - 5)
        u = t + rest
        b.line(u - 2, u + rounds * len(names) * 4.0 + 100, "train.py", 9, "update(net, teacher, 0.99)")
        for i in range(rounds):
            if between and i == rounds // 2:
                b.line(u, u + 10, "train.py", 10, "loss = net(x)")
                b.op("aten::addmm", u + 1, 8)
                u += 11
            for line, name in enumerate(names, 3):
                b.line(u, u + 3.8, "average.py", line)
                b.op(name, u + 0.2, 3.0, dims=[[64]], types=["float"])
                u += 4.0
        b.step(t, u - t + 1)
    return [f for f in find(b.context(sources={"average.py": text})) if f.code == "single-tensor-optimizer"]


def test_a_moving_average() -> None:
    (finding,) = _average()
    assert (finding.file, finding.line, finding.severity) == ("average.py", 3, "information")
    assert finding.title == "A loop over parameters updates one tensor after another"
    assert "This loop goes over parameters one by one: 60 operations" in finding.message
    assert finding.saving_us == pytest.approx(60 * 4.0 * (1 - KEPT), rel=0.02)
    assert [r["line"] for r in finding.evidence["related"]] == [4]


@pytest.mark.parametrize(("rounds", "expected"), [(OPS_PER_STEP // 2 - 1, 0), (OPS_PER_STEP // 2, 1)])
def test_so_many_operations_at_the_edge(rounds: int, expected: int) -> None:
    assert len(_average(rounds, rest=100.0)) == expected


def test_so_many_of_them_with_nothing_else_between() -> None:
    assert not _average(OPS_PER_STEP // 2, rest=100.0, between=True), "a loop in a loop: the outer one is the matter"


@pytest.mark.parametrize(("share", "severity"), [(CPU_LOUD_PCT - 0.3, "hint"), (CPU_LOUD_PCT + 0.3, "information")])
def test_loud_only_where_it_is_a_real_part_of_the_step(share: float, severity: str) -> None:
    rest = 100.0 * 60 * 4.0 * (1 - KEPT) / share - 60 * 4.0
    (finding,) = _average(rest=rest)
    assert finding.severity == severity


@pytest.mark.parametrize(
    "names",
    [("aten::norm", "aten::item"), ("aten::zero_", "aten::zero_"), ("aten::addmm", "aten::add_"), ("aten::_foreach_mul_",) * 2],
    ids=["waits for each", "zeroes gradients", "has products", "takes lists"],
)  # fmt: skip
def test_what_others_speak_of(names: tuple[str, ...]) -> None:
    assert not _average(names=names)


def test_a_loop_over_something_else() -> None:
    assert not _average(text=TEXT.replace("student.parameters()", "xs").replace("teacher.parameters()", "ys"))


@pytest.mark.parametrize(
    ("over", "is_one"),
    [
        ("model.parameters()", True),
        ("model.named_parameters()", True),
        ("zip(a.parameters(), shadow)", True),
        ("list(model.buffers())", True),
        ("enumerate(self.held)", True),
        ("[p for p in model.parameters() if p.grad is not None]", True),
        ("group['params']", True),
        ("teacher.state_dict().items()", True),
        ("chain(a.parameters(), b.parameters())", True),
        ("model.layers", False),
        ("range(len(params))", False),
        ("parameters()", False),
        ("group['lr']", False),
        ("zip(xs, ys)", False),
    ],
)
def test_which_loops_go_over_parameters(over: str, is_one: bool) -> None:
    text = (
        f"self.held = [p for p in m.parameters()]\nfor x in {over}:\n    x.mul_(2)\n    x.add_(\n        1)\nxs = 1\n"
    )
    found = parameter_loops(ast.parse(text))
    assert [(loop.first, loop.last) for loop in found] == ([(3, 5)] if is_one else [])
