"""Damaged, unusual and odd-shaped input: a record is lost before a file is, and what was done is said."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from ridgeline.attribution.frame_tree import parse_frame as frame_of
from ridgeline.attribution.stacks import parse_stack
from ridgeline.inductor.names import split_site, take_apart
from ridgeline.trace import repair
from ridgeline.trace.errors import TraceError
from ridgeline.trace.frames import parse_frame
from ridgeline.trace.intervals import union
from ridgeline.trace.nesting import DEEPEST
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace, Work
from ridgeline.trace.work import work_table
from trace_build import built, call, codes, frame, kernel, label, op, raw, write


def kernel_total(trace: Trace) -> float:
    return float(trace.device_events.dur[trace.device_events.work == Work.KERNEL].sum())


def names(trace: Trace) -> set[str]:
    tables = [trace.device_events, trace.ops, trace.ranges, trace.calls, trace.frames]
    return {trace.strings[row] for table in tables if table is not None for row in table.name.tolist()}


KERNEL = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0,"stream":7}}'


# --- UP-01


def test_windows_paths_with_raw_backslashes(tmp_path: Path) -> None:
    text = (
        b'{"traceEvents":['
        b'{"ph":"X","cat":"python_function","name":"torch\\cuda\\__init__.py(219): _lazy_init","pid":1,"tid":1,"ts":1,"dur":2,"args":{}},'
        b'{"ph":"X","cat":"user_annotation","name":"a\\nb\\\\c","pid":1,"tid":1,"ts":1,"dur":2},'
        + KERNEL % (5, 10)
        + b"]}"
    )
    trace = raw(tmp_path, text)
    assert trace.quality.events == 3
    assert trace.quality.skipped == 0
    assert kernel_total(trace) == 10
    assert "a\nb\\c" in names(trace)
    assert "torch\\cuda\\__init__.py(219): _lazy_init" in names(trace)
    assert parse_frame("torch\\cuda\\__init__.py(219): _lazy_init") == ("torch/cuda/__init__.py", 219, "_lazy_init")
    assert codes(trace)["repaired-escapes"].startswith("repaired 2 escapes")


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (b"proj\\new.py(3): f", "proj/new.py"),
        (b"proj\\table\\run.py(3): f", "proj/table/run.py"),
        (b"C:\\users\\bob\\fast.py(3): f", "C:/users/bob/fast.py"),
        (b"C:\\\\users\\\\bob\\\\new.py(3): f", "C:/users/bob/new.py"),
    ],
)
def test_a_path_never_holds_a_line_break(tmp_path: Path, written: bytes, path: str) -> None:
    """An unescaped backslash before n, t, r, b or f is a legal escape, but in a path it is a separator."""
    text = b'[{"ph":"X","cat":"python_function","name":"%s","pid":1,"tid":1,"ts":1,"dur":2,"args":{}}]' % written
    trace = raw(tmp_path, text)
    (name,) = names(trace)
    assert parse_frame(name) == (path, 3, "f")


# --- UP-02, UP-03


@pytest.mark.parametrize("compressed", [False, True])
def test_invalid_utf8_in_a_name(tmp_path: Path, compressed: bool) -> None:
    text = (
        b'{"traceEvents":[{"ph":"X","cat":"python_function","name":"\xc7\x80(0): \x8c8c\xff","pid":1,"tid":1,"ts":1,"dur":1,"args":{}},'
        + KERNEL % (1, 7)
        + b","
        + KERNEL % (20, 3)
        + b"]}"
    )
    trace = raw(tmp_path, gzip.compress(text) if compressed else text)
    assert kernel_total(trace) == 10
    assert trace.quality.events == 3
    assert any("�" in name for name in names(trace))
    assert [warning.code for warning in trace.quality.warnings] == ["repaired-utf8"]


def test_raw_control_characters_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = (
        b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\x01b\nc","pid":1,"tid":1,"ts":1,"dur":1},'
        + KERNEL % (1, 5)
        + b"]}"
    )
    path.write_bytes(text)
    trace = read_trace(path)
    assert kernel_total(trace) == 5
    assert "a\x01b\nc" in names(trace)
    assert codes(trace)["repaired-control"].startswith("repaired 2 places")
    assert path.read_bytes() == text


def write_bytes(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    return path


def test_ascend_rows_are_device_work(tmp_path: Path) -> None:
    """They carry no category: a task type and a stream say what they are; times are strings."""
    rows = [
        {"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "args": {"name": "Ascend Hardware"}},
        {"ph": "X", "name": "MatMulV3", "pid": 900, "tid": 2, "ts": "1778650000123456.125", "dur": "0.250",
         "args": {"Model Id": 1, "Task Type": "AI_CORE", "Stream Id": 2, "Task Id": 5}},
    ]  # fmt: skip
    trace = built(tmp_path, *rows)
    assert kernel_total(trace) == 0.25
    assert trace.device_events.stream.tolist() == [2]
    assert trace.devices[0].kind == "npu"


# --- UP-04


def test_one_malformed_record_is_lost_and_located(tmp_path: Path) -> None:
    bad = b'{"name":"add","ph":"f","ts":2,tid":0,"pid":"CUDA functions","id":1,"cat":"cpu_to_cuda"}'
    records = [
        b'{"name":"add","ph":"X","ts":0,"dur":134.0,"tid":0,"pid":"CPU functions","args":{}}',
        b'{"name":"add","ph":"s","ts":1,"tid":0,"pid":"CPU functions","id":1,"cat":"cpu_to_cuda"}',
        bad,
        b'{"name":"add","ph":"X","ts":5,"dur":134.176,"tid":0,"pid":"CUDA functions","args":{}}',
    ]
    text = b"[" + b",\n".join(records) + b"]"
    trace = raw(tmp_path, text)
    assert trace.quality.events == 3
    assert trace.quality.skipped == 1
    assert f"at byte {text.index(bad)}" in codes(trace)["skipped-records"]
    assert trace.device_events.dur.tolist() == [134.176]
    assert trace.ops.dur.tolist() == [134.0]


@pytest.mark.parametrize("row", [0, 5, 250, 999])
def test_a_bad_record_anywhere_costs_itself_only(tmp_path: Path, row: int) -> None:
    records = [KERNEL % (10 * number, 3) for number in range(1000)]
    records[row] = b'{"ph":"X","cat":kernel","name":"k","ts":1,"dur":5000,"args":{"a":[{"b":1},{"c":2}]}}'
    trace = raw(tmp_path, b'{"traceEvents":[' + b",".join(records) + b'],"traceName":"x"}')
    assert (trace.quality.events, trace.quality.skipped) == (999, 1)
    assert kernel_total(trace) == 999 * 3
    assert trace.metadata["traceName"] == "x"


def test_many_bad_records(tmp_path: Path) -> None:
    records = [KERNEL % (10 * number, 3) for number in range(3000)]
    for row in range(0, 3000, 3):
        records[row] = b'{"ph":"X","cat":"kernel","name":"k,"ts":1,"dur":5}'
    trace = raw(tmp_path, b"[" + b",".join(records) + b"]")
    assert kernel_total(trace) == 2000 * 3
    assert trace.quality.events == 2000


def test_a_field_of_the_wrong_type_costs_no_neighbour(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        kernel(0, 5),
        {**kernel(10, 5), "name": 17, "tid": {"a": 1}},
        {**kernel(20, 5), "ts": [1]},
        {**kernel(30, 5), "args": "none"},
        {**kernel(40, 5), "args": {"device": "0", "stream": "stream 7", "correlation": "12", "grid": "(1,)"}},
    )
    assert kernel_total(trace) == 20
    assert trace.device_events.correlation.tolist() == [-1, -1, -1, 12]
    assert "17" in names(trace)
    assert codes(trace)["no-timestamp"].startswith("1 ")


def test_values_that_are_no_json(tmp_path: Path) -> None:
    text = (
        b'{"traceEvents":[{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":1,"dur":4,"args":{"device":0,'
        b'"bytes":NaN,"memory bandwidth (GB/s)": -Infinity, "x":[NaN, 1],"stream":7},},' + KERNEL % (9, 1) + b",]}"
    )
    trace = raw(tmp_path, text)
    assert len(trace.device_events.start) == 2
    assert np.isnan(trace.device_events.bytes).all()
    assert trace.quality.skipped == 0


# --- UP-06


def test_truncated_plain(tmp_path: Path) -> None:
    text = b'{"traceEvents":[' + b",".join(KERNEL % (10 * n, n) for n in range(1, 6)) + b',{"ph":"X","cat":"kernel","na'
    trace = raw(tmp_path, text)
    assert kernel_total(trace) == 15
    assert trace.quality.truncated
    assert "totals are lower bounds" in codes(trace)["truncated"]
    assert trace.quality.skipped == 0


def test_truncated_gzip(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    durations = rng.integers(1, 1000, 4000).tolist()
    text = b'{"traceEvents":[' + b",".join(KERNEL % (2000 * n, d) for n, d in enumerate(durations)) + b"]}"
    whole = gzip.compress(text)
    cut = whole[: len(whole) * 2 // 3]
    trace = raw(tmp_path, cut, "trace.json.gz")
    out = zlib.decompressobj(31).decompress(cut)
    complete = out.count(b"}}")
    assert 100 < complete < 4000
    assert len(trace.device_events.start) >= complete
    n = len(trace.device_events.start)
    assert kernel_total(trace) == sum(durations[:n])
    assert trace.quality.truncated


def test_damaged_gzip_gives_what_lies_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    text = b"[" + b",".join(KERNEL % (2000 * n, d) for n, d in enumerate(rng.integers(1, 1000, 4000).tolist())) + b"]"
    whole = bytearray(gzip.compress(text))
    middle = len(whole) // 2
    whole[middle : middle + 64] = b"\xff" * 64
    trace = raw(tmp_path, bytes(whole))
    assert len(trace.device_events.start) > 1000
    assert trace.quality.truncated


# --- UP-07 and the container


def test_any_top_level_shape(tmp_path: Path) -> None:
    events = [kernel(0, 1), kernel(5, 1)]
    properties = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
    shapes = [
        events,
        {"traceEvents": events},
        {"traceEvents": {"traceEvents": events}},
        {"traceEvents": events, "deviceProperties": properties, "distributedInfo": {"rank": 3}},
    ]
    traces = [raw(tmp_path, json.dumps(shape).encode()) for shape in shapes]
    assert [len(trace.device_events.start) for trace in traces] == [2, 2, 2, 2]
    assert all(not trace.quality.warnings for trace in traces)
    assert traces[3].devices[0].name == "NVIDIA H200"
    assert traces[3].metadata["distributedInfo"]["rank"] == 3
    lines = b"\n".join(json.dumps(event).encode() for event in events)
    assert len(raw(tmp_path, lines).device_events.start) == 2
    missing_comma = json.dumps(events).replace("}, {", "} {").encode()
    assert len(raw(tmp_path, missing_comma).device_events.start) == 2


def test_records_without_brackets_in_number(tmp_path: Path) -> None:
    lines = b"\n".join(KERNEL % (10 * number, 3) for number in range(2000))
    trace = raw(tmp_path, lines)
    assert kernel_total(trace) == 6000


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.txt"])
def test_compression_is_seen_in_the_bytes_not_the_name(tmp_path: Path, name: str) -> None:
    text = b"[" + KERNEL % (0, 3) + b"," + KERNEL % (9, 4) + b"]"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("readme.txt", "no trace")
        zipped.writestr("run/trace.json", text)
    members = gzip.compress(text[:50]) + gzip.compress(text[50:])
    for data in (
        text,
        gzip.compress(text),
        members,
        members + b"\0" * 512,
        bz2.compress(text),
        lzma.compress(text),
        archive.getvalue(),
        b"\xef\xbb\xbf" + text,
        text.decode().encode("utf-16"),
        b"\n \t" + text + b"\n\n",
    ):
        trace = raw(tmp_path, data, name)
        assert kernel_total(trace) == 7
        assert not trace.quality.warnings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"hello", "no JSON"),
        (b"\x89PNG\r\n\x1a\n", "no JSON"),
        (b"[[1, 1, 2, 3]]", "memory timeline"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"PK\x03\x04rubbish", "zip"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, text: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        raw(tmp_path, text)


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(TraceError, match="folder"):
        read_trace(tmp_path)


def test_json_without_events(tmp_path: Path) -> None:
    trace = raw(tmp_path, b'{"schemaVersion": 1}')
    assert trace.quality.events == 0
    assert "no-activity" in codes(trace)
    assert len(work_table(trace).time) == 0


@pytest.mark.parametrize("chunk", [64, 200, 1000, 5000])
def test_chunks_of_any_size_read_the_same(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        {**op(10 * n, 8, f'op \\ "{n}" }}, {{', ext=n), "args": {"External id": n, "x": [{"a": 1}, {"b": [{"c": 2}]}]}}
        for n in range(120)
    ]
    path = write(tmp_path, events, deviceProperties=[{"id": 0, "name": "x" * 500}])
    whole = read_trace(path)
    monkeypatch.setattr("ridgeline.trace.records.RecordStream.__init__.__defaults__", (chunk,))
    small = read_trace(path)
    assert small.quality == whole.quality
    assert small.quality.events == 120
    assert small.ops.external_id.tolist() == list(range(120))
    assert [small.strings[row] for row in small.ops.name] == [whole.strings[row] for row in whole.ops.name]


# --- UP-10, UP-14, UP-118: time


def test_epoch_timestamps_as_strings_keep_their_order(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        kernel("1778650000123456.125", "0.250"),
        kernel("1778650000123456.500", "0.250"),
        {"ph": "s", "id": 2**53 + 3, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": "1778650000123456.125"},
    )
    events = trace.device_events
    end = events.start + events.dur
    assert events.start[1] - end[0] == pytest.approx(0.125, abs=1e-9)
    assert union(events.start, end).total == pytest.approx(0.5, abs=1e-9)
    assert trace.origin_ns == 1778650000123456125


@pytest.mark.parametrize("text", [b"1778650000123456.125", b"5098348851720.194", b"12.0005", b"1778650000123456789"])
def test_numbers_keep_their_digits(tmp_path: Path, text: bytes) -> None:
    """A float64 of epoch microseconds is off by a quarter: the number's text is what counts."""
    whole, _, fraction = text.partition(b".")
    later = b"%d.%s" % (int(whole) + 1, fraction or b"0")
    record = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%s,"dur":0.25,"args":{"device":0,"stream":7}}'
    trace = raw(tmp_path, b"[" + record % text + b"," + record % later + b"]")
    assert trace.device_events.start[1] == pytest.approx(1.0, abs=1e-9)
    assert abs(trace.origin_ns - int(whole) * 1000 - float(b"0." + (fraction or b"0")) * 1000) <= 0.5 + 1e-6


