"""What the commands share: errors of one line, where results go, which interpreter is meant."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

USAGE, FAILED, INTERRUPTED = 2, 125, 130
"""Ridgeline's own exit statuses: bad usage or unreadable input, it failed itself, interrupted."""


class CommandError(Exception):
    """Ends the command with ``status`` and one line on standard error: what, where, what to do."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


def say(message: str) -> None:
    """One line on standard error."""
    print(f"ridgeline: {message}", file=sys.stderr, flush=True)


def check_format(name: str) -> str:
    if name not in ("text", "json"):
        raise CommandError(f"--format {name}: choose text or json")
    return name


@contextmanager
def text_console(output: Path | None) -> Iterator[Console]:
    """A rich console on standard output or into a file (no colour there). Raises :class:`CommandError`."""
    from rich.console import Console

    if output is None:
        # A pipe or a log has no width of its own; rich would take 80 columns and cut names short.
        wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
        yield Console(width=120 if wide else None)
        return
    with opened(output) as stream:
        yield Console(file=stream, width=120, color_system=None, force_terminal=False)


@contextmanager
def opened(output: Path) -> Iterator[TextIO]:
    """Opens the file of ``--output`` for writing. Raises :class:`CommandError`."""
    try:
        with output.open("w", encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise CommandError(f"cannot write {output}: {error.strerror or error}; choose another --output") from error


def write_json(data: bytes, output: Path | None) -> None:
    """Exactly one JSON document and a newline. Raises :class:`CommandError`."""
    if output is None:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
        return
    with opened(output) as stream:
        stream.write(data.decode() + "\n")


def environment(pairs: list[str]) -> dict[str, str]:
    """``--env K=V``. Raises :class:`CommandError`."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--env {pair}: write NAME=VALUE")
        result[name] = value
    return result


def interpreter(asked: str | None) -> str:
    """The user's interpreter: ``--python``, the active environment's, Ridgeline's own if it has torch, ``python3``.

    A bare name is looked up in ``PATH``. Symbolic links are kept, for a virtual environment is one. Raises :class:`CommandError`.
    """
    if asked is not None:
        found = shutil.which(os.path.expanduser(asked))
        if found is None:
            raise CommandError(f"no such interpreter: {asked}; give a path or a name in PATH with --python")
        return os.path.abspath(found)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = os.path.join(os.environ.get(variable, ""), "bin", "python")
        if os.environ.get(variable) and os.access(candidate, os.X_OK):
            return candidate
    from importlib.util import find_spec

    if find_spec("torch") is not None:
        return sys.executable
    return shutil.which("python3") or shutil.which("python") or sys.executable
