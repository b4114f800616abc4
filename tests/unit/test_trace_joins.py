"""Who launched what: kernels, calls, operators, ranges, frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ridgeline.trace.frames import is_notebook_cell, parse_frame, without_address
from ridgeline.trace.kinds import call_of
from ridgeline.trace.ranges import range_totals, self_times
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Call, Trace, Work
from ridgeline.trace.work import work_table
from trace_build import built, call, codes, kernel, label, op


def op_names(trace: Trace) -> list[str | None]:
    return [trace.strings[trace.ops.name[row]] if row >= 0 else None for row in trace.device_events.op.tolist()]


def test_a_graph_launch_owns_all_kernels_of_its_replay(cases: Path) -> None:
    trace = read_trace(cases / "data/tl/inference/vllm_decode_full/graph_execution.json.gz")
    events = trace.device_events
    kernels = events.work == Work.KERNEL
    assert int(kernels.sum()) == 425
    replay = kernels & (events.correlation == 505113)
    assert int(replay.sum()) == 421
    assert events.dur[replay].sum() == pytest.approx(10_388.482, abs=1e-3)
    assert events.dur[kernels].sum() == pytest.approx(10_674.517, abs=1e-3)
    (launch,) = np.unique(events.call[replay])
    assert trace.strings[trace.calls.name[launch]] == "hipGraphLaunch"
    assert trace.calls.kind[launch] == Call.GRAPH_LAUNCH
    top = events.name == trace.strings.index("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1")
    assert (int(top.sum()), events.dur[top].sum()) == (24, pytest.approx(3_761.878, abs=1e-3))
    assert trace.quality.kernels_without_launch == 0


def test_graph_replays_of_the_corpus_are_linked(corpus: Path) -> None:
    trace = read_trace(corpus / "encoder_cudagraph" / "trace.json.gz")
    kinds = trace.calls.kind[trace.device_events.call]
    assert (trace.device_events.call >= 0).all()
    assert int((kinds == Call.GRAPH_LAUNCH).sum()) > 700
    assert trace.quality.launches_without_kernel == 0


def test_triton_launches_through_the_driver(tmp_path: Path, cases: Path) -> None:
    trace = built(
        tmp_path,
        op(0, 20, "triton_poi_fused_add_0", ext=3, kernel_file="/c/xx/k.py", kernel_backend="triton", num_warps=4),
        call(5, 3, "cuLaunchKernel", corr=35, ext=3, cat="cuda_driver"),
        kernel(30, 1.76, "triton_poi_fused_add_0", corr=35),
    )
    assert op_names(trace) == ["triton_poi_fused_add_0"]
    row = trace.ops.args[trace.device_events.op[0]]
    assert trace.op_args.triton[row] == {"kernel_file": "/c/xx/k.py", "kernel_backend": "triton", "num_warps": 4}

    bert = read_trace(cases / "data/tl/h100/gaunernst_bert-small-uncased__1016001.json.gz")
    kernels = bert.device_events.work == Work.KERNEL
    assert int(kernels.sum()) == 60
    assert (bert.device_events.call[kernels] >= 0).all()


def test_generic_kernel_names_keep_their_operators_apart(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        op(0, 10, "triton_poi_fused_add_cos_sin_0", ext=1, kernel_hash="aaa", kernel_file="/c/a.py"),
        call(2, 3, "cuLaunchKernel", corr=1, ext=1, cat="cuda_driver"),
        op(20, 10, "triton_poi_fused_mul_1", ext=2, kernel_hash="bbb", kernel_file="/c/b.py"),
        call(22, 3, "cuLaunchKernel", corr=2, ext=2, cat="cuda_driver"),
        kernel(40, 1, "triton__0d1d2d3", corr=1),
        kernel(50, 1, "triton__0d1d2d3", corr=2),
    )
    assert op_names(trace) == ["triton_poi_fused_add_cos_sin_0", "triton_poi_fused_mul_1"]


def test_sequence_numbers_come_with_their_forward_thread(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        op(0, 5, "aten::mm", tid=1, **{"Sequence number": 7}),
        op(10, 5, "MmBackward0", tid=2, ext=4, **{"Sequence number": 7, "Fwd thread id": 1}),
        op(20, 5, "MmBackward0", tid=2, **{"Sequence number": 7, "Fwd thread id": 3}),
    )
    assert trace.ops.sequence.tolist() == [7, 7, 7]
    assert trace.ops.forward_thread.tolist() == [-1, 1, 3]


def test_kernels_of_threads_that_were_not_recorded(tmp_path: Path) -> None:
    trace = built(
        tmp_path, op(0, 9, ext=1), call(2, corr=1, ext=1), kernel(10, 3, corr=1), kernel(20, 4, corr=99, ext=55)
    )
    assert op_names(trace) == ["aten::add", None]
    assert trace.quality.kernels_without_launch == 1
    assert work_table(trace).time.sum() == 7


def test_kernels_from_before_the_window(cases: Path) -> None:
    trace = read_trace(cases / "data/tl/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    linked = trace.device_events.call >= 0
    assert (int(linked.sum()), int((~linked).sum())) == (1198, 509)
    assert "(29.8 %): launched before recording began" in codes(trace)["kernels-without-launch"]
    resnet = read_trace(cases / "data/tl/mi300/resnet_act_checkpoint.json.gz")
    assert resnet.quality.kernels_without_launch == 968


def test_wrappers_own_nothing_of_what_they_launched(tmp_path: Path) -> None:
    names = ["aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"]
    nested = [op(n, 40 - 2 * n, name, ext=n + 1) for n, name in enumerate(names)]
    trace = built(tmp_path, *nested, call(10, corr=1, ext=4), kernel(30, 12, corr=1))
    assert op_names(trace) == ["aten::cudnn_convolution"]
    assert work_table(trace).time.sum() == 12
    parents = [trace.ops.parent[row] for row in range(4)]
    assert parents == [-1, 0, 1, 2]


def test_ids_that_say_nothing_give_way_to_time(tmp_path: Path) -> None:
    """Traces of 2022 write the correlation into External id; ids of several sessions repeat."""
    trace = built(
        tmp_path,
        op(0, 10, "aten::mul", ext=5),
        call(2, 3, corr=900, ext=900),
        kernel(20, 1, corr=900, ext=900),
        op(100, 10, "aten::add", ext=5),
        op(102, 6, "aten::copy_", ext=6),
        call(104, 1, corr=901, ext=6),
        kernel(120, 1, corr=901, ext=6),
        op(200, 10, "aten::sub", ext=6),
    )
    assert op_names(trace) == ["aten::mul", "aten::copy_"]


def test_repeated_correlations_take_the_latest_launch_before(tmp_path: Path) -> None:
    trace = built(tmp_path, call(0, 5, corr=1), call(100, 5, corr=1), call(101, 1, "cudaEventQuery", corr=1),
                  kernel(10, 2, corr=1), kernel(110, 2, corr=1))  # fmt: skip
    assert trace.device_events.call.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", Call.LAUNCH),
        ("cudaLaunchKernelExC", Call.LAUNCH),
        ("cuLaunchKernelEx", Call.LAUNCH),
        ("cudaLaunchCooperativeKernel", Call.LAUNCH),
        ("hipModuleLaunchKernel", Call.LAUNCH),
        ("hipExtModuleLaunchKernel", Call.LAUNCH),
        ("hipLaunchKernel", Call.LAUNCH),
        ("urEnqueueKernelLaunch", Call.LAUNCH),
        ("zeCommandListAppendLaunchKernel", Call.LAUNCH),
        ("runFunction - job_prep_and_submit_for_execution", Call.LAUNCH),
        ("cudaGraphLaunch", Call.GRAPH_LAUNCH),
        ("cuGraphLaunch", Call.GRAPH_LAUNCH),
        ("hipGraphLaunch", Call.GRAPH_LAUNCH),
        ("cudaMemcpyAsync", Call.MEMCPY),
        ("hipMemcpyWithStream", Call.MEMCPY),
        ("cuMemcpyDtoHAsync_v2", Call.MEMCPY),
        ("urEnqueueUSMMemcpy", Call.MEMCPY),
        ("cudaMemsetAsync", Call.MEMSET),
        ("cudaStreamSynchronize", Call.SYNC),
        ("cudaDeviceSynchronize", Call.SYNC),
        ("cudaEventSynchronize", Call.SYNC),
        ("hipStreamSynchronize", Call.SYNC),
        ("urEventWait", Call.SYNC),
        ("cudaStreamWaitEvent", Call.OTHER),
        ("hipStreamWaitEvent", Call.OTHER),
        ("cudaMalloc", Call.MALLOC),
        ("cudaFree", Call.MALLOC),
        ("cudaHostAlloc", Call.MALLOC),
        ("hipMalloc", Call.MALLOC),
        ("cudaEventQuery", Call.QUERY),
        ("cudaStreamIsCapturing", Call.QUERY),
        ("cudaFuncGetAttributes", Call.QUERY),
        ("cudaEventRecord", Call.OTHER),
    ],
)
def test_calls(name: str, kind: Call) -> None:
    assert call_of(name) is kind


def test_nested_ranges_count_once(tmp_path: Path) -> None:
    levels = [(145.754, 181.037), (254.555, 65.897), (270.849, 43.354), (284.779, 20.751)]
    trace = built(tmp_path, *[label(ts, dur, "rec") for ts, dur in levels])
    (total,) = range_totals(trace)
    assert total.inclusive == pytest.approx(181.037, abs=1e-6)
    assert total.calls == 4
    assert self_times(trace.ranges).tolist() == pytest.approx([115.140, 22.543, 22.603, 20.751], abs=1e-6)


def test_labels_that_could_not_be_exported_are_not_merged(tmp_path: Path) -> None:
    trace = built(tmp_path, label(0, 5, "unknown"), label(10, 7, "unknown"), label(20, 5, "mine"), label(30, 5, "mine"))
    rows = [(trace.strings[row.name], row.calls, row.inclusive) for row in range_totals(trace)]
    assert sorted(rows) == [("mine", 2, 10.0), ("unknown", 1, 5.0), ("unknown", 1, 7.0)]
    assert "labels-not-exportable" in codes(trace)


def test_steps_by_the_profiler_then_the_user_then_none(tmp_path: Path) -> None:
    marked = built(
        tmp_path, *[label(100 * n, 90, f"ProfilerStep#{n}") for n in (3, 4, 5, 9, 10)], label(0, 999, "epoch")
    )
    assert [step.name for step in marked.steps] == [f"ProfilerStep#{n}" for n in (3, 4, 5, 9, 10)]
    assert [step.window for step in marked.steps] == [0, 0, 0, 1, 1]
    users = built(
        tmp_path,
        *[label(100 * n, 90, "train") for n in range(3)],
        *[label(100 * n + 5, 20, "forward") for n in range(3)],
        *[label(100 * n, 95, "Optimizer.step#SGD.step") for n in range(3)],
    )
    assert [(step.name, step.start, step.dur) for step in users.steps] == [
        ("train#0", 0.0, 90.0),
        ("train#1", 100.0, 90.0),
        ("train#2", 200.0, 90.0),
    ]
    assert built(tmp_path, op(0, 5), label(0, 5, "once")).steps == []


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("model.py(12): forward", ("model.py", 12, "forward")),
        ("/a b/m(1).py(3): f<locals>", ("/a b/m(1).py", 3, "f<locals>")),
        ("torch\\nn\\modules\\module.py(1775): _call_impl", ("torch/nn/modules/module.py", 1775, "_call_impl")),
        ("/tmp/ipykernel_12/3481.py(4): g", ("/tmp/ipykernel_12/3481.py", 4, "g")),
        ("vllm/v1/worker/gpu_model_runner.py(2722): f", ("vllm/v1/worker/gpu_model_runner.py", 2722, "f")),
        ("torch/_inductor/config.py(0): f", None),
        ("<string>(1): <module>", None),
        ("<built-in method softmax of type object at 0x7f>", None),
        ("nn.Module: Linear_3", None),
        ("", None),
        ("a(b): c", None),
    ],
)
def test_frame_names(name: str, parsed: tuple[str, int, str] | None) -> None:
    assert parse_frame(name) == parsed


def test_notebook_cells_and_addresses() -> None:
    assert is_notebook_cell("/tmp/ipykernel_12/3481.py")
    assert not is_notebook_cell("/home/u/model.py")
    assert (
        without_address("<built-in method softmax of type object at 0x7f35a1>")
        == "<built-in method softmax of type object>"
    )


def test_memory_instants(tmp_path: Path) -> None:
    def instant(ts: float, size: int, total: int) -> dict[str, object]:
        args = {"Bytes": size, "Total Allocated": total, "Device Id": -1, "Device Type": 0, "Addr": 2**64 - 1}
        return {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "args": args,
        }

    trace = built(tmp_path, op(0, 5), instant(1, 16_384, 16_384), instant(2, 4096, 20_480), instant(3, -16_384, 4096))
    assert trace.memory is not None
    assert trace.memory.bytes.tolist() == [16_384, 4096, -16_384]
    assert trace.memory.total_allocated.max() == 20_480
    assert trace.memory.device.tolist() == [-1, -1, -1]
