"""``ridgeline profile`` as a shell and a terminal see it: statuses, streams, signals, one line for each failure."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs_helpers import MARK, marked, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only")

CLI = [sys.executable, str(Path(__file__).resolve().parent / "runs_cli.py")]
CAPTURE = "import fake_agent\nfake_agent.capture()\n"


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Marks all processes of a test; runs are kept below ``tmp_path``."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("RIDGELINE_RUN_DIR", str(tmp_path / "runs"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    yield mark
    for pid in marked(mark):
        os.kill(pid, 9)


def script(folder: Path, source: str) -> str:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source))
    return str(path)


def profile(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [*CLI, "profile", "--python", sys.executable, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, cwd=cwd, check=False)


@pytest.mark.parametrize(
    ("ending", "status"),
    [("", 0), ("import sys; sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("import os; os.abort()", 134)],
)
def test_the_programs_status_passes_through(mark: str, tmp_path: Path, ending: str, status: int) -> None:
    done = profile(script(tmp_path, CAPTURE + ending))
    assert done.returncode == status, done.stderr.decode()
    if status:
        assert f"status {status}" in done.stderr.decode()
    assert not marked(mark)


def test_streams_arguments_and_cwd_are_the_programs_own(mark: str, tmp_path: Path) -> None:
    source = """
    import os, sys
    print("out", sys.argv[1:], input(), os.getcwd())
    print("err", file=sys.stderr)
    """
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done = profile(script(tmp_path, source), "--cwd", str(folder), "--", "--lr", "3", "--", "x", stdin=b"typed\n")
    assert done.stdout.decode() == f"out ['--lr', '3', '--', 'x'] typed {folder}\n"
    assert "err\n" in done.stderr.decode()
    assert done.returncode == 0
    assert "nothing was recorded" in done.stderr.decode()


def test_json_on_standard_output_stands_alone(mark: str, tmp_path: Path) -> None:
    done = profile(script(tmp_path, CAPTURE + "print('hello')\n"), "--format", "json")
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert document["source"]["exit_status"] == 0
    assert b"hello" in done.stderr


def test_json_into_a_file_leaves_standard_output_to_the_program(mark: str, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    done = profile(script(tmp_path, CAPTURE + "print('hello')\n"), "--format", "json", "--output", str(out))
    assert done.stdout == b"hello\n"
    assert json.loads(out.read_text())["schema"] == 1


def test_nothing_of_ours_on_a_pipe_but_the_result(mark: str, tmp_path: Path) -> None:
    done = profile(script(tmp_path, CAPTURE))
    assert done.stderr == b""
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.py"], "no such file"),
        (["."], "is a folder"),
        (["-m", "not a module"], "not a module name"),
        (["--python", "/no/such/python", "x.py"], "no such interpreter"),
        (["--cwd", "/no/such/folder", "x.py"], "no such folder"),
        (["--env", "NOVALUE", "x.py"], "NAME=VALUE"),
        (["--format", "xml", "x.py"], "text or json"),
        (["--then", "wait", "x.py"], "continue or stop"),
        (["--steps", "0", "x.py"], "--steps must be at least 1"),
        (["x.py", "--lr", "3"], "go after --"),
        (["--output", "/no/such/folder/out.json", "x.py"], "no such folder"),
    ],
)
def test_bad_usage_is_one_line_and_status_two(mark: str, tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "x.py").write_text("open('ran', 'w')")
    done = profile(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    message = done.stderr.decode()
    assert message.count("\n") == 1, message
    assert words in message
    assert not (tmp_path / "ran").exists()


def test_a_run_folder_that_cannot_be_made_is_said_before_the_program_runs(mark: str, tmp_path: Path) -> None:
    """A file stands where the folder should be: also a superuser cannot write there."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    done = profile(script(tmp_path, "open('ran', 'w')"), "--run-dir", str(blocked / "runs"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--run-dir" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "ran").exists()


def test_a_failed_analysis_is_our_failure_unless_the_program_failed(mark: str, tmp_path: Path) -> None:
    """125 for a program that went well; the program's own status otherwise."""
    breaks_it = "import fake_agent; fake_agent.capture(); import os\nos.remove(fake_agent.RUN_DIR + '/trace.json.gz')\n"
    done = profile(script(tmp_path, breaks_it))
    assert done.returncode == 125
    assert b"analysis failed" in done.stderr
    assert profile(script(tmp_path, breaks_it + "import sys; sys.exit(7)")).returncode == 7


