"""The recorder's states, driven by hand, with torch's own profiler behind them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent.kineto import Recording
from ridgeline.agent.labels import Scopes
from ridgeline.agent.recorder import Recorder
from ridgeline.agent.session import EARLY_LINES
from ridgeline.agent.sizing import LEAST_STEPS, WINDOW_NS
from ridgeline.agent.spec import Spec
from ridgeline.agent.take import FEW, NO_STEPS, ORDER, Take, order
from ridgeline.agent.timeline import BUDGET

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Driven(Recorder):
    """Keeps what it publishes and what went wrong."""

    def __init__(self, **spec: Any) -> None:
        self.published: list[Take] = []
        self.errors: list[str] = []
        super().__init__(
            torch,
            Spec(run_dir="", target="", device="cpu", **spec),
            None,
            Scopes(),
            self.published.append,
            lambda *args, **kwargs: None,
            lambda what, error: self.errors.append(f"{what}: {error}"),
        )

    def step(self) -> None:
        self.mark("optimizer", 0)


@pytest.fixture
def recorder() -> Iterator[Driven]:
    made = Driven(warmup=1, steps=3, then="stop")
    made.begin()
    yield made
    made.stop()
    assert made.errors == []


def settle_to_warm(recorder: Driven) -> None:
    assert recorder.state == "early"
    recorder.step()
    recorder.step()
    assert recorder.state == "settle"
    recorder.step()
    assert recorder.state == "warm"


def test_the_warming_step_is_in_no_list_and_not_in_the_trace(recorder: Driven) -> None:
    x = torch.ones(3)
    settle_to_warm(recorder)
    x.sin()
    recorder.step()
    assert recorder.state == "window"
    for _ in range(3):
        x.cos()
        recorder.step()
    assert recorder.state == "plain"
    for _ in range(3):
        x.tan()
        recorder.step()
    assert recorder.state == "done"
    (take,) = recorder.published
    ops = take.recording.op_histogram()
    assert (ops.get("aten::sin"), ops.get("aten::cos"), ops.get("aten::tan")) == (None, 3, None)
    assert (len(take.window["steps"]), take.window["complete"]) == (3, True)
    assert len(recorder.times.profiled) == 3
    assert len(recorder.times.plain) == 1 + 3


def on_a_device(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Windows count as recorded on CUDA 13; what is done to the device, in order."""
    did: list[str] = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr("ridgeline.agent.plain.synchronize", lambda *args: did.append("wait"))

    def detach(*args: Any) -> bool:
        did.append("detach")
        return True

    monkeypatch.setattr("ridgeline.agent.cupti.detach", detach)
    monkeypatch.setattr("ridgeline.agent.detaching.hindrance", lambda *args: None)
    monkeypatch.setattr("ridgeline.agent.plain.BLOCK_NS", 0)
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    closed = Recorder._close

    def close(self: Recorder, keep: bool) -> Take | None:
        take = closed(self, keep)
        if take is not None:
            take.recording.devices = ["cuda"]
        return take

    monkeypatch.setattr(Recorder, "_close", close)
    monkeypatch.setattr(Recording, "lost_the_clock", lambda self: False)
    monkeypatch.setattr("ridgeline.agent.plain.ALIKE", 1e9)
    return did


