"""hidden-sync: the device's gap until the queue refills, never more than the host waited; on a CPU a hint."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.blocking import blocks, direction_of
from ridgeline.findings.facts import Facts
from ridgeline.findings.whatif import USUAL_HOST
from ridgeline.profile import Finding


def _syncs(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.code == "hidden-sync"]


def _device_step(b: TraceBuilder, t: float, *, wait: float, gap: float) -> None:
    """Work launched ahead; .item() waits for it; then ``gap`` without work; then a full queue again."""
    b.step(t, 1000.0)
    b.line(t, t + 1000, "train.py", 30, "running += loss.item()")
    b.kernel("gemm", t, 500.0, launched=max(0.0, t - 6))
    b.op("aten::item", t + 500 - wait, wait + 6)
    b.op("aten::_local_scalar_dense", t + 501 - wait, wait + 4)
    b.copy("Memcpy DtoH (Device -> Pageable)", t + 500, 2.0, launched=t + 502 - wait, blocks_until=t + 503)
    b.kernel("gemm", t + 502 + gap, 100.0, launched=t + 500 + gap)
    b.kernel("gemm", t + 602 + gap, 1000.0 - 602 - gap, launched=t + 510 + gap)


def test_cost_is_the_gap_until_the_queue_refills() -> None:
    b = TraceBuilder()
    for k in range(3):
        _device_step(b, 1000.0 * k, wait=400.0, gap=50.0)
    finding = _syncs(find(b.context()))[0]
    assert (finding.file, finding.line) == ("train.py", 30)
    assert finding.time_us == pytest.approx(50.0)
    # Between the wait's return and the next launch the host was at work for 47 µs, unprofiled for USUAL_HOST of them; the
    # launch takes 2 µs and the wait returned 1 µs after the copy.
    gap = 1 + USUAL_HOST * (47 + 2)
    assert finding.saving_us == pytest.approx(1000 * gap / (950 + gap), rel=0.01)
    assert finding.saving_bound_us == pytest.approx(50.0), "all of the gap is the bound"
    assert finding.evidence["host_us_per_step"] == pytest.approx(406.0)
    assert finding.evidence["wait_in"] == "cudaMemcpyAsync", "the wait of item() sits in the copy call"
    assert finding.evidence["count_per_step"] == 1.0


def test_cost_is_never_more_than_the_host_waited() -> None:
    b = TraceBuilder()
    for k in range(3):
        _device_step(b, 1000.0 * k, wait=20.0, gap=200.0)
    finding = _syncs(find(b.context()))[0]
    assert finding.time_us == pytest.approx(21.0, abs=0.1)


def test_the_profilers_last_synchronisation_is_no_users_cost() -> None:
    b = TraceBuilder()
    b.kernel("k", 10.0, 26.0)
    b.sync(20.0, 1780.0, name="cudaDeviceSynchronize")
    assert not blocks(Facts(b.context()))
    assert not _syncs(find(b.context()))


def test_an_explicit_synchronisation_is_named_as_one() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 1000, "train.py", 9, "torch.cuda.synchronize()")
        b.kernel("gemm", t, 600.0, launched=t - 6)
        b.sync(t + 100, 502.0, name="cudaDeviceSynchronize")
        b.kernel("gemm", t + 700, 300.0, launched=t + 690)
    finding = _syncs(find(b.context()))[0]
    assert finding.title == "Explicit synchronisation in the step"
    assert finding.time_us == pytest.approx(100.0)


def _cpu_loop(text: str, *, per_steps: int = 1, optimizer: bool = False) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.op("aten::addmm", t + 10, 900)
        if k % per_steps == 0:
            b.line(t + 920, t + 990, "train.py", 12, text)
            if optimizer:
                b.range("Optimizer.step#Adam.step", t + 915, 80)
            b.op("aten::item", t + 930, 4)
            b.op("aten::_local_scalar_dense", t + 931, 2)
    return b


def test_on_a_cpu_it_is_a_hint_with_its_measured_cost() -> None:
    finding = _syncs(find(_cpu_loop("total += loss.item()").context()))[0]
    assert (finding.line, finding.severity) == (12, "hint")
    assert finding.saving_us is None
    assert finding.step_gain_pct is None
    assert finding.time_us == pytest.approx(4.0)
    assert "accelerator" in finding.message


@pytest.mark.parametrize("text", ["self.best = min(self.best, loss)", "best = max(scores)", "if any(found):"])
def test_python_that_compares_tensors_asks_for_their_truth(text: str) -> None:
    assert len(_syncs(find(_cpu_loop(text).context()))) == 1


@pytest.mark.parametrize("text", ["for x in loader:", "opt.step()", "idx = torch.randperm(n)", "y = torch.max(x)"])
def test_scalars_that_live_on_the_host_are_not_named(text: str) -> None:
    assert not _syncs(find(_cpu_loop(text).context()))


def test_within_the_optimizer_it_is_the_librarys() -> None:
    assert not _syncs(find(_cpu_loop("if done: opt.step()", optimizer=True).context()))


@pytest.mark.parametrize(("per_steps", "expected"), [(2, 1), (4, 0)])
def test_logging_now_and_then_is_fine(per_steps: int, expected: int) -> None:
    assert len(_syncs(find(_cpu_loop("log(loss.item())", per_steps=per_steps).context()))) == expected


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH"),
        ("Memcpy DtoD (Device -> Device)", "DtoD"),
        ("CopyHostToDevice", "none"),
        ("Host -> Device", "HtoD"),
    ],
)
def test_direction_of_copies(name: str, direction: str) -> None:
    assert direction_of(name) == direction


@pytest.mark.parametrize("name", ["aten::index_put_", "aten::multinomial", "aten::masked_fill_"])
def test_ops_that_read_a_number_of_their_own_are_not_named(name: str) -> None:
    """``x[mask] = 0.0`` reads the 0.0, which lives on the host whatever the device."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t + 920, t + 990, "train.py", 12, "logits[logits < float(v)] = 0.0")
        b.op(name, t + 925, 40)
        b.op("aten::item", t + 930, 4)
        b.op("aten::_local_scalar_dense", t + 931, 2)
    assert not _syncs(find(b.context()))


