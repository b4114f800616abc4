"""``ridgeline doctor`` in text and JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from ridgeline.cli_common import check_format, interpreter, text_console, write_json
from ridgeline.doctor import examine

_MARKS = {"ok": ("ok", "green"), "warning": ("!", "yellow"), "error": ("x", "bold red"), "absent": ("-", "dim")}


def run(*, python: str | None, cwd: Path | None, format: str, output: Path | None, run_dir: Path | None) -> int:
    """1 when something that profiling needs is broken, else 0. Raises :class:`CommandError`."""
    from ridgeline.cli_common import CommandError

    check_format(format)
    where = str(cwd or Path.cwd())
    if not os.path.isdir(where):
        raise CommandError(f"no such folder: {where}; give one with --cwd")
    checks = examine(interpreter(python), cwd=where, env=dict(os.environ), run_root=run_dir)
    broken = sum(check.status == "error" for check in checks)
    if format == "json":
        data = {"ok": broken == 0, "checks": [asdict(check) for check in checks]}
        write_json(json.dumps(data, allow_nan=False).encode(), output)
        return 1 if broken else 0
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark, style = _MARKS[check.status]
        found = Text(check.found)
        if check.mend:
            found.append(f"\n→ {check.mend}", style="bold")
        table.add_row(Text(mark, style=style), Text(check.name), found)
    with text_console(output) as console:
        console.print(table)
        verdict = "Ready to profile." if not broken else f"{broken} thing{'s' if broken > 1 else ''} to mend first."
        console.print(f"\n{verdict}", highlight=False)
    return 1 if broken else 0
