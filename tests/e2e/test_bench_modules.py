"""``ridgeline bench`` on modules that Inductor of the installed torch writes, on the CPU."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MAKER = """
import sys, torch
from pathlib import Path
from torch._inductor.utils import run_and_get_code

out = Path(sys.argv[1])
torch._dynamo.config.capture_dynamic_output_shape_ops = True

def write(name, run):
    _, codes = run_and_get_code(run)
    for number, code in enumerate(codes):
        (out / f"c{name}{number}.py").write_text(code)

table, layer = torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 64)
def look_up(index):
    return torch.softmax(layer(table(index)), -1).sum(1)
write("gather", lambda: torch.compile(look_up)(torch.randint(0, 1000, (32, 16))).sum().backward())

def unbacked(x):
    return x.nonzero().float().cos().sum()
write("unbacked", lambda: torch.compile(unbacked)(torch.ones(64, dtype=torch.int64)))

@torch.library.custom_op("ridgelinetest::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
twice.register_fake(lambda x: torch.empty_like(x))
def around(x):
    return torch.cos(torch.ops.ridgelinetest.twice(torch.sin(x)))
write("custom", lambda: torch.compile(around)(torch.randn(64, 64)))

def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() * 3, (x,))
write("branch", lambda: torch.compile(chosen)(torch.ones(4000)))

def frozen():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU()).eval()
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        torch.compile(model)(torch.randn(32, 64))
write("frozen", frozen)

def widened(x):
    return x.float() + 1
write("fp8", lambda: torch.compile(widened)(torch.randn(16, 32).to(torch.float8_e4m3fn)))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    subprocess.run([sys.executable, "-c", MAKER, str(folder)], check=True, timeout=400, capture_output=True)
    return folder


