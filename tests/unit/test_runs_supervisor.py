"""The supervisor from the outside: events, exit statuses, failures, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.runs.causes import of_program
from ridgeline.runs.folder import RunInfo
from ridgeline.runs.progress import Progress
from runs_helpers import Starter, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process trees are kept on Linux only")

CAPTURE = "import fake_agent\nfake_agent.capture()\n"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    starter.close()


def test_a_run_is_finished_with_its_profile(runs: Starter) -> None:
    running, last = runs.finish(CAPTURE + "print('hello')\n")
    assert last["status"] == "finished"
    assert last["profile"] is True
    assert last["exit_status"] == 0
    assert last["cause"] is None
    assert running.output() == "hello\n"
    names = [event["event"] for event in running.seen]
    assert names.index("started") < names.index("captured") < names.index("profile") < names.index("finished")
    info = RunInfo.read(running.folder)
    assert info is not None
    assert (info.state, info.finished, info.exit_status) == ("finished", True, 0)
    assert (info.device, info.steps, info.step_us) == ("a device", 3, 1000.0)
    assert info.files == (str(running.folder.path / "model.py"),), "the user's files only, for finding runs by file"
    assert not running.left()


def test_the_profile_holds_what_the_end_of_the_program_added(runs: Starter) -> None:
    """The analysis runs while the program goes on, and again when its end changed the sidecar."""
    running, last = runs.finish(CAPTURE + "import time; time.sleep(2.5)\n", then="continue")
    profiles = [event for event in running.seen if event["event"] == "profile"]
    assert [event["running"] for event in profiles] == [True, False]
    assert last["profile"] is True
    assert json.loads(running.folder.profile.read_text())["source"]["exit_status"] == 0


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os; os._exit(4)", 4),
        ("raise ValueError('boom')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("import os; os.abort()", 128 + signal.SIGABRT),
    ],
)
def test_the_exit_status_is_the_programs_as_a_shell_gives_it(runs: Starter, ending: str, status: int) -> None:
    running, last = runs.finish(CAPTURE + ending)
    assert last["exit_status"] == status
    assert last["profile"] is True, "what was recorded before the end is kept"
    assert RunInfo.read(running.folder).exit_status == status  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("import sys; sys.exit(3)", "script-failed", "status 3"),
        ("raise ValueError('no such dataset')", "script-failed", "ValueError: no such dataset"),
        ("import not_there_at_all", "module-missing", "not_there_at_all"),
        ("raise RuntimeError('CUDA out of memory. Tried to allocate')", "out-of-memory", "memory"),
        ("import os; os.kill(os.getpid(), 9)", "killed", "SIGKILL"),
        ("raise OSError(28, 'No space left on device')", "disk-full", "no space"),
        ("print(1)", "nothing-recorded", "nothing was recorded"),
    ],
)
@pytest.mark.torch
def test_a_run_without_a_window_says_why(runs: Starter, source: str, code: str, words: str) -> None:
    _, last = runs.finish(source)
    assert last["profile"] is False
    assert last["cause"]["code"] == code
    assert words in last["cause"]["message"]
    assert last["status"] == ("empty" if code == "nothing-recorded" else "failed")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (
            "the program failed before it imported torch: ImportError: attempted relative import with no known parent package",
            "-m",
        ),
        ("the program failed before it imported torch: SyntaxError: invalid syntax", "its own output"),
        ("the program ended with status 2 before it imported torch", "stands above"),
        ("the program ended without importing torch", "processes that it starts"),
        ("the run folder cannot be written: disk quota", "log.txt in {folder}"),
    ],
)
def test_what_the_agent_said_comes_with_what_to_do(tmp_path: Path, runs: Starter, message: str, hint: str) -> None:
    spec = runs.spec("")
    last = Progress(phase="failed", message=message)
    cause = of_program(spec, tmp_path, dict(os.environ), returncode=1, last=last, errors="")
    assert cause.message == message
    assert cause.hint is not None
    assert hint.format(folder=tmp_path) in cause.hint


def test_an_interpreter_without_torch_is_named(runs: Starter, tmp_path: Path) -> None:
    """A bare environment: this Python without its packages."""
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S -E "$@"\n')
    bare.chmod(0o755)
    spec = runs.spec("import torch")
    spec.python = str(bare)
    _, last = runs.finish(spec)
    assert last["cause"]["code"] == "no-torch"
    assert str(bare) in last["cause"]["message"]
    assert last["exit_status"] == 1


def test_what_is_no_interpreter_is_named(runs: Starter, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("not a program")
    spec = runs.spec("pass")
    spec.python = str(fake)
    _, last = runs.finish(spec)
    assert last["cause"]["code"] == "start-failed"
    assert str(fake) in last["cause"]["message"]


def test_a_failing_analysis_is_a_failed_run_that_keeps_its_trace(runs: Starter) -> None:
    spec = runs.spec(CAPTURE)
    spec.analysis.append("fail")
    running, last = runs.finish(spec)
    assert last["status"] == "failed"
    assert last["cause"]["code"] == "analysis-failed"
    assert "damaged at byte 7" in last["cause"]["message"]
    assert running.folder.trace.exists()


@pytest.mark.torch
def test_a_profile_that_shows_nothing_is_an_empty_run(runs: Starter) -> None:
    spec = runs.spec(CAPTURE)
    spec.analysis.append("empty")
    running, last = runs.finish(spec)
    assert (last["status"], last["profile"], last["cause"]["code"]) == ("empty", False, "nothing-recorded")
    assert RunInfo.read(running.folder).state == "empty"  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", ["time.sleep(600)", "signal.signal(15, signal.SIG_IGN); time.sleep(600)"])
def test_a_program_that_does_not_stop_by_itself_is_stopped_and_that_is_no_failure(runs: Starter, ending: str) -> None:
    """``then: stop`` where the agent has no step at which it could unwind the program."""
    begun = time.monotonic()
    running, last = runs.finish(CAPTURE + f"import signal, time; {ending}\n", then="stop")
    assert (last["status"], last["exit_status"], last["profile"]) == ("finished", 0, True)
    assert time.monotonic() - begun < 15
    assert not running.left()


def test_a_program_that_fails_while_it_is_about_to_be_stopped_keeps_its_status(runs: Starter) -> None:
    _, last = runs.finish(CAPTURE + "import sys; sys.exit(5)", then="stop")
    assert last["exit_status"] == 5


def test_a_cancel_during_the_analysis_ends_it(runs: Starter) -> None:
    spec = runs.spec(CAPTURE)
    spec.analysis.append("slow")
    running = runs.start(spec)
    running.until("progress", phase="analyzing")
    begun = time.monotonic()
    running.say("cancel")
    last = running.until("finished")
    assert time.monotonic() - begun < 3
    assert last["status"] == "cancelled"


def test_processes_that_a_program_leaves_behind_are_ended(runs: Starter) -> None:
    source = CAPTURE + "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    running, last = runs.finish(source)
    assert last["profile"] is True
    assert not running.left()
    assert "left behind: sleep 600" in running.folder.log.read_text()


def test_output_of_the_program_is_kept_whole_and_in_the_log(runs: Starter) -> None:
    source = "import sys\nfor i in range(2000): print('ü' * 50, i)\nprint('to stderr', file=sys.stderr)\n"
    running, _ = runs.finish(source)
    expected = "".join(f"{'ü' * 50} {i}\n" for i in range(2000))
    assert running.output() == expected
    assert "to stderr" in running.output("stderr")
    assert expected.splitlines()[-1] in running.folder.log.read_text()


def test_the_environment_is_the_users_but_for_provenance(runs: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_PROVENANCE", raising=False)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    ask = "import os, json; print(json.dumps(dict(os.environ)))"
    plain = json.loads(subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout)
    running, _ = runs.finish(ask, env={"MINE": "1"})
    added = {"MINE": "1", "RIDGELINE_TEST_MARK": running.mark, "INDUCTOR_PROVENANCE": "1", "PYTHONUNBUFFERED": "1"}
    assert json.loads(running.output()) == plain | added
    running, _ = runs.finish(ask, env={"INDUCTOR_PROVENANCE": "2"})
    assert json.loads(running.output())["INDUCTOR_PROVENANCE"] == "2", "the user's own value stays"


def test_secrets_of_the_environment_do_not_stay_on_disk(runs: Starter) -> None:
    running, _ = runs.finish(CAPTURE, env={"API_TOKEN": "hunter2hunter2"})
    for path in running.folder.path.rglob("*"):
        assert not path.is_file() or b"hunter2hunter2" not in path.read_bytes(), path


def test_a_cache_folder_with_a_space_is_warned_about(runs: Starter) -> None:
    running, _ = runs.finish(CAPTURE, env={"TORCHINDUCTOR_CACHE_DIR": "/tmp/a b"})
    assert any(e["event"] == "note" and e["code"] == "cache-path-space" for e in running.seen)


def test_the_supervisor_is_outside_the_programs_group_and_session_leaders_reach(runs: Starter) -> None:
    """A program that kills its own process group does not kill what looks after it."""
    running, last = runs.finish(CAPTURE + "import os; os.killpg(0, 9)\n")
    assert last["exit_status"] == 128 + 9
    assert last["profile"] is True
    assert wait_for(lambda: not running.left(), 30)
