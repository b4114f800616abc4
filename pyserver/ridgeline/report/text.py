"""The profile in a terminal: what is worth doing, where the step goes, the hot kernels, and the source with its times."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ridgeline import names, units
from ridgeline.printable import printable
from ridgeline.profile import Device, Finding, Kernel, Line, ProfileDocument
from ridgeline.report.modules import place_of, side_by_side, wall_share
from ridgeline.report.paths import Shortener
from ridgeline.report.whatif import step_us

MAX_KERNELS = 12
MAX_MODULES = 4
MAX_FILES = 4
MAX_LINES = 12
MIN_LINE_PCT = 0.5
CONTEXT = 1
NARROW = 90
SUMMARY = "summary"

_BOUND_STYLE = {"memory": "cyan", "compute": "magenta", "latency": "yellow", "unknown": "dim"}
_SEVERITY_STYLE = {"warning": "bold yellow", "information": "bold", "hint": "dim"}


def render(document: ProfileDocument, console: Console, *, run_dir: str | None = None) -> None:
    """Print the whole view. Times are per step where steps are known, else over the recorded window."""
    view = _View(document, console)
    view.head()
    view.worth_doing()
    view.device()
    view.categories()
    view.kernels()
    view.lines()
    view.quality()
    view.places(run_dir)


class _View:
    def __init__(self, document: ProfileDocument, console: Console) -> None:
        self.document = document
        self.console = console
        self.steps = document.source.steps or 1
        self.per = "step" if document.source.steps else "window"
        self.narrow = console.width < NARROW
        self.short = Shortener(document)
        self._prose = min(console.width, 110)

    # -- sections --------------------------------------------------------------------------------------------------

    def head(self) -> None:
        source, totals = self.document.source, self.document.totals
        words = [f"[bold]{escape(self.short(source.path))}[/]"]
        if source.steps:
            words.append(f"{source.steps} step{'' if source.steps == 1 else 's'}")
        recorded = totals.wall_us / source.steps if totals.wall_us and source.steps else None
        device = next(iter(self.document.devices), None)
        step = step_us(self.document, device) if device is not None and recorded is not None else recorded
        if step is not None:  # first the one that shares are of
            words.append(f"{units.duration(step)} a step")
        if totals.plain_step_us is not None and step != totals.plain_step_us:
            words.append(f"{units.duration(totals.plain_step_us)} unprofiled")
        elif recorded is not None and recorded != step:
            words.append(f"{units.duration(recorded)} under the profiler")
        elif totals.wall_us and not source.steps:
            words.append(f"{units.duration(totals.wall_us)} recorded")
        if source.torch:
            words.append(f"torch {escape(source.torch)}")
        self._print(" · ".join(words))
        apart = [
            f"{label} {units.duration(value)}"
            for label, value in (("compilation", totals.compile_us), ("warm-up", totals.warmup_us))
            if value
        ]
        if apart:
            self._print(f"[dim]left out: {', '.join(apart)}[/]")

    def worth_doing(self) -> None:
        summary = next((f for f in self.document.findings if f.code == SUMMARY), None)
        found = [f for f in self.document.findings if f.severity != "hint" and f.code != SUMMARY][:3]
        self._title("Most worth doing")
        if not found:
            words = f"{summary.title}. {summary.message}" if summary else "Nothing stands out."
            self.console.print(Padding(Text(words), (0, 0, 0, 2)), width=self._prose)
        for number, finding in enumerate(found, 1):
            self._finding(number, finding)

    def _finding(self, number: int, finding: Finding) -> None:
        gain = f"  [green]saves ~{units.duration(finding.saving_us)} a {self.per}[/]" if finding.saving_us else ""
        where = f"  [blue]{escape(self.short(finding.file))}:{finding.line}[/]" if finding.file and finding.line else ""
        style = _SEVERITY_STYLE[finding.severity]
        self._print(f"  {number}. [{style}]{escape(finding.title)}[/]{where}{gain}")
        self.console.print(Padding(Text(finding.message, style="dim"), (0, 0, 0, 5)), width=self._prose)

    def device(self) -> None:
        for device in self.document.devices:
            self._title(f"{device.name}")
            idle = device.window_idle_pct if device.window_idle_pct is not None else device.idle_pct
            busy = None if idle is None else 100 - idle
            bar = self._bar(busy)
            self._print(f"  busy {units.percent(busy)} {bar}  {self._device_words(device)}")
            causes = [
                (name, value / self.steps)
                for name, value in vars_of(self.document.idle)
                if value > 0 and device is self.document.devices[0]
            ]
            plain = self._busy_of_a_plain_step(device)
            if busy is not None and plain is not None and plain > busy + 5:
                self._print(
                    f"  about {units.percent(plain)} busy when nobody looks: a step takes longer under the profiler"
                )
            if idle is not None and idle >= 1 and causes:
                causes.sort(key=lambda c: -c[1])
                text = ", ".join(f"{_CAUSE[name]} {units.duration(value)}" for name, value in causes[:5])
                self._print(f"  idle {units.percent(idle)}: {text} a {self.per}")

    def _busy_of_a_plain_step(self, device: Device) -> float | None:
        """The device's part, in per cent, of a step that ran unprofiled beside the recorded ones."""
        plain = self.document.totals.plain_step_us
        if device.kind == "cpu" or device.busy_us is None or not plain or not self.document.source.steps:
            return None
        return min(100.0, 100 * device.busy_us / self.document.source.steps / plain)

    def _device_words(self, device: Device) -> str:
        words = []
        for label, value in (
            ("kernels", device.kernel_us),
            ("copies", (device.memcpy_us or 0) + (device.memset_us or 0)),
            ("exposed communication", device.exposed_communication_us),
            ("less than one wave", device.underfilled_us),
        ):
            if value:
                words.append(f"{label} {units.duration(value / self.steps)}")
        return ", ".join(words)

    def categories(self) -> None:
        rows = [row for row in self.document.categories if row.share_pct >= 0.05]
        if not rows:
            return
        self._title("Categories")
        table = self._table()
        headings = (
            ("", "left"),
            (f"time/{self.per}", "right"),
            ("share", "right"),
            ("of step" if self.document.source.steps else "of wall", "right"),
            ("", "left"),
        )
        for heading, justify in headings:
            table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # rich names its literals
        for row in rows:
            of_wall = wall_share(self.document, row.time_us)
            table.add_row(
                row.category.replace("_", " "),
                units.duration(row.time_us / self.steps),
                units.percent(row.share_pct),
                units.percent(of_wall) if of_wall is not None else "",
                self._bar(row.share_pct, 20),
            )
        self.console.print(table)
        self.own_categories()
        self.modules()

    def own_categories(self) -> None:
        """The person's own, by their names; what fits none is the rest of the device's time."""
        if not self.document.own_categories:
            return
        self._title("Your categories")
        table = self._table()
        headings = (
            ("", "left"),
            (f"time/{self.per}", "right"),
            ("share", "right"),
            ("of step" if self.document.source.steps else "of wall", "right"),
            ("kernels", "right"),
        )
        for heading, justify in headings:
            table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # rich names its literals
        for row in self.document.own_categories:
            table.add_row(
                escape(row.name),
                units.duration(row.time_us / self.steps),
                units.percent(row.share_pct),
                units.percent(wall_share(self.document, row.time_us)),
                str(len(row.kernels)),
            )
        self.console.print(table)

    def modules(self) -> None:
        """Forward and backward module of a step beside each other, and where they lie, to open, profile or benchmark."""
        modules, rows = side_by_side(self.document)
        if not modules or self.document.source.kind == "module":
            return
        self._title("Generated modules")
        if 2 <= len(modules) <= MAX_MODULES and rows:
            table = self._table()
            for heading, justify in (("", "left"), *((f"{m.kind} {Path(m.file).stem[:8]}", "right") for m in modules)):
                table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # rich names its literals
            for row in rows:
                cells = (units.duration(us) if us else "" for us in row.by_module)
                table.add_row(row.category.replace("_", " "), *cells)
            self.console.print(table)
        largest = sorted(modules, key=lambda module: -(module.device_us or 0.0))[:MAX_MODULES]
        for module in [module for module in modules if module in largest]:
            time = f"{units.duration(module.device_us / self.steps)} a {self.per}, " if module.device_us else ""
            words = Text(f"  {module.kind:<9} {time}{place_of(self.document, module)}", style="dim")
            self.console.print(words, soft_wrap=True, highlight=False)
        if len(modules) > len(largest):
            self._print(f"  [dim]and {len(modules) - len(largest)} more[/]")

    def kernels(self) -> None:
        kernels = self.document.kernels[:MAX_KERNELS]
        if not kernels:
            return
        self._title("Hot kernels")
        headings = [f"time/{self.per}", "of step", "share", f"calls/{self.per}", "bound"]
        columns = [
            [
                units.duration(kernel.total_us / self.steps),
                units.percent(kernel.step_share_pct),
                units.percent(kernel.share_pct),
                _count(kernel.count / self.steps),
                self._bound(kernel),
            ]
            for kernel in kernels
        ]
        if self.narrow or all(kernel.step_share_pct is None for kernel in kernels):
            drop = 2 if any(kernel.step_share_pct is not None for kernel in kernels) else 1
            headings.pop(drop)
            for cells in columns:
                cells.pop(drop)
        sources = [] if self.narrow else [self._from(kernel) for kernel in kernels]
        source_width = min(36, max(map(len, sources), default=0))
        table = self._table()
        used = 0
        for number, heading in enumerate(headings):
            width = max(len(heading), *(len(Text.from_markup(cells[number])) for cells in columns))
            table.add_column(heading, justify="left" if heading == "bound" else "right", no_wrap=True, min_width=width)
            used += width + 2
        # What is left is the kernel's name; the rest of the row is never squeezed for it.
        room = max(16, self.console.width - used - (source_width + 2 if source_width else 0) - 2)
        table.add_column("kernel", no_wrap=True, max_width=room, overflow="ellipsis")
        if source_width:
            table.add_column("from", no_wrap=True, max_width=source_width, overflow="ellipsis")
        for number, (kernel, cells) in enumerate(zip(kernels, columns)):
            row = [*cells, escape(names.short(kernel.name))]
            table.add_row(*row, *([escape(_keep_end(sources[number], source_width))] if source_width else []))
        self.console.print(table)
        rest = self.document.kernels[MAX_KERNELS:]
        if rest:
            time = sum(k.total_us for k in rest) / self.steps
            self._print(f"  [dim]and {len(rest)} more, together {units.duration(time)} a {self.per}[/]")

    def lines(self) -> None:
        by_file: dict[str, list[Line]] = defaultdict(list)
        for line in self.document.lines:
            if (line.share_pct or 0) >= MIN_LINE_PCT:
                by_file[line.file].append(line)
        files = sorted(by_file, key=lambda f: -sum(line.device_us for line in by_file[f]))
        for file in files[:MAX_FILES]:
            hot = sorted(by_file[file], key=lambda line: -line.unsplit_us)
            self._title(self.short(file))
            for line in sorted(hot[:MAX_LINES], key=lambda line: line.line):
                self._source_line(line)
            if len(hot) > MAX_LINES:
                self._print(f"  [dim]and {len(hot) - MAX_LINES} more lines[/]")
        lost = self.document.unattributed
        if lost.device_us > 0 and (lost.share_pct or 0) >= 0.05:
            reasons = ", ".join(
                f"{name} {units.duration(us / self.steps)}"
                for name, us in sorted(lost.reason.items(), key=lambda r: -r[1])
            )
            self._print(f"  [dim]without a line: {units.percent(lost.share_pct)} ({escape(reasons)})[/]")

    def _source_line(self, line: Line) -> None:
        pct = line.step_share_pct
        if pct is None and line.share_pct is not None and line.device_us > 0:
            pct = (
                line.share_pct * line.unsplit_us / line.device_us
            )  # like the time beside it: all that touches the line
        share = Text(f"{units.percent(pct):>7} {units.duration(line.unsplit_us / self.steps):>9} ")
        share.stylize(
            "bold red" if (pct or 0) >= 20 else "red" if (pct or 0) >= 5 else "yellow" if (pct or 0) >= 1 else "dim"
        )
        row = share + Text(f"{line.line:>5} │ ", style="dim") + Text(printable((line.text or "").expandtabs().rstrip()))
        if line.granularity == "function":
            row += Text("   (whole function)", style="dim")
        elif line.shared_with:
            row += Text(f"   shared with L{_spans(line.shared_with)}", style="dim")
        row.truncate(self.console.width, overflow="ellipsis")
        self.console.print(row, no_wrap=True, highlight=False)

    def quality(self) -> None:
        warnings = self.document.quality.warnings
        if not warnings:
            return
        self._title("Before you trust the numbers")
        for warning in warnings[:8]:
            self.console.print(Text(f"  - {printable(warning.message)}"), highlight=False)
        if len(warnings) > 8:
            self._print(f"  [dim]and {len(warnings) - 8} more in the profile document[/]")

    def places(self, run_dir: str | None) -> None:
        self._print("")
        if run_dir:
            run_dir = run_dir.rstrip("/")
            self.console.print(Text(f"Run folder: {printable(run_dir)}", style="dim"), soft_wrap=True, highlight=False)
        trace = self.document.source.path if self.document.source.kind == "trace" else None
        if run_dir and not trace:
            trace = f"{run_dir}/trace.json.gz"
        if trace:
            self.console.print(Text(f"Trace:      {printable(trace)}", style="dim"), soft_wrap=True, highlight=False)

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _print(self, markup: str) -> None:
        self.console.print(markup, highlight=False)

    def _title(self, text: str) -> None:
        self._print("")
        self._print(f"[bold underline]{escape(text)}[/]")

    def _table(self) -> Table:
        return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)

    def _bar(self, pct: float | None, width: int = 24) -> str:
        if pct is None or self.narrow:
            return ""
        full = round(min(max(pct, 0.0), 100.0) / 100 * width)
        return (
            f"[green]{'█' * full}[/][dim]{'░' * (width - full)}[/]" if self.console.encoding.startswith("utf") else ""
        )

    def _bound(self, kernel: Kernel) -> str:
        if kernel.bound == "unknown":
            return "[dim]-[/]"
        mark = "~" if kernel.bound_source != "counters" else ""
        doubt = "?" if kernel.borderline else ""
        return f"[{_BOUND_STYLE[kernel.bound]}]{mark}{kernel.bound}{doubt}[/]"

    def _from(self, kernel: Kernel) -> str:
        own = [s for s in kernel.source if not s.library] or kernel.source
        if not own:
            return ""
        more = f" +{len(own) - 1}" if len(own) > 1 else ""
        return printable(f"{self.short(own[0].file)}:{own[0].line}{more}")


_CAUSE = {
    "launch": "launching",
    "sync": "synchronisation",
    "loader": "data loading",
    "copy": "copies",
    "compile": "compilation",
    "profiler": "the profiler itself",
    "tail": "tail of the window",
    "other": "other host work",
}


def vars_of(idle: object) -> list[tuple[str, float]]:
    return [(name, float(getattr(idle, name))) for name in _CAUSE]


def escape(text: str) -> str:
    """Text of the document within markup: on one line, and nothing but text."""
    return escape_markup(printable(text))


def _keep_end(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def _count(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


def _spans(lines: list[int]) -> str:
    """``42–43, 47``"""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)
