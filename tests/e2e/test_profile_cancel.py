"""Cancel at random moments of a real run: loader workers, compile workers, torchrun's workers, a deaf grandchild.

``make test`` does a few, ``make soak`` two hundred (``RIDGELINE_SOAK_RUNS`` for another number).
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.runs.spec import RunSpec
from runs_helpers import Starter

PROGRAM = Path(__file__).resolve().parent / "programs" / "tree.py"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process trees are kept on Linux only"),
]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    starter.close()


def _spec(folder: Path) -> RunSpec:
    return RunSpec(
        target=str(PROGRAM),
        python=sys.executable,
        cwd=str(folder),
        output="events",
        keep_on_cancel=False,
        then="continue",
        analysis=[sys.executable, "-m", "ridgeline.analysis"],
    )


def _cancel_after(runs: Starter, seconds: float, *, die: bool) -> float:
    """Cancels, or dies as a killed editor does; how long it took until nothing was left."""
    running = runs.start(_spec(runs.root))
    time.sleep(seconds)
    begun = time.monotonic()
    if die:
        assert running.process.stdin is not None
        running.process.stdin.close()
    else:
        running.say("cancel")
    last = running.until("finished")
    took = time.monotonic() - begun
    assert last["status"] == "cancelled"
    assert not running.left(), f"cancelled after {seconds:.2f} s"
    assert running.process.wait(10) == 0
    return took


def test_a_whole_tree_in_full_swing_is_ended(runs: Starter) -> None:
    running = runs.start(_spec(runs.root))
    running.until("captured")
    # program, deaf one and its parent, torchrun and two workers, two loader workers
    assert len(running.left()) >= 8
    running.say("cancel")
    running.until("finished")
    assert not running.left()


@pytest.mark.parametrize("seed", range(2))
def test_a_cancel_at_a_random_moment_of_a_real_run(runs: Starter, seed: int) -> None:
    chance = random.Random(seed)
    _cancel_after(runs, chance.uniform(0.0, 6.0), die=seed % 2 == 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_cancels_at_random_moments_of_real_runs(runs: Starter) -> None:
    count = int(os.environ.get("RIDGELINE_SOAK_RUNS", "200"))
    chance = random.Random(20)
    took = sorted(_cancel_after(runs, chance.uniform(0.0, 8.0), die=n % 3 == 0) for n in range(count))
    print(
        f"{count} runs cancelled, none left a process; until all was gone: median {took[count // 2]:.2f} s, most {took[-1]:.2f} s"
    )
    assert took[-1] < 5.0
