"""Constants on a device, whose steps lie later than the host's."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find, graph_needs
from ridgeline.findings.facts import Facts
from ridgeline.profile import Finding
from ridgeline.trace.tables import StepRow

TEXT = """import torch
class Bias:
    @property
    def table(self):
        place = torch.arange(64)
        return (place[:, None] - place[None, :]).float()
"""


def _ahead(*, layers: int = 3, ahead: float = 700.0, known: bool = True, odd: bool = False) -> TraceBuilder:
    """Six steps of the device of 1,000 µs; the host hands one over in 300 µs, as far ahead as ``ahead``, then waits. It makes the table for each
    layer (``odd``: once more in the third step)."""
    b = TraceBuilder()
    for k in range(6):
        handed, start = 300.0 * k, ahead + 1000.0 * k
        b.steps.append(
            StepRow(name=f"round {k}", start=start, dur=1000.0, asked=(handed, handed + 300.0) if known else None)
        )
        count = layers + (odd and k == 2)
        for i in range(count):
            t = handed + 60.0 * i
            b.line(t, t + 60, "net.py", 6, "return (place[:, None] - place[None, :]).float()")
            b.op("aten::sub", t + 5, 20, dims=[[64, 1], [1, 64]], types=["long int"] * 2)
            b.kernel("sub", start + 200.0 * i, 100.0, launched=t + 10)
        b.line(handed + 60.0 * count, handed + 300, "train.py", 9, "y = x @ w")
        b.op("aten::mm", handed + 60.0 * count + 5, 20, dims=[[64, 64], [64, 64]], types=["float"] * 2)
        b.kernel("gemm", start + 200.0 * count, 1000.0 - 200.0 * count, launched=handed + 60.0 * count + 10)
    return b


def _found(b: TraceBuilder) -> list[Finding]:
    return [f for f in find(b.context(sources={"net.py": TEXT})) if f.code == "constant-rebuilt"]


@pytest.mark.parametrize("ahead", [0.0, 700.0, 1300.0])
def test_what_the_host_does_is_counted_by_its_own_steps(ahead: float) -> None:
    (finding,) = _found(_ahead(ahead=ahead))
    assert finding.line == 6
    assert finding.evidence["operations_per_step"] == 3.0
    assert finding.evidence["device_us_per_step"] == pytest.approx(300.0)


def test_without_them_they_would_fall_into_other_steps() -> None:
    assert not _found(_ahead(known=False))


def test_once_more_in_one_step_is_not_the_same() -> None:
    assert not _found(_ahead(odd=True, layers=2))


def test_steps_of_the_host_where_some_are_not_known_are_the_devices() -> None:
    b = _ahead()
    facts = Facts(b.context())
    assert facts.host_steps[0] == (0.0, 300.0)
    assert len(facts.host_steps) == len(facts.steps) == 6
    b.steps[3].asked = None
    facts = Facts(b.context())
    assert facts.host_steps == facts.steps


@pytest.mark.parametrize(("small", "speaks"), [(67.0, 5), (66.0, 6), (10.0, 6)])
def test_the_statement_that_takes_the_device_longest_speaks(small: float, speaks: int) -> None:
    """Two statements, the first of which takes the host longer; the second runs 100 µs (two thirds of that is about as much)."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 60, "net.py", 5, "place = torch.arange(64)")
        b.op("aten::arange", t + 5, 50, dims=[[]], types=["Scalar"])
        b.kernel("arange", t + 100, small, launched=t + 10)
        b.line(t + 60, t + 90, "net.py", 6, "return (place[:, None] - place[None, :]).float()")
        b.op("aten::sub", t + 65, 20, dims=[[64, 1], [1, 64]], types=["long int"] * 2)
        b.kernel("sub", t + 100 + small, 100.0, launched=t + 70)
        b.line(t + 90, t + 990, "train.py", 9, "y = x @ w")
        b.op("aten::mm", t + 92, 20, dims=[[64, 64], [64, 64]], types=["float"] * 2)
        b.kernel("gemm", t + 200 + small, 700.0, launched=t + 95)
    (finding,) = _found(b)
    assert finding.line == speaks


@pytest.mark.parametrize(("reads", "expected"), [(False, 1), (True, 0)])
def test_a_size_that_a_tensor_held_is_none_of_the_texts_numbers(reads: bool, expected: int) -> None:
    b = _ahead()
    for k in range(6):
        handed = 300.0 * k
        b.line(handed + 30, handed + 60, "net.py", 6, "return (place[:, None] - place[None, :]).float()")
        b.op("aten::item" if reads else "aten::unsqueeze", handed + 30, 5, dims=[[]], types=["long int"])
    assert len(_found(b)) == expected


@pytest.mark.parametrize(("odd", "expected"), [(False, True), (True, False)])
def test_shapes_are_compared_by_the_hosts_steps_too(odd: bool, expected: bool) -> None:
    shapes = next(
        need for need in graph_needs.needs(Facts(_ahead(odd=odd, layers=2).context())) if need.name == "shapes"
    )
    assert shapes.has is expected
