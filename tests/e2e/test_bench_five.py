"""Modules of five programs, forward and backward, and of odd inputs: each profiled and benchmarked on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.bench import document, plan

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.xdist_group("bench_five"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]

PROGRAMS = ("mlp", "transformer", "convolution", "softmax", "dynamic")
MODULES = [f"c{name}{number}" for name in PROGRAMS for number in (0, 1)]
# One thread: what is measured is no matter here, and threads that wait for each other on a busy machine take long.
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
MEASURE = """
import sys
sys.path.insert(0, sys.argv[1])
from bench_inside import load_inside
load_inside()
import _ridgeline_bench.session as session
for folder in sys.argv[2:]:
    session.run(folder + "/request.json", folder + "/result.json")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("five")
    maker = Path(__file__).with_name("five_programs.py")
    subprocess.run([sys.executable, str(maker), str(folder)], check=True, timeout=500, capture_output=True, env=ENV)
    return folder


def planned(made: Path, name: str, sizes: dict[str, int] | None = None) -> plan.Plan:
    file = made / f"{name}.py"
    return plan.read(file.read_text(), str(file), sizes)


@pytest.fixture(scope="module")
def measured(made: Path) -> dict[str, dict[str, Any]]:
    """The documents of all modules, as ``ridgeline bench --warm-cache`` makes them, measured in one process."""
    wanted = [(name, name, None) for name in (*MODULES, "czero0", "ccomplex0", "citem0", "cmask0", "cmask1")]
    wanted += [("citem0 sized", "citem0", {"u1": 500}), ("cmask1 sized", "cmask1", {"u0": 5000}),
               ("cdynamic0 sized", "cdynamic0", {"s77": 1000}), ("cdynamic1 sized", "cdynamic1", {"s77": 1000})]  # fmt: skip
    plans, folders = {}, {}
    for label, name, sizes in wanted:
        read = plans[label] = planned(made, name, sizes)
        folder = folders[label] = made / label.replace(" ", "_")
        folder.mkdir()
        (folder / "generated.py").write_text(read.body)
        asked = document.request(read, path=str(folder / "generated.py"), caches=["warm"], timeout_s=120, verify=False)
        (folder / "request.json").write_text(json.dumps(asked))
    unit = Path(__file__).parents[1] / "unit"
    command = [sys.executable, "-c", MEASURE, str(unit), *map(str, folders.values())]
    subprocess.run(command, check=True, timeout=500, env=ENV)
    results = {label: json.loads((folder / "result.json").read_text()) for label, folder in folders.items()}
    return {label: document.build(plans[label], results[label], verify=False) for label in plans}


@pytest.mark.parametrize("name", MODULES)
def test_every_kernel_is_measured_with_the_arguments_of_its_module(
    measured: dict[str, dict[str, Any]], name: str
) -> None:
    found = measured[name]
    assert found["module_kind"] == ("forward" if name.endswith("0") else "backward")
    assert found["kernels"]
    for kernel in found["kernels"]:
        assert kernel["problem"] is None, kernel
        assert kernel["arguments"] == "as in the module's run"
        assert kernel["warm"]["median_us"] > 0
        assert kernel["warm"]["gb_per_s"] > 0
    # What the plan reads from the text and what the run gives agree: the run met every call that the text has.
    assert [note for note in found["notes"] if "stops at" in note] == []


@pytest.mark.parametrize("name", MODULES)
def test_the_module_is_profiled_by_kind_and_of_one_run(made: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "profile.json"
    command = [sys.executable, "-m", "ridgeline.cli", "profile", "--format", "json", "--output", str(out), "--quiet",
               "--then", "stop", "--steps", "3", "--run-dir", str(tmp_path / "runs"), str(made / f"{name}.py")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=ENV)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["source"]["kind"] == "module"
    (module,) = found["modules"]
    assert module["kind"] == ("forward" if name.endswith("0") else "backward")
    named = {kernel.name for kernel in planned(made, name).kernels}
    seen = {kernel["name"] for kernel in found["kernels"] if kernel["category"] == "cpp"}
    assert seen == named  # every kernel of the text ran, under its own name
    # Device and wall are of the same run: the categories fill no more than the wall.
    assert 0 < sum(row["time_us"] for row in found["categories"]) <= found["totals"]["wall_us"] * 1.001
    assert sum(row["share_pct"] for row in found["categories"]) == pytest.approx(100, abs=0.1)
    wanted = {"mlp": {"gemm"}, "transformer": {"gemm"}, "convolution": {"convolution"}, "dynamic": {"gemm"}}
    assert wanted.get(name[1:-1], set()) <= {row["category"] for row in found["categories"]}


def only(found: dict[str, Any]) -> dict[str, Any]:
    (kernel,) = found["kernels"]
    return dict(kernel)


def test_no_work_has_no_time(measured: dict[str, dict[str, Any]]) -> None:
    """Zero elements; a size that the harness leaves at zero; a size for which Inductor writes a stand-in."""
    assert measured["czero0"]["kernels"] == []  # Inductor writes no kernel for no elements
    assert only(measured["citem0"])["problem"].startswith("unbacked size u1 = 0 in the harness")
    assert only(measured["cmask0"])["problem"] is None  # truth values are random: some rows are taken
    assert measured["cmask1"]["notes"] == [
        "u0 = 42 is what Inductor writes where only a run knows a size: times are of that size;"
        " give the real one (--size u0=VALUE)"
    ]
    assert only(measured["cmask1"])["problem"] is None


@pytest.mark.parametrize(
    ("label", "floats"),
    [
        ("citem0 sized", 8 + 500 * 8),
        ("cmask1 sized", 2 * 5000 * 8 + 1),
        ("cdynamic0 sized", None),
        ("cdynamic1 sized", None),
    ],
)
def test_a_size_that_is_given_is_the_size_of_the_whole_module(
    measured: dict[str, dict[str, Any]], label: str, floats: int | None
) -> None:
    found = measured[label]
    kernel = only(found)
    assert kernel["problem"] is None
    assert kernel["arguments"] == "as in the module's run"  # the module itself ran in that size
    assert not any("stops at" in note or "Inductor writes" in note for note in found["notes"])
    if floats is not None:
        assert kernel["gb"] == pytest.approx(floats * 4 / 1e9)
    else:
        unsized = only(measured[label.split()[0]])
        assert kernel["gb"] / unsized["gb"] == pytest.approx(1000 / 48, rel=0.05)


def test_complex_inputs_do_real_work_and_the_fallback_is_named(measured: dict[str, dict[str, Any]]) -> None:
    found = measured["ccomplex0"]
    assert only(found)["warm"]["median_us"] > 0
    reasons = [fallback["reason"] for fallback in found["fallbacks"]]
    assert "complex op runs as aten fallback: aten::mul" in reasons
    (multiplied,) = [f for f in found["fallbacks"] if f["op"] == "aten::mul"]
    assert set(multiplied["input_bytes"]) == {512}


def test_sizes_that_a_module_does_not_have_are_refused(made: Path) -> None:
    command = [sys.executable, "-m", "ridgeline.cli", "bench", str(made / "cdynamic0.py"), "--size", "s99=5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no such size; it has s77, s27, s21" in done.stderr