def saved_in_time(recorder: Driven, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is set up, and what is saved, in order; a take that was not saved before a session is set up has lost its times."""
    did = on_a_device(monkeypatch)
    prepare = Recording.prepare

    def prepared(self: Recording) -> None:
        did.append("session")
        prepare(self)

    def save(take: Take) -> str:
        did.append(f"save {take.window['reason']}")
        return "nowhere"

    monkeypatch.setattr(Recording, "prepare", prepared)
    recorder.takes.save = save
    return did


def test_what_was_recorded_is_saved_before_another_session_is_set_up(
    recorder: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on an H200: every record of a window had the time zero, for it was saved after the session that detaches."""
    did = saved_in_time(recorder, monkeypatch)
    to_plain(recorder)
    recorder.step()
    assert [what for what in did if what != "wait"] == ["save whole", "session", "session", "save stable", "detach"]
    assert did.index("save whole") < did.index("session")


def test_what_was_recorded_is_saved_before_the_programs_own_session(
    recorder: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = saved_in_time(recorder, monkeypatch)
    recorder.step()
    recorder.step()
    recorder.user_profiler_starts()
    assert did == ["save whole"]


def test_a_take_that_is_not_the_best_leaves_no_file(
    recorder: Driven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_device(monkeypatch)

    def save(take: Take) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.part"
        path.write_text(take.window["reason"])
        return str(path)

    recorder.takes.save = save
    to_plain(recorder)
    recorder.step()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["stable"]


def to_plain(recorder: Driven) -> None:
    settle_to_warm(recorder)
    for _ in range(4):
        recorder.step()
    assert recorder.state == "plain"


def test_cupti_goes_before_the_plain_steps(recorder: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    did = on_a_device(monkeypatch)
    to_plain(recorder)
    assert (did, recorder.cupti_left) == ([], False)
    assert recorder.detaching.kept == "a call into torch outlived the recording"
    recorder.step()
    assert (did, recorder.cupti_left, recorder.times.plain) == (["detach"], True, [])
    while recorder.state == "plain":
        recorder.step()
    assert did == ["detach", "wait", "wait"]
    assert recorder.detaching.kept is None
    assert len(recorder.published) == 1


def test_plain_steps_follow_where_cupti_stays(recorder: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    did = on_a_device(monkeypatch)
    monkeypatch.setattr("ridgeline.agent.detaching.hindrance", lambda *args: "the program uses CUDA graphs")
    to_plain(recorder)
    while recorder.state == "plain":
        recorder.step()
    assert did == ["wait", "wait"]
    assert (recorder.cupti_left, recorder.detaching.kept) == (False, "the program uses CUDA graphs")


def test_a_call_that_outlives_the_window_keeps_cupti_attached(
    recorder: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = on_a_device(monkeypatch)
    to_plain(recorder)
    monkeypatch.setattr(recorder.calls, "ended", lambda: False)
    for _ in range(20):
        recorder.step()
    assert (recorder.state, did, recorder.cupti_left) == ("plain", [], False)
    recorder.finish_plain()  # as ``watch`` does after some seconds
    assert (recorder.state, recorder.cupti_left) == ("done", False)


def test_without_a_device_there_is_nothing_to_detach(recorder: Driven) -> None:
    to_plain(recorder)
    recorder.step()
    assert recorder.cupti_left is None


def test_a_program_that_goes_on_is_left_without_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without steps: nothing but the stretch of time was recorded."""
    did = on_a_device(monkeypatch)
    recorder = Driven(then="continue")
    recorder.begin()
    recorder.end_early()
    recorder.open_timer("timer", 10**9)
    torch.ones(3).sin()
    recorder.close_timer()
    assert not recorder.leaving
    recorder.publish_best()
    assert (recorder.state, recorder.leaving, did) == ("done", True, [])
    recorder.leave()
    assert (recorder.leaving, did, recorder.cupti_left) == (False, ["detach"], None)
    recorder.leave()
    assert did == ["detach"]
    assert recorder.errors == []


@pytest.mark.parametrize("then", ["continue", "stop"])
def test_who_is_not_left_by_us(then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ends with its recording, and one whose own profiler has taken over."""
    did = on_a_device(monkeypatch)
    recorder = Driven(then=then)
    recorder.begin()
    recorder.end_early()
    recorder.publish_best()
    assert recorder.leaving == (then == "continue")
    recorder.user_profiler_starts()
    recorder.leave()
    assert (recorder.leaving, did) == (False, [])


@pytest.mark.parametrize("switch", [None, "0", "1"])
def test_no_session_but_the_last_is_followed_by_a_finalization(
    switch: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two finalizations that overlap damage the process, and one within the next session takes its device records."""
    if switch is None:
        monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    else:
        monkeypatch.setenv("TEARDOWN_CUPTI", switch)
    seen: list[str | None] = []
    recording = Recording(torch, Spec(run_dir="", target="", device="cpu"))
    for name in ("prepare_trace", "stop"):
        original = getattr(recording.profile, name)

        def spy(original: Any = original) -> None:
            seen.append(os.environ.get("TEARDOWN_CUPTI"))
            original()

        setattr(recording.profile, name, spy)
    recording.start()
    recording.stop()
    assert len(seen) == 2
    assert "1" not in seen
    assert os.environ.get("TEARDOWN_CUPTI") == switch


class DeviceEvent:
    """A record of a device as torch's results give them."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def device_type(self) -> Any:
        return torch._C._autograd.DeviceType.CUDA

    def start_ns(self) -> int:
        return self._start_ns


def test_a_window_whose_device_records_lost_their_clock_is_recorded_anew(
    recorder: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CUPTI gave them on an H200 once: all of a window's records, hours away from the host's."""
    hours_ns = 5 * 3600 * 10**9
    shifts = iter([hours_ns, 0])
    made: list[int] = []

    def results(recording: Recording) -> Any:
        if recording.devices != ["cuda"]:
            recording.devices = ["cuda"]
            made.append(next(shifts))
        return SimpleNamespace(events=lambda: [DeviceEvent(recording.start_ns + made[-1] + 1000)] * 3)

    settle_to_warm(recorder)
    recorder.step()
    lost = Recording.lost_the_clock

    def asked(recording: Recording) -> bool:
        with monkeypatch.context() as during:
            during.setattr(Recording, "_results", results)
            results(recording)
            try:
                return lost(recording)
            finally:
                recording.devices = []

    monkeypatch.setattr(Recording, "lost_the_clock", asked)
    for _ in range(3):
        recorder.step()
    assert recorder.state == "settle"  # not published
    assert any("another clock" in note for note in recorder.notes)
    recorder.step()
    assert recorder.state == "warm"
    for _ in range(4):
        recorder.step()
    assert recorder.state == "plain"
    best = recorder.best()
    assert best is not None
    assert (best.order, len(best.window["steps"])) == (0, 3)


def test_records_of_a_device_are_held_against_the_recording() -> None:
    recording = Recording(torch, Spec(run_dir="", target="", device="cpu"))
    recording.start_ns, recording.end_ns = 10**18, 10**18 + 10**9
    events = [DeviceEvent(10**18 + 5)] * 3
    recording._results = lambda: SimpleNamespace(events=lambda: events)  # type: ignore[method-assign]
    assert not recording.lost_the_clock()
    recording.devices = ["cuda"]
    assert not recording.lost_the_clock()
    events += [DeviceEvent(10**18 - 10**14)] * 3
    assert not recording.lost_the_clock()  # some at the head of a recording: the reader leaves those out
    events += [DeviceEvent(10**18 - 10**14)]
    assert recording.lost_the_clock()


def test_a_program_that_ends_while_warming_keeps_what_was_recorded_before(recorder: Driven) -> None:
    torch.ones(3).exp()
    settle_to_warm(recorder)
    recorder.stop()
    best = recorder.best()
    assert best is not None
    assert best.window["reason"] == "whole"
    assert_profiler_is_free()


def test_a_window_open_at_the_end_is_closed_with_its_steps(recorder: Driven) -> None:
    settle_to_warm(recorder)
    for _ in range(3):
        recorder.step()
    recorder.stop()
    best = recorder.best()
    assert best is not None
    assert (best.window["reason"], len(best.window["steps"]), best.window["complete"]) == ("stable", 2, False)
    assert_profiler_is_free()


def test_a_compilation_calls_the_warming_off_and_settling_goes_on(recorder: Driven) -> None:
    settle_to_warm(recorder)
    recorder.compile_started()
    assert recorder.state == "settle"
    recorder.compile_ended()
    recorder.step()
    recorder.step()
    assert recorder.state == "warm"
    recorder.step()
    assert recorder.state == "window"


def test_the_programs_own_profiler_finds_the_way_clear_while_warming(recorder: Driven) -> None:
    settle_to_warm(recorder)
    recorder.user_profiler_starts()
    assert_profiler_is_free()
    recorder.user_profiler_stopped()
    assert recorder.state == "settle"


def test_without_further_marks_the_warming_ends(recorder: Driven) -> None:
    settle_to_warm(recorder)
    recorder.close_window()
    assert recorder.state == "settle"
    assert_profiler_is_free()


def test_an_accelerator_that_appears_asks_for_a_new_early_recording(recorder: Driven) -> None:
    recorder.devices_appeared()
    assert (recorder.state, recorder.early_wanted) == ("settle", True)
    recorder.early_again()
    assert (recorder.state, recorder.early_wanted) == ("early", False)


def test_a_deferred_recorder_begins_when_the_accelerator_appears() -> None:
    recorder = Driven()
    recorder.defer()
    recorder.devices_appeared()
    assert recorder.state == "early"
    recorder.stop()
    assert recorder.errors == []


def test_work_of_an_accelerator_that_the_recording_missed_is_said(
    recorder: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.stop()
    monkeypatch.setattr("ridgeline.agent.recordings.accelerators", lambda *args: ["cuda"])
    recorder.publish_best()
    assert any("no work of cuda was recorded" in note for note in recorder.notes)


def assert_profiler_is_free() -> None:
    """A session of somebody else's records as if ours had never been."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as other:
        torch.ones(2).log()
    assert any(event.key == "aten::log" for event in other.key_averages())


@pytest.fixture
def unasked() -> Iterator[Driven]:
    """Nobody says how many steps, or after how many."""
    made = Driven(then="stop")
    made.begin()
    yield made
    made.stop()
    assert made.errors == []


def test_an_early_recording_has_three_steps_where_they_are_short(unasked: Driven) -> None:
    for _ in range(LEAST_STEPS):
        unasked.step()
        assert unasked.state == "early"
    unasked.step()
    assert unasked.state == "settle"
    take = unasked.best()
    assert take is not None
    assert (len(take.window["steps"]), take.order) == (LEAST_STEPS, FEW)
    assert len(unasked.times.profiled) == LEAST_STEPS


def test_long_steps_end_the_early_recording_with_the_first(unasked: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.agent.sizing.EARLY_NS", -1)
    unasked.step()
    unasked.step()
    assert unasked.state == "settle"


@pytest.mark.parametrize(("in_window", "reason"), [(1, "whole"), (2, "whole"), (3, "stable")])
def test_a_window_that_the_programs_end_left_with_few_steps_is_no_better_than_three_early_ones(
    unasked: Driven, in_window: int, reason: str
) -> None:
    while unasked.state != "window":
        unasked.step()
    for _ in range(in_window):
        unasked.step()
    unasked.stop()
    take = unasked.best()
    assert take is not None
    assert (take.window["reason"], len(take.window["steps"])) == (reason, 3)
    assert unasked.times.profiled == [s["end_ns"] - s["start_ns"] for s in take.window["steps"]]


@pytest.mark.parametrize(
    ("state", "steps", "complete", "lasted", "expected"),
    [
        ("window", 3, False, 0, ORDER["window"]),
        ("window", 2, False, WINDOW_NS - 1, FEW),
        ("window", 2, False, WINDOW_NS, ORDER["window"]),  # steps of a second
        ("window", 1, True, 0, ORDER["window"]),  # as many as were asked for
        ("window", 0, False, WINDOW_NS, NO_STEPS),
        ("early", 3, True, 0, FEW),
        ("early", 2, True, 0, ORDER["early"]),
        ("timer", 0, True, 0, ORDER["timer"]),
    ],
)
def test_which_recordings_are_preferred(state: str, steps: int, complete: bool, lasted: int, expected: int) -> None:
    assert order(state, steps, complete, lasted) == expected


class Lines:
    """A timeline whose portion is used up, or is not."""

    def __init__(self, exhausted: bool) -> None:
        self.exhausted, self.budget, self.resumed = exhausted, 0, 0

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def resume(self) -> None:
        self.resumed += 1

    def take(self) -> SimpleNamespace:
        return SimpleNamespace(threads=[])


@pytest.mark.parametrize("exhausted", [False, True])
def test_steps_whose_lines_had_run_out_do_not_count(unasked: Driven, exhausted: bool) -> None:
    lines: Any = Lines(exhausted)
    one = unasked._open_one
    assert one is not None
    one._timeline, lines.budget = lines, EARLY_LINES
    steps = 0
    while unasked.state == "early":
        unasked.step()
        steps += 1
    assert lines.budget == BUDGET
    assert lines.resumed == 1
    assert steps == 1 + LEAST_STEPS + exhausted
    take = unasked.best()
    assert take is not None
    assert len(take.window["steps"]) == LEAST_STEPS
