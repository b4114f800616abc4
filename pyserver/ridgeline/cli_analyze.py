"""``ridgeline analyze``, and showing a document, which ``profile`` does as well."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.cli_common import CommandError, check_format, say, text_console, write_json

if TYPE_CHECKING:
    from ridgeline.own_categories import Rule
    from ridgeline.profile import ProfileDocument


def run(
    paths: list[Path],
    *,
    generated: Path | None,
    provenance: Path | None,
    source_root: list[str],
    select_steps: str | None,
    steps_per_day: float | None,
    format: str,
    output: Path | None,
    quiet: bool,
    category: list[str],
) -> None:
    """Raises :class:`CommandError`."""
    check_format(format)
    rules = category_rules(category)
    roots = [_root(pair) for pair in source_root]
    if steps_per_day is not None and not 0 < steps_per_day < float("inf"):
        raise CommandError(f"--steps-per-day {steps_per_day:g}: a number above 0")
    selected = _steps(select_steps) if select_steps is not None else None
    for option, path in (("--generated", generated), ("--provenance", provenance)):
        if path is not None and not os.path.exists(path):
            raise CommandError(f"{option} {path}: no such file or folder")
    from ridgeline.analysis import analyze_paths
    from ridgeline.profile_io import UnreadableError

    try:
        paths = [_as_run(path) for path in paths]
        if not quiet and sys.stderr.isatty():
            say(f"reading {', '.join(str(path) for path in paths)}")
        document = analyze_paths(
            paths,
            generated=generated,
            provenance=provenance,
            source_roots=roots,
            select_steps=selected,
            steps_per_day=steps_per_day,
        )
    except UnreadableError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read {error.filename or paths[0]}: {error.strerror or error}") from error
    show(document, format=format, output=output, run_dir=None, rules=rules)


def category_rules(pairs: list[str]) -> list[Rule]:
    """The categories of ``--category``. Raises :class:`CommandError`."""
    from ridgeline.own_categories import CategoryError, from_options

    try:
        return from_options(pairs)
    except CategoryError as error:
        raise CommandError(str(error)) from error


def show(
    document: ProfileDocument,
    *,
    format: str,
    output: Path | None,
    run_dir: Path | None,
    rules: Sequence[Rule] = (),
) -> None:
    """The document as text or JSON, on standard output or in a file. Raises :class:`CommandError`.

    ``rules`` are categories of the command line: they stand instead of those that the document has.
    """
    if rules:
        from ridgeline.own_categories import apply

        apply(document, rules)
    if format == "json":
        from ridgeline import profile_io

        write_json(profile_io.to_json(document), output)
        return
    from ridgeline.report.text import render

    with text_console(output) as console:
        render(document, console, run_dir=str(run_dir) if run_dir is not None else None)


def _as_run(path: Path) -> Path:
    """A folder that runs are kept in means its newest run; everything else is taken as it is."""
    if path.is_dir() and not (path / "run.json").exists():
        from ridgeline.runs.store import StoreError, resolve_run

        try:
            return resolve_run(path).path
        except StoreError:
            return path
    return path


def _root(pair: str) -> tuple[str, str]:
    old, equals, new = pair.partition("=")
    if not equals or not old or not new:
        raise CommandError(f"--source-root {pair}: write OLD=NEW, for example /home/me/project=.")
    return old, os.path.abspath(new)


def _steps(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if colon and first.isdigit() and last.isdigit() and int(first) < int(last):
        return int(first), int(last)
    raise CommandError(f"--select-steps {text}: write A:B with A < B, for example 2:5")
