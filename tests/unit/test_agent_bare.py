"""The steps that are recorded once more, without their lines."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.agent.bare import BARE, UNSEEN, BareSteps, outermost
from ridgeline.agent.labels import Scopes
from ridgeline.agent.recorder import Recorder
from ridgeline.agent.spec import Spec
from ridgeline.agent.take import Take
from ridgeline.agent.timeline import Timeline, create

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def _recorder(published: list[Take], timeline: Timeline | None) -> Recorder:
    errors: list[Any] = []
    spec = Spec(run_dir="", target="", device="cpu", warmup=1, steps=3, then="stop")
    made = Recorder(
        torch, spec, timeline, Scopes(), published.append, lambda *a, **k: None, lambda *error: errors.append(error)
    )
    made.begin()
    for _ in range(7):  # early, settled, warm, a window of three
        made.mark("optimizer", 0)
    assert errors == []
    return made


def test_steps_without_lines_follow_a_window_with_lines() -> None:
    published: list[Take] = []
    timeline = create(lambda file: file == __file__)
    recorder = _recorder(published, timeline)
    assert recorder.state == "bare"
    assert not timeline.on
    recorder.mark("optimizer", 0)  # what the window recorded has returned
    x = torch.ones(3)
    for k in range(UNSEEN + BARE):
        assert recorder.state == "bare"
        x.sin() if k < UNSEEN else x.cos()
        recorder.mark("optimizer", 0)
    assert recorder.state == "plain"
    for _ in range(BARE):
        x.tan()
        recorder.mark("optimizer", 0)
    (take,) = published
    bare = take.window["bare"]
    assert len(bare["steps"]) == len(bare["plain_ns"]) == BARE
    cosines = [row for row in bare["rows"] if bare["names"][row[1]] == "aten::cos"]
    assert len(cosines) == BARE
    for (kind, _, start, length), step in zip(cosines, bare["steps"]):
        assert kind == 0
        assert step["start_ns"] <= start <= start + length <= step["end_ns"]
    assert "aten::tan" not in bare["names"]


def test_without_lines_there_is_nothing_to_compare() -> None:
    published: list[Take] = []
    recorder = _recorder(published, None)
    assert recorder.state == "plain"
    recorder.publish_best()
    assert published[0].window["bare"] is None


@pytest.mark.parametrize("marks", [0, 1])
def test_a_program_that_ends_before_them_has_none(marks: int) -> None:
    published: list[Take] = []
    recorder = _recorder(published, create(lambda file: file == __file__))
    for _ in range(marks):
        recorder.mark("optimizer", 0)
    recorder.stop()
    recorder.publish_best()
    assert published[0].window["bare"] is None


def test_no_session_begins_within_a_call_that_the_window_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scope would end in a session that knows nothing of it: the process dies. (Steps of a compiled region end in it.)"""
    published: list[Take] = []
    recorder = _recorder(published, create(lambda file: file == __file__))
    monkeypatch.setattr(recorder.calls, "ended", lambda: False)
    recorder.mark("optimizer", 0)
    assert recorder.state == "plain"
    assert not recorder.times.bare.begun
    recorder.publish_best()
    assert published[0].window["bare"] is None


def test_a_program_that_ends_among_them_leaves_those_there_were() -> None:
    published: list[Take] = []
    recorder = _recorder(published, create(lambda file: file == __file__))
    for _ in range(1 + UNSEEN + 2):
        recorder.mark("optimizer", 0)
    recorder.stop()
    recorder.publish_best()
    assert len(published[0].window["bare"]["steps"]) == 2


def test_a_step_with_a_compilation_in_it_does_not_count() -> None:
    bare = BareSteps()
    bare.begin(torch, Spec(run_dir="", target="", device="cpu"))
    for k in range(UNSEEN + BARE):
        bare.mark(clean=k != UNSEEN + 1)
    assert bare.row is not None
    assert len(bare.row["steps"]) == BARE - 1


def test_what_runs_within_an_operator_is_left_out_and_what_runs_within_a_place_is_not() -> None:
    rows = [
        (0, "Optimizer.step#SGD.step", 0, 100, 1),
        (0, "aten::add_", 10, 20, 1),
        (0, "aten::to", 15, 5, 1),
        (0, "aten::mul", 15, 5, 2),
        (0, "aten::add_", 40, 20, 1),
    ]
    assert outermost(rows[::-1]) == [rows[0], rows[1], rows[3], rows[4]]
