"""How long a window is, and what counts as a plain step beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent import kineto
from ridgeline.agent.plain import PLAIN_NS, StepTimes
from ridgeline.agent.sizing import EVENT_LIMIT, LEAST_STEPS, LONGEST_NS, STEPS, STEPS_UNKNOWN, WINDOW_NS, Sizing
from ridgeline.agent.spec import Spec

MS = 1_000_000


def sizing(notes: list[str] | None = None, **spec: Any) -> Sizing:
    return Sizing(Spec(run_dir="", target="", **spec), ([] if notes is None else notes).append)


@pytest.mark.parametrize(
    ("density", "steps"),
    [
        (None, STEPS_UNKNOWN),
        (100.0, STEPS),
        (EVENT_LIMIT / 10, 10),
        (EVENT_LIMIT / 2, LEAST_STEPS),
        (EVENT_LIMIT * 0.9, 1),
        (EVENT_LIMIT * 5.0, 1),
    ],
)
def test_events_limit_the_steps_and_three_are_worth_some_more_of_them(density: float | None, steps: int) -> None:
    size = sizing()
    size.events_per_step = density
    assert size.steps() == steps


def test_steps_that_were_asked_for_are_cut_with_a_note_only() -> None:
    notes: list[str] = []
    size = sizing(notes, steps=50)
    size.events_per_step = EVENT_LIMIT / 25
    assert size.steps() == 25
    assert notes == ["25 steps recorded, not 50: a step has 8000 events"]
    assert not size.full(20, LONGEST_NS, 25)
    assert size.full(25, 0, 25)


def test_a_window_closes_by_steps_or_by_time_with_three_steps() -> None:
    size = sizing()
    assert not size.full(2, WINDOW_NS, 20)
    assert size.full(LEAST_STEPS, WINDOW_NS, 20)
    assert size.full(1, LONGEST_NS, 20)
    assert size.full(20, 0, 20)


def test_a_first_window_in_the_dark_is_followed_by_a_longer_one_once() -> None:
    size = sizing()
    assert size.first_was_short(STEPS_UNKNOWN, 50 * MS, lambda: 500)
    assert size.events_per_step == 100
    assert not size.first_was_short(STEPS, 200 * MS, lambda: 2000)


def test_a_stretch_of_time_holds_no_more_than_the_limit() -> None:
    size = sizing()
    assert size.stretch(WINDOW_NS) == WINDOW_NS
    size.events_per_ns = 2 * EVENT_LIMIT / WINDOW_NS
    assert size.stretch(WINDOW_NS) == WINDOW_NS // 2


def test_plain_steps_of_a_cpu_are_single_ones_before_and_after() -> None:
    times = StepTimes()
    for _ in range(STEPS + 5):
        times.before(10 * MS)
    recording: Any = SimpleNamespace(devices=[], end_ns=0)
    times.window_closed(recording, 0, 5, None)
    now = times._since_ns
    assert [times.after(11 * MS, now + i * MS, None) for i in range(LEAST_STEPS)] == [False] * (LEAST_STEPS - 1) + [
        True
    ]
    assert times.plain == [10 * MS] * STEPS + [11 * MS] * LEAST_STEPS


def test_slow_plain_steps_are_not_waited_for_and_absent_ones_not_for_ever() -> None:
    times = StepTimes()
    recording: Any = SimpleNamespace(devices=[], end_ns=0)
    times.window_closed(recording, 0, 5, 20)
    assert not times.after(None, times._since_ns + 2 * PLAIN_NS, None)
    assert times.after(900 * MS, times._since_ns + 2 * PLAIN_NS, None)
    times.window_closed(recording, 0, 5, 20)
    assert times.after(None, times._since_ns + 5 * PLAIN_NS + 1, None)


def test_steps_on_a_device_are_timed_from_idle_to_idle() -> None:
    waits: list[int] = []
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: waits.append(1)))
    times = StepTimes()
    times.before(MS)
    recording: Any = SimpleNamespace(devices=["cuda"], end_ns=100 * MS)
    times.window_closed(recording, 20 * MS, 4, None)
    assert (times.profiled, times.plain) == ([20 * MS], [])
    done = [times.after(MS, times._since_ns + MS, torch) for _ in range(LEAST_STEPS)]
    assert done[-1]
    assert waits == [1]
    assert len(times.plain) == 1


def test_an_accelerator_counts_from_the_moment_of_its_initialization(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch runs the hooks of CUDA's initialization before it says that CUDA is initialized."""
    monkeypatch.setattr(kineto, "_announced", set())
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    assert kineto.accelerators(torch, "auto") == []
    kineto.announce("cuda")
    assert kineto.accelerators(torch, "auto") == ["cuda"]
    assert kineto.accelerators(torch, "cpu") == []
