"""How long attribution takes on a trace of a million events and more: a workload of the corpus, repeated.

``python tests/benchmarks/attribution_scale.py [CORPUS] [WORKLOAD] [TIMES]`` prints rows, events and seconds, with and without frames.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.attribution import attribute
from ridgeline.attribution.split import line_rows
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import work_table

LINKS = {"parent": "ops", "op": "ops", "call": "calls"}
NUMBERS = ("correlation", "external_id", "sequence", "python_id", "python_parent")


def repeated(trace: Trace, times: int) -> Trace:
    """The trace ``times`` times in a row, with links, ids and numbers moved along."""
    sizes = {"ops": len(trace.ops.start), "calls": len(trace.calls.start)}
    ends = [
        float((t.start + t.dur).max())
        for t in (trace.ops, trace.calls, trace.ranges, trace.device_events)
        if len(t.start)
    ]
    span = max(ends) + 1000.0

    def table(one: Any) -> Any:
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(one):
            column = getattr(one, field.name)
            parts = []
            for k in range(times):
                moved = column
                if field.name in ("start", "time"):
                    moved = column + k * span
                elif field.name in LINKS:
                    moved = np.where(column >= 0, column + k * sizes[LINKS[field.name]], column).astype(column.dtype)
                elif field.name in NUMBERS:
                    moved = np.where(column >= 0, column + k * 10_000_000, column).astype(column.dtype)
                parts.append(moved)
            columns[field.name] = np.concatenate(parts)
        return type(one)(**columns)

    return dataclasses.replace(
        trace,
        device_events=table(trace.device_events),
        calls=table(trace.calls),
        ops=table(trace.ops),
        ranges=table(trace.ranges),
        frames=table(trace.frames) if trace.frames is not None else None,
        memory=None,
        bounded=None,
    )


def main() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    corpus = Path(
        sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RIDGELINE_CORPUS") or root.parent / "shared" / "corpus"
    )
    corpus = corpus / "h200" if (corpus / "h200").is_dir() else corpus
    workload = sys.argv[2] if len(sys.argv) > 2 else "encoder_train"
    trace = repeated(read_trace(corpus / workload / "trace.json.gz"), int(sys.argv[3]) if len(sys.argv) > 3 else 40)
    work = work_table(trace)
    options = {
        "generated": corpus / workload / "generated.tar.gz",
        "provenance": corpus / workload / "torch_trace.log.gz",
    }
    for name, one in (("with frames", trace), ("without", dataclasses.replace(trace, frames=None))):
        events = (
            len(one.ops.start)
            + len(one.calls.start)
            + len(one.device_events.start)
            + (len(one.frames.start) if one.frames else 0)
        )
        began = time.perf_counter()
        result = attribute(one, work, **options)
        middle = time.perf_counter()
        line_rows(one, work, result, np.zeros(len(work.start), dtype=np.int32), ["all"])
        end = time.perf_counter()
        print(
            f"{name:<12} {events:>9} events, {len(work.start):>7} launches: attribute {middle - began:6.2f} s, lines {end - middle:5.2f} s"
        )


if __name__ == "__main__":
    main()
