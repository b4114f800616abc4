"""The recorded steps played again: as they are they take their own time; without something, what is left of it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import TraceBuilder
from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.replay import Change, Pace, together
from ridgeline.findings.whatif import CONSTANT_MOST, DEVICE_SPREAD, USUAL_DEVICE, USUAL_HOST
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Call

STEP = 1000.0


def _facts(b: TraceBuilder, *, plain: float | None = None, alone: bool = True) -> Facts:
    sidecar = Sidecar(windows=[Window(trace="trace.json.gz", reason="stable", lines=True)], cupti_left=alone)
    return Facts(b.context(sidecar=sidecar, plain_step_us=plain, profiled_step_us=STEP if plain else None))


def _played(facts: Facts, change: Change | None = None, *, host: float = 1.0, device: float = 1.0) -> float:
    return facts.whatif.replay.step_us(facts.n, change or Change(), Pace(host, device))


def _waiting(wait: bool = True) -> TraceBuilder:
    """Two kernels of 300 µs a step; the host gives the second 80 µs after it has waited for the first, and is at something
    for 310 µs before the next step."""
    b = TraceBuilder()
    for k in range(4):
        t = STEP * k
        b.step(t, STEP)
        b.kernel("gemm", t + 10, 300.0, launched=t)
        if wait:
            b.sync(t + 20, 300.0)
        b.kernel("gemm", t + 410, 300.0, launched=t + 400)
        b.sync(t + 420, 300.0, name="cudaDeviceSynchronize")
    return b


def _calls(facts: Facts, name: str) -> set[int]:
    return {r for r in range(len(facts.trace.calls.start)) if facts.call_name(r) == name}


def test_as_recorded_it_takes_its_own_time() -> None:
    facts = _facts(_waiting())
    assert _played(facts) == pytest.approx(STEP)


def test_a_faster_host_shortens_its_own_time_and_no_wait() -> None:
    """Of a step the host works 20 + 100 + 280 µs; it waits for kernels that take 300 µs each and come 10 µs after their call,
    and returns 10 µs after the first has ended and the second."""
    facts = _facts(_waiting())
    half = _played(facts, host=0.5)
    # launch, 5 µs of the host, the kernel's arrival is the later; after the wait 40 µs, and so on.
    assert half == pytest.approx((5 + 300 + 10) + 40 + (5 + 300 + 10) + 140)


def test_without_a_wait_the_host_is_ahead() -> None:
    facts = _facts(_waiting())
    change = Change(waits=_calls(facts, "cudaStreamSynchronize"))
    # 80 µs from the first wait's end to the second launch are played beside the first kernel.
    assert _played(facts, change) == pytest.approx(10 + 600 + 10 + 280)
    both = Change(waits=change.waits | _calls(facts, "cudaDeviceSynchronize"))
    assert _played(facts, both) == pytest.approx(600.0), "nothing holds the host: the device's work is the step"


def test_where_the_host_sets_the_pace_faster_kernels_save_nothing() -> None:
    b = TraceBuilder()
    for k in range(4):
        for i in range(10):
            t = STEP * k + 100 * i
            b.kernel("small", t + 20, 30.0, launched=t + 5)
        b.step(STEP * k, STEP)
    facts = _facts(b)
    rows = facts.device_rows.tolist()
    assert _played(facts, Change(faster=dict.fromkeys(rows, 0.5))) == pytest.approx(STEP)
    assert _played(facts, host=0.2) == pytest.approx(300.0), "ten kernels of 30 µs"
    assert _played(facts, Change(faster=dict.fromkeys(rows, 0.5)), host=0.1) == pytest.approx(150.0)
    assert _played(facts, Change(host=facts.recorded, host_part=0.5)) == pytest.approx(500.0)


def test_what_ran_beside_others_counts_with_what_it_added() -> None:
    b = TraceBuilder()
    for k in range(4):
        t = STEP * k
        b.step(t, STEP)
        b.kernel("gemm", t + 1, 600.0, launched=t)
        b.copy("Memcpy HtoD (Pinned -> Device)", t + 500, 200.0, launched=t + 2, stream=9)
        b.kernel("gemm", t + 701, 299.0, launched=t + 4)
    facts = _facts(b)
    copies = facts.copies().tolist()
    assert _played(facts, host=0.1) == pytest.approx(999.0)
    assert _played(facts, Change(events=copies), host=0.1) == pytest.approx(899.0 + 1.0, abs=1.5)


def test_a_full_queue_is_no_work_of_the_host() -> None:
    b = TraceBuilder()
    for k in range(4):
        t = STEP * k
        b.step(t, STEP)
        for i in range(9):
            b.kernel("gemm", t + 1 + 111 * i, 111.0, launched=t + i)
        call = b.call("cudaLaunchKernel", t + 10, 900.0, Call.LAUNCH)
        b.kernel("gemm", t + 1000, 1.0, call=call)
    facts = _facts(b)
    # The call of 900 µs stood until the eighth kernel had ended (at 889) and returned 21 µs later: the host's own time is 90 µs
    # and what the launches take. Kernels a fifth as long free the queue the sooner.
    faster = Change(faster=dict.fromkeys(facts.device_rows.tolist(), 0.2))
    assert _played(facts, faster) == pytest.approx(8 * 111.0 / 5 + 21 + 90, abs=1.5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(5, 90), st.floats(1, 200)), min_size=2, max_size=12), st.integers(0, 10_000))
def test_nothing_makes_a_step_longer(kernels: list[tuple[float, float]], seed: int) -> None:
    """Random launches and kernels on one stream: taking away, or making faster, never costs, and no step is shorter than what
    is left of the device's work."""
    rng = np.random.default_rng(seed)
    b = TraceBuilder()
    now, free, at = 0.0, 0.0, []
    for _ in range(3):
        begun = now
        for gap, took in kernels:
            start = max(now + 4, free)
            b.kernel("k", start, took, launched=now)
            at.append(took)
            free, now = start + took, now + gap
        b.step(begun, now - begun)
    facts = _facts(b)
    base = _played(facts)
    gone = [r for r in facts.device_rows.tolist() if rng.random() < 0.4]
    less = _played(facts, Change(events=gone))
    left = sum(facts.trace.device_events.dur[r] for r in facts.device_rows.tolist() if r not in gone) / facts.n
    assert less <= base + 1e-6
    assert less >= left - 1e-6
    assert _played(facts, host=0.5) <= base + 1e-6
    assert base == pytest.approx(max(sum(t for _, t in kernels), sum(g for g, _ in kernels)), abs=1e-6)


