"""Time by allocations: when the count is read, when it is enough, and when there is nothing to be had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ridgeline.agent import counted
from ridgeline.agent.counted import FEWEST, IDLE_LOOKS, Counted
from ridgeline.agent.labels import Scopes
from ridgeline.agent.recorder import Recorder
from ridgeline.agent.result import why_not_steady
from ridgeline.agent.spec import Spec
from ridgeline.agent.take import Take

MS = 1_000_000


class Device:
    """A clock, an allocator and torch's functions that the counter calls. ``work``: time passes, so many allocations an ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.count, self.capturing, self.waits = 10**18, 0, False, 0
        monkeypatch.setattr(counted, "time", SimpleNamespace(time_ns=lambda: self.now))
        self.version = SimpleNamespace(cuda="13.0")
        self.cuda = SimpleNamespace(
            device_count=lambda: 2,
            memory_stats=lambda device: {"allocation.all.allocated": self.count if device else 7},
            is_current_stream_capturing=lambda: self.capturing,
            synchronize=self._wait,
        )

    def _wait(self) -> None:
        self.waits += 1

    def work(self, ms: int, an_ms: float) -> None:
        self.now += ms * MS
        self.count += round(ms * an_ms)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def begun(device: Device) -> Counted:
    one = Counted(device)
    one.begin(["cuda"])
    assert not one.look()
    return one


def test_all_devices_are_counted_and_other_machines_have_no_count(device: Device) -> None:
    device.count = 5
    assert counted.allocations(device, ["cuda"]) == 12
    assert counted.allocations(device, []) is None
    device.cuda.memory_stats = lambda device: {}
    assert counted.allocations(device, ["cuda"]) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(3, 10, 7), (None, 10, None), (3, None, None), (10, 3, None)]
)
def test_allocations_between_two_looks(before: int | None, after: int | None, expected: int | None) -> None:
    assert counted.between(before, after) == expected


def test_it_is_enough_after_a_second_of_one_pace(device: Device) -> None:
    one = begun(device)
    for at in range(4):
        device.work(250, 2)
        assert one.look() is (at == 3)
    assert [row[2] - 7 for row in one.rows] == [0, 500, 1000, 1500, 2000]
    assert device.waits == 5


@pytest.mark.parametrize(("factor", "looks"), [(1.01, 4), (1.02, 12)])
def test_two_halves_of_the_last_stretch_are_alike_within_three_per_cent(
    device: Device, factor: float, looks: int
) -> None:
    """A pace that goes on changing is waited for, three seconds at most."""
    one = begun(device)
    for at in range(looks):
        device.work(250, 20 * factor**at)
        assert one.look() is (at == looks - 1)


@pytest.mark.parametrize(("each", "ends"), [(FEWEST // 2, False), (FEWEST // 2 - 1, True)])
def test_a_program_that_allocates_next_to_nothing_is_left_at_once(device: Device, each: int, ends: bool) -> None:
    one = begun(device)
    for _ in range(IDLE_LOOKS - 2):
        device.work(250, each / 250)
        assert not one.look()
    device.work(250, each / 250)
    assert one.look() is ends


def test_a_compilation_and_counters_that_were_set_back_begin_anew(device: Device) -> None:
    one = begun(device)
    device.work(250, 2)
    one.look()
    one.disturb()
    assert not one.look()
    assert len(one.rows) == 1
    device.count = 0
    assert not one.look()
    assert [row[2] for row in one.rows] == [7]


def test_nothing_is_waited_for_while_a_graph_is_captured(device: Device) -> None:
    one = begun(device)
    device.capturing = True
    device.work(250, 2)
    assert not one.look()
    assert (device.waits, len(one.rows)) == (1, 1)


@pytest.mark.parametrize(
    ("changed", "of_use"),
    [
        ({}, True),
        ({"lines": False}, False),
        ({"steps": [{"start_ns": 0, "end_ns": 1}]}, False),
        ({"allocations": None}, False),
        ({"allocations": FEWEST - 1}, False),
    ],
)
def test_a_recording_with_lines_and_without_steps_is_followed(
    device: Device, changed: dict[str, Any], of_use: bool
) -> None:
    window = {"lines": True, "steps": [], "allocations": FEWEST, **changed}
    take = Take(recording=cast(Any, None), lines=None, window=window, labels=[], order=2)
    assert Counted(device).of_use(take) is of_use


@pytest.mark.torch
class TestRecorder:
    """The recorder around it, on a CPU with a counter that is made up."""

    @pytest.fixture
    def published(self) -> list[Take]:
        return []

    @pytest.fixture
    def recorder(self, published: list[Take], monkeypatch: pytest.MonkeyPatch) -> Recorder:
        torch = pytest.importorskip("torch")
        self.count = 0
        monkeypatch.setattr(counted, "allocations", lambda *args: self.count)
        spec = Spec(run_dir="", target="", device="cpu", then="stop")
        made = Recorder(torch, spec, None, Scopes(), published.append, lambda *args, **kwargs: None, self.complain)
        made.begin()
        made.end_early()
        assert made.open_timer("timer", 10) == 10
        torch.ones(2).sin()
        self.count += FEWEST
        take = made.close_timer()
        assert take is not None
        assert take.window["allocations"] == FEWEST
        take.window["lines"] = True
        made.count_plain()
        assert made.state == "counted"
        assert published == []
        return made

    def complain(self, what: str, error: object) -> None:
        raise AssertionError(f"{what}: {error}")

    def test_the_result_waits_for_the_count(self, recorder: Recorder, published: list[Take]) -> None:
        recorder.mark("optimizer", 0)
        for _ in range(IDLE_LOOKS):
            assert published == []
            recorder.count()
        assert recorder.state == "done"
        (take,) = published
        assert len(take.window["plain_counts"]) == IDLE_LOOKS
        assert recorder.cupti_left is None

    def test_cupti_goes_before_the_first_look(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counted, "synchronize", lambda *args: None)
        monkeypatch.setattr(counted, "capturing", lambda *args: False)
        detaching, ended = recorder.detaching, [False, True]
        recorder.counted.begin(["cuda"])

        def now() -> bool:
            detaching.due, detaching.gone = not ended[0], ended[0]
            return ended.pop(0)

        monkeypatch.setattr(detaching, "now", now)
        detaching.due = True
        recorder.count()
        assert (recorder.counted.rows, recorder.cupti_left) == ([], None)
        recorder.count()
        assert (len(recorder.counted.rows), recorder.cupti_left) == (1, True)
        recorder.count()
        assert (len(recorder.counted.rows), ended) == (2, [])

    def test_a_program_that_ends_meanwhile_has_its_result(self, recorder: Recorder, published: list[Take]) -> None:
        recorder.count()
        recorder.stop()
        assert why_not_steady(recorder, "end of the program") == ""
        recorder.publish_best()
        assert len(published[0].window["plain_counts"]) == 1

    def test_a_compilation_is_not_counted(self, recorder: Recorder) -> None:
        recorder.count()
        recorder.compile_started()
        recorder.compile_ended()
        assert (recorder.state, recorder.counted.rows) == ("counted", [])
        recorder.finish_plain()
        assert recorder.state == "done"

    def test_the_programs_own_profiler_goes_first(self, recorder: Recorder) -> None:
        recorder.user_profiler_starts()
        recorder.count()
        assert (recorder.state, recorder.counted.rows) == ("user", [])
        recorder.stop()
