"""data-loading: indices that are drawn in the loop's own thread."""

from __future__ import annotations

import pytest

from builders import TraceBuilder, unix_ns
from ridgeline.findings import find, loading
from ridgeline.findings.drawing import LEFT
from ridgeline.findings.rules.data_loading import SHARE_PCT
from ridgeline.profile import Finding
from ridgeline.sidecar import Interval, LoaderInfo, Sidecar

STEP = 10_000.0
ON_DEVICE = 3000.0


def _loop(draws: list[float], *, rest: float, lines: bool, device: bool) -> TraceBuilder:
    """A loop whose every step begins with a wait: the hand-over, and then the sampler."""
    b = TraceBuilder()
    for k, draw in enumerate(draws):
        t = k * STEP
        b.step(t, STEP)
        b.line(t, t + rest, "train.py", 18, "for x in loader:")
        b.line(
            t + rest, t + rest + draw, *(("sampler.py", 44, "rows = rng.choice(n, p=p)") if lines else ("train.py", 18))
        )
        b.line(t + rest + draw, t + STEP, "train.py", 20, "loss = model(x)")
        if device:
            b.kernel("gemm", t + rest + draw + 100, ON_DEVICE, launched=t + rest + draw + 10)
        else:
            b.op("aten::addmm", t + rest + draw + 1, STEP - rest - draw - 2)
    return b


def _found(
    draws: list[float],
    *,
    rest: float = 100.0,
    workers: int = 2,
    timed: bool = True,
    lines: bool = True,
    device: bool = False,
    plain_drawn: float | None = None,
    plain_step: float | None = None,
) -> list[Finding]:
    b = _loop(draws, rest=rest, lines=lines, device=device)
    begin = [k * STEP for k in range(len(draws))]
    loader = LoaderInfo(
        num_workers=workers,
        pin_memory=False,
        file="train.py",
        line=18,
        waits=[Interval(start_ns=unix_ns(t), end_ns=unix_ns(t + rest + d)) for t, d in zip(begin, draws)],
        ready=[True] * len(draws) if workers else [],
        draws=[Interval(start_ns=unix_ns(t + rest), end_ns=unix_ns(t + rest + d)) for t, d in zip(begin, draws)]
        if timed
        else None,
        plain_us=None if plain_drawn is None else plain_drawn + rest,
        plain_drawn_us=plain_drawn,
        plain_waits=0 if plain_drawn is None else loading.PLAIN_WAITS,
    )
    context = b.context(
        sidecar=Sidecar(loaders=[loader], cpu={"cores": 16}, cupti_left=True),
        plain_step_us=plain_step,
        profiled_step_us=STEP if plain_step else None,
    )
    return [f for f in find(context) if f.code == "data-loading"]


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("lines", [False, True])
def test_the_sampler_is_named_and_no_worker_is_blamed(workers: int, lines: bool) -> None:
    (finding,) = _found([4000.0] * 4, workers=workers, lines=lines)
    assert (finding.file, finding.line, finding.severity) == ("train.py", 18, "information")
    assert "The sampler takes 4 ms per step" in finding.message
    assert f"num_workers={workers}" in finding.message
    assert "handing it over" not in finding.message
    assert "do not keep up" not in finding.message
    assert finding.saving_us == pytest.approx(4000.0 * (1.0 - LEFT))
    place = [{"file": "sampler.py", "line": 44, "text": "draws the indices"}]
    assert finding.evidence["related"] == (place if lines else [])
    assert ("sampler.py:44" in finding.message) is lines


@pytest.mark.parametrize(("off", "drawing"), [(-1.0, 0), (1.0, 1)])
@pytest.mark.parametrize("workers", [0, 4])
def test_at_the_edge(off: float, drawing: int, workers: int) -> None:
    found = _found([SHARE_PCT / 100 * STEP + off] * 4, workers=workers)
    assert sum("The sampler takes" in f.message for f in found) == drawing
    assert all("handing it over" not in f.message for f in found)


