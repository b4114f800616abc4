"""data-loading: the wait, its line, its edge, and what a full queue hides."""

from __future__ import annotations

import pytest

from builders import TraceBuilder, unix_ns
from ridgeline.findings import find, loading
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


ONE = loading.Batches(1, loading.TENSORS, 0.0)
SENT, RECEIVED, READY = ONE.send_us, ONE.receive_us, ONE.ready_us


@pytest.mark.parametrize(
    ("cpu_share", "cores", "step_after", "workers"),
    [
        (1.0, 2, (100_000.0 + SENT + RECEIVED) / 2, 2),  # all of the work on two cores, and handing over
        (None, 2, (100_000.0 + SENT + RECEIVED) / 2, 2),  # not known: all of it is taken for work
        (0.0, 2, 25_000.0 + READY, 4),  # waiting needs no core: the rest of the step hides it
        (0.5, 2, (62_500.0 + SENT + RECEIVED) / 2, 3),  # half of the loading is work
        (1.0, 8, 25_000.0 + READY, 4),
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
    per_mb = loading.SEND_US_PER_MB + loading.RECEIVE_US_PER_MB
    assert small.saving_us - large.saving_us == pytest.approx(16 * per_mb / 2)


@pytest.mark.parametrize(("off", "promised"), [(-10.0, False), (10.0, True)])
def test_where_handing_over_costs_as_much_no_workers_are_advised(off: float, promised: bool) -> None:
    """On many cores the wait falls to what a ready batch costs the loop."""
    wait = READY / (1 - data_loading.WORTH) + off
    finding = _loaded(wait, 2000.0, 1.0, 16)
    assert (finding.saving_us is not None) is promised
    assert ("Load in worker processes" in finding.message) is promised
    assert ("make loading itself cheaper" in finding.message) is not promised
    assert finding.time_us == pytest.approx(wait)


@pytest.mark.parametrize(("off", "severity"), [(-10.0, "hint"), (10.0, "information")])
def test_where_workers_would_not_help_only_slow_fetching_is_more_than_a_hint(off: float, severity: str) -> None:
    """One core, on which loading costs the same wherever it runs."""
    finding = _loaded(data_loading.SLOW * READY + off, 10_000.0, 1.0, 1)
    assert finding.saving_us is None
    assert finding.severity == severity


def _found(
    loader: LoaderInfo, *, waits: list[float], step: float = 10_000.0, plain_step: float | None = None
) -> list[Finding]:
    """A loop with one wait a step, of 0 for none."""
    b = _loop(0.0, step=step, steps=len(waits))
    loader.waits = [
        Interval(start_ns=unix_ns(step * k), end_ns=unix_ns(step * k + wait)) for k, wait in enumerate(waits) if wait
    ]
    context = b.context(sidecar=Sidecar(loaders=[loader], cpu={"cores": 16}))
    context.document.totals.plain_step_us = plain_step
    return _only(find(context), "data-loading")


def _workers(ready: list[bool | None], *, tensors: int | None = 4, cpu_share: float = 0.3) -> LoaderInfo:
    return LoaderInfo(
        num_workers=2, pin_memory=False, file="a.py", line=3, ready=ready, batch_tensors=tensors, cpu_share=cpu_share
    )


def test_a_batch_that_was_ready_is_no_fault_of_the_workers() -> None:
    (finding,) = _found(_workers([True] * 4), waits=[2000.0] * 4)
    assert finding.severity == "hint"
    assert "is ready when the loop asks" in finding.message
    assert "4 tensors a batch" in finding.message
    assert "do not keep up" not in finding.message
    assert finding.saving_us is None


@pytest.mark.parametrize("ready", [[False] * 4, [None] * 4, [], [True] * 3])
def test_unknown_counts_as_not_ready(ready: list[bool | None]) -> None:
    """Recordings of earlier versions have none; as many as there are waits, or they tell nothing."""
    (finding,) = _found(_workers(ready), waits=[2000.0] * 4)
    assert finding.severity == "information"
    assert "do not keep up" in finding.message
    assert finding.time_us == pytest.approx(2000.0)


def test_waits_for_late_and_for_ready_batches_are_told_apart() -> None:
    found = _found(_workers([True, False, True, False]), waits=[1000.0, 4000.0] * 2)
    late, ready = sorted(found, key=lambda f: f.severity != "information")
    assert late.time_us == pytest.approx(2000.0)
    assert ready.time_us == pytest.approx(500.0)
    assert "do not keep up" in late.message
    assert ready.severity == "hint"


@pytest.mark.parametrize(("off", "severity"), [(-10.0, "hint"), (10.0, "information")])
@pytest.mark.parametrize("tensors", [None, 1, 200])
def test_many_tensors_a_batch_are_worth_fewer_where_the_loop_computes(
    off: float, severity: str, tensors: int | None
) -> None:
    """Above what one tensor would cost, 5 % of the step must be computing."""
    loader = _workers([True] * 4, tensors=tensors, cpu_share=0.5)
    wait = 2 * (SHARE_PCT / 100 * 100_000.0 + ONE.least_us + off)
    (finding,) = _found(loader, waits=[wait] * 4, step=100_000.0)
    many = severity == "information" and tensors == 200
    assert finding.severity == ("information" if many else "hint")
    assert (finding.saving_us == pytest.approx(5010.0)) if many else finding.saving_us is None


@pytest.mark.parametrize(
    ("waits", "hint"), [([0, 0, 3000.0, 0], True), ([0, 3000.0, 3000.0, 0], False), ([3000.0], True)]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_seen_in_one_step_only_is_a_hint(waits: list[float], hint: bool, workers: int) -> None:
    loader = LoaderInfo(num_workers=workers, pin_memory=False, file="a.py", line=3)
    (finding,) = _found(loader, waits=waits)
    assert (finding.severity == "hint") is hint
    assert ("confirm over more steps" in finding.message) is hint


@pytest.mark.parametrize(("plain_waits", "expected"), [(loading.PLAIN_WAITS - 1, 1), (loading.PLAIN_WAITS, 0)])
def test_a_fetch_that_is_quick_without_the_recorder_is_none_to_speak_of(plain_waits: int, expected: int) -> None:
    """A fifth of the recorded step, four per cent of the unprofiled one."""
    loader = LoaderInfo(num_workers=0, pin_memory=False, file="a.py", line=3, plain_us=320.0, plain_waits=plain_waits)
    assert len(_found(loader, waits=[2000.0] * 4, plain_step=8000.0)) == expected


def test_unprofiled_waits_weigh_what_they_are_of_the_unprofiled_step() -> None:
    """2 ms of 10 recorded, 1 of 8 unprofiled; workers on free cores take it all but for the handing over."""
    loader = LoaderInfo(
        num_workers=0, pin_memory=False, file="a.py", line=3, plain_us=2000.0, plain_waits=3, cpu_share=0.0
    )
    (finding,) = _found(loader, waits=[4000.0] * 4, plain_step=8000.0)
    assert finding.step_gain_pct == pytest.approx(100 * (2000.0 - READY) / 8000.0)
    assert finding.saving_us == pytest.approx(2000.0 - READY)
    assert "waits 2 ms" in finding.message


def test_the_agents_count_of_tensors_and_bytes_is_taken() -> None:
    """On free cores the wait falls to what such a batch costs."""
    kind = {"num_workers": 0, "pin_memory": False, "file": "a.py", "line": 3, "cpu_share": 0.0}
    (plain,) = _found(LoaderInfo(**kind), waits=[8000.0] * 4)
    (large,) = _found(LoaderInfo(**kind, batch_tensors=12, batch_bytes=2_000_000), waits=[8000.0] * 4)
    assert plain.saving_us is not None
    assert large.saving_us is not None
    dearer = 10 * loading.READY_US_PER_TENSOR + 2 * loading.RECEIVE_US_PER_MB
    assert plain.saving_us - large.saving_us == pytest.approx(dearer)


@pytest.mark.parametrize(
    ("workers", "late", "plain_waits", "hint"),
    [
        (2, loading.AGAIN - 1, 9, True),
        (
            2,
            loading.AGAIN,
            9,
            False,
        ),  # two workers that are late with two batches at once are late in every second step
        (0, 0, loading.PLAIN_WAITS - 1, True),
        (0, 0, loading.PLAIN_WAITS, False),
    ],
)
def test_unprofiled_waits_confirm_what_one_step_shows(workers: int, late: int, plain_waits: int, hint: bool) -> None:
    loader = LoaderInfo(num_workers=workers, pin_memory=False, file="a.py", line=3, plain_us=3000.0)
    loader.plain_late, loader.plain_waits = late, plain_waits
    (finding,) = _found(loader, waits=[0, 3000.0, 0])
    assert (finding.severity == "hint") is hint


def test_unprofiled_waits_of_workers_that_are_late_now_and_then_say_nothing_of_one_wait() -> None:
    loader = LoaderInfo(
        num_workers=2, pin_memory=False, file="a.py", line=3, plain_us=100.0, plain_waits=9, plain_late=3
    )
    (finding,) = _found(loader, waits=[3000.0] * 3)
    assert finding.time_us == pytest.approx(3000.0)
