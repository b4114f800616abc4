"""Scores the predicted bounds against Nsight Compute.

usage: python tests/golden/roofline_score.py CAPTURE… [--errors] [--arguments] [--instructions]

A capture is a folder (or a .tar.gz of one) with ``trace.json.gz``, ``generated.tar.gz`` and ``ncu.csv`` (see
``capture/README.md`` for the columns), or the .tar.xz that ``capture/repack.py`` makes of it, with all of them plain. Every launch of the profiled step is one row: the trace's last step and ncu's rows
are matched in order by normalised name. The verdict comes out of the whole pipeline, as the document would show it, except
that a user's Triton kernel is looked up in the programs (*.py) beside the trace. With ``--arguments`` a capture that holds
``triton_calls.json`` (``capture/arguments.py``) is scored as a run of our own: with the arguments of direct launches. Truth: memory if memory_pct >= 60 and
>= sm_pct; compute if sm_pct >= 60; else latency. An abstention (``unknown``) counts as wrong, and is shown apart.
``--instructions`` compares the predicted instructions of PyTorch's own kernels with those that were counted, each distinct kernel of
5 us and more once. With several captures each is a line and all together the last. Costs were read off, and faults mended with, the captures in
``data/roofline``: ``roofline_loo.py`` leaves each out in turn, and only a new capture is a fair test (docs/roofline.md).
"""

from __future__ import annotations

import argparse
import csv
import difflib
import math
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.assemble.direct import direct_launches
from ridgeline.assemble.kernels import build_kernels
from ridgeline.assemble.roof import add_roofline, device_specs
from ridgeline.attribution import attribute
from ridgeline.profile import Kernel
from ridgeline.roofline import DeviceSpec, KernelInput, estimator
from ridgeline.roofline.verdict import classify, margin
from ridgeline.sidecar import Sidecar, TritonKernel
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace, Work
from ridgeline.trace.work import WorkTable, work_table

TRITON = re.compile(r"^[A-Za-z_]\w*$")
LIBRARY = re.compile(
    r"^(nvjet|sm\d+_|ampere_|volta_|turing_|cutlass|cudnn|cublas|kernel$|void |gemv|gemm|ncclDev|cask|[a-z]+2d_c\d)"
)


@dataclass(slots=True)
class Row:
    """One launch: what was predicted and what the counters said."""

    capture: str
    kernel: Kernel
    triton: bool
    truth: str
    sm_pct: float
    memory_pct: float
    ncu_us: float
    dram_bytes: float
    l2_bytes: int
    counted: float | None = None
    """Warp instructions."""

    @property
    def right(self) -> bool:
        return self.kernel.bound == self.truth

    @property
    def margin(self) -> float:
        return margin(self.memory_pct, self.sm_pct)


def normalised(name: str) -> str:
    """The function's own name: without namespaces, templates and arguments, which ncu and the profiler write differently."""
    if name.startswith("void "):
        name = name.removeprefix("void ")
    else:
        name = name.split("(")[0]
    for noise in ("(anonymous namespace)", "<unnamed>"):
        name = name.replace(noise, "")
    return re.split(r"[<(]", name.replace("::::", "::"))[0].strip().split("::")[-1].split(" ")[-1]


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
        inner = Path(folder) / path.name.split(".")[0]
        inner.mkdir()
        for file in list(Path(folder).iterdir()):
            if file != inner:
                file.rename(inner / file.name)
        yield inner


def last_step(trace: Trace, work: WorkTable) -> list[int]:
    """Work rows of kernels in the last step, in order of start; all rows where steps differ in their launches."""
    rows = sorted(
        (r for r in range(len(work.start)) if work.work[r] == Work.KERNEL), key=lambda r: float(work.start[r])
    )
    steps = max(1, len(trace.steps))
    size, rest = divmod(len(rows), steps)
    if rest:
        return rows
    parts = [rows[i * size : (i + 1) * size] for i in range(steps)]
    names = [[int(work.name[r]) for r in part] for part in parts]
    return parts[-1] if all(n == names[0] for n in names) else rows


def agents_notes(folder: Path) -> Sidecar:
    notes = folder / "triton_calls.json"
    rows = msgspec.json.decode(notes.read_bytes(), type=list[TritonKernel]) if notes.exists() else []
    return Sidecar(triton_calls=rows)


