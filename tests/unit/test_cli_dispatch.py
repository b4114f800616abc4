"""What the command line imports, and what it says of commands that are not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {"typer", "rich", "numpy", "pandas", "msgspec", "torch", "click"}


def imported_by(*arguments: str) -> set[str]:
    """Packages that are loaded when the command ends."""
    code = (
        f"import sys; sys.argv = ['ridgeline', *{list(arguments)!r}]\n"
        "from ridgeline.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("LOADED ")[2].split())


def test_the_language_server_starts_without_the_rest() -> None:
    assert not imported_by("lsp", "--help") & HEAVY


def test_help_and_bad_usage_do_not_load_the_analysis() -> None:
    analysis = {"numpy", "pandas", "msgspec", "torch"}
    assert not imported_by("--help") & analysis
    assert not imported_by("profile", "/no/such/file.py") & analysis


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command"),
        (["profile"], "Missing argument"),
        (["analyze", "x.json", "--select-steps", "5"], "A:B"),
        (["analyze", "x.json", "--source-root", "here"], "OLD=NEW"),
        (["analyze", "/no/such/trace.json"], "/no/such/trace.json"),
        (["analyze", "x.json", "--format", "yaml"], "text or json"),
        (["profile", "--after", "nan", __file__], "--after"),
        (["profile", "--after", "inf", __file__], "--after"),
        (["time", "1", "--min-run-time", "nan"], "--min-run-time"),
        (["open", "x.json", "--idle", "inf"], "--idle"),
    ],
)
def test_bad_usage_is_one_line_and_status_two(arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_no_command_is_help() -> None:
    done = subprocess.run([sys.executable, "-m", "ridgeline.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for command in ("profile", "analyze", "compare", "time", "doctor", "lsp"):
        assert command in done.stdout


@pytest.mark.parametrize("content", [b"", b"no json", b"[1, 2]", b'{"traceEvents": []}', b"\x1f\x8b broken gzip"])
def test_what_is_no_trace_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", "analyze", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 5, "args": {"device": 0}}
    path.write_text(json.dumps({"traceEvents": [event]}))
    return path


def ridgeline(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", *map(str, arguments)], stderr=subprocess.PIPE, check=False, **options
    )


def test_a_terminal_without_unicode_gets_letters_that_it_has(trace: Path) -> None:
    done = ridgeline("analyze", trace, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert b"5.00 us" in done.stdout
    assert b"?" not in done.stdout


def test_a_name_that_is_no_utf8_is_shown_all_the_same(trace: Path) -> None:
    odd = trace.with_name(os.fsdecode(b"tr\xe4ce.json"))
    trace.rename(odd)
    for form in ("text", "json"):
        done = ridgeline("analyze", odd, "--format", form, env=os.environ | {"PYTHONIOENCODING": "utf-8"})
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"][0]["total_us"] == 5


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_result_that_cannot_be_written_is_one_line(trace: Path, form: str) -> None:
    with open("/dev/full", "wb") as full:
        done = ridgeline("analyze", trace, "--format", form, stdout=full)
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1, done.stderr
    assert b"No space left" in done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_closed_streams_are_no_failure(trace: Path, form: str) -> None:
    command = f'exec "{sys.executable}" -m ridgeline.cli analyze "{trace}" --format {form} >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


def test_a_saved_profile_that_another_tool_wrote_anew_is_one(trace: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    document = json.loads(ridgeline("analyze", trace, "--format", "json").stdout)
    saved.write_text(json.dumps(document, indent=2, sort_keys=True))
    done = ridgeline("compare", saved, trace)
    assert done.returncode == 0, done.stderr
    assert b"No change" in done.stdout
    assert b"\nLines" not in done.stdout  # there are none


def test_modules_of_the_current_folder_are_not_taken_for_pythons(tmp_path: Path) -> None:
    for name in ("random", "secrets", "numpy", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported the program')")
    for module in ("ridgeline", "ridgeline.cli"):
        done = subprocess.run(
            [sys.executable, "-m", module, "analyze", "nothing.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert "does not exist" in done.stderr


@pytest.mark.parametrize("command", ["analyze", "open", "profile"])
def test_a_name_that_no_file_can_have_is_one_line(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", command, "a" * 5000], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "name too long" in done.stderr
