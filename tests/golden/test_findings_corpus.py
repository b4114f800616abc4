"""Findings of the recorded workloads: what must be found, where, and what must not be claimed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from ridgeline.analysis import analyze_paths
from ridgeline.profile import Finding, ProfileDocument

SYSTEM = {
    "launch-bound",
    "data-loading",
    "pageable-copy",
    "host-round-trip",
    "hidden-sync",
    "exposed-communication",
    "small-kernels",
    "allocation-in-loop",
}


@lru_cache(maxsize=16)
def _document(folder: Path) -> ProfileDocument:
    # The programs lay elsewhere on the machine that recorded.
    return analyze_paths([folder / "trace.json.gz"], source_roots=[("/home/user/project", str(folder))])


def _findings(corpus: Path, name: str, code: str | None = None) -> list[Finding]:
    return [f for f in _document(corpus / name).findings if code is None or f.code == code]


@pytest.mark.parametrize("name", ["mlp_train", "encoder_train", "mixnet_train"])
def test_healthy_programs_bring_no_system_warning(corpus: Path, name: str) -> None:
    loud = [(f.code, f.message) for f in _findings(corpus, name) if f.code in SYSTEM and f.severity != "hint"]
    assert loud == []


@pytest.mark.parametrize("name", ["mlp_train", "encoder_train", "mixnet_train"])
def test_idle_time_of_a_recording_with_stacks_is_the_profilers(corpus: Path, name: str) -> None:
    (note,) = _findings(corpus, name, "profiler-idle")
    assert note.severity == "hint"
    assert note.evidence["stacks"] is True
    assert not _findings(corpus, name, "launch-bound")
    assert not _findings(corpus, name, "idle")


def test_a_small_product_is_launch_bound_and_a_large_one_is_not(corpus: Path) -> None:
    (finding,) = _findings(corpus, "matmul_add_64_c0", "launch-bound")
    assert finding.evidence["call_us_per_step"] > finding.evidence["busy_us_per_step"]
    assert not _findings(corpus, "matmul_add_4096_c0", "launch-bound")


def test_the_bias_copy_before_a_compiled_addmm(corpus: Path) -> None:
    (finding,) = _findings(corpus, "matmul_add_4096_c1", "bias-copy")
    assert finding.evidence["bytes"] == [33_554_432]
    assert finding.evidence["copies_per_step"] == 1.0
    assert finding.file is not None
    assert finding.file.endswith("matmul_add.py")
    assert finding.time_us == pytest.approx(16.1, abs=0.2)
    assert not _findings(corpus, "matmul_add_4096_c0", "bias-copy"), "eager addmm was not called there"


@pytest.mark.parametrize(
    ("code", "op", "lines"),
    [
        ("data-loading", None, {34}),
        ("host-round-trip", None, {20, 21}),
        ("hidden-sync", "aten::item", {25, 44}),
        ("hidden-sync", "aten::is_nonzero", {25, 49}),
        ("small-kernels", None, {25, 48}),
    ],
)
def test_slow_habits_each_on_its_statement_or_function(
    corpus: Path, code: str, op: str | None, lines: set[int]
) -> None:
    """The frames of this recording carry the lines of functions only; what lies between is worked out from the source."""
    found = [f for f in _findings(corpus, "slow_habits", code) if op is None or f.evidence["op"] == op]
    assert found, f"{code} not found"
    assert all(f.line in lines and (f.file or "").endswith("slow_habits.py") for f in found)


def test_slow_habits_the_waits_of_item_and_of_the_branch_are_told_apart(corpus: Path) -> None:
    ops = {f.evidence["op"] for f in _findings(corpus, "slow_habits", "hidden-sync")}
    assert {"aten::item", "aten::is_nonzero"} <= ops


def test_slow_habits_the_round_trip_is_in_double_precision(corpus: Path) -> None:
    (finding,) = _findings(corpus, "slow_habits", "host-round-trip")
    assert finding.evidence["double_precision"] is True


def test_slow_habits_half_of_the_step_is_the_loader(corpus: Path) -> None:
    (finding,) = _findings(corpus, "slow_habits", "data-loading")
    assert finding.evidence["wait_share_pct"] == pytest.approx(53, abs=2)
    assert finding.evidence["num_workers"] == 0
    assert _findings(corpus, "slow_habits")[0].code == "summary"


@pytest.mark.parametrize(
    "name",
    [
        "mlp_train",
        "encoder_train",
        "mixnet_train",
        "encoder_cudagraph",
        "slow_habits",
        "user_triton",
        "matmul_add_64_c1",
    ],
)
def test_savings_never_exceed_the_step(corpus: Path, name: str) -> None:
    findings = _findings(corpus, name)
    claimed = sum(f.saving_us or 0.0 for f in findings)
    steps = _document(corpus / name).steps
    assert claimed <= sum(s.wall_us for s in steps) / len(steps) + 1e-6
    for finding in findings:
        if finding.saving_us is not None:
            assert finding.saving_bound_us is not None
            assert 0 <= finding.saving_us <= finding.saving_bound_us + 1e-9
