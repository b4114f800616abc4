"""data-loading: the wait, its line, its edge, and what a full queue hides."""

from __future__ import annotations

import pytest

from builders import TraceBuilder, unix_ns
from ridgeline.findings import find
from ridgeline.findings.rules import data_loading
from ridgeline.findings.rules.data_loading import SHARE_PCT
from ridgeline.profile import Finding
from ridgeline.sidecar import Interval, LoaderInfo, Sidecar

WAIT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def _only(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _loop(wait: float, *, steps: int = 4, step: float = 1000.0) -> TraceBuilder:
    """A CPU loop whose every step begins with a wait for the loader."""
    b = TraceBuilder()
    for k in range(steps):
        t = k * step
        b.step(t, step)
        b.line(t, t + step, "train.py", 20, "loss = model(x)")
        b.line(t, t + wait, "train.py", 18, "for x in loader:")
        if wait:
            b.range(WAIT, t, wait)
        b.op("aten::addmm", t + wait + 1, step - wait - 2)
    return b


def test_on_a_cpu_the_wait_is_the_cost_and_stands_on_the_for_line() -> None:
    finding = _only(find(_loop(40_000.0, step=100_000.0).context()), "data-loading")[0]
    assert (finding.file, finding.line) == ("train.py", 18)
    assert finding.time_us == pytest.approx(40_000.0)
    assert finding.evidence["wait_share_pct"] == pytest.approx(40.0)
    assert finding.evidence["num_workers"] == 0
    assert finding.severity == "information"
    assert finding.saving_us is not None
    assert 0 < finding.saving_us <= finding.saving_bound_us <= 40_000.0


@pytest.mark.parametrize(("wait", "expected"), [(SHARE_PCT * 10 - 1, 0), (SHARE_PCT * 10 + 1, 1)])
def test_at_the_edge(wait: float, expected: int) -> None:
    assert len(_only(find(_loop(wait).context()), "data-loading")) == expected


def test_the_sidecar_knows_the_loader() -> None:
    b = _loop(0.0)
    loader = LoaderInfo(
        num_workers=2,
        pin_memory=False,
        file="data.py",
        line=7,
        waits=[Interval(start_ns=unix_ns(1000.0 * k), end_ns=unix_ns(1000.0 * k + 300)) for k in range(4)],
    )
    finding = _only(find(b.context(sidecar=Sidecar(loaders=[loader]))), "data-loading")[0]
    assert (finding.file, finding.line) == ("data.py", 7)
    assert finding.evidence["num_workers"] == 2
    assert finding.evidence["wait_us_per_step"] == pytest.approx(300.0)


def test_the_statement_of_the_dataset_that_takes_the_time_is_related() -> None:
    b = _loop(400.0)
    for k in range(4):
        b.line(1000.0 * k + 10, 1000.0 * k + 390, "data.py", 44, "image = decode(path)")
    finding = _only(find(b.context()), "data-loading")[0]
    assert finding.evidence["related"] == [{"file": "data.py", "line": 44, "text": "most of the waiting is here"}]
    assert "data.py:44" in finding.message


def test_a_wait_that_a_full_queue_hides_costs_nothing() -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.range(WAIT, t + 100, 400)
        b.kernel("gemm", t, 1000.0, launched=t - 10)
    assert not _only(find(b.context()), "data-loading")


def test_on_a_device_the_cost_is_the_idle_part() -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.range(WAIT, t, 500)
        b.kernel("gemm", t, 200.0, launched=t - 10)  # still running when the wait begins
        b.kernel("gemm", t + 520, 480.0, launched=t + 510)
    finding = _only(find(b.context()), "data-loading")[0]
    assert finding.time_us == pytest.approx(300.0)
    assert finding.evidence["wait_us_per_step"] == pytest.approx(500.0)


SENT, RECEIVED = data_loading.SEND_US, data_loading.RECEIVE_US


@pytest.mark.parametrize(
    ("cpu_share", "cores", "step_after", "workers"),
    [
        (1.0, 2, (100_000.0 + SENT + RECEIVED) / 2, 2),  # all of the work on two cores, and handing over
        (None, 2, (100_000.0 + SENT + RECEIVED) / 2, 2),  # not known: all of it is taken for work
        (0.0, 2, 25_000.0 + RECEIVED, 4),  # waiting needs no core: the rest of the step hides it
        (0.5, 2, (62_500.0 + SENT + RECEIVED) / 2, 3),  # half of the loading is work
        (1.0, 8, 25_000.0 + RECEIVED, 4),
    ],
)
def test_work_needs_cores_and_waiting_needs_none(
    cpu_share: float | None, cores: int, step_after: float, workers: int
) -> None:
    """Steps of 100 ms on a CPU, 75 of them loading without workers."""
    finding = _loaded(75_000.0, 100_000.0, cpu_share, cores)
    assert finding.saving_us == pytest.approx(100_000.0 - step_after)
    assert f"num_workers={workers}," in finding.message


def _loaded(wait: float, step: float, cpu_share: float | None, cores: int, *, numbers: int = 0) -> Finding:
    """``numbers``: of each of the four tensors that a batch is put together of."""
    b = _loop(wait, step=step)
    for k in range(4 if numbers else 0):
        b.op("aten::stack", step * k + 1, 5, dims=[[[numbers]] * 4], types=["float"])
    waits = [Interval(start_ns=unix_ns(step * k), end_ns=unix_ns(step * k + wait)) for k in range(4)]
    loader = LoaderInfo(num_workers=0, pin_memory=False, file="a.py", line=3, waits=waits, cpu_share=cpu_share)
    (finding,) = _only(find(b.context(sidecar=Sidecar(loaders=[loader], cpu={"cores": cores}))), "data-loading")
    return finding


def test_a_large_batch_costs_more_to_hand_over() -> None:
    """16 MB a batch, on two cores."""
    small, large = _loaded(75_000.0, 100_000.0, 1.0, 2), _loaded(75_000.0, 100_000.0, 1.0, 2, numbers=1_000_000)
    assert small.saving_us is not None
    assert large.saving_us is not None
    per_mb = data_loading.SEND_US_PER_MB + data_loading.RECEIVE_US_PER_MB
    assert small.saving_us - large.saving_us == pytest.approx(16 * per_mb / 2)


@pytest.mark.parametrize(("off", "promised"), [(-10.0, False), (10.0, True)])
def test_where_handing_over_costs_as_much_no_workers_are_advised(off: float, promised: bool) -> None:
    """On many cores the wait falls to what the loop needs to receive a batch."""
    wait = RECEIVED / (1 - data_loading.WORTH) + off
    finding = _loaded(wait, 2000.0, 1.0, 16)
    assert (finding.saving_us is not None) is promised
    assert ("Load in worker processes" in finding.message) is promised
    assert ("make loading itself cheaper" in finding.message) is not promised
    assert finding.time_us == pytest.approx(wait)
