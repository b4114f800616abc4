"""Measured peaks: the program that runs in the user's interpreter."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.roofline import measure
from ridgeline.roofline.peaks import device_spec

SCRIPT = Path(measure.__file__)


def test_identity_needs_no_torch() -> None:
    code = f"import sys; sys.modules['torch'] = None; sys.argv = ['m', '--identity', '--device', 'cpu', '--threads', '3']; import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    found = json.loads(done.stdout)
    assert found["kind"] == "cpu"
    assert found["threads"] == 3
    assert found["device"]


def test_without_the_drivers_tool_nothing_is_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert measure.nvidia_smi(("uuid", "name"), 0) == {}
    identity = measure.identity("cuda:0")
    assert identity["uuid"] is None
    assert identity["driver"] is None


def test_the_visible_device_is_the_physical_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert measure.physical_index(0) == 3
    assert measure.physical_index(1) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-abc")
    assert measure.physical_index(0) == 0


def test_the_fastest_run_counts() -> None:
    times = iter([9.0, 3.0, 5.0, 7.0])
    assert measure.fastest(lambda: None, lambda run: next(times), float("inf")) == 3.0


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not in this interpreter")
def test_a_processor_is_measured() -> None:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--seconds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["seconds"] > 0
    assert set(found["bandwidth_gb_s"]) == {"read", "write", "copy"}
    assert all(v > 0 for v in found["bandwidth_gb_s"].values())
    assert found["flops"]["fp32"] > 1e9
    assert found["launch_latency_us"] > 0
    assert found["threads"] == found["identity"]["threads"]
    spec = device_spec(found["identity"]["device"], "cpu", None, found)
    assert spec.peaks_source == "measured"
    assert spec.bandwidth_gb_s == max(found["bandwidth_gb_s"].values())
