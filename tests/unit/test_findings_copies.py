"""pageable-copy, host-round-trip, bias-copy, exposed-communication: time that moves data."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules import bias_copy, exposed_communication, host_round_trip, pageable_copy, pinned_copy
from ridgeline.profile import Finding
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Call, DeviceInfo, Work


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def test_time_of_copies_alone_is_no_idle_time() -> None:
    """K 0-100, Memcpy HtoD (Pageable) 100-900 of 8,000,000 B, K 900-1000: idle 0, copy alone 80 %, 10.0 GB/s."""
    b = TraceBuilder()
    b.kernel("k", 0.0, 100.0)
    b.line(90.0, 905.0, "train.py", 5, "x = x.to(device)")
    b.copy("Memcpy HtoD (Pageable -> Device)", 100.0, 800.0, launched=95.0, blocks_until=902.0, nbytes=8_000_000)
    b.kernel("k", 900.0, 100.0, launched=899.0)
    context = b.context()
    facts = Facts(context)
    assert facts.idle.total == 0.0
    assert 100 * facts.exposed(facts.copies()).total / facts.recorded_us == pytest.approx(80.0)
    finding = _by_code(find(context), "pageable-copy")[0]
    assert finding.line == 5
    assert finding.evidence["gb_per_s"] == pytest.approx(10.0)
    left = 1 / pageable_copy.LEAST_SPEEDUP  # what link the device has is not known
    # the host's part of the call goes too: the last kernel's launch no longer comes late
    assert finding.saving_us == pytest.approx(800 * (1 - left), rel=0.02)
    assert "pin_memory=True" in finding.message
    assert finding.evidence["mend"] == "pin-memory"
    assert not _by_code(find(context), "data-loading"), "not the loader's"


@pytest.mark.parametrize(("major", "gb_s"), [(7, 12.0), (8, 24.0), (9, 50.0), (12, 50.0)])
def test_pinned_copies_run_at_the_links_rate(major: int, gb_s: float) -> None:
    """8 MB at 5 GB/s; where the recording holds a pinned copy, that tells the link's rate."""
    devices = [DeviceInfo(id=0, name="Some GPU", kind="cuda", properties={"computeMajor": major})]
    b = TraceBuilder()
    b.kernel("k", 0.0, 100.0)
    b.line(90.0, 1705.0, "train.py", 5, "x = x.to(device)")
    b.copy("Memcpy HtoD (Pageable -> Device)", 100.0, 1600.0, launched=95.0, blocks_until=1702.0, nbytes=8_000_000)
    b.kernel("k", 1702.0, 100.0, launched=1701.0)
    (finding,) = _by_code(find(b.context(devices=devices)), "pageable-copy")
    assert finding.evidence["assumed_speedup"] == pytest.approx(gb_s / 5.0)
    b.copy("Memcpy HtoD (Pinned -> Device)", 1810.0, 400.0, launched=1705.0, nbytes=8_000_000)
    (finding,) = _by_code(find(b.context(devices=devices)), "pageable-copy")
    assert finding.evidence["assumed_speedup"] == pytest.approx(20.0 / 5.0)


def test_a_hidden_copy_is_not_suggested() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.kernel("gemm", t, 1000.0, launched=t - 10)
        b.copy("Memcpy HtoD (Pageable -> Device)", t + 100, 300.0, launched=t + 90, nbytes=1e6, stream=8)
    found = _by_code(find(b.context()), "pageable-copy")
    assert [f.severity for f in found] == ["hint"]
    assert found[0].saving_us is None
    assert "pin_memory" not in found[0].message


def test_pinned_copies_are_left_alone() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.copy("Memcpy HtoD (Pinned -> Device)", 100.0, 800.0, launched=90.0, nbytes=8e6)
    assert not _by_code(find(b.context()), "pageable-copy")


def _pinned(exposed: float, *, waits: bool = False) -> TraceBuilder:
    """Steps of 1 ms: a pinned copy of which ``exposed`` µs run alone; with ``waits`` the host waits for it."""
    b = TraceBuilder()
    for k in range(6):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 300, "train.py", 5, "x = x.to(device)")
        b.op("aten::to", t + 1, 290.0 if waits else 20.0)
        b.copy("Memcpy HtoD (Pinned -> Device)", t + 5, exposed, launched=t + 2, nbytes=exposed * 1e4)
        idle = 100.0 if waits else 0.0
        if waits:
            b.sync(t + 8, exposed)
        start = t + 5 + exposed + idle
        b.line(start - idle + 4, t + 1000, "train.py", 6, "loss = model(x)")
        b.kernel("gemm", start, t + 1000 - start + 4, launched=start - 6 if waits else t - 900.0)
    return b


