"""``ridgeline profile GENERATED.py``: a module of Inductor's by itself, on inputs that do real work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]

MAKER = """
import sys, torch
from torch._inductor.utils import run_and_get_code

table = torch.nn.Embedding(1000, 64)
layer = torch.nn.Linear(64, 64)

def f(index):
    return torch.softmax(layer(table(index)), -1).sum(1)

_, (code, *_) = run_and_get_code(torch.compile(f), torch.randint(0, 1000, (32, 16)))
open(sys.argv[1], "w").write(code)
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forward module with an embedding, a product and a softmax, as Inductor of the installed torch writes it."""
    path = tmp_path_factory.mktemp("generated") / "cmodule.py"
    subprocess.run([sys.executable, "-c", MAKER, str(path)], check=True, timeout=300)
    return path


def profiled(target: Path, tmp_path: Path, *more: str) -> tuple[int, dict[str, Any] | None, str]:
    out = tmp_path / "profile.json"
    command = [sys.executable, "-m", "ridgeline.cli", "profile", "--format", "json", "--output", str(out), "--quiet"]
    command += ["--then", "stop", "--run-dir", str(tmp_path / "runs"), *more, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, json.loads(out.read_text()) if out.exists() else None, done.stderr


def test_a_module_shows_its_kernels_by_kind_and_call_line(generated: Path, tmp_path: Path) -> None:
    status, document, err = profiled(generated, tmp_path)
    assert status == 0, err
    assert document is not None
    assert document["source"]["kind"] == "module"
    assert document["source"]["steps"] >= 1
    categories = {row["category"] for row in document["categories"]}
    assert {"cpp", "gemm"} <= categories
    fused = next(k for k in document["kernels"] if k["category"] == "cpp")
    lines = generated.read_text().splitlines()
    for ref in fused["generated"]:
        for call in ref["call_lines"]:
            assert fused["name"] in lines[call["line"] - 1]
    (module,) = document["modules"]
    assert module["file"].endswith("cmodule.py")
    assert module["device_us"] == pytest.approx(sum(k["total_us"] for k in document["kernels"]), rel=0.05)


def test_indices_are_random_within_the_asserted_bounds(generated: Path, tmp_path: Path) -> None:
    _, document, _ = profiled(generated, tmp_path)
    assert document is not None
    notes = [w["message"] for w in document["quality"]["warnings"]]
    assert any("random values below 1000" in note for note in notes), notes


def test_an_op_that_nobody_registered_is_one_line_with_its_place(generated: Path, tmp_path: Path) -> None:
    text = re.sub(r"extern_kernels\.(addmm|mm)\(", "torch.ops.test.baz.default(", generated.read_text())
    broken = tmp_path / "cbroken.py"
    broken.write_text(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "ops.test.baz" in row)
    status, _, err = profiled(broken, tmp_path)
    assert status != 0
    assert f"cbroken.py:{line}: op test.baz not registered" in err
    assert "`ridgeline bench` measures the kernels that can do without it" in err
    assert "Traceback" not in err


def test_a_module_without_a_harness_is_run_on_the_sizes_that_it_asserts(generated: Path, tmp_path: Path) -> None:
    text = generated.read_text()
    cut = re.split(r"^def (?:get_args|benchmark_compiled_module)\(", text, flags=re.MULTILINE)[0]
    bare = tmp_path / "cbare.py"
    bare.write_text(cut)
    status, document, err = profiled(bare, tmp_path)
    assert status == 0, err
    assert document is not None
    assert {"cpp", "gemm"} <= {row["category"] for row in document["categories"]}
    notes = [w["message"] for w in document["quality"]["warnings"]]
    assert any("carries no harness" in note for note in notes), notes
    assert any("random values below 1000" in note for note in notes), notes


def test_a_size_that_no_module_has_is_refused_before_anything_runs(generated: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('it ran')\n")
    for target, words in ((generated, "all its sizes are fixed"), (script, "--size is for generated modules")):
        status, document, err = profiled(target, tmp_path, "--size", "s77=5")
        assert (status, document) == (2, None)
        assert words in err
        assert "it ran" not in err


def test_the_harness_of_older_torch_is_understood(generated: Path, tmp_path: Path) -> None:
    """Up to 2.10 the inputs are made inside ``benchmark_compiled_module(times, repeat)``."""
    text = generated.read_text()
    arguments = re.search(
        r"^def get_args\(\):\n(?P<body>(?:    .*\n|\n)*?)    return (?P<names>.*)\n", text, re.MULTILINE
    )
    if arguments is None:
        pytest.skip("this torch writes another shape of get_args")
    head = text[: arguments.start()]
    old = (
        f"{head}def benchmark_compiled_module(times=10, repeat=10):\n{arguments['body']}"
        "    from torch._inductor.utils import print_performance\n"
        f"    fn = lambda: call(list({arguments['names']}))\n    return print_performance(fn, times=times, repeat=repeat)\n"
    )
    target = tmp_path / "cold.py"
    target.write_text(old)
    status, document, err = profiled(target, tmp_path)
    assert status == 0, err
    assert document is not None
    assert any(k["category"] == "gemm" for k in document["kernels"])


EMPTY = """# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
async_compile = AsyncCompile()
_frozen_param0 = None  # device(type='cpu') torch.float32 (4, 8) (8, 1) 7f0cb5bb3e80