class Terminal:
    """The command in a terminal of its own, as its session leader."""

    def __init__(self, *arguments: str, program: list[str] | None = None) -> None:
        self.text = b""
        command = program or [*CLI, "profile", "--python", sys.executable, *arguments]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)

    def read_until(self, words: bytes, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < deadline, f"no {words!r} in {self.text.decode()}"
            if not self._read():
                raise AssertionError(f"ended without {words!r}: {self.text.decode()}")

    def _read(self) -> bool:
        ready, _, _ = select.select([self.fd], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data
        return bool(data)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def end(self, seconds: float = 15) -> int:
        """The exit status as a shell gives it."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self._read() and select.select([self.fd], [], [], 0)[0]:
                    pass
                os.close(self.fd)
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            assert time.monotonic() < deadline, f"still running: {self.text.decode()}"
            self._read()


TREE = """
import subprocess, sys, time
deaf = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15, 1)]; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf])
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
"""


def test_ctrl_c_ends_the_tree_and_shows_what_there_is(mark: str, tmp_path: Path) -> None:
    source = f"{TREE}\nimport fake_agent\nfake_agent.capture()\nprint('UP', flush=True)\ntime.sleep(600)\n"
    terminal = Terminal(script(tmp_path, source))
    terminal.read_until(b"UP")
    assert wait_for(lambda: len(marked(mark)) >= 5, 30)
    terminal.type(b"\x03")
    assert terminal.end() == 130, terminal.text.decode()
    assert b"a device" in terminal.text or b"3 steps" in terminal.text, terminal.text.decode()
    assert not marked(mark)


def test_ctrl_c_reaches_the_program_once(mark: str, tmp_path: Path) -> None:
    """A program that saves a checkpoint on KeyboardInterrupt is not interrupted again while it does."""
    source = """
    import time
    try:
        print("UP", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print("SAVING", flush=True)
        time.sleep(2)
        print("SAVED", flush=True)
    """
    terminal = Terminal(script(tmp_path, source))
    terminal.read_until(b"UP")
    terminal.type(b"\x03")
    assert terminal.end() == 130, terminal.text.decode()
    assert b"SAVED" in terminal.text
    assert b"Traceback" not in terminal.text


def test_a_second_ctrl_c_is_at_once(mark: str, tmp_path: Path) -> None:
    source = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nsignal.signal(15, signal.SIG_IGN)\nprint('UP', flush=True)\n"
    terminal = Terminal(script(tmp_path, source + "time.sleep(600)\n"))
    terminal.read_until(b"UP")
    terminal.type(b"\x03")
    terminal.read_until(b"stopping")
    begun = time.monotonic()
    terminal.type(b"\x03")
    assert terminal.end() == 130, terminal.text.decode()
    assert time.monotonic() - begun < 4
    assert not marked(mark)


def test_the_program_has_the_terminal(mark: str, tmp_path: Path) -> None:
    source = "import os, sys\nprint(sys.stdin.isatty(), sys.stdout.isatty(), os.tcgetpgrp(0) == os.getpgrp())\nprint('got', input('? '))\n"
    terminal = Terminal(script(tmp_path, source))
    terminal.read_until(b"? ")
    terminal.type(b"an answer\n")
    assert terminal.end() == 0
    assert b"True True True" in terminal.text
    assert b"got an answer" in terminal.text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell with job control")
def test_ctrl_z_and_fg_work_as_in_any_shell(mark: str, tmp_path: Path) -> None:
    source = "import time\nprint('UP', flush=True)\ntime.sleep(1.5)\nprint('END', flush=True)\n"
    command = shlex.join([*CLI, "profile", "--python", sys.executable, script(tmp_path, source)])
    terminal = Terminal(program=["bash", "-c", f"set -m; {command}; echo STOPPED=$?; fg; echo DONE=$?"])
    terminal.read_until(b"UP")
    terminal.type(b"\x1a")
    terminal.read_until(f"STOPPED={128 + signal.SIGTSTP}".encode())
    terminal.read_until(b"END")
    terminal.read_until(b"DONE=0")
    assert terminal.end() == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_the_command_alone_ends_the_tree(mark: str, tmp_path: Path, number: int, status: int) -> None:
    source = f"{TREE}\nprint('UP', flush=True)\ntime.sleep(600)\n"
    process = subprocess.Popen(
        [*CLI, "profile", "--python", sys.executable, script(tmp_path, source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"UP\n"
    process.send_signal(number)
    assert process.wait(15) == status
    process.stdout.close()
    assert not marked(mark)


def test_death_of_the_command_ends_the_tree(mark: str, tmp_path: Path) -> None:
    source = f"{TREE}\nprint('UP', flush=True)\ntime.sleep(600)\n"
    process = subprocess.Popen(
        [*CLI, "profile", "--python", sys.executable, script(tmp_path, source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"UP\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert wait_for(lambda: not marked(mark), 30)


def test_death_of_the_supervisor_is_noticed_and_swept(mark: str, tmp_path: Path) -> None:
    source = f"import os\n{TREE}\nprint('UP', os.getppid(), flush=True)\ntime.sleep(600)\n"
    process = subprocess.Popen(
        [*CLI, "profile", "--python", sys.executable, script(tmp_path, source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    supervisor = int(process.stdout.readline().split()[1])
    os.kill(supervisor, 9)
    _, said = process.communicate(timeout=15)
    assert process.returncode == 125
    assert b"supervisor of the run was killed" in said
    assert not marked(mark)


def test_the_result_of_a_long_program_is_shown_while_it_goes_on(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGELINE_TEST_PATIENCE", "0")
    terminal = Terminal(script(tmp_path, CAPTURE + "import time\nprint('UP', flush=True)\ntime.sleep(600)\n"))
    terminal.read_until(b"the program goes on; Ctrl-C ends it")
    assert terminal.text.count(b"Run folder") == 1
    terminal.type(b"\x03")
    assert terminal.end() == 130, terminal.text.decode()
    assert terminal.text.count(b"Run folder") == 1, "it is shown once"