def _paced(host_us: float) -> TraceBuilder:
    """The host needs ``host_us`` for a step, in small pieces; the device 400 µs."""
    b = TraceBuilder()
    t, free = 0.0, 0.0
    for _ in range(4):
        b.step(t, host_us)
        for _ in range(10):
            start = max(t + 5, free)
            b.kernel("k", start, 40.0, launched=t)
            free, t = start + 40.0, t + host_us / 10
    return b


def test_the_hosts_pace_follows_from_the_plain_step() -> None:
    facts = _facts(_paced(STEP), plain=700.0)
    assert facts.whatif.pace.host == pytest.approx(0.7, abs=0.01)
    assert facts.whatif.pace.device == USUAL_DEVICE
    assert facts.whatif.step_us == pytest.approx(700.0, rel=0.005)


def test_where_cupti_stayed_attached_a_slow_plain_step_proves_nothing() -> None:
    assert _facts(_paced(STEP), plain=700.0, alone=False).whatif.pace.host == USUAL_HOST
    faster = _facts(_paced(1100.0), plain=430.0, alone=False)
    assert faster.whatif.pace.host < USUAL_HOST, "that the host is faster it does"


@pytest.mark.parametrize("factor", [USUAL_DEVICE - 2 * DEVICE_SPREAD, USUAL_DEVICE + 2 * DEVICE_SPREAD])
def test_where_the_device_sets_the_pace_it_is_slower_or_faster_itself(factor: float) -> None:
    facts = _facts(_paced(500.0), plain=400.0 * factor)
    assert facts.whatif.pace.host == USUAL_HOST
    assert facts.whatif.pace.device == pytest.approx(factor, abs=0.005)


