"""An excerpt of a trace that is too large for a browser: how long it takes, and what it needs of memory.

    python tests/benchmarks/trace_excerpt.py [--gigabytes 1.3]

Writes a synthetic training run of that much raw JSON (gzip), cuts the neighbourhood of a kernel in its middle, and prints
seconds and the highest resident memory of the process that cuts. Nothing fails on a clock.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP_US = 20_000.0
LAYERS = 400


def write(path: Path, gigabytes: float) -> int:
    """A step of 400 operators, each with a launch that runs 60 ms later, as in a program whose host is far ahead."""
    written, step = 0, 0
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(b'{"traceEvents":[\n')
        while written < gigabytes * 1e9:
            begin = 1e6 + step * STEP_US
            events = [
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": f"ProfilerStep#{step}",
                    "pid": 9,
                    "tid": 9,
                    "ts": begin,
                    "dur": STEP_US,
                }
            ]
            for layer in range(LAYERS):
                at, number = begin + 50 * layer, step * LAYERS + layer + 1
                shapes = {
                    "External id": number,
                    "Input Dims": [[4096, 4096], [4096, 4096]],
                    "Input type": ["float", "float"],
                }
                events += [
                    {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 9, "tid": 9, "ts": at, "dur": 40.0, "args": shapes},
                    {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 9, "tid": 9, "ts": at + 2, "dur": 36.0, "args": shapes},
                    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": at + 10,
                     "dur": 5.0, "args": {"External id": number, "cbid": 211, "correlation": number}},
                    {"ph": "X", "cat": "kernel", "name": f"gemm_{layer % 40}", "pid": 0, "tid": 7, "ts": at + 60_000,
                     "dur": 45.0, "args": {"External id": number, "device": 0, "context": 1, "stream": 7,
                                           "correlation": number, "grid": [64, 64, 1], "block": [256, 1, 1]}},
                ]  # fmt: skip
            text = ",\n".join(json.dumps(event) for event in events).encode()
            out.write((b",\n" if step else b"") + text)
            written += len(text)
            step += 1
        out.write(b"\n]}\n")
    return step


def cut(path: Path, middle_us: float) -> None:
    """In a process of its own: what it needs is its own."""
    from ridgeline.perfetto.open import open_trace, raw_size
    from ridgeline.profile import Kernel, ProfileDocument, Slice, Source

    kernel = Kernel(
        id="k", name="gemm_0", symbol="gemm_0", device=0, category="gemm", count=1, total_us=45.0, min_us=45.0, q1_us=45.0,
        median_us=45.0, q3_us=45.0, max_us=45.0, slice=Slice(ts_us=middle_us, dur_us=45.0),
    )  # fmt: skip
    begin = time.perf_counter()
    server, cleaned = open_trace(
        path, document=ProfileDocument(source=Source(kind="trace", path=str(path)), kernels=[kernel]), kernel=kernel
    )
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    server.close()
    with gzip.open(cleaned.path) as stream:
        events = json.load(stream)["traceEvents"]
    kinds = {"cudaLaunchKernel": 0, "aten::addmm": 0, "ProfilerStep#": 0, "gemm_": 0}
    for event in events:
        for kind in kinds:
            kinds[kind] += event.get("ph") == "X" and event["name"].startswith(kind)
    print(f"{raw_size(path) / 1e9:.2f} GB raw: {seconds:.0f} s, {memory:.0f} MB resident at most")
    print(f"kept: {kinds}, selected {cleaned.selected}")
    print("\n".join(cleaned.notes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=1.3)
    parser.add_argument("--cut", nargs=2, metavar=("TRACE", "TS_US"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cut:
        cut(Path(options.cut[0]), float(options.cut[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        steps = write(path, options.gigabytes)
        middle = 1e6 + steps // 2 * STEP_US + 60_000
        subprocess.run([sys.executable, __file__, "--cut", str(path), str(middle)], check=True)


if __name__ == "__main__":
    main()
