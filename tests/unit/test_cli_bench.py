"""``ridgeline bench``'s own side: what is refused in one line, and the copy to edit. Nothing is measured here."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bench_modules as modules
from ridgeline.bench import document, plan
from ridgeline.bench.text import show
from ridgeline.cli_bench import Request, run
from ridgeline.cli_common import CommandError


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "cmodule.py"
    path.write_text(modules.CPP + modules.GOOD)
    return path


def refused(file: Path, **options: Any) -> str:
    with pytest.raises(CommandError) as caught:
        run(Request(file=file, **options))
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "cpp_fused_cos_0"}, "defines no kernel cpp_fused_cos_0; it defines cpp_fused_sin_0"),
        ({"size": ["s0"]}, "write NAME=NUMBER"),
        ({"size": ["s0=4"]}, "has no such size; all its sizes are fixed"),
        ({"autotune": "on"}, "choose off or verify"),
        ({"rtol": 0.1}, "they go with --against"),
        ({"run": "x"}, "this file holds its arguments itself"),
        ({"against": Path("/nowhere/mine.py")}, "cannot read /nowhere/mine.py"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(module: Path, options: dict[str, Any], words: str) -> None:
    assert words in refused(module, **options)


def test_the_copy_is_written_once(module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "my copy.py"
    assert run(Request(file=module, copy=mine, kernel="cpp_fused_sin_0")) == 0
    out, err = capsys.readouterr()
    assert out == f"{mine}\n"
    assert f"--against '{mine}' --kernel cpp_fused_sin_0" in err
    mine.write_text("edited")
    assert "perhaps with edits" in refused(module, copy=mine)
    assert mine.read_text() == "edited"
    assert "one at a time" in refused(module, copy=tmp_path / "other.py", against=mine)
    assert "cannot write" in refused(module, copy=tmp_path / "none" / "x.py")


def test_a_copy_that_has_nothing_to_compare_is_told(module: Path, tmp_path: Path) -> None:
    both = tmp_path / "cboth.py"
    text = modules.CPP
    start, end = text.index("cpp_fused_sin_0 = "), text.index("\n\nasync_compile.wait")
    both.write_text(text[:end] + "\n" + text[start:end].replace("sin_0", "cos_1") + text[end:])
    same = tmp_path / "same.py"
    same.write_text(both.read_text())
    assert "edit one, or name one with --kernel" in refused(both, against=same)
    other = tmp_path / "other.py"
    other.write_text(text.replace("sin_0", "tan_5"))
    assert "holds none of the kernels to compare (cpp_fused_sin_0, cpp_fused_cos_1)" in refused(both, against=other)


def test_a_script_is_told_where_generated_files_come_from(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert "`ridgeline profile` of a program lists those that it ran" in refused(script)


def test_a_program_whose_kernels_no_run_holds_is_told_to_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGELINE_RUN_DIR", str(tmp_path / "runs"))
    program = tmp_path / "own.py"
    program.write_text("import triton\n\n@triton.jit\ndef k(x):\n    pass\n")
    assert "profile the program that launches them first" in refused(program)
    assert "--run none" in refused(program, run="none")


def crowded(names: list[str], notes: dict[str, str | None]) -> str:
    """What the terminal shows of kernels with such notes."""
    text = "# AOT ID: ['0_inference']\nimport torch\nasync_compile = AsyncCompile()\n\n\n"
    for name in names:
        text += f"{name} = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel(float* out_ptr0) {{}}\n''')\n\n\n"
    read = plan.read(
        f"{text}async_compile.wait(globals())\n\ndef call(args):\n    args.clear()\n    return ()\n", "/x/c.py"
    )
    taken = {"seconds": [1e-4] * 8, "calls": 1, "tick_s": 0.0, "clock": "perf_counter"}
    rows = {
        name: {
            "problem": None,
            "warm": {**taken, "waited": 0.5 if notes.get(name) else 0.0},
            "cold": {**taken, "waited": 0.42},
        }
        for name in names
    }
    shown = StringIO()
    show(document.build(read, {"kernels": rows}, verify=False), Console(width=200, file=shown))
    return shown.getvalue()


def test_what_holds_for_many_kernels_is_said_once() -> None:
    said = crowded(["cpp_a_0", "cpp_b_1", "cpp_c_2"], {"cpp_a_0": "both"})
    assert said.count("without a core") == 1
    assert "all kernels: their threads were without a core for much of the time: too long" in said
    said = crowded(["cpp_a_0", "cpp_b_1"], {"cpp_a_0": "both"})
    assert "cpp_a_0: warm: its threads were without a core 50% of the time" in said
    assert "cpp_b_1: cold: its threads were without a core 42% of the time" in said
