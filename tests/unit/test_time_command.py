"""``ridgeline time``: its arithmetic, and the command on a real expression."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.cli_time import sentence, timing

CLI = [sys.executable, "-m", "ridgeline.cli", "time"]
REQUEST = {"statement": "x + 1", "setup": "x = 1", "threads": 1, "min_run_time": 1.0}


def measured(*times_s: float) -> dict[str, Any]:
    facts = {"calls_per_block": 10, "threads": 1, "torch": "2.13.0", "python": "3.11", "device": "cpu"}
    return {"times_s": list(times_s), **facts}


def test_median_and_quartiles_are_of_the_blocks() -> None:
    found = timing(REQUEST, measured(4e-6, 1e-6, 2e-6, 3e-6, 5e-6))
    assert found.median_us == pytest.approx(3.0)
    assert (found.q1_us, found.q3_us) == (pytest.approx(2.0), pytest.approx(4.0))
    assert found.iqr_us == pytest.approx(2.0)
    assert found.min_us == pytest.approx(1.0)
    assert (found.blocks, found.calls) == (5, 50)


def test_a_wide_spread_is_said_and_a_narrow_one_is_not() -> None:
    steady = timing(REQUEST, measured(*[1e-6 + n * 1e-9 for n in range(20)]))
    assert steady.unstable is None
    assert "unstable" not in sentence(steady)
    shaky = timing(REQUEST, measured(*[1e-6 if n % 2 else 1.5e-6 for n in range(20)]))
    assert shaky.unstable is not None
    assert "unstable" in sentence(shaky)


def test_too_few_blocks_have_no_spread_and_say_so() -> None:
    found = timing(REQUEST, measured(2.0, 2.1))
    assert found.iqr_us is None
    assert found.unstable is not None
    assert "--min-run-time" in found.unstable
    assert "IQR" not in sentence(found)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3.2e-9, "3.2 ns"), (4.5e-5, "45 µs"), (1.25e-3, "1.25 ms"), (2.0, "2 s"), (0.999e-6, "999 ns")],
)
def test_units_keep_the_number_readable(seconds: float, words: str) -> None:
    assert sentence(timing(REQUEST, measured(*[seconds] * 5))).startswith(f"{words} ")


@pytest.mark.torch
def test_a_real_expression_is_timed_in_the_users_interpreter(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import torch\nx = torch.ones(64, 64)\n")
    options = [
        "--setup",
        "from mine import x",
        "--min-run-time",
        "0.05",
        "--python",
        sys.executable,
        "--format",
        "json",
    ]
    # What the statement prints is not the result's: standard output holds one JSON document.
    done = subprocess.run(
        [*CLI, "x @ x; print('said')", *options], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert 0.1 < found["median_us"] < 1e5
    assert found["threads"] == 1
    assert set(done.stderr.split()) == {"said"}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("statement", "words", "status"),
    [("1 / 0", "ZeroDivisionError", 1), ("x +", "SyntaxError", 1), ("nope", "NameError", 1)],
)
def test_a_statement_that_raises_is_one_line(tmp_path: Path, statement: str, words: str, status: int) -> None:
    command = [*CLI, statement, "--python", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_interpreter_without_torch_is_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    done = subprocess.run([*CLI, "1", "--python", str(bare)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no torch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_a_runs_findings_ask_for_is_timed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis is real in everything but the findings' wish, which needs a device."""
    from ridgeline import analysis, cli_time
    from ridgeline.profile import Finding, ProfileDocument, Source

    (tmp_path / "sidecar.json").write_text("{}")
    wish = ["torch.ones(2)", "torch.ones(4)"]

    def analyzed(folder: Path) -> ProfileDocument:
        found = Finding(
            code="tensor-core-shape", title="t", severity="hint", message=f"known: {len(analysis._timed(folder))}",
            evidence={"time": wish},
        )  # fmt: skip
        return ProfileDocument(source=Source(kind="run", path="x.py"), findings=[found])

    asked: list[str] = []

    def timed(request: dict[str, Any], python: str, **_: Any) -> dict[str, Any]:
        asked.append(request["statement"])
        return measured(*[1e-6 * len(asked)] * 4)

    monkeypatch.setattr(analysis, "analyze_run", analyzed)
    monkeypatch.setattr(analysis, "publish", lambda document, folder: None)
    monkeypatch.setattr(cli_time, "measure", timed)
    output = tmp_path / "out.txt"
    cli_time.run_of(tmp_path, threads=1, min_run_time=0.1, python=None, env=[], output=output)
    assert asked == wish
    assert analysis._timed(tmp_path) == {wish[0]: pytest.approx(1.0), wish[1]: pytest.approx(2.0)}
    assert "known: 2" in output.read_text()
    cli_time.run_of(tmp_path, threads=1, min_run_time=0.1, python=None, env=[], format="json", output=output)
    document = json.loads(output.read_text())
    assert [t["statement"] for t in document["timings"]] == wish
    assert [f["message"] for f in document["findings"]] == ["known: 2"]


@pytest.mark.parametrize("text", ["", "[]", '{"statements": 3}', '{"statements": {"x": "fast", "y": -1}}'])
def test_what_is_no_measurement_is_none(tmp_path: Path, text: str) -> None:
    from ridgeline.analysis import TIMED, _timed

    (tmp_path / TIMED).write_text(text)
    assert _timed(tmp_path) == {}
    assert _timed(None) == {}


@pytest.mark.parametrize("arguments", [[], ["x", "--of", "run"]])
def test_a_statement_or_a_run(arguments: list[str]) -> None:
    done = subprocess.run([*CLI, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "a statement, or --of RUN" in done.stderr
