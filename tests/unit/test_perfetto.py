"""The cleaned copy renders, and the server gives it to nobody else."""

from __future__ import annotations

import gzip
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.perfetto import tracks as tracks_module
from ridgeline.perfetto.clean import Wanted, clean
from ridgeline.perfetto.excerpt import Excerpt, around, beginning, cut
from ridgeline.perfetto.lanes import sublanes
from ridgeline.perfetto.page import selection
from ridgeline.perfetto.server import LocalUi, Served, TraceServer
from ridgeline.perfetto.tracks import Tracks
from ridgeline.profile import Finding, ProfileDocument, Source, Step
from ridgeline.trace.errors import TraceError
from ridgeline.trace.reader import read_trace

Event = dict[str, Any]


def kernel(name: str, ts: float, dur: float, correlation: int, **more: Any) -> Event:
    args = {"device": 0, "stream": 7, "correlation": correlation}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args, **more}


def launch(ts: float, correlation: int) -> Event:
    return {
        "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 50, "tid": 50, "ts": ts, "dur": 3,
        "args": {"correlation": correlation},
    }  # fmt: skip


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def cleaned(tmp_path: Path, *events: Event, **options: Any) -> list[Event]:
    source = written(tmp_path / "a trace ü.json", json.dumps({"traceEvents": list(events)}))
    before = source.read_bytes()
    clean(source, tmp_path / "out.json.gz", **options)
    assert source.read_bytes() == before, "the original is left alone"
    with gzip.open(tmp_path / "out.json.gz") as stream:
        made: list[Event] = json.load(stream)["traceEvents"]
    return made


def test_overlapping_kernels_are_both_kept_on_lanes_of_their_own(tmp_path: Path) -> None:
    """Programmatic dependent launch: Perfetto drops the second of two slices that overlap without nesting."""
    made = cleaned(tmp_path, kernel("a", 100, 102.304, 1), kernel("b", 200.256, 59.296, 2))
    slices = [e for e in made if e["ph"] == "X"]
    assert [e["name"] for e in slices] == ["a", "b"]
    assert slices[0]["tid"] != slices[1]["tid"]
    names = {e["tid"]: e["args"]["name"] for e in made if e["name"] == "thread_name"}
    assert names[slices[0]["tid"]] == "stream 7"
    assert "overlapping" in names[slices[1]["tid"]]


def test_a_rounding_of_a_nanosecond_is_no_overlap() -> None:
    level = sublanes(np.zeros(2, np.int32), np.array([100.001, 105.001]), np.array([5.001, 2.0]))
    assert level.tolist() == [0, 0]


def test_nested_calls_stay_together() -> None:
    level = sublanes(np.zeros(3, np.int32), np.array([0.0, 1.0, 2.0]), np.array([10.0, 5.0, 2.0]))
    assert level.tolist() == [0, 0, 0]


def test_ids_that_perfetto_mistakes_are_replaced_and_launches_joined(tmp_path: Path) -> None:
    made = cleaned(tmp_path, launch(90, 1), kernel("k", 100, 10, 1))
    for event in made:
        assert event["pid"] >= 99
        assert event.get("tid") != event["pid"]
    (start,), (end,) = [[e for e in made if e["ph"] == ph] for ph in "sf"]
    assert (start["ts"], end["ts"], start["id"]) == (90, 100, end["id"])


def test_raw_control_characters_become_legal_json(tmp_path: Path) -> None:
    text = '{"traceEvents":[{"ph":"X","cat":"kernel","name":"a\x01b\nc","pid":0,"tid":7,"ts":1,"dur":5}]}'
    source = written(tmp_path / "t.json", text)
    clean(source, tmp_path / "o.gz")
    assert source.read_text(encoding="utf-8") == text
    (one,) = [e for e in json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()))["traceEvents"] if e["ph"] == "X"]
    assert one["dur"] == 5
    assert one["name"].startswith("a")


def test_a_damaged_trace_becomes_strict_json(tmp_path: Path) -> None:
    """Half a record, NaN, bytes that are no UTF-8, wrong escapes: Perfetto refuses such a file whole."""
    one = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":%d}'
    text = (
        b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\x01b\xff\\q","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":NaN}},'
        + one % (1, 5)
        + b',{"ph":"X","cat":"kernel,"dur":9},'
        + one % (9, 6)
        + b',{"ph":"X","ca'
    )
    source = tmp_path / "t.json"
    source.write_bytes(text)
    clean(source, tmp_path / "o.gz")
    assert source.read_bytes() == text
    made = json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()), parse_constant=pytest.fail)["traceEvents"]
    slices = [e for e in made if e["ph"] == "X"]
    assert [e["name"] for e in slices] == ["a\x01b\N{REPLACEMENT CHARACTER}\\q", "k", "k"]
    assert sum(e["dur"] for e in slices if e["name"] == "k") == 11


