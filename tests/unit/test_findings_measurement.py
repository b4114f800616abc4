"""Memory, the recording's own doubts, the user's clocks, and that every code has its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ridgeline.findings.rules as rules
from builders import TraceBuilder, unix_ns
from ridgeline.findings import find
from ridgeline.findings.rules import cold_start, memory, provenance_gap, variation, window
from ridgeline.profile import Allocation, Finding, Kernel, Memory, Unattributed
from ridgeline.sidecar import Compile, Sidecar
from ridgeline.trace.tables import Call, DeviceInfo

ROOT = Path(__file__).resolve().parents[2]


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _busy(walls: list[float]) -> TraceBuilder:
    b, t = TraceBuilder(), 0.0
    for wall in walls:
        b.step(t, wall)
        b.kernel("gemm", t, wall, launched=t - 5)
        t += wall
    return b


# -- the recording ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "expected"), [(cold_start.COLD_RATIO - 0.05, 0), (cold_start.COLD_RATIO + 0.05, 1)])
def test_cold_step_at_the_edge(ratio: float, expected: int) -> None:
    assert len(_by_code(find(_busy([1000 * ratio, 1000, 1000]).context()), "cold-step")) == expected


def test_the_steps_to_select_are_written_as_the_command_takes_them() -> None:
    from ridgeline.cli_analyze import _steps

    (finding,) = _by_code(find(_busy([3000.0, 1000.0, 1000.0, 1000.0]).context()), "cold-step")
    asked = re.search(r"--select-steps (\S+)\.$", finding.message)
    assert asked is not None
    assert _steps(asked[1]) == (1, 4)


@pytest.mark.parametrize(("first", "expected"), [(227.8, 1), (90.0, 0)])
def test_a_cold_ranges_gap(first: float, expected: int) -> None:
    """227.8 µs from the range to its first op on the first step, 5.5 and 4.5 on the others."""
    b = TraceBuilder()
    for k, gap in enumerate([first, 5.5, 4.5]):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.op("aten::addmm", t + gap, 600)
    found = _by_code(find(b.context()), "cold-range")
    assert len(found) == expected
    if found:
        assert found[0].evidence["first_us"] == pytest.approx(227.8)
        assert found[0].evidence["median_us"] == pytest.approx(5.0)
        assert found[0].saving_us is None, "not a cost of the program"


def test_one_step_is_said_to_be_one() -> None:
    assert _by_code(find(_busy([1000.0]).context()), "one-step")
    assert not _by_code(find(_busy([1000.0, 1000.0]).context()), "one-step")


@pytest.mark.parametrize(("share", "expected"), [(window.COMPILE_PCT - 0.1, 0), (window.COMPILE_PCT + 0.1, 1)])
def test_compilation_in_the_window_at_the_edge(share: float, expected: int) -> None:
    compiled = Compile(start_ns=unix_ns(100.0), end_ns=unix_ns(100.0 + 20 * share))
    context = _busy([1000.0, 1000.0]).context(sidecar=Sidecar(compiles=[compiled]))
    assert len(_by_code(find(context), "compile-in-window")) == expected


def test_steps_without_device_work() -> None:
    b = _busy([1000.0, 1000.0])
    b.step(2000.0, 1000.0)
    (finding,) = _by_code(find(b.context()), "no-device-work")
    assert finding.evidence["steps"] == [2]


def _kernel(mean: float, median: float, cov: float, count: int = 20) -> Kernel:
    return Kernel(
        id="k", name="gemm", symbol="gemm", device=0, category="gemm", count=count, total_us=mean * count,
        min_us=median - 5, q1_us=median, median_us=median, q3_us=median, max_us=9000.0, cov=cov, share_pct=90.0,
    )  # fmt: skip


@pytest.mark.parametrize(("cov", "expected"), [(variation.VARIATION - 0.01, 0), (variation.VARIATION + 0.01, 1)])
def test_a_mean_that_is_not_the_truth(cov: float, expected: int) -> None:
    """1,084 µs on average against a true 580 of one GEMM over 20 steps."""
    context = _busy([1000.0] * 4).context(kernels=[_kernel(1084.0, 580.0, cov)])
    found = _by_code(find(context), "kernel-variation")
    assert len(found) == expected
    if found:
        assert found[0].evidence["median_us"] == 580.0
        assert found[0].evidence["mean_us"] == pytest.approx(1084.0)
        assert "580 µs in the middle and 1.08 ms on average" in found[0].message


def test_a_gap_that_occurs_once() -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.kernel("gemm", t, 600.0 if k == 2 else 1000.0, launched=t - 5)
    (finding,) = _by_code(find(b.context()), "single-gap")
    assert finding.evidence["gap_us"] == pytest.approx(400.0)
    assert finding.severity == "hint"


@pytest.mark.parametrize(("share", "expected"), [(provenance_gap.SHARE_PCT - 1, 0), (provenance_gap.SHARE_PCT + 1, 1)])
def test_a_provenance_gap_at_the_edge(share: float, expected: int) -> None:
    context = _busy([1000.0, 1000.0]).context()
    context.document.unattributed = Unattributed(device_us=20 * share, share_pct=share, reason={"no stack": 20 * share})
    assert len(_by_code(find(context), "provenance-gap")) == expected


# -- memory -----------------------------------------------------------------------------------------------------------

CAPACITY = 100 * (1 << 30)
DEVICE = [DeviceInfo(id=0, name="Some GPU", kind="cuda", properties={"totalGlobalMem": CAPACITY})]


@pytest.mark.parametrize(("share", "expected"), [(memory.NEAR_PCT - 1, 0), (memory.NEAR_PCT + 1, 1)])
def test_memory_near_capacity_at_the_edge(share: float, expected: int) -> None:
    context = _busy([1000.0, 1000.0]).context(devices=DEVICE)
    context.document.memory = Memory(
        device=0,
        peak_bytes=int(CAPACITY * share / 100),
        top=[Allocation(bytes=1 << 33, file="m.py", line=3), Allocation(bytes=1 << 30, file="m.py", line=9)],
    )
    found = _by_code(find(context), "memory-near-capacity")
    assert len(found) == expected
    if found:
        assert found[0].line == 3
        assert [r["line"] for r in found[0].evidence["related"]] == [9]


@pytest.mark.parametrize(("share", "expected"), [(memory.FRAGMENTED_PCT - 1, 0), (memory.FRAGMENTED_PCT + 1, 1)])
def test_fragmentation_at_the_edge(share: float, expected: int) -> None:
    context = _busy([1000.0, 1000.0]).context(devices=DEVICE)
    reserved = 10 * (1 << 30)
    context.document.memory = Memory(
        device=0, peak_bytes=int(reserved * (1 - share / 100)), reserved_peak_bytes=reserved
    )
    assert len(_by_code(find(context), "memory-fragmentation")) == expected


def _counted(retries: int, *, allocated: float, reserved: float, ooms: int = 0, frees: bool = False) -> list[Finding]:
    """What the allocator counted (shares of the capacity), without recorded allocations."""
    b = _busy([1000.0, 1000.0])
    if frees:
        for t in (0.0, 1000.0):
            b.line(t + 500, t + 700, "train.py", 31, "y = model(x)")
            b.call("cudaFree", t + 510, 100.0, Call.MALLOC)
    counted = {
        "peak_allocated": int(CAPACITY * allocated), "peak_reserved": int(CAPACITY * reserved),
        "retries": retries, "out_of_memory": ooms,
    }  # fmt: skip
    sidecar = Sidecar(devices=[{"index": 0, "total_memory": CAPACITY, "memory": counted}])
    return find(b.context(devices=DEVICE, sidecar=sidecar))


@pytest.mark.parametrize(
    ("retries", "allocated", "reserved", "expected"),
    [(0, 0.95, 0.96, 1), (0, 0.6, 0.96, 0), (3, 0.6, 0.96, 1), (0, 0.5, 0.6, 0)],
    ids=["full", "only the cache is large", "the cache had to be given back", "room enough"],
)
def test_capacity_by_what_the_allocator_counted(retries: int, allocated: float, reserved: float, expected: int) -> None:
    found = _by_code(_counted(retries, allocated=allocated, reserved=reserved), "memory-near-capacity")
    assert len(found) == expected
    if found:
        assert found[0].file is None
        assert "--memory records which lines hold it" in found[0].message


@pytest.mark.parametrize(
    ("retries", "frees", "severity"), [(0, False, None), (2, False, "hint"), (2, True, "information")]
)
def test_retries_are_a_fact_and_within_the_steps_a_finding(retries: int, frees: bool, severity: str | None) -> None:
    found = _by_code(
        _counted(retries, allocated=0.8, reserved=0.99, ooms=1 if frees else 0, frees=frees), "memory-retries"
    )
    assert [f.severity for f in found] == ([severity] if severity else [])
    if found:
        assert found[0].message.startswith("2 times since the program began")
        assert found[0].line == (31 if frees else None)
        assert ("Once even that did not help." in found[0].message) is frees


def test_fragmentation_by_what_the_allocator_counted() -> None:
    (finding,) = _by_code(_counted(0, allocated=0.3, reserved=0.8), "memory-fragmentation")
    assert finding.evidence["peak_bytes"] == int(CAPACITY * 0.3)


@pytest.mark.parametrize(("every", "expected"), [(1, 1), (2, 1), (4, 0)])
def test_driver_allocations_in_the_loop(every: int, expected: int) -> None:
    b = TraceBuilder()
    for k in range(8):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t + 600, t + 900, "train.py", 25, "torch.cuda.empty_cache()")
        b.kernel("gemm", t, 600.0, launched=t - 5)
        if k % every == 0:
            b.call("cudaFree", t + 610, 200.0, Call.MALLOC)
        b.kernel("gemm", t + 900, 99.0, launched=t + 890)
    found = _by_code(find(b.context()), "allocation-in-loop")
    assert len(found) == expected
    if found:
        assert found[0].line == 25
        assert found[0].evidence["calls"] == {"cudaFree": 8 // every}
        assert found[0].time_us == pytest.approx(200.0 / every)
        # Without the call the host is ahead of 699 µs of work; with it, it comes back 110 µs after the first kernel's end in the
        # recording, and needs 80 µs to the next launch, at its own pace.
        assert 0 < (found[0].saving_us or 0) <= 200.0 / every


# -- the user's clocks ------------------------------------------------------------------------------------------------

CLOCK = """import time
def main(model, x):
    start = time.perf_counter()
    y = model(x)
    {wait}
    took = time.perf_counter() - start
    return took
