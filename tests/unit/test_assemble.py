"""Rows of the document from tables: categories, exposure, operators, ranges."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ridgeline.analysis import analyze_paths
from ridgeline.assemble.categories import bare, classify
from ridgeline.assemble.exposure import _alone
from ridgeline.assemble.recorded import charge_profiler, cpu_wait_pct, still_attached
from ridgeline.assemble.roof import _KernelSources
from ridgeline.profile import Category, Device, Idle, ProfileDocument, Quality, Source, Totals
from ridgeline.profile_io import UnreadableError
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Work

Event = dict[str, Any]


def trace(tmp_path: Path, *events: Event, **top: Any) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)}), encoding="utf-8")
    return path


def analyzed(tmp_path: Path, *events: Event, **top: Any) -> ProfileDocument:
    return analyze_paths([trace(tmp_path, *events, **top)])


def op(name: str, ts: float, dur: float, *, id: int = -1, tid: int = 1, **args: Any) -> Event:
    args = {"External id": id, **args}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(ts: float, correlation: int, *, id: int = -1, tid: int = 1, name: str = "cudaLaunchKernel") -> Event:
    args = {"External id": id, "correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": 2, "args": args}


def kernel(name: str, ts: float, dur: float, correlation: int = 0, *, stream: int = 7, id: int = -1) -> Event:
    args = {
        "External id": id,
        "correlation": correlation,
        "device": 0,
        "stream": stream,
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
    }
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur, "args": args}


def label(name: str, ts: float, dur: float, tid: int = 1) -> Event:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": dur, "args": {}}


@pytest.mark.parametrize(
    ("symbol", "chain", "options", "category"),
    [
        ("triton_poi_fused_add_0", ["triton_poi_fused_add_0"], {"triton": True, "generated": True}, "pointwise"),
        ("triton_per_fused_sum_0", ["triton_per_fused_sum_0"], {"triton": True, "generated": True}, "persistent_reduction"),
        ("triton_red_fused_sum_0", [], {"generated": True}, "reduction"),
        ("triton_tem_fused_mm_0", ["triton_tem_fused_mm_0"], {"triton": True, "generated": True}, "template"),
        ("my_kernel", ["my_kernel"], {"triton": True}, "user_triton"),
        ("nvjet_sm90_tst_64x128", ["aten::mm", "aten::linear"], {}, "gemm"),
        ("nvjet_sm90_tst_64x128", [], {}, "gemm"),  # replayed by a CUDA graph: only the name is left
        ("sm90_xmma_fprop_implicit_gemm_bf16", ["aten::cudnn_convolution"], {}, "convolution"),
        ("flash_fwd_kernel", ["aten::_flash_attention_forward"], {}, "attention"),
        ("void multi_tensor_apply_kernel<…>", ["aten::_foreach_add_"], {}, "foreach"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", ["c10d::allreduce_"], {}, "communication"),
        ("void at::native::vectorized_elementwise_kernel<4>", ["aten::add"], {}, "pointwise"),
        ("void at::native::reduce_kernel<512>", ["aten::sum"], {}, "reduction"),
        ("something_else", ["mylib::op"], {}, "other"),
    ],
)  # fmt: skip
def test_categories(symbol: str, chain: list[str], options: dict[str, bool], category: Category) -> None:
    given = {"triton": False, "generated": False, **options}
    assert classify(symbol, chain, work=Work.KERNEL, on_cpu=False, **given) == category


def test_copies_are_copies_whatever_launched_them() -> None:
    for work, category in ((Work.MEMCPY, "memcpy"), (Work.MEMSET, "memset")):
        assert classify("Memcpy DtoD", ["aten::mm"], work=work, on_cpu=False, triton=False, generated=False) == category


def test_bare_names() -> None:
    assert [bare(n) for n in ("aten::add_", "aten::_softmax", "torch.ops.aten.sort.stable", "aten::_")] == [
        "add", "_softmax", "torch", "_",
    ]  # fmt: skip


def test_alone_is_what_no_other_covers() -> None:
    start, end = np.array([0.0, 5.0, 20.0]), np.array([10.0, 15.0, 30.0])
    assert _alone(start, end).tolist() == [5.0, 5.0, 10.0]
    assert _alone(np.array([0.0, 2.0]), np.array([10.0, 4.0])).tolist() == [8.0, 0.0]  # one inside the other
    assert _alone(np.array([0.0, 0.0]), np.array([10.0, 10.0])).tolist() == [0.0, 0.0]
    assert _alone(np.array([0.0, 10.0]), np.array([10.0, 12.0])).tolist() == [10.0, 2.0]  # touching


def test_a_kernel_hidden_behind_another_stream_is_not_exposed(tmp_path: Path) -> None:
    document = analyzed(
        tmp_path,
        label("ProfilerStep#1", 0, 100),
        launch(1, 1),
        launch(2, 2),
        kernel("long", 10, 50, 1),
        kernel("short", 20, 10, 2, stream=8),
    )
    by_name = {k.name: k for k in document.kernels}
    assert by_name["long"].exposed_us == pytest.approx(40)
    assert by_name["short"].exposed_us == pytest.approx(0)
    assert by_name["short"].share_pct == pytest.approx(100 / 6)
    assert by_name["long"].step_share_pct == pytest.approx(40)


def test_wrappers_own_nothing_and_totals_count_once(tmp_path: Path) -> None:
    """aten::conv2d > convolution > _convolution > cudnn_convolution, one kernel of 12 from the innermost."""
    names = ["aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"]
    ops = [op(name, i, 40 - 2 * i, id=i + 1) for i, name in enumerate(names)]
    document = analyzed(tmp_path, *ops, launch(10, 5, id=4), kernel("k", 50, 12, 5, id=4))
    rows = {o.name: o for o in document.ops}
    assert rows["aten::cudnn_convolution"].self_device_us == 12
    for name in names[:3]:
        assert rows[name].self_device_us == 0
        assert rows[name].device_us == 12
    assert document.totals.self_device_us == 12


def test_recursion_counts_once(tmp_path: Path) -> None:
    spans = [(145.754, 181.037), (254.555, 65.897), (270.849, 43.354), (284.779, 20.751)]
    document = analyzed(tmp_path, op("aten::add", 0, 1), *(label("rec", *span) for span in spans))
    (row,) = document.ranges
    assert row.count == 4
    assert row.wall_us == pytest.approx(181.037)


def test_labels_of_torch_are_not_the_users(tmp_path: Path) -> None:
    document = analyzed(
        tmp_path,
        op("aten::add", 0, 1),
        label("ProfilerStep#3", 0, 10),
        label("Optimizer.step#AdamW.step", 1, 2),
        label("my block", 3, 4),
    )
    assert [r.name for r in document.ranges] == ["my block"]


def test_a_label_owns_what_was_launched_inside_it(tmp_path: Path) -> None:
    document = analyzed(
        tmp_path, label("block", 0, 20), launch(5, 1), launch(25, 2), kernel("in", 100, 7, 1), kernel("out", 110, 3, 2)
    )
    (row,) = document.ranges
    assert row.device_us == 7


def test_ids_do_not_hold_paths_of_caches(tmp_path: Path) -> None:
    def run(cache: str) -> list[str]:
        args = {"kernel_file": f"{cache}/ab/cabc.py", "kernel_backend": "triton", "num_warps": 4}
        events = (
            op("triton_poi_fused_add_0", 0, 5, id=1, **args), launch(1, 1, id=1), kernel("triton_poi_fused_add_0", 10, 3, 1, id=1)
        )  # fmt: skip
        return [k.id for k in analyzed(tmp_path, *events).kernels]

    assert run("/tmp/torchinductor_a") == run("/tmp/torchinductor_b")


def test_select_steps(tmp_path: Path) -> None:
    events = [
        e
        for i in range(3)
        for e in (
            label(f"ProfilerStep#{i}", 100 * i, 90),
            launch(100 * i + 1, i + 1),
            kernel("k", 100 * i + 10, 5, i + 1),
        )
    ]
    path = trace(tmp_path, *events)
    assert analyze_paths([path], select_steps=(1, 3)).source.steps == 2
    with pytest.raises(UnreadableError, match="3 steps"):
        analyze_paths([path], select_steps=(2, 9))


def test_a_folder_of_tensorboards_handler(tmp_path: Path) -> None:
    logs = tmp_path / "log"
    logs.mkdir()
    data = trace(tmp_path, launch(1, 1), kernel("k", 10, 5, 1)).read_bytes()
    (logs / "host_1.1700000000000.pt.trace.json.gz").write_bytes(gzip.compress(data))
    (logs / "events.out.tfevents").write_bytes(b"x")
    newer = trace(tmp_path, launch(1, 1), kernel("k", 10, 6, 1)).read_bytes()
    (logs / "host_1.1700000009999.pt.trace.json.gz").write_bytes(gzip.compress(newer))
    document = analyze_paths([logs])
    assert document.kernels[0].total_us == 6, (
        "the newest window of the worker, not one after another as if they were ranks"
    )
    assert document.source.ranks is None


def test_the_straggler_is_the_rank_that_waits_least(tmp_path: Path) -> None:
    """Rank 0 all-reduces 100-200, rank 1 180-200, rank 2 150-200: transfer 20, waits 80, 0, 30; rank 1 came last."""
    paths = []
    for rank, start in enumerate((100, 180, 150)):
        folder = tmp_path / str(rank)
        folder.mkdir()
        events = (
            label("ProfilerStep#1", 0, 300),
            launch(1, 1),
            kernel("ncclDevKernel_AllReduce_Sum", start, 200 - start, 1),
        )
        paths.append(trace(folder, *events, distributedInfo={"rank": rank, "world_size": 3}))
    document = analyze_paths(paths)
    assert document.source.ranks == [0, 1, 2]
    (found,) = [f for f in document.findings if f.code == "rank-straggler"]
    assert found.title == "Rank 1 is waited for"
    assert found.evidence["transfer_us"] == 20
    assert found.evidence["wait_us_by_rank"] == {"0": 80, "1": 0, "2": 30}
    assert found.saving_us is None


def test_a_folder_of_ranks_is_shown_without_those_that_were_cut_off(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in (1, 3):
        folder = tmp_path / str(rank)
        folder.mkdir()
        made = trace(folder, launch(1, 1), kernel("k", 10, 5, 1), distributedInfo={"rank": rank, "world_size": 5})
        made.rename(logs / f"host_{rank}.1.pt.trace.json")
    (logs / "host_0.1.pt.trace.json.gz").write_bytes(b"\x1f\x8b\x08")  # The first of all,
    (logs / "host_2.1.pt.trace.json").write_bytes(b"")  # and one among the others.
    document = analyze_paths([logs])
    assert document.source.ranks == [1, 3]
    said = [warning.message for warning in document.quality.warnings]
    assert any("host_0" in words for words in said)
    assert any("host_2" in words for words in said)
    assert any(words.startswith("ranks 0, 2, 4 of 5 not among") for words in said)
    with pytest.raises(UnreadableError, match="host_2"):  # Named one by one, each is meant.
        analyze_paths(sorted(logs.glob("*.json")))


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.json", b""), ("text.json", b"hello"), ("list.json", b"[1, 2"), ("bad.json.gz", b"\x1f\x8b\x08")],
)
def test_what_is_no_trace_is_one_clear_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableError) as caught:
        analyze_paths([tmp_path / name])
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not exist"):
        analyze_paths([tmp_path / "nothing.json"])


@pytest.mark.parametrize(
    ("ran", "waited", "percent"),
    [(75, 25, 25.0), (100, 0, 0.0), (0, 0, None), (None, None, None)],
)
def test_waiting_for_a_core_is_part_of_the_time_that_threads_wanted_one(
    ran: int | None, waited: int | None, percent: float | None
) -> None:
    window = Window(trace="trace.json.gz", reason="stable", ran_ns=ran, waited_ns=waited)
    assert cpu_wait_pct(window) == percent
    assert cpu_wait_pct(None) is None


def test_the_chosen_configuration_is_found_by_the_kernels_file_wherever_its_folder_lies() -> None:
    attribution: Any = SimpleNamespace(
        site=np.array([-1, 0]), sites=[SimpleNamespace(kernel_file="/snapshots/ckernel.py")]
    )
    sources = _KernelSources(attribution, {"/tmp/torchinductor_me/ck/ckernel.py": {"XBLOCK": 8}})
    assert sources.configuration(1, None) == {"XBLOCK": 8}
    assert sources.configuration(0, "/elsewhere/ckernel.py") == {"XBLOCK": 8}
    assert sources.configuration(0, "/elsewhere/other.py") is None
    assert sources.configuration(0, None) is None


@pytest.mark.parametrize(
    ("plain", "profiled", "busy", "launch", "other", "profiler"),
    [
        (100.0, 100.0, 0.0, 300.0, 100.0, 20.0),  # not slowed: nothing moves
        (100.0, 122.0, 0.0, 150.0, 50.0, 220.0),  # 22 us a step, 220 in all, 20 of them seen
        (100.0, 900.0, 0.0, 0.0, 0.0, 420.0),  # no more than there is
        (10.0, 122.0, 1000.0, 150.0, 50.0, 220.0),  # a plain step lasts as long as the device works in it
        (None, 122.0, 0.0, 300.0, 100.0, 20.0),
    ],
)
def test_what_a_recorded_step_takes_longer_is_the_profilers(
    plain: float | None, profiled: float, busy: float, launch: float, other: float, profiler: float
) -> None:
    idle = Idle(launch=300.0, other=100.0, profiler=20.0, loader=50.0)
    found = charge_profiler(idle, Totals(plain_step_us=plain, profiled_step_us=profiled), 10, busy)
    assert (found.launch, found.other, found.profiler, found.loader) == pytest.approx((launch, other, profiler, 50.0))
    assert charge_profiler(idle, Totals(plain_step_us=plain, profiled_step_us=profiled), None, busy) == idle


@pytest.mark.parametrize(
    ("kind", "busy_us", "plain_us", "left", "told"),
    [
        ("cuda", 84.0, 10.0, None, True),
        ("cuda", 84.0, 10.0, False, True),
        ("cuda", 84.0, 10.0, True, False),  # the agent has detached it
        ("cuda", 86.0, 10.0, None, False),  # the device's work fills the step: no launch is waited for
        ("cuda", 84.0, None, None, False),
        ("cpu", 10.0, 10.0, None, False),
    ],
)
def test_plain_steps_that_wait_for_the_host_are_in_doubt(
    kind: str, busy_us: float, plain_us: float | None, left: bool | None, told: bool
) -> None:
    """CUPTI stays attached after a recording: ten steps of 10 us with that much device work in all."""
    document = ProfileDocument(source=Source(kind="run", path="train.py", steps=10), quality=Quality())
    document.devices = [Device(id=0, name="some device", kind=kind, busy_us=busy_us)]  # type: ignore[arg-type]
    document.totals = Totals(plain_step_us=plain_us)
    said = still_attached(document, Sidecar(cupti_left=left))
    assert (said is not None) == told
    assert said is None or "144455" in said
    kept = still_attached(document, Sidecar(cupti_left=left, cupti_kept="the program uses CUDA graphs"))
    assert kept is None or "still attached (the program uses CUDA graphs), which" in kept
