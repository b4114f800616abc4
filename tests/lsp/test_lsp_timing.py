"""**Time this expression**: what of a selection is timed, with what around it, and where its time is shown."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lsp_builder import Project
from lsp_client import Session
from ridgeline.lsp.documents import Document, Edit
from ridgeline.lsp.timing import Timed, setup_of, statement_of
from ridgeline.profile import Finding

SOURCE = """\
import math
import os.path as path
import torch
from torch import nn, Tensor
from . import sibling

# ridgeline: setup x = torch.randn(64, 64)


def forward(x: Tensor):
    h = torch.cat(
        [x, x],
        dim=-1,
    )
    é = 1; y = torch.nn.functional.gelu(x)
    z = missing_name + 1
    return nn.functional.relu(h)
"""
LINES = SOURCE.split("\n")


def document() -> Document:
    return Document("file:///m.py", 1, "python", list(LINES))


def span(first: str, last: str | None = None, *, utf8: bool = False) -> types.Range:
    """From the first character of ``first`` to the last one of ``last``, in UTF-16 units or bytes."""
    last = last or first
    a = next(i for i, line in enumerate(LINES) if first in line)
    b = next(i for i, line in enumerate(LINES) if last in line and i >= a)

    def units(line: int, column: int) -> int:
        text = LINES[line][:column]
        return len(text.encode()) if utf8 else len(text.encode("utf-16-le")) // 2

    start, end = units(a, LINES[a].index(first)), units(b, LINES[b].index(last) + len(last))
    return types.Range(types.Position(a, start), types.Position(b, end))


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (span("torch.nn.functional.gelu(x)"), "torch.nn.functional.gelu(x)"),
        (span("torch.cat(", "    )"), "torch.cat(\n    [x, x],\n    dim=-1,\n)"),
        (span("    h = torch.cat(", "    )"), "h = torch.cat(\n    [x, x],\n    dim=-1,\n)"),
        (span("return nn.functional.relu(h)"), "nn.functional.relu(h)"),
        (span("gelu"), None),
        (span("gelu(x"), None),
        (types.Range(types.Position(0, 0), types.Position(0, 0)), None),
        (types.Range(types.Position(90, 0), types.Position(91, 0)), None),
    ],
)
def test_what_of_a_selection_is_timed(selected: types.Range, expected: str | None) -> None:
    assert statement_of(document(), selected) == expected


def test_the_setup_has_the_imports_that_are_used_and_the_comments() -> None:
    assert setup_of(document(), "nn.functional.relu(x)") == (
        "import torch\nfrom torch import nn\nx = torch.randn(64, 64)"
    )
    assert setup_of(document(), "path.exists(p)", "p = math.pi").split("\n") == [
        "import math",
        "import os.path as path",
        "import torch",
        "x = torch.randn(64, 64)",
        "p = math.pi",
    ]
    assert setup_of(Document("file:///m.py", 1, "python", ["x = ("]), "1 + 1") == "pass"


def test_a_time_moves_with_its_lines_and_goes_with_an_edit() -> None:
    def follow(edit: Edit) -> tuple[int, int] | None:
        timed = Timed(5, 6, {})
        return (timed.first, timed.last) if timed.follow(edit) else None

    assert follow(Edit(0, [""], ["", "", ""])) == (7, 8)
    assert follow(Edit(9, ["a"], ["b", "c"])) == (5, 6)
    assert follow(Edit(6, ["f(x)"], ["f(y)"])) is None
    assert follow(Edit(4, ["a", "b = (", ")", "c"], ["b = (", ")", "c"])) == (4, 5)
    assert follow(Edit(5, ["b = (", ")"], ["", "b = (", ")"])) == (6, 7)
    assert follow(Edit(5, ["b = (", ")", "x"], ["x"])) is None


async def start(profile: str, project: Project, **options: Any) -> tuple[Session, str]:
    project.model.write_text(SOURCE, encoding="utf-8")
    session = await Session.start(profile, project.workspace, store=project.store, options=options)
    return session, session.open(project.model)


async def timed(session: Session, uri: str, what: str) -> Any:
    # Neovim and Helix prefer to count bytes, of which é has two.
    where = span(what, utf8=session.profile != "vscode")
    ends = {
        name: {"line": at.line, "character": at.character} for name, at in (("start", where.start), ("end", where.end))
    }
    pythons = {"python": sys.executable, "analysisPython": sys.executable}
    return await session.command("ridgeline.server.timeExpression", {"uri": uri, "range": ends, **pythons})


@pytest.mark.parametrize("profile", ["vscode", "neovim"])
async def test_the_time_stands_beside_the_line_until_it_is_edited(profile: str, project: Project) -> None:
    pytest.importorskip("torch")
    session, uri = await start(profile, project)
    try:
        found = await timed(session, uri, "torch.nn.functional.gelu(x)")
        assert found["state"] == "done", found
        result = found["result"]
        assert result["statement"] == "torch.nn.functional.gelu(x)"
        assert 0 < result["median_us"] < 1e6
        assert result["iqr_us"] is None or result["iqr_us"] >= 0
        message = session.client.messages[-1]
        assert message.message == found["message"]
        assert message.message.startswith("torch.nn.functional.gelu(x): ")
        assert ("Unstable: " in message.message) == (result["unstable"] is not None)
        assert (message.type == types.MessageType.Warning) == (result["unstable"] is not None)
        line = span("torch.nn.functional.gelu(x)").start.line
        hints = await session.hints(uri)
        assert set(hints) == {line}
        assert hints[line].startswith("⏱ ~" if result["unstable"] else "⏱ ")
        session.edit(uri, 2, (0, 0, 0, 0, "# above\n"))
        assert set(await session.hints(uri)) == {line + 1}
        session.edit(uri, 3, (line + 1, 4, line + 1, 4, " "))
        assert await session.hints(uri) == {}
    finally:
        await session.stop()


async def test_a_name_that_is_missing_is_said_with_what_to_do(project: Project) -> None:
    pytest.importorskip("torch")
    session, uri = await start("vscode", project)
    try:
        found = await timed(session, uri, "missing_name + 1")
        assert (found["state"], found["cause"]["code"]) == ("failed", "name-missing")
        assert "# ridgeline: setup missing_name = …" in found["cause"]["hint"]
        assert "missing_name" in session.client.messages[-1].message
        assert await session.hints(uri) == {}
        found = await timed(session, uri, "sibling")
        assert found["cause"]["code"] == "no-target", "a bare name takes no time"
    finally:
        await session.stop()


async def test_it_is_an_action_of_a_selection_and_needs_trust(project: Project) -> None:
    session, uri = await start("helix", project)
    try:
        assert "Time this expression" not in await titles(session, uri, types.Range(*[span("gelu").start] * 2))
        found = await titles(session, uri, span("torch.cat(", "    )"))
        assert "Time this expression" in found
    finally:
        await session.stop()
    session, uri = await start("helix", project, trusted=False)
    try:
        assert "Time this expression" not in await titles(session, uri, span("torch.cat(", "    )"))
        with pytest.raises(JsonRpcException, match="ServerNotTrusted"):
            await timed(session, uri, "torch.nn.functional.gelu(x)")
    finally:
        await session.stop()


async def titles(session: Session, uri: str, where: types.Range) -> list[str]:
    return [action["title"] for action in await session.actions(uri, where.start.line, where=where)]


WISH = ["torch.empty(8, 1023) @ torch.empty(1023, 8)", "torch.empty(8, 1024) @ torch.empty(1024, 8)"]


def asking(project: Project, message: str, *, verified: bool) -> Finding:
    return Finding(
        code="tensor-core-shape",
        title="A dimension keeps tensor cores from their tiles",
        severity="information",
        message=message,
        file=str(project.model),
        line=project.line_of("return self.second(h)") + 1,
        saving_us=900.0,
        step_gain_pct=3.6,
        doc="docs/findings/tensor-core-shape.md",
        evidence={"time": WISH, "verified": verified},
    )


async def test_a_finding_that_asks_for_a_measurement_has_it_made(vscode: Session, project: Project) -> None:
    """What ``ridgeline time --of`` does is another test's matter; here it leaves the run analyzed anew."""
    before, after = (
        project.document(findings=[asking(project, words, verified=v)])
        for words, v in (
            ("Time the padded product first.", False),
            ("Timed by itself it takes 600 µs, padded 200 µs.", True),
        )
    )
    folder = project.add_run(before)
    uri, line = vscode.open(project.model), project.line_of("return self.second(h)")
    (offered,) = await offers(vscode, uri, line, "Time it")
    assert offered["title"] == "Time it on this machine, as it is and mended"
    answer = {"timings": [], "findings": [dataclasses.asdict(f) for f in after.findings]}
    program = project.root / "analysis"
    (project.root / "after.json").write_text(json.dumps(dataclasses.asdict(after)), encoding="utf-8")
    code = f"""#!{sys.executable}
import json, os, pathlib, sys
from ridgeline import index
data = pathlib.Path({str(project.root / "after.json")!r}).read_bytes()
index.build(pathlib.Path({str(folder.path)!r}), data)
pathlib.Path({str(folder.profile)!r}).write_bytes(data)
open({str(project.root / "called.json")!r}, "w").write(json.dumps(sys.argv))
print({json.dumps(answer)!r})
"""
    program.write_text(code, encoding="utf-8")
    program.chmod(0o755)
    pythons = {"python": sys.executable, "analysisPython": str(program)}
    command = offered["command"]
    found = await vscode.command(command["command"], {**command["arguments"][0], **pythons})
    assert found["state"] == "done", found
    called = json.loads((project.root / "called.json").read_text(encoding="utf-8"))
    assert called[called.index("--of") + 1] == str(folder.path)
    assert vscode.client.messages[-1].message == "Timed by itself it takes 600 µs, padded 200 µs."
    (again,) = await offers(vscode, uri, line, "Time it")
    assert again["title"] == "Time it again on this machine, as it is and mended"


async def offers(session: Session, uri: str, line: int, begins: str) -> list[dict[str, Any]]:
    """Quick fixes of the finding on a line."""
    found = await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")
    mine = [d for d in found if d.range.start.line == line]
    return [a for a in await session.actions(uri, line, diagnostics=mine) if a["title"].startswith(begins)]
