"""The funnel: gates, caps, and that no microsecond is promised twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import TraceBuilder
from ridgeline.findings import find, spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import EDITOR_PCT, PER_FILE, SUGGEST_PCT, settle
from ridgeline.findings.summary import OPERATORS_PCT, summarise
from ridgeline.profile import SourceRef
from ridgeline.sidecar import Sidecar, Window


def _facts(steps: int = 2, step: float = 1000.0) -> Facts:
    b = TraceBuilder()
    for k in range(steps):
        b.step(k * step, step)
        b.op("aten::mm", k * step, step)
    return Facts(b.context())


def _candidate(saving: float, claims: list[tuple[float, float]] | None = None, **more: object) -> Candidate:
    return Candidate(
        code=str(more.pop("code", "x")),
        title="Title",
        fact="Fact.",
        advice="Advice.",
        cost_us=saving,
        saving_us=saving,
        claims=spans.of(claims) if claims is not None else None,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("share", "kept", "severity", "editor"),
    [
        (SUGGEST_PCT - 0.01, False, None, None),
        (SUGGEST_PCT + 0.01, True, "hint", False),
        (EDITOR_PCT - 0.01, True, "hint", False),
        (EDITOR_PCT + 0.01, True, "information", None),
    ],
)
def test_gates(share: float, kept: bool, severity: str | None, editor: bool | None) -> None:
    found = settle(_facts(), [_candidate(20.0 * share)])
    assert bool(found) == kept
    if found:
        assert found[0].severity == severity
        assert found[0].evidence.get("editor") is editor


@pytest.mark.parametrize(
    ("known", "severity"),
    [
        (None, "information"),  # nothing says that it is small
        (EDITOR_PCT - 0.01, "hint"),
        (EDITOR_PCT + 0.01, "information"),
    ],
)
def test_what_is_not_judged_is_weighed_by_what_is_known(known: float | None, severity: str) -> None:
    (finding,) = settle(
        _facts(),
        [Candidate(code="x", title="Title", fact="Fact.", known_us=None if known is None else 20.0 * known)],
    )
    assert finding.severity == severity
    assert (finding.saving_us, finding.time_us) == (None, None)


def test_what_is_judged_is_not_weighed_by_what_is_known() -> None:
    (finding,) = settle(_facts(), [_candidate(500.0, known_us=1.0)])
    assert finding.severity == "information"


def test_a_noted_fact_survives_without_advice_or_promise() -> None:
    (finding,) = settle(_facts(), [_candidate(1.0, noted=True)])
    assert (finding.severity, finding.message, finding.saving_us) == ("hint", "Fact.", None)
    assert finding.evidence["editor"] is False


def test_savings_are_per_step_and_bounded_by_what_is_claimed() -> None:
    (finding,) = settle(_facts(), [_candidate(900.0, [(0.0, 400.0)])])
    assert finding.saving_us == pytest.approx(200.0)
    assert finding.saving_bound_us == pytest.approx(200.0)
    assert finding.step_gain_pct == pytest.approx(20.0)


def test_the_same_time_is_promised_once() -> None:
    found = settle(_facts(), [_candidate(500.0, [(0.0, 500.0)]), _candidate(400.0, [(100.0, 500.0)], code="y")])
    assert [f.code for f in found] == ["x"], "nothing is left for the second"


def test_half_of_the_time_left_is_half_of_the_saving() -> None:
    found = settle(_facts(), [_candidate(500.0, [(0.0, 500.0)]), _candidate(400.0, [(300.0, 700.0)], code="y")])
    assert [f.saving_us for f in found] == [pytest.approx(250.0), pytest.approx(100.0)]


def test_a_general_cause_claims_what_the_narrower_ones_leave() -> None:
    found = settle(
        _facts(), [_candidate(900.0, [(0.0, 900.0)], general=True, code="g"), _candidate(100.0, [(0.0, 100.0)])]
    )
    by_code = {f.code: f.saving_us for f in found}
    assert by_code == {"x": pytest.approx(50.0), "g": pytest.approx(400.0)}


def test_at_most_ten_a_file() -> None:
    places = [SourceRef(file="a.py", line=k) for k in range(PER_FILE + 5)]
    found = settle(_facts(), [_candidate(30.0 + k, at=p) for k, p in enumerate(places)])
    assert len(found) == PER_FILE
    assert {f.line for f in found} == set(range(5, PER_FILE + 5)), "the ones most worth doing stay"


@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 2000), st.floats(0, 5000), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_promises_never_add_up_to_more_than_there_is(rows: list[tuple[int, int, float, bool]]) -> None:
    facts = _facts()
    candidates = [_candidate(s, [(min(a, b), max(a, b))] if claimed else None) for a, b, s, claimed in rows]
    found = settle(facts, candidates)
    unclaimed = [f for f in found if f.saving_us is not None]
    assert all(0.0 <= f.saving_us <= (f.saving_bound_us or 0.0) + 1e-6 for f in unclaimed if f.saving_us is not None)
    assert sum(f.saving_us or 0.0 for f in found) <= facts.step_us + 1e-6


def test_the_summary_names_the_three_most_worth_doing() -> None:
    facts = _facts()
    findings = settle(
        facts, [_candidate(100.0 + 50 * k, [(400.0 * k, 400.0 * k + 390)], code=f"c{k}") for k in range(5)]
    )
    summary = summarise(facts, findings)
    assert [row["code"] for row in summary.evidence["top"]] == ["c4", "c3", "c2"]
    assert summary.message.startswith("1. ")


def test_a_busy_device_near_its_peak_is_told_so() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.kernel("gemm", 0.0, 990.0, launched=-5.0)
    summary = summarise(Facts(b.context()), [])
    assert summary.title == "GPU bound: nothing to do here"
    assert summary.message.startswith("The device works ")


@pytest.mark.parametrize(
    ("busy", "title"), [(OPERATORS_PCT - 1, "Nothing found"), (OPERATORS_PCT + 1, "Nothing to do here")]
)
def test_where_operators_run_seldom_it_is_not_arithmetic(busy: float, title: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(1000.0 * k, 1000.0)
        b.op("aten::mm", 1000.0 * k, 10.0 * busy)
    summary = find(b.context())[0]
    assert summary.title == title
    assert ("own Python" in summary.message) is (title == "Nothing found")


@pytest.mark.parametrize(
    ("number", "text"),
    [(4160.0, "4,160"), (999.6, "1,000"), (999.4, "999"), (12.5, "12.5"), (0.917, "0.917"), (3.0, "3")],
)
def test_counts_are_never_in_powers_of_ten(number: float, text: str) -> None:
    assert words.count(number) == text


@pytest.mark.parametrize(("left", "said"), [(True, False), (False, True)])
def test_idle_without_a_cause_that_may_be_the_profilers(left: bool, said: bool) -> None:
    """A device that works 840 of the plain step's 1,000 µs: the same figure as its plain busy share, and whether CUPTI was there."""
    b = TraceBuilder()
    for k in range(3):
        b.step(2000.0 * k, 2000.0)
        b.kernel("gemm", 2000.0 * k + 2, 840.0, launched=2000.0 * k)
        b.sync(2000.0 * k + 10, 1980.0)
    sidecar = Sidecar(windows=[Window(trace="trace.json.gz", reason="stable", lines=True)], cupti_left=left)
    facts = Facts(b.context(sidecar=sidecar, plain_step_us=1000.0, profiled_step_us=2600.0))
    summary = summarise(facts, [])
    assert summary.evidence["idle_pct_without_profiler"] == pytest.approx(16.0)
    assert "idles 16 %" in summary.message
    assert ("CUPTI attached" in summary.message) == said


@pytest.mark.parametrize(
    ("us", "text"), [(84.0, "84 µs"), (59e6, "59 s"), (599e6, "599 s"), (4.8e9, "80 min"), (3.6e9 * 1500, "1,500 h")]
)
def test_times_are_never_in_powers_of_ten(us: float, text: str) -> None:
    assert words.time(us) == text


def test_one_is_no_plural() -> None:
    assert [words.things(n, "operation") for n in (1, 1.0004, 2, 0.5)] == [
        "1 operation",
        "1 operation",
        "2 operations",
        "0.5 operations",
    ]


def test_without_steps_nothing_is_said_of_one() -> None:
    b = TraceBuilder()
    b.op("aten::mm", 0.0, 900.0)
    b.op("aten::mm", 950.0, 50.0)
    assert "a per cent of the recording" in find(b.context())[0].message
