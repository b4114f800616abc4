"""Peaks measured on the device itself: bandwidth, dense rates by type, launch latency. At most a few seconds.

Runs in the user's interpreter (torch and the standard library, nothing of ours), so it is loaded by file::

    python measure.py [--device cuda:0|cpu] [--seconds 5] [--identity]

and prints one JSON object::

    {"identity": {device, driver, power_limit_w, mig, …},   what the figures are valid for: the key of the cache
     "bandwidth_gb_s": {"read": …, "write": …, "copy": …},  decimal GB/s; a copy counts what it reads and writes
     "flops": {"bf16": …, "tf32": …, …},                    FLOP/s (not TFLOP/s), dense; a type the device lacks is absent
     "launch_latency_us": …, "launch_interval_us": …,       one empty kernel to its completion; back-to-back launches
     "shapes": {…}, "threads": …, "seconds": …, "notes": [...]}

A peak is the best of several shapes, because a single product undersells the device; each shape runs a few times and
its fastest run counts. ``--identity`` prints only what the cache is keyed by and needs no torch. A device that another
process keeps busy is not measured: ``{"identity": …, "skipped": reason}``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

REPEATS = 4
MATRIX_SHAPES = ((4096, 4096, 4096), (8192, 8192, 4096), (8192, 8192, 8192), (16384, 8192, 4096))
BUSY_PCT = 10.0
SMI_FIELDS = (
    "uuid",
    "name",
    "driver_version",
    "power.limit",
    "mig.mode.current",
    "utilization.gpu",
    "clocks.max.sm",
    "clocks.max.mem",
)


def nvidia_smi(fields: tuple[str, ...], index: int) -> dict[str, str]:
    """One row of ``nvidia-smi --query-gpu``, empty where the tool or the device is not there."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", f"--id={index}"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [v.strip() for v in out.strip().split("\n")[0].split(",")]
    return {f: v for f, v in zip(fields, values) if v and not v.startswith("[")} if len(values) == len(fields) else {}


def physical_index(index: int) -> int:
    """The driver's number of torch's device ``index`` under CUDA_VISIBLE_DEVICES (numeric entries; else the index)."""
    visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v.strip()]
    return int(visible[index]) if index < len(visible) and visible[index].isdigit() else index


def cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def identity(device: str, threads: int | None = None) -> dict[str, Any]:
    """What measured peaks are valid for. Needs no torch; a CPU's peaks hold for one thread count."""
    if device.startswith("cpu"):
        return {"device": cpu_model(), "kind": "cpu", "threads": threads, "cores": os.cpu_count()}
    index = int(device.split(":")[1]) if ":" in device else 0
    row = nvidia_smi(SMI_FIELDS[:5], physical_index(index))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return {
        "device": row.get("name"),
        "kind": "cuda",
        "uuid": row.get("uuid"),
        "driver": row.get("driver_version"),
        "power_limit_w": row.get("power.limit"),
        "mig": visible if "MIG-" in visible else row.get("mig.mode.current"),
    }


def fastest(run: Callable[[], object], clock: Callable[[Callable[[], object]], float], deadline: float) -> float:
    """Seconds of the fastest of a few runs; the first, which pays for set-up, does not count."""
    run()
    best = math.inf
    for _ in range(REPEATS):
        best = min(best, clock(run))
        if time.perf_counter() > deadline:
            break
    return best


