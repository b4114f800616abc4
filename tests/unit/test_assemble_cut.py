"""What the end of the recording cut off, and what ran in a step of a program on the CPU."""

from __future__ import annotations

import pytest

from builders import BASE_NS, TraceBuilder
from ridgeline.assemble.cut import STEPS, end_with_steps, holds_start
from ridgeline.assemble.devices import step_rows, window_of
from ridgeline.assemble.pace import adopt_steps
from ridgeline.sidecar import Interval, Sidecar, Window
from ridgeline.trace.tables import DeviceInfo, Trace
from ridgeline.trace.work import work_table

CPU = [DeviceInfo(id=0, name="CPU", kind="cpu")]


def at(us: float) -> int:
    return BASE_NS + int(us * 1000)


def recorded() -> tuple[Trace, Sidecar]:
    """Three calls of a compiled region, each marked 10 us after its record begins; the window closes in the fourth."""
    builder = TraceBuilder()
    builder.op("aten::mm", 0.0, 50.0)
    for step in (1, 2):
        builder.op("Torch-Compiled Region: 0/0", 100.0 * step - 10, 70.0)
        builder.op("aten::mm", 100.0 * step, 50.0)
    builder.op("Torch-Compiled Region: 0/0", 290.0, 20_000.0)
    builder.op("Pregraph bytecode", 295.0, 2.0)
    builder.op("aten::empty", 303.0, 500.0, tid=77)
    steps = [Interval(start_ns=at(100 * step), end_ns=at(100 * step + 100)) for step in range(3)]
    window = Window(
        trace="trace.json.gz", reason="stable", marker="region", start_ns=at(-5), end_ns=at(305), steps=steps
    )
    return builder.build(devices=CPU), Sidecar(windows=[window])


def test_the_region_in_which_the_recording_ends_lasts_to_the_end_of_the_last_step() -> None:
    trace, sidecar = recorded()
    adopt_steps(trace, sidecar, "trace.json.gz")
    end_with_steps(trace, sidecar, "trace.json.gz")
    names = [trace.strings[name] for name in trace.ops.name.tolist()]
    own = list(zip(names, trace.ops.start.tolist(), trace.ops.dur.tolist(), trace.ops.self_dur.tolist()))
    assert ("Torch-Compiled Region: 0/0", 190.0, 70.0, 20.0) in own
    assert ("Torch-Compiled Region: 0/0", 290.0, 10.0, 8.0) in own
    assert ("aten::empty", 303.0, 2.0, 2.0) in own  # began after the last step: up to the end of the window
    work = work_table(trace)
    window = window_of(trace, work)
    assert window.wall_us == 300.0
    assert float(work.time.sum()) == 50.0 + 2 * 70.0 + 10.0 + 2.0


def test_nothing_is_cut_without_steps_or_a_window_of_this_trace() -> None:
    for name, emptied in (("another.json.gz", False), ("trace.json.gz", True)):
        trace, sidecar = recorded()
        if emptied:
            sidecar.windows[0].steps = []
        before = trace.ops.dur.tolist()
        adopt_steps(trace, sidecar, name)
        end_with_steps(trace, sidecar, name)
        assert trace.ops.dur.tolist() == before


def test_a_step_on_the_cpu_is_never_busier_than_it_is_long() -> None:
    trace, sidecar = recorded()
    adopt_steps(trace, sidecar, "trace.json.gz")
    rows = step_rows(trace, work_table(trace))
    assert [(row.wall_us, row.busy_us) for row in rows] == [(100.0, 60.0), (100.0, 70.0), (100.0, 70.0)]


@pytest.mark.parametrize(
    ("reason", "steps", "expected"), [("whole", STEPS, True), ("whole", STEPS - 1, False), ("stable", STEPS, False)]
)
def test_a_recording_from_the_programs_beginning_holds_more_than_its_steps(
    reason: str, steps: int, expected: bool
) -> None:
    trace, sidecar = recorded()
    sidecar.windows[0].reason = reason
    sidecar.windows[0].steps = sidecar.windows[0].steps[:steps]
    adopt_steps(trace, sidecar, "trace.json.gz")
    assert holds_start(trace, sidecar, "trace.json.gz") is expected
    assert not holds_start(trace, sidecar, "another.json.gz")
    assert not holds_start(trace, None, "trace.json.gz")
