"""Steps of a program whose host runs ahead of the device."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.assemble.devices import step_rows, window_of
from ridgeline.assemble.pace import pace_by_device
from ridgeline.assemble.recorded import totals_of
from ridgeline.sidecar import Sidecar
from ridgeline.trace.work import work_table


def ahead(*, host_us: float = 10.0, device_us: float = 100.0, steps: int = 4) -> TraceBuilder:
    """The host hands over a step of two kernels every ``host_us``; the device needs ``device_us`` for it."""
    builder = TraceBuilder()
    free = 0.0
    for step in range(steps):
        asked = step * host_us
        builder.step(asked, host_us)
        for part in range(2):
            launched = asked + 1 + 4 * part
            free = max(free, launched + 2)
            builder.kernel("gemm", free, device_us / 2, launched=launched)
            free += device_us / 2
    return builder


def test_a_step_lasts_as_long_as_the_device_needs_for_it() -> None:
    trace = ahead().build()
    work = work_table(trace)
    told = pace_by_device(trace, work)
    assert told is not None
    assert "every 0.01 ms" in told
    assert "needs 0.1 ms" in told
    assert [step.dur for step in trace.steps] == [100.0] * 4
    window = window_of(trace, work)
    assert (window.wall_us, window.end - window.start) == (400.0, 400.0)
    rows = step_rows(trace, work)
    assert [(row.wall_us, row.busy_us, row.kernels) for row in rows] == [(100.0, 100.0, 2)] * 4


@pytest.mark.parametrize("device_us", [4.0, 9.9, 10.1])
def test_marks_stand_where_the_device_keeps_pace(device_us: float) -> None:
    trace = ahead(device_us=device_us).build()
    assert pace_by_device(trace, work_table(trace)) is None
    assert [step.dur for step in trace.steps] == [10.0] * 4


def test_marks_stand_where_a_full_queue_holds_the_host_back() -> None:
    """As many steps behind as the queue is long, but at one pace: the usual state of a long training run."""
    builder = TraceBuilder()
    for step in range(5):
        builder.step(100.0 * step, 100.0)
        builder.kernel("gemm", 300.0 + 100.0 * step, 100.0, launched=100.0 * step + 1)
    trace = builder.build()
    assert pace_by_device(trace, work_table(trace)) is None


def test_marks_stand_where_the_device_waits_for_the_host() -> None:
    """A first step that is over at once, and the work of the others late in their steps: the host sets the pace."""
    builder = TraceBuilder()
    for step, late in enumerate((10.0, 90.0, 95.0)):
        builder.step(100.0 * step, 100.0)
        builder.kernel("gemm", 100.0 * step + late, 5.0, launched=100.0 * step + late - 4)
    trace = builder.build()
    assert pace_by_device(trace, work_table(trace)) is None


def test_a_step_without_work_and_a_single_step_change_nothing() -> None:
    builder = ahead(steps=1)
    trace = builder.build()
    assert pace_by_device(trace, work_table(trace)) is None
    builder = ahead(steps=2)
    builder.step(20.0, 10.0)
    trace = builder.build()
    assert pace_by_device(trace, work_table(trace)) is not None
    assert [step.dur for step in trace.steps] == [100.0, 100.0, 0.0]


def test_host_times_below_the_device_s_work_are_no_step_times() -> None:
    trace = ahead().build()
    work = work_table(trace)
    pace_by_device(trace, work)
    host_only = Sidecar(plain_steps_ns=[4_000, 4_100], profiled_steps_ns=[10_000])
    totals = totals_of(trace, work, window_of(trace, work), host_only)
    assert (totals.plain_step_us, totals.profiled_step_us) == (None, None)
    whole = Sidecar(plain_steps_ns=[95_000], profiled_steps_ns=[101_000])
    totals = totals_of(trace, work, window_of(trace, work), whole)
    assert (totals.plain_step_us, totals.profiled_step_us) == (95.0, 101.0)


def test_marks_that_enclose_none_of_the_devices_work_are_no_steps() -> None:
    """A benchmark's label around something between its runs: what runs elsewhere is not divided by it."""
    builder = TraceBuilder()
    for step in range(2):
        builder.step(100.0 * step, 10.0)
        builder.kernel("gemm", 100.0 * step + 50.0, 20.0, launched=100.0 * step + 40.0)
    trace = builder.build()
    window = window_of(trace, work_table(trace))
    assert (window.steps, window.known) == (None, False)


def test_a_mark_whose_work_begins_after_it_is_a_step() -> None:
    builder = TraceBuilder()
    builder.step(0.0, 10.0)
    builder.kernel("gemm", 50.0, 20.0, launched=5.0)
    trace = builder.build()
    assert window_of(trace, work_table(trace)).steps == 1
