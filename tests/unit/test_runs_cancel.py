"""Cancel at any moment, or kill what started the run: no process of it is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.runs import launch
from ridgeline.runs.store import Store
from runs_helpers import MARK, Starter, lives, marked, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process trees are kept on Linux only")

# All that makes a process tree hard to end, started at different moments of the program's life.
AWKWARD = """\
import fake_agent, multiprocessing, os, signal, subprocess, sys, time

def worker():  # as a DataLoader's
    time.sleep(600)

def respawner():  # as torchrun's agent: a worker that dies is started again
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        subprocess.run(["sleep", "600"])

if __name__ == "__main__":
    workers = [multiprocessing.get_context("fork").Process(target=worker, daemon=True) for _ in range(2)]
    for one in workers:
        one.start()
    deaf = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15, 1)]; time.sleep(600)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {deaf!r}]); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", parent])
    subprocess.Popen(["sleep", "600"], start_new_session=True)  # as torchrun's workers
    if os.fork() == 0:  # a daemon: its parent ends at once
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    multiprocessing.get_context("fork").Process(target=respawner).start()
    print("all up", flush=True)
    fake_agent.capture()
    if "deaf" in sys.argv:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.01)
"""
PROCESSES = 9
"""The program, two workers, parent and deaf grandchild, the session leader, the daemon, the respawner and its child."""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    starter.close()


def test_cancel_ends_the_whole_tree(runs: Starter) -> None:
    running = runs.start(AWKWARD, then="continue")
    running.until("captured")
    assert wait_for(lambda: len(running.left()) >= PROCESSES, 30), "the test's own tree did not come up"
    begun = time.monotonic()
    running.say("cancel")
    last = running.until("finished")
    assert not running.left()
    assert time.monotonic() - begun < 4
    assert last["status"] == "cancelled"
    assert running.process.wait(5) == 0


def test_cancel_ends_a_program_that_ignores_every_polite_signal(runs: Starter) -> None:
    running = runs.start(AWKWARD, args=["deaf"], then="continue")
    running.until("captured")
    running.say("cancel")
    running.until("finished")
    assert not running.left()


def test_an_interruption_keeps_and_analyses_what_there_is(runs: Starter) -> None:
    running = runs.start(AWKWARD, then="continue", keep_on_cancel=True)
    running.until("captured")
    running.say("cancel")
    last = running.until("finished")
    assert last["profile"] is True
    assert last["status"] == "cancelled"
    assert not running.left()


def test_an_interruption_waits_for_a_window_that_is_being_saved(runs: Starter) -> None:
    """Saving takes longer than the first grace period; the program gets no SIGTERM meanwhile."""
    source = """
    import fake_agent, signal, time
    try:
        print("up", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        fake_agent.say("saving")
        time.sleep(7)
        fake_agent.capture()
        raise
    """
    running = runs.start(source, keep_on_cancel=True)
    running.until("output")
    running.say("cancel")
    last = running.until("finished")
    assert last["profile"] is True
    assert last["exit_status"] == 128 + signal.SIGINT


def test_impatience_cuts_the_saving_short(runs: Starter) -> None:
    source = """
    import fake_agent, signal, time
    signal.signal(signal.SIGINT, lambda *_: fake_agent.say("saving"))
    print("up", flush=True)
    while True: time.sleep(1)
    """
    running = runs.start(source, keep_on_cancel=True)
    running.until("output")
    running.say("cancel")
    running.until("progress", phase="saving")
    begun = time.monotonic()
    running.say("hurry")
    running.until("finished")
    assert time.monotonic() - begun < 2
    assert not running.left()


@pytest.mark.parametrize("moment_s", [0.0, 0.05, 0.3, None])
def test_death_of_the_server_ends_the_run_within_three_seconds(
    runs: Starter, tmp_path: Path, moment_s: float | None
) -> None:
    """``kill -9`` of whoever started the supervisor, at the very start, in the middle, and when everything is up."""
    spec = runs.spec(AWKWARD, args=["deaf"], then="continue")
    mark = f"kill9-{random.getrandbits(64):x}"
    spec.env = {MARK: mark}
    folder = Store(tmp_path / "runs").create(spec)
    command = launch.supervisor_command(launch.write_spec(spec, folder))
    server = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "run = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1, start_new_session=True)\n"
            "print(run.pid, flush=True)\n"
            "time.sleep(600)",
            *command,
        ],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    supervisor = int(server.stdout.readline())
    if moment_s is None:
        assert wait_for(lambda: len(marked(mark)) >= PROCESSES, 30)
    else:
        time.sleep(moment_s)
    server.kill()
    server.wait()
    server.stdout.close()
    time.sleep(0.3)  # A supervisor that is still starting must not start the program after all.
    assert wait_for(lambda: not marked(mark) and not lives(supervisor), 30)
    time.sleep(0.3)
    assert not marked(mark)


def test_death_of_the_supervisor_itself_ends_the_program(runs: Starter) -> None:
    # It writes nothing once the supervisor is dead: a broken pipe must not be what ends it.
    running = runs.start("import os, time\nos.write(1, b'up')\ntime.sleep(600)\n")
    running.until("output")
    running.process.kill()
    assert wait_for(lambda: not running.left(), 30)


def test_a_signal_that_is_lost_at_the_supervisors_death_is_no_end_without_end(runs: Starter) -> None:
    """Blocked here, as it has been seen not to come at all: that the parent is another one is noticed by itself."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        running = runs.start("import os, time\nos.write(1, b'up')\ntime.sleep(600)\n")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    running.until("output")
    running.process.kill()
    assert wait_for(lambda: not running.left(), 30)


def test_death_of_the_inner_supervisor_leaves_nothing_either(runs: Starter) -> None:
    """Killed by hand, or by the kernel out of memory: its guard adopts the orphans and ends them."""
    running = runs.start(AWKWARD, args=["deaf"], then="continue")
    running.until("captured")
    assert wait_for(lambda: len(running.left()) >= PROCESSES, 30)
    inner = int(Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()[0])
    os.kill(inner, 9)
    assert running.process.wait(5) == 128 + 9
    assert not running.left()


def test_sigterm_to_the_supervisor_is_a_cancel(runs: Starter) -> None:
    running = runs.start(AWKWARD, then="continue")
    running.until("captured")
    running.process.terminate()
    last = running.until("finished")
    assert last["status"] == "cancelled"
    assert not running.left()


def _cancel_at_random(runs: Starter, seed: int) -> None:
    chance = random.Random(seed)
    running = runs.start(AWKWARD, args=["deaf"] if seed % 2 else [], name=f"p{seed}", then="continue")
    moment = chance.uniform(0.0, 0.6)
    time.sleep(moment)
    if seed % 3:
        running.say("cancel")
    else:
        assert running.process.stdin is not None
        running.process.stdin.close()
    running.until("finished")
    assert running.process.wait(10) == 0
    assert not running.left(), f"cancelled after {moment:.3f} s"


@pytest.mark.parametrize("seed", range(10))
def test_cancel_at_a_random_moment(runs: Starter, seed: int) -> None:
    _cancel_at_random(runs, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_cancels_at_random_moments(runs: Starter) -> None:
    count = int(os.environ.get("RIDGELINE_SOAK_RUNS", "200"))
    for seed in range(count):
        _cancel_at_random(runs, seed)
    print(f"{count} trees of up to {PROCESSES} processes cancelled at random moments, none left a process")