def bandwidths(
    torch: Any, device: str, size: int, clock: Callable[[Callable[[], object]], float], deadline: float
) -> dict[str, float]:
    """Decimal GB/s of reading, writing and copying a buffer of ``size`` bytes, far larger than the caches."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return {
        "read": size / fastest(source.sum, clock, deadline) / 1e9,
        "write": size / fastest(lambda: target.fill_(1.0), clock, deadline) / 1e9,
        "copy": 2 * size / fastest(lambda: target.copy_(source), clock, deadline) / 1e9,
    }


def measure_cuda(torch: Any, device: str, seconds: float) -> dict[str, Any]:
    began = time.perf_counter()
    deadline = began + seconds
    notes: list[str] = []
    index = torch.device(device).index or 0
    properties = torch.cuda.get_device_properties(index)
    with torch.cuda.device(index):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def clock(run: Callable[[], object]) -> float:
            begin.record()
            run()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e-3

        free = torch.cuda.mem_get_info(index)[0]
        size = min(1 << 30, free // 8) // 4096 * 4096
        bandwidth = bandwidths(torch, device, size, clock, deadline)
        empty = torch.empty(1, device=device)

        def round_trip() -> None:
            empty.fill_(0.0)
            torch.cuda.synchronize()

        def burst() -> None:
            for _ in range(200):
                empty.fill_(0.0)

        latency = min(wall(round_trip) for _ in range(50))
        interval = min(wall(burst) for _ in range(5)) / 200
        torch.cuda.synchronize()
        flops, shapes = matrix_rates(torch, device, properties, clock, deadline, notes)
    clocks = {k: float(v) for k, v in nvidia_smi(SMI_FIELDS[6:], physical_index(index)).items()}
    return {
        "bandwidth_gb_s": bandwidth,
        "flops": flops,
        "launch_latency_us": latency * 1e6,
        "launch_interval_us": interval * 1e6,
        "shapes": shapes,
        "clocks_mhz": clocks,
        "properties": {
            "name": properties.name,
            "sm_count": properties.multi_processor_count,
            "capability": [properties.major, properties.minor],
            "l2_bytes": getattr(properties, "L2_cache_size", None),
        },
        "seconds": time.perf_counter() - began,
        "notes": notes,
    }


def matrix_rates(
    torch: Any,
    device: str,
    properties: Any,
    clock: Callable[[Callable[[], object]], float],
    deadline: float,
    notes: list[str],
) -> tuple[dict[str, float], dict[str, list[int]]]:
    """FLOP/s of the best product of each type. Operands are normal random numbers: constant ones draw less power."""
    major, minor = properties.major, properties.minor
    wanted: list[tuple[str, Any, bool]] = [("fp16", torch.float16, False), ("fp32", torch.float32, False)]
    if major >= 8:
        wanted[:0] = [("bf16", torch.bfloat16, False), ("tf32", torch.float32, True)]
    wanted.append(("fp64", torch.float64, False))
    if (major, minor) >= (8, 9) and hasattr(torch, "float8_e4m3fn"):
        wanted.append(("fp8", torch.float8_e4m3fn, False))
    if (major, minor) >= (7, 5):
        wanted.append(("int8", torch.int8, False))
    flops: dict[str, float] = {}
    shapes: dict[str, list[int]] = {}
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for name, dtype, tf32 in wanted:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            slow = name in ("fp32", "fp64")
            for m, n, k in MATRIX_SHAPES[:1] if slow else MATRIX_SHAPES:
                if time.perf_counter() > deadline:
                    notes.append(f"out of time at {name} {m}x{n}x{k}")
                    break
                if name == "fp64":
                    m, n, k = m // 2, n // 2, k // 2
                try:
                    seconds = fastest(product(torch, device, dtype, m, n, k), clock, deadline)
                except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
                    notes.append(f"{name}: {str(error).splitlines()[0][:160]}")
                    break
                rate = 2.0 * m * n * k / seconds
                if rate > flops.get(name, 0.0):
                    flops[name], shapes[name] = rate, [m, n, k]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return flops, shapes


def product(torch: Any, device: str, dtype: Any, m: int, n: int, k: int) -> Callable[[], object]:
    """A call that multiplies m x k by k x n in ``dtype``; the second operand is column-major, as fp8 requires."""
    if dtype is torch.int8:
        a = torch.randint(-128, 127, (m, k), device=device, dtype=dtype)
        b = torch.randint(-128, 127, (n, k), device=device, dtype=dtype).t()
        return lambda: torch._int_mm(a, b)
    a, b = torch.randn(m, k, device=device), torch.randn(n, k, device=device)
    if dtype in (getattr(torch, "float8_e4m3fn", None),):
        one = torch.ones((), device=device)
        p, q = a.to(dtype), b.to(dtype).t()
        return lambda: torch._scaled_mm(p, q, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    p, q = a.to(dtype), b.to(dtype).t()
    return lambda: torch.mm(p, q)


def wall(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure_cpu(torch: Any, seconds: float) -> dict[str, Any]:
    """Bandwidth of buffers far beyond the caches and the vector units' rate, at the thread count in use.

    A product of square matrices runs at the rate of the vector units' fused multiply-adds; where the processor has
    matrix units (AMX), bf16 shows them.
    """
    began = time.perf_counter()
    deadline = began + seconds
    notes: list[str] = []
    size = 1 << 28
    bandwidth = bandwidths(torch, "cpu", size, wall, began + seconds / 2)
    flops: dict[str, float] = {}
    shapes: dict[str, list[int]] = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp64", torch.float64)):
        for n in (512, 1024, 2048):
            expected = 2.0 * n**3 / flops[name] * (REPEATS + 1) if name in flops else 0.0
            # One figure at least, however busy the machine: without any there is no peak at all.
            if flops and time.perf_counter() + expected > deadline:
                notes.append(f"out of time at {name} {n}")
                break
            rate = 2.0 * n**3 / fastest(product(torch, "cpu", dtype, n, n, n), wall, deadline)
            if rate > flops.get(name, 0.0):
                flops[name], shapes[name] = rate, [n, n, n]
    one = torch.ones(1)
    latency = min(wall(lambda: one.add_(0.0)) for _ in range(200))
    return {
        "bandwidth_gb_s": bandwidth,
        "flops": flops,
        "launch_latency_us": latency * 1e6,
        "shapes": shapes,
        "threads": torch.get_num_threads(),
        "seconds": time.perf_counter() - began,
        "notes": notes,
    }


def measure(device: str | None = None, seconds: float = 5.0) -> dict[str, Any]:
    """Measure ``device`` (default: the accelerator torch sees, else the CPU). The JSON object of the module's head."""
    import torch

    torch_: Any = torch
    if device is None:
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
    budget = max(0.5, seconds - 0.5)  # identity and set-up take the rest
    if device.startswith("cpu"):
        return {"identity": identity(device, torch.get_num_threads()), **measure_cpu(torch_, budget)}
    key = identity(device)
    index = int(device.split(":")[1]) if ":" in device else 0
    load = nvidia_smi(("utilization.gpu",), physical_index(index)).get("utilization.gpu")
    if load is not None and float(load) > BUSY_PCT:
        return {"identity": key, "skipped": f"the device is {load} % busy: its peaks were not measured"}
    return {"identity": key, **measure_cuda(torch_, device, budget)}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--identity", action="store_true")
    args = parser.parse_args(argv)
    if args.identity:
        print(json.dumps(identity(args.device or "cuda:0", args.threads)))
        return 0
    if args.threads:
        import torch

        torch.set_num_threads(args.threads)
    print(json.dumps(measure(args.device, args.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
