"""Documents read without msgspec are the same; damaged ones are a message, or a page of what is left."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ridgeline import profile_io
from ridgeline.profile import (
    Allocation,
    CallLine,
    Device,
    Finding,
    GeneratedRef,
    Kernel,
    Launch,
    Line,
    Memory,
    Op,
    Phases,
    ProfileDocument,
    Slice,
    Source,
    SourceRef,
    Step,
)
from ridgeline.report import page
from ridgeline.report.decode import MalformedError, document
from ridgeline.report.page_data import page_and_links


def whole() -> ProfileDocument:
    kernel = Kernel(
        id="k", name="k<1>", symbol="k", device=0, category="gemm", count=2, total_us=20.0, min_us=9.0, q1_us=9.5,
        median_us=10.0, q3_us=10.5, max_us=11.0, exposed_us=20.0, bound="memory", slice=Slice(ts_us=1.5, dur_us=10.0),
        launch=Launch(grid=[1, 2, 3], waves=0.5), source=[SourceRef(file="/w/a.py", line=3)],
        generated=[GeneratedRef(file="/g/m.py", line=1, call_lines=[CallLine(line=7, time_us=20.0, count=2)])],
    )  # fmt: skip
    return ProfileDocument(
        source=Source(kind="run", path="/w/a.py", steps=2, argv=["a.py", "--token=abc"]), kernels=[kernel],
        devices=[Device(id=0, name="NVIDIA H200", kind="cuda", window_us=100.0, window_idle_pct=80.0, busy_us=20.0)],
        lines=[Line(file="/w/a.py", line=3, text="x", device_us=20.0, unsplit_us=20.0, kernels=["k"])],
        ops=[Op(name="aten::mm", count=2, self_cpu_us=1, cpu_us=2, self_cpu_memory_bytes=8)],
        memory=Memory(device=0, peak_bytes=9, timeline=[(0.0, 1), (1.0, 9)], top=[Allocation(bytes=9, file="/w/a.py", line=3)]),
        steps=[Step(name="s", start_us=0.0, wall_us=50.0)], phases=Phases(forward_us=20.0),
        findings=[Finding(code="c", title="t", severity="hint", message="m", file="/w/a.py", line=3, evidence={"a": [1]})],
    )  # fmt: skip


def test_it_reads_what_msgspec_reads() -> None:
    data = profile_io.to_json(whole())
    assert document(json.loads(data)) == profile_io.from_json(data) == whole()


def test_unknown_fields_are_ignored_and_absent_ones_default() -> None:
    made = document({"schema": 1, "source": {"kind": "trace", "path": "t", "new": 1}, "more": {}})
    assert made == ProfileDocument(source=Source(kind="trace", path="t"))


@pytest.mark.parametrize(
    "data", [None, [], 3, "x", {}, {"schema": 99, "source": {"kind": "trace", "path": "t"}}, {"schema": "1"}]
)
def test_what_is_no_profile_is_said(data: Any) -> None:
    with pytest.raises(MalformedError):
        document(data)


def test_places_of_the_same_shortened_path_are_both_known() -> None:
    made = whole()
    made.lines.append(Line(file="/other/a.py", line=3))
    assert page_and_links(made)[1]["a.py:3"] == [("/w/a.py", 3), ("/other/a.py", 3)]


VALUES: list[Any] = [
    None, 0, -1, 1e308, float("nan"), float("inf"), 2**70, "", "</script>\ud800\u202e", [], {}, [None], {"": ""}, True,
]  # fmt: skip


def mutated(value: Any, dice: random.Random) -> Any:
    """One thing somewhere in it is another, or gone."""
    if isinstance(value, (dict, list)) and value and dice.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = dice.choice(keys)
        if dice.random() < 0.15:
            del value[key]
        else:
            value[key] = mutated(value[key], dice)
        return value
    return dice.choice(VALUES)


def test_a_damaged_document_is_a_message_or_a_page(tmp_path: Path) -> None:
    dice, data, shown = random.Random(5), profile_io.to_json(whole()), 0
    for _ in range(1500):
        damaged = json.loads(data)
        for _ in range(dice.choice((1, 1, 2, 4))):
            damaged = mutated(damaged, dice)
        try:
            made = document(damaged)
        except MalformedError:
            continue
        text = page.embedded(page_and_links(made)[0])
        assert not set("<>&\u2028") & set(text)
        json.loads(text, parse_constant=pytest.fail)
        shown += 1
    assert shown > 100
