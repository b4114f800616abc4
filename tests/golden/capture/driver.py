"""Run a workload for a capture.

usage: driver.py warm NAME | trace NAME DIR | counters NAME | convert NAME DIR      (see README.md)
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_UNIQUE_KERNEL_NAMES", "1")
os.environ.setdefault("TORCHINDUCTOR_BENCHMARK_KERNEL", "1")

WARM_STEPS = 4
TRACED_STEPS = 3
COLUMNS = {
    "Kernel Name": "kernel",
    "Block Size": "block",
    "Grid Size": "grid",
    "gpu__time_duration.sum": "duration_ns",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_pct",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory_pct",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram_pct",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "l2_pct",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": "l1_pct",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "sm__inst_executed.sum": "inst",
    "sm__inst_executed_pipe_alu.sum": "inst_alu",
    "sm__inst_executed_pipe_fma.sum": "inst_fma",
    "sm__inst_executed_pipe_xu.sum": "inst_xu",
    "sm__inst_executed_pipe_lsu.sum": "inst_lsu",
    "sm__inst_executed_pipe_tensor.sum": "tensor_inst",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_active_pct",
    "launch__registers_per_thread": "registers",
    "launch__waves_per_multiprocessor": "waves_per_sm",
}


def load(name: str) -> Callable[[], Any]:
    path = Path(__file__).parent / "workloads" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    step: Callable[[], Any] = module.build()
    return step


def warm(name: str) -> None:
    step = load(name)
    for _ in range(WARM_STEPS):
        step()


def trace(name: str, folder: Path) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    step = load(name)
    for _ in range(WARM_STEPS):
        step()
    torch.cuda.synchronize()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=1, active=TRACED_STEPS, repeat=1),
        record_shapes=True,
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "trace.json.gz")),
    ) as prof:
        for _ in range(2 + TRACED_STEPS):
            step()
            torch.cuda.synchronize()
            prof.step()
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    with tarfile.open(folder / "generated.tar.gz", "w:gz") as tar:
        for pattern in ("*.py", "*.best_config"):
            for path in sorted(cache.rglob(pattern)):
                tar.add(path, arcname=str(Path(cache.name) / path.relative_to(cache)))
    info = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "workload": name}
    (folder / "info.json").write_text(json.dumps(info, indent=1))


def counters(name: str) -> None:
    import torch

    step = load(name)
    for _ in range(WARM_STEPS):
        step()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    step()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def convert(name: str, folder: Path) -> None:
    """ncu's raw page (banner lines, a header, a row of units, a row a launch) to ``ncu.csv``."""
    lines = (folder / "ncu_raw.csv").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    rows = [r for r in csv.DictReader(lines[start:]) if r["ID"]]
    keep = [c for c in COLUMNS if rows and c in rows[0]]
    with (folder / "ncu.csv").open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow([COLUMNS[c] for c in keep])
        for row in rows:
            out.writerow([row[c] if c in list(COLUMNS)[:3] else row[c].replace(",", "") for c in keep])
    missing = [c for c in COLUMNS if c not in keep]
    print(
        f"{name}: {len(rows)} rows, {sum(float(r['gpu__time_duration.sum'].replace(',', '')) for r in rows) / 1e3:.0f} us",
        f"missing {missing}" if missing else "",
    )


if __name__ == "__main__":
    verb, what = sys.argv[1], sys.argv[2]
    if verb == "warm":
        warm(what)
    elif verb == "trace":
        trace(what, Path(sys.argv[3]))
    elif verb == "counters":
        counters(what)
    else:
        convert(what, Path(sys.argv[3]))
