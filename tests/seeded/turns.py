"""Times a step of a faulty and of its mended program, turn and turn about.

    python tests/seeded/turns.py FAULTY.py MENDED.py CLOCK PAIRS SECONDS

``CLOCK`` is a function of ``time``. Prints [[faulty, mended] µs a step, …], a pair a row, as JSON on the last line.

Each side of a pair is a process of its own, forked from this one after torch was imported and nothing else done: neither runs in
what the other has left of the heap, of the allocator's and of Python's garbage collector's state. The programs are built before
anything is timed and stay in their loops; a step ends where their first optimizer has stepped. After ``WARM`` steps the two take
turns, one of which stops while the other runs: ``TURN_S`` of steps or one step, the side that begins changing from turn to turn,
until each had ``SECONDS``. A side's time is the median over its turns, so that what slows the machine for a while falls on both,
and what slows it for a moment on neither. A program that ends is begun again; its first ``WARM`` steps do not count.

By the wall clock (for programs that wait) one side runs all of its turns after the other: processes that load for a side that
stands would take the other's cores, and have its batches ready.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

WARM = 5
"""Steps before a clock starts: memory is taken, caches are filled, optimizers make their state."""
TURN_S = 0.1
"""Of a turn: caches that the other side has filled are one's own again in one per cent of it."""
FEWEST = 3
"""Turns of a side, where single steps are long."""
MANY = 4000
"""Steps that ``main(steps)`` is asked for; nothing runs so many."""


class Side(NamedTuple):
    """What one process of a pair took."""

    step_us: float
    faults: float
    """Minor page faults a step."""


class Turn(NamedTuple):
    """What is asked of a side: so many steps."""

    steps: int


class Took(NamedTuple):
    seconds: float
    steps: int
    faults: int


class Over(BaseException):
    """Leaves the program; no ``except Exception`` of its own holds it up."""


class Steps:
    """The side of the program: called at the end of each of its steps, it stops the program while it is not its turn."""

    def __init__(self, pipe: Connection, clock: Callable[[], float], faults: Callable[[], int] | None = None) -> None:
        self._pipe, self._clock, self._faults = pipe, clock, faults or _faults
        self._warm, self._optimizer = WARM, None
        self._turn: Turn | None = None
        self._took = Took(0.0, 0, 0)
        """Of this turn."""
        self._since = (0.0, 0)
        """Clock and page faults at the end of the last step."""

    def begin(self) -> None:
        """The program begins (again). A turn that its end cut short goes on once it is warm."""
        self._warm, self._optimizer = WARM, None

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """After ``Optimizer.step``; of several optimizers the first to step ends the steps."""
        self._optimizer = optimizer if self._optimizer is None else self._optimizer
        if optimizer is not self._optimizer:
            return
        if self._warm:
            self._warm -= 1
            if self._warm:
                return
        elif self._turn is not None:
            now, faults = self._clock(), self._faults()
            took = self._took
            self._took = Took(
                took.seconds + now - self._since[0], took.steps + 1, took.faults + faults - self._since[1]
            )
            if self._took.steps == self._turn.steps:
                self._pipe.send(self._took)
                self._turn = None
        if self._turn is None:
            self._turn = self._pipe.recv()
            self._took = Took(0.0, 0, 0)
            if self._turn is None:
                raise Over
        self._since = (self._clock(), self._faults())


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def run(path: Path, pipe: Connection, theirs: Connection, clock: str) -> None:
    """A side's process: the program again and again, until it is told that it is over, or the one that hands out turns is gone."""
    theirs.close()  # the other end, which it was forked with
    from torch.optim.optimizer import register_optimizer_step_post_hook

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = [str(path)]
    steps = Steps(pipe, getattr(time, clock))
    register_optimizer_step_post_hook(steps.stepped)
    text = path.read_text(encoding="utf-8")
    asked = re.search(r"^def main\(steps\b", text, re.MULTILINE) is not None
    name = "seeded" if asked else "__main__"
    if asked:
        sys.modules[name] = ModuleType(name)
    try:
        while True:
            steps.begin()
            scope: dict[str, Any] = {"__name__": name, "__file__": str(path)}
            exec(compile(text, str(path), "exec"), scope)  # our own programs, from this folder
            if asked:
                scope["main"](MANY)
    except (Over, EOFError):
        pass


class Player:
    """A side as the one that hands out turns sees it."""

    def __init__(self, path: Path, clock: str) -> None:
        context = get_context("fork")
        self._path = path
        self._pipe, its = context.Pipe()
        self._process = context.Process(target=run, args=(path, its, self._pipe, clock))
        self._process.start()
        its.close()
        self.turns: list[Took] = []

    def turn(self, steps: int) -> Took:
        """So many steps. Raises RuntimeError where the program failed."""
        try:
            self._pipe.send(Turn(steps))
            took: Took = self._pipe.recv()
        except (EOFError, OSError):
            raise RuntimeError(f"{self._path.name} has ended; what it said stands above") from None
        return took

    def steps_of(self, seconds: float) -> int:
        """How many steps take so long, at least one; by as long a turn that does not count."""
        took = self.turn(1)
        while took.seconds < seconds / 2:
            took = self.turn(max(2 * took.steps, int(took.steps * seconds / max(took.seconds, 1e-6) / 2)))
        return max(1, round(seconds * took.steps / took.seconds))

    @property
    def side(self) -> Side:
        return Side(
            1e6 * statistics.median(t.seconds / t.steps for t in self.turns),
            statistics.median(t.faults / t.steps for t in self.turns),
        )

    def leave(self) -> None:
        with contextlib.suppress(OSError):  # it has ended by itself
            self._pipe.send(None)
        self._process.join(10.0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._pipe.close()


def pair(paths: Sequence[Path], clock: str, seconds: float) -> list[Side]:
    """Faulty and mended."""
    if clock == "perf_counter":
        return [_alone(path, clock, seconds) for path in paths]
    players = [Player(path, clock) for path in paths]
    try:
        steps = [player.steps_of(TURN_S) for player in players]
        order = list(zip(players, steps))
        spent = 0.0
        while spent < seconds or len(players[0].turns) < FEWEST:
            for player, count in order:
                player.turns.append(player.turn(count))
            spent += max(player.turns[-1].seconds for player in players)
            order.reverse()
        return [player.side for player in players]
    finally:
        for player in players:
            player.leave()


def _alone(path: Path, clock: str, seconds: float) -> Side:
    player = Player(path, clock)
    try:
        # One long turn: a short one takes the batches that lie ready.
        player.turns.append(player.turn(player.steps_of(seconds)))
        return player.side
    finally:
        player.leave()


def main(arguments: Sequence[str]) -> int:
    import torch
    import torch._dynamo
    import torch.utils.data

    faulty, mended, clock, pairs, seconds = arguments
    torch.set_num_threads(1)
    sides = [pair([Path(faulty), Path(mended)], clock, float(seconds)) for _ in range(int(pairs))]
    for each in sides:
        print("; ".join(f"{s.step_us:.0f} us {s.faults:.0f} faults" for s in each), file=sys.stderr, flush=True)
    print(json.dumps([[s.step_us for s in each] for each in sides]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