async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    u0 = arg1_1.item()
    if not (u0 >= 1):
        raise RuntimeError('u0 >= 1')
    assert_size_stride(_frozen_param0, (4, 8), (8, 1))
    buf0 = empty_strided_cpu((0, 17), (17, 1), torch.float32)
    return (buf0, )


def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((0, 17), (17, 1), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((), (), device='cpu', dtype=torch.int64)
    return [arg0_1, arg1_1]
"""


def test_a_module_without_work_shows_its_call_and_one_that_needs_a_size_says_so(tmp_path: Path) -> None:
    """With nothing but zero sizes there is no kernel; a weight that a run of the program held is made anew."""
    target = tmp_path / "cempty.py"
    target.write_text(EMPTY)
    status, document, err = profiled(target, tmp_path)
    assert status != 0
    assert "RuntimeError: u0 >= 1); give the size (--size u0=VALUE)" in err
    status, document, err = profiled(target, tmp_path, "--size", "u0=5")
    assert status == 0, err
    assert document is not None
    assert document["source"]["steps"] >= 1
    assert document["totals"]["wall_us"] > 0
    assert not [kernel for kernel in document["kernels"] if kernel["category"] == "cpp"]


BREAKS = """import torch


@torch.compile
def f(x):
    y = x.sin() * 2; s = y.sum().item()
    z = (y * s).cos()
    print(end="")
    return z.exp() + 1


x = torch.randn(64, 64)
for step in range(200):
    f(x)
"""


def test_graph_breaks_have_their_lines_and_each_region_its_module(tmp_path: Path) -> None:
    """UP-71: ``item()`` on line 6 and ``print`` on line 8 make three graphs."""
    script = tmp_path / "breaks.py"
    script.write_text(BREAKS)
    status, document, err = profiled(script, tmp_path, "--steps", "5")
    assert status == 0, err
    assert document is not None
    breaks = [event for event in document["compile_events"] if event["kind"] == "break"]
    assert [(Path(event["file"]).name, event["line"]) for event in breaks] == [("breaks.py", 6), ("breaks.py", 8)]
    assert sorted(module["compile_id"] for module in document["modules"]) == ["0/0", "1/0", "2/0"]
    steps = document["source"]["steps"]
    (item,) = [op for op in document["ops"] if op["name"] == "aten::item"]
    assert item["count"] == steps  # one between the first region and the second
    lines = {finding["line"] for finding in document["findings"] if finding["code"] == "graph-break"}
    assert lines == {6, 8}
