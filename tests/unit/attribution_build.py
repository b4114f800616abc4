"""Attribution of small traces, and a generated module to go with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.attribution import Attribution, attribute
from ridgeline.attribution.split import line_rows
from ridgeline.profile import Line, SourceRef, Unattributed
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import WorkTable, work_table
from trace_build import Json, write


@dataclass(slots=True)
class Attributed:
    trace: Trace
    work: WorkTable
    result: Attribution

    def refs(self, row: int) -> tuple[SourceRef, ...]:
        at = int(self.result.source[row])
        return self.result.sources[at] if at >= 0 else ()

    def reason(self, row: int) -> str | None:
        at = int(self.result.reason[row])
        return self.result.reasons[at] if at >= 0 else None

    def symbol(self, row: int) -> str:
        return self.result.symbols[int(self.result.symbol[row])]

    def call_line(self, row: int) -> int | None:
        at = int(self.result.site[row])
        return self.result.sites[at].call_line if at >= 0 else None

    def lines(self) -> tuple[list[Line], Unattributed]:
        return line_rows(self.trace, self.work, self.result, np.zeros(len(self.work.start), dtype=np.int32), ["all"])


def attributed(folder: Path, *events: Json, **options: Any) -> Attributed:
    """Writes the events as a trace, reads it back and attributes it; rows are in order of start."""
    trace = read_trace(write(folder, list(events)))
    work = work_table(trace)
    return Attributed(trace, work, attribute(trace, work, **options))


def wrapper_text(
    calls: list[tuple[int, str]],
    kernels: dict[str, int],
    aot_id: str = "0_forward",
    comments: dict[int, str] | None = None,
) -> str:
    """A wrapper module with a kernel's ``def`` on each given line and a call on each given line, in this order.

    A definition takes three lines before and two after its ``def``; a comment goes on the line before its call.
    """
    rows = [""] * (max(line for line, _ in calls) + 1)
    rows[0] = f"# AOT ID: ['{aot_id}']"
    for name, line in kernels.items():
        rows[line - 3] = f"{name} = async_compile.triton('{name}', '''"
        rows[line - 2] = "@triton.jit"
        rows[line - 1] = f"def {name}(x):"
        rows[line] = "    pass"
        rows[line + 1] = "''', device_str='cuda')"
    first = min(line for line, _ in calls)
    rows[first - 3] = "def call(args):"
    for line, callee in calls:
        rows[line - 1] = f"    {callee}.run(x, stream=stream0)" if callee in kernels else f"    {callee}(x, out=y)"
    for line, text in (comments or {}).items():
        rows[line - 2] = f"    # {text}"
    return "\n".join(rows) + "\n"
