"""The page in Chromium: ten thousand kernels, hostile names, every section, two runs of the corpus compared."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ridgeline import cli_report, profile_io, units
from ridgeline.profile import (
    CATEGORIES,
    Allocation,
    Bound,
    CategoryRow,
    Device,
    Finding,
    Idle,
    Kernel,
    Launch,
    Line,
    Memory,
    Op,
    OwnCategory,
    Peaks,
    Phase,
    Phases,
    ProfileDocument,
    QualityWarning,
    Range,
    Source,
    SourceRef,
    Step,
)

CHECK = Path(__file__).with_name("check.mjs")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028<!--&${alert(3)}"
BOUNDS: tuple[Bound, ...] = ("memory", "compute", "latency", "unknown")

pytestmark = pytest.mark.editor


def many(kernels: int, name: str = "") -> ProfileDocument:
    """A profile with everything that a page can show; the same at each call."""
    dice = random.Random(7)
    rows = []
    for i in range(kernels):
        median = dice.lognormvariate(3, 1.5)
        intensity, reached = 10 ** dice.uniform(-1, 3.5), dice.uniform(0.02, 0.95)
        rate = reached * min(800.0, intensity * 4.0)
        rows.append(
            Kernel(
                id=f"{i:012x}", name=f"triton_poi_fused_{i}{name}", symbol=f"triton_poi_fused_{i}{name}", device=0,
                category=CATEGORIES[i % 10], count=20, total_us=20 * median, min_us=median * 0.9, q1_us=median * 0.97,
                median_us=median, q3_us=median * 1.04, max_us=median * 1.6, share_pct=100 / kernels,
                step_share_pct=80 / kernels, exposed_us=19 * median, arithmetic_intensity=intensity, tflop_per_s=rate,
                gb_per_s=1e3 * rate / intensity, bytes=1e6, flops=1e6 * intensity, bound=BOUNDS[i % 4],
                bound_source="estimated", compute_pct=50.0, memory_pct=80.0,
                launch=Launch(grid=[i + 1, 1, 1], block=[256, 1, 1], waves=dice.uniform(0.2, 9)),
                source=[SourceRef(file="/p/model.py", line=i % 400 + 1)], aten=["aten.add"],
            )
        )  # fmt: skip
    rows.sort(key=lambda kernel: -kernel.total_us)
    busy = sum(k.exposed_us or 0.0 for k in rows)
    idle = Idle(launch=0.1 * busy, sync=0.02 * busy, loader=0.05 * busy, other=0.03 * busy)
    device = Device(
        id=0, name=f"NVIDIA H200{name}", kind="cuda", window_us=1.2 * busy, busy_us=busy, window_idle_pct=100 / 6,
        peaks=Peaks(source="measured", bandwidth_gb_s=4000.0, flops={"bf16": 8e14, "tf32": 4e14, "fp32": 6e13}),
    )  # fmt: skip
    return ProfileDocument(
        source=Source(kind="run", path="/p/train.py", steps=20, torch="2.13.0", argv=["train.py", "--token", "abc"]),
        devices=[device], kernels=rows, idle=idle,
        phases=Phases(forward_us=0.3 * busy, backward_us=0.5 * busy, optimizer_us=0.15 * busy, unknown_us=0.05 * busy),
        categories=[CategoryRow(device=0, category="gemm", time_us=busy, share_pct=100.0, count=20 * kernels)],
        own_categories=[OwnCategory(name=f"my_kernels{name}", device=0, time_us=busy / 3, share_pct=33.3, count=200)],
        lines=[
            Line(
                file="/p/model.py", line=n, text=f"x = layer_{n}(x){name}", device_us=busy / 400, unsplit_us=busy / 300,
                share_pct=0.25, step_share_pct=0.2, count=20, shared_with=[n + 1],
                phase=Phase(forward_us=busy / 1200, backward_us=busy / 600),
            )
            for n in range(1, 401)
        ],
        ops=[
            Op(
                name=f"aten::op_{n % 60}{name}", count=20, self_cpu_us=9.0, cpu_us=20.0, self_device_us=5.0, device_us=8.0,
                input_shapes=f"[[{n}, 64]]", self_device_memory_bytes=n << 20,
            )
            for n in range(600)
        ],
        ranges=[Range(name=f"## forward {n}{name}", count=20, wall_us=100.0 * n, device_us=80.0 * n) for n in range(1, 5)],
        steps=[
            Step(name=f"step {n}{name}", start_us=n * 1e4, wall_us=1e4 + 800 * math.sin(n), busy_us=8e3, kernels=kernels)
            for n in range(20)
        ],
        memory=Memory(
            device=0, peak_bytes=8 << 30, reserved_peak_bytes=9 << 30,
            timeline=[(n * 50.0, int((4 + 4 * math.sin(n / 40)) * 2**30)) for n in range(600)],
            top=[Allocation(bytes=(9 - n) << 28, file="/p/model.py", line=n + 1, op=f"aten::empty{name}") for n in range(8)],
        ),
        findings=[
            Finding(
                code="launch-bound", title=f"The host launches too slowly{name}", severity="warning", file="/p/train.py",
                line=9, message=f"Capture the step in a CUDA graph.{name}", saving_us=900.0, saving_bound_us=1200.0,
                step_gain_pct=9.0,
            ),
            Finding(code="hidden-sync", title="The host waits", severity="hint", message="Keep it on the device."),
        ],
    )  # fmt: skip


def look(*pages: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js here; make page installs it")
    done = subprocess.run([node, str(CHECK), *map(str, pages)], capture_output=True, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


def written(document: ProfileDocument, folder: Path, name: str) -> Path:
    profile_io.write(document, folder / f"{name}.json")
    page = folder / f"{name}.html"
    cli_report.run(str(folder / f"{name}.json"), before=None, output=page, quiet=True)
    return page


def test_the_page_writes_figures_as_the_other_views_do() -> None:
    """units.ts against units.py, exact ties of rounding among them."""
    extension = CHECK.parents[3] / "extension"
    esbuild = extension / "node_modules" / ".bin" / "esbuild"
    if not esbuild.exists():
        pytest.skip("the client's packages are not installed; run make web")
    dice = random.Random(3)
    values = [
        0.0,
        0.04,
        0.05,
        0.125,
        0.5,
        0.9996,
        2.675,
        9.94,
        9.95,
        9.995,
        12.5,
        13.5,
        100.5,
        101.5,
        999.4,
        999.6,
        6e7,
        -12.5,
    ]
    values += [10 ** dice.uniform(-3, 13) for _ in range(2000)] + [dice.randrange(8000) / 8 for _ in range(500)]
    built = subprocess.run(
        [esbuild, extension / "webview/src/units.ts", "--bundle", "--format=cjs"],
        capture_output=True,
        text=True,
        check=True,
    )
    script = (
        built.stdout + "const it = module.exports;"
        'const values = JSON.parse(require("fs").readFileSync(0));'
        "console.log(JSON.stringify(values.map((v) => [it.duration(v), it.percent(v), v < 0 ? null : it.size(Math.floor(v))])));"
    )
    done = subprocess.run(["node", "-e", script], input=json.dumps(values), capture_output=True, text=True, check=True)
    for value, shown in zip(values, json.loads(done.stdout), strict=True):
        assert shown[0] == units.duration(value)
        assert shown[1] == units.percent(value)
        assert shown[2] == (units.size(math.floor(value)) if value >= 0 else None)


def test_ten_thousand_kernels_with_every_section(tmp_path: Path) -> None:
    look(written(many(10_000), tmp_path, "ten_thousand"))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    document = many(30, HOSTILE)
    document.quality.warnings.append(QualityWarning(code="x", message=HOSTILE))
    look(written(document, tmp_path, "hostile"))


def test_a_profile_that_knows_nothing(tmp_path: Path) -> None:
    look(written(ProfileDocument(source=Source(kind="trace", path="t.json")), tmp_path, "empty"))


def test_the_corpus(corpus: Path, tmp_path: Path) -> None:
    pages = []
    for after, before in (("mixnet_train", None), ("encoder_cudagraph", "encoder_train")):
        earlier = str(corpus / before / "trace.json.gz") if before else None
        pages.append(tmp_path / f"{after}.html")
        cli_report.run(str(corpus / after / "trace.json.gz"), before=earlier, output=pages[-1], quiet=True)
    look(*pages)