def test_display_unit_is_no_unit(cases: Path) -> None:
    path = cases / "data/hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
    trace = read_trace(path)
    events = trace.device_events
    kernels = events.work == Work.KERNEL
    assert int(kernels.sum()) == 4350
    assert events.dur[kernels].sum() == pytest.approx(468_153.602, abs=1e-3)
    end = events.start + events.dur
    span = end.max() - events.start.min()
    assert span == pytest.approx(480_029.25, abs=0.25)  # The case's figure is a float64 of epoch size.
    assert 100 * (1 - union(events.start, end).total / span) == pytest.approx(1.576, abs=3e-3)  # As above.
    sums = np.bincount(events.name[kernels], weights=events.dur[kernels])
    top = int(sums.argmax())
    assert sums[top] == pytest.approx(26_303.973, abs=1e-3)
    assert 100 * sums[top] / sums.sum() == pytest.approx(5.62, abs=5e-3)
    assert int((events.name[kernels] == top).sum()) == 160


def test_rounding_makes_no_overlap(tmp_path: Path) -> None:
    trace = built(tmp_path, kernel(100.001, 5.001), kernel(105.001, 2))
    work = work_table(trace)
    assert union(work.start, work.end).total == pytest.approx(7.0, abs=1e-9)
    assert not trace.quality.warnings