@pytest.mark.parametrize(
    ("share", "expected"), [(pinned_copy.EXPOSED_PCT - 0.5, 0), (pinned_copy.EXPOSED_PCT + 0.5, 1)]
)
def test_pinned_copies_that_run_alone_at_the_edge(share: float, expected: int) -> None:
    found = _by_code(find(_pinned(10.0 * share).context()), "exposed-copy")
    assert len(found) == expected
    if found:
        assert found[0].line == 5
        assert found[0].evidence["gb_per_s"] == pytest.approx(10.0)
        assert found[0].saving_us == pytest.approx(10.0 * share, rel=0.1)


@pytest.mark.parametrize(
    ("share", "severity"), [(pinned_copy.LOUD_PCT - 1, "hint"), (pinned_copy.LOUD_PCT + 1, "information")]
)
def test_pinned_copies_are_loud_only_where_they_cost_much(share: float, severity: str) -> None:
    (finding,) = _by_code(find(_pinned(10.0 * share).context()), "exposed-copy")
    assert finding.severity == severity


def test_a_longer_copy_than_the_computation_is_hidden_in_part_only() -> None:
    (finding,) = _by_code(find(_pinned(700.0).context()), "exposed-copy")
    assert finding.time_us == pytest.approx(700.0, rel=0.02)
    assert finding.saving_us == pytest.approx(300.0, rel=0.05)


def test_a_pinned_copy_that_the_host_waits_for() -> None:
    (finding,) = _by_code(find(_pinned(200.0, waits=True).context()), "blocking-copy")
    assert finding.line == 5
    assert finding.time_us == pytest.approx(100.0, rel=0.1), "the gap behind the wait, not the wait"
    assert finding.evidence["mend"] == "non-blocking"
    assert not _by_code(find(_pinned(200.0).context()), "blocking-copy")


def _round_trip(
    nbytes: float,
    *,
    back: bool = False,
    to: str = "Pageable",
    waits: bool = True,
    text: str = "host = mask.double().cpu().numpy()",
) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t + 300, t + 700, "metrics.py", 4, text)
        b.kernel("gemm", t, 300.0, launched=max(0.0, t - 6))
        b.op("aten::to", t + 301, 60, dims=[[4096, 8]], types=["double"])
        b.op("aten::_to_copy", t + 302, 58, dims=[[4096, 8]], types=["double"])
        b.op("aten::copy_", t + 303, 56, dims=[[4096, 8], [4096, 8]], types=["double", "double"])
        until = t + 356 if waits and to == "Pageable" else None
        b.copy(f"Memcpy DtoH (Device -> {to})", t + 305, 50.0, launched=t + 304, blocks_until=until, nbytes=nbytes)
        if waits and to == "Pinned":
            b.sync(t + 309, 47.0)
        if back:
            b.line(t + 600, t + 690, "metrics.py", 6, "rows = torch.from_numpy(found).to(device)")
            b.copy("Memcpy HtoD (Pageable -> Device)", t + 660, 9.0, launched=t + 640, blocks_until=t + 670, nbytes=64)
        b.kernel("gemm", t + 700, 298.0, launched=t + 695)
    return b


def test_a_round_trip_in_double_precision() -> None:
    finding = _by_code(find(_round_trip(262_144).context()), "host-round-trip")[0]
    assert (finding.file, finding.line) == ("metrics.py", 4)
    assert finding.evidence["double_precision"] is True
    assert finding.time_us == pytest.approx(50 + 345, abs=8), "the copy, and the gap until the next launch"
    assert not _by_code(find(_round_trip(262_144).context()), "hidden-sync"), "said once"


def test_on_the_device_neither_copy_nor_wait_nor_the_hosts_computing_is_left() -> None:
    """Of the host's 339 µs until the next launch a tenth stays. It needs 304 µs before it and 305 after, and sets the pace."""
    (finding,) = _by_code(find(_round_trip(262_144).context()), "host-round-trip")
    assert finding.step_gain_pct == pytest.approx(100 * (1 - (304 + 33.9 + 305) / 1000), abs=0.1)
    (asks,) = _by_code(find(_round_trip(262_144, back=True).context()), "host-round-trip")
    assert (asks.saving_us or 0) < (finding.saving_us or 0), "what comes back is waited for on the device as well"


