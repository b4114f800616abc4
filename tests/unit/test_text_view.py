"""The text view fits its terminal, knows pipes and NO_COLOR, and says when there is nothing to do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline import names, units
from ridgeline.analysis import analyze_paths
from ridgeline.cli_common import text_console
from ridgeline.profile import Kernel, Line, ProfileDocument, QualityWarning, Source, Step, Unattributed
from ridgeline.report.text import render


def shown(document: ProfileDocument, width: int = 120, *, color: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=color, color_system="standard" if color else None)
    render(document, console, run_dir="/runs/1/")
    return stream.getvalue()


def document() -> ProfileDocument:
    kernel = Kernel(
        id="k", name="triton_per_fused__softmax_add_with_a_name_that_goes_on_and_on_and_on_for_ever_3",
        symbol="s", device=0, category="persistent_reduction", count=6, total_us=1200.0, min_us=190, q1_us=195,
        median_us=200.0, q3_us=205, max_us=210, share_pct=80.0, step_share_pct=40.0, bound="memory", bound_source="estimated",
    )  # fmt: skip
    return ProfileDocument(
        source=Source(kind="run", path="/x/train.py", steps=3, torch="2.13.0"),
        kernels=[kernel],
        lines=[
            Line(
                file="/x/train.py", line=41, text="y = softmax(x @ w) + b", device_us=600.0, unsplit_us=1200.0,
                share_pct=40.0, step_share_pct=40.0, shared_with=[42, 43, 47],
            )
        ],
        unattributed=Unattributed(device_us=300.0, share_pct=20.0, reason={"other threads": 300.0}),
        steps=[Step(name="s", start_us=0, wall_us=1000) for _ in range(3)],
    )  # fmt: skip


def test_times_are_per_step_and_estimates_are_marked() -> None:
    text = shown(document())
    assert "400 µs" in text  # 1,200 us over three steps
    assert "~memory" in text
    assert "shared with L42–43, 47" in text
    assert "without a line: 20 % (other threads 100 µs)" in text


def test_a_shared_line_leads_with_the_whole_time_and_share() -> None:
    (row,) = [line for line in shown(document()).splitlines() if "softmax(x @ w)" in line]
    assert "40 %" in row
    assert "400 µs" in row


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_table_row_is_wider_than_the_terminal(width: int) -> None:
    rows = [line for line in shown(document(), width).splitlines() if not line.startswith(("Run folder", "Trace"))]
    assert max(map(len, rows)) <= width
    assert any("400 µs" in row for row in rows), "the figures survive where the name does not fit"


def test_a_pipe_gets_no_escape_codes_a_terminal_does() -> None:
    assert "\x1b" not in shown(document())
    assert "\x1b" in shown(document(), color=True)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    render(document(), Console(file=stream, width=100, force_terminal=True))
    assert "\x1b[3" not in stream.getvalue()  # no foreground colour; bold may stay


def test_a_current_folder_that_was_deleted_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "400 µs" in shown(document())


@pytest.mark.parametrize("columns", ["0", "", "wide"])
def test_a_width_that_is_none_hides_nothing(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with text_console(None) as console:
        render(document(), console)
    assert "400 µs" in capsys.readouterr().out


def test_text_from_a_trace_is_no_markup() -> None:
    made = document()
    made.lines[0].text = "x[bold] = [/red] [link=http://evil]y"
    made.kernels[0].name = "k[/]<[bold]>"
    made.quality.warnings = [QualityWarning(code="c", message="[red]not markup[/red]")]
    text = shown(made)
    assert "x[bold] = [/red] [link=http://evil]y" in text
    assert "[red]not markup[/red]" in text


def test_a_healthy_program_is_told_so(corpus: Path) -> None:
    text = shown(analyze_paths([corpus / "encoder_train" / "trace.json.gz"]))
    assert "Nothing" in text.split("NVIDIA H200")[0]


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "-"), (0.0, "0 ns"), (0.0123, "12.3 ns"), (0.9999, "1.00 µs"), (4.126, "4.13 µs"), (27.1, "27.1 µs"),
        (999.6, "1.00 ms"), (1234.0, "1.23 ms"), (3_200_000, "3.20 s"), (90_000_000, "1.50 min"), (-1234.0, "-1.23 ms"),
    ],
)  # fmt: skip
def test_durations(us: float | None, text: str) -> None:
    assert units.duration(us) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.0, "0.0 %"), (0.04, "<0.1 %"), (0.3, "0.3 %"), (9.96, "10 %"), (16.4, "16 %")]
)
def test_percentages(value: float | None, text: str) -> None:
    assert units.percent(value) == text


def test_sizes_are_decimal() -> None:
    assert units.size(1_073_741_824) == "1.07 GB"


def test_cpp_names_are_shortened() -> None:
    name = (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*)"
    )
    assert names.short(name) == "vectorized_layer_norm_kernel<float, float>"
    assert names.short("nvjet_sm90_tst_64x128_64x8_2x1_v_bz_NTN") == "nvjet_sm90_tst_64x128_64x8_2x1_v_bz_NTN"