# --- UP-12, UP-13, UP-15, UP-16: durations


def test_negative_durations_and_children_that_stick_out(tmp_path: Path) -> None:
    trace = built(tmp_path, op(100, 50, "parent"), op(110, 70, "child"), op(1000, -1000, "bad"))
    own = {trace.strings[name]: time for name, time in zip(trace.ops.name, trace.ops.self_dur)}
    assert own == {"parent": 10.0, "child": 70.0}
    assert trace.quality.skipped == 1
    assert codes(trace)["negative-duration"].startswith("1 ")


def test_self_times_never_add_up_to_more_than_the_wall(tmp_path: Path) -> None:
    """Two children that overlap each other inside a parent."""
    trace = built(tmp_path, op(0, 20, "parent"), op(0, 10, "one"), op(5, 10, "two"))
    own = {trace.strings[name]: time for name, time in zip(trace.ops.name, trace.ops.self_dur)}
    assert own == {"parent": 5.0, "one": 5.0, "two": 10.0}


def test_times_of_another_century_are_left_out(tmp_path: Path) -> None:
    events = [kernel(5_000_000_000_000.0 + 10 * n, 5) for n in range(20)]
    trace = built(tmp_path, *events, kernel(0, 5), op(5_000_000_000_000.0, 7.4e15))
    assert kernel_total(trace) == 100
    assert len(trace.ops.start) == 0
    assert {"wrong-clock", "endless-duration"} <= codes(trace).keys()
    assert trace.device_events.start.max() == pytest.approx(190)


