"""host-work on a CPU: stretches of the steps in which no operator runs, their statements, and what is none of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import MAIN, TraceBuilder, unix_ns
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.quiet import CACHES, LINE_US, QUIET_US, Quiet
from ridgeline.findings.quiet_work import BEFORE_US, MANY, UNUSUAL, QuietWork
from ridgeline.findings.rules.host_work import HINT_PCT, SHARE_PCT, SPEEDUP
from ridgeline.profile import Finding
from ridgeline.sidecar import Interval, LoaderInfo, Sidecar, Window

STEP = 10_000.0


def _only(findings: list[Finding], code: str = "host-work") -> list[Finding]:
    return [f for f in findings if f.code == code]


def _step(b: TraceBuilder, k: int, quiet: float, *, call: str = "aten::addmm") -> float:
    """A step whose operators leave ``quiet`` µs at its end; when that begins."""
    t = k * STEP
    b.step(t, STEP)
    b.line(t, t + STEP, "train.py", 20, "loss = model(x)")
    b.op(call, t, STEP - quiet)
    return t + STEP - quiet


def _program(quiet: float, *, steps: int = 4, every: int = 1) -> TraceBuilder:
    """Steps that end with some Python, called by one line of the loop."""
    b = TraceBuilder()
    for k in range(steps):
        if k % every:
            _step(b, k, 0.0)
            continue
        at = _step(b, k, quiet)
        b.line(at, at + quiet, "train.py", 24, "metrics.update(predicted)")
        b.line(at, at + quiet, "metrics.py", 8, "self.seen = sorted(self.seen)")
    return b


def test_the_innermost_statement_and_its_share_of_the_step() -> None:
    (finding,) = _only(find(_program(4000.0).context()))
    assert (finding.file, finding.line) == ("metrics.py", 8)
    assert finding.severity == "information"
    assert finding.evidence["share_pct"] == pytest.approx(40.0, rel=0.01)
    assert finding.evidence["times_per_step"] == 1
    assert finding.step_gain_pct == pytest.approx(40.0 * (1 - 1 / SPEEDUP), rel=0.01)
    assert finding.saving_us is not None
    assert finding.saving_bound_us is not None
    assert finding.saving_us <= finding.saving_bound_us <= 4000.0 * 1.001


@pytest.mark.parametrize(
    ("share", "severity"),
    [(SHARE_PCT + 0.2, "information"), (SHARE_PCT - 0.2, "hint"), (HINT_PCT + 0.2, "hint"), (HINT_PCT - 0.2, None)],
)
def test_at_the_edges_of_its_share(share: float, severity: str | None) -> None:
    found = _only(find(_program(STEP * share / 100.0).context()))
    assert [f.severity for f in found] == ([] if severity is None else [severity])


@pytest.mark.parametrize(("length", "expected"), [(QUIET_US - 1, 0), (QUIET_US + 1, 1)])
def test_what_lies_between_two_operators_is_no_work_of_the_programs_own(length: float, expected: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        b.step(k * STEP, STEP)
        for i in range(20):
            t = k * STEP + i * STEP / 20
            b.line(t, t + STEP / 20 - length, "model.py", 30, "x = self.gate(self.norm(x))")
            b.line(t + STEP / 20 - length, t + STEP / 20, "model.py", 31, "seen.append(name)")
            b.op("aten::addmm", t, STEP / 20 - length)
    assert len(_only(find(b.context()))) == expected


@pytest.mark.parametrize(
    ("before", "length", "expected"),
    [(True, BEFORE_US + 10, 1), (True, BEFORE_US - 1, 0), (False, BEFORE_US + 10, 0)],
)
def test_of_a_statement_that_runs_operators_only_what_is_long_and_before_them(
    before: bool, length: float, expected: int
) -> None:
    """``torch.tensor(json.loads(line))`` reads first; after ``loss = model(x)`` the graph of the step before is given back."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + STEP, "train.py", 20, "x = torch.tensor(json.loads(line))")
        b.op("aten::addmm", t + length * before, STEP - length)
    assert [f.severity for f in _only(find(b.context()))] == ["hint"] * expected


