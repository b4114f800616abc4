"""Trial launches of an autotuner apart from the real one, with frames and without; stacks kept with ops."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from attribution_build import attributed
from ridgeline.attribution import attribute
from ridgeline.sidecar import Sidecar, Timeline
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
from trace_build import Json, call, frame, kernel, op, write

BASE_NS = 1_700_000_000_000_000_000


def tuned(trials: int, *, clears: bool = True) -> list[Json]:
    """A benchmark of ``trials`` launches in two configurations, a buffer cleared before each, and the real launch."""
    events: list[Json] = []
    for i in range(trials + 1):
        t = 100.0 + 50 * i
        if i < trials and clears:
            events += [
                op(t, 8, "aten::zero_", ext=1000 + i),
                call(t + 2, 2, corr=1000 + i, ext=1000 + i),
                kernel(t + 5, 4, "void fill", corr=1000 + i, ext=1000 + i),
            ]
        events += [
            call(t + 20, 2, "cuLaunchKernelEx", corr=i + 1, cat="cuda_driver"),
            kernel(t + 30, 3 if i < trials else 7, "mine", corr=i + 1, grid=[64 << (i % 2), 1, 1], block=[128, 1, 1]),
        ]
    return events


def timeline(folder: Path, source: Path, line: int) -> Sidecar:
    data = array("q", [BASE_NS]).tobytes() + array("i", [line]).tobytes() + array("i", [0]).tobytes()
    (folder / "timeline.bin").write_bytes(data)
    codes = [[str(source), 1, "main"]]
    return Sidecar(user_roots=[str(folder)], timeline=Timeline(file="timeline.bin", codes=codes, threads=[[100, 0, 1]]))


def run(folder: Path, events: list[Json]) -> dict[str, list[float]]:
    """Reason or line -> times of the launches of ``mine``."""
    source = folder / "t.py"
    source.write_text("def main(x):\n    mine[grid](x)\n")
    trace = read_trace(write(folder, events, baseTimeNanoseconds=BASE_NS))
    work = work_table(trace)
    result = attribute(trace, work, sidecar=timeline(folder, source, 2), run_dir=folder)
    found: dict[str, list[float]] = {}
    for row in range(len(work.start)):
        if trace.strings[int(work.name[row])] != "mine":
            continue
        at = int(result.source[row])
        key = f"line {result.sources[at][0].line}" if at >= 0 else result.reasons[int(result.reason[row])]
        found.setdefault(key, []).append(float(work.time[row]))
    return found


def test_a_benchmark_shows_in_its_shape(tmp_path: Path) -> None:
    assert run(tmp_path, tuned(20)) == {"trial launches of an autotuner": [3.0] * 20, "line 2": [7.0]}


@pytest.mark.parametrize("events", [tuned(20, clears=False), tuned(5)])
def test_a_plain_loop_is_none(tmp_path: Path, events: list[Json]) -> None:
    assert set(run(tmp_path, events)) == {"line 2"}


def test_a_benchmark_by_its_frames(tmp_path: Path) -> None:
    one = attributed(
        tmp_path,
        frame(0, 500, "run.py(1): main", id=1),
        frame(10, 300, "triton/testing.py(96): do_bench", id=2, parent=1),
        call(20, 2, "cuLaunchKernelEx", corr=1, cat="cuda_driver"),
        kernel(30, 3, "mine", corr=1),
        call(400, 2, "cuLaunchKernelEx", corr=2, cat="cuda_driver"),
        kernel(410, 7, "mine", corr=2),
    )
    assert one.reason(0) == "trial launches of an autotuner"
    assert one.symbol(0) != one.symbol(1), "trials are a row of their own"
    assert [ref.file for ref in one.refs(1)] == ["run.py"]


def test_stacks_of_2021_name_statements(tmp_path: Path) -> None:
    stack = "/x/lib/python3.7/site-packages/torch/nn/functional.py(2263): batch_norm;model.py(31): forward;train.py(46): <module>"
    one = attributed(
        tmp_path,
        op(0, 10, "aten::batch_norm", ext=1, **{"Call stack": stack, "Sequence number": 4, "Fwd thread id": 0}),
        op(2, 6, "aten::cudnn_batch_norm", ext=2),
        call(4, 2, corr=1, ext=2),
        kernel(20, 5, "bn", corr=1, ext=2),
        op(100, 10, "CudnnBatchNormBackward", ext=3, tid=2, **{"Sequence number": 4, "Fwd thread id": 1}),
        call(104, 2, corr=2, ext=3, tid=2),
        kernel(120, 9, "bn_backward", corr=2, ext=3),
    )
    (line,), rest = one.lines()
    assert (line.file, line.line, line.granularity) == ("model.py", 31, "statement")
    assert (line.phase.forward_us, line.phase.backward_us, rest.device_us) == (5, 9, 0)
    assert [(f.file, f.line) for f in one.refs(0)[0].stack] == [("train.py", 46), ("model.py", 31)]


def test_without_the_module_the_kernel_file_is_still_named(tmp_path: Path) -> None:
    one = attributed(
        tmp_path,
        op(
            0,
            10,
            "triton_poi_fused_add_relu_0",
            ext=1,
            kernel_file="/tmp/torchinductor_me/ab/cabc.py",
            kernel_backend="triton",
        ),
        call(4, 2, "cuLaunchKernel", corr=1, ext=1, cat="cuda_driver"),
        kernel(20, 5, "triton_poi_fused_add_relu_0", corr=1, ext=1),
    )
    site = one.result.sites[int(one.result.site[0])]
    assert (site.module, site.kernel_file) == (None, "/tmp/torchinductor_me/ab/cabc.py")
    assert one.result.aten[int(one.result.aten_set[0])] == ("add", "relu")
