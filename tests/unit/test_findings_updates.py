"""An optimizer of the program's own that goes over its parameters: its line, what updating them together leaves."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules.single_tensor_optimizer import CPU_LOUD_PCT, OPS_PER_STEP
from ridgeline.findings.updates import HOST_PART, KEPT, KEPT_NEW, KERNEL_US, MOST, SMALL, together
from ridgeline.profile import Finding

STEPS = 2


def _own(
    parameters: int,
    *,
    helper: bool = True,
    at: tuple[int, ...] = (23, 24, 25),
    op_us: float = 3.0,
    numbers: int = 64,
    rest: float = 500.0,
    names: tuple[str, ...] = ("aten::mul_", "aten::addcmul_", "aten::add_"),
    stopped_us: float = 0.0,
) -> TraceBuilder:
    """train.py:90 calls PSGLD.step, which at opt.py:33 calls a helper of three statements for each parameter (or has these three
    itself); 1 µs of Python after each operation. ``stopped_us``: one operation takes so much longer."""
    b = TraceBuilder()
    t = 0.0
    for _ in range(STEPS):
        b.op("aten::addmm", t + 1, rest - 5)
        begin = u = t + rest
        lines: list[tuple[float, float, int]] = []
        for parameter in range(parameters):
            start = u
            for line, name in zip(at, names):
                took = op_us + (stopped_us if (parameter, line) == (7, at[0]) else 0.0)
                b.op(name, u + 0.2, took, dims=[[numbers]], types=["float"])
                lines.append((u, u + took + 0.8, line))
                u += took + 1
            if helper:
                lines.append((start, u - 0.2, 33))  # then the head of the loop
        b.line(begin - 2, u + 2, "train.py", 90, "opt.step()")
        for lo, hi, line in sorted(lines, key=lambda x: (x[0], -x[1])):
            b.line(lo, hi, "opt.py", line)
        b.range("Optimizer.step#PSGLD.step", begin - 1, u - begin + 1)
        b.step(t, u + 2 - t)
        t = u + 10
    return b


def _found(b: TraceBuilder) -> list[Finding]:
    return [f for f in find(b.context()) if f.code == "single-tensor-optimizer"]


def test_the_statement_of_its_step_within_which_all_of_it_happens() -> None:
    (finding,) = _found(_own(30))
    assert (finding.file, finding.line, finding.severity) == ("opt.py", 33, "information")
    assert "PSGLD.step goes over its parameters one by one: 90 operations" in finding.message
    assert "torch._foreach_*" in finding.message
    assert finding.evidence["times_round"] == 30.0
    assert {r["line"] for r in finding.evidence["related"]} == {23, 24, 25}


def test_a_loop_that_is_written_out_is_found_where_most_of_its_time_goes() -> None:
    (finding,) = _found(_own(30, helper=False))
    assert (finding.file, finding.line) == ("opt.py", 23)
    assert {r["line"] for r in finding.evidence["related"]} == {24, 25}


@pytest.mark.parametrize(("at", "line"), [((23, 23, 24), 23), ((23, 24, 25), 33)])
def test_one_statement_with_more_than_half_of_it(at: tuple[int, ...], line: int) -> None:
    assert MOST == 0.5
    (finding,) = _found(_own(30, at=at))
    assert finding.line == line


def test_of_small_tensors_a_part_of_what_operations_cost_besides_is_saved() -> None:
    (finding,) = _found(_own(30))
    assert 1.0 / finding.evidence["assumed_speedup"] == pytest.approx(KEPT, abs=0.01)
    assert finding.saving_us == pytest.approx(30 * 3 * 4.0 * (1 - KEPT), rel=0.01)


@pytest.mark.parametrize(("numbers", "saves"), [(SMALL, True), (SMALL + 1, False)])
def test_of_large_tensors_nothing_is(numbers: int, saves: bool) -> None:
    found = _found(_own(30, numbers=numbers))
    assert bool(found and found[0].saving_us) == saves


def test_what_the_operations_compute_stays() -> None:
    """A hundred times what one costs besides: 5 µs is the most that is taken for that."""
    found = _found(_own(30, op_us=500.0))
    assert not found or found[0].severity == "hint"


@pytest.mark.parametrize(("share", "severity"), [(CPU_LOUD_PCT - 0.3, "hint"), (CPU_LOUD_PCT + 0.3, "information")])
def test_loud_only_where_it_is_a_real_part_of_the_step(share: float, severity: str) -> None:
    saved = 30 * 3 * 4.0 * (1 - KEPT)
    rest = 100.0 * saved / share - 30 * 3 * 4.0
    (finding,) = _found(_own(30, rest=rest))
    assert finding.severity == severity
    assert finding.step_gain_pct == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(("parameters", "expected"), [(OPS_PER_STEP // 3, 0), (OPS_PER_STEP // 3 + 1, 1)])
def test_so_many_operations_at_the_edge(parameters: int, expected: int) -> None:
    assert len(_found(_own(parameters, rest=50.0))) == expected


def test_one_that_takes_them_as_lists_is_left_alone() -> None:
    assert not _found(_own(30, names=("aten::_foreach_mul_",) * 3))


def test_without_a_timeline_it_is_a_hint_at_the_call() -> None:
    context = _own(30).context()
    context.attribution.host_stays = None
    (finding,) = [f for f in find(context) if f.code == "single-tensor-optimizer"]
    assert (finding.severity, finding.saving_us) == ("hint", None)


@pytest.mark.parametrize(("took", "left"), [(2.0, 1 / 50), (KERNEL_US, 1 / 50), (30.0, (27 + 3 / 50) / 30)])
def test_on_a_device_kernels_still_go_over_all_memory(took: float, left: float) -> None:
    b = TraceBuilder()
    b.step(0.0, 5000.0)
    for i in range(50):
        b.op("aten::mul_", 10.0 + 20 * i, 15)
        b.kernel("elementwise", 15.0 + 35 * i, took, launched=12.0 + 20 * i)
    facts = Facts(b.context())
    change = together(facts, [(facts.host_thread, 5.0, 1500.0)], 50)
    assert change.host_part == HOST_PART
    assert len(change.merged) == 50
    assert list(change.merged.values()) == pytest.approx([left] * 50)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("aten::mul_", "aten::addcmul_", "aten::add_"), 3 * KEPT),
        (("aten::mul_", "aten::sqrt", "aten::add_"), 2 * KEPT + KEPT_NEW),
        (("aten::sqrt", "aten::mul", "aten::add"), 2 * KEPT_NEW),  # a product with a number that is added
        (("aten::reciprocal", "aten::mul", "aten::mul_"), KEPT_NEW + KEPT),  # one over it
        (("aten::mul", "aten::sqrt", "aten::add_"), KEPT + 2 * KEPT_NEW),
        (("aten::randn_like", "aten::mul_", "aten::add_"), 1 + 2 * KEPT),  # no foreach function makes random numbers
    ],
)
def test_what_stays_of_operations_that_make_a_tensor(names: tuple[str, ...], kept: float) -> None:
    (finding,) = _found(_own(30, names=names))
    assert 1.0 / finding.evidence["assumed_speedup"] == pytest.approx(kept / 3, abs=0.01)


def test_a_moment_in_which_another_program_had_the_core_is_no_computing() -> None:
    (finding,) = _found(_own(30, stopped_us=4000.0))
    assert 1.0 / finding.evidence["assumed_speedup"] == pytest.approx(KEPT, abs=0.01)
