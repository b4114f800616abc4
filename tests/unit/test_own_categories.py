"""Categories of a person's own: from the project's file and the command line, on kernels, in the document and the text."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline import analysis, own_categories, profile_io
from ridgeline.own_categories import CategoryError, from_options, from_project
from ridgeline.profile import CategoryRow, Kernel, ProfileDocument, Source, Totals
from ridgeline.report.text import render
from trace_build import kernel as kernel_event
from trace_build import write

toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="the standard library reads no TOML before 3.11")


def kernel(name: str, time_us: float, *, device: int = 0, symbol: str | None = None) -> Kernel:
    return Kernel(
        id=f"{name}@{device}", name=name, symbol=symbol or name, device=device, category="other", count=2,
        total_us=time_us, min_us=1, q1_us=1, median_us=1, q3_us=1, max_us=1, share_pct=1,
    )  # fmt: skip


def document() -> ProfileDocument:
    return ProfileDocument(
        source=Source(kind="run", path="/x/t.py", steps=2),
        totals=Totals(wall_us=2000.0),
        categories=[CategoryRow(device=0, category="other", time_us=1000.0, share_pct=100.0, count=8)],
        kernels=[
            kernel("triton_red_fused_native_layer_norm_0", 300.0),
            kernel("triton_poi_fused_add_1", 500.0, symbol="triton_"),
            kernel("triton_per_fused_Layer_Norm_backward_2", 100.0),
            kernel("gemm", 100.0),
            kernel("triton_poi_fused_add_1", 50.0, device=1),
        ],
    )


def test_a_kernel_counts_once_in_the_first_category_that_fits() -> None:
    rules = from_options(["norms=*layer_norm*", "fused=triton_*", "norms=*batch_norm*"])
    assert [(rule.name, rule.patterns) for rule in rules] == [
        ("norms", ("*layer_norm*", "*batch_norm*")),
        ("fused", ("triton_*",)),
    ]
    shown = document()
    own_categories.apply(shown, rules)
    assert [(row.name, row.device, row.time_us, row.count) for row in shown.own_categories] == [
        ("fused", 0, 500.0, 2),
        ("norms", 0, 400.0, 4),  # case aside
        ("fused", 1, 50.0, 2),
    ]
    assert [row.share_pct for row in shown.own_categories] == [pytest.approx(x) for x in (50.0, 40.0, 100.0)]
    again = profile_io.from_json(profile_io.to_json(shown))
    assert again.own_categories == shown.own_categories


def test_a_category_that_nothing_fits_is_said_and_others_stand() -> None:
    shown = document()
    own_categories.apply(shown, from_options(["norms=*layer_norm*", "typo=*lyaer*"]))
    assert [row.name for row in shown.own_categories] == ["norms"]
    (warning,) = shown.quality.warnings
    assert warning.message == "no kernel fits your category typo (*lyaer*)"
    own_categories.apply(shown, from_options(["norms=*layer_norm*"]))
    assert shown.quality.warnings == []


@pytest.mark.parametrize("pair", ["norms", "=*x*", "norms=", " =a"])
def test_a_pair_that_is_none_is_one_line(pair: str) -> None:
    with pytest.raises(CategoryError, match="write NAME=PATTERN"):
        from_options([pair])


def test_the_analysis_of_a_run_takes_them_as_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the editor's setting is passed on; what they say stands in the run's document."""
    write(tmp_path, [kernel_event(0, 30, "triton_red_fused_native_layer_norm_0"), kernel_event(40, 10, "gemm")])
    window = {"trace": "trace.json", "reason": "stable"}
    (tmp_path / "sidecar.json").write_text(json.dumps({"schema": 1, "windows": [window]}))
    assert analysis.main(["--category", "norms=*layer_norm*", "--category", "rest=*", str(tmp_path)]) == 0
    shown = profile_io.read(tmp_path / "profile.json")
    assert [(row.name, row.time_us) for row in shown.own_categories] == [("norms", 30.0), ("rest", 10.0)]
    assert analysis.main([str(tmp_path)]) == 0
    assert profile_io.read(tmp_path / "profile.json").own_categories == []
    for wrong in (
        [],
        ["--category", str(tmp_path)],
        ["--other", "a=b", str(tmp_path)],
        ["--category", "a", str(tmp_path)],
    ):
        assert analysis.main(wrong) == 2
    assert "write NAME=PATTERN" in capsys.readouterr().err


@toml
def test_the_nearest_project_with_categories_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.ridgeline.categories]\nnorms = ["*norm*"]\nattention = "*attn*"\n')
    inner = tmp_path / "package" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    rules = from_project(inner / "train.py")
    assert {rule.name: rule.patterns for rule in rules} == {"norms": ("*norm*",), "attention": ("*attn*",)}
    (tmp_path / "package" / "pyproject.toml").write_text("this is [no toml")
    assert len(from_project(inner)) == 2
    (tmp_path / "pyproject.toml").write_text("[tool.ridgeline.categories]\nnorms = 3\n")
    with pytest.raises(CategoryError, match=r"pyproject.toml: category norms takes a pattern"):
        from_project(inner)
    assert from_project(Path("/")) == []


def test_the_text_shows_them_by_name_with_their_part_of_the_wall() -> None:
    shown = document()
    own_categories.apply(shown, from_options(["my [norms]=*norm*"]))
    out = io.StringIO()
    render(shown, Console(file=out, width=120, color_system=None))
    (row,) = [line for line in out.getvalue().splitlines() if line.startswith("my [norms]")]
    assert row.split() == ["my", "[norms]", "200", "µs", "40", "%", "20", "%", "2"]


@toml
def test_a_trace_beside_a_project_is_analyzed_with_its_categories(tmp_path: Path) -> None:
    from ridgeline.analysis import analyze_paths

    event = {"ph": "X", "cat": "kernel", "name": "my_norm", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
             "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    (tmp_path / "t.json").write_text(
        json.dumps({"traceEvents": [event, {**event, "name": "other", "ts": 20, "dur": 15}]})
    )
    (tmp_path / "pyproject.toml").write_text('[tool.ridgeline.categories]\nnorms = "*norm*"\n')
    found = analyze_paths([tmp_path / "t.json"])
    assert [(row.name, row.time_us, row.share_pct) for row in found.own_categories] == [("norms", 5.0, 25.0)]
    (tmp_path / "pyproject.toml").write_text("[tool.ridgeline.categories]\nnorms = 1\n")
    found = analyze_paths([tmp_path / "t.json"])
    assert found.own_categories == []
    assert any("category norms takes" in warning.message for warning in found.quality.warnings)
