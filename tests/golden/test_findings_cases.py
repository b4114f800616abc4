"""System findings and memory on traces from the field (``CASES.md``; the numbers in brackets are its entries)."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ridgeline.analysis import analyze_paths
from ridgeline.findings import spans
from ridgeline.findings.context import Context
from ridgeline.findings.facts import Facts
from ridgeline.profile import Finding, ProfileDocument
from ridgeline.trace.memory_timeline import MemoryTimelineError, read_memory_timeline
from ridgeline.trace.reader import read_trace


@lru_cache(maxsize=32)
def _document(path: Path) -> ProfileDocument:
    return analyze_paths([path])


def _by_code(path: Path, code: str) -> list[Finding]:
    return [f for f in _document(path).findings if f.code == code]


@pytest.fixture
def hta(cases: Path) -> Path:
    return cases / "data" / "hta"


@pytest.fixture
def lens(cases: Path) -> Path:
    return cases / "data" / "tl"


@pytest.mark.parametrize(
    ("relative", "busy", "idle_pct"),
    [
        ("trace_diff/test/test.json.gz", 717_943, 3.663),
        ("trace_diff/control/control.json.gz", 388_587, 16.360),
        ("trace_filter/sampled_rank-1.json.gz", 580_050, 52.887),
    ],
)
def test_idle_is_judged_on_the_union(hta: Path, relative: str, busy: float, idle_pct: float) -> None:
    """[86] 112 % "utilisation" comes from summing streams. Of the causes of idle time the findings never name more than it."""
    path = hta / relative
    device = _document(path).devices[0]
    assert device.busy_us == pytest.approx(busy, abs=1)
    assert device.idle_pct == pytest.approx(idle_pct, abs=0.001)
    steps = max(1, len(_document(path).steps))
    for finding in _by_code(path, "launch-bound"):
        assert idle_pct > 15
        assert (finding.saving_us or 0.0) * steps <= (device.span_us or 0.0) - busy


def test_copies_dominate_and_are_no_idle_time(hta: Path) -> None:
    """[89] 16 pageable copies of 244,403,360 B at 4.40 GB/s against 10,692 µs of kernels."""
    path = next((hta / "critical_path" / "alexnet").glob("*.gz"))
    (finding,) = _by_code(path, "pageable-copy")
    assert finding.evidence["bytes_per_step"] == 244_403_360
    assert finding.evidence["gb_per_s"] == pytest.approx(4.40, abs=0.01)
    assert finding.evidence["copies_per_step"] == 16
    assert finding.time_us == pytest.approx(55_503, abs=1)
    assert finding.severity == "information"
    assert "pin_memory=True" in finding.message
    assert not _by_code(path, "data-loading")


@pytest.mark.parametrize(("name", "item_us", "on_host_us"), [("control", 36_976, 12), ("test", 207_461, None)])
def test_the_wait_of_item_sits_in_the_copy(hta: Path, name: str, item_us: float, on_host_us: float | None) -> None:
    """[91] 30 item calls each; the wait is in cudaMemcpyAsync. Some items read numbers that live on the host (no wait), some
    belong to a larger operation; what is reported and these make up the whole."""
    path = hta / "trace_diff" / name / f"{name}.json.gz"
    reported = [f for f in _by_code(path, "hidden-sync") if f.evidence["op"] == "aten::item"]
    assert reported
    steps = len(_document(path).steps)
    host = sum(f.evidence["host_us_per_step"] for f in reported) * steps
    assert 0.9 * item_us <= host <= item_us
    assert reported[0].evidence["wait_in"] in ("cudaMemcpyAsync", "cudaStreamSynchronize")
    assert sum(f.time_us or 0.0 for f in reported) * steps <= host, "the device's gap, not the host's wait"
    if on_host_us is not None:
        trace = read_trace(path)
        rows = [r for r in range(len(trace.ops.start)) if trace.strings[trace.ops.name[r]] == "aten::item"]
        assert len(rows) == 30
        assert float(trace.ops.dur[rows].sum()) == pytest.approx(item_us)
        assert float(sum(trace.ops.dur[r] for r in rows if trace.ops.dur[r] <= 2)) == pytest.approx(on_host_us)


def test_numbers_on_the_host_are_no_synchronisation(hta: Path) -> None:
    """[91] 945 item calls that cost 493 µs together."""
    path = hta / "negative_queue_length_values_check" / "rank0.json.gz"
    assert not [f for f in _by_code(path, "hidden-sync") if f.evidence["op"] == "aten::item" and f.severity != "hint"]


def test_a_loader_that_keeps_up(cases: Path) -> None:
    """[92] Four workers: 1.02 % of the step, no finding."""
    path = next((cases / "data" / "kin").glob("*num_workers_4*.gz"))
    facts = _facts(path)
    assert 100 * spans.measure(facts.loader_spans) / facts.recorded_us == pytest.approx(1.02, abs=0.01)
    assert not _by_code(path, "data-loading")


def _facts(path: Path) -> Facts:
    from ridgeline.attribution import attribute
    from ridgeline.trace.work import work_table

    trace = read_trace(path)
    work = work_table(trace)
    return Facts(Context(trace=trace, work=work, attribution=attribute(trace, work), document=_document(path)))


def test_a_small_model_is_launch_bound(lens: Path) -> None:
    """[93] 60 kernels of 5.12 µs in the mean, busy 309 of 3,908 µs. The recording has stacks, so the gaps prove nothing;
    the launch calls alone, which stacks do not slow down, take longer than the kernels."""
    path = next((lens / "h100").glob("gaunernst*.gz"))
    (finding,) = _by_code(path, "launch-bound")
    assert finding.evidence["busy_us_per_step"] == pytest.approx(309.438, abs=0.01)
    assert finding.evidence["launches_per_step"] == 60
    assert "CUDA graphs" in finding.message
    assert "torch.compile" in finding.message


def test_a_large_model_is_not(lens: Path) -> None:
    """[93] Idle 8.067 %: no finding."""
    path = next((lens / "h100").glob("Qwen*.gz"))
    assert not _by_code(path, "launch-bound")
    assert not _by_code(path, "idle")


@pytest.mark.parametrize(
    ("relative", "overlapped", "exposed"),
    [
        ("trace_filter/sampled_rank-1.json.gz", 19.926, 303_523),
        ("trace_diff/control/control.json.gz", 46.237, None),
        ("trace_diff/test/test.json.gz", 70.837, None),
    ],
)
def test_overlap_of_communication(hta: Path, relative: str, overlapped: float, exposed: float | None) -> None:
    """[103] Within the recorded steps, hence near but not equal to the figure over the whole file."""
    path = hta / relative
    (finding,) = _by_code(path, "exposed-communication")
    assert finding.evidence["overlapped_pct"] == pytest.approx(overlapped, abs=5)
    if exposed is not None:
        steps = max(1, len(_document(path).steps))
        assert finding.evidence["exposed_us_per_step"] * steps == pytest.approx(exposed, rel=0.02)


def test_tiny_pageable_copies_are_limited_by_latency(hta: Path) -> None:
    """[120] 45 copies of 6,720 B together at 0.08 GB/s: nothing to suggest."""
    path = hta / "negative_queue_length_values_check" / "rank0.json.gz"
    for finding in _by_code(path, "pageable-copy"):
        assert finding.severity == "hint"
        assert finding.evidence["gb_per_s"] == pytest.approx(0.08, abs=0.005)


def _write(path: Path, events: list[dict[str, Any]], **more: Any) -> Path:
    with gzip.open(path, "wt") as file:
        json.dump({"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": events, **more}, file)
    return path


def _memory(ts: float, tid: int, nbytes: int, total: int) -> dict[str, Any]:
    return {
        "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid, "ts": ts,
        "args": {"Total Reserved": 0, "Total Allocated": total, "Bytes": nbytes, "Addr": 64 + tid, "Device Id": -1, "Device Type": 0},
    }  # fmt: skip


def test_memory_events_are_instants(tmp_path: Path) -> None:
    """[108] ``[memory]`` instants, device -1; the peak is the largest total."""
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 1,
            "tid": 1,
            "ts": 1.0,
            "dur": 90.0,
            "args": {"External id": 1},
        },
        _memory(10.0, 1, 16_384, 16_384),
        _memory(20.0, 1, 16_384, 32_768),
        _memory(30.0, 1, -16_384, 16_384),
    ]
    trace = read_trace(_write(tmp_path / "m.json.gz", events, profile_memory=1))
    assert trace.memory is not None
    assert int(trace.memory.bytes[0]) == 16_384
    assert int(trace.memory.total_allocated.max()) == 32_768
    memory = _document(tmp_path / "m.json.gz").memory
    assert memory is not None
    assert memory.peak_bytes == 32_768


def test_autotuning_trials_do_not_make_the_program_launch_bound(tmp_path: Path) -> None:
    """[84] Call 1 launches 100 trial kernels of 10 µs; the steps recorded hold one of 4 µs each."""
    events: list[dict[str, Any]] = []
    correlation = 0

    def kernel(ts: float, dur: float) -> None:
        nonlocal correlation
        correlation += 1
        args = {"device": 0, "stream": 7, "correlation": correlation, "External id": 0}
        events.append({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args})
        call = {"correlation": correlation, "External id": 0}
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": ts - 8, "dur": 3.0, "args": call})  # fmt: skip

    for i in range(100):
        kernel(100.0 + 20 * i, 10.0)
    for step in range(3):
        start = 10_000.0 + 100 * step
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": start, "dur": 100.0, "args": {}})  # fmt: skip
        kernel(start + 50, 4.0)
    (finding,) = _by_code(_write(tmp_path / "t.json.gz", events), "launch-bound")
    assert finding.evidence["launches_per_step"] == 1.0
    assert finding.evidence["busy_us_per_step"] == pytest.approx(4.0)


def test_a_raw_memory_timeline_begins_with_what_was_there(hta: Path) -> None:
    """[110] 16,845 rows; those of time -1 are the starting level, and category 0 has 102,440,608 B at index 744."""
    timeline = read_memory_timeline(hta / "memory_analysis" / "memory_timeline.raw.gz")
    assert len(timeline.time_ns) == 16_845
    assert int((timeline.time_ns == -1).sum()) == 645
    assert timeline.by_category(744)[0] == 102_440_608
    assert timeline.start_bytes == int(timeline.total[644])
    assert timeline.start_bytes <= timeline.peak_bytes <= int(timeline.total.max())
    moments = timeline.time_ns[timeline.time_ns != -1]
    assert moments.min() > 1_600_000_000_000_000_000, "no event lies 54 years ago"


@pytest.mark.parametrize("text", ["{}", "[[1, 2]]", '[["a", 1, 2, 3]]', "[[1, 1, 5, -2]]", "not json"])
def test_other_files_are_no_memory_timeline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(MemoryTimelineError):
        read_memory_timeline(path)


@pytest.mark.parametrize(("recorded", "expected"), [(False, 1), (True, 0)])
def test_memory_of_worker_threads_may_be_missing(tmp_path: Path, recorded: bool, expected: int) -> None:
    """[109] Two allocations of 4,000,012 B, one of them in a thread; the recording has the ops of both, and memory of one."""

    def op(tid: int, ts: float) -> dict[str, Any]:
        return {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": tid, "ts": ts, "dur": 9.0, "args": {"External id": tid}}  # fmt: skip

    events = [op(1, 10.0), _memory(12.0, 1, 4_000_012, 4_000_012), op(2, 30.0)]
    if recorded:
        events.append(_memory(32.0, 2, 4_000_012, 8_000_024))
    found = _by_code(_write(tmp_path / "w.json.gz", events, profile_memory=1), "memory-incomplete")
    assert len(found) == expected
    if found:
        assert "worker memory not recorded" in found[0].message
        assert found[0].evidence["threads"] == 1