def score_capture(folder: Path, arguments: bool = False) -> list[Row]:
    recorded, generated = (
        next((folder / name for name in names if (folder / name).exists()), None)
        for names in (("trace.json.gz", "trace.json"), ("generated.tar.gz", "generated.tar"))
    )
    if recorded is None:
        raise FileNotFoundError(f"{folder.name} has no trace")
    trace = read_trace(recorded, frames=False, memory=False)
    work = work_table(trace)
    attribution = attribute(trace, work, generated=generated)
    direct = direct_launches(trace, work, agents_notes(folder) if arguments else None)
    rows = build_kernels(trace, work, attribution, step_wall_us=None, direct=direct.of_work)
    specs = device_specs(trace, None, None)
    programs = [p.read_text() for p in sorted(folder.glob("*.py"))]
    workload = Path(__file__).parent / "capture" / "workloads" / f"{folder.name}.py"
    programs += [workload.read_text()] if workload.exists() else []
    add_roofline(trace, work, attribution, rows, specs, direct=direct, programs=programs)
    with (folder / "ncu.csv").open(newline="") as stream:
        truth = list(csv.DictReader(stream))
    step = last_step(trace, work)
    ours = [normalised(trace.strings[int(work.name[r])]) for r in step]
    theirs = [normalised(r["kernel"]) for r in truth]
    matched = []
    for block in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for i in range(block.size):
            kernel = rows.kernels[int(rows.of_work[step[block.a + i]])]
            matched.append(row_of(folder.name, kernel, truth[block.b + i], specs))
    if len(matched) < len(truth):
        print(f"{folder.name}: {len(truth) - len(matched)} of {len(truth)} rows of ncu not matched", file=sys.stderr)
    return matched


def row_of(capture: str, kernel: Kernel, truth: dict[str, str], specs: dict[int, DeviceSpec]) -> Row:
    sm, memory = float(truth["sm_pct"]), float(truth["memory_pct"])
    plain = bool(TRITON.match(kernel.symbol)) and not LIBRARY.match(kernel.symbol)
    return Row(
        capture,
        kernel,
        plain,
        classify(memory, sm),
        sm,
        memory,
        float(truth["duration_ns"]) / 1e3,
        float(truth["dram_read_bytes"]) + float(truth["dram_write_bytes"]),
        specs[kernel.device].l2_bytes or 0,
        float(truth["inst"]) if truth.get("inst") else None,
    )


def share(rows: Iterable[Row], timed: bool = False) -> float:
    rows = list(rows)
    weights = [r.ncu_us if timed else 1.0 for r in rows]
    total = math.fsum(weights)
    return math.fsum(w for w, r in zip(weights, rows) if r.right) / total if total else math.nan


def summary(label: str, rows: list[Row]) -> list[str]:
    """Accuracy by launches/time over all, where ncu's margin is at least 10 points, and for launches of 10 us or more;
    abstentions; mean absolute errors of the percentages."""
    lines = []
    for kind, chosen in (
        ("triton", [r for r in rows if r.triton]),
        ("other", [r for r in rows if not r.triton]),
        ("all", rows),
    ):
        if not chosen:
            continue
        clear, long = [r for r in chosen if r.margin >= 10], [r for r in chosen if r.ncu_us >= 10]
        silent = [r for r in chosen if r.kernel.bound == "unknown"]
        sm = [abs(r.kernel.compute_pct - r.sm_pct) for r in chosen if r.kernel.compute_pct is not None]
        memory = [abs(r.kernel.memory_pct - r.memory_pct) for r in chosen if r.kernel.memory_pct is not None]
        mean = lambda values: sum(values) / len(values) if values else math.nan  # noqa: E731
        lines.append(
            f"{label:14.14} {kind:6} n={len(chosen):4}  right {share(chosen):.3f}/{share(chosen, True):.3f}  margin>=10 {share(clear):.3f}/{share(clear, True):.3f}"
            f"  >=10us n={len(long):3} {share(long):.3f}/{share(long, True):.3f}  abstained {len(silent)}/{sum(r.ncu_us for r in silent) / sum(r.ncu_us for r in chosen):.3f}"
            f"  error sm {mean(sm):.1f} memory {mean(memory):.1f}"
        )
    return lines


def confusion(rows: list[Row]) -> list[str]:
    lines = ["truth -> predicted      memory  compute  latency  unknown   (launches; us)"]
    for kind, chosen in (("triton", [r for r in rows if r.triton]), ("other", [r for r in rows if not r.triton])):
        count = Counter((r.truth, r.kernel.bound) for r in chosen)
        time: Counter[tuple[str, str]] = Counter()
        for r in chosen:
            time[r.truth, r.kernel.bound] += r.ncu_us  # type: ignore[assignment]  # Counter of floats
        for truth in ("memory", "compute", "latency"):
            cells = [(count[truth, b], time[truth, b]) for b in ("memory", "compute", "latency", "unknown")]
            lines.append(
                f"{kind:6} {truth:8}        "
                + "  ".join(f"{n:7}" for n, _ in cells)
                + "   ; "
                + "  ".join(f"{t:8.0f}" for _, t in cells)
            )
    return lines


