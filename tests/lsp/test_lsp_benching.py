"""Benchmarks of generated code: what can be asked for, what is passed on, and how what was measured is shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from lsp_builder import Project
from lsp_client import Session
from ridgeline.runs.processes import unsupported

pytestmark = pytest.mark.skipif(unsupported() is not None, reason=unsupported() or "")

TIMES = {"median_us": 8.02, "gb_per_s": 2810.0}
VERIFIED = {
    "state": "verified",
    "speedup": 1.31,
    "sentence": "1.31x faster with the wider search",
    "config": "XBLOCK: 512",
}


def analysis(project: Project, *rows: dict[str, Any], status: int = 0) -> Path:
    """Stands in for the analysis's interpreter: notes how it was called, and answers as ``ridgeline bench`` would."""
    document = json.dumps({"schema": 1, "kind": "bench", "kernels": list(rows)})
    program = project.root / "analysis"
    code = f"""#!{sys.executable}
import json, sys
open({str(project.root / "called.json")!r}, "w").write(json.dumps(sys.argv))
print({document!r}) if not {status} else print("no device is free", file=sys.stderr)
sys.exit({status})
"""
    program.write_text(code, encoding="utf-8")
    program.chmod(0o755)
    return program


def row(name: str, line: int, **values: Any) -> dict[str, Any]:
    return {"name": name, "line": line, "warm": TIMES, "cold": None, "problem": None, "autotune": None, **values}


def called(project: Project) -> list[str]:
    arguments: list[str] = json.loads((project.root / "called.json").read_text(encoding="utf-8"))
    return arguments


async def test_generated_code_offers_its_bench(session: Session, project: Project) -> None:
    """With or without a run; not in the user's own file."""
    for name, offers in (("module", {"Profile this module", "Benchmark", "Verify autotune"}), ("kernel", set())):
        uri = session.open(project.files[name])
        found = await session.client.text_document_code_lens_async(
            types.CodeLensParams(types.TextDocumentIdentifier(uri))
        )
        assert {lens.command.title for lens in found or [] if lens.command} == offers
    project.files["kernel"].write_text("@triton_heuristics.pointwise(\n)\n" + project.text("kernel"), encoding="utf-8")
    other = project.files["kernel"].rename(project.root / "cother.py")
    found = await session.client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(session.open(other)))
    )
    assert {lens.command.title for lens in found or [] if lens.command} == {"Benchmark", "Verify autotune"}
    assert await session.lenses(session.open(project.model)) == {}


async def test_a_verified_gain_is_a_lens_where_a_predicted_one_was_a_hint(vscode: Session, project: Project) -> None:
    project.add_run()
    uri, gelu = vscode.open(project.model), project.line_of("gelu(h)")
    assert "autotune" not in (await vscode.lenses(uri))[gelu], "what is only predicted is no lens"
    assert (await vscode.hints(uri))[gelu].endswith("~1.3×")
    python = analysis(project, row("triton_", 5, autotune=VERIFIED))
    argument = {"uri": uri, "kernel": "k-gelu", "python": sys.executable, "analysisPython": str(python)}
    found = await vscode.command("ridgeline.server.verifyAutotune", argument)
    assert found["state"] == "done", found
    arguments = called(project)
    assert str(project.files["kernel"]) in arguments
    assert arguments[arguments.index("--exposed-share") + 1] == "0.1640"
    assert "--kernel" not in arguments, "a file of one kernel needs no name, and may have another"
    assert "autotune: 1.31× verified" in (await vscode.lenses(uri))[gelu]
    assert "1.3×" not in (await vscode.hints(uri))[gelu]
    assert "autotune: 1.31× verified" in (await vscode.hover(uri, gelu) or "")
    assert "alone: 8.02 µs (warm)" in vscode.client.messages[-1].message


