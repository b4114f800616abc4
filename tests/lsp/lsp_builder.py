"""Finished runs made by hand: a user's file, a generated module, kernels that join them, and the folder they are kept in."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline import index
from ridgeline.profile import (
    Autotune,
    CallLine,
    Device,
    File,
    Finding,
    GeneratedRef,
    Kernel,
    Line,
    ProfileDocument,
    Slice,
    Source,
    SourceRef,
    Step,
    Totals,
)
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.store import group_name

MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        h = self.first(x)
        h = torch.nn.functional.gelu(h)
        h = torch.cat(
            [h, x],
            dim=-1,
        )
        return self.second(h)


def train(model, batch):
    loss = model(batch).sum()
    loss.backward()
    return loss.item()
"""

MODULE = '''\
# AOT ID: ['0_inference']
# Topologically Sorted Source Nodes: [h], Original ATen: [aten.gelu]
# kernel path: {kernel_file}
triton_poi_fused_gelu_0 = async_compile.triton('triton_poi_fused_gelu_0', """
""", device_str='cuda')


def call(args):
    extern_kernels.addmm(arg1, arg2, alpha=1, beta=1, out=buf0)
    triton_poi_fused_gelu_0.run(buf0, 1024, stream=stream0)
    return (buf0, )
'''

KERNEL_FILE = """\
import triton


@triton.jit
def triton_poi_fused_gelu_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    pass
"""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Project:
    """A workspace with a model, its generated code, and a store of runs."""

    root: Path
    files: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def make(cls, root: Path, model: str = MODEL) -> Project:
        workspace, cache = root / "ws", root / "cache"
        workspace.mkdir(parents=True)
        cache.mkdir()
        project = cls(root)
        kernel_file = cache / "ckernel.py"
        project.files = {"model": workspace / "model.py", "module": cache / "cmodule.py", "kernel": kernel_file}
        project.files["model"].write_text(model, encoding="utf-8")
        project.files["module"].write_text(MODULE.format(kernel_file=kernel_file), encoding="utf-8")
        kernel_file.write_text(KERNEL_FILE, encoding="utf-8")
        return project

    @property
    def store(self) -> Path:
        return self.root / "runs"

    @property
    def workspace(self) -> Path:
        return self.root / "ws"

    @property
    def model(self) -> Path:
        return self.files["model"]

    def uri(self, name: str) -> str:
        return self.files[name].as_uri()

    def text(self, name: str) -> str:
        return self.files[name].read_text(encoding="utf-8")

    def line_of(self, text: str, name: str = "model") -> int:
        """Zero-based line of the first line that holds ``text``."""
        return next(i for i, line in enumerate(self.text(name).split("\n")) if text in line)

    def document(self, **changes: Any) -> ProfileDocument:
        """Ten steps of 25 ms. gelu (memory, 4.1 ms a step), addmm (compute, 10 ms a step, from two lines), one finding."""
        model, module, kernel = (str(self.files[name]) for name in ("model", "module", "kernel"))
        gelu_line, first_line, second_line = (
            self.line_of(t) + 1 for t in ("gelu(h)", "self.first(x)", "self.second(h)")
        )
        cat_line, item_line = self.line_of("torch.cat(") + 1, self.line_of("loss.item()") + 1
        definition = self.line_of("triton_poi_fused_gelu_0 = ", "module") + 1
        call, gemm = self.line_of("gelu_0.run(", "module") + 1, self.line_of("addmm(", "module") + 1
        gelu = kernel_row(
            "k-gelu",
            "triton_poi_fused_gelu_0",
            41_000.0,
            bound="memory",
            memory_pct=84.0,
            step_share_pct=16.4,
            share_pct=29.0,
            bound_reason="reads and writes 1.07 GB a launch at 84 % of the measured bandwidth",
            generated=[
                GeneratedRef(
                    file=module, line=definition, call_lines=[CallLine(line=call, time_us=41_000.0, count=10)]
                ),
                GeneratedRef(file=kernel, line=5),
            ],
            source=[SourceRef(file=model, line=gelu_line, function="forward", method="debug_handle", confidence=1.0)],
            autotune=Autotune(status="candidate", speedup=1.3),
            slice=Slice(ts_us=1000.0, dur_us=4100.0),
        )
        addmm = kernel_row(
            "k-addmm",
            "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
            100_000.0,
            category="gemm",
            bound="compute",
            compute_pct=61.0,
            step_share_pct=40.0,
            share_pct=71.0,
            bound_reason="430 GFLOP a launch at 61 % of the measured bf16 rate",
            generated=[GeneratedRef(file=module, call_lines=[CallLine(line=gemm, time_us=100_000.0, count=20)])],
            source=[
                SourceRef(file=model, line=line, function="forward", confidence=1.0)
                for line in (first_line, second_line)
            ],
        )
        lines = [
            line_row(model, first_line, "h = self.first(x)", 50_000.0, 100_000.0, 40.0, ["k-addmm"], [second_line]),
            line_row(model, gelu_line, "h = torch.nn.functional.gelu(h)", 41_000.0, 41_000.0, 16.4, ["k-gelu"], []),
            line_row(model, cat_line, "h = torch.cat(", 5_000.0, 5_000.0, 2.0, [], []),
            line_row(model, second_line, "return self.second(h)", 50_000.0, 100_000.0, 40.0, ["k-addmm"], [first_line]),
            line_row(model, item_line, "return loss.item()", 500.0, 500.0, 0.2, [], []),
        ]
        document = ProfileDocument(
            source=Source(
                kind="run",
                path=model,
                created="2026-11-29T10:00:00+00:00",
                torch="2.13.0",
                steps=10,
                profiler_overhead_pct=6.0,
            ),
            totals=Totals(wall_us=250_000.0, profiled_step_us=25_000.0),
            files=[
                File(path=model, root=str(self.workspace), sha256=sha(self.text("model")), snapshot="files/model.py"),
                File(path=module, sha256=sha(self.text("module")), snapshot="files/module.py", kind="generated"),
                File(path=kernel, sha256=sha(self.text("kernel")), snapshot="files/kernel.py", kind="generated"),
            ],
            devices=[Device(id=0, name="NVIDIA H200", kind="cuda", busy_us=141_500.0)],
            kernels=[addmm, gelu],
            lines=lines,
            steps=[Step(name=f"ProfilerStep#{i}", start_us=25_000.0 * i, wall_us=25_000.0) for i in range(10)],
            findings=[
                Finding(
                    code="hidden-sync",
                    title="The host waits for the device here",
                    severity="warning",
                    message="loss.item() waits 2.1 ms a step.",
                    file=model,
                    line=item_line,
                    saving_us=2_100.0,
                    step_gain_pct=8.4,
                    doc="docs/findings/hidden-sync.md",
                ),
                Finding(
                    code="launch-bound",
                    title="The device waits for launches",
                    severity="information",
                    message="31 % idle.",
                ),
            ],
        )
        for name, value in changes.items():
            setattr(document, name, value)
        return document

    def add_run(
        self, document: ProfileDocument | None = None, *, name: str | None = None, indexed: bool = True
    ) -> RunFolder:
        """A finished run of the model, as the supervisor and the analysis leave it."""
        document = document or self.document()
        now = time.time()
        stamp = name or f"20261129-{now:017.6f}"
        folder = RunFolder(self.store / group_name(str(self.model), False, str(self.workspace)) / stamp)
        (folder.path / "files").mkdir(parents=True)
        for key in ("model", "module", "kernel"):
            (folder.path / "files" / f"{key}.py").write_text(self.text(key), encoding="utf-8")
        folder.update(target=str(self.model), module=False, cwd=str(self.workspace), created=now, state="finished")
        folder.update(files=sorted(entry.path for entry in document.files))
        publish(document, folder, indexed=indexed)
        return folder


def publish(document: ProfileDocument, folder: RunFolder, *, indexed: bool = True) -> None:
    data = json.dumps(dataclasses.asdict(document)).encode()
    if indexed:
        index.build(folder.path, data)
    temporary = folder.path / ".profile"
    temporary.write_bytes(data)
    temporary.rename(folder.profile)


def kernel_row(identity: str, name: str, total_us: float, **values: Any) -> Kernel:
    each = total_us / 10
    row: dict[str, Any] = {
        "symbol": name,
        "device": 0,
        "category": "pointwise",
        "count": 10,
        "min_us": each,
        "q1_us": each,
        "median_us": each,
        "q3_us": each,
        "max_us": each,
        "bound_source": "estimated",
    }
    return Kernel(id=identity, name=name, total_us=total_us, **{**row, **values})


def line_row(
    file: str,
    line: int,
    text: str,
    device_us: float,
    unsplit_us: float,
    step: float,
    kernels: list[str],
    shared: list[int],
) -> Line:
    return Line(
        file=file,
        line=line,
        text=text,
        device_us=device_us,
        unsplit_us=unsplit_us,
        share_pct=device_us / 1415.0,
        step_share_pct=step,
        count=10,
        kernels=kernels,
        shared_with=shared,
    )