def test_an_asynchronous_copy_into_pinned_memory_is_no_round_trip() -> None:
    """``x.to("cpu", non_blocking=True)``: torch makes the host's tensor pinned, and nothing waits."""
    context = _round_trip(262_144, to="Pinned", waits=False).context()
    assert not _by_code(find(context), "host-round-trip")


@pytest.mark.parametrize(
    ("to", "text", "said"),
    [
        ("Pinned", "buffer.copy_(mask)", "its memory is pinned, so with non_blocking=True"),
        ("Pageable", "buffer.copy_(mask, non_blocking=True)", "non_blocking=True changes nothing here"),
        ("Pageable", "host = mask.cpu()", ""),
    ],
)
def test_what_non_blocking_would_do(to: str, text: str, said: str) -> None:
    (finding,) = _by_code(find(_round_trip(262_144, to=to, text=text).context()), "host-round-trip")
    assert finding.time_us == pytest.approx(50 + 345, abs=8)
    assert said in finding.message
    assert ("non_blocking" in finding.message) == bool(said)


def test_there_and_back_again() -> None:
    (finding,) = _by_code(find(_round_trip(262_144, back=True).context()), "host-round-trip")
    assert "copied back at metrics.py:6" in finding.message
    assert [(r["line"], r["text"]) for r in finding.evidence["related"]] == [(6, "copied back to the device")]
    (one_way,) = _by_code(find(_round_trip(262_144).context()), "host-round-trip")
    assert one_way.evidence["back_at"] is None


@pytest.mark.parametrize(
    ("nbytes", "stacks", "severity"),
    [
        (host_round_trip.SMALL_BYTES - 8, True, "hint"),
        (host_round_trip.SMALL_BYTES, True, "information"),
        (host_round_trip.SMALL_BYTES - 8, False, "information"),
    ],
)
def test_a_small_copy_whose_gap_cannot_be_judged_is_a_hint(nbytes: int, stacks: bool, severity: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 600, "serve.py", 9, "tokens = logits.argmax(-1).cpu()")
        b.kernel("gemm", t, 500.0, launched=t - 10)
        b.op("aten::to", t + 20, 500)
        b.op("aten::copy_", t + 22, 490)
        b.copy("Memcpy DtoH (Device -> Pageable)", t + 500, 5.0, launched=t + 24, blocks_until=t + 506.0, nbytes=nbytes)
        b.kernel("gemm", t + 700, 299.0, launched=t + 690)
    (finding,) = _by_code(find(b.context(stacks=stacks)), "host-round-trip")
    assert finding.severity == severity


def test_one_number_is_no_round_trip() -> None:
    findings = find(_round_trip(8).context())
    assert not _by_code(findings, "host-round-trip")
    assert _by_code(findings, "hidden-sync")


def test_the_bias_copy_saves_at_most_the_copy() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "model.py", 9, "y = bias + x @ w")
        b.op("aten::addmm", t + 1, 50)
        copy = b.call("cudaMemcpyAsync", t + 10, 4.0, Call.MEMCPY)
        b.kernel("Memcpy DtoD (Device -> Device)", t + 100, 80.0, call=copy, work=Work.MEMCPY, nbytes=33_554_432)
        b.kernel("nvjet", t + 180, 815.0, launched=t + 20)
    finding = _by_code(find(b.context()), "bias-copy")[0]
    assert finding.line == 9
    assert finding.saving_us == finding.saving_bound_us == pytest.approx(80.0)
    assert finding.evidence["bytes"] == [33_554_432]


def _collectives(alone: float, overlap: float) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.kernel("gemm", t, 10_000.0 - alone, launched=t - 10, stream=7)
        start = t + 10_000.0 - alone - overlap
        b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, alone + overlap, launched=t, stream=20)
    return b


@pytest.mark.parametrize(
    ("alone", "expected"),
    [(100 * exposed_communication.SHARE_PCT - 50, 0), (100 * exposed_communication.SHARE_PCT + 50, 1)],
)
def test_exposed_communication_at_the_edge(alone: float, expected: int) -> None:
    assert len(_by_code(find(_collectives(alone, 500.0).context()), "exposed-communication")) == expected


def test_overlap_is_the_part_of_communication_under_computation() -> None:
    """Compute [0, 200], communication [150, 350]: overlap 25 %, exposed 150."""
    b = TraceBuilder()
    b.kernel("gemm", 0.0, 200.0, stream=7)
    b.kernel("ncclDevKernel_AllGather", 150.0, 200.0, stream=20)
    finding = _by_code(find(b.context()), "exposed-communication")[0]
    assert finding.evidence["overlapped_pct"] == pytest.approx(25.0)
    assert finding.time_us == pytest.approx(150.0)
    assert finding.saving_bound_us == pytest.approx(150.0)


