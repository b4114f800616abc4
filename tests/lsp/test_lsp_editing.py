"""Annotations of documents that were edited since: they follow, go stale, come back, and never stand on a wrong line."""

from __future__ import annotations

from pathlib import Path

from lsp_builder import MODEL, Project
from lsp_client import Session


async def test_lenses_follow_and_go_stale(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    gelu = project.line_of("gelu(h)")
    before = (await session.lenses(uri))[gelu]
    session.edit(uri, 2, (0, 0, 0, 0, "# new\n# lines\n"))
    assert (await session.lenses(uri))[gelu + 2] == before
    session.edit(uri, 3, (gelu + 2, 8, gelu + 2, 8, "x"))
    lenses = await session.lenses(uri)
    assert lenses[gelu + 2] == before + " · edited since"
    assert lenses[project.line_of("def forward") + 2].endswith("edited since"), "the function's sum is of old code too"
    assert (await session.hints(uri))[gelu + 2].startswith("✎ ")
    session.edit(uri, 4, (gelu + 2, 8, gelu + 2, 9, ""))
    assert (await session.lenses(uri))[gelu + 2] == before


async def test_shared_lines_are_named_as_they_are_numbered_now(vscode: Session, project: Project) -> None:
    project.add_run()
    uri = vscode.open(project.model)
    vscode.edit(uri, 2, (7, 0, 7, 0, "        pass\n"))
    assert (await vscode.lenses(uri))[project.line_of("self.first(x)")].endswith("shared with L13")


async def test_a_deleted_line_has_no_lens_until_it_is_back(vscode: Session, project: Project) -> None:
    project.add_run()
    uri = vscode.open(project.model)
    gelu = project.line_of("gelu(h)")
    text = project.text("model").split("\n")[gelu]
    vscode.edit(uri, 2, (gelu, 0, gelu + 1, 0, ""))
    assert not any("4.10 ms" in title for title in (await vscode.lenses(uri)).values())
    vscode.edit(uri, 3, (gelu, 0, gelu, 0, text + "\n"))

    await vscode.until(lambda: vscode.refreshed, what="the client is told to ask again")
    assert "4.10 ms" in (await vscode.lenses(uri))[gelu]


async def test_heat_map_is_sent_again_when_a_line_becomes_stale(vscode: Session, project: Project) -> None:
    project.add_run()
    uri = vscode.open(project.model)
    await vscode.until(lambda: vscode.told["ridgeline/annotations"], what="a heat map")
    gelu = project.line_of("gelu(h)")
    assert vscode.told["ridgeline/annotations"][-1]["state"] == "fresh"
    sent = len(vscode.told["ridgeline/annotations"])
    vscode.edit(uri, 2, (0, 0, 0, 0, "\n"))
    await vscode.lenses(uri)
    vscode.edit(uri, 3, (gelu + 1, 12, gelu + 1, 12, "y"))
    await vscode.until(lambda: len(vscode.told["ridgeline/annotations"]) > sent, what="a second heat map")
    last = vscode.told["ridgeline/annotations"][-1]
    assert last["state"] == "edited"
    assert {line["line"]: line["stale"] for line in last["lines"]}[gelu + 1] is True
    assert len(vscode.told["ridgeline/annotations"]) == sent + 1, "not for a mere shift"


async def test_a_file_changed_outside_is_matched_by_its_text(session: Session, project: Project) -> None:
    """A checkout of another revision before the file is opened."""
    project.add_run()
    gelu = project.line_of("gelu(h)")
    changed = MODEL.replace("import torch\n", "import os\nimport torch\n\n# moved\n").replace(
        "self.second(h)", "self.third(h)"
    )
    project.model.write_text(changed, encoding="utf-8")
    lenses = await session.lenses(session.open(project.model))
    assert lenses[gelu + 3].endswith("~memory bound")
    assert lenses[project.line_of("self.third(h)")].endswith("edited since")


async def test_windows_line_ends_and_a_byte_order_mark(vscode: Session, project: Project) -> None:
    project.add_run()
    text = project.text("model").replace("\n", "\r\n")
    lenses = await vscode.lenses(vscode.open(project.model, text))
    assert lenses[project.line_of("gelu(h)")].endswith("~memory bound")


async def test_a_form_feed_moves_nothing(vscode: Session, tmp_path: Path) -> None:
    """``str.splitlines`` breaks at form feeds; neither LSP nor Python does."""
    project = Project.make(
        tmp_path / "feed", MODEL.replace("class Net", "\x0c# a page break \u2028 and a separator\nclass Net")
    )
    project.add_run()
    session = await Session.start("vscode", project.workspace, store=project.store)
    try:
        uri = session.open(project.model)
        gelu = project.line_of("gelu(h)")
        assert (await session.lenses(uri))[gelu].endswith("~memory bound")
        session.edit(uri, 2, (0, 0, 0, 0, "# above\n"))
        assert (await session.lenses(uri))[gelu + 1].endswith("~memory bound")
    finally:
        await session.stop()


async def test_another_version_of_a_generated_module_shows_nothing(session: Session, project: Project) -> None:
    project.add_run()
    text = project.text("module")
    project.files["module"].write_text(text.replace("1024", "2048"), encoding="utf-8")
    uri = session.open(project.files["module"])
    assert await session.lenses(uri) == {}
    assert await session.hints(uri) == {}
    heat = await session.request("ridgeline/annotations", {"uri": uri})
    assert (heat["state"], heat["lines"]) == ("other-version", [])


async def test_an_edited_generated_module_shows_nothing_until_it_is_undone(vscode: Session, project: Project) -> None:
    project.add_run()
    uri = vscode.open(project.files["module"])
    before = await vscode.lenses(uri)
    vscode.edit(uri, 2, (0, 0, 0, 0, "#"))
    assert await vscode.lenses(uri) == {}
    vscode.edit(uri, 3, (0, 0, 0, 1, ""))
    assert await vscode.lenses(uri) == before


async def test_without_a_snapshot_lines_are_found_by_their_own_text(vscode: Session, project: Project) -> None:
    """A profile of a bare trace: all that is known of a line is its number and its text."""
    document = project.document()
    for entry in document.files:
        entry.sha256 = entry.snapshot = None
    project.add_run(document)
    gelu = project.line_of("gelu(h)")
    project.model.write_text("# one\n# two\n" + MODEL.replace("self.second(h)", "self.third(h)"), encoding="utf-8")
    lenses = await vscode.lenses(vscode.open(project.model))
    assert lenses[gelu + 2].endswith("~memory bound")
    assert not any("L12" in title and "compute" in title and line == 13 for line, title in lenses.items())
    assert len(lenses) == 3, "the line that reads differently is not shown, and there is no function without the text"
