"""A capture made small says what it said: every score, attribution and byte of it."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import tarfile
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from roofline_score import opened, score_capture

HERE = Path(__file__).parent
# Compiled and launched directly; all forty, trained and not, compiled and eager, were compared when the form was chosen.
CAPTURES = [HERE / "data" / "roofline" / f"{name}.tar.gz" for name in ("hand_triton", "quantised_infer")]


def _repack() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repack", HERE / "capture" / "repack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repack"] = module
    spec.loader.exec_module(module)
    return module


repack = _repack()


def _said(path: Path, arguments: bool) -> list[dict[str, Any]]:
    with opened(path) as folder:
        # Kernels are msgspec structs inside a dataclass.
        rows = score_capture(folder, arguments)
        return [{**asdict(r), "kernel": msgspec.to_builtins(r.kernel)} for r in rows]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.name.split(".")[0])
def test_scores_are_the_same(path: Path, tmp_path: Path) -> None:
    small = repack.repack(path, tmp_path)
    assert small.stat().st_size < 0.75 * path.stat().st_size
    arguments = path.name.startswith("hand_triton")
    before = _said(path, arguments)
    assert before
    assert _said(small, arguments) == before
    again = repack.repack(small, tmp_path)  # an archive of this kind is read, too
    assert _said(again, arguments) == before


def test_what_is_left_out() -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 2.0625, "args": {"grid": [1, 1, 1], "queued": 0}},
        {"ph": "X", "cat": "python_function", "name": "f.py(1): f"},
        {"ph": "s", "cat": "ac2g", "id": 1},
        {"ph": "f", "cat": "fwdbwd", "id": 2},
        {"ph": "M", "name": "process_name"},
    ]
    trace = {"schemaVersion": 1, "traceName": "name", "traceEvents": events}
    assert repack.slim(trace) == {
        "schemaVersion": 1,
        "traceEvents": [{**events[0], "args": {"grid": [1, 1, 1]}}, events[4]],
    }
    assert len(trace["traceEvents"]) == 5
    assert events[0]["args"]["queued"] == 0


def test_the_last_step_keeps_its_launches_and_their_work() -> None:
    def step(ts: float) -> dict[str, Any]:
        return {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{ts:.0f}", "ts": ts, "dur": 10.0}

    def launch(ts: float, correlation: int, ran: float) -> list[dict[str, Any]]:
        args = {"correlation": correlation}
        return [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts, "args": args},
            {"ph": "X", "cat": "kernel", "name": "k", "ts": ran, "args": args},
        ]

    first, second = launch(2.0, 1, 13.0), launch(12.0, 2, 14.0)  # the first kernel runs late, within the second step
    name = {"ph": "M", "name": "process_name"}
    trace = {"traceEvents": [step(0.0), *first, step(10.0), *second, name]}
    assert repack.last_step(trace)["traceEvents"] == [step(10.0), *second, name]
    assert repack.last_step({"traceEvents": [*first, name]})["traceEvents"] == [*first, name]


def test_the_small_archive_is_plain_and_always_the_same(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    one, two = (repack.repack(CAPTURES[-1], folder).read_bytes() for folder in (tmp_path, tmp_path / "again"))
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        names = tar.getnames()
        stream = tar.extractfile("trace.json")
        assert stream is not None
        assert json.load(stream)["traceEvents"]
    assert names == ["trace.json", "ncu.csv", "generated.tar"]