async def test_one_kernel_of_a_module_is_measured_by_its_name(vscode: Session, project: Project) -> None:
    project.add_run()
    uri = vscode.open(project.files["module"])
    line = project.line_of("triton_poi_fused_gelu_0 = ", "module")
    python = analysis(project, row("triton_poi_fused_gelu_0", line + 1))
    argument = {"uri": uri, "kernel": "k-gelu", "python": sys.executable, "analysisPython": str(python)}
    await vscode.lenses(uri)
    assert (await vscode.command("ridgeline.server.benchmark", argument))["state"] == "done"
    arguments = called(project)
    assert arguments[arguments.index("--kernel") + 1] == "triton_poi_fused_gelu_0"
    found = await vscode.client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    titles = [lens.command.title for lens in found or [] if lens.command and lens.range.start.line == line]
    assert "alone: 8.02 µs (warm) · 2810 GB/s" in titles
    # Another text is another kernel.
    vscode.edit(uri, 2, (0, 0, 0, 0, "# edited\n"))
    found = await vscode.client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    assert not any("alone" in lens.command.title for lens in found or [] if lens.command)


OWN = """
import triton


@triton.autotune(configs=[], key=[])
@triton.jit
def scale(x_ptr, n):
    pass


def launch(x):
    scale[(1,)](x, 4)
"""


async def offered(session: Session, uri: str) -> list[tuple[int, str, Any]]:
    """(line, title, argument) of the lenses that measure."""
    found = await session.client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    commands = [(lens.range.start.line, lens.command) for lens in found or [] if lens.command]
    return [
        (line, one.title, (one.arguments or [None])[0])
        for line, one in commands
        if one.command == "ridgeline.server.benchmark"
    ]


async def test_above_each_kernel_stands_its_benchmark(vscode: Session, project: Project) -> None:
    """Of a module; and of a person's own Triton kernels, once a run can know how they were launched."""
    project.files["model"].write_text(project.text("model") + OWN, encoding="utf-8")
    project.add_run()
    other = project.root / "other.py"
    other.write_text(OWN, encoding="utf-8")
    assert await offered(vscode, vscode.open(other)) == []
    module, model = vscode.open(project.files["module"]), vscode.open(project.model)
    line = project.line_of("triton_poi_fused_gelu_0 = ", "module")
    argument = {"uri": module, "name": "triton_poi_fused_gelu_0"}
    assert (line, "Benchmark", argument) in await offered(vscode, module)
    line = project.line_of("def scale(", "model")
    own = {"uri": model, "name": "scale"}
    assert await offered(vscode, model) == [(line, "Benchmark", own)]
    crowded = {**TIMES, "note": "its threads were without a core 42% of the time: too long, …"}
    python = analysis(project, row("scale", line + 1), row("scale#2", line + 1, warm=crowded))
    found = await vscode.command(
        "ridgeline.server.benchmark", {**own, "python": sys.executable, "analysisPython": str(python)}
    )
    assert found["state"] == "done", found
    arguments = called(project)
    assert arguments[arguments.index("--kernel") + 1] == "scale"
    assert str(project.model) in arguments
    assert await offered(vscode, model) == [(line, "alone: 8.02 µs (warm) · 2810 GB/s", own)]
    python = analysis(project, row("scale", line + 1, warm=crowded))
    await vscode.command("ridgeline.server.benchmark", {**own, "python": sys.executable, "analysisPython": str(python)})
    ((_, title, _),) = await offered(vscode, model)
    assert title == "alone: 8.02 µs (warm) · 2810 GB/s · too long: the machine is busy"


async def test_a_benchmark_that_fails_says_why(vscode: Session, project: Project) -> None:
    uri = vscode.open(project.files["module"])
    argument = {"uri": uri, "python": sys.executable, "analysisPython": str(analysis(project, status=1))}
    found = await vscode.command("ridgeline.server.benchmark", argument)
    assert (found["state"], found["cause"]["code"]) == ("failed", "bench-failed")
    assert vscode.client.messages[-1].message == "no device is free"
    assert vscode.client.messages[-1].type == types.MessageType.Warning
