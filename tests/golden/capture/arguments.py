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


def noted(workload: Path) -> list[dict[str, Any]]:
    order: list[tuple[str, int]] = []
    calls = TritonCalls(lambda what, error: print(what, error, file=sys.stderr))
    triton.runtime.jit.JITFunction.run = lambda kernel, *args, **kwargs: order.append((kernel.fn.__name__, 0))
    calls.on_runtime(triton.runtime.jit)
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


def launches(path: Path) -> dict[str, list[int]]:
    """Kernel -> times of the driver's calls that launched it directly, in unix nanoseconds."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    generated = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == "cpu_op" and "kernel_file" in e["args"]]
    at = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] in ("cuda_driver", "cuda_runtime")}
    times: dict[str, list[int]] = {}
    for event in events:
        launch = at.get(event["args"].get("correlation")) if event["cat"] == "kernel" else None
        if launch is not None and not any(start <= launch <= end for start, end in generated):
            times.setdefault(event["name"], []).append(base + int(1000 * launch))
    return {name: sorted(found) for name, found in times.items()}


def main(workload: str, trace: str, out: str) -> int:
    rows = noted(Path(workload))
    times = launches(Path(trace))
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