@pytest.mark.parametrize(("asleep", "expected"), [(0.0, 1), (3900.0, 0)])
def test_sleeping_is_no_work(asleep: float, expected: int) -> None:
    """A server that waits for the next request: its thread neither runs nor is ready to."""
    window = Window(trace="t", reason="stable", start_ns=0, end_ns=int(4e3 * STEP), asleep_ns=int(4e3 * asleep))
    context = _program(4000.0).context(sidecar=Sidecar(windows=[window], pid=MAIN))
    assert len(_only(find(context))) == expected


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("noise = rng.standard_normal(1000)", "hint"),
        ("mean = mean + noise[order] @ weights", "hint"),
        ("x = torch.from_numpy(np.sort(scores.numpy()))", "hint"),
        ("rows = [np.sort(row) for row in noise]", "information"),
        ("noise = sorted(rng.random(1000).tolist(), key=rank)", "information"),
        ("words = text.split()", "information"),
    ],
)
def test_arithmetic_on_whole_arrays_is_a_hint(text: str, severity: str) -> None:
    source = f"import numpy as np\nimport torch\n\nrng = np.random.default_rng(0)\nnoise = rng.random(9)\n{text}\n"
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "evolve.py", 6, text)
    (finding,) = _only(find(b.context(sources={"evolve.py": source})))
    assert finding.severity == severity


@pytest.mark.parametrize(("every", "expected"), [(2, 1), (3, 0)])
def test_now_and_then_is_an_evaluation_or_a_checkpoint(every: int, expected: int) -> None:
    assert len(_only(find(_program(4000.0, steps=12, every=every).context()))) == expected


def test_two_statements_are_two_findings_and_promise_no_more_than_both() -> None:
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 1000.0, "train.py", 24, "log.write(json.dumps(row))")
        b.line(at + 1000.0, at + 4000.0, "train.py", 25, "queue.sort()")
    found = _only(find(b.context()))
    assert [f.line for f in found] == [25, 24]
    assert sum(f.step_gain_pct or 0.0 for f in found) <= 40.0 * 1.01


def test_statements_of_one_loop_are_one_finding() -> None:
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "train.py", 24, "confusion.update(y, predicted)")
        for i in range(100):
            b.line(at + 40.0 * i, at + 40.0 * i + 15.0, "metrics.py", 8, "for t, p in zip(y, predicted):")
            b.line(at + 40.0 * i + 15.0, at + 40.0 * i + 40.0, "metrics.py", 9, "self.counts[t, p] += 1")
    (finding,) = _only(find(b.context()))
    assert (finding.file, finding.line) == ("metrics.py", 9)
    assert finding.evidence["share_pct"] == pytest.approx(40.0, abs=3.0)
    assert finding.evidence["related"] == [{"file": "metrics.py", "line": 8, "text": "of the same loop"}]


@pytest.mark.parametrize(("calls", "line"), [(int(MANY) - 1, 5), (int(MANY), 24)])
def test_what_a_statement_calls_many_times_is_the_statements(calls: int, line: int) -> None:
    """``sorted(rows, key=rarity)``: the order is what costs, not one row's rarity. Called a few times, the function is."""
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "train.py", 24, "self.order = sorted(rows, key=self.rarity)")
        each = 4000.0 / calls
        for i in range(calls):
            b.line(at + i * each + 1.0, at + (i + 1) * each - 1.0, "score.py", 5, "return sum(map(self.weight, words))")
    (finding,) = _only(find(b.context()))
    assert finding.line == line