def test_what_is_no_trace_leaves_no_copy(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no JSON"):
        clean(written(tmp_path / "x", "hello"), tmp_path / "y")
    assert not (tmp_path / "y").exists()


def host(name: str, category: str, ts: float, dur: float, tid: int = 50) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": 50, "tid": tid, "ts": ts, "dur": dur}


def excerpt(tmp_path: Path, *events: Event, start: float, end: float) -> list[Event]:
    source = written(tmp_path / "large.json", json.dumps({"traceEvents": list(events)}))
    count = cut(source, tmp_path / "part.json.gz", Excerpt(start_us=start, end_us=end))
    with gzip.open(tmp_path / "part.json.gz") as stream:
        made: list[Event] = json.load(stream)["traceEvents"]
    assert len(made) == count
    return made


def test_an_excerpt_keeps_the_launch_that_lies_outside_and_what_it_was_made_in(tmp_path: Path) -> None:
    made = excerpt(
        tmp_path, kernel("here", 1000, 5, 1), kernel("far", 30, 5, 2), launch(10, 1), launch(20, 2),
        host("aten::mm", "cpu_op", 8, 7), host("ProfilerStep#3", "user_annotation", 0, 500),
        host("aten::add", "cpu_op", 18, 7), host("aten::mm", "cpu_op", 8, 7, tid=51),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 50, "tid": 50, "ts": 995.0, "args": {"Bytes": 8}},
        start=990, end=1010,
    )  # fmt: skip
    assert [e["name"] for e in made] == ["here", "cudaLaunchKernel", "aten::mm", "ProfilerStep#3", "[memory]"]
    assert made[0] == kernel("here", 1000, 5, 1), "records are as they were"


def test_an_excerpt_of_nothing_known_begins_with_the_first_device_work(tmp_path: Path) -> None:
    source = written(
        tmp_path / "t.json",
        json.dumps({"traceEvents": [launch(10, 1), kernel("b", 1e6, 5, 2), kernel("a", 9e5, 5, 1)]}),
    )
    found = beginning(source)
    assert found is not None
    assert found.start_us < 9e5 < found.end_us
    assert beginning(written(tmp_path / "u.json", json.dumps({"traceEvents": [launch(10, 1)]}))) is None


def test_an_excerpt_is_never_long(tmp_path: Path) -> None:
    found = around(1e6, 60e6)
    assert found.end_us - found.start_us == 1e6


def test_times_since_1970_keep_their_nanoseconds(tmp_path: Path) -> None:
    """A float64 holds a quarter of a microsecond there; slices would overlap, and none would be found."""
    text = (
        '{"traceEvents":[{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1700000000000000.125,"dur":1.25},'
        '{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1700000000000001.375,"dur":2}]}'
    )
    wanted = Wanted(symbol="b", ts_us=1700000000000001.375, dur_us=2.0)
    found = clean(written(tmp_path / "t.json", text), tmp_path / "o.gz", wanted=wanted)
    assert found.moved == 0
    assert found.selected is not None
    assert (found.selected.ts_ns, found.selected.dur_ns) == (1700000000000001375, 2000)
    assert b'"ts":1700000000000001.375' in gzip.decompress((tmp_path / "o.gz").read_bytes())


@pytest.mark.parametrize("category", ["cpu_op", "user_annotation"])
def test_without_an_accelerator_operators_are_selected_and_linked(tmp_path: Path, category: str) -> None:
    source = written(tmp_path / "t.json", json.dumps({"traceEvents": [host("aten::mm", category, 100.5, 20)]}))
    wanted = Wanted(symbol="aten::mm", ts_us=100.5, dur_us=20.0)
    found = clean(source, tmp_path / "o.gz", wanted=wanted, links={"aten::mm": "http://127.0.0.1:1/t/s/k"}).selected
    assert found is not None
    (one,) = [e for e in json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()))["traceEvents"] if e["ph"] == "X"]
    assert (found.ts_ns, found.dur_ns, one["args"]) == (100_500, 20_000, {"source": "http://127.0.0.1:1/t/s/k"})


