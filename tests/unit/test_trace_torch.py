"""A trace that the installed torch writes, against what torch itself says of the same recording."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.trace.ranges import range_totals
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def recorded(folder: Path, **options: Any) -> tuple[Path, Any]:
    from torch.profiler import ProfilerActivity, profile, record_function

    weight = torch.randn(64, 64, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True, **options) as found:
        for _ in range(3):
            with record_function("train"):
                torch.softmax(weight @ weight, 0).sum().backward()
    path = folder / "cpu.json"
    found.export_chrome_trace(str(path))
    return path, found


def test_cpu_operators_as_torch_counts_them(tmp_path: Path) -> None:
    path, found = recorded(tmp_path, record_shapes=True)
    trace = read_trace(path)
    assert [device.kind for device in trace.devices] == ["cpu"]
    assert not [warning for warning in trace.quality.warnings if warning.code != "no-operators"]
    own: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for name, time in zip(trace.ops.name.tolist(), trace.ops.self_dur.tolist()):
        own[trace.strings[name]] += time
        counts[trace.strings[name]] += 1
    averages = {row.key: row for row in found.key_averages()}
    assert counts["aten::mm"] == averages["aten::mm"].count == 9
    for name, row in averages.items():
        if name in counts and name != "train":
            assert counts[name] >= row.count  # torch folds an operator into a caller of the same name.
            # torch takes the time of whatever ran inside, ranges too; operators here lose only operators.
            assert own[name] == pytest.approx(row.self_cpu_time_total, abs=0.01 * counts[name] + 0.01)
    work = work_table(trace)
    assert work.on_cpu
    assert work.time.sum() == pytest.approx(trace.ops.self_dur.sum())
    (train,) = [row for row in range_totals(trace) if trace.strings[row.name] == "train"]
    assert train.calls == 3
    assert [step.name for step in trace.steps] == ["train#0", "train#1", "train#2"]
    row = int(np.flatnonzero(trace.ops.name == trace.strings.index("aten::mm"))[0])
    assert trace.op_args.input_dims[trace.ops.args[row]][:2] == [[64, 64], [64, 64]]  # type: ignore[index]
    assert trace.base_ns is not None


def test_memory_events_are_instants(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, profile_memory=True)
    trace = read_trace(path)
    records = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    assert trace.memory is not None
    assert len(trace.memory.time) == len(records) > 0
    assert 16_384 in trace.memory.bytes.tolist()
    assert set(trace.memory.device.tolist()) == {-1}
    assert trace.memory.total_allocated.max() == max(record["args"]["Total Allocated"] for record in records)