def test_without_workers_what_is_drawn_and_what_is_fetched_are_told_apart() -> None:
    fetched, drawn = sorted(
        _found([3000.0] * 4, rest=4000.0, workers=0), key=lambda f: "The sampler takes" in f.message
    )
    assert fetched.time_us == pytest.approx(4000.0)
    assert "Load in worker processes" in fetched.message
    assert drawn.time_us == pytest.approx(3000.0)
    assert fetched.saving_us is not None
    assert drawn.saving_us is not None
    assert fetched.saving_us + drawn.saving_us <= 7000.0


@pytest.mark.parametrize("draw", [0.0, 400.0])
def test_a_small_part_is_named_and_stays_once_workers_load(draw: float) -> None:
    """Less than is judged by itself: of 8 ms that do not compute, on many cores, workers hide all but this and the handing over."""
    (finding,) = _found([draw] * 4, rest=2500.0 - draw, workers=0)
    ready = loading.Batches(1, loading.TENSORS, 0.0).ready_us
    assert finding.saving_us == pytest.approx(2500.0 - draw - ready)
    assert ("the sampler's" in finding.message) is (draw > 0)


@pytest.mark.parametrize(("lines", "sampler"), [(True, True), (False, False)])
def test_of_an_earlier_recording_the_statements_tell(lines: bool, sampler: bool) -> None:
    """The program's own code in the loop's thread, within a wait for workers."""
    (finding,) = _found([4000.0] * 4, timed=False, lines=lines)
    assert ("The sampler takes" in finding.message) is sampler
    assert ("handing it over" in finding.message) is not sampler
    if sampler:
        assert finding.evidence["known_by"] == "the statements in the loop's thread"
        assert finding.saving_us == pytest.approx(4000.0 * (1.0 - LEFT), rel=0.05)


def test_of_an_earlier_recording_without_workers_it_may_as_well_be_the_data_set() -> None:
    (finding,) = _found([4000.0] * 4, timed=False, workers=0)
    assert "The sampler takes" not in finding.message
    assert finding.evidence["related"] == [{"file": "sampler.py", "line": 44, "text": "most of the waiting is here"}]


@pytest.mark.parametrize(
    ("draws", "plain", "severity"),
    [
        ([4000.0, 0, 0, 0], None, "hint"),
        ([4000.0, 490.0, 490.0, 490.0], None, "hint"),
        ([4000.0, 510.0, 510.0, 510.0], None, "information"),
        ([4000.0], None, "hint"),
        ([4000.0, 0, 0, 0], 510.0, "information"),  # unprofiled steps drew as well
        ([4000.0, 0, 0, 0], 490.0, None),
    ],
)
def test_an_epoch_that_is_shuffled_once_is_a_hint(
    draws: list[float], plain: float | None, severity: str | None
) -> None:
    found = [f for f in _found(draws, plain_drawn=plain) if "The sampler takes" in f.message]
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    assert all(("confirm over more steps" in f.message) is (severity == "hint") for f in found)


def test_recorded_lines_slow_a_sampler_in_python() -> None:
    """4 ms of 10 recorded, 1 of 5 unprofiled."""
    (finding,) = _found([4000.0] * 4, plain_drawn=1000.0, plain_step=5000.0)
    assert finding.step_gain_pct == pytest.approx(20.0 * (1.0 - LEFT))
    assert finding.saving_us == pytest.approx(1000.0 * (1.0 - LEFT))
    assert "takes 1 ms per step" in finding.message


def test_on_a_device_what_its_work_hides_costs_nothing() -> None:
    """The step is 3 ms of the device's work once nothing is drawn."""
    (finding,) = _found([8000.0] * 4, device=True, plain_step=STEP)
    assert finding.severity == "information"
    assert finding.saving_us is not None
    assert STEP - finding.saving_us >= ON_DEVICE
    assert finding.saving_us <= 8000.0 * (1.0 - LEFT)
    (slower,) = _found([8000.0] * 4, device=True, plain_step=STEP, plain_drawn=1000.0)
    assert slower.saving_us is not None
    assert slower.saving_us <= 1000.0 * (1.0 - LEFT)
