"""Patterns of events from the guides and from the field, and what holds for every recording whatever is in it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import EDITOR_PCT, PER_FILE, SUGGEST_PCT
from ridgeline.profile import Finding
from ridgeline.trace.tables import Call, Work


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _one_addition(walls: list[float], *, compiled: bool) -> TraceBuilder:
    """Steps whose host takes these µs to launch 2.7 µs of work, one after another."""
    b, t = TraceBuilder(), 0.0
    for wall in walls:
        b.step(t, wall)
        b.line(t, t + wall, "add.py", 9, "z = f(x, y)")
        if compiled:
            b.op("TorchDynamo Cache Lookup", t + 1, 0.2 * wall)
            b.op("Torch-Compiled Region: 0/0", t + 2 + 0.2 * wall, 0.7 * wall)
            b.op("AOTDispatcher Runtime Wrapper Prologue", t + 3 + 0.2 * wall, 0.2 * wall)
        else:
            b.op("aten::add", t + 1, 0.9 * wall)
        b.kernel("add", t + 0.95 * wall, 2.7, launched=t + 0.85 * wall)
        t += wall
    return b


def test_a_compiled_addition_costs_the_host_more_than_an_eager_one() -> None:
    """Host steps of 0.2, 0.1, 0.1 ms compiled against 0.1, 0.07, 0.07 ms eager: the first is cold, and of the others it is
    the lookup and the wrapper that cost."""
    compiled = find(_one_addition([200.0, 100.0, 100.0], compiled=True).context())
    eager = find(_one_addition([100.0, 70.0, 70.0], compiled=False).context())
    (overhead,) = _by_code(compiled, "compiled-overhead")
    assert overhead.evidence["overhead_us_per_step"] == pytest.approx(40.0), "without the cold step's 80"
    assert overhead.evidence["work_us_per_step"] < 3.0
    assert overhead.line == 9
    (cold,) = _by_code(compiled, "cold-step")
    assert (cold.evidence["first_us"], cold.evidence["median_us"]) == (200.0, 100.0)
    assert not _by_code(eager, "compiled-overhead")
    assert not _by_code(eager, "cold-step"), "1.43 times the others is not cold"


def _where(*, on_host: bool) -> list[Finding]:
    """Indices of a mask: in float64 on the host for ``np.argwhere``, or by ``nonzero`` on the device."""
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.kernel("gemm", t, 4_000.0, launched=t - 20)
        if on_host:
            b.line(t + 50, t + 4_900, "metrics.py", 10, "host = mask.double().cpu().numpy()")
            b.op("aten::to", t + 60, 4_250)
            b.op("aten::_to_copy", t + 62, 4_240, dims=[[512, 512]], types=["double"])
            b.op("aten::copy_", t + 64, 4_230, dims=[[512, 512]], types=["double"])
            end = t + 4_200.0
            b.copy(
                "Memcpy DtoH (Device -> Pageable)",
                t + 4_000,
                200.0,
                launched=t + 70,
                blocks_until=end,
                nbytes=2_097_152,
            )
            b.line(t + 4_900, t + 6_000, "metrics.py", 11, "rows = np.argwhere(host > 0)")
            follows = t + 6_000.0
        else:
            b.line(t + 50, t + 4_100, "metrics.py", 15, "rows = torch.nonzero(mask)")
            b.op("aten::nonzero", t + 60, 4_000)
            b.kernel("nonzero", t + 4_000, 20.0, launched=t + 66)
            end = t + 4_024.0
            b.copy("Memcpy DtoH (Device -> Pageable)", t + 4_020, 2.0, launched=t + 70, blocks_until=end, nbytes=8)
            follows = t + 4_060.0
        b.kernel("gemm", follows, t + 10_000 - follows, launched=follows - 10)
    return find(b.context())


def test_argwhere_on_the_host_costs_more_than_nonzero_on_the_device() -> None:
    (trip,) = _by_code(_where(on_host=True), "host-round-trip")
    assert (trip.file, trip.line) == ("metrics.py", 10)
    assert trip.evidence["double_precision"] is True
    assert trip.evidence["bytes_per_step"] == 2_097_152
    device = _where(on_host=False)
    assert not _by_code(device, "host-round-trip")
    (sync,) = _by_code(device, "hidden-sync")
    assert (sync.file, sync.line) == ("metrics.py", 15)
    assert trip.time_us is not None
    assert sync.time_us is not None
    assert trip.time_us > 10 * sync.time_us


def test_a_loader_without_workers_in_the_field() -> None:
    """6 waits of 415,791 µs together in 1,048,976 µs of steps, 39.64 %, the device idle meanwhile."""
    b = TraceBuilder()
    step, wait = 1_048_976 / 6, 415_791 / 6
    for k in range(6):
        t = step * k
        b.step(t, step)
        b.line(t, t + wait, "train.py", 44, "for x, y in loader:")
        b.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, wait)
        b.kernel("conv", t + wait, step - wait, launched=t + wait - 1)
    (finding,) = _by_code(find(b.context()), "data-loading")
    assert finding.evidence["wait_share_pct"] == pytest.approx(39.64, abs=0.005)
    assert finding.evidence["num_workers"] == 0
    assert finding.line == 44


def test_one_pool_of_communication_is_promised_once() -> None:
    """1,149.68 ms of collectives that nothing overlaps: all findings together promise no more than that."""
    b = TraceBuilder()
    total, step = 1_149_680.0, 2_000_000.0
    b.step(0.0, step)
    at = 0.0
    for k in range(20):  # the longest is 5.3 times the shortest
        dur = total / 63.0 * (1.0 + 4.3 * (k / 19.0))
        b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, dur, launched=at - 5, stream=20)
        at += dur
    b.kernel("gemm", at, step - at, launched=at - 5)
    found = find(b.context())
    communication = [f for f in found if "communication" in f.code]
    assert communication
    assert sum(f.saving_us or 0.0 for f in found) <= total + 1e-3


# -- whatever is recorded ----------------------------------------------------------------------------------------------

EVENT = st.tuples(
    st.sampled_from(["gemm", "small", "HtoD", "pinned", "DtoH", "sync", "loader", "item", "nccl", "malloc"]),
    st.integers(0, 30),
    st.integers(1, 900),
    st.integers(0, 400),
)


def _recording(rows: list[tuple[str, int, int, int]], steps: int) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(steps):
        t = 20_000.0 * k
        b.step(t, 20_000.0)
        at = t
        for kind, line, dur, gap in rows:
            b.line(at, at + dur + gap, "train.py" if line % 3 else "model.py", 1 + line, "x = f(x)")
            start = at + gap
            if kind == "sync":
                b.sync(at, float(dur))
            elif kind == "loader":
                b.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, float(dur))
            elif kind == "malloc":
                b.call("cudaMalloc", at, float(dur), Call.MALLOC)
            elif kind in ("HtoD", "pinned", "DtoH", "item"):
                name = {"HtoD": "Memcpy HtoD (Pageable -> Device)", "pinned": "Memcpy HtoD (Pinned -> Device)"}
                b.op("aten::item" if kind == "item" else "aten::copy_", at, float(dur + gap))
                text = name.get(kind, "Memcpy DtoH (Device -> Pageable)")
                until = None if kind == "pinned" else start + dur
                b.copy(
                    text, start, float(dur), launched=at + 0.5, blocks_until=until, nbytes=8 if kind == "item" else 1e6
                )
            else:
                text = "ncclDevKernel_AllReduce" if kind == "nccl" else kind
                stream = 20 if kind == "nccl" else 7
                b.kernel(text, start, float(dur), launched=at + 0.5, stream=stream, work=Work.KERNEL)
            at += dur + gap
    return b


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENT, min_size=1, max_size=14), st.integers(1, 5))
def test_what_holds_for_every_recording(rows: list[tuple[str, int, int, int]], steps: int) -> None:
    context = _recording(rows, steps).context()
    facts, found = Facts(context), find(context)
    assert found[0].code == "summary"
    promised = [f for f in found if f.saving_us is not None]
    idle, busy = facts.idle.total / facts.n, facts.busy.total / facts.n
    assert sum(f.saving_us or 0.0 for f in promised) <= idle + busy + 1e-6
    assert sum(f.step_gain_pct or 0.0 for f in promised) <= 100.0 + 1e-6
    for f in promised:
        assert 0.0 <= (f.saving_us or 0.0) <= (f.saving_bound_us or 0.0) + 1e-6
        assert (f.step_gain_pct or 0.0) >= SUGGEST_PCT * 0.999
        if f.severity != "hint":
            assert (f.step_gain_pct or 0.0) >= EDITOR_PCT * 0.999
    assert max(Counter(f.file for f in found if f.code != "summary").values(), default=0) <= PER_FILE


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_what_is_promised_of_waits_is_idle_time_only(share: float) -> None:
    """A wait costs nothing while the device works, however long it is."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 1000, "train.py", 3, "loss.item()")
        b.kernel("gemm", t, 1000.0 * share, launched=t - 5)
        b.op("aten::item", t + 5, 1000.0 * share)
        b.copy(
            "Memcpy DtoH (Device -> Pageable)",
            t + 1000 * share,
            1.0,
            launched=t + 8,
            blocks_until=t + 1000 * share + 2,
            nbytes=4,
        )
        b.kernel("gemm", t + 1000 * share + 30, 900.0 - 1000 * share, launched=t + 1000 * share + 20)
    context = b.context()
    facts = Facts(context)
    promised = sum(f.saving_us or 0.0 for f in find(context) if f.code == "hidden-sync")
    assert promised <= facts.idle.total / facts.n + 1e-6