def test_a_few_records_an_hour_away_are_left_out_and_many_are_not(tmp_path: Path) -> None:
    day = 86_400e6
    events = [kernel(day + 10 * n, 5) for n in range(500)]
    trace = built(tmp_path, *events, kernel(0, 5), kernel(day / 2, 5))
    assert kernel_total(trace) == 2500
    assert codes(trace)["wrong-clock"].startswith("2 ")
    two_bursts = built(tmp_path, *events, *[kernel(10 * n, 5) for n in range(50)])
    assert kernel_total(two_bursts) == 2750
    assert not two_bursts.quality.skipped


def test_frames_that_never_closed(tmp_path: Path) -> None:
    events = [op(100 * n, 10, "op") for n in range(3)]
    lost = [frame(100 * n, 1000 - 100 * n, "<built-in method op>") for n in range(3)]
    trace = built(tmp_path, *events, *lost)
    assert trace.ops.self_dur.sum() == 30
    assert trace.frames is not None
    assert trace.frames.open_end.tolist() == [1, 1, 1]


def test_frames_on_the_stack_at_the_stop_are_no_lost_ones(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        frame(0, 1000, "a.py(1): <module>", id=1),
        frame(10, 990, "a.py(5): main", id=2, parent=1),
        frame(20, 980, "<built-in method lost>", id=3, parent=2),
        frame(500, 500, "a.py(9): last", id=4, parent=2),
        frame(600, 100, "a.py(12): done", id=5, parent=4),
    )
    assert trace.frames is not None
    assert trace.frames.open_end.tolist() == [0, 0, 1, 0, 0]


