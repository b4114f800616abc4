"""host-work on a CPU where steps were recorded without their lines as well, and lists that become tensors."""

from __future__ import annotations

import numpy as np
import pytest

from builders import TraceBuilder, unix_ns
from ridgeline.findings import find
from ridgeline.findings.bare import SAME, gaps
from ridgeline.findings.facts import Facts
from ridgeline.findings.quiet import CACHES, FAULT_US, OP_US, WRITTEN, Quiet
from ridgeline.findings.quiet_work import QuietWork
from ridgeline.findings.rules.host_work import SPEEDUP
from ridgeline.profile import Finding
from ridgeline.sidecar import Bare, Interval, LoaderInfo, Sidecar, Window

STEP = 10_000.0
OPS = 2_000.0
"""Of a recorded step; the rest is Python with its lines."""


def _only(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.code == "host-work"]


def _bare(python: float, *, steps: int = 5, ops: float = OPS, count: int = 1, name: str = "aten::addmm") -> Bare:
    """Steps of so many operators, with all of their Python after the last one."""
    spans, rows = [], []
    for k in range(steps):
        start = int(1000 * k * (ops + python))
        spans.append(Interval(start_ns=start, end_ns=start + int(1000 * (ops + python))))
        each = int(1000 * ops / count)
        rows += [[0, 0, start + i * each, each] for i in range(count)]
    return Bare(steps=spans, names=[name], rows=rows)


def _sidecar(bare: Bare) -> Sidecar:
    return Sidecar(windows=[Window(trace="t", reason="stable", bare=bare)])


def _program(events: int = 1000, *, odd: int = 0) -> TraceBuilder:
    """Steps that end with a loop of two lines; ``odd`` of them have another operator."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + OPS, "train.py", 20, "loss = model(x)")
        b.op("aten::addmm", t, OPS / 2)
        if k < odd:
            b.op("aten::item", t + OPS / 2, 1.0)
        b.op("aten::addmm", t + OPS / 2 + 1.0, OPS / 2 - 1.0)
        b.line(t + OPS, t + STEP, "train.py", 24, "rank(rows)")
        each = (STEP - OPS) / events
        for i in range(events):
            b.line(t + OPS + i * each, t + OPS + (i + 1) * each, "rank.py", 4 + i % 2, "total += row")
    return b


@pytest.mark.parametrize("events", [400, 4000, 20_000])
def test_the_steps_without_lines_say_how_long_it_is_whatever_a_line_took(events: int) -> None:
    """Recorded 8 of 10 ms, without lines 2 of 4; no operators are so few that they are longer for being written down."""
    context = _program(events).context(sidecar=_sidecar(_bare(2000.0, count=2)), plain_step_us=4000.0 - 2 * OP_US)
    facts = Facts(context)
    work = QuietWork(Quiet(facts)).work(1.0)
    assert facts.per_step(sum(w.us for w in work)) == pytest.approx(2000.0, rel=0.01)
    (finding,) = _only(find(context))
    assert finding.evidence["share_pct"] == pytest.approx(50.0, rel=0.01)
    assert finding.saving_us == pytest.approx(2000.0 * (1.0 - 1.0 / SPEEDUP), rel=0.01)


@pytest.mark.parametrize(("odd", "matched"), [(2, True), (3, False)])
def test_gaps_are_compared_one_by_one_in_steps_of_as_many_operators(odd: int, matched: bool) -> None:
    """At the edge of ``SAME``: else all Python is compared with all."""
    assert (4 - odd) / 4 >= SAME if matched else (4 - odd) / 4 < SAME
    context = _program(odd=odd).context(sidecar=_sidecar(_bare(2000.0, count=2)), plain_step_us=4000.0)
    facts = Facts(context)
    quiet = Quiet(facts)
    assert quiet.bare is not None
    assert quiet.bare.matched == matched
    work = QuietWork(quiet).work(1.0)
    assert facts.per_step(sum(w.us for w in work)) == pytest.approx(2000.0, rel=0.01)


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (4000.0, 4000.0 - WRITTEN[0] * 2 * OP_US),
        (3900.0, 3900.0),
        (3000.0, 4000.0 - WRITTEN[1] * 2 * OP_US - CACHES * OPS),
        (None, 4000.0 - 2 * OP_US),
    ],
)
def test_the_whole_is_the_unprofiled_step_as_far_as_operators_can_be_longer(
    plain: float | None, expected: float
) -> None:
    context = _program().context(sidecar=_sidecar(_bare(2000.0, count=2)), plain_step_us=plain)
    facts = Facts(context)
    assert facts.per_step(Quiet(facts).plain_us) == pytest.approx(expected)


def test_pages_that_only_the_recorded_steps_ask_for_make_them_longer() -> None:
    bare = _bare(2000.0, count=2)
    bare.faults, bare.plain_faults = [100] * 5, [0] * 5
    facts = Facts(_program().context(sidecar=_sidecar(bare), plain_step_us=3000.0))
    expected = 4000.0 - WRITTEN[1] * 2 * OP_US - CACHES * OPS - 100 * FAULT_US
    assert facts.per_step(Quiet(facts).plain_us) == pytest.approx(expected)


def test_a_busy_machine_in_either_recording_changes_no_share() -> None:
    slow = _bare(6000.0, ops=3 * OPS, count=2)
    (finding,) = _only(find(_program().context(sidecar=_sidecar(slow), plain_step_us=12_000.0)))
    assert finding.evidence["share_pct"] == pytest.approx(50.0, rel=0.01)


def test_waiting_for_a_loader_in_the_same_gap_is_no_work() -> None:
    """3 of the 8 ms are waiting, with lines and without: of a bare gap of 4 ms one is left."""
    waits = [Interval(start_ns=unix_ns((k + 1) * STEP - 3000.0), end_ns=unix_ns((k + 1) * STEP)) for k in range(4)]
    sidecar = _sidecar(_bare(4000.0, count=2))
    sidecar.loaders = [LoaderInfo(num_workers=1, pin_memory=False, file="train.py", line=18, waits=waits)]
    facts = Facts(_program().context(sidecar=sidecar, plain_step_us=6000.0))
    assert facts.per_step(sum(w.us for w in QuietWork(Quiet(facts)).work(1.0))) == pytest.approx(1000.0, rel=0.01)


@pytest.mark.parametrize("ops", [OPS, 3 * OPS])
def test_python_without_lines_tells_how_quick_the_machine_was(ops: float) -> None:
    """A loop with lines and then a sort of 1 ms in a gap; after it another gap, a sort of 1 ms. The loop takes none of the sort's time
    for operators that others slowed."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        for i in range(1000):
            b.line(t + 5.0 * i, t + 5.0 * i + 5.0, "rank.py", 4 + i % 2, "total += row")
        b.line(t + 5000.0, t + 6000.0, "train.py", 24, "first.sort()")
        b.op("aten::addmm", t + 6000.0, OPS)
        b.line(t + 8000.0, t + 9000.0, "train.py", 25, "second.sort()")
        b.op("aten::addmm", t + 9000.0, 1000.0)
    spans, rows = [], []
    for k in range(5):
        start = int(1000 * k * (ops + 4000.0))
        spans.append(Interval(start_ns=start, end_ns=start + int(1000 * (ops + 4000.0))))
        rows += [[0, 0, start + 2_000_000, int(1000 * ops)], [0, 0, start + int(1000 * (ops + 3000.0)), 1_000_000]]
    bare = Bare(steps=spans, names=["aten::addmm"], rows=rows)
    facts = Facts(b.context(sidecar=_sidecar(bare), plain_step_us=ops + 4000.0))
    found = {w.at.line: facts.per_step(w.us) for w in QuietWork(Quiet(facts)).work(1.0)}
    assert found[24] == pytest.approx(1000.0, rel=0.02)
    assert found[25] == pytest.approx(1000.0, rel=0.02)
    assert sum(found.values()) == pytest.approx(3000.0, rel=0.02)


