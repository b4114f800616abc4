"""``ridgeline report RUN``: one page that can be sent."""

from __future__ import annotations

import json
from pathlib import Path

from ridgeline.cli_common import CommandError, say


def run(what: str, *, before: str | None, output: Path | None, quiet: bool) -> None:
    """Writes the page and prints where it is. Raises :class:`CommandError`."""
    from ridgeline import profile_io
    from ridgeline.cli_compare import load
    from ridgeline.report.page import NotBuiltError, render
    from ridgeline.report.page_data import page_data

    decoded = load(what)
    earlier = load(before) if before is not None else None
    document = profile_io.from_json(json.dumps(decoded).encode(), where=what)
    data = page_data(document, before=earlier, after=decoded if earlier is not None else None)
    try:
        text = render(data)
    except NotBuiltError as error:
        raise CommandError(str(error)) from error
    target = output if output is not None else _default(what)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror or error}; choose another --output") from error
    if not quiet and data["redacted"]:
        say(f"{data['redacted']} texts that look like secrets are left out; look the page over before you send it")
    print(target)


def _default(what: str) -> Path:
    """``NAME.html`` in the current folder; what is no report of ours is not overwritten unasked."""
    from ridgeline.report.page import MARK

    path = Path(what).resolve()
    name = path.name.split(".")[0] or "report"
    if name in ("trace", "profile") and path.parent.name:
        name = path.parent.name
    target = Path(f"{name}.html")
    try:
        with target.open(encoding="utf-8", errors="replace") as stream:
            ours = MARK in stream.read(200)
    except FileNotFoundError:
        return target
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror or error}; choose another --output") from error
    if not ours:
        raise CommandError(f"{target} exists and is no report; choose another file with --output")
    return target
