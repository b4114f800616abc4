"""Busy, idle and why, overlap, copies, ranks: figures over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ridgeline.sidecar import Compile, Interval, LoaderInfo, Sidecar
from ridgeline.trace import intervals as iv
from ridgeline.trace.communication import collective_of, communication_rows, device_overlap, hint_from_name
from ridgeline.trace.copies import copy_totals, direction_of
from ridgeline.trace.exposure import exposure, waves
from ridgeline.trace.gaps import Cause, idle_by_cause
from ridgeline.trace.host import host_wait_us, loading, waits
from ridgeline.trace.memory_timeline import read_memory_timeline
from ridgeline.trace.multi import clock_shifts_us, collectives, rank_of, unix_ns
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace, Work
from ridgeline.trace.work import work_table
from trace_build import built, call, kernel, label, op


def busy_and_span(trace: Trace) -> tuple[float, float]:
    work = work_table(trace)
    return iv.union(work.start, work.end).total, float(work.end.max() - work.start.min())


def idle_pct(trace: Trace) -> float:
    busy, span = busy_and_span(trace)
    return 100 * (1 - busy / span)


def causes(trace: Trace, window: tuple[float, float], sidecar: Sidecar | None = None) -> dict[str, float]:
    idle, gaps = idle_by_cause(trace, 0, window, sidecar)
    found = {cause.name.lower(): getattr(idle, cause.name.lower()) for cause in Cause}
    busy = exposure(trace, 0, window).busy.total
    assert sum(found.values()) == pytest.approx(window[1] - window[0] - busy, abs=1e-6)
    assert gaps.by_cause.sum(axis=1) == pytest.approx(gaps.end - gaps.start, abs=1e-6)
    assert (gaps.by_cause >= 0).all()
    return {name: pytest.approx(value, abs=1e-6) for name, value in found.items() if value}


# --- interval algebra


def test_intervals() -> None:
    one = iv.union(np.array([5.0, 0, 1, 20, 30, 9]), np.array([8.0, 3, 2, 25, 30, 7]))
    assert (one.start.tolist(), one.end.tolist()) == ([0, 5, 20], [3, 8, 25])
    other = iv.Intervals(np.array([2.0, 22]), np.array([6.0, 40]))
    both = iv.intersect(one, other)
    assert (both.start.tolist(), both.end.tolist()) == ([2, 5, 22], [3, 6, 25])
    less = iv.subtract(one, other)
    assert (less.start.tolist(), less.end.tolist()) == ([0, 6, 20], [2, 8, 22])
    gaps = iv.complement(one, -1, 22)
    assert (gaps.start.tolist(), gaps.end.tolist()) == ([-1, 3, 8], [0, 5, 20])
    assert iv.join(one, other).total == one.total + other.total - both.total
    assert iv.overlap_of(np.array([1.0, 6, 0, 100]), np.array([21.0, 6, 50, 101]), one).tolist() == [
        2 + 3 + 1,
        0,
        11,
        0,
    ]
    assert iv.complement(iv.EMPTY, 0, 5).total == 5
    assert iv.intersect(one, iv.EMPTY).total == 0
    assert iv.join().total == 0


def test_touching_intervals_join() -> None:
    assert len(iv.union(np.array([0.0, 1]), np.array([1.0, 2])).start) == 1


# --- UP-86, UP-88, UP-89, UP-93, UP-100, UP-116


def test_busy_is_a_union(cases: Path) -> None:
    data = cases / "data/hta"
    trace = read_trace(data / "trace_diff/test/test.json.gz")
    assert work_table(trace).time.sum() == 963_762
    assert busy_and_span(trace) == (717_943, 745_239)
    assert idle_pct(trace) == pytest.approx(3.663, abs=1e-3)
    trace = read_trace(data / "trace_diff/control/control.json.gz")
    assert work_table(trace).time.sum() == 501_567
    assert busy_and_span(trace) == (388_587, 464_594)
    assert idle_pct(trace) == pytest.approx(16.360, abs=1e-3)
    trace = read_trace(data / "trace_filter/sampled_rank-1.json.gz")
    assert busy_and_span(trace) == (580_050, 1_231_186)
    assert idle_pct(trace) == pytest.approx(52.887, abs=1e-3)


def test_a_waiting_stream_is_no_idle_device(tmp_path: Path) -> None:
    trace = built(tmp_path, kernel(0, 1000), kernel(50_000, 1000), kernel(0, 51_000, stream=8))
    assert causes(trace, (0, 51_000)) == {}


def test_copies_are_no_idle_time(tmp_path: Path, cases: Path) -> None:
    copy = kernel(100, 800, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", bytes=8_000_000)
    trace = built(tmp_path, kernel(0, 100), copy, kernel(900, 100))
    found = exposure(trace, 0, (0, 1000))
    assert (found.busy.total, found.compute.total, found.exposed_copy.total) == (1000, 200, 800)
    (row,) = copy_totals(trace)
    assert (row.direction, row.pinned, row.gb_per_s) == ("host to device", False, pytest.approx(10.0))

    trace = read_trace(cases / "data/hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz")
    events = trace.device_events
    assert events.dur[events.work == Work.MEMCPY].sum() == 55_503
    assert events.dur[events.work == Work.KERNEL].sum() == pytest.approx(10_692, abs=0.5)
    (row,) = [row for row in copy_totals(trace) if row.direction == "host to device"]
    assert (row.copies, row.bytes, row.pinned) == (16, 244_403_360, False)
    assert row.gb_per_s == pytest.approx(4.40, abs=0.01)


def test_launch_bound_inference(cases: Path) -> None:
    trace = read_trace(cases / "data/tl/h100/gaunernst_bert-small-uncased__1016001.json.gz")
    kernels = trace.device_events.work == Work.KERNEL
    assert trace.device_events.dur[kernels].mean() == pytest.approx(5.12, abs=5e-3)
    busy, span = busy_and_span(trace)
    assert (busy, span) == (pytest.approx(309.438, abs=2e-3), pytest.approx(3_907.825, abs=2e-3))
    assert idle_pct(trace) == pytest.approx(92.082, abs=1e-3)
    start = float(trace.device_events.start.min())
    idle, _ = idle_by_cause(trace, 0, (start, start + span))
    assert idle.launch > 0.9 * (span - busy)


def test_many_small_kernels_are_not_busy(tmp_path: Path) -> None:
    trace = built(
        tmp_path, *[call(10 * n - 5, 3, corr=n) for n in range(1000)], *[kernel(10 * n, 1, corr=n) for n in range(1000)]
    )
    found = causes(trace, (5.0, 10_005.0))
    assert found == {"launch": 8991.0, "tail": 9.0}


def test_public_truth(cases: Path) -> None:
    trace = read_trace(cases / "data/hta/critical_path/cuda_event_sync/event_sync_trace.json.gz")
    events = trace.device_events
    kernels = events.work == Work.KERNEL
    assert (int(kernels.sum()), events.dur[kernels].sum(), events.dur.sum()) == (4, 49, 51)
    assert busy_and_span(trace)[1] == 263
    assert idle_pct(trace) == pytest.approx(80.608, abs=1e-3)
    spin = [row for row, name in enumerate(trace.strings) if "spin_kernel" in name]
    time = events.dur[np.isin(events.name, spin)].sum()
    assert (time, 100 * time / 49) == (36, pytest.approx(73.47, abs=5e-3))
    item = trace.ops.name == trace.strings.index("aten::item")
    assert trace.ops.dur[item].sum() == 45
    assert trace.calls.dur[trace.calls.name == trace.strings.index("cudaMemcpyAsync")].sum() == 29


# --- UP-91, UP-92: what the host does


def test_item_waits_in_its_copy(cases: Path) -> None:
    for name, item_us, copy_us in (("control", 36_976, 36_705), ("test", 207_461, 207_133)):
        trace = read_trace(cases / f"data/hta/trace_diff/{name}/{name}.json.gz")
        items = np.flatnonzero(trace.ops.name == trace.strings.index("aten::item"))
        assert (len(items), trace.ops.dur[items].sum()) == (30, item_us)
        start, end = trace.ops.start[items], (trace.ops.start + trace.ops.dur)[items]
        copies = trace.calls.name == trace.strings.index("cudaMemcpyAsync")
        inside = (trace.calls.start[:, None] >= start) & (trace.calls.start[:, None] < end)
        assert trace.calls.dur[copies & inside.any(axis=1)].sum() == copy_us
        found = waits(trace)
        waited = iv.overlap_of(start, end, iv.union(found.start, found.end)).sum()
        assert waited == pytest.approx(item_us, rel=0.02)  # All of it is waiting, and it is found without the name.


def test_blocking_copies_are_waits_and_asynchronous_ones_are_not(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        call(0, 100, "cudaMemcpyAsync", corr=1),
        kernel(5, 90, "busy"),
        kernel(95, 3, "Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy", corr=1),
        call(200, 5, "cudaMemcpyAsync", corr=2),
        kernel(230, 3, "Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy", corr=2),
        call(300, 50, "cudaMemcpyAsync", corr=3),
        kernel(345, 3, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", corr=3),
        call(400, 20, "cudaStreamSynchronize"),
    )
    found = waits(trace)
    assert list(zip(found.start.tolist(), found.end.tolist())) == [(0, 98), (400, 420)]
    assert host_wait_us(trace, 50, 410) == 48 + 10


def test_loader_time(cases: Path) -> None:
    trace = read_trace(cases / "data/kin/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz")
    low, high = trace.steps[0].start, trace.steps[-1].start + trace.steps[-1].dur
    assert sum(step.dur for step in trace.steps) == pytest.approx(838_152, rel=1e-3)
    wait = iv.clip(loading(trace), low, high).total
    assert wait == pytest.approx(8_522, abs=1)
    assert 100 * wait / 838_152 == pytest.approx(1.02, abs=5e-3)
    assert idle_pct(trace) == pytest.approx(23.35, abs=5e-3)


# --- why the device is idle


def test_idle_while_the_host_loads_waits_copies_and_launches(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        call(0, 5, corr=1), kernel(8, 92, corr=1),
        # The host prepares the next launch: nobody waited.
        call(150, 5, corr=2), kernel(158, 42, corr=2),
        # It waits, then goes on; the wait drained the queue.
        call(160, 45, "cudaStreamSynchronize"), call(230, 5, corr=3), kernel(238, 62, corr=3),
        # It waits for data.
        label(305, 60, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), call(380, 5, corr=4), kernel(388, 12, corr=4),
        # It stages a copy.
        call(405, 40, "cudaMemcpyAsync", corr=5), kernel(450, 10, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", corr=5),
        call(447, 5, corr=6), kernel(460, 40, corr=6),
        # Queued long before, it starts late all the same.
        call(461, 5, corr=7), kernel(520, 10, corr=7),
    )  # fmt: skip
    assert causes(trace, (0.0, 550.0)) == {
        "launch": 58 + 8 + (5 + 15 + 8) + (5 + 45),
        "sync": 30.0,  # From 200 to the launch at 230.
        "loader": 60.0,
        "other": 8 + 20.0,  # Before the first work, and what was queued.
        "tail": 20.0,
    }
    _, gaps = idle_by_cause(trace, 0, (0.0, 550.0))
    assert gaps.queue_empty.tolist() == [1, 1, 1, 1, 1, 0, 0]
    assert [row >= 0 for row in gaps.wait.tolist()] == [False, False, True, False, False, False, False]
    assert gaps.tid.tolist()[:5] == [100] * 5


def test_idle_causes_of_the_sidecar(tmp_path: Path) -> None:
    trace = built(tmp_path, call(0, 5, corr=1), kernel(8, 2, corr=1), call(1000, 5, corr=2), kernel(1008, 2, corr=2),
                  baseTimeNanoseconds=1_000_000_000)  # fmt: skip
    sidecar = Sidecar(
        compiles=[Compile(start_ns=1_000_100_000, end_ns=1_000_400_000)],
        loaders=[
            LoaderInfo(num_workers=0, pin_memory=False, waits=[Interval(start_ns=1_000_300_000, end_ns=1_000_600_000)])
        ],
    )
    assert causes(trace, (0.0, 1010.0), sidecar) == {
        "launch": 90 + 400 + 8,
        "compile": 300.0,
        "loader": 200.0,
        "other": 8.0,
    }
    unknown = built(tmp_path, call(0, 5, corr=1), kernel(8, 2, corr=1), call(1000, 5, corr=2), kernel(1008, 2, corr=2))
    assert causes(unknown, (0.0, 1010.0), sidecar) == {"launch": 998.0, "other": 8.0}


def test_before_the_first_work_nothing_is_a_late_launch(tmp_path: Path) -> None:
    """What the device did before the recording is not known. A later window has gaps like any other."""
    begins, first, second = label(0, 5, "begins"), call(40_000, 5, corr=1), call(40_100, 5, corr=2)
    trace = built(tmp_path, begins, first, kernel(40_008, 2, corr=1), second, kernel(40_108, 2, corr=2))
    assert causes(trace, (0.0, 40_110.0)) == {"launch": 98.0, "other": 40_008.0}
    assert causes(trace, (40_050.0, 40_110.0)) == {"launch": 58.0}
    loading = label(1_000, 30_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    trace = built(tmp_path, begins, loading, first, kernel(40_008, 2, corr=1))
    assert causes(trace, (0.0, 40_010.0)) == {"loader": 30_000.0, "other": 10_008.0}


def test_the_profilers_own_time_is_its_own(tmp_path: Path) -> None:
    overhead = {
        "ph": "X",
        "cat": "overhead",
        "name": "Activity Buffer Request",
        "pid": -1,
        "tid": 0,
        "ts": 20,
        "dur": 50,
    }
    trace = built(
        tmp_path, call(0, 5, corr=1), kernel(8, 2, corr=1), overhead, call(100, 5, corr=2), kernel(108, 2, corr=2)
    )
    assert causes(trace, (8.0, 110.0)) == {"profiler": 50.0, "launch": 48.0}


def test_without_a_host_the_cause_is_unknown(tmp_path: Path) -> None:
    trace = built(tmp_path, kernel(0, 5), kernel(50, 5))
    assert causes(trace, (0.0, 100.0)) == {"other": 90.0}


def test_idle_sums_to_the_windows_idle_time(corpus: Path) -> None:
    for folder in sorted(corpus.glob("*/trace.json.gz")):
        trace = read_trace(folder)
        window = (trace.steps[0].start, trace.steps[-1].start + trace.steps[-1].dur)
        causes(trace, window)


def test_steady_steps_compile_nothing(corpus: Path) -> None:
    """Calling a compiled function is no compilation."""
    trace = read_trace(corpus / "encoder_train" / "trace.json.gz")
    idle, _ = idle_by_cause(trace, 0, (trace.steps[0].start, trace.steps[-1].start + trace.steps[-1].dur))
    assert idle.compile == 0


# --- communication


def test_overlap_is_a_part_of_the_communication(tmp_path: Path, cases: Path) -> None:
    trace = built(
        tmp_path, kernel(0, 200, "gemm"), kernel(150, 200, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    )
    found = device_overlap(trace, 0)
    assert (found.communication, found.overlapped, found.overlap_pct, found.exposed) == (200, 50, 25, 150)
    assert exposure(trace, 0).exposed_communication.total == 150
    for path, device, total, hidden, pct in (
        ("hta/trace_filter/sampled_rank-1.json.gz", 1, 379_053, 75_530, 19.926),
        ("hta/trace_diff/control/control.json.gz", 3, None, None, 46.237),
        ("hta/trace_diff/test/test.json.gz", 1, None, None, 70.837),
        ("tl/mi300/resnet_act_checkpoint.json.gz", 2, None, None, 22.221),
    ):
        found = device_overlap(read_trace(cases / "data" / path), device)
        assert found.overlap_pct == pytest.approx(pct, abs=1e-3)
        if total is not None:
            assert (found.communication, found.overlapped, found.exposed) == (total, hidden, total - hidden)
    assert found.exposed == pytest.approx(55_625.186, abs=0.1)  # The case's figure is a sum of rounded floats.


def test_the_collective_is_recorded_not_guessed(tmp_path: Path) -> None:
    recorded = {"Collective name": "allreduce", "In msg nelems": 2_049_000, "Group size": 2, "dtype": "Float",
                "Process Group Name": "default_pg", "Process Group Ranks": "[0, 1]"}  # fmt: skip
    trace = built(tmp_path, kernel(5, 10, "ncclKernel_SendRecv_RING_LL_Sum_int8_t", **recorded), kernel(0, 1, "gemm"))
    assert communication_rows(trace).tolist() == [False, True]
    assert trace.collectives == {1: recorded}
    assert hint_from_name("ncclKernel_SendRecv_RING_LL_Sum_int8_t") == ("SendRecv", "RING", "LL")
    assert collective_of(b"[1]") == {}


def test_waiting_is_not_transfer(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    ranks = [built(tmp_path, kernel(start, 200 - start, name)) for start in (100, 180, 150)]
    (found,) = collectives(ranks)
    assert (found.transfer, found.waits, found.straggler) == (20, (80, 0, 30), 1)


def test_ranks_share_a_clock_through_their_base(tmp_path: Path, cases: Path) -> None:
    trace = read_trace(cases / "data/hta/triton_example/triton_example.json.gz")
    start = unix_ns(trace, float(trace.device_events.start.min()))
    first = unix_ns(trace, 0.0)
    assert first is not None
    assert start is not None
    assert abs(first - 1_730_156_791_096_090_100) <= 1000
    one = built(tmp_path, kernel(100, 1), baseTimeNanoseconds=5_000_000_000, distributedInfo={"rank": 1})
    two = built(tmp_path, kernel(10, 1), baseTimeNanoseconds=5_000_050_000)
    assert clock_shifts_us([one, two]) == [0.0, -40.0]
    assert rank_of(one) == 1
    assert rank_of(two) is None
    assert clock_shifts_us([one, built(tmp_path, kernel(10, 1))]) is None


# --- copies, waves, memory


def test_copy_rates_need_bytes(tmp_path: Path, cases: Path) -> None:
    trace = read_trace(cases / "data/hta/negative_queue_length_values_check/rank0.json.gz")
    rows = {(row.direction, row.pinned): row for row in copy_totals(trace)}
    pinned, pageable = rows["host to device", True], rows["host to device", False]
    assert (pinned.bytes, pinned.time_us, pinned.gb_per_s) == (253_534_084, 21_073, pytest.approx(12.03, abs=5e-3))
    assert (pageable.bytes, pageable.time_us, pageable.copies) == (6_720, 82, 45)
    assert pageable.gb_per_s == pytest.approx(0.08, abs=5e-3)
    rocm = built(tmp_path, kernel(0, 5, "Memcpy HtoD (Host -> Device)", cat="gpu_memcpy", bytes=0))
    assert [(row.direction, row.pinned, row.bytes, row.gb_per_s) for row in copy_totals(rocm)] == [
        ("host to device", None, None, None)
    ]
    assert direction_of("Memcpy PtoP (Device -> Device)") == "peer to peer"


def test_less_than_one_wave_is_underfilled(tmp_path: Path) -> None:
    properties = [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32,
                   "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472}]  # fmt: skip
    shape = {"block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
    trace = built(
        tmp_path,
        kernel(0, 10, "full", grid=[132 * 8, 1, 1], **shape),
        kernel(20, 10, "half", grid=[132 * 4, 1, 1], **shape),
        kernel(25, 10, "full", grid=[132 * 16, 1, 1], stream=8, **shape),
        deviceProperties=properties,
    )
    assert sorted(waves(trace.launch_configs, trace.devices[0]).tolist()) == [0.5, 1.0, 2.0]
    under = exposure(trace, 0).underfilled
    assert under is not None
    assert under.total == 5
    assert exposure(built(tmp_path, kernel(0, 1)), 0).underfilled is None


def test_memory_timeline(cases: Path) -> None:
    found = read_memory_timeline(cases / "data/hta/memory_analysis/memory_timeline.raw.gz")
    before = found.time_ns == -1
    assert (len(found.time_ns), int(before.sum())) == (16_845, 645)
    assert found.time_ns[~before].min() > 1_696_000_000 * 10**9
    assert found.start_bytes == 332_060_904
    assert found.by_category(744)[0] == 102_440_608
    assert found.peak_bytes >= found.start_bytes


def test_cpu_work_counts_nested_ops_once(tmp_path: Path) -> None:
    trace = built(tmp_path, op(0, 10, "outer"), op(2, 5, "inner"), op(0, 7, "other thread", tid=5))
    work = work_table(trace)
    assert work.on_cpu
    assert {trace.strings[name]: time for name, time in zip(work.name, work.time)} == {
        "outer": 5, "inner": 5, "other thread": 7
    }  # fmt: skip
    assert work.end.max() == 10
