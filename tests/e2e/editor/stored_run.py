"""Writes a finished run of ``fixture/model.py`` into a run store, as the runner and the analysis would have left it.

usage: ``stored_run.py WORKSPACE STORE [--scale F] [--age SECONDS] [--kernels N]``. Lines are found by their text, so that the
fixture can be edited. ``--scale`` multiplies all times (a slower or a faster run of the same program); ``--kernels`` adds
many small ones. Prints the run folder.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

from ridgeline import profile as p
from ridgeline import profile_io
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import Store, write_summary

HERE = Path(__file__).parent
STEPS = 10
STEP_US = 25_100.0


def line_of(text: str, part: str) -> int:
    """One-based number of the only line that contains ``part``."""
    found = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    assert len(found) == 1, (part, found)
    return found[0]


def kernel(name: str, category: p.Category, total_us: float, source: list[p.SourceRef], **more: object) -> p.Kernel:
    each = total_us / STEPS
    return p.Kernel(
        id=hashlib.sha256(name.encode()).hexdigest()[:12],
        name=name,
        symbol=name,
        device=0,
        category=category,
        count=STEPS,
        total_us=total_us,
        min_us=each * 0.97,
        q1_us=each * 0.99,
        median_us=each,
        q3_us=each * 1.01,
        max_us=each * 1.05,
        step_share_pct=100 * total_us / (STEPS * STEP_US),
        source=source,
        **more,  # type: ignore[arg-type]
    )


def document(model: Path, module: Path, scale: float, extra: int) -> p.ProfileDocument:
    text, generated = model.read_text(), module.read_text()

    def at(part: str, confidence: float = 0.98) -> p.SourceRef:
        line = line_of(text, part)
        words = text.splitlines()[line - 1].strip()
        return p.SourceRef(
            file=str(model), line=line, function="forward", text=words, method="provenance", confidence=confidence
        )

    def launch(part: str, total_us: float) -> list[p.GeneratedRef]:
        call = p.CallLine(line=line_of(generated, part), time_us=total_us, count=STEPS)
        return [p.GeneratedRef(file=str(module), line=None, call_lines=[call])]

    up, gelu, gate, down = at("self.up(x)"), at("gelu(hidden)"), at("torch.sigmoid"), at("x + self.down")
    item = at("loss.item()", 0.9)
    fused = launch("_sigmoid_0.run(", 41_000)
    fused[0].line = line_of(generated, "_sigmoid_0 = async_compile")
    kernels = [
        kernel(
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n",
            "gemm",
            52_000,
            [up],
            generated=launch("extern_kernels.addmm(", 52_000),
            aten=["aten.addmm"],
            bound="compute",
            bound_source="estimated",
            bound_confidence=0.8,
            compute_pct=71.0,
            memory_pct=22.0,
            bound_reason="71 % of the tf32 peak",
        ),
        kernel(
            "triton_poi_fused_gelu_mul_sigmoid_0",
            "pointwise",
            41_000,
            [gelu, gate],
            generated=fused,
            aten=["aten.gelu", "aten.sigmoid", "aten.mul"],
            bound="memory",
            bound_source="estimated",
            bound_confidence=0.9,
            bound_resource="dram",
            memory_pct=84.0,
            compute_pct=6.0,
            gb_per_s=2_810.0,
            bytes=1_152_000.0,
            bound_reason="84 % of the measured bandwidth",
            autotune=p.Autotune(status="candidate", speedup=1.2),
            slice=p.Slice(ts_us=1_000.0, dur_us=4_100.0),
        ),
        kernel(
            "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n",
            "gemm",
            31_000,
            [down],
            generated=launch("extern_kernels.mm(", 31_000),
            aten=["aten.mm"],
            bound="compute",
            bound_source="estimated",
            bound_confidence=0.8,
            compute_pct=64.0,
        ),
        kernel("Memcpy DtoH (Device -> Pageable)", "memcpy", 400, [item], bound="unknown"),
    ]
    kernels += [kernel(f"elementwise_kernel_{number}", "other", 0.5, []) for number in range(extra)]
    for one in kernels:
        one.total_us *= scale
        one.median_us *= scale
    rows = {up.line: [0], gelu.line: [1], gate.line: [1], down.line: [2], item.line: [3]}
    device_us = sum(one.total_us for one in kernels)
    lines = []
    for number, indices in rows.items():
        whole = sum(kernels[index].total_us for index in indices)
        shared = [line for line, other in rows.items() if line != number and other == indices]
        lines.append(
            p.Line(
                file=str(model),
                line=number,
                text=text.splitlines()[number - 1].strip(),
                device_us=whole / (1 + len(shared)),
                unsplit_us=whole,
                share_pct=100 * whole / device_us,
                step_share_pct=100 * whole / (STEPS * STEP_US * scale),
                count=STEPS,
                kernels=[kernels[index].id for index in indices],
                shared_with=shared,
                phase=p.Phase(forward_us=whole / (1 + len(shared))),
            )
        )
    step_us = STEP_US * scale
    return p.ProfileDocument(
        source=p.Source(
            kind="run",
            path=str(model),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            argv=[str(model)],
            exit_status=0,
            torch="2.11.0",
            python="3.12.4",
            steps=STEPS,
            profiler_overhead_pct=3.0,
        ),
        totals=p.Totals(
            wall_us=STEPS * step_us, self_device_us=device_us, plain_step_us=step_us * 0.97, profiled_step_us=step_us
        ),
        files=[entry(model, "user"), entry(module, "generated")],
        devices=[
            p.Device(
                id=0,
                name="NVIDIA H200",
                kind="cuda",
                window_us=STEPS * step_us,
                window_idle_pct=50.3,
                busy_us=device_us,
            )
        ],
        kernels=kernels,
        lines=lines,
        steps=[p.Step(name=f"step {i}", start_us=i * step_us, wall_us=step_us, window=0) for i in range(STEPS)],
        modules=[
            p.Module(file=str(module), kind="forward", kernels=[one.id for one in kernels[:3]], device_us=device_us)
        ],
        unattributed=p.Unattributed(device_us=max(device_us - sum(row.device_us for row in lines), 0.0), share_pct=0.0),
        findings=[
            p.Finding(
                code="hidden-sync",
                title="The device is waited for",
                severity="warning",
                message="`.item()` waits for the device 1 time a step: 2.3 ms of the step pass in it.",
                file=str(model),
                line=item.line,
                time_us=2_300.0 * scale,
                saving_us=1_900.0 * scale,
                saving_bound_us=2_300.0 * scale,
                step_gain_pct=7.6,
                evidence={"calls_per_step": 1},
                doc="docs/findings/hidden-sync.md",
            ),
            p.Finding(
                code="autotune-candidate",
                title="Another configuration may be faster",
                severity="information",
                message="triton_poi_fused_gelu_mul_sigmoid_0 may run about 1.2 times as fast with another configuration.",
                file=str(model),
                line=gate.line,
                time_us=4_100.0 * scale,
                saving_us=680.0 * scale,
                step_gain_pct=2.7,
                evidence={"kernel": kernels[1].id},
                doc="docs/findings/autotune-candidate.md",
            ),
        ],
    )


def entry(path: Path, kind: str) -> p.File:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return p.File(path=str(path), root=str(path.parent), sha256=digest, snapshot=f"files/{digest}", kind=kind)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workspace", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--age", type=float, default=0.0)
    parser.add_argument("--kernels", type=int, default=0)
    options = parser.parse_args()
    model = options.workspace / "model.py"
    module = options.workspace / "torchinductor_e2e" / "ab" / "cabgated.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text((HERE / "fixture" / "generated.py.txt").read_text())

    spec = RunSpec(target=str(model), python=os.devnull, cwd=str(options.workspace))
    folder = RunFolder(Store(options.store).create(spec).path)
    (folder.path / "files").mkdir()
    for path in (model, module):
        text = path.read_bytes()
        (folder.path / "files" / hashlib.sha256(text).hexdigest()).write_bytes(text)
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 107, "ts": 1000, "dur": 4100, "args": {"stream": 7}}
    ]
    folder.trace.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    profile_io.write(document(model, module, options.scale, options.kernels), folder.profile)
    write_summary(folder)
    folder.update(state="finished", exit_status=0, created=time.time() - options.age)
    print(folder.path)


if __name__ == "__main__":
    main()