def command(file: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ridgeline.cli", "bench", str(file), "--python", sys.executable, *arguments]


def bench(file: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any] | None, str]:
    done = subprocess.run(
        command(file, "--format", "json", *arguments),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def measured(document: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    assert document is not None
    return {kernel["name"]: kernel for kernel in document["kernels"]}


def test_every_kernel_of_forward_and_backward_has_cold_and_warm_times(made: Path) -> None:
    for name, kind in (("cgather0.py", "forward"), ("cgather1.py", "backward")):
        before = (made / name).read_bytes()
        status, document, err = bench(made / name)
        assert status == 0, err
        assert document is not None
        assert document["module_kind"] == kind
        for kernel in measured(document).values():
            assert kernel["problem"] is None
            assert kernel["arguments"] == "as in the module's run"
            for cache in ("warm", "cold"):
                timing = kernel[cache]
                assert timing["cache"] == cache
                assert timing["samples"] >= 3
                assert 0 < timing["min_us"] <= timing["median_us"]
                assert timing["gb_per_s"] == pytest.approx(kernel["gb"] / timing["median_us"] * 1e6)
            # A warm sample is a block of calls, so that the clock's own step is no part of it.
            warm = kernel["warm"]
            assert warm["calls_per_sample"] * warm["median_us"] > 500
            assert kernel["cold"]["calls_per_sample"] == 1
        assert (made / name).read_bytes() == before


def test_a_gather_is_measured_on_indices_in_range_and_its_rate_is_a_bound(made: Path) -> None:
    _, document, _ = bench(made / "cgather0.py", "--warm-cache", "--kernel", "cpp_fused_embedding_0")
    (kernel,) = measured(document).values()
    assert kernel["problem"] is None
    assert kernel["cold"] is None
    assert any("upper bound" in note for note in kernel["notes"])


def test_both_branches_and_frozen_weights_are_measured(made: Path) -> None:
    """A branch that the run does not take, on arguments from the text; weights that a run of the program held."""
    status, document, err = bench(made / "cbranch0.py", "--warm-cache")
    assert status == 0, err
    kernels = measured(document).values()
    assert len(kernels) == 3
    assert all(kernel["problem"] is None and kernel["gb"] > 0 for kernel in kernels)
    origins = sorted(kernel["arguments"] for kernel in kernels)
    assert origins == ["as in the module's run"] * 2 + ["made from the text of the file"]
    status, document, err = bench(made / "cfrozen0.py", "--warm-cache")
    assert status == 0, err
    (kernel,) = measured(document).values()
    assert kernel["problem"] is None
    assert document is not None
    assert document["notes"] == []


def test_an_empty_run_gives_no_rate_until_the_size_is_given(made: Path) -> None:
    """UP-61."""
    status, document, err = bench(made / "cunbacked0.py", "--warm-cache")
    (kernel,) = measured(document).values()
    assert kernel["problem"].startswith("unbacked size u0 = 0 in the harness: timing not meaningful; give a value")
    assert kernel["warm"] is None
    assert kernel["gb"] is None
    assert status == 1
    assert "nothing could be measured: unbacked size u0 = 0" in err
    status, document, err = bench(made / "cunbacked0.py", "--warm-cache", "--size", "u0=4096")
    assert status == 0, err
    (kernel,) = measured(document).values()
    assert kernel["warm"]["gb_per_s"] > 0
    assert kernel["gb"] == pytest.approx((4096 * 8 + 4) / 1e9)


def test_kernels_around_an_op_that_nobody_registered(made: Path) -> None:
    """UP-60: in this process nothing registers ``ridgelinetest::twice``."""
    file = made / "ccustom0.py"
    line = next(n for n, row in enumerate(file.read_text().splitlines(), 1) if "ops.ridgelinetest.twice" in row)
    status, document, err = bench(file, "--warm-cache")
    assert status == 0, err
    assert "Traceback" not in err
    assert document is not None
    said = f"line {line}: op ridgelinetest.twice not registered: import the module that defines it"
    assert said in document["notes"]
    kernels = measured(document)
    assert len(kernels) == 2
    assert all(kernel["warm"]["median_us"] > 0 for kernel in kernels.values())
    assert {kernel["arguments"] for kernel in kernels.values()} == {
        "as in the module's run",
        "made from the text of the file",
    }


def test_fp8_inputs_are_made_where_the_harness_cannot(made: Path, tmp_path: Path) -> None:
    """UP-63: ``rand_strided`` of a torch that cannot fill fp8."""
    file = tmp_path / "cfp8.py"
    refusing = "import torch._dynamo.testing as _t\ndef _no(*a, **k): raise RuntimeError('normal kernel')\n_t.rand_strided = _no\n"
    text = (made / "cfp80.py").read_text()
    file.write_text(text.replace("async_compile = AsyncCompile()\n", f"async_compile = AsyncCompile()\n{refusing}", 1))
    status, document, err = bench(file, "--warm-cache")
    assert status == 0, err
    (kernel,) = measured(document).values()
    assert kernel["warm"]["median_us"] > 0
    assert kernel["gb"] == pytest.approx((512 + 4 * 512) / 1e9)


@pytest.mark.parametrize("fault", ["unquoted", "braces", "do_bench", "absent"])
def test_the_kernels_of_a_module_with_a_broken_harness(made: Path, tmp_path: Path, fault: str) -> None:
    """UP-64: benchmark works, with one precise note."""
    text = (made / "cgather0.py").read_text()
    head, tail = text.split("\n\ndef get_args():", 1)
    head, tail = head + "\n\n", "def get_args():" + tail
    broken = {
        "unquoted": head + tail.replace("'cpu'", "cpu:0"),
        "braces": head + re.sub(r"rand_strided\(\(([^)]*)\)", r"rand_strided({\1}", tail),
        "do_bench": head + tail.replace("import print_performance", "import do_bench"),
        "absent": head,
    }[fault]
    file = tmp_path / "cbroken.py"
    file.write_text(broken)
    status, document, err = bench(file, "--warm-cache")
    assert status == 0, err
    assert document is not None
    assert len(document["notes"]) == 1, document["notes"]
    assert all(kernel["warm"]["median_us"] > 0 for kernel in measured(document).values())


def test_a_cache_folder_with_a_space_is_not_used(made: Path, tmp_path: Path) -> None:
    """UP-65: the compiler of Inductor's C++ would be given a split path."""
    spaced, temporary = tmp_path / "a b", tmp_path / "c d"
    temporary.mkdir()
    status, document, err = bench(
        made / "cunbacked0.py", "--warm-cache", "--size", "u0=64",
        env={"TORCHINDUCTOR_CACHE_DIR": str(spaced), "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert status == 0, err
    assert not spaced.exists()
    assert measured(document)


def test_a_search_leaves_the_users_caches_alone_and_says_what_has_none(made: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    env = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache)}
    status, document, err = bench(
        made / "cunbacked0.py", "--warm-cache", "--size", "u0=64", "--autotune", "verify", env=env
    )
    assert status == 0, err
    (kernel,) = measured(document).values()
    assert kernel["autotune"]["state"] == "not_applicable"
    assert kernel["autotune"]["sentence"] == "a C++ kernel has no configurations to search"
    assert list(cache.iterdir()) == []


def test_what_does_not_fit_the_time_is_named(made: Path) -> None:
    status, document, err = bench(made / "cgather1.py", "--timeout", "1")
    late = [k["name"] for k in measured(document).values() if (k["problem"] or "").startswith("not measured: the time")]
    assert late, (status, err)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_an_interrupt_ends_it_with_130(made: Path) -> None:
    child = subprocess.Popen(
        command(made / "cgather1.py"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell without job control has what it starts in the background ignore interrupts, and so would all below it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not any(b"inside/main.py" in Path(f"/proc/{one}/cmdline").read_bytes() for one in children(child.pid)):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGINT)  # the measuring process is there, and far from done
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130, err


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in text.split()]


def test_the_text_says_cold_and_warm(made: Path) -> None:
    env = {**os.environ, "COLUMNS": "140"}
    done = subprocess.run(
        command(made / "cgather0.py"), capture_output=True, text=True, timeout=300, check=True, env=env
    )
    assert re.search(r"cpp_fused_embedding_0 +\d+ +warm +[\d.]+ (ns|µs|ms)", done.stdout), done.stdout
    assert re.search(r"^ +cold +[\d.]+ (ns|µs|ms)", done.stdout, re.MULTILINE)
    assert "(forward)" in done.stdout


def test_an_edited_copy_is_measured_beside_its_original_and_its_outputs_compared(made: Path, tmp_path: Path) -> None:
    """The workbench: copy, edit, compare. One kernel is edited rightly, another wrongly; then one does not compile."""
    original, mine = made / "ccustom0.py", tmp_path / "mine.py"
    for status in (0, 2):  # the second time there may be edits in it
        done = subprocess.run(
            command(original, "--copy", str(mine)), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status
        assert f"--against {mine}" in done.stderr if status == 0 else "perhaps with edits" in done.stderr
        assert mine.read_text() == original.read_text()

    text = mine.read_text()
    assert text.count("tmp0.sin();") == text.count("tmp0.cos();") == 1
    mine.write_text(
        text.replace("tmp0.sin();", "tmp0.sin() + tmp0 - tmp0;").replace("tmp0.cos();", "tmp0.cos() + tmp0;")
    )
    status, document, err = bench(original, "--against", str(mine), "--warm-cache", "--atol", "1e-4")
    assert status == 1, err
    right, wrong = (kernel for name, kernel in sorted(measured(document).items(), key=lambda item: "cos" in item[0]))
    assert right["against"]["problem"] is wrong["against"]["problem"] is None
    assert (right["against"]["equal"], wrong["against"]["equal"]) == (True, False)
    assert [one["state"] for one in wrong["against"]["outputs"]] == ["differs"]
    for kernel in (right, wrong):
        compared = kernel["against"]["warm"]
        assert compared["state"] in ("faster", "slower", "same")
        assert compared["before_us"] > 0
        assert compared["after_us"] > 0
        assert kernel["warm"]["median_us"] > 0  # the original's own times stand

    mine.write_text(text.replace("tmp0.cos();", "tmp9.cos();"))
    status, document, err = bench(original, "--against", str(mine), "--warm-cache")
    assert status == 1
    (kernel,) = measured(document).values()
    line = next(n for n, row in enumerate(mine.read_text().splitlines(), 1) if "tmp9" in row)
    assert kernel["against"]["problem"].startswith(f"{mine}, line {line}: "), kernel["against"]


def test_a_copy_in_which_nothing_of_a_module_was_edited_is_one_line(made: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text((made / "cgather1.py").read_text())
    status, document, err = bench(made / "cgather1.py", "--against", str(mine))
    assert (status, document) == (2, None)
    assert len(err.strip().splitlines()) == 1
    assert "edit one" in err


def test_a_script_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('hello')\n")
    for file in (script, tmp_path / "none.py"):
        status, document, err = bench(file)
        assert status == 2
        assert document is None
        assert len(err.strip().splitlines()) == 1
