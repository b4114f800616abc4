"""The arguments of a workload's own Triton kernels, as the agent would note them, without a GPU: tensors are described
alone (device ``meta``) and no kernel is launched. Needs torch and triton.

usage: python tests/golden/capture/arguments.py WORKLOAD.py trace.json.gz OUT.json

A recorded trace knows direct launches by name and grid alone; ``roofline_score.py --arguments`` takes what was noted from
``triton_calls.json`` in the capture. Where a kernel was launched with different arguments, the n-th launch of a step in the
trace is the n-th of the workload; the agent's own clock would say the same.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton.runtime.autotuner
import triton.runtime.jit

from ridgeline.agent.triton_calls import TritonCalls

MADE = ("randn", "rand", "empty", "zeros", "ones", "full", "arange", "randint", "tensor")
BEFORE_NS = 9_000
"""From the agent's note to the driver's call."""


def on_meta(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> Any:
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "meta"
        return make(*args, **kwargs)

    return made


def tuned(grids: dict[str, set[tuple[int, ...]]]) -> Any:
    """An autotuner that tries nothing: it takes the configuration with which the kernel has a grid of the trace."""

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        named = dict(zip(tuner.arg_names, args))
        for config in tuner.configs:
            chosen = {**kwargs, **config.all_kwargs()}
            grid = chosen["grid"]
            grid = grid({**named, **chosen}) if callable(grid) else grid
            if (*grid, 1, 1)[:3] in grids.get(tuner.base_fn.__name__, set()):
                return tuner.fn.run(*args, **chosen)
        raise LookupError(f"no configuration of {tuner.base_fn.__name__} has a grid of the trace")

    return run


def noted(workload: Path, grids: dict[str, set[tuple[int, ...]]]) -> list[dict[str, Any]]:
    calls = TritonCalls(lambda what, error: print(what, error, file=sys.stderr))
    triton.runtime.jit.JITFunction.run = lambda kernel, *args, **kwargs: None
    calls.on_runtime(triton.runtime.jit)
    triton.runtime.autotuner.Autotuner.run = tuned(grids)
    for name in MADE:
        setattr(torch, name, on_meta(getattr(torch, name)))
    torch.compile = lambda function, **_: lambda *args: None  # what it compiles is launched by torch, not directly
    spec = importlib.util.spec_from_file_location(workload.stem, workload)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[workload.stem] = module
    spec.loader.exec_module(module)
    step = module.build()
    step()
    return calls.rows()


def launches(path: Path) -> tuple[dict[str, list[int]], dict[str, set[tuple[int, ...]]]]:
    """Kernel -> times of the driver's calls that launched it directly, in unix nanoseconds; kernel -> its grids."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    generated = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == "cpu_op" and "kernel_file" in e["args"]]
    at = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] in ("cuda_driver", "cuda_runtime")}
    times: dict[str, list[int]] = {}
    grids: dict[str, set[tuple[int, ...]]] = {}
    for event in events:
        launch = at.get(event["args"].get("correlation")) if event["cat"] == "kernel" else None
        if launch is not None and not any(start <= launch <= end for start, end in generated):
            times.setdefault(event["name"], []).append(base + int(1000 * launch))
            grids.setdefault(event["name"], set()).add(tuple(event["args"]["grid"]))
    return {name: sorted(found) for name, found in times.items()}, grids


def main(workload: str, trace: str, out: str) -> int:
    times, grids = launches(Path(trace))
    rows = noted(Path(workload), grids)
    for row in rows:
        if len(row["calls"]) > 1:
            if row["launches"] != len(row["calls"]):
                print(f"{row['name']}: arguments repeat within a step, their order is not known", file=sys.stderr)
                continue
            row["recorded"] = [[t - BEFORE_NS, i % row["launches"]] for i, t in enumerate(times[row["name"]])]
    Path(out).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
