"""The same program profiled again and again: what ``ridgeline compare`` says of each run and the one before it.

``make soak`` makes twenty pairs (``RIDGELINE_SOAK_PAIRS`` for another number) and prints what was claimed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.compare import Comparison, compare

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "conv_net.py"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]


def _profile(root: Path, number: int) -> dict[str, Any]:
    folder = root / str(number)
    command = [sys.executable, "-m", "ridgeline", "profile", "--then", "stop", "--quiet", "--run-dir", str(folder)]
    subprocess.run(
        [*command, str(EXAMPLE)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=900
    )
    (document,) = folder.rglob("profile.json")
    read: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    return read


def _row(number: int, found: Comparison, waited: float | None) -> str:
    head = found.headline
    claimed = [row for row in found.kernels if row.verdict != "same"]
    wait = "?" if waited is None else f"{waited:.0f} %"
    return (
        f"{number:4d}  {head.before_us:12.0f}  {head.after_us:12.0f}  {head.noise_us:12.0f}  {head.verdict:8}  "
        f"{len(claimed):5d} of {len(found.kernels):4d}  {wait:>6}"
    )


def test_runs_of_one_program_are_no_change(tmp_path: Path) -> None:
    pairs = int(os.environ.get("RIDGELINE_SOAK_PAIRS", "20"))
    runs = [_profile(tmp_path, number) for number in range(pairs + 1)]
    found = [compare(before, after) for before, after in itertools.pairwise(runs)]
    print(f"\n{'pair':>4}  {'before us':>12}  {'after us':>12}  {'noise us':>12}  verdict   kernels claimed  no core")
    for number, (comparison, run) in enumerate(zip(found, runs[1:]), start=1):
        print(_row(number, comparison, run["source"]["cpu_wait_pct"]))
    same = sum(not comparison.changed for comparison in found)
    print(f"no change: {same} of {pairs}")
    assert same >= 0.95 * pairs
