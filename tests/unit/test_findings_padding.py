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
from ridgeline.profile import Finding
from ridgeline.sidecar import LoaderInfo, Sidecar

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
    assert "h of a day" in finding.message


@pytest.mark.parametrize(("length", "expected"), [(USEFUL_PCT - 1, 1), (USEFUL_PCT + 1, 0)])
def test_at_the_edge(length: float, expected: int) -> None:
    assert len(_padding(_context_of([int(length)] * 8, 100))) == expected
