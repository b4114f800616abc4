"""How long a window is, and what counts as a plain step beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent import kineto
from ridgeline.agent.plain import PLAIN_NS, SETTLED_NS, StepTimes
from ridgeline.agent.sizing import (
    EARLY_NS,
    EVENT_LIMIT,
    LEAST_STEPS,
    LONGEST_NS,
    STEPS,
    STEPS_UNKNOWN,
    WINDOW_NS,
    Sizing,
)
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


def test_what_part_of_the_plain_steps_their_thread_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By clean steps alone: between a mark and the one before the last pause lie other things."""
    computed = iter([100 * MS, 105 * MS, 900 * MS, 908 * MS, 2000 * MS, 2007 * MS])
    monkeypatch.setattr("ridgeline.agent.plain.time.thread_time_ns", lambda: next(computed))
    times = StepTimes()
    assert times.running is None
    for interval in (10 * MS, 10 * MS, None, 10 * MS):
        times.before(interval)
    assert times.running == (5 + 8) / 20
    recording: Any = SimpleNamespace(devices=[], end_ns=0)
    times.window_closed(recording, 0, 5, None)
    times.after(10 * MS, times._since_ns, None)
    times.after(10 * MS, times._since_ns, None)
    assert times.running == (5 + 8 + 7) / 30


def test_slow_plain_steps_are_not_waited_for_and_absent_ones_not_for_ever() -> None:
    times = StepTimes()
    recording: Any = SimpleNamespace(devices=[], end_ns=0)
    times.window_closed(recording, 0, 5, 20)
    assert not times.after(None, times._since_ns + 2 * PLAIN_NS, None)
    assert times.after(900 * MS, times._since_ns + 2 * PLAIN_NS, None)
    times.window_closed(recording, 0, 5, 20)
    assert times.after(None, times._since_ns + 5 * PLAIN_NS + 1, None)


class Device:
    """A device whose steps take so long each, for a host that hands each over in a millisecond, and a clock for both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step_ns: list[int]) -> None:
        self.now, self.done, self.waits = 10**18, 10**18, 0
        self._steps = iter(step_ns)
        self.torch: Any = SimpleNamespace(cuda=SimpleNamespace(synchronize=self._wait))
        monkeypatch.setattr("ridgeline.agent.plain.time.time_ns", lambda: self.now)

    def _wait(self) -> None:
        self.waits += 1
        self.now = max(self.now, self.done)

    def run(self, times: StepTimes) -> int:
        """Steps until there are enough."""
        count = 0
        while True:
            self.done = max(self.now, self.done) + next(self._steps)
            self.now += MS
            count += 1
            if times.after(MS, self.now, self.torch):
                return count


def closed_on_a_device(target: int | None) -> StepTimes:
    times = StepTimes()
    times.before(MS)
    times.window_closed(SimpleNamespace(devices=["cuda"], end_ns=100 * MS), 20 * MS, 4, target)  # type: ignore[arg-type]
    assert (times.profiled, times.plain) == ([20 * MS], [])
    return times


def test_steps_on_a_device_are_timed_from_idle_to_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, [5 * MS] * 1000)
    times = closed_on_a_device(None)
    assert device.run(times) == 200  # two blocks of 100 steps, which take the host 100 ms and the device 500
    assert (times.plain, device.waits) == ([5 * MS, 5 * MS], 2)


def test_steps_on_a_device_that_still_grow_shorter_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a fresh process, where the host's first steps are the slowest."""
    device = Device(monkeypatch, [9 * MS] * 100 + [7 * MS] * 100 + [5 * MS] * 1000)
    times = closed_on_a_device(None)
    device.run(times)
    assert times.plain == [5 * MS, 5 * MS]


def test_steps_on_a_device_that_never_settle_or_are_slow_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, ([5 * MS] * 100 + [9 * MS] * 100) * 20)
    times = closed_on_a_device(20)
    device.run(times)
    assert times.plain in ([5 * MS], [9 * MS])
    assert device.now - times._began_ns <= SETTLED_NS + 1000 * MS
    slow = closed_on_a_device(20)
    assert not slow.after(None, slow._since_ns + 2 * PLAIN_NS, device.torch)
    device.done = device.now = slow._since_ns + PLAIN_NS
    assert slow.after(PLAIN_NS, device.now, device.torch)
    assert slow.plain == [PLAIN_NS]


def test_a_program_that_ends_among_its_plain_steps_leaves_those_that_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(monkeypatch, [])
    times = closed_on_a_device(None)
    for _ in range(LEAST_STEPS):
        device.now += 2 * MS
        assert not times.after(2 * MS, device.now, device.torch)
    device.now += 50 * MS  # the end of the program is no step
    times.cut()
    assert times.plain == [2 * MS]


def test_an_accelerator_counts_from_the_moment_of_its_initialization(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch runs the hooks of CUDA's initialization before it says that CUDA is initialized."""
    monkeypatch.setattr(kineto, "_announced", set())
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    assert kineto.accelerators(torch, "auto") == []
    kineto.announce("cuda")
    assert kineto.accelerators(torch, "auto") == ["cuda"]
    assert kineto.accelerators(torch, "cpu") == []


@pytest.mark.parametrize(
    ("steps", "interval", "on_device", "spec", "enough"),
    [
        (1, EARLY_NS, False, {}, False),
        (1, EARLY_NS + 1, False, {}, True),
        (LEAST_STEPS - 1, MS, False, {}, False),
        (LEAST_STEPS, MS, False, {}, True),
        (1, MS, True, {}, True),
        (1, MS, False, {"steps": 8}, True),
        (1, MS, False, {"warmup": 2}, True),
    ],
)
def test_early_steps(steps: int, interval: int, on_device: bool, spec: dict[str, int], enough: bool) -> None:
    assert sizing(**spec).early_enough(steps, interval, on_device) is enough