def test_one_pool_of_communication_is_claimed_once() -> None:
    """A straggler and exposed communication speak of the same time: the second has no amount of its own."""
    b = TraceBuilder()
    total = 0.0
    for i, dur in enumerate([530_000.0, 100_000.0, 200_000.0, 319_680.0]):
        b.kernel("ncclDevKernel_AllReduce", 1_000_000.0 * i, dur, launched=1_000_000.0 * i - 10, stream=20)
        total += dur
    findings = find(b.context())
    skew = _by_code(findings, "communication-skew")[0]
    assert skew.saving_us is None
    assert skew.evidence["ratio"] == pytest.approx(5.3)
    claimed = sum(f.saving_us or 0.0 for f in findings if "communication" in f.code)
    assert claimed <= total == pytest.approx(1_149_680.0)
    (exposed,) = _by_code(findings, "exposed-communication")
    assert exposed.time_us == pytest.approx(total)
    assert exposed.saving_us is None, "there is no computation that could hide it"


def test_communication_that_is_hidden_in_part_is_reported_with_the_rest() -> None:
    """40 % of it runs beside the product: the other 60 % are exposed."""
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "train.py", 21, "loss.backward()")
        b.kernel("gemm", t, 6_000.0, launched=t - 10)
        b.kernel("ncclDevKernel_AllReduce", t + 5_000.0, 2_500.0, launched=t + 10, stream=20)
        b.kernel("gemm", t + 7_500.0, 2_500.0, launched=t + 20)
    (finding,) = _by_code(find(b.context()), "exposed-communication")
    assert finding.evidence["overlapped_pct"] == pytest.approx(40.0)
    assert finding.time_us == pytest.approx(1_500.0)
    assert finding.saving_us == pytest.approx(750.0)
    assert finding.saving_bound_us == pytest.approx(1_500.0)
    assert finding.line == 21


