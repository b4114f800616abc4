"""Memory over time, its peak and the operators, on a program that really allocates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline import analysis
from ridgeline.assemble.memory import _picked

PROGRAM = """\
import torch

def step(x):
    a = torch.zeros(1 << 20)
    b = a + x
    c = torch.cat([b, b])
    del a
    return c.sum()

x = torch.ones(1 << 20)
for _ in range(6):
    step(x)
"""
MB4 = 4 << 20


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("torch")
    from ridgeline.cli import main

    folder = tmp_path_factory.mktemp("memory")
    (folder / "program.py").write_text(PROGRAM)
    output = folder / "profile.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(
            sys, "argv",
            ["ridgeline", "profile", "--memory", "--quiet", "--format", "json", "--output", str(output), "--run-dir",
             str(folder / "runs"), "program.py"],
        )  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def test_the_peak_is_made_of_the_lines_that_allocated_it(recorded: dict[str, Any]) -> None:
    memory = recorded["memory"]
    assert memory["peak_bytes"] >= 5 * MB4, "x, a, b and c, which is twice as large"
    largest = [(row["bytes"], row["line"], row["op"]) for row in memory["top"]]
    assert largest[0] == (2 * MB4, 6, "aten::cat")
    assert {(MB4, 4, "aten::empty"), (MB4, 5, "aten::add")} <= set(largest[1:4])
    assert max(level for _, level in memory["timeline"]) == memory["peak_bytes"]


def test_operators_have_what_they_allocated_less_what_they_freed(recorded: dict[str, Any]) -> None:
    sums: dict[str, int] = {}
    for op in recorded["ops"]:
        sums[op["name"]] = sums.get(op["name"], 0) + op["self_cpu_memory_bytes"]
        assert op["self_device_memory_bytes"] is None, "there is no device"
    count = sum(op["count"] for op in recorded["ops"] if op["name"] == "aten::cat")
    assert sums["aten::cat"] == count * 2 * MB4


def test_a_long_timeline_keeps_its_highest_points_and_its_ends() -> None:
    level = np.full(100_000, 5, dtype=np.int64)
    level[77_777], level[33_333] = 99, 1
    picked = _picked(level)
    assert {0, 33_333, 77_777, 99_999} <= set(picked)
    assert len(picked) <= 1_002


def test_memory_is_none_without_it(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text('{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":2}]}')
    document = analysis.analyze_paths([trace])
    assert document.memory is None
    assert [op.self_cpu_memory_bytes for op in document.ops] == [None]
