"""Two runs compared, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ridgeline import names, units
from ridgeline.compare import Change, Comparison
from ridgeline.printable import printable

MAX_ROWS = 12
UNTOLD = 0.5
"""Noise of more than this part of the longer time hides what anybody would call a change."""
_MARK = {"faster": "▼", "slower": "▲", "same": "=", "appeared": "+", "vanished": "-"}
_STYLE = {"faster": "green", "slower": "red", "same": "dim", "appeared": "yellow", "vanished": "yellow"}


def render(found: Comparison, console: Console) -> None:
    """What changed beyond the noise, first as a whole, then by kernel, line and category."""
    console.print(
        f"[bold]{escape(printable(found.before))}[/] → [bold]{escape(printable(found.after))}[/]",
        highlight=False,
        soft_wrap=True,
    )
    if found.step is not None:
        console.print(_sentence(found.step, "a step"))
    console.print(_sentence(found.device, f"of device time a {found.basis}"))
    for reason in found.refused:
        console.print(Text(f"Wall time is not compared: {reason}.", style="yellow"))
    for title, rows in (("Kernels", found.kernels), ("Lines", found.lines), ("Categories", found.categories)):
        changed = [row for row in rows if row.verdict != "same"]
        if rows:
            _table(console, title, changed, len(rows) - len(changed))
    for gone in found.resolved:
        console.print(Text(f"Measured again, gone: {gone}", style="green"))


def _sentence(change: Change, of: str) -> Text:
    values = f"{units.duration(change.before_us)} → {units.duration(change.after_us)} {of}"
    noise = f"noise ±{units.duration(change.noise_us)}" if change.noise_us else ""
    if change.verdict == "same":
        if change.noise_us and change.noise_us > UNTOLD * max(change.before_us or 0.0, change.after_us or 0.0):
            return Text(f"Too noisy to tell: {values} ({noise})", style="yellow")
        return Text(f"No change beyond the noise: {values} ({noise})" if noise else f"No change: {values}")
    pct = f", {change.delta_pct:+.1f} %" if change.delta_pct is not None else ""
    return Text(f"{_MARK[change.verdict]} {change.verdict}: {values}{pct} ({noise})", style=_STYLE[change.verdict])


def _table(console: Console, title: str, rows: Sequence[Change], same: int) -> None:
    console.print(f"\n[bold underline]{title}[/]" + (f" [dim]{same} unchanged[/]" if same else ""), highlight=False)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "before", "after", "change"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True, min_width=7 if heading else 1)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=max(20, console.width - 42))
    for row in rows[:MAX_ROWS]:
        pct = f"{row.delta_pct:+.1f} %" if row.delta_pct is not None and row.after_us is not None else row.verdict
        label = names.short(row.label) + (f"  (was {names.short(row.renamed_from)})" if row.renamed_from else "")
        table.add_row(
            f"[{_STYLE[row.verdict]}]{_MARK[row.verdict]}[/]",
            units.duration(row.before_us),
            units.duration(row.after_us),
            pct,
            escape(printable(label)),
        )
    console.print(table)
    if len(rows) > MAX_ROWS:
        console.print(f"[dim]and {len(rows) - MAX_ROWS} more[/]", highlight=False)
