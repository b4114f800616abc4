"""What a recording brings along never steers the terminal: escapes, bidirectional marks, markup, in every view."""

from __future__ import annotations

import io
import os
import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ridgeline.analysis import analyze_paths
from ridgeline.cli_common import say, text_console
from ridgeline.compare import Change, Comparison
from ridgeline.printable import printable
from ridgeline.profile import (
    Device,
    Finding,
    Kernel,
    Line,
    ProfileDocument,
    QualityWarning,
    Source,
    SourceRef,
    Step,
    Unattributed,
)
from ridgeline.profile_io import UnreadableError
from ridgeline.report import comparison, text
from trace_build import call, kernel, op, write

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\r\n\x00\x7f\u202eb\u2066\u2028[red]c[/red]\\"
STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def poisoned(value: Any, evil: str = HOSTILE) -> Any:
    """A copy of the document in which every free text has the hostile one appended."""
    if isinstance(value, str):
        return value + evil
    if isinstance(value, list):
        return [poisoned(item, evil) for item in value]
    if isinstance(value, dict):
        return {poisoned(key, evil): poisoned(item, evil) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in fields(value) if f.name not in {"bound", "severity", "granularity", "bound_source"}]
        changes = {name: poisoned(getattr(value, name), evil) for name in names if name != "kind"}
        return replace(value, **changes)
    return value


def document() -> ProfileDocument:
    place = SourceRef(file="/x/train.py", line=41, function="f", text="y = x")
    return ProfileDocument(
        source=Source(kind="trace", path="/x/t.json", steps=1, torch="2.13"),
        devices=[Device(id=0, name="GPU", kind="cuda", window_idle_pct=10.0, kernel_us=90.0)],
        kernels=[
            Kernel(
                id="k", name="k", symbol="k", device=0, category="pointwise", count=1, total_us=90.0, share_pct=100.0,
                step_share_pct=90.0, source=[place], min_us=90, q1_us=90, median_us=90, q3_us=90, max_us=90,
            )
        ],
        lines=[Line(file="/x/train.py", line=41, text="y = x", device_us=60.0, unsplit_us=60.0, share_pct=66.0)],
        unattributed=Unattributed(device_us=30.0, share_pct=34.0, reason={"why": 30.0}),
        steps=[Step(name="s", start_us=0, wall_us=100)],
        findings=[Finding(code="c", title="t", severity="warning", message="m", file="/x/train.py", line=41)],
    )  # fmt: skip


@pytest.mark.parametrize("width", ["30", "100"])
def test_no_text_of_a_profile_steers_the_terminal(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    made = poisoned(document())
    made.quality.warnings.append(QualityWarning(code="w", message=HOSTILE))
    with text_console(None) as console:
        text.render(made, console, run_dir="/runs" + HOSTILE)
    shown = capsys.readouterr().out
    assert not STEERING.search(shown)
    assert r"\x1b[2J" in shown
    assert r"\u202e" in shown


def test_a_hostile_kernel_keeps_to_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    with text_console(None) as console:
        text.render(document(), console)
    rows = len(capsys.readouterr().out.splitlines())
    made = document()
    made.kernels[0].name += HOSTILE
    made.lines[0].text = "y = x" + HOSTILE
    with text_console(None) as console:
        text.render(made, console)
    assert len(capsys.readouterr().out.splitlines()) == rows


def test_nor_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    row = Change(key="k", label="k" + HOSTILE, before_us=1.0, after_us=2.0, noise_us=0.1, verdict="slower")
    found = Comparison(
        before="a" + HOSTILE, after="b", basis="step", step=None, device=row, kernels=[row], refused=[HOSTILE]
    )
    with text_console(None) as console:
        comparison.render(found, console)
    shown = capsys.readouterr().out
    assert not STEERING.search(shown)
    assert r"k" + r"a\x1b[2J" in shown


def test_a_file_of_output_is_as_harmless(tmp_path: Path) -> None:
    with text_console(tmp_path / "out.txt") as console:
        text.render(poisoned(document()), console)
    assert not STEERING.search((tmp_path / "out.txt").read_text())


def test_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"cannot read {HOSTILE}")
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert not STEERING.search(shown)


def test_letters_of_every_language_stay() -> None:
    for words in (
        "größe = 1  # µs",
        "漢字",
        "می\u200cخواهم",
        "👩\u200d💻",
        "a\xa0b",
        "e\u0301",
        "\ue000",
        "C:\\new\\x1b",
    ):
        assert printable(words) == words


def test_styles_of_the_view_itself_stay() -> None:
    from ridgeline.report.console import SafeConsole

    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, color_system="standard", width=100)
    text.render(document(), console)
    assert "\x1b[1m" in stream.getvalue()


def test_a_pipe_is_refused_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UnreadableError, match="is no file"):
        analyze_paths([tmp_path / "pipe.json"])


def test_records_of_two_clocks_are_not_all_thrown_away(tmp_path: Path) -> None:
    month = 30 * 86400 * 1e6
    events = [op(10, 30, ext=1), call(15, corr=1, ext=1), kernel(month, 25, corr=1), kernel(month + 50, 25, corr=2)]
    made = analyze_paths([write(tmp_path, events)])
    assert any(warning.code == "wrong-clock" for warning in made.quality.warnings)


def test_a_device_that_has_lost_its_clock_is_named(tmp_path: Path) -> None:
    """CUPTI's fallback clock: the device's records and its calls a day away from the ops. A CPU's profile is left."""
    day = 86400 * 1e6
    host = [op(10 * n, 5, ext=n) for n in range(900)]
    lost = [event for n in range(5) for event in (call(day + n, corr=n), kernel(day + 9 * n, 2, corr=n))]
    made = analyze_paths([write(tmp_path, [*host, *lost])])
    (told,) = [warning for warning in made.quality.warnings if warning.code == "no-device-records"]
    assert told.message.startswith("all 5 records of the device carry another clock")
    assert "record again" in told.message
    assert made.kernels or made.ops