def test_waiting_for_the_loader_is_data_loading() -> None:
    waits = [Interval(start_ns=unix_ns(k * STEP + 6000.0), end_ns=unix_ns((k + 1) * STEP)) for k in range(4)]
    loader = LoaderInfo(num_workers=0, pin_memory=False, file="train.py", line=18, waits=waits)
    found = find(_program(4000.0).context(sidecar=Sidecar(loaders=[loader])))
    assert len(_only(found, "data-loading")) == 1
    assert not _only(found)


def test_a_loader_that_starts_its_workers_is_none() -> None:
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "train.py", 18, "for x in loader:")
    context = b.context(
        sidecar=Sidecar(loaders=[LoaderInfo(num_workers=2, pin_memory=False, file="train.py", line=18)])
    )
    assert not _only(find(context))


@pytest.mark.parametrize(("inside", "expected"), [(False, 0), (True, 1)])
def test_an_optimizer_is_none_but_what_it_calls_of_the_programs_may_be(inside: bool, expected: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "train.py", 24, "optimizer.step(closure)")
        b.range("Optimizer.step#LBFGS.step", at + 1.0, 3998.0)
        if inside:
            b.line(at + 10.0, at + 3990.0, "train.py", 15, "words = text.split()")
    assert len(_only(find(b.context()))) == expected


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        ("loss.backward()", None, 0),
        ("weights = solve(residual)", "autograd::engine::evaluate_function: AddmmBackward0", 0),
        ("weights = solve(residual)", "autograd::engine::evaluate_function: SolverBackward", 1),
        ("weights = solve(residual)", "Torch-Compiled Region: 0/0", 0),
        ("weights = solve(residual)", "Solver", 1),
    ],
)
def test_rows_around_the_programs_own_python_are_no_operators(text: str, node: str | None, expected: int) -> None:
    b = TraceBuilder()
    b.name("Solver")
    for k in range(4):
        at = _step(b, k, 4000.0)
        b.line(at, at + 4000.0, "train.py", 24, text)
        if node:
            b.op(node, at, 4000.0)
    assert len(_only(find(b.context()))) == expected


@pytest.mark.parametrize("wrapped", ["TorchDynamo Cache Lookup", "gloo:all_reduce"])
def test_guards_of_compiled_code_and_communication_are_none(wrapped: str) -> None:
    b = _program(4000.0)
    for k in range(4):
        b.range(wrapped, (k + 1) * STEP - 4000.0, 4000.0, tid=7)
    assert not _only(find(b.context()))


