"""The unprofiled round from looks at the allocator's count."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.assemble.counted import ALIKE, FEW, FEWEST, LONGER, ROUNDS, counted_steps, of_a_round, plain_rounds_ns
from ridgeline.assemble.devices import window_of
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import work_table

MS = 1_000_000


def recorded(*, rounds: int = 4, round_us: float = 100_000.0) -> Trace:
    """Rounds of ten operations each, with half a round before them and half a round after."""
    builder = TraceBuilder()
    for part in range(-5, 10 * rounds + 5):
        builder.op("aten::mm", part * round_us / 10, 5.0)
    for number in range(rounds):
        builder.step(number * round_us, round_us)
        builder.kernel("gemm", number * round_us, 10.0)
    return builder.build()


def looks(*blocks: tuple[float, int]) -> list[list[int]]:
    """Rows of ``plain_counts`` with these (milliseconds, allocations) between them; each look itself takes a millisecond."""
    rows = [[5 * MS, 6 * MS, 1000]]
    for ms, count in blocks:
        ended = rows[-1][1] + round(ms * MS)
        rows.append([ended, ended + MS, rows[-1][2] + count])
    return rows


def window(counts: list[list[int]], allocations: int | None = 5 * FEWEST) -> Window:
    return Window(trace="trace.json", reason="timer", lines=True, allocations=allocations, plain_counts=counts)


def test_allocations_of_a_round_are_those_of_the_recording_less_what_lies_around_the_rounds() -> None:
    trace = recorded()
    assert of_a_round(trace, 50 * 20) == pytest.approx(10 * 20)
    for step in trace.steps:  # the device's, a while after the host's
        step.asked, step.start = (step.start, step.start + step.dur), step.start + 35_000.0
    assert of_a_round(trace, 50 * 20) == pytest.approx(10 * 20)


def test_a_round_takes_the_time_of_its_allocations() -> None:
    own = window(looks(*[(250.0, 500)] * 4))
    assert plain_rounds_ns(own, 100.0) == [50 * MS, 50 * MS]


@pytest.mark.parametrize(("factor", "known"), [(1 + ALIKE - 0.002, True), (1 + ALIKE + 0.002, False)])
def test_two_stretches_must_have_one_pace(factor: float, known: bool) -> None:
    found = plain_rounds_ns(window(looks((500.0, 1000), (500.0 * factor, 1000))), 100.0)
    assert isinstance(found, list) is known
    if not known:
        assert found == "two stretches of time after the recording differ by 5 % in the time of a round"


def test_where_the_last_stretch_is_uneven_all_of_it_counts() -> None:
    """Rounds longer than a stretch between two looks, first half slow, second half fast."""
    own = window(looks(*[(250.0, 500)] * 3, *[(250.0, 800)] * 3, *[(250.0, 500)] * 3, *[(250.0, 800)] * 3))
    assert plain_rounds_ns(own, 1300.0) == [500 * MS, 500 * MS]


def test_work_that_comes_to_rest_after_the_recording_is_taken_from_its_end() -> None:
    own = window(looks((500.0, 500), (300.0, 500), *[(250.0, 500)] * 4))
    assert plain_rounds_ns(own, 100.0) == [50 * MS, 50 * MS]


@pytest.mark.parametrize(("a_round", "known"), [(1000 / ROUNDS, True), (1000 / ROUNDS + 1, False)])
def test_a_few_rounds_have_to_follow(a_round: float, known: bool) -> None:
    found = plain_rounds_ns(window(looks((250.0, 500), (250.0, 500))), a_round)
    assert isinstance(found, list) is known
    if not known:
        assert found == f"fewer than {ROUNDS} rounds followed the recording"


@pytest.mark.parametrize(("count", "known"), [(FEWEST, True), (FEWEST - 1, False)])
def test_few_allocations_say_nothing(count: int, known: bool) -> None:
    found = plain_rounds_ns(window(looks((250.0, count), (250.0, count))), 10.0)
    assert isinstance(found, list) is known
    found = plain_rounds_ns(window(looks((250.0, 500), (250.0, 500)), count), 10.0)
    assert found == FEW or known


@pytest.mark.parametrize("rows", [looks(), looks((250.0, 500))])
def test_a_program_that_ended_leaves_nothing_to_compare(rows: list[list[int]]) -> None:
    assert plain_rounds_ns(window(rows), 10.0) == "the program ended too soon after the recording"
    assert "outlived it" in plain_rounds_ns(window([]), 10.0)


def test_the_sidecar_has_both_steps_then() -> None:
    trace = recorded()
    own = window(looks(*[(250.0, 1000)] * 4), 50 * 20)
    sidecar, unknown = counted_steps(trace, Sidecar(windows=[own]), window_of(trace, work_table(trace)))
    assert unknown is None
    assert sidecar is not None
    assert sidecar.plain_steps_ns == [50 * MS, 50 * MS]
    assert sidecar.profiled_steps_ns == [100 * MS]


@pytest.mark.parametrize(("factor", "known"), [(LONGER - 0.01, True), (LONGER + 0.01, False)])
def test_nothing_is_faster_with_a_profiler(factor: float, known: bool) -> None:
    trace = recorded()
    own = window(looks(*[(500.0 * factor, 1000)] * 4), 50 * 20)
    sidecar, unknown = counted_steps(trace, Sidecar(windows=[own]), window_of(trace, work_table(trace)))
    assert sidecar is not None
    assert bool(sidecar.plain_steps_ns) is known
    assert (unknown is None) is known


def test_without_a_count_nothing_is_said() -> None:
    trace = recorded()
    given = Sidecar(windows=[window([], None)])
    assert counted_steps(trace, given, window_of(trace, work_table(trace))) == (given, None)
    marked = Sidecar(windows=[window([])], plain_steps_ns=[1])
    assert counted_steps(trace, marked, window_of(trace, work_table(trace))) == (marked, None)