def bytes_line(rows: list[Row]) -> str:
    """The document's ``bytes`` (every address once) and ``dram_bytes`` (what passes memory's pins) against memory's counters,
    each distinct kernel once."""
    strict: dict[str, bool] = {}
    passed: dict[str, bool] = {}
    for r in rows:
        if r.kernel.bytes and r.l2_bytes and r.kernel.bytes > 2 * r.l2_bytes:
            key = f"{r.capture}{r.kernel.id}"
            strict[key] = abs(r.kernel.bytes / r.dram_bytes - 1) <= 0.15
            passed[key] = r.kernel.dram_bytes is not None and abs(r.kernel.dram_bytes / r.dram_bytes - 1) <= 0.15
    return f"bytes within 15 % for {sum(strict.values())} of {len(strict)} kernels above twice the L2; dram_bytes for {sum(passed.values())}"


Launch = tuple[str, tuple[int, ...], tuple[int, ...], float]


@contextmanager
def noted() -> Iterator[dict[Launch, float]]:
    """The instructions that the models predict while it is open, by kernel, grid, block and time."""
    real, found = estimator.demand_of, dict[Launch, float]()

    def noting(kernel: KernelInput, device: DeviceSpec) -> Any:
        demand, analysis = real(kernel, device)
        if demand is not None and demand.issued:
            key = (kernel.symbol, tuple(kernel.grid or ()), tuple(kernel.block or ()), kernel.duration_us)
            found[key] = demand.issued
        return demand, analysis

    estimator.demand_of = noting  # type: ignore[assignment]
    try:
        yield found
    finally:
        estimator.demand_of = real


def instructions_line(rows: list[Row], predicted: dict[Launch, float]) -> str:
    seen: dict[str, float] = {}
    for r in rows:
        k = r.kernel
        own = "at::native" in k.symbol or "softmax_warp" in k.symbol
        key = (k.symbol, tuple(k.launch.grid or ()), tuple(k.launch.block or ()), k.median_us)
        if own and "flash" not in k.symbol and r.counted and r.ncu_us >= 5 and key in predicted:
            seen[r.capture + k.id] = math.exp(abs(math.log(predicted[key] / r.counted))) - 1
    off = sorted(seen.values())
    shares = (
        "  ".join(f"{100 * p:.0f} %: {100 * off[int(p * (len(off) - 1))]:.0f} %" for p in (0.5, 0.75, 0.9))
        if off
        else "-"
    )
    return f"instructions of {len(off)} of PyTorch's own kernels of 5 us and more are off by at most: {shares}"


def errors(rows: list[Row]) -> list[str]:
    lines, seen = [], set()
    for r in sorted(rows, key=lambda r: -r.ncu_us):
        key = (r.capture, r.kernel.id)
        if r.right or key in seen:
            continue
        seen.add(key)
        k = r.kernel
        shown = tuple("-" if v is None else f"{v:.0f}" for v in (k.compute_pct, k.memory_pct))
        lines.append(
            f"  {r.truth:7} -> {k.bound:7} {r.capture:12.12} {k.symbol[:60]:60} {r.ncu_us:7.1f} us  sm {r.sm_pct:.0f} ({shown[0]})  memory {r.memory_pct:.0f} ({shown[1]})"
            f"  {(k.bytes or 0) / 1e6:.1f} MB ({r.dram_bytes / 1e6:.1f}){'  borderline' if k.borderline else ''}"
        )
    return lines


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--errors", action="store_true", help="list the wrong verdicts, longest first")
    parser.add_argument("--instructions", action="store_true", help="compare instructions of PyTorch's own kernels")
    parser.add_argument("--arguments", action="store_true", help="with the arguments of direct launches, where noted")
    args = parser.parse_args(argv)
    everything: list[Row] = []
    with noted() as predicted:
        for path in args.captures:
            with opened(path) as folder:
                rows = score_capture(folder, args.arguments)
            everything += rows
            print("\n".join(summary(folder.name, rows)))
    print("\n".join(summary("all captures", everything)))
    print("\n".join(confusion(everything)))
    print(bytes_line(everything))
    if args.instructions:
        print(instructions_line(everything, predicted))
    if args.errors:
        print("\n".join(errors(everything)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
