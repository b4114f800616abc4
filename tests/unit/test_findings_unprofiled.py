"""What a CPU program computes without the recorder: new memory, the part of a step, doubles by the kind of operation."""

from __future__ import annotations

import numpy as np
import pytest

from builders import TraceBuilder
from ridgeline.findings import double_cost, find, overhead, spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.fresh import FAULT_US, LARGE, MOST_FAULT_US, PAGE, STAYS, computed
from ridgeline.sidecar import Sidecar, Window

STEPS, STEP = 4, 20_000.0
NUMBERS = 256 * PAGE // 4
"""Of a float tensor of 256 pages."""


def _program(numbers: int = NUMBERS, us: float = 1000.0, name: str = "aten::exp") -> TraceBuilder:
    """A step of one operation with a large result and one without, and nothing else."""
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.op(name, k * STEP, us, dims=[[numbers]], types=["float"])
        b.op("aten::mm", k * STEP + us, STEP - us, dims=[[64, 64], [64, 64]], types=["float", "float"])
    return b


def _facts(b: TraceBuilder, plain: float | None, sidecar: Sidecar | None = None) -> Facts:
    return Facts(b.context(plain_step_us=plain, sidecar=sidecar))


def test_what_recorded_steps_take_longer_is_their_new_memory() -> None:
    facts = _facts(_program(), STEP - 500.0 - 2 * overhead.OP_US)
    # Of the difference what writing down two operations costs is not memory's.
    memory = 500.0 + 2 * overhead.OP_US - 2 * overhead.OP_US * (1 - 1 / overhead.RECORDED)
    assert facts.fresh.of_op.sum() / STEPS == pytest.approx((1 - STAYS) * memory)
    assert np.count_nonzero(facts.fresh.of_op) == STEPS


def test_no_more_than_faults_take() -> None:
    facts = _facts(_program(us=5000.0), STEP - 4000.0)
    assert facts.fresh.of_op.sum() / STEPS == pytest.approx((1 - STAYS) * MOST_FAULT_US * 256)