def test_the_launch_that_is_wanted_is_found_with_its_lane(tmp_path: Path) -> None:
    """A label of the same time, another kernel of the same time, and another launch of the same kernel are not it."""
    events = [
        {"ph": "X", "cat": "gpu_user_annotation", "name": "k", "pid": 0, "tid": 7, "ts": 100.0, "dur": 10.0},
        kernel("other", 100, 10, 1), kernel("k", 50, 10, 2), kernel("k", 100, 10, 3, tid=8),
    ]  # fmt: skip
    source = written(tmp_path / "t.json", json.dumps({"traceEvents": events}))
    found = clean(source, tmp_path / "o.gz", wanted=Wanted(symbol="k", ts_us=100.0, dur_us=10.0)).selected
    assert found is not None
    made = json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()))["traceEvents"]
    (one,) = [e for e in made if e["ph"] == "X" and (e["pid"], e["tid"]) == (found.pid, found.tid)]
    assert (one["name"], one["ts"] * 1000, found.ts_ns) == ("k", 100_000, 100_000)
    assert clean(source, tmp_path / "o.gz", wanted=Wanted(symbol="gone", ts_us=100.0, dur_us=10.0)).selected is None


def test_selection_is_in_nanoseconds_and_frames_the_neighbourhood() -> None:
    found = selection(5098720592109184, 50720, None, None)
    assert (found["ts"], found["dur"]) == ("5098720592109184", "50720")
    assert int(found["visStart"]) < 5098720592109184 < 5098720592109184 + 50720 < int(found["visEnd"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TraceServer]:
    ui = tmp_path / "ui"
    (ui / "v1").mkdir(parents=True)
    (ui / "index.html").write_text("<p>ui</p>")
    (ui / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(b"{}"))
    revealed: list[str] = []
    served = Served(
        trace=tmp_path / "trace.json.gz", title="t", ui=LocalUi(ui, "v1"), places={"k1": [("/x/a.py", 3, "y = x < 1")]},
        reveal=revealed.append,
    )  # fmt: skip
    running = TraceServer(served, idle_s=60)
    running.revealed = revealed  # type: ignore[attr-defined]
    yield running
    running.close()


def ask(server: TraceServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()


def test_the_page_and_the_trace_are_behind_the_token(server: TraceServer) -> None:
    token = server.served.token
    assert len(token) >= 22  # 128 bits in base64
    assert ask(server, f"/{token}/").status == 200
    answer = ask(server, f"/{token}/trace.json.gz")
    assert gzip.decompress(answer.read()) == b"{}"
    assert answer.getheader("Access-Control-Allow-Origin") is None
    for path in (
        "/",
        "/trace.json.gz",
        f"/{token[:-1]}x/",
        f"/{token[:-1]}x/trace.json.gz",
        "//trace.json.gz",
        "/status",
    ):
        assert ask(server, path).status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_another_host_is_refused(server: TraceServer, host: str) -> None:
    assert ask(server, f"/{server.served.token}/", Host=host).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:9999", "localhost", "localhost:8080", "[::1]:80"])
def test_forwarded_ports_of_this_machine_work(server: TraceServer, host: str) -> None:
    assert ask(server, f"/{server.served.token}/", Host=host).status == 200


def test_a_name_that_the_editor_forwards_by_works_once_it_is_told(server: TraceServer) -> None:
    path, host = f"/{server.served.token}/", "me-40000.app.example"
    assert ask(server, path, Host=host).status == 403
    server.allow("me-40000.app.example")
    assert ask(server, path, Host=host).status == 200
    assert ask(server, path, Host=host, Origin=f"https://{host}").status == 200
    assert ask(server, path, Host="other.app.example").status == 403
    server.allow("evil.example/../*")
    assert ask(server, path, Host="evil.example/../*").status == 403


def test_another_origin_is_refused(server: TraceServer) -> None:
    path = f"/{server.served.token}/trace.json.gz"
    assert ask(server, path, Origin="https://evil.example").status == 403
    assert ask(server, path, Origin=f"http://127.0.0.1:{server.port + 1}").status == 403
    assert ask(server, path, Origin=f"http://127.0.0.1:{server.port}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "v1/../../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "v1/..%2f..%2fsecret.txt",
        "/etc/passwd",
    ],
)
def test_nothing_outside_the_interface_is_given(server: TraceServer, path: str) -> None:
    assert ask(server, f"/ui/v1/{path}").status == 404
    assert ask(server, f"/{server.served.token}/{path}").status == 404


def test_a_link_out_of_the_interface_is_not_followed(server: TraceServer, tmp_path: Path) -> None:
    (tmp_path / "ui" / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert ask(server, "/ui/v1/link.txt").status == 404


def test_the_interface_comes_with_a_policy_and_its_types(server: TraceServer) -> None:
    answer = ask(server, "/ui/v1/v1/engine.wasm")
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "application/wasm"
    assert "connect-src 'self'" in (answer.getheader("Content-Security-Policy") or "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_possible(server: TraceServer, method: str) -> None:
    assert ask(server, f"/{server.served.token}/", method).status == 501


def test_a_slice_links_back_to_the_editor(server: TraceServer) -> None:
    text = ask(server, f"/{server.served.token}/s/k1").read().decode()
    assert "/x/a.py:3" in text
    assert "y = x &lt; 1" in text
    assert server.revealed == ["k1"]  # type: ignore[attr-defined]
    assert ask(server, f"/{server.served.token}/s/other").status == 404


def test_it_ends_when_nobody_asks(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(b"")
    running = TraceServer(Served(trace=tmp_path / "t.gz", title="t"), idle_s=0.3)
    assert running.closed.wait(10)
    time.sleep(0.1)
    with pytest.raises(OSError):
        ask(running, f"/{running.served.token}/")


def counters(made: list[Event]) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """(name, process) -> (time, value), the name as the interface writes it."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for event in made:
        if event["ph"] == "C":
            ((key, value),) = event["args"].items()
            found.setdefault((f"{event['name']} {key}", event["pid"]), []).append((event["ts"], value))
    return found


def test_tracks_of_each_device_of_memory_and_of_findings(tmp_path: Path) -> None:
    def on(device: int, event: Event) -> Event:
        return {**event, "pid": device, "args": {**event["args"], "device": device}}

    def memory(ts: float, total: int, device_type: int, device: int) -> Event:
        args = {"Total Allocated": total, "Total Reserved": 0, "Bytes": 8, "Addr": 1, "Device Type": device_type,
                "Device Id": device}  # fmt: skip
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 50, "tid": 50, "ts": ts, "args": args}

    events = [
        launch(10, 1), launch(12, 2), launch(14, 3), on(0, kernel("a", 20, 10, 1)), on(0, kernel("b", 25, 15, 2)),
        on(1, kernel("c", 50, 5, 3)), memory(11, 100, 1, 0), memory(13, 300, 1, 0), memory(15, 7, 0, -1),
    ]  # fmt: skip
    source = written(tmp_path / "t.json", json.dumps({"traceEvents": events}))
    document = ProfileDocument(
        source=Source(kind="trace", path="t"),
        findings=[
            Finding(code="hidden-sync", title="The host waits", severity="warning", message="m", file="a.py", line=3)
        ],
        steps=[Step(name="s", start_us=5.0, wall_us=60.0)],
    )
    clean(source, tmp_path / "o.gz", tracks=Tracks(read_trace(source, frames=False), document))
    made = json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()))["traceEvents"]
    processes = {e["args"]["name"]: e["pid"] for e in made if e["name"] == "process_name"}
    found = counters(made)
    assert found["device busy, GPU 0", processes["GPU 0"]] == [(20, 1), (40, 0)]
    assert found["device busy, GPU 1", processes["GPU 1"]] == [(50, 1), (55, 0)]
    assert found["launches waiting, GPU 0", processes["GPU 0"]] == [(10, 1), (12, 2), (20, 1), (25, 0)]
    assert found["memory allocated, GPU 0", processes["GPU 0"]] == [(11, 100), (13, 300)]
    assert found["memory allocated", processes["python (pid 50)"]] == [(15, 7)]
    (finding,) = [e for e in made if e.get("cat") == "finding"]
    assert (finding["ts"], finding["dur"], finding["args"]["line"]) == (5.0, 60.0, "a.py:3")


def test_a_counter_with_too_many_points_keeps_its_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks_module, "MAX_POINTS", 10)
    events = [launch(n, n) for n in range(1, 101)] + [kernel("k", 1000 + 10 * n, 5, n) for n in range(1, 101)]
    source = written(tmp_path / "t.json", json.dumps({"traceEvents": events}))
    clean(source, tmp_path / "o.gz", tracks=Tracks(read_trace(source, frames=False)))
    made = json.loads(gzip.decompress((tmp_path / "o.gz").read_bytes()))["traceEvents"]
    for (name, _), points in counters(made).items():
        assert len(points) <= 10
        assert max(value for _, value in points) == (100 if name.startswith("launches") else 1)
