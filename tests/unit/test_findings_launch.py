"""launch-bound, small-kernels, idle, profiler-idle: what counts as the host's lateness, and what does not."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules import small_kernels
from ridgeline.findings.rules.launch_bound import SHARE_PCT
from ridgeline.findings.rules.profiler_idle import SLOWDOWN
from ridgeline.profile import Finding
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Call


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _late(gap_pct: float, *, steps: int = 3, step: float = 10_000.0, kernels: int = 10) -> TraceBuilder:
    """Kernels each launched only after the one before has ended; ``gap_pct`` of the step is gaps."""
    b = TraceBuilder()
    period = step / kernels
    gap = period * gap_pct / 100.0
    for k in range(steps):
        b.step(k * step, step)
        for i in range(kernels):
            t = k * step + i * period
            b.line(t, t + period, "infer.py", 10 + i % 2, f"x = layer{i}(x)")
            b.kernel("small", t + gap, period - gap, launched=t + gap / 2)
    return b


@pytest.mark.parametrize(("share", "expected"), [(SHARE_PCT - 1, 0), (SHARE_PCT + 1, 1)])
def test_at_the_edge(share: float, expected: int) -> None:
    assert len(_by_code(find(_late(share).context()), "launch-bound")) == expected


def test_gain_line_and_what_graphs_need() -> None:
    finding = _by_code(find(_late(50.0).context()), "launch-bound")[0]
    assert (finding.file, finding.line) in {("infer.py", 10), ("infer.py", 11)}
    assert finding.time_us == pytest.approx(5000.0, rel=0.02)
    assert finding.saving_us == pytest.approx(4990.0, rel=0.02), "a gap of a microsecond stays"
    assert finding.evidence["cuda_graph_needs"]["same_launches_every_step"] is True
    assert finding.evidence["cuda_graph_needs"]["syncs_per_step"] == 0
    assert "CUDA graphs" in finding.message


def test_gaps_under_a_full_queue_are_for_fusion() -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(k * 1000.0, 1000.0)
        for i in range(10):
            t = k * 1000.0 + i * 100.0
            b.kernel("gemm", t + 30, 70.0, launched=k * 1000.0 - 50 + i)
    findings = find(b.context())
    assert not _by_code(findings, "launch-bound")
    count, total = Facts(b.context()).queue.short_gaps
    assert (count, total) == (29, pytest.approx(29 * 30.0))


def test_waiting_loading_and_copying_are_not_late_launches() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = k * 1000.0
        b.step(t, 1000.0)
        b.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t, 400.0)
        b.kernel("gemm", t + 405, 595.0, launched=t + 401)
    assert not _by_code(find(b.context()), "launch-bound")


def test_device_idle_is_of_the_device_not_of_a_stream() -> None:
    """One stream waits 49 ms while another keeps the device busy."""
    b = TraceBuilder()
    b.kernel("a", 0.0, 1000.0, stream=7)
    b.kernel("a", 50_000.0, 1000.0, stream=7)
    b.kernel("b", 0.0, 51_000.0, stream=8)
    facts = Facts(b.context())
    assert facts.idle.total == 0.0
    assert not [f for f in find(b.context()) if f.code in ("launch-bound", "idle", "single-gap")]


def test_kernels_of_a_microsecond_every_ten_are_ten_per_cent_busy() -> None:
    b = TraceBuilder()
    b.step(0.0, 10_000.0)
    for i in range(1000):
        b.kernel("tiny", i * 10.0 + 9.0, 1.0, launched=i * 10.0 + 4.0)
    facts = Facts(b.context())
    assert 100 * facts.busy.total / facts.recorded_us == pytest.approx(10.0)
    finding = _by_code(find(b.context()), "launch-bound")[0]
    assert "sampled utilisation" in finding.message
    assert "near 100 %" in finding.message


def test_with_stacks_gaps_prove_nothing() -> None:
    findings = find(_late(60.0).context(stacks=True))
    assert not _by_code(findings, "launch-bound")
    assert not _by_code(findings, "idle")
    assert _by_code(findings, "profiler-idle")[0].severity == "hint"


def test_with_stacks_the_calls_alone_may_prove_it() -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(k * 1000.0, 1000.0)
        for i in range(50):
            b.kernel("tiny", k * 1000.0 + i * 20 + 10, 1.0)  # its launching call takes 3 µs
    finding = _by_code(find(b.context(stacks=True)), "launch-bound")[0]
    assert finding.saving_us is None, "no promise on such a recording"
    assert finding.evidence["call_us_per_step"] == pytest.approx(150.0)
    assert finding.evidence["busy_us_per_step"] == pytest.approx(50.0)


def test_idle_that_exists_only_under_the_profiler_is_corrected_by_the_plain_step() -> None:
    """Plain 3.16 s, profiled 6.17 s, 3.0 s of kernels in both: 5.1 % idle, not 51.4 %."""
    b = TraceBuilder()
    b.step(0.0, 6_170_000.0)
    for i in range(3):
        b.kernel("k", i * 2_000_000.0 + 1_000_000.0, 1_000_000.0, launched=i * 2_000_000.0 + 900_000.0)
    findings = find(b.context(stacks=True, plain_step_us=3_160_000.0, profiled_step_us=6_170_000.0))
    note = _by_code(findings, "profiler-idle")[0]
    assert note.evidence["corrected_idle_pct"] == pytest.approx(5.06, abs=0.05)
    assert note.evidence["idle_share_pct"] == pytest.approx(51.4, abs=0.1)
    assert not _by_code(findings, "launch-bound")


@pytest.mark.parametrize(("slowdown", "expected"), [(SLOWDOWN - 0.05, 0), (SLOWDOWN + 0.05, 1)])
def test_slowdown_at_the_edge(slowdown: float, expected: int) -> None:
    context = _late(60.0).context(plain_step_us=10_000.0 / slowdown, profiled_step_us=10_000.0)
    assert len(_by_code(find(context), "profiler-idle")) == expected


def _loop(count: int, time: float = 2.0, *, compiled: bool = False) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "loss.py", 7, "total = total + out[i].sum()")
        if compiled:
            b.op("Torch-Compiled Region: 0/0", t, 9_000)
        for i in range(count):
            b.op("aten::sum", t + 20 * i, 10.0, dims=[[64]], types=["float"])
            b.kernel("reduce", t + 20 * i + 12, time, launched=t + 20 * i + 5)
        b.kernel("gemm", t + 20 * count + 20, 9_900 - 20 * count, launched=t + 20 * count)
    return b


@pytest.mark.parametrize(
    ("count", "expected"), [(small_kernels.COUNT_PER_STEP - 1, 0), (small_kernels.COUNT_PER_STEP + 1, 1)]
)
def test_small_kernels_at_the_edge_of_their_number(count: int, expected: int) -> None:
    found = _by_code(find(_loop(count).context()), "small-kernels")
    assert len(found) == expected
    if found:
        assert (found[0].file, found[0].line) == ("loss.py", 7)
        assert found[0].saving_us is not None


@pytest.mark.parametrize(("time", "expected"), [(small_kernels.MEDIAN_US - 1, 1), (small_kernels.MEDIAN_US + 1, 0)])
def test_small_kernels_at_the_edge_of_their_time(time: float, expected: int) -> None:
    assert len(_by_code(find(_loop(60, time).context()), "small-kernels")) == expected


def test_compiled_code_repeats_by_itself() -> None:
    assert not _by_code(find(_loop(80, compiled=True).context()), "small-kernels")


def test_the_profilers_buffer_of_a_final_synchronisation_is_not_a_gap() -> None:
    """1.78 ms of final synchronisation over 26 µs of work."""
    b = TraceBuilder()
    b.step(0.0, 2000.0)
    b.kernel("add", 30.0, 26.0, launched=10.0)
    b.call("cudaDeviceSynchronize", 60.0, 1780.0, Call.SYNC)
    codes = {f.code for f in find(b.context())}
    assert not codes & {"hidden-sync", "launch-bound"}


def test_with_the_line_timeline_gaps_need_a_plain_step() -> None:
    sidecar = Sidecar(windows=[Window(trace="trace.json.gz", reason="stable", lines=True)])
    assert not _by_code(find(_late(60.0).context(sidecar=sidecar)), "launch-bound")
    beside = find(_late(60.0).context(sidecar=sidecar, plain_step_us=9_500.0, profiled_step_us=10_000.0))
    (finding,) = _by_code(beside, "launch-bound")
    assert finding.evidence["scaled_to_plain_step"] is True
    assert finding.time_us == pytest.approx(6000.0 - 500.0, rel=0.01)
