"""Seconds and peak memory from a trace file to a finished summary: Ridgeline, ``json.load``, HolisticTraceAnalysis.

    python tests/benchmarks/trace_load.py [--megabytes 240] [--rounds 3] [--hta PYTHON | --no-hta]

The trace is made here (operators with three frames each, launches, kernels, flow arrows; Kineto's own layout, its
text in random order of kernels). Every run is a process of its own, and the tools take turns, so that a busy machine
slows all alike. "Summary" is the device's busy time and the summed time of every kernel name. HolisticTraceAnalysis is
a development tool for this table alone: ``--hta`` names an interpreter that has it; else it is installed from the
package registry into an environment under ``.cache``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"

HEAD = """
  {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
    ],
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "distributedInfo": {"rank": 0, "world_size": 1},
  "traceEvents": [
"""
UNIT = """  {{
    "ph": "X", "cat": "cpu_op", "name": "{op}", "pid": 455, "tid": 498,
    "ts": {t0:.3f}, "dur": 40.125,
    "args": {{
      "External id": {e},"Record function id": 0, "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[2048, {dim}], [{dim}, 4096]], "Ev Idx": {e}
    }}
  }},
  {{
    "ph": "X", "cat": "python_function", "name": "/home/user/project/encoder.py({line}): forward", "pid": 455, "tid": 498,
    "ts": {f0:.3f}, "dur": 52.750,
    "args": {{
      "Python parent id": {p0}, "Python id": {p1}
    }}
  }},
  {{
    "ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(1775): _call_impl", "pid": 455, "tid": 498,
    "ts": {f1:.3f}, "dur": 50.500,
    "args": {{
      "Python parent id": {p1}, "Python id": {p2}
    }}
  }},
  {{
    "ph": "X", "cat": "python_function", "name": "<built-in method {op} of type object at 0x7f>", "pid": 455, "tid": 498,
    "ts": {f2:.3f}, "dur": 45.250,
    "args": {{
      "Python parent id": {p2}, "Python id": {p3}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 455, "tid": 498,
    "ts": {l0:.3f}, "dur": 5.875,
    "args": {{
      "External id": {e}, "cbid": 211, "correlation": {c}
    }}
  }},
  {{
    "ph": "s", "id": {c}, "pid": 455, "tid": 498, "ts": {l0:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": {stream},
    "ts": {k0:.3f}, "dur": {d:.3f},
    "args": {{
      "External id": {e}, "device": 0, "stream": {stream}, "correlation": {c}, "registers per thread": 32, "shared memory": 0, "warps per SM": 31.030304, "grid": [{grid}, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 48
    }}
  }},
  {{
    "ph": "f", "id": {c}, "pid": 0, "tid": {stream}, "ts": {k0:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""
TAIL = """
  ],
  "traceName": "/tmp/made.json"
}
"""
UNIT_EVENTS = 8


def make_trace(path: Path, megabytes: int) -> int:
    """Writes the trace; returns its number of events."""
    rng = random.Random(7)
    ops = [f"aten::op_{number}" for number in range(60)]
    kernels = [
        f"void at::native::vectorized_elementwise_kernel<4, at::native::Functor_{number}<c10::BFloat16> >(int)"
        for number in range(80)
    ]
    now, units, written = 5098348851720.194, 0, 0
    partial = path.with_suffix(".part")
    with partial.open("w", encoding="utf-8") as file:
        file.write(HEAD)
        while written < megabytes * 1_000_000:
            number = units
            text = UNIT.format(
                op=rng.choice(ops), t0=now + 6, e=number + 1, dim=rng.choice((1024, 2048, 4096)), line=10 + number % 40,
                f0=now, f1=now + 1, f2=now + 3, p0=0, p1=3 * number + 1, p2=3 * number + 2, p3=3 * number + 3,
                l0=now + 20, c=number + 10, kernel=rng.choice(kernels), stream=7 + 6 * (number % 5 == 0),
                k0=now + 33.5, d=rng.uniform(2.0, 60.0), grid=rng.choice((128, 256, 1024)),
            )  # fmt: skip
            file.write(text if not units else ",\n" + text)
            written += len(text)
            units += 1
            now += 56.3
        file.write(TAIL)
    partial.replace(path)
    return units * UNIT_EVENTS


RIDGELINE = """
import sys
import numpy as np
from ridgeline.trace.intervals import union
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
trace = read_trace(sys.argv[1])
work = work_table(trace)
busy = union(work.start, work.end).total
sums = np.bincount(work.name, weights=work.time)
print(f"{busy:.3f} {sums.sum():.3f} {np.count_nonzero(sums)}")
"""
NO_FRAMES = RIDGELINE.replace("read_trace(sys.argv[1])", "read_trace(sys.argv[1], frames=False)")
JSON_LOAD = """
import json, sys
from collections import defaultdict
with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]
sums, spans = defaultdict(float), []
for event in events:
    if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
        sums[event["name"]] += event["dur"]
        spans.append((event["ts"], event["ts"] + event["dur"]))
busy, reach = 0.0, 0.0
for start, end in sorted(spans):
    if end > reach:
        busy += end - max(start, reach)
        reach = end
print(f"{busy:.3f} {sum(sums.values()):.3f} {len(sums)}")
"""
HTA = """
import logging, os, sys
logging.disable(logging.CRITICAL)
from hta.common import trace_parser
trace_parser.set_default_trace_parsing_backend(trace_parser.ParserBackend(sys.argv[2]))
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
idle = analysis.get_temporal_breakdown(visualize=False)
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
busy = float(idle["compute_time(us)"].iloc[0] + idle["non_compute_time(us)"].iloc[0])
print(busy, float(kernels["sum (us)"].sum()), len(kernels))
"""


def measure(python: str, program: str, *arguments: str) -> tuple[float, float, float, str]:
    """(seconds, CPU seconds, peak MB, what it printed) of one process, start of the interpreter included."""
    watch = (
        "import resource, subprocess, sys, time\n"
        "begin = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)\n"
        "took = time.perf_counter() - begin\n"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "used = usage.ru_utime + usage.ru_stime\n"
        "sys.stderr.write(done.stderr[-2000:])\n"
        "print(took, used, usage.ru_maxrss / 1000, done.returncode, done.stdout.strip().splitlines()[-1:] or [''])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", watch, python, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    took, used, peak, status, rest = done.stdout.split(None, 4)
    if status != "0":
        raise RuntimeError(done.stderr[-2000:])
    return float(took), float(used), float(peak), rest.strip()


def hta_interpreter() -> str:
    """An interpreter with HolisticTraceAnalysis, made on first use."""
    folder = CACHE / "hta-venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    probe = subprocess.run([python, "-c", "import hta.trace_analysis, ijson"], capture_output=True, check=False)
    if probe.returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", "HolisticTraceAnalysis", "ijson"], check=True)
    return str(python)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hta", help="interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--no-hta", action="store_true")
    parser.add_argument("--only", help="comma-separated names of rows")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"bench-{options.megabytes}.json"
    if not path.exists():
        events = make_trace(path, options.megabytes)
        path.with_suffix(".count").write_text(str(events))
    events = int(path.with_suffix(".count").read_text())
    here = sys.executable
    rows: dict[str, tuple[str, str, tuple[str, ...]]] = {
        "Ridgeline": (here, RIDGELINE, ()),
        "Ridgeline, no frames": (here, NO_FRAMES, ()),
        "json.load": (here, JSON_LOAD, ()),
    }
    if not options.no_hta:
        hta = options.hta or hta_interpreter()
        for backend in ("json", "ijson_batch_and_compress"):
            rows[f"HTA, {backend}"] = (hta, HTA, (backend,))
    if options.only:
        rows = {name: row for name, row in rows.items() if name in options.only.split(",")}
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows}
    answers: dict[str, str] = {}
    for _ in range(options.rounds):
        for name, (python, program, arguments) in rows.items():
            took, used, peak, answers[name] = measure(python, program, str(path), *arguments)
            figures[name].append((took, used, peak))
            print(f"  {name}: {took:.2f} s, {used:.2f} CPU s, {peak:.0f} MB  {answers[name]}", file=sys.stderr)
    print(
        f"{path.stat().st_size / 1e6:.0f} MB, {events:,} events, {options.rounds} alternating runs, {os.cpu_count()} cores"
    )
    print(f"{'':28}{'median s':>10}{'best s':>10}{'CPU s':>10}{'peak MB':>10}{'x json.load':>13}")
    base = statistics.median(run[0] for run in figures["json.load"]) if figures.get("json.load") else None
    for name, runs in figures.items():
        seconds, cpu, peaks = zip(*runs)
        median = statistics.median(seconds)
        ratio = f"{median / base:13.3f}" if base else f"{'':>13}"
        print(f"{name:28}{median:10.2f}{min(seconds):10.2f}{statistics.median(cpu):10.2f}{max(peaks):10.0f}{ratio}")
    if options.json:
        options.json.write_text(json.dumps({"events": events, "runs": figures, "answers": answers}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