def test_gaps_are_between_operators_that_none_encloses_on_any_thread() -> None:
    start, end = np.array([10.0, 12.0, 30.0, 35.0, 50.0]), np.array([20.0, 15.0, 40.0, 45.0, 60.0])
    found = gaps(start, end, 0.0, 55.0)
    assert found.start.tolist() == [0.0, 20.0, 45.0, 55.0]
    assert found.end.tolist() == [10.0, 30.0, 50.0, 55.0]
    assert gaps(start, end, 100.0, 130.0).length.tolist() == [30.0]


@pytest.mark.parametrize(("last", "expected"), [("aten::lift_fresh", 1), ("aten::relu", 0)])
def test_a_list_that_becomes_a_tensor_is_work(last: str, expected: int) -> None:
    """``torch.tensor(pairs(bonds))``: a type is looked for, then memory is there, then it is filled."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + 8000.0, "train.py", 20, "loss = model(x)")
        b.op("aten::addmm", t, 8000.0)
        b.line(t + 8000.0, t + STEP, "model.py", 24, "pairs = torch.tensor(self.pairs(bonds))")
        b.op("aten::empty", t + 9200.0, 5.0)
        b.op("aten::to", t + 9980.0, 1.0)
        b.op(last, t + 9982.0, 1.0)
    found = _only(find(b.context()))
    assert [(f.line, f.severity) for f in found] == [(24, "information")] * expected
    assert not expected or found[0].evidence["share_pct"] == pytest.approx(20.0, rel=0.03)


@pytest.mark.parametrize(("own", "lines"), [(1500.0, [26, 24]), (300.0, [26])])
def test_what_a_statement_does_beside_what_it_calls_is_a_finding_of_its_own(own: float, lines: list[int]) -> None:
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + 6000.0, "train.py", 20, "loss = model(x)")
        b.op("aten::addmm", t, 6000.0)
        b.line(t + 6000.0, t + STEP, "train.py", 24, "scores = sorted(rank(rows))")
        b.line(t + 6000.0, t + STEP - own, "rank.py", 26, "return json.loads(rows)")
    assert [f.line for f in _only(find(b.context()))] == lines
