"""Size: a trace of 600 MB within a gigabyte, and work in proportion to the size whatever the content."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ridgeline.trace.gaps import idle_by_cause
from ridgeline.trace.ranges import range_totals
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
from trace_build import call, kernel, label, op, write

KERNELS = 3_000_000
SUMMARY = """
import sys
import numpy as np
from ridgeline.trace.intervals import union
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
work = work_table(read_trace(sys.argv[1]))
busy = union(work.start, work.end).total
# Not ru_maxrss: that keeps what the parent held when it forked.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(len(work.start), busy, work.end.max() - work.start.min(), int(peak) // 1000)
"""


@pytest.mark.slow
def test_three_million_kernels_within_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    record = (
        '{"ph":"X","cat":"kernel","name":"void at::native::vectorized_elementwise_kernel<4>(int, float)","pid":0,"tid":7,'
        '"ts":%d,"dur":1,"args":{"device":0,"stream":7,"correlation":%d,"grid":[64,1,1],"block":[128,1,1]}}'
    )
    with path.open("w") as file:
        file.write('{"traceEvents":[\n')
        for first in range(0, KERNELS, 10_000):
            rows = ",\n".join([record % (2 * n, n) for n in range(first, first + 10_000)])
            file.write((",\n" if first else "") + rows)
        file.write("\n]}")
    assert path.stat().st_size > 580e6
    done = subprocess.run([sys.executable, "-c", SUMMARY, str(path)], capture_output=True, text=True, check=True)
    path.unlink()
    count, busy, span, peak = done.stdout.split()
    assert int(count) == KERNELS
    assert float(busy) == 3_000_000
    assert float(span) == 5_999_999
    assert 100 * (1 - float(busy) / float(span)) == pytest.approx(50.0, abs=1e-4)
    assert int(peak) < 1000


ROWS = 20_000


def one_correlation() -> list[object]:
    return [
        item
        for n in range(ROWS)
        for item in (call(10 * n, 1, corr=0, ext=0), kernel(10 * n + 2, 1, corr=0, ext=0), op(10 * n, 5, ext=0))
    ]


def a_thread_each() -> list[object]:
    return [
        item for n in range(ROWS) for item in (op(n, 5, tid=n), call(n + 1, 1, corr=n, tid=n), kernel(n + 3, 1, corr=n))
    ]


def deeply_nested() -> list[object]:
    return [item for n in range(ROWS) for item in (op(n, 3 * ROWS - n, f"op{n}"), label(n, 3 * ROWS - n, "same"))]


def staggered() -> list[object]:
    return [item for n in range(ROWS) for item in (op(n, ROWS), label(n, ROWS, f"label {n}"))]


def overlapping_kernels() -> list[object]:
    return [kernel(n, 1_000_000 - 2 * n if n % 2 else 1, f"k{n % 7}", corr=n) for n in range(2 * ROWS)]


def own_names() -> list[object]:
    return [
        item for n in range(ROWS) for item in (label(10 * n, 5, f"a{n // 2}"), kernel(10 * n, 1, f"k{n}", stream=n))
    ]


@pytest.mark.parametrize(
    "make", [one_correlation, a_thread_each, deeply_nested, staggered, overlapping_kernels, own_names]
)
def test_work_stays_in_proportion(tmp_path: Path, make: Callable[[], list[object]]) -> None:
    """Contents that would make a naive join, nesting or grouping quadratic: 4e8 steps would take minutes."""
    path = write(tmp_path, make())
    begin = time.process_time()
    trace = read_trace(path)
    work_table(trace)
    range_totals(trace)
    for device in trace.devices:
        idle_by_cause(trace, device.id, (0.0, 1e6))
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "between",
    [
        b" xx ,",
        b",,,",
        b'"\\q",',
        b" ",
        b"}",
        b"]",
        b'{"a":"b,',
        b'{"ph":"X"',
        b"{" * 50,
        b"[" * 50,
        b" " * 3000,
        b'"',
        b"\xff,",
    ],
)
def test_rubbish_between_records(tmp_path: Path, between: bytes) -> None:
    record = json.dumps(kernel(1, 2)).encode() + b","
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents":[' + (record + between) * 2000 + record[:-1] + b"]}")
    begin = time.process_time()
    trace = read_trace(path)
    assert time.process_time() - begin < 10
    assert len(trace.device_events.start) >= (1 if between in (b"}", b"]") else 1000)
