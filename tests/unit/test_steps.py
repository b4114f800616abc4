"""Shares are of the step as it is without the profiler, on devices that the profiler does not slow."""

from __future__ import annotations

import pytest

from ridgeline.profile import Device, ProfileDocument, Source, Totals
from ridgeline.report.modules import wall_share
from ridgeline.report.whatif import step_us
from ridgeline.steps import undisturbed_us


@pytest.mark.parametrize(
    ("recorded", "plain", "on_cpu", "whole"),
    [(60.0, 10.0, False, 10.0), (60.0, 10.0, True, 60.0), (60.0, None, False, 60.0), (None, 10.0, False, 10.0)],
    ids=["accelerator", "CPU", "no plain step", "no recorded one"],
)
def test_the_whole_is_the_step_that_nobody_disturbed(
    recorded: float | None, plain: float | None, on_cpu: bool, whole: float
) -> None:
    assert undisturbed_us(recorded, plain, on_cpu=on_cpu) == whole


@pytest.mark.parametrize(("kind", "whole"), [("cuda", 10.0), ("cpu", 60.0)])
def test_every_view_has_the_same_whole(kind: str, whole: float) -> None:
    device = Device(id=0, name="device", kind=kind, window_us=120.0)  # type: ignore[arg-type]  # the two kinds of the test
    document = ProfileDocument(source=Source(kind="run", path="train.py", steps=2))
    document.devices = [device]
    document.totals = Totals(wall_us=120.0, plain_step_us=10.0, profiled_step_us=60.0)
    assert step_us(document, device) == whole
    assert wall_share(document, 2.0) == pytest.approx(100 * 1.0 / whole)
