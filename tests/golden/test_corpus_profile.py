"""Every capture of the corpus through the whole pipeline, against sums taken from the raw JSON by other code."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ridgeline import profile_io
from ridgeline.analysis import analyze_paths
from ridgeline.profile import ProfileDocument

WORKLOADS = (
    "encoder_cudagraph",
    "encoder_train",
    "matmul_add_4096_c0",
    "matmul_add_4096_c1",
    "matmul_add_64_c0",
    "matmul_add_64_c1",
    "mixnet_train",
    "mlp_train",
    "slow_habits",
    "user_triton",
)
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module", params=WORKLOADS)
def case(request: pytest.FixtureRequest, corpus: Path) -> tuple[str, ProfileDocument, list[dict[str, Any]]]:
    trace = corpus / request.param / "trace.json.gz"
    with gzip.open(trace) as stream:
        loaded = json.load(stream, parse_float=Decimal)["traceEvents"]
    events = [e for e in loaded if e.get("ph") == "X" and e.get("cat") in DEVICE_WORK]
    return request.param, analyze_paths([trace]), events


def test_kernel_totals_equal_the_raw_sums(case: tuple[str, ProfileDocument, list[dict[str, Any]]]) -> None:
    _, document, events = case
    raw: dict[str, float] = defaultdict(float)
    for event in events:
        raw[event["name"]] += float(event["dur"])
    ours: dict[str, float] = defaultdict(float)
    for kernel in document.kernels:
        ours[kernel.symbol] += kernel.total_us
    assert set(ours) == set(raw)
    for name, total in raw.items():
        assert ours[name] == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert sum(k.count for k in document.kernels) == len(events)


def test_shares_and_parts_sum_to_the_whole(case: tuple[str, ProfileDocument, list[dict[str, Any]]]) -> None:
    _, document, events = case
    total = float(sum(e["dur"] for e in events))
    assert math.fsum(k.share_pct or 0 for k in document.kernels) == pytest.approx(100)
    assert math.fsum(c.share_pct for c in document.categories) == pytest.approx(100)
    assert math.fsum(c.time_us for c in document.categories) == pytest.approx(total, rel=1e-9)
    attributed = math.fsum(line.device_us for line in document.lines)
    assert attributed + document.unattributed.device_us == pytest.approx(total, rel=1e-9)
    assert math.fsum(document.unattributed.reason.values()) == pytest.approx(document.unattributed.device_us)


def test_busy_is_the_union(case: tuple[str, ProfileDocument, list[dict[str, Any]]]) -> None:
    _, document, events = case
    intervals = sorted((e["ts"], e["ts"] + e["dur"]) for e in events)
    busy, reach = Decimal(0), intervals[0][0]
    for start, end in intervals:
        busy += max(Decimal(0), end - max(start, reach))
        reach = max(reach, end)
    (device,) = document.devices
    assert device.busy_us == pytest.approx(float(busy), abs=1e-3)
    assert device.busy_us is not None
    assert device.span_us is not None
    assert device.busy_us <= device.span_us


def test_the_document_survives_its_own_json(case: tuple[str, ProfileDocument, list[dict[str, Any]]]) -> None:
    _, document, _ = case
    data = profile_io.to_json(document)
    assert b"NaN" not in data
    assert b"Infinity" not in data
    assert profile_io.to_json(profile_io.from_json(data)) == data


def test_mlp_train_has_117_launches_in_three_steps(corpus: Path) -> None:
    document = analyze_paths([corpus / "mlp_train" / "trace.json.gz"])
    assert sum(k.count for k in document.kernels if k.category not in ("memcpy", "memset")) == 117
    assert document.source.steps == 3