@pytest.mark.parametrize(
    ("kernel", "recorded", "named", "advice"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", None, "AllReduce (by the kernel's name)", "no_sync()"),
        ("ncclDevKernel_SendRecv", "all_to_all", "all_to_all,", "chunks of the batch"),
        ("ncclDevKernel_Generic", "_allgather_base", "_allgather_base,", "forward_prefetch"),
        ("ncclDevKernel_Generic", "broadcast", "broadcast,", "broadcast_buffers=False"),
        ("ncclDevKernel_SendRecv", None, "SendRecv (by the kernel's name)", "micro-batches"),
    ],
)
def test_what_to_do_depends_on_the_collective_as_recorded(
    kernel: str, recorded: str | None, named: str, advice: str
) -> None:
    """A kernel's name does not tell the collective; what the library recorded does."""
    b = TraceBuilder()
    b.kernel("gemm", 0.0, 500.0)
    b.kernel(kernel, 500.0, 300.0, stream=20)
    context = b.context()
    if recorded is not None:
        context.trace.collectives = {1: {"Collective name": recorded, "Group size": 8}}
    (finding,) = _by_code(find(context), "exposed-communication")
    assert named in finding.message
    assert advice in finding.message
    (kind,) = finding.evidence["collectives"]
    assert kind["recorded"] is (recorded is not None)
    assert kind["group_sizes"] == ([8] if recorded else [])


def test_data_parallel_is_named() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        for i, name in enumerate(("Broadcast", "Scatter", "Gather")):
            b.op(name, t + 10 * i, 5.0)
        b.kernel("Memcpy PtoP (Device -> Device)", t, 300.0, work=Work.MEMCPY)
        b.kernel("gemm", t + 300, 700.0)
    (finding,) = _by_code(find(b.context()), "exposed-communication")
    assert "DistributedDataParallel, one process a device" in finding.message
    assert finding.evidence["collectives"][0]["name"] == "copies between devices"


def test_collectives_that_go_through_the_host() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.kernel("gemm", t, 600.0, launched=t - 5)
        b.line(t + 500, t + 900, "train.py", 33, "dist.all_reduce(grad)", tid=9)
        b.range("gloo:all_reduce", t + 500, 400.0, tid=9)
    (finding,) = _by_code(find(b.context()), "exposed-communication")
    assert finding.title == "Devices communicate through the host"
    assert finding.line == 33
    assert finding.time_us == pytest.approx(300.0), "while the device works they cost nothing"


@pytest.mark.parametrize(
    ("share", "severity"), [(bias_copy.LOUD_PCT - 1, "hint"), (bias_copy.LOUD_PCT + 1, "information")]
)
def test_an_unasked_copy_is_loud_only_where_it_costs_much(share: float, severity: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "model.py", 8, "y = y.transpose(1, 2).reshape(b, n, c)")
        b.op("aten::reshape", t + 1, 50)
        b.op("aten::copy_", t + 10, 30)
        b.kernel("copy", t + 40, 10 * share, launched=t + 15)
        b.kernel("gemm", t + 40 + 10 * share, 960 - 10 * share, launched=t + 60)
    (finding,) = _by_code(find(b.context()), "unasked-copy")
    assert finding.severity == severity


@pytest.mark.parametrize(("steps", "expected"), [(False, 0), (True, 1)])
def test_taking_a_model_to_the_device_is_no_cost_of_its_steps(steps: bool, expected: int) -> None:
    """A recording of the whole program begins with it; batches of steps come again."""
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        if steps:
            b.step(t, 10_000.0)
        if steps or k == 0:
            b.line(t, t + 3_000, "train.py", 85, "model = GPT().to(device)")
            for i in range(4):
                u = t + 500.0 * i
                b.copy("Memcpy HtoD (Pageable -> Device)", u, 400.0, launched=u - 5, blocks_until=u + 401.0, nbytes=1e6)
        b.kernel("gemm", t + 4_000, 5_000.0)
    sidecar = Sidecar(windows=[Window(trace="trace.json.gz", reason="whole")])
    found = [f for f in _by_code(find(b.context(sidecar=sidecar)), "pageable-copy") if f.line == 85]
    assert len(found) == expected


@pytest.mark.parametrize(("first", "left_out"), [(900.0, False), (346_000.0, True)])
def test_the_first_collective_waits_until_all_ranks_record(first: float, left_out: bool) -> None:
    """Two ranks: their recordings do not begin at one moment."""
    b = TraceBuilder()
    t = 0.0
    for k in range(8):
        dur = first if k == 0 else 400.0
        b.kernel("gemm", t, 1_000.0, launched=t - 10)
        b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", t + 1_000.0, dur, launched=t - 5, stream=20)
        b.kernel("gemm", t + 1_000.0 + dur, 1_500.0, launched=t - 2)
        t += 2_500.0 + dur
    found = find(b.context())
    assert bool(_by_code(found, "exposed-communication")) is not left_out, "what is left is 0.8 % of the recording"
    assert not _by_code(found, "communication-skew")


def test_what_is_left_out_of_communication_is_said() -> None:
    b = TraceBuilder()
    t = 0.0
    for k in range(8):
        dur = 9_000.0 if k == 0 else 2_000.0
        b.kernel("gemm", t, 1_000.0, launched=t - 10)
        b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", t + 1_000.0, dur, launched=t - 5, stream=20)
        t += 1_000.0 + dur
    (finding,) = _by_code(find(b.context()), "exposed-communication")
    assert "The first collective of the recording (9 ms) is left out" in finding.message
    assert finding.time_us == pytest.approx(7 * 2_000.0)
    assert finding.evidence["left_out_first_us"] == 9_000.0


@pytest.mark.parametrize(("late", "lost"), [(False, 100.0), (True, 300.0)])
def test_where_the_host_sets_the_pace_its_wait_for_a_copy_is_lost(late: bool, lost: float) -> None:
    """It launches nothing while it waits 300 µs. ``late``: kernels come one by one, each launched when the device is dry."""
    b = TraceBuilder()
    for k in range(6):
        t = 2_000.0 * k
        b.step(t, 2_000.0)
        b.line(t, t + 320, "train.py", 5, "x = x.to(device)")
        b.op("aten::to", t + 1, 310.0)
        b.copy("Memcpy HtoD (Pinned -> Device)", t + 5, 300.0, launched=t + 2, nbytes=3e6)
        b.sync(t + 8, 300.0)
        b.line(t + 320, t + 2_000, "train.py", 6, "loss = model(x)")
        if late:
            for i in range(8):
                u = t + 405.0 + 195.0 * i
                b.kernel("small", u, 100.0, launched=u - 20)
        else:
            b.kernel("gemm", t + 405.0, 1_600.0, launched=t + 385)
    (finding,) = _by_code(find(b.context()), "blocking-copy")
    assert finding.time_us == pytest.approx(lost, rel=0.15)
