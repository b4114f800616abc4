"""Padding: the formulas' known values, the plans, and what the finding promises."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.padding import ALIGN, bounds, bucketed, packed_attention, useful
from ridgeline.findings.rules.padding import FLOOR, USEFUL_PCT, measure
from ridgeline.profile import Finding, Padding
from ridgeline.sidecar import Compile, LoaderInfo, Sidecar

LENGTHS = [120, 2048, 96, 310, 64, 180, 220, 90]


def test_known_values() -> None:
    share = useful([(LENGTHS, 2048)])
    assert 100 * share.linear == pytest.approx(19.1, abs=0.05)
    assert 100 * share.attention == pytest.approx(13.1, abs=0.05)


def test_thirty_per_cent_useful_wastes_seventy() -> None:
    lengths = [614] * 4 + [615] * 4
    assert 100 * (1 - useful([(lengths, 2048)]).linear) == pytest.approx(70.0, abs=0.05)


def test_the_models_maximum_counts_not_the_batchs_longest() -> None:
    assert useful([([100, 200], 400)]).linear == pytest.approx(300 / 800)


def test_packing_without_a_varlen_kernel_can_be_a_loss() -> None:
    assert packed_attention([([500] * 8, 512)]) == pytest.approx(4000**2 / (8 * 512**2))


def test_nothing_to_divide_by() -> None:
    with pytest.raises(ValueError, match="no lengths"):
        useful([])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(1, 4))
def test_bucket_bounds_are_the_best_there_are(lengths: list[int], count: int) -> None:
    found = bounds(lengths, count)
    assert len(found) <= count
    assert all(top % ALIGN == 0 for top in found)
    sizes = sorted({-(-n // ALIGN) * ALIGN for n in lengths})

    def cost(tops: tuple[int, ...]) -> int:
        return sum(min(t for t in tops if t >= n) for n in lengths)

    best = min(
        cost((*chosen, sizes[-1]))
        for r in range(min(count, len(sizes)))
        for chosen in itertools.combinations(sizes[:-1], r)
    )
    assert cost(tuple(found)) == best


def test_more_buckets_never_need_more() -> None:
    batches = [(LENGTHS, 2048)]
    need = [bucketed(batches, bounds(LENGTHS, k)).linear for k in (1, 2, 4, 8)]
    assert need == sorted(need, reverse=True)
    assert need[-1] >= useful(batches).linear


def _context_of(lengths: list[int], padded: int) -> Facts:
    b = TraceBuilder()
    for k in range(2):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.op("aten::addmm", t + 10, 600, dims=[[64], [512, 64], [64, 64]], types=["float"] * 3)
        b.op("aten::scaled_dot_product_attention", t + 620, 200)
    loader = LoaderInfo(num_workers=2, pin_memory=False, file="train.py", line=40)
    sidecar = Sidecar(lengths=[lengths], padded_to=[padded], loaders=[loader])
    return Facts(b.context(sidecar=sidecar, plain_step_us=1000.0))


def _padding(facts: Facts) -> list[Finding]:
    return [f for f in find(facts.context) if f.code == "padding"]


def test_plans_are_weighed_by_measured_time() -> None:
    facts = _context_of(LENGTHS, 2048)
    measured = measure(facts)
    assert measured is not None
    assert (measured.file, measured.line) == ("train.py", 40)
    free = next(p for p in measured.plans if p.name == "padding-free")
    # Both shares lie below the floor: a product is not assumed to shrink to less than a quarter of its time.
    assert free.saving_us == pytest.approx((600 + 200) * (1 - FLOOR))
    assert "cumulative lengths" in (free.detail or "")
    assert [p.name for p in measured.plans[:-1]] == ["2 buckets", "4 buckets"], "seven aligned lengths need no eight"
    (finding,) = _padding(facts)
    assert finding.line == 40
    assert "81 %" in finding.message
    assert finding.saving_us <= 800.0
    assert "14 h a day" in finding.message, "600 of 1000 µs of every step, all day long"
    assert "at 86,400,000 steps a day" in finding.message


@pytest.mark.parametrize(("length", "expected"), [(USEFUL_PCT - 1, 1), (USEFUL_PCT + 1, 0)])
def test_at_the_edge(length: float, expected: int) -> None:
    assert len(_padding(_context_of([int(length)] * 8, 100))) == expected


def test_what_is_longer_than_any_sequence_is_padded_statically() -> None:
    """The model's maximum of 256 where no sequence is longer than 90."""
    lengths = [90, 60, 30, 20]
    measured = measure(_context_of(lengths, 256))
    assert measured is not None
    static, own, *_ = measured.plans
    assert (static.name, static.bounds) == ("static padding to 96", [96])
    assert static.saving_us == pytest.approx(600 * (1 - 96 / 256) + 200 * (1 - FLOOR))
    assert own.name == "each batch to its longest"
    assert own.saving_us == static.saving_us, "one batch, one longest"
    assert "no CUDA graphs" in (own.detail or "")


def test_a_plan_says_what_its_shapes_cost_once() -> None:
    facts = _context_of(LENGTHS, 2048)
    assert facts.sidecar is not None
    assert all(p.once_us is None for p in _measured(facts).plans), "nothing was compiled"
    facts.sidecar.compiles = [
        Compile(start_ns=0, end_ns=3_000_000, compile_id="0/0"),
        Compile(start_ns=0, end_ns=2_000_000, compile_id="1/0"),
        Compile(start_ns=0, end_ns=9_000_000, compile_id="0/1"),
    ]
    four = next(p for p in _measured(facts).plans if p.name == "4 buckets")
    assert four.once_us == pytest.approx(3 * 5_000), "three more shapes, without what was compiled again"
    assert "3 more compilations of the program (~15 ms once)" in (four.detail or "")
    assert four.bounds == bounds(LENGTHS, 4)


@pytest.mark.parametrize(("given", "per_day"), [(None, 86_400_000.0), (1_000.0, 1_000.0)])
def test_savings_a_day_at_the_rate_that_is_given(given: float | None, per_day: float) -> None:
    facts = _context_of(LENGTHS, 2048)
    facts.context.steps_per_day = given
    measured = _measured(facts)
    assert measured.steps_per_day == pytest.approx(per_day)
    for plan in measured.plans:
        assert plan.saving_s_per_day == pytest.approx((plan.saving_us or 0.0) * per_day / 1e6)


def test_without_a_loader_the_call_of_the_module_is_named() -> None:
    facts = _context_of(LENGTHS, 2048)
    assert facts.sidecar is not None
    facts.sidecar.loaders, facts.sidecar.lengths_at = [], ["train.py", 7]
    (finding,) = _padding(facts)
    assert (finding.file, finding.line) == ("train.py", 7)


def test_the_promise_is_the_simplest_plans_that_nearly_reaches_the_best() -> None:
    (finding,) = _padding(_context_of(LENGTHS, 2048))
    assert finding.evidence["promised"] == "2 buckets"
    plans = {plan["name"]: plan["saving_us"] for plan in finding.evidence["plans"]}
    assert finding.saving_us == pytest.approx(plans["2 buckets"])
    assert plans["2 buckets"] >= 0.9 * plans["4 buckets"]


def _measured(facts: Facts) -> Padding:
    measured = measure(facts)
    assert measured is not None
    return measured