@pytest.mark.parametrize(
    ("numbers", "us", "name", "new"),
    [
        (LARGE // 4, 1000.0, "aten::exp", True),
        (LARGE // 4 - 1, 1000.0, "aten::exp", False),
        (NUMBERS, FAULT_US * 256, "aten::exp", True),
        (NUMBERS, FAULT_US * 256 - 1, "aten::exp", False),
        (NUMBERS, 1000.0, "aten::exp_", False),
        (NUMBERS, 1000.0, "aten::index", False),
    ],
)
def test_an_operation_has_it_that_makes_a_large_block_and_takes_long_enough(
    numbers: int, us: float, name: str, new: bool
) -> None:
    assert bool(_facts(_program(numbers, us, name), STEP - 500.0).fresh.of_op.any()) is new


def test_one_in_which_another_program_had_the_core_has_no_new_memory_for_it() -> None:
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.op("aten::exp", k * STEP, 4000.0 if k == 1 else 100.0, dims=[[NUMBERS]], types=["float"])
        b.op("aten::mm", k * STEP + 5000.0, 9000.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
    assert not _facts(b, STEP - 9000.0).fresh.of_op.any()


def test_what_fills_a_new_tensor_is_a_part_of_what_makes_it() -> None:
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.op("aten::clone", k * STEP, STEP - 10, dims=[[NUMBERS]], types=["float"])
        b.op("aten::copy_", k * STEP + 5, 1000.0, dims=[[NUMBERS], [NUMBERS]], types=["float", "float"])
    facts = _facts(b, STEP - 900.0)
    assert {facts.op_name(r) for r in np.flatnonzero(facts.fresh.of_op).tolist()} >= {"aten::copy_"}


@pytest.mark.parametrize("plain", [None, STEP, 2 * STEP])
def test_without_a_shorter_unprofiled_step_all_is_as_recorded(plain: float | None) -> None:
    facts = _facts(_program(), plain)
    assert facts.fresh.share == 1.0
    assert not facts.fresh.of_op.any()
    assert computed(facts, facts.recorded) == pytest.approx(facts.base_us)


def test_what_is_computed_is_a_larger_share_of_the_unprofiled_step() -> None:
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.op(
            "aten::mm", k * STEP, 5000.0, dims=[[64, 64], [64, 64]], types=["float", "float"]
        )  # then Python, which is slowed
    facts = _facts(b, STEP / 2)
    assert facts.fresh.share == pytest.approx(2.0)
    part = spans.of((k * STEP, k * STEP + 6000.0) for k in range(STEPS))
    own = 1000.0 + overhead.OP_US
    assert computed(facts, part) / STEPS == pytest.approx(own + 2.0 * (5000.0 - overhead.OP_US))


@pytest.mark.parametrize(("running", "plain_running", "share"), [(1.0, 0.5, 2.0), (0.5, 1.0, 1.0), (0.8, 0.8, 1.25)])
def test_others_use_of_the_cores_counts_for_neither(running: float, plain_running: float, share: float) -> None:
    """A step of 20 ms, of which half was another program's, against one of 16."""
    window = Window(trace="t", reason="stable", running=running, plain_running=plain_running)
    plain = 0.8 * STEP if share != 2.0 else STEP
    facts = _facts(_program(numbers=64), plain, Sidecar(windows=[window]))
    assert facts.fresh.share == pytest.approx(share)


@pytest.mark.parametrize(("waited", "stretch"), [(0, None), (1, 1.1), (3, 1.3), (50, None)])
def test_that_others_had_the_core_in_one_of_few_operations_is_chance(waited: int, stretch: float | None) -> None:
    """One of four, of 4 ms for one; no more than was measured."""
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.op("aten::exp", k * STEP, 1000.0 + (4000.0 if k == 1 else 0.0), dims=[[64]], types=["float"])
        b.op("aten::mm", k * STEP + 6000.0, 9000.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
    window = Window(trace="t", reason="stable", ran_ns=10, waited_ns=waited)
    facts = _facts(b, None, Sidecar(windows=[window]))
    part = spans.of((k * STEP, k * STEP + (5000.0 if k == 1 else 1000.0)) for k in range(STEPS))
    computing = overhead.computing(facts, part)
    usual = STEPS * (1000.0 - overhead.OP_US)
    assert computing > usual
    expected = computing if stretch is None else usual * stretch
    assert computed(facts, part) == pytest.approx(8000.0 - computing + expected)


def test_own_time_of_operations_within_one_another() -> None:
    """Of the outer and the innermost of three, whose middle is another's."""
    b = TraceBuilder()
    b.step(0, 100)
    b.op("aten::mul", 0, 100, dims=[[64], [64]], types=["float", "double"])
    b.op("aten::to", 10, 60, dims=[[64]], types=["float"])
    b.op("aten::copy_", 20, 30, dims=[[64], [64]], types=["double", "float"])
    facts = Facts(b.context())
    rows = {facts.op_name(r): r for r in range(3)}
    both = np.array([rows["aten::mul"], rows["aten::copy_"]], dtype=np.int32)
    own = facts.self_spans(both)
    assert list(zip(own.start, own.end)) == [(0, 10), (20, 50), (70, 100)]


@pytest.mark.parametrize(
    ("name", "types", "left"),
    [
        ("aten::mul", ["double", "double"], double_cost.HALF),
        ("aten::mm", ["double", "double"], double_cost.HALF),
        ("aten::mul", ["float", "double"], double_cost.HALF),
        ("aten::mkldnn_convolution", ["double", "double"], double_cost.LITTLE),
        ("aten::gelu", ["double"], double_cost.LITTLE),
        ("aten::avg_pool2d", ["double"], 1.0),
        ("aten::where", ["bool", "double", "double"], 1.0),
        ("aten::copy_", ["double", "float"], 0.0),
        ("aten::copy_", ["float", "double"], 0.0),
        ("aten::copy_", ["double", "double"], double_cost.HALF),
    ],
)
def test_what_stays_of_an_operation_on_doubles(name: str, types: list[str], left: float) -> None:
    b = TraceBuilder()
    b.step(0, 2000)
    b.op(name, 0, 1000.0 + overhead.OP_US, dims=[[4096]] * len(types), types=types)
    facts = Facts(b.context())
    expected = left * 1000.0 + (overhead.OP_US if left else 0.0)
    assert double_cost.left(facts, 0, 1000.0 + overhead.OP_US) * (1000.0 + overhead.OP_US) == pytest.approx(expected)
    assert double_cost.left(facts, 0, overhead.OP_US) == (0.0 if left == 0.0 else 1.0)


def test_no_saving_is_said_to_be_above_what_the_thing_costs() -> None:
    b = TraceBuilder()
    for k in range(STEPS):
        b.step(k * STEP, STEP)
        b.line(k * STEP, k * STEP + 10_010, "model.py", 2, "y = x * w")
        b.op("aten::gelu", k * STEP, 10_000.0, dims=[[4096]], types=["double"])
    (finding,) = [f for f in find(b.context(plain_step_us=11_000.0)) if f.code == "float64"]
    assert finding.saving_us is not None
    assert finding.time_us is not None
    assert finding.saving_us == pytest.approx((10_000.0 - overhead.OP_US) * (1 - double_cost.LITTLE), rel=1e-3)
    assert finding.saving_us <= finding.time_us
    assert finding.step_gain_pct == pytest.approx(100.0 * finding.saving_us / 11_000.0, rel=1e-3)