"""


def _clock(wait: str) -> list[Finding]:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.line(0.0, 900.0, "bench.py", 4, "y = model(x)")
    b.kernel("gemm", 10.0, 980.0)
    return _by_code(find(b.context(sources={"bench.py": CLOCK.format(wait=wait)})), "unsynchronised-clock")


def test_a_clock_that_waits_for_nothing() -> None:
    (finding,) = _clock("pass")
    assert (finding.file, finding.line) == ("bench.py", 6)
    assert finding.evidence["related"][0]["line"] == 3


@pytest.mark.parametrize("wait", ["torch.cuda.synchronize()", "y.sum().item()", "y = y.cpu()"])
def test_a_clock_that_waits(wait: str) -> None:
    assert not _clock(wait)


def test_the_legacy_profiler_is_named() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.op("aten::mm", 0.0, 900.0)
    text = "import torch\nwith torch.autograd.profiler.profile() as prof:\n    pass\n"
    (finding,) = _by_code(find(b.context(sources={"old.py": text})), "legacy-profiler")
    assert (finding.line, finding.severity) == (2, "hint")


def test_text_that_does_not_parse_says_nothing() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.op("aten::mm", 0.0, 900.0)
    assert not [f for f in find(b.context(sources={"x.py": "def ("})) if f.file == "x.py"]


# -- pages ------------------------------------------------------------------------------------------------------------


def test_every_code_has_its_page_and_every_page_its_code() -> None:
    folder = Path(rules.__file__).parent
    texts = [p.read_text() for p in [*folder.glob("*.py"), folder.parent / "summary.py"]]
    # Findings of several ranks come from the comparison of their recordings, not from a rule over one.
    texts += [
        p.read_text()
        for p in folder.parents[1].rglob("*.py")
        if "Finding(" in p.read_text() and "findings" not in p.parts
    ]
    codes = {code for text in texts for code in re.findall(r'code="([a-z0-9-]+)"', text)}
    codes |= {kind.code for kind in rules.compile_events.KINDS.values()}
    pages = {p.stem for p in (ROOT / "docs" / "findings").glob("*.md")}
    assert pages == codes


def test_rules_are_short() -> None:
    for path in Path(rules.__file__).parent.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 330, path.name