def test_impossible_durations_are_bounded(tmp_path: Path) -> None:
    trace = built(tmp_path, kernel(0, 10, "a"), kernel(100, 3_400_000, "b"), kernel(120, 50, "c"), kernel(200, 30, "d"))
    work = work_table(trace)
    shares = {trace.strings[name]: time for name, time in zip(work.name, work.time)}
    assert shares == {"a": 10, "b": 20, "c": 50, "d": 30}
    assert "1 of 4 device record" in codes(trace)["impossible-durations"]


def test_bounding_spares_what_is_legal(tmp_path: Path) -> None:
    """Branches of one graph share a stream, communication waits for other ranks, another stream is another matter."""
    trace = built(
        tmp_path,
        kernel(0, 500_000, "slow branch", corr=1),
        kernel(10, 5, "fast branch", corr=1),
        kernel(600_000, 400_000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", corr=2),
        kernel(600_010, 5, "small", corr=3),
        kernel(2_000_000, 400_000, "other stream", stream=8, corr=4),
        kernel(2_000_010, 5, "small", stream=9, corr=5),
    )
    assert work_table(trace).time.sum() == 500_000 + 5 + 400_000 + 5 + 400_000 + 5
    assert "impossible-durations" not in codes(trace)


def test_programmatic_dependent_launch_is_legal(tmp_path: Path, cases: Path) -> None:
    pair = built(tmp_path, kernel(879527.486, 102.304, "A"), kernel(879627.742, 59.296, "B"))
    work = work_table(pair)
    assert work.time.sum() == pytest.approx(161.6, abs=1e-6)
    assert union(work.start, work.end).total == pytest.approx(159.552, abs=1e-6)
    assert not pair.quality.warnings

    trace = read_trace(cases / "data/tl/b200/eager_trace.json.gz")
    work = work_table(trace)
    assert int((work.work == Work.KERNEL).sum()) == 768
    assert work.time.sum() == pytest.approx(11_665.758, abs=0.01)
    assert union(work.start, work.end).total == pytest.approx(11_596.479, abs=0.01)
    assert "impossible-durations" not in codes(trace)


# --- UP-18, UP-19, UP-20, UP-25, UP-28: what is missing


def test_launches_without_kernels_are_counted(tmp_path: Path) -> None:
    launches = [call(10 * n, corr=n) for n in range(1, 51)]
    kernels = [kernel(10 * n + 7, 2, corr=n) for n in range(4, 51)]
    trace = built(tmp_path, *launches, *kernels)
    assert trace.quality.launches_without_kernel == 3
    assert "3 of 50 launches have no kernel record (6 %)" in codes(trace)["launches-without-kernel"]
    assert "lower bounds" in codes(trace)["launches-without-kernel"]
    assert kernel_total(trace) == 94


def test_no_device_records_is_no_idle_device(tmp_path: Path) -> None:
    trace = built(tmp_path, *[call(10 * n, corr=n) for n in range(4)], *[op(3 * n, 2) for n in range(10)])
    assert "device activity was not recorded" in codes(trace)["no-device-records"]
    work = work_table(trace)
    assert not work.on_cpu
    assert len(work.time) == 0


def test_cpu_only_is_normal(cases: Path) -> None:
    trace = read_trace(cases / "data/hta/rank_non_gpu/rank_non_gpu.json.gz")
    assert (len(trace.ops.start), len(trace.ranges.start)) == (2424, 43)
    assert [device.kind for device in trace.devices] == ["cpu"]
    assert not trace.quality.warnings
    rows = trace.ops.name == trace.strings.index("aten::item")
    assert (int(rows.sum()), trace.ops.dur[rows].sum()) == (5, 4826)
    work = work_table(trace)
    assert work.on_cpu
    assert work.time.sum() == pytest.approx(trace.ops.self_dur.sum())


def test_mtia_is_a_device(cases: Path) -> None:
    trace = read_trace(cases / "data/hta/mtia_trace_single_rank/mtia_rank_0.json.gz")
    assert [(device.id, device.kind) for device in trace.devices] == [(9, "mtia")]
    events = trace.device_events
    assert len(events.start) == 25_814
    kernels = events.work == Work.KERNEL
    compute = union(events.start[kernels], (events.start + events.dur)[kernels]).total
    # The case's 7,305,597 comes of a tool that rounds both ends of every event inwards to whole microseconds.
    rounded = union(np.ceil(events.start[kernels]), np.floor((events.start + events.dur)[kernels])).total
    assert compute == pytest.approx(7_305_597, rel=1e-3)
    assert rounded == pytest.approx(7_305_597, rel=1e-4)
    assert not work_table(trace).on_cpu


def test_steps_without_device_work(tmp_path: Path) -> None:
    steps = [label(100 * n, 100, f"ProfilerStep#{n}") for n in range(32)]
    ordinary = [kernel(0.12 * n, 0.1, stream=7 + n % 2) for n in range(1590)]
    trace = built(tmp_path, *steps, *ordinary, kernel(195, 1_754_728.0, "huge"))
    assert "30 of 32 steps contain no GPU work" in codes(trace)["steps-without-device-work"]
    assert "99" in codes(trace)["one-event-dominates"] or "100" in codes(trace)["one-event-dominates"]
    assert "unreliable" in codes(trace)["one-event-dominates"]
    assert work_table(trace).time.sum() < 3400


# --- eras, vendors, and halves of a trace


def test_old_category_names(cases: Path) -> None:
    trace = read_trace(cases / "data/kin/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz")
    events = trace.device_events
    assert np.bincount(events.work).tolist() == [8868, 12, 378]
    assert (events.call >= 0).all()
    assert (events.op >= 0).all()
    assert events.stream.min() == 7
    assert len(trace.ops.start) == 20_556  # Without the six ProfilerStep marks, which are ranges.
    assert [step.name for step in trace.steps] == [f"ProfilerStep#{n}" for n in range(5, 11)]
    assert trace.call_stacks[0].endswith("resnet50_profiler_api.py(54): <module>")


def test_intel_and_unknown_vendors(tmp_path: Path) -> None:
    trace = built(
        tmp_path,
        call(0, 5, "urEnqueueKernelLaunch", corr=1, cat="xpu_runtime"),
        kernel(10, 3, "gemm", corr=1),
        {**kernel(20, 4, "strange"), "cat": "acme_work"},
        {"ph": "X", "cat": "acme_note", "name": "n", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"text": "x"}},
    )
    assert kernel_total(trace) == 7
    assert trace.device_events.call.tolist() == [0, -1]
    assert trace.devices[0].kind == "xpu"


