"""A program's own Triton kernel: profiled, then measured with the arguments it had, and beside an edited copy.

Triton's interpreter stands in for a device. It needs an interpreter that has triton: this one, or RIDGELINE_TRITON_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]
PYTHON = os.environ.get("RIDGELINE_TRITON_PYTHON", sys.executable)

PROGRAM = """
import torch
import triton
import triton.language as tl

HALF = tl.constexpr(0.5)
SHIFT = 3


@triton.jit
def halve(x):
    return x * HALF


@triton.jit
def scale_kernel(x_ptr, y_ptr, out_ptr, n, a, DTYPE: tl.constexpr, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, (halve(x) * a + y + SHIFT).to(DTYPE), mask=mask)


def scale(x, y, out):
    n = x.numel()
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 2.0, tl.float32, BLOCK=128)


@triton.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, rows, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(index_ptr + row)
    tl.device_assert((at >= 0) & (at < rows))
    column = tl.arange(0, WIDTH)
    tl.store(out_ptr + row * WIDTH + column, tl.load(table_ptr + at * WIDTH + column))


x, y = torch.randn(1000), torch.randn(1000)
out = torch.empty_like(x)
table, index, rows = torch.randn(50, 16), torch.randint(20, 50, (200,)), torch.empty(200, 16)
for step in range(12):
    gather_kernel[(200,)](table, index, rows, 50, WIDTH=16)
    scale(x, y, out)
    scale(x[:64], y[:64], out[:64])
assert torch.equal(rows, table[index])
assert torch.allclose(out[100:], x[100:] + y[100:] + 3)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program and a run of it."""
    if subprocess.run([PYTHON, "-c", "import torch, triton"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has no triton; set RIDGELINE_TRITON_PYTHON to one that has")
    folder = tmp_path_factory.mktemp("launches")
    (folder / "own.py").write_text(PROGRAM)
    done = ridgeline(folder, "profile", "own.py")
    assert done.returncode == 0, done.stderr
    return folder


def ridgeline(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TRITON_INTERPRET": "1", "RIDGELINE_RUN_DIR": str(folder / "runs")}
    return subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", *arguments, "--python", PYTHON],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=env,
    )  # fmt: skip


def kernels(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {kernel["name"]: kernel for kernel in json.loads(done.stdout)["kernels"]}


def test_each_set_of_arguments_of_the_run_is_measured(folder: Path) -> None:
    done = ridgeline(folder, "bench", "own.py", "--warm-cache", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = kernels(done)
    assert [found[name]["launched"] for name in ("scale_kernel", "scale_kernel#2")] == [
        "x_ptr float32[1000], y_ptr float32[1000], out_ptr float32[1000], n=1000, a=2.0, DTYPE=float32, BLOCK=128; grid 8",
        "x_ptr float32[64], y_ptr float32[64], out_ptr float32[64], n=64, a=2.0, DTYPE=float32, BLOCK=128; grid 1",
    ]
    assert all(kernel["problem"] is None and kernel["warm"]["median_us"] > 0 for kernel in found.values())
    assert found["scale_kernel"]["gb"] == pytest.approx(12_000 / 1e9)
    assert any("interpreter" in warning for warning in json.loads(done.stdout)["warnings"])


def test_indices_are_those_of_the_run(folder: Path) -> None:
    """Zeros would read one row of the table again and again."""
    (run,) = (folder / "runs").glob("*/*/sidecar.json")
    (gather,) = (row for row in json.loads(run.read_text())["triton_calls"] if row["name"] == "gather_kernel")
    (call,) = gather["calls"]
    content = next(one["content"] for one in call["arguments"] if one["name"] == "index_ptr")
    assert len(content["values"]) == 200
    assert 20 <= content["low"] < content["high"] < 50
    done = ridgeline(folder, "bench", "own.py", "--kernel", "gather_kernel", "--warm-cache", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = kernels(done)["gather_kernel"]
    assert (found["problem"], found["notes"]) == (None, [])


def test_an_edited_copy_of_it_is_compared(folder: Path) -> None:
    mine = folder / "mine.py"
    done = ridgeline(folder, "bench", "own.py", "--kernel", "scale_kernel", "--copy", "mine.py")
    assert done.returncode == 0, done.stderr
    mine.write_text(mine.read_text().replace("+ SHIFT", "- SHIFT"))
    done = ridgeline(folder, "bench", "own.py", "--against", "mine.py", "--warm-cache", "--format", "json")
    assert done.returncode == 1
    compared = kernels(done)["scale_kernel"]["against"]
    (output,) = compared["outputs"]
    assert (output["name"], output["state"], output["beyond"]) == ("out_ptr", "differs", 1000)
    assert output["worst"] == pytest.approx(6, rel=1e-3)


def test_a_program_that_was_never_profiled_is_told_what_to_do(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    done = ridgeline(tmp_path, "bench", "own.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "profile the program that launches them first" in done.stderr
