"""Recorded lines that an edit has moved: rejected, never shown as they were. ``make soak`` makes 10,000 edits."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from attribution_build import attributed, wrapper_text
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.stacks import StackResolver, parse_stack
from trace_build import call, kernel, label, op

SOAK_EDITS = int(os.environ.get("RIDGELINE_SOAK_EDITS", "10000"))
STATEMENTS = [
    "x = self.act(x)",
    "x = x + 1",
    "h = self.fc(h)",
    "h = h.relu()",
    "y = x * h",
    "x = self.norm(x)",
    "x = self.drop(x)",
]


@dataclass(slots=True)
class Program:
    """A file of three functions, and the lines of it that were recorded."""

    lines: list[str]
    identity: list[int]
    """For every line the number that it was born with: what it is, wherever it moves."""
    recorded: dict[int, tuple[str, str]]
    """Line at recording -> (text, function)."""


def make(rng: random.Random) -> Program:
    lines: list[str] = ["import torch", ""]
    where: dict[int, str] = {}
    for name in ("first", "second", "third"):
        lines.append(f"def {name}(self, x, h):")
        for _ in range(rng.randint(3, 9)):
            text = rng.choice(STATEMENTS) if rng.random() < 0.6 else f"x = x * {rng.random():.6f}"
            lines.append(f"    {text}")
            where[len(lines)] = name
        lines += [f"    return x + {rng.random():.6f}", ""]
        where[len(lines) - 1] = name
    chosen = {n: (lines[n - 1].strip(), where[n]) for n in where if rng.random() < 0.7}
    return Program(lines, list(range(1, len(lines) + 1)), chosen)


def edit(program: Program, rng: random.Random) -> None:
    """One edit as people make them: lines put in, taken out, duplicated, changed or commented out."""
    kind = rng.choice(("insert", "delete", "duplicate", "change", "comment", "blank"))
    at = rng.randrange(2, len(program.lines))
    span = rng.randint(1, 3)
    if kind == "insert":
        program.lines[at:at] = [f"    {rng.choice(STATEMENTS)}" for _ in range(span)]
        program.identity[at:at] = [0] * span
    elif kind == "blank":
        program.lines[at:at] = [""] * span
        program.identity[at:at] = [0] * span
    elif kind == "delete":
        del program.lines[at : at + span], program.identity[at : at + span]
    elif kind == "duplicate":
        copy = program.lines[at : at + span]
        program.lines[at:at] = copy
        program.identity[at:at] = [0] * len(copy)
    elif kind == "change":
        program.lines[at] = f"    x = x - {rng.random():.6f}"
        program.identity[at] = 0
    else:
        program.lines[at] = f"    # {program.lines[at].strip()}"
        program.identity[at] = 0


def claims(program: Program, file: Path) -> set[int]:
    """The recorded lines that are still believed after the edits."""
    file.write_text("\n".join(program.lines) + "\n")
    stacks = {
        n: f'  File "{file}", line {n}, in {function}\n    {text}\n' for n, (text, function) in program.recorded.items()
    }
    resolver = StackResolver(SourceStore())
    resolver.learn(stacks.values())
    return {ref.line for stack in stacks.values() for ref in resolver.resolve([stack]).refs}


def run_edits(count: int, file: Path, seed: int) -> tuple[int, int, int]:
    """(recorded lines, believed, believed and wrong) over ``count`` edited programs."""
    rng = random.Random(seed)
    recorded = believed = wrong = 0
    for _ in range(count):
        program = make(rng)
        edit(program, rng)
        found = claims(program, file)
        recorded += len(program.recorded)
        believed += len(found)
        wrong += sum(1 for line in found if program.identity[line - 1] != line)
    return recorded, believed, wrong


def test_an_unedited_file_is_believed_whole(tmp_path: Path) -> None:
    rng = random.Random(1)
    recorded = believed = 0
    for _ in range(50):
        program = make(rng)
        recorded += len(program.recorded)
        believed += len(claims(program, tmp_path / "m.py"))
    assert believed >= 0.9 * recorded, "lines with twins and nothing to hold on to below may be doubted"


def test_a_thousand_edits_no_wrong_line(tmp_path: Path) -> None:
    recorded, believed, wrong = run_edits(1000, tmp_path / "m.py", seed=7)
    assert wrong == 0
    assert believed > 0.3 * recorded


@pytest.mark.soak
@pytest.mark.timeout(7200)  # It must end, on a machine that is busy with other things as well.
def test_ten_thousand_edits_no_wrong_line(tmp_path: Path) -> None:
    _, _, wrong = run_edits(SOAK_EDITS, tmp_path / "m.py", seed=11)
    assert wrong == 0


def test_a_stale_line_is_unattributed_and_counted(tmp_path: Path) -> None:
    source, generated = tmp_path / "model.py", tmp_path / "generated"
    generated.mkdir()
    source.write_text("# a new first line\ndef f(x):\n    return x.sin()\n")
    handle = "triton_poi_fused_sin_0:1"
    text = wrapper_text(
        [(30, "triton_poi_fused_sin_0")],
        {"triton_poi_fused_sin_0": 12},
        comments={30: f"[Provenance debug handles] {handle}"},
    )
    (generated / "cmod.py").write_text(text)
    stack = f'  File \\"{source}\\", line 2, in f\\n    return x.sin()\\n'
    head = 'V1129 12:29:22.345000 455 torch/_x.py:1] {"frame_id": 0, "frame_compile_id": 0, '
    log = tmp_path / "trace.log"
    log.write_text(
        head
        + '"inductor_output_code": {"filename": "/t/cmod.py"}}\n'
        + "".join(f"\t{row}\n" for row in text.split("\n"))
        + head
        + '"artifact": {"name": "inductor_provenance_tracking_kernel_stack_traces"}}\n'
        + f'\t{{"{handle}": ["{stack}"]}}\n'
        + head
        + '"artifact": {"name": "fx_graph_cache_hit"}}\n\t{"key": "fabc"}\n'
    )
    events = [
        label(0, 100, "## Call CompiledFxGraph fabc ##"),
        op(10, 20, "triton_poi_fused_sin_0", ext=1),
        call(12, 2, "cuLaunchKernel", corr=1, ext=1, cat="cuda_driver"),
        kernel(40, 9, "triton_poi_fused_sin_0", corr=1, ext=1),
    ]
    one = attributed(tmp_path, *events, generated=generated, provenance=log)
    assert one.refs(0) == ()
    assert one.reason(0) == "the recorded line no longer holds its recorded text"
    assert one.result.rejected_us == 9
    assert any("changed since they were compiled" in note for note in one.result.notes)
    source.write_text("def f(x):\n    return x.sin()\n")
    (ref,) = attributed(tmp_path, *events, generated=generated, provenance=log).refs(0)
    assert (ref.line, ref.text, ref.method) == (2, "return x.sin()", "provenance")


def test_carets_and_remarks_are_no_text() -> None:
    stack = (
        '  File "/a/x.py", line 17, in forward\n    y = f(y)\n        ^^^^\n  File "/a/z.py", line 3, in g\n'
        "Gradient addition node due to multiple use of tensor around:"
    )
    frames = parse_stack(stack)
    assert [(f.line, f.function, f.text) for f in frames] == [(17, "forward", "y = f(y)"), (3, "g", None)]