def test_the_share_is_of_the_unprofiled_step() -> None:
    """Lines slow plain Python and not operators: recorded the loop takes 8 of 10 ms, unprofiled 2 of 4."""
    b = TraceBuilder()
    events = int(6000.0 / LINE_US / 2) * 2
    for k in range(3):
        at = _step(b, k, 8000.0)
        b.line(at, at + 8000.0, "train.py", 24, "rank(rows)")
        each = 8000.0 / events
        for i in range(events // 2):
            b.line(at + 2 * i * each, at + (2 * i + 1) * each, "rank.py", 4, "for row in rows:")
            b.line(at + (2 * i + 1) * each, at + (2 * i + 2) * each, "rank.py", 5, "total += row")
    # The operators are a bit slower as well (``CACHES``): 1.7 of 2 ms are taken for theirs.
    own = 4000.0 - 2000.0 * (1.0 - CACHES)
    facts = Facts(b.context(plain_step_us=4000.0, profiled_step_us=STEP))
    (work,) = QuietWork(Quiet(facts)).work(1.0)
    assert facts.per_step(work.us) == pytest.approx(own, rel=0.02)
    (finding,) = _only(find(b.context(plain_step_us=4000.0, profiled_step_us=STEP)))
    assert finding.evidence["share_pct"] == pytest.approx(100.0 * own / 4000.0, rel=0.02)
    assert finding.saving_us == pytest.approx(own * (1.0 - 1.0 / SPEEDUP), rel=0.02)


def test_operators_that_the_recorder_slows_do_not_hide_it() -> None:
    """Recorded 4 of 10 ms; unprofiled the operators take 2 ms less, so it is half of a step of 8 ms."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + 6000.0, "train.py", 20, "loss = model(x)")
        b.line(t + 6000.0, t + STEP, "train.py", 24, "queue.sort()")
        for i in range(1500):
            b.op("aten::addmm", t + 4.0 * i, 4.0)
    (finding,) = _only(find(b.context(plain_step_us=8000.0, profiled_step_us=STEP)))
    assert finding.evidence["share_pct"] == pytest.approx(50.0, rel=0.01)
    assert finding.saving_us == pytest.approx(4000.0 * (1 - 1 / SPEEDUP), rel=0.01)
    assert finding.saving_bound_us == pytest.approx(4000.0, rel=0.01)


@pytest.mark.parametrize(("long", "expected"), [(5, 1), (4, 0)])
def test_a_core_that_is_taken_away_now_and_then_is_no_work(long: int, expected: int) -> None:
    """Ten times a step the program comes to a line between two operators, and a few times it is there for long."""
    b = TraceBuilder()
    for k in range(4):
        b.step(k * STEP, STEP)
        for i in range(10):
            t = k * STEP + i * STEP / 10
            stays = 600.0 if i < long else 20.0
            b.line(t, t + STEP / 10 - stays, "model.py", 30, "h = layer(h)")
            b.op("aten::addmm", t, STEP / 10 - stays)
            b.line(t + STEP / 10 - stays, t + STEP / 10, "model.py", 31, "names.append(layer.name)")
    assert len(_only(find(b.context()))) == expected


def test_what_a_statement_does_around_the_operators_that_it_calls_is_its_own_matter() -> None:
    """``x = checkpoint(block, x)``: a library's wrapper around the program's block."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + STEP, "train.py", 24, "x = checkpoint(block, x)")
        b.line(t + 1000.0, t + STEP, "model.py", 9, "return self.layer(x)")
        b.op("aten::addmm", t + 1000.0, STEP - 1000.0)
    assert not _only(find(b.context()))


def test_a_single_step_that_was_held_up_does_not_count() -> None:
    b = TraceBuilder()
    for k in range(9):
        quiet = 6000.0 if k == 4 else 300.0
        at = _step(b, k, quiet)
        b.line(at, at + quiet, "train.py", 24, "queue.sort()")
    (finding,) = _only(find(b.context()))
    assert finding.severity == "hint"
    assert finding.evidence["unprofiled_us_per_step"] == pytest.approx(300.0 * (8 + UNUSUAL) / 9, rel=0.02)


@pytest.mark.parametrize(("running", "plain_running"), [(0.5, 1.0), (1.0, 0.5), (0.5, 0.5)])
def test_a_machine_that_is_busier_at_one_time_changes_no_share(running: float, plain_running: float) -> None:
    """The thread computes 6 ms of operators and 4 of Python a step; other programs make either time longer."""
    b = TraceBuilder()
    for k in range(4):
        t = k * STEP / running
        b.step(t, STEP / running)
        b.line(t, t + 6000.0 / running, "train.py", 20, "loss = model(x)")
        b.op("aten::addmm", t, 6000.0 / running)
        b.line(t + 6000.0 / running, t + STEP / running, "train.py", 24, "queue.sort()")
    window = Window(trace="t", reason="stable", running=running, plain_running=plain_running)
    context = b.context(
        sidecar=Sidecar(windows=[window]), plain_step_us=STEP / plain_running, profiled_step_us=STEP / running
    )
    (finding,) = _only(find(context))
    assert finding.evidence["share_pct"] == pytest.approx(40.0, rel=0.02)


def test_without_lines_nothing_is_said() -> None:
    context = _program(4000.0).context()
    assert not _only(find(replace(context, attribution=replace(context.attribution, host_stays=None))))