def test_halves_of_a_trace(tmp_path: Path) -> None:
    device_only = built(tmp_path, kernel(0, 3), kernel(5, 4))
    assert work_table(device_only).time.sum() == 7
    assert device_only.quality.kernels_without_launch == 2
    counters = [{"ph": "C", "name": "GPU Utilization", "pid": 0, "tid": 0, "ts": n, "args": {"v": n}} for n in range(9)]
    trace = built(tmp_path, *counters)
    assert trace.quality.events == 9
    assert "no operators and no device work" in codes(trace)["no-activity"]
    labels_only = built(tmp_path, {**label(0, 50, "step"), "cat": "gpu_user_annotation"}, kernel(10, 5))
    assert work_table(labels_only).time.sum() == 5  # A label on the device is no work.


def test_what_is_not_wanted_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path, [frame(0, 5, "a.py(1): f"), op(1, 2), {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]",
                 "pid": 1, "tid": 1, "ts": 2, "args": {"Bytes": 4}}])  # fmt: skip
    whole, bare = read_trace(path), read_trace(path, frames=False, memory=False)
    assert whole.frames is not None
    assert len(whole.frames.start) == 1
    assert whole.memory is not None
    assert whole.memory.bytes.tolist() == [4]
    assert bare.frames is None
    assert bare.memory is None
    assert bare.quality.events == 3


