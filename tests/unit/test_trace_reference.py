"""Sums of every trace of the corpus and the cases agree with the slow reference: totals to 1e-6, busy to 1 ns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import trace_reference
from ridgeline.trace.intervals import union
from ridgeline.trace.nesting import threads_of
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Work

CORPUS = (
    "encoder_cudagraph",
    "encoder_train",
    "matmul_add_4096_c0",
    "matmul_add_4096_c1",
    "matmul_add_64_c0",
    "matmul_add_64_c1",
    "mixnet_train",
    "mlp_train",
    "slow_habits",
    "user_triton",
)
CASES = (
    "hta/call_stack/backward_thread.json",
    "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta/critical_path/cuda_event_sync/event_sync_trace.json.gz",
    "hta/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "hta/critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz",
    "hta/distributed_info_unavailable/distributed_info_not_found.json.gz",
    "hta/negative_queue_length_values_check/rank0.json.gz",
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/rank_non_gpu/rank_non_gpu.json.gz",
    "hta/rank_unavailable/rank_not_found.json.gz",
    "hta/timeline_analysis/sampled_rank-0.json.gz",
    "hta/trace_compare/base/base.json.gz",
    "hta/trace_diff/control/control.json.gz",
    "hta/trace_diff/test/test.json.gz",
    "hta/trace_filter/sampled_rank-1.json.gz",
    "hta/triton_example/triton_example.json.gz",
    "kin/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz",
    "tl/b200/eager_trace.json.gz",
    "tl/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tl/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tl/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "tl/inference/vllm_decode_full/graph_execution.json.gz",
    "tl/mi300/resnet_act_checkpoint.json.gz",
    "tl/perf_model/normalization/normalization_layer_test.json.gz",
    "tl/torch_compile_triton/trace.json.gz",
)
LARGE = ("hta/mtia_trace_single_rank/mtia_rank_0.json.gz",)


def agrees(path: Path) -> None:
    wanted = trace_reference.reference(path)
    trace = read_trace(path)
    events, ops = trace.device_events, trace.ops
    assert trace.quality.skipped == 0
    assert trace.quality.repaired == 0
    assert not trace.quality.truncated

    devices = sorted(set(wanted.busy))
    assert sorted(np.unique(events.device).tolist()) == devices
    for device in devices:
        here = events.device == device
        kernels = here & (events.work == Work.KERNEL)
        assert events.dur[kernels].sum() == pytest.approx(float(wanted.kernel_total[device]), rel=1e-6, abs=1e-9)
        assert events.dur[here & ~kernels].sum() == pytest.approx(float(wanted.copy_total[device]), rel=1e-6, abs=1e-9)
        busy = union(events.start[here], (events.start + events.dur)[here]).total
        assert abs(Decimal(busy) - wanted.busy[device]) <= Decimal("0.001")
        span = (events.start + events.dur)[here].max() - events.start[here].min()
        assert abs(Decimal(float(span)) - wanted.span[device]) <= Decimal("0.001")

    counts = np.bincount(events.name, minlength=len(trace.strings))
    sums = np.bincount(events.name, weights=events.dur, minlength=len(trace.strings))
    found = {trace.strings[row]: (int(counts[row]), sums[row]) for row in np.flatnonzero(counts).tolist()}
    assert found.keys() == wanted.by_name.keys()
    for name, (count, total) in wanted.by_name.items():
        assert found[name][0] == count
        assert found[name][1] == pytest.approx(float(total), rel=1e-6, abs=1e-9)

    linked = events.call >= 0
    assert int(linked.sum()) == wanted.linked
    assert (trace.calls.correlation[events.call[linked]] == events.correlation[linked]).all()

    assert len(ops.start) == wanted.ops
    assert ops.self_dur.sum() == pytest.approx(float(wanted.self_total), rel=1e-6, abs=1e-6)
    own = np.bincount(ops.name, weights=ops.self_dur, minlength=len(trace.strings))
    for name, total in wanted.self_by_name.items():
        assert own[trace.strings.index(name)] == pytest.approx(float(total), rel=1e-6, abs=1e-3)
    nested = np.flatnonzero(ops.parent >= 0)
    threads = threads_of(ops.pid, ops.tid)
    assert (ops.start[ops.parent[nested]] <= ops.start[nested]).all()
    assert (threads[ops.parent[nested]] == threads[nested]).all()
    assert trace.frames is not None
    assert len(trace.frames.start) == wanted.frames
    assert trace.memory is not None
    assert len(trace.memory.time) == wanted.memory


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(corpus: Path, name: str) -> None:
    agrees(corpus / name / "trace.json.gz")


@pytest.mark.parametrize("name", CASES)
def test_cases(cases: Path, name: str) -> None:
    agrees(cases / "data" / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_cases(cases: Path, name: str) -> None:
    agrees(cases / "data" / name)


def test_no_trace_is_left_out(corpus: Path, cases: Path) -> None:
    """A trace that is added to the folders is added here."""
    there = {str(path.parent.relative_to(corpus)) for path in corpus.glob("*/trace.json.gz")}
    assert there == set(CORPUS)
    data = cases / "data"
    found = {str(path.relative_to(data)) for path in data.rglob("*.json*") if path.suffix in (".json", ".gz")}
    assert found == {*CASES, *LARGE}
