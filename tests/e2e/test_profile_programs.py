"""Awkward programs under the whole command: each behaves as without Ridgeline, and leaves a sensible profile.

Every program runs twice, plain and under ``ridgeline profile``; standard output and exit status must be equal, and what
it prints on standard error must be there, tracebacks included, with no frame of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
RIDGELINE = [sys.executable, "-m", "ridgeline.cli"]

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]


@dataclass
class Bench:
    folder: Path

    def plain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, *arguments])

    def profiled(self, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """``arguments`` as for python; the result goes into a file, so that standard output is the program's alone."""
        split = 2 if arguments[0] == "-m" else 1
        target, rest = arguments[:split], arguments[split:]
        out = ("--format", "json", "--output", str(self.folder / "out.json"))
        (self.folder / "out.json").unlink(missing_ok=True)
        return self._run([*RIDGELINE, "profile", "--python", sys.executable, *out, *options, *target, "--", *rest])

    def document(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.folder / "out.json").read_text())
        return data

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        environment |= {"RIDGELINE_RUN_DIR": str(self.folder / "runs"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command,
            cwd=self.folder / "programs",
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    shutil.copytree(PROGRAMS, tmp_path / "programs", ignore=shutil.ignore_patterns("__pycache__"))
    return Bench(tmp_path)


@dataclass(frozen=True)
class Case:
    arguments: tuple[str, ...]
    recorded: bool = True
    """Whether a profile is expected."""


CASES = {
    "plain": Case(("plain.py", "--lr", "3", "--")),
    "sys.exit": Case(("exits_three.py",)),
    "sys.exit with words": Case(("exits_with_words.py",)),
    "os._exit": Case(("leaves_at_once.py",)),
    "exception": Case(("raises.py",)),
    "signal": Case(("dies_by_signal.py",)),
    "fork workers": Case(("loader_workers.py", "fork")),
    "spawn workers": Case(("loader_workers.py", "spawn")),
    "mp.spawn": Case(("spawns.py",)),
    "fork": Case(("forks.py",)),
    "threads": Case(("threads.py",)),
    "pickle of __main__": Case(("pickles_main.py",)),
    "environment before import": Case(("sets_environment.py",)),
    "arguments": Case(("reads_arguments.py", "--steps", "25")),
    "wrong arguments": Case(("reads_arguments.py",), recorded=False),
    "short": Case(("short.py",)),
    "inference": Case(("inference.py",)),
    "module": Case(("-m", "package.run", "-x")),
    "folder with __main__": Case(("folder", "-x")),
    "no torch": Case(("no_torch_at_all.py",), recorded=False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_behaves_as_without_us(bench: Bench, name: str) -> None:
    case = CASES[name]
    plain, profiled = bench.plain(*case.arguments), bench.profiled(*case.arguments)
    assert profiled.stdout == plain.stdout
    status = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert profiled.returncode == status, profiled.stderr
    said = profiled.stderr.splitlines()
    for line in plain.stderr.splitlines():
        assert line in said, f"missing on standard error: {line!r}\n{profiled.stderr}"
    ours = [line for line in said if line not in plain.stderr.splitlines()]
    assert all(line.startswith("ridgeline: ") for line in ours), ours
    if not case.recorded:
        assert not (bench.folder / "out.json").exists() or not bench.document()["kernels"]
        assert any(line.startswith("ridgeline: ") for line in said), "nobody said why there is no profile"
        return
    document = bench.document()
    assert document["source"]["exit_status"] in (status, plain.returncode)
    assert document["kernels"], "nothing was recorded"
    assert document["totals"]["wall_us"] is None or document["totals"]["wall_us"] > 0


def test_the_programs_own_profiler_gets_its_files_and_its_window_is_harvested(bench: Bench, tmp_path: Path) -> None:
    plain = bench.plain("own_profiler.py", str(tmp_path))
    profiled = bench.profiled("own_profiler.py", str(tmp_path))
    assert plain.stdout == profiled.stdout == "[True, True] True\n"
    assert profiled.returncode == 0
    document = bench.document()
    assert any(row["name"] == "a step of mine" for row in document["ranges"])


def test_lines_have_the_text_that_ran_even_where_the_file_was_edited_meanwhile(bench: Bench) -> None:
    done = bench.profiled("edited_meanwhile.py")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    texts = [row["text"] for row in bench.document()["lines"] if row["file"].endswith("edited_meanwhile.py")]
    assert any("# the line that ran" in text for text in texts)
    module = [row for row in bench.document()["lines"] if row["file"].endswith("small.py")]
    assert module
    assert all(row["text"] is None for row in module), "the text of an edited module is beside the lines that ran"
    assert any("small.py was edited" in warning["message"] for warning in bench.document()["quality"]["warnings"])


def test_a_program_that_compiles_again_midway_is_recorded_when_it_is_steady(bench: Bench) -> None:
    done = bench.profiled("compiled_phases.py")
    assert (done.stdout, done.returncode) == ("compiled\n", 0)
    document = bench.document()
    assert document["totals"]["compile_us"] > 0
    assert document["kernels"]


def test_a_server_is_recorded_after_a_while_and_stopped(bench: Bench) -> None:
    done = bench.profiled("server.py", options=("--after", "2", "--then", "stop"))
    assert done.stdout.startswith("serving\n")
    assert bench.document()["kernels"]
    assert done.returncode == 0, done.stderr


def test_then_stop_ends_a_long_program_when_its_window_is_on_disk(bench: Bench) -> None:
    (bench.folder / "programs" / "endless.py").write_text("from small import train\ntrain(10**9)\n")
    done = bench.profiled("endless.py", options=("--then", "stop"))
    assert bench.document()["source"]["steps"] >= 1
    assert done.returncode == 0, done.stderr


def test_an_interpreter_without_torch_is_one_clear_line(bench: Bench, tmp_path: Path) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    done = bench.profiled("plain.py", options=("--python", str(bare)))
    assert done.returncode == 1
    assert any(line.startswith("ridgeline: ") and "has no torch" in line for line in done.stderr.splitlines())


def test_the_status_of_a_kill_is_the_shells(bench: Bench) -> None:
    (bench.folder / "programs" / "killed.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    done = bench.profiled("killed.py")
    assert done.returncode == 128 + signal.SIGKILL
    assert "SIGKILL" in done.stderr
