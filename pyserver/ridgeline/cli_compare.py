"""``ridgeline compare BEFORE AFTER``: runs, traces or saved profiles."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ridgeline.cli_common import CommandError, check_format, text_console, write_json

SLOWER = 1
"""Exit status when ``--fail-on`` is exceeded."""


def run(before: str, after: str, *, fail_on: str | None, format: str, output: Path | None) -> int:
    """The exit status. Raises :class:`CommandError`."""
    check_format(format)
    limit = _limit(fail_on) if fail_on is not None else None
    from ridgeline.compare import compare

    found = compare(load(before), load(after))
    if format == "json":
        rows = asdict(found)
        write_json(json.dumps(rows, allow_nan=False).encode(), output)
    else:
        from ridgeline.report.comparison import render

        with text_console(output) as console:
            render(found, console)
    head = found.headline
    exceeded = limit is not None and head.verdict == "slower" and (head.delta_pct or 0.0) > limit
    return SLOWER if exceeded else 0


def load(what: str) -> dict[str, Any]:
    """A decoded document from a ``profile.json``, a run (folder, id or target), or a trace. Raises :class:`CommandError`."""
    from ridgeline import profile_io
    from ridgeline.analysis import analyze_paths
    from ridgeline.runs.store import StoreError, resolve_run

    path = Path(what)
    try:
        if path.is_file():
            data = _profile_bytes(path)
            if data is None:
                data = profile_io.to_json(analyze_paths([path]))
        else:
            folder = path if (path / "profile.json").is_file() else resolve_run(path).path
            data = profile_io.to_json(profile_io.read(folder))
    except StoreError as error:
        raise CommandError(str(error)) from error
    except profile_io.UnreadableError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read {what}: {error.strerror or error}") from error
    decoded: dict[str, Any] = json.loads(data)
    return decoded


def _profile_bytes(path: Path) -> bytes | None:
    """The file as a profile, None where it is something else (a trace)."""
    from ridgeline import profile_io
    from ridgeline.profile import ProfileDocument

    with path.open("rb") as stream:
        first = re.match(rb'\s*\{\s*"(\w+)"', stream.read(4096))  # Other tools order and indent as they like.
    if first is None or first[1].decode() not in {field.name for field in fields(ProfileDocument)}:
        return None
    return profile_io.to_json(profile_io.read(path))


def _limit(text: str) -> float:
    try:
        value = float(text.strip().rstrip("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise CommandError(f"--fail-on {text}: give a percentage, for example 3%")
    return value