def test_beyond_what_devices_differ_by_it_is_the_host() -> None:
    """A host at half its recorded pace is less unusual than a device that takes a quarter longer."""
    facts = _facts(_paced(STEP), plain=500.0)
    assert facts.whatif.pace.device == USUAL_DEVICE
    assert facts.whatif.pace.host == pytest.approx(0.5, abs=0.01)


def test_where_both_show_each_may_have_a_part() -> None:
    """At the usual paces a step of ``_waiting`` takes 797 µs; unprofiled it took 860: the host is somewhat slower than usual, and the
    device as well."""
    facts = _facts(_waiting(), plain=860.0)
    pace = facts.whatif.pace
    assert USUAL_HOST < pace.host < USUAL_HOST + 0.14
    assert USUAL_DEVICE < pace.device < USUAL_DEVICE + 0.09
    assert facts.whatif.step_us == pytest.approx(860.0, rel=0.003)


def test_savings_are_shares_of_the_plain_step() -> None:
    facts = _facts(_paced(STEP), plain=500.0)
    half = Change(host=spans.of((s.start, s.start + s.dur / 10) for s in facts.trace.steps))
    # The host needs 450 instead of 500 µs.
    assert facts.whatif.saving(half) / facts.n == pytest.approx(50.0, abs=1.0)
    assert facts.whatif.saving(Change()) == 0.0


def test_changes_add_up() -> None:
    one = Change(host=spans.of([(0, 1)]), events=[3, 1], faster={2: 0.5}, waits={7})
    two = Change(host=spans.of([(0.5, 2)]), events=[1], merged={5: 0.1}, waits={8})
    both = together(one, two)
    assert (both.events, both.waits, both.faster, both.merged) == ([1, 3], {7, 8}, {2: 0.5}, {5: 0.1})
    assert spans.measure(both.host) == 2.0


def test_many_waits_are_played_in_the_time_of_one_pass_over_them() -> None:
    """Found by a trace with 20,000 of them, which took minutes: every wait went through all those before it."""
    b = TraceBuilder()
    waits = 10_000
    for k in range(waits):
        b.kernel("small", 100.0 * k + 10, 60.0, launched=100.0 * k)
        b.sync(100.0 * k + 20, 55.0)
    b.step(0.0, 100.0 * waits)
    facts = _facts(b)
    replay = facts.whatif.replay
    begun = time.process_time()
    assert replay.step_us(1) == pytest.approx(100.0 * waits)
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize(
    ("plain", "constant"),
    [
        (9_000.0, pytest.approx(1.0, abs=0.02)),  # the host's pace tells
        (13_000.0, pytest.approx(1.5, abs=0.1)),
        (CONSTANT_MOST * 20_000.0, CONSTANT_MOST),  # beyond that nothing is known
    ],
)
def test_a_step_that_took_longer_without_a_profiler_did_so_by_the_hosts_own_work(plain: float, constant: float) -> None:
    """Of a step of 10 ms the host launches for 2 and is at something else for 8, of which the device works in 2: that it worked a
    quarter longer would explain none of it, and what the work's going saves would be lost with it."""
    b = TraceBuilder()
    for k in range(4):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        for i in range(20):
            b.op("aten::add", t + 100 * i, 90)
            b.kernel("add", t + 200 * i + 20, 200.0, launched=t + 100 * i + 10)
    facts = _facts(b, plain=plain)
    assert facts.whatif.pace.constant == constant
    assert facts.whatif.pace.device == pytest.approx(USUAL_DEVICE, abs=DEVICE_SPREAD)
    if plain == 13_000.0:
        gone = spans.of((10_000.0 * k + 2000, 10_000.0 * k + 10_000) for k in range(4))
        left = 1.0 - facts.whatif.saving(Change(host=gone)) / facts.base_us
        assert plain * left == pytest.approx(USUAL_DEVICE * 4000.0, rel=0.02)