# --- bounded work


def test_a_stretch_of_legal_escapes_costs_no_memory(tmp_path: Path) -> None:
    """Mending looks at every backslash; only those that it replaces may cost anything."""
    path = tmp_path / "trace.json"
    path.write_bytes(
        b'{"traceEvents":[' + KERNEL % (1, 10) + b"," + b'\\"' * 1_000_000 + b"," + KERNEL % (20, 5) + b"]}"
    )
    tracemalloc.start()
    try:
        trace = read_trace(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kernel_total(trace) == 15
    assert trace.quality.skipped >= 1
    assert peak < 30e6


def test_mends_among_legal_escapes() -> None:
    text = rb'"\" \\ \n \u00e9 \ud83d\ude00 \\x" "\x \q \ud83d! \\\x \\ud800\udc00 \u12"'
    mended, done = repair.mend(text)
    assert mended == (rb'"\" \\ \n \u00e9 \ud83d\ude00 \\x" "\\x \\q \ufffd! \\\\x \\ud800\ufffd \\u12"')
    assert done == {repair.ESCAPES: 6}
    legal = rb'"\" \\ \/ \b\f\n\r\t \u00E9 \\\\x \\u12"'
    assert repair.mend(legal) == (legal, {})


def test_a_record_nested_too_deep_is_no_cut_file(tmp_path: Path) -> None:
    deep = b'{"ph":"X","cat":"cpu_op","name":"d","ts":9,"dur":1,"args":' + b'{"a":' * 60_000 + b"1" + b"}" * 60_001
    trace = raw(tmp_path, b'{"traceEvents":[' + KERNEL % (1, 10) + b"," + deep + b'],"deviceProperties":[]}')
    assert kernel_total(trace) == 10
    assert trace.quality.skipped == 1
    assert not trace.quality.truncated


def test_numbers_in_names_are_never_too_long_for_an_integer(tmp_path: Path) -> None:
    """Python refuses to read more than 4300 digits."""
    digits = "9" * 5000
    trace = built(tmp_path, [label(0, 10, f"ProfilerStep#{digits}"), kernel(1, 5, f"triton_poi_fused_add_{digits}")])
    assert kernel_total(trace) == 5
    assert take_apart(f"triton_poi_fused_add_{digits}").index is None
    assert take_apart(f"cpp_fused_{digits}").index is None
    assert split_site(f"cpp_fused_add_0@{digits}#cabc") is None
    assert frame_of(f"a.py({digits}): f") is None
    assert parse_stack(f'File "a.py", line {digits}, in f') == ()


def test_names_of_megabytes_are_cut_and_ops_keep_their_time(tmp_path: Path) -> None:
    long = "void k<" + "A" * 3_000_000
    trace = built(tmp_path, kernel(0, 5, long), kernel(9, 6, long), kernel(20, 7, long + "B"))
    assert kernel_total(trace) == 18
    assert len({*trace.device_events.name.tolist()}) == 2
    assert max(map(len, trace.strings)) < 70_000


def test_absurd_nesting_keeps_self_times_and_short_walks(tmp_path: Path) -> None:
    n = 3000
    trace = built(tmp_path, *(op(i, 2 * n - 2 * i, f"op{i % 3}") for i in range(n)))
    assert trace.ops.self_dur.sum() == 2 * n
    assert (trace.ops.self_dur == 2).all()
    depth = np.zeros(n, dtype=int)
    for row, parent in enumerate(trace.ops.parent.tolist()):
        depth[row] = depth[parent] + 1 if parent >= 0 else 0
    assert depth.max() == DEEPEST
