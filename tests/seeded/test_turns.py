"""How a step of a faulty and of its mended program is timed: turn and turn about."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

import turns


class Asking:
    """The other end of a side's pipe: hands out turns, then says that it is over."""

    def __init__(self, *steps: int) -> None:
        self.left = deque([turns.Turn(n) for n in steps])
        self.got: list[turns.Took] = []

    def recv(self) -> turns.Turn | None:
        return self.left.popleft() if self.left else None

    def send(self, took: turns.Took) -> None:
        self.got.append(took)


class Machine:
    """A clock and a count of page faults that steps move on."""

    def __init__(self, *turns_of: int) -> None:
        self.now, self.faults = 0.0, 0
        self.pipe = Asking(*turns_of)
        self.steps = turns.Steps(self.pipe, lambda: self.now, lambda: self.faults)  # type: ignore[arg-type]
        self.steps.begin()

    def run(self, count: int, seconds: float = 1.0, faults: int = 10, optimizer: object = "first") -> None:
        for _ in range(count):
            self.now += seconds
            self.faults += faults
            self.steps.stepped(optimizer)


def test_the_first_steps_do_not_count() -> None:
    machine = Machine(3, 2)
    machine.run(turns.WARM, seconds=50.0)
    machine.run(3, seconds=1.0, faults=10)
    assert machine.pipe.got == [turns.Took(3.0, 3, 30)]
    with pytest.raises(turns.Over):
        machine.run(2, seconds=2.0, faults=0)
    assert machine.pipe.got[1:] == [turns.Took(4.0, 2, 0)]


def test_of_several_optimizers_one_ends_the_steps() -> None:
    machine = Machine(2, 9)
    for _ in range(turns.WARM + 2):
        machine.run(1, seconds=0.25, optimizer="first")
        machine.run(1, seconds=0.75, optimizer="second")
    assert machine.pipe.got == [turns.Took(2.0, 2, 40)]


def test_a_program_that_ends_within_a_turn_goes_on_in_it() -> None:
    machine = Machine(5)
    machine.run(turns.WARM + 3)
    machine.now += 100.0  # what comes after its loop, and its preparation again
    machine.steps.begin()
    machine.run(turns.WARM, seconds=50.0, optimizer="of the second run")
    with pytest.raises(turns.Over):
        machine.run(2, optimizer="of the second run")
    assert machine.pipe.got == [turns.Took(5.0, 5, 50)]


LOOP = """
import time
import torch

def main(steps=40):
    time.sleep(0.2)  # preparation
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))])
    for step in range({count}):
        end = time.{clock}() + {seconds}
        while time.{clock}() < end:
            pass
        opt.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize(("clock", "count"), [("process_time", "steps"), ("perf_counter", "12")])
def test_two_programs_in_turn(clock: str, count: str, tmp_path: Path) -> None:
    """Twice as long a step; the one by the wall clock ends again and again."""
    pytest.importorskip("torch")
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    for path, seconds in zip(paths, (0.02, 0.01)):
        path.write_text(LOOP.format(clock=clock, seconds=seconds, count=count), encoding="utf-8")
    faulty, mended = turns.pair(paths, clock, 0.3)
    assert faulty.step_us >= 20_000.0
    assert mended.step_us >= 10_000.0
    if clock == "process_time":  # the wall clock is also others'
        assert mended.step_us / faulty.step_us == pytest.approx(0.5, rel=0.2)


@pytest.mark.torch
def test_a_program_that_fails_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "wrong.py"
    path.write_text("def main(steps=3):\n    raise ValueError('no data')\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"wrong\.py"):
        turns.pair([path, path], "process_time", 0.1)
    assert "no data" in capfd.readouterr().err


@pytest.mark.torch
def test_sides_end_with_the_one_that_hands_out_turns(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "a.py"
    path.write_text(LOOP.format(clock="process_time", seconds=0.001, count="steps"), encoding="utf-8")
    players = [turns.Player(path, "process_time") for _ in range(2)]
    for player in players:
        player.turn(1)
    for player in players:
        player._pipe.close()  # as when its process is killed
    for player in reversed(players):  # the second was forked with the first one's pipe
        player._process.join()
        assert player._process.exitcode == 0