@pytest.mark.parametrize(("text", "severity"), [("scaler.step(opt)", "hint"), ("found = bool(flag)", "information")])
def test_a_loss_scaler_cannot_do_without(text: str, severity: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.kernel("gemm", t, 600.0, launched=t - 10)
        b.line(t + 100, t + 650, "train.py", 9, text)
        b.op("aten::item", t + 110, 500)
        b.copy("Memcpy DtoH (Device -> Pageable)", t + 600, 1.0, launched=t + 112, blocks_until=t + 602.0, nbytes=4)
        b.kernel("gemm", t + 700, 299.0, launched=t + 690)
    (finding,) = _syncs(find(b.context()))
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("name", "inside", "advice"),
    [
        ("aten::item", "aten::_local_scalar_dense", "Keep the value on the device"),
        ("aten::equal", "aten::item", "Keep the value on the device"),
        ("aten::index_put_", "aten::nonzero", "Keep the shape fixed"),
        ("aten::convolution_backward", "aten::empty", "The operation waits by itself"),
    ],
)
def test_advice_is_for_what_the_operation_waits_for(name: str, inside: str, advice: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 1000, "train.py", 30, "f(x)")
        b.kernel("gemm", t, 500.0, launched=max(0.0, t - 6))
        b.op(name, t + 100, 406.0)
        b.op(inside, t + 101, 402.0)
        b.sync(t + 102, 400.0)
        b.kernel("gemm", t + 600, 400.0, launched=t + 597)
    assert advice in _syncs(find(b.context()))[0].message
