"""What the command line imports, and what it says of commands that are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
