"""Change told from noise, and what must not be compared."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from rich.console import Console

from ridgeline import profile_io
from ridgeline.compare import Change, Comparison, compare
from ridgeline.profile import Device, Finding, Kernel, ProfileDocument, RecordedWith, Source, Step, Totals
from ridgeline.report.comparison import render

Doc = dict[str, Any]


def kernel(
    name: str, median: float, *, count: int = 30, iqr: float = 0.2, id: str | None = None, **more: Any
) -> Kernel:
    return Kernel(
        id=id or name, name=name, symbol=name, device=0, category="pointwise", count=count, total_us=median * count,
        min_us=median - iqr, q1_us=median - iqr / 2, median_us=median, q3_us=median + iqr / 2, max_us=median + iqr, **more
    )  # fmt: skip


def document(
    *kernels: Kernel, step_us: float = 1000.0, jitter: float = 5.0, stacks: bool = False, device: str = "GPU"
) -> Doc:
    made = ProfileDocument(
        source=Source(kind="run", path="train.py", steps=10, recorded_with=RecordedWith(stacks=stacks, shapes=True)),
        totals=Totals(),
        devices=[Device(id=0, name=device, kind="cuda")],
        kernels=list(kernels),
        steps=[Step(name=f"{i}", start_us=i * step_us, wall_us=step_us + jitter * (i % 3 - 1)) for i in range(10)],
    )
    decoded: Doc = json.loads(profile_io.to_json(made))
    return decoded


def test_inside_the_noise_nothing_is_claimed() -> None:
    found = compare(document(kernel("a", 10.0)), document(kernel("a", 10.15), step_us=1004))
    assert not found.changed
    assert [row.verdict for row in found.kernels] == ["same"]


def test_beyond_the_noise_it_is() -> None:
    found = compare(document(kernel("a", 10.0), step_us=1000), document(kernel("a", 8.0), step_us=940))
    assert found.step is not None
    assert found.step.verdict == "faster"
    assert found.kernels[0].verdict == "faster"
    assert found.kernels[0].before_us == 30.0  # 10 us, three launches a step


def test_a_wide_spread_hides_the_same_change() -> None:
    found = compare(document(kernel("a", 10.0, iqr=4)), document(kernel("a", 8.0, iqr=4), jitter=90))
    assert found.kernels[0].verdict == "same"


def test_stacks_on_one_side_refuse_the_wall_time_not_the_device_time() -> None:
    found = compare(document(kernel("a", 10.0), stacks=True, step_us=9000), document(kernel("a", 10.0)))
    assert found.step is None
    assert any("stacks" in reason for reason in found.refused)
    assert found.device.verdict == "same"
    assert found.headline is found.device


def test_appeared_vanished_and_the_same_graph_under_another_name() -> None:
    before = document(kernel("triton_poi_fused_add_0", 10.0, aten=["add"]), kernel("gone", 5.0))
    after = document(kernel("triton_poi_fused_add_3", 10.0, aten=["add"]), kernel("new", 6.0, aten=["mul"]))
    rows = {row.label: row for row in compare(before, after).kernels}
    assert rows["triton_poi_fused_add_3"].renamed_from == "triton_poi_fused_add_0"
    assert rows["triton_poi_fused_add_3"].verdict == "same"
    assert rows["gone"].verdict == "vanished"
    assert rows["new"].verdict == "appeared"


def test_a_kernel_that_one_run_splits_by_shape_is_compared_as_a_whole() -> None:
    before = document(kernel("gemm", 10.0, count=20, id="s1"), kernel("gemm", 20.0, count=10, id="s2"))
    after = document(kernel("gemm", 13.3, count=30, id="graph"))
    (row,) = compare(before, after).kernels
    assert row.verdict == "same"
    assert row.before_us == 40.0


def test_a_finding_that_is_gone_is_said() -> None:
    before, after = document(kernel("a", 10.0)), document(kernel("a", 10.0))
    finding = Finding(
        code="hidden-sync", title="item() waits", severity="information", message="", file="/x/t.py", line=3
    )
    before["findings"] = [json.loads(profile_io.to_json(ProfileDocument(source=Source(kind="run", path=""), findings=[finding])))["findings"][0]]  # fmt: skip
    assert compare(before, after).resolved == ["hidden-sync: item() waits (t.py:3)"]


def test_two_runs_of_one_program_are_no_change_19_times_of_20() -> None:
    """Launches drawn from one distribution, with the drift between runs that clocks cause (half a per cent)."""
    rng = random.Random(7)

    def run() -> Doc:
        drift = rng.gauss(1.0, 0.005)
        kernels = []
        for name, base in (("a", 100.0), ("b", 40.0), ("c", 7.0)):
            times = sorted(rng.gauss(base * drift, base * 0.01) for _ in range(30))
            made = kernel(name, times[15], iqr=times[22] - times[7])
            made.total_us = sum(times)
            kernels.append(made)
        return document(*kernels, step_us=1000 * drift, jitter=6)

    outcomes = [compare(run(), run()) for _ in range(20)]
    assert sum(not found.changed and found.device.verdict == "same" for found in outcomes) >= 19


def test_three_launches_a_run_do_not_make_a_profile_of_claims() -> None:
    """Hundreds of rows, three samples each, all of one distribution: hardly a row may look changed by chance."""
    rng = random.Random(3)

    def run() -> Doc:
        kernels = []
        for n in range(400):
            low, middle, high = sorted(rng.gauss(50.0, 5.0) for _ in range(3))
            made = kernel(f"k{n}", middle, count=3)
            made.q1_us, made.q3_us, made.total_us = (low + middle) / 2, (middle + high) / 2, low + middle + high
            kernels.append(made)
        return document(*kernels)

    claimed = [sum(row.verdict != "same" for row in compare(run(), run()).kernels) for _ in range(10)]
    assert sum(claimed) <= 0.005 * 400 * 10, claimed


def test_one_launch_a_run_shows_no_spread_and_claims_only_what_is_plain() -> None:
    before = document(kernel("a", 10.0, count=1, iqr=0.0), kernel("b", 10.0, count=1, iqr=0.0))
    after = document(kernel("a", 15.0, count=1, iqr=0.0), kernel("b", 50.0, count=1, iqr=0.0))
    verdicts = {row.label: row.verdict for row in compare(before, after).kernels}
    assert verdicts == {"a": "same", "b": "slower"}


def test_a_machine_without_cores_to_spare_claims_nothing_on_the_host() -> None:
    """The program's threads had no core half of the time: twice as long says nothing."""
    before, after = document(kernel("a", 10.0)), document(kernel("a", 18.0), step_us=1800)
    assert compare(before, after).changed
    for doc in (before, after):
        doc["source"]["cpu_wait_pct"] = 50.0
    found = compare(before, after)
    assert found.step is not None
    assert found.step.verdict == "same"
    assert found.kernels[0].verdict == "slower"  # of a GPU, whose kernels do not wait for cores
    for doc in (before, after):
        doc["devices"][0]["kind"] = "cpu"
    assert compare(before, after).kernels[0].verdict == "same"


@pytest.mark.parametrize(
    ("before", "after", "noise", "words"),
    [
        (513e3, 65e3, 2.2e6, "Too noisy to tell: 513 ms → 65.0 ms a step (noise ±2.20 s)"),
        (100.0, 101.0, 5.0, "No change beyond the noise: 100 µs → 101 µs a step (noise ±5.00 µs)"),
        (100.0, 100.0, 0.0, "No change: 100 µs → 100 µs a step"),
    ],
)
def test_what_noise_hides_is_not_called_unchanged(before: float, after: float, noise: float, words: str) -> None:
    change = Change(label="step", before_us=before, after_us=after, noise_us=noise, verdict="same")
    shown = io.StringIO()
    render(
        Comparison(before="a.py", after="a.py", basis="step", step=change, device=change),
        Console(file=shown, width=200),
    )
    assert words in shown.getvalue()
