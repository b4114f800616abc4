"""The device script rehearsed on the CPU, and what its lines from an H200 must show once they are frozen."""

from __future__ import annotations

import gzip
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bench_device

FROZEN = Path(__file__).parent / "data" / "bench_h200"

MODULE = """# AOT ID: ['0_inference']
import os
import torch
from torch._inductor.async_compile import AsyncCompile
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
async_compile = AsyncCompile()


cpp_fused_twice_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r\'\'\'
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
    for(int64_t x0=0; x0<4096; x0+=1) out_ptr0[x0] = in_ptr0[x0] * 2;
}
\'\'\')


async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    args.clear()
    assert_size_stride(arg0_1, (4096, ), (1, ))
    buf0 = empty_strided_cpu((4096, ), (1, ), torch.float32)
    cpp_fused_twice_0(arg0_1, buf0)
    return (buf0, )


def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((4096, ), (1, ), device='cpu', dtype=torch.float32)
    return [arg0_1]
"""
DIES = MODULE.replace("async_compile = AsyncCompile()", "os.abort()\nasync_compile = AsyncCompile()")
DAMAGED = MODULE.replace("import torch\n", "import torch\nimport no_such_module\n", 1)


def packed(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    with tarfile.open(folder / "generated.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"torchinductor_user/ab/{name}.py")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.torch
def test_the_script_measures_flushes_survives_and_resumes(tmp_path: Path) -> None:
    """On the CPU: a module that can be measured, one that kills the process, one that cannot be loaded."""
    packed(tmp_path / "corpus" / "small", {"ca_dies": DIES, "cb_good": MODULE, "cc_damaged": DAMAGED})
    out = tmp_path / "out"
    command = [sys.executable, bench_device.__file__, str(tmp_path / "corpus"), str(out), "--workloads", "small"]
    command += ["--no-verify"]
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ:
        command += ["--caches", os.environ["TORCHINDUCTOR_CACHE_DIR"]]
    none = subprocess.run([*command, "--budget", "0"], capture_output=True, text=True, timeout=60, check=False)
    assert (none.returncode, bench_device.lines(out)) == (3, [])  # nothing measured, and it says so
    done = subprocess.run([*command, "--budget", "400"], capture_output=True, text=True, timeout=500, check=False)
    rows = {row["file"] if "file" in row else row["id"].split("/")[1]: row for row in bench_device.lines(out)}
    assert done.returncode == 0, done.stderr
    assert set(rows) == {"ca_dies", "cb_good", "cc_damaged"}
    assert rows["ca_dies"]["error"] == "the process ended with status -6"
    assert "no_such_module" in rows["cc_damaged"]["error"]
    (kernel,) = rows["cb_good"]["kernels"]
    assert kernel["problem"] is None
    assert kernel["cold"]["min_us"] > 0
    assert kernel["warm"]["median_us"] > 0
    assert "3 of 3 files measured" in (out / "summary.txt").read_text()
    before = (out / "bench.jsonl").read_text()
    with (out / "bench.jsonl").open("a") as stream:
        stream.write('{"id": "small/cut off')  # as a machine that was taken away leaves it
    again = subprocess.run([*command, "--budget", "60"], capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0
    assert (out / "bench.jsonl").read_text().startswith(before)
    assert len(bench_device.lines(out)) == 3


def test_files_with_the_largest_gain_come_first(corpus: Path) -> None:
    found = bench_device.tasks(corpus, bench_device.WORKLOADS, ["kernels", "modules"])
    kinds = [task["kind"] for task in found]
    assert kinds == sorted(kinds)  # every kernel's own file, then the modules
    gains = [bench_device._gain(task["expected"]) for task in found if task["kind"] == "kernel"]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == pytest.approx(1.65, abs=0.01)
    assert kinds.count("module") == 4
    longest = bench_device.tasks(corpus, bench_device.WORKLOADS, ["kernels"], verify=False)
    times = [bench_device._length(task["expected"]) for task in longest]
    assert times == sorted(times, reverse=True)
    assert times[0] > 0.1
    assert not any(task["verify"] for task in longest)
    assert all(task["expected"] for task in found if task["kind"] == "kernel")
    for task in found:  # every one can be asked for
        read = bench_device.plan.read(task["text"], "x.py")
        asked = bench_device.document.request(read, path="/t/x.py", caches=["cold"], timeout_s=1, verify=True)
        assert asked["cuda"]
        if task["kind"] == "kernel":
            assert asked["kernels"][0]["sites"][0]["problem"] is None
            assert asked["kernels"][0]["search"]


def row(
    ours: float, theirs: float, *, before: float = 20.0, after: float = 20.0, state: str = "no_gain"
) -> dict[str, Any]:
    tuned = {"state": state, "before_us": before, "after_us": after, "speedup": before / after, "spread": 0.01}
    kernel = {
        "name": "k",
        "cold": {"min_us": ours, "median_us": ours},
        "inductor_us": theirs,
        "autotune": tuned,
        "problem": None,
    }
    expected = {"default": {"ms": 0.020, "spread": 0.01}, "cd": {"ms": 0.0125, "spread": 0.01}}
    return {"id": "w/f", "kernels": [kernel], "expected": expected, "error": None}


def test_the_summary_counts_what_agrees_and_names_what_does_not() -> None:
    rows = [row(100.0, 101.0), row(100.0, 110.0), row(4.0, 6.0), row(50, 50, before=20, after=12.4, state="verified")]
    said = "\n".join(bench_device.summary(rows))
    assert "within 2% of Inductor's harness: 2 of 3 kernels" in said
    assert "w/f k: 100.00 us against 110.00" in said
    assert "shorter ones: 1, ours no longer than theirs + 2% in 1" in said
    assert "1.60, 1.61 verified" in said


def frozen(name: str) -> list[dict[str, Any]]:
    """Lines from an H200."""
    path = FROZEN / name
    if not path.is_file():
        pytest.skip(f"no {name} from a device yet: run tests/golden/bench_device.py there and freeze its bench.jsonl")
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


@pytest.mark.parametrize(
    ("name", "kernels", "modules"),
    [("search.jsonl.gz", 64, 4), ("times.jsonl.gz", 48, 0), ("search_again.jsonl.gz", 6, 0)],
)
def test_every_kernel_was_measured_on_the_device(name: str, kernels: int, modules: int) -> None:
    """The later two as far as the time on the device went: the longest kernels, and those with the largest gains."""
    rows = frozen(name)
    assert len([row for row in rows if row.get("kind") == "kernel"]) == kernels
    assert len([row for row in rows if row.get("kind") == "module"]) == modules
    assert [row["id"] for row in rows if row["error"] or any(kernel["problem"] for kernel in row["kernels"])] == []


def test_times_agree_with_inductors_own_harness() -> None:
    """On the same device in the same run: 2 %, but for two of 34 kernels; and no short kernel is longer here than there.

    What is compared is the fastest of 300 samples, for Inductor's benchmarker tells no other: of a kernel whose fastest
    sample is an outlier (18.3 us, a median of 20.0) that is the outlier's distance.
    """
    apart = bench_device.against_inductor(frozen("times.jsonl.gz"))
    assert len(apart) == 48
    long = [(name, ours / theirs - 1) for name, ours, theirs in apart if theirs >= bench_device.LONG_US]
    assert len(long) == 34
    assert len([name for name, part in long if abs(part) > bench_device.CLOSE]) == 2
    assert max(abs(part) for _, part in long) < 0.05
    assert statistics.median(abs(part) for _, part in long) < 0.005
    short = [one for one in apart if one[2] < bench_device.LONG_US]
    assert [(n, a, b) for n, a, b in short if a > b * (1 + bench_device.CLOSE) + bench_device.STEP_US] == []


def test_samples_in_a_row_are_without_the_offset_of_samples_apart() -> None:
    """What the clock's method rests on: the median difference from Inductor's times, of the same kernels, both ways."""

    def offset(name: str, kernels: set[str]) -> float:
        found = [(n, ours - theirs) for n, ours, theirs in bench_device.against_inductor(frozen(name)) if n in kernels]
        assert len(found) == len(kernels)
        return statistics.median(us for _, us in found)

    both = {name for name, _, _ in bench_device.against_inductor(frozen("times.jsonl.gz"))}
    assert offset("search.jsonl.gz", both) == pytest.approx(0.35, abs=0.05)
    assert abs(offset("times.jsonl.gz", both)) < 0.1


@pytest.mark.parametrize("name", ["search.jsonl.gz", "search_again.jsonl.gz"])
def test_gains_are_found_within_ten_per_cent(name: str) -> None:
    """Of what an earlier search measured beyond its spread, or more than it found."""
    real = [one for one in bench_device.against_search(frozen(name)) if one[2] - 1 > one[3]]
    assert len(real) >= 6
    assert [(n, v["state"], v["speedup"], gain) for n, v, gain, _ in real if v["speedup"] < 0.9 * gain] == []
    best, verdict, gain, _ = max(real, key=lambda one: one[2])
    assert "triton_red_fused__to_copy_add_native_layer_norm" in best
    assert (verdict["state"], gain) == ("verified", pytest.approx(1.65, abs=0.01))
    assert verdict["speedup"] > 1.5


def test_nothing_slower_is_recommended() -> None:
    searched = bench_device.against_search(frozen("search.jsonl.gz"))
    assert len(searched) == 64
    verified = [v for _, v, _, _ in searched if v["state"] == "verified"]
    assert len(verified) == 17
    assert sum("max_autotune" not in v["remedy"] for v in verified) == 14  # coordinate descent alone
    for name, verdict, _, _ in searched:
        if verdict["state"] == "verified":
            assert verdict["after_us"] * 1.05 < verdict["before_us"], name
            assert verdict["compile_s"] > 0
        else:
            assert verdict["remedy"] is None, name


def test_a_slower_choice_was_met_and_not_recommended() -> None:
    """The searches do pick slower configurations on a device: the figures of both are kept."""
    searched = bench_device.against_search(frozen("search.jsonl.gz"))
    slower = [(name, v) for name, v, _, _ in searched if any(one["speedup"] < 0.97 for one in v["searches"])]
    assert slower
    assert min(one["speedup"] for _, v in slower for one in v["searches"]) == pytest.approx(0.93, abs=0.005)
    assert all(v["state"] == "no_gain" or v["speedup"] > 1.05 for _, v in slower)
