"""What the commands share: errors of one line, where results go, which interpreter is meant."""

from __future__ import annotations

import codecs
import io
import math
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ridgeline.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

USAGE, FAILED, INTERRUPTED = 2, 125, 130
"""Ridgeline's own exit statuses: bad usage or unreadable input, it failed itself, interrupted."""


class CommandError(Exception):
    """Ends the command with ``status`` and one line on standard error: what, where, what to do."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


_PLAIN = str.maketrans(
    {
        "µ": "u",
        "·": "-",
        "│": "|",
        "…": "...",
        "–": "-",
        "—": "-",
        "→": "->",
        "±": "+-",
        "×": "x",
        "≤": "<=",
        "≥": ">=",
        "\xa0": " ",
    }
)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """What a stream cannot encode in letters that it can: ``us`` for ``µs``; ``?`` for what has none."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "replace").decode("ascii"), error.end


def prepare_streams() -> None:
    """Standard output and error take any text, whatever their encoding, and are there even where they were closed."""
    codecs.register_error("ridgeline.plain", _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="ridgeline.plain")


def check_seconds(option: str, value: float) -> None:
    """Raises :class:`CommandError` for ``nan`` and ``inf``, which the ranges of options let pass."""
    if not math.isfinite(value):
        raise CommandError(f"{option} {value}: give a number of seconds")


def named_sizes(pairs: list[str]) -> dict[str, int]:
    """``NAME=NUMBER`` of ``--size``. Raises :class:`CommandError`."""
    sizes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value.isdecimal():
            raise CommandError(f"--size {pair}: write NAME=NUMBER, as in u0=4096")
        sizes[name] = int(value)
    return sizes


def say(message: str) -> None:
    """One line on standard error."""
    print(f"ridgeline: {printable(message)}", file=sys.stderr, flush=True)


def check_format(name: str) -> str:
    if name not in ("text", "json"):
        raise CommandError(f"--format {name}: choose text or json")
    return name


def _seen_enough() -> None:
    raise BrokenPipeError


@contextmanager
def text_console(output: Path | None) -> Iterator[Console]:
    """A rich console on standard output or into a file (no colour there). Raises :class:`CommandError`."""
    from ridgeline.report.console import SafeConsole

    if output is None:
        console = SafeConsole(width=_width())
        # rich would end with 1: the reader of a pipe (head, less) that has seen enough is no failure.
        console.on_broken_pipe = _seen_enough  # type: ignore[method-assign]
        with _to_stdout():
            yield console
        return
    with opened(output) as stream:
        yield SafeConsole(file=stream, width=120, color_system=None, force_terminal=False)


def _width() -> int | None:
    """Columns of standard output; None where rich finds out: a terminal, or a width that ``COLUMNS`` gives."""
    asked = os.environ.get("COLUMNS")
    if asked is not None and asked.isdecimal() and int(asked) > 0:
        return None
    # A pipe or a log has no width of its own; rich would take 80 columns and cut names short.
    if not sys.stdout.isatty():
        return 120
    # Some containers set COLUMNS=0, for which rich would print nothing at all.
    return None if asked is None else os.get_terminal_size(sys.stdout.fileno()).columns or 80


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = None  # What it still holds cannot be written at exit either.
        raise CommandError(
            f"cannot write the result: {error.strerror or error}; give --output a place", FAILED
        ) from error


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
        with _to_stdout():
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
