"""Which run is shown: stored, new, chosen, cleared, broken, from elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from lsprotocol import types

from lsp_builder import MODEL, Project, publish
from lsp_client import Session
from ridgeline.profile import File, Line, ProfileDocument
from ridgeline.runs.folder import RunFolder


def slower(project: Project) -> ProfileDocument:
    document = project.document()
    for line in document.lines:
        line.unsplit_us *= 2
        line.device_us *= 2
    return document


async def test_a_run_made_elsewhere_appears_by_itself(session: Session, project: Project) -> None:
    uri = session.open(project.model)
    assert await session.lenses(uri) == {}
    project.add_run()
    await session.until(lambda: session.told["ridgeline/profileChanged"], what="profileChanged")
    changed = session.told["ridgeline/profileChanged"][-1]
    assert changed["reason"] == "found"
    assert changed["uris"] == [uri]
    assert await session.lenses(uri) != {}
    expected = {"vscode": ["lens", "hint"], "neovim": ["hint"], "emacs": [], "helix": []}[session.profile]
    assert set(session.refreshed) == set(expected), "only what the client declared"
    await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")


async def test_the_newest_run_is_shown_and_another_can_be_chosen(vscode: Session, project: Project) -> None:
    old = project.add_run(name="20261129-100000")
    project.add_run(slower(project), name="20261129-110000")
    uri = vscode.open(project.model)
    gelu = project.line_of("gelu(h)")
    assert (await vscode.lenses(uri))[gelu].startswith("8.20 ms/step")
    listed = await vscode.request("ridgeline/runs", {"uri": uri})
    assert [run["id"] for run in listed][1] == old.id
    await vscode.command("ridgeline.server.selectRun", {"run": old.id})
    assert (await vscode.lenses(uri))[gelu].startswith("4.10 ms/step")
    await vscode.command("ridgeline.server.selectRun", {"run": None})
    assert (await vscode.lenses(uri))[gelu].startswith("8.20 ms/step")


async def test_cleared_results_stay_cleared_in_the_next_session(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")
    await session.command("ridgeline.server.clear", {"uri": uri})
    assert await session.lenses(uri) == {}
    assert list(session.client.diagnostics[uri]) == []
    again = await Session.start(session.profile, project.workspace, store=project.store)
    try:
        assert await again.lenses(again.open(project.model)) == {}
        project.add_run()
        await again.until(lambda: again.told["ridgeline/profileChanged"], what="a new run")
        assert await again.lenses(uri) != {}, "a new run is shown"
    finally:
        await again.stop()


async def test_a_run_without_an_index_is_indexed_in_a_child(vscode: Session, project: Project) -> None:
    folder = project.add_run(indexed=False)
    uri = vscode.open(project.model)
    assert await vscode.lenses(uri) == {}
    await vscode.until(lambda: vscode.told["ridgeline/profileChanged"], 20, what="profileChanged")
    assert await vscode.lenses(uri) != {}
    assert (folder.path / "index" / "manifest.json").is_file()


async def test_symbols_wait_for_the_index(session: Session, project: Project) -> None:
    """Editors ask for them once, as soon as a file is opened."""
    project.add_run(indexed=False)
    uri = session.open(project.files["module"])
    found = await session.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(types.TextDocumentIdentifier(uri))
    )
    assert next(symbol.name for symbol in found or []).startswith("nvjet")


async def test_a_stale_index_is_not_believed(vscode: Session, project: Project) -> None:
    folder = project.add_run()
    publish(slower(project), folder, indexed=False)
    uri = vscode.open(project.model)
    await vscode.lenses(uri)
    await vscode.until(lambda: vscode.told["ridgeline/profileChanged"], 20, what="profileChanged")
    assert (await vscode.lenses(uri))[project.line_of("gelu(h)")].startswith("8.20 ms/step")


async def test_a_broken_profile_leaves_the_server_and_older_runs_alone(vscode: Session, project: Project) -> None:
    project.add_run(name="20261129-100000")
    broken = project.add_run(name="20261129-110000")
    shutil.rmtree(broken.path / "index")
    broken.profile.write_text('{"schema": 1, "kernels": [{', encoding="utf-8")
    uri = vscode.open(project.model)
    assert (await vscode.lenses(uri))[project.line_of("gelu(h)")].startswith("4.10 ms/step")
    odd = project.add_run(name="20261129-120000")
    shutil.rmtree(odd.path / "index")
    odd.profile.write_text(json.dumps({"schema": 99}), encoding="utf-8")
    assert await vscode.lenses(uri) != {}


async def test_a_run_of_another_machine_is_matched_by_tail_and_text(session: Session, project: Project) -> None:
    """UP-111: paths of a container; the workspace has the same file elsewhere."""
    document = elsewhere(project, "/data/users/x/proj/ws/model.py")
    project.add_run(document)
    lenses = await session.lenses(session.open(project.model))
    assert lenses[project.line_of("gelu(h)")].startswith("4.10 ms/step")


async def test_a_namesake_with_other_text_is_not_taken_for_the_file(session: Session, project: Project) -> None:
    document = elsewhere(project, "/data/users/x/proj/ws/model.py")
    project.add_run(document)
    other = project.workspace / "sub" / "model.py"
    other.parent.mkdir()
    other.write_text("\n".join(f"y = {i}" for i in range(40)), encoding="utf-8")
    assert await session.lenses(session.open(other)) == {}


async def test_an_ambiguous_tail_offers_a_choice(vscode: Session, project: Project) -> None:
    """UP-111: two model.py, as many places to go to as there are candidates."""
    document = elsewhere(project, "/data/users/x/model.py")
    for entry in document.files:
        entry.root = None
    project.add_run(document)
    second = project.workspace / "other" / "model.py"
    second.parent.mkdir()
    second.write_text(MODEL, encoding="utf-8")
    uri = vscode.open(project.files["module"])
    lens = await vscode.request_lens(uri, project.line_of("gelu_0.run(", "module"))
    targets = {location["uri"] for location in lens["arguments"][0]["locations"]}
    assert targets == {project.model.as_uri(), second.as_uri()}


async def test_names_that_are_no_files_are_no_links(vscode: Session, project: Project) -> None:
    """UP-111, UP-115: ``<string>``, builtins, notebook cells, line 0, library files that are not here."""
    document = project.document()
    names = [
        "<string>",
        "<built-in method softmax of type object at 0x7f>",
        "/tmp/ipykernel_12/3481.py",
        "nn.Module: Linear_3",
    ]
    document.lines += [
        Line(file=name, line=4, text="x", device_us=900.0 - i, unsplit_us=900.0 - i) for i, name in enumerate(names)
    ]
    document.lines.append(Line(file="vllm/v1/worker/gpu_model_runner.py", line=2722, device_us=800.0, unsplit_us=800.0))
    document.lines.append(Line(file=str(project.model), line=0, device_us=700.0, unsplit_us=700.0))
    document.files += [File(path=name) for name in names]
    project.add_run(document)
    tree = await vscode.request("ridgeline/tree", {})
    items = {item["id"]: item for group in tree["groups"] if group["id"] == "lines" for item in group["items"]}
    for name in names:
        assert items[f"line:{name}:4"]["location"] is None
    library = items["line:vllm/v1/worker/gpu_model_runner.py:2722"]
    assert library["location"] is None
    assert "not in this workspace" in library["tooltip"]
    assert items[f"line:{project.model}:0"]["location"] is None


async def test_generated_files_are_opened_from_the_run_when_the_cache_is_gone(
    vscode: Session, project: Project
) -> None:
    folder = project.add_run()
    shutil.rmtree(project.files["module"].parent)
    uri = vscode.open(project.model)
    lens = await vscode.request_lens(uri, project.line_of("gelu(h)"))
    target = lens["arguments"][0]["locations"][0]["uri"]
    assert target == (folder.path / "files" / "module.py").as_uri()
    lenses = await vscode.lenses(vscode.open(folder.path / "files" / "module.py"))
    assert any("from model.py:7" in title for title in lenses.values())


async def test_shares_of_the_step_and_the_unattributed_rest(vscode: Session, project: Project) -> None:
    """UP-114: kernels of 50, 30, 15 on lines 3, 3 and 9, and 5 of no line: 80 %, 15 %, and 5 % left."""
    document = project.document(findings=[], steps=[])
    document.source.steps = None
    file = str(project.model)
    document.lines = [
        Line(file=file, line=3, device_us=80.0, unsplit_us=80.0, share_pct=80.0),
        Line(file=file, line=9, device_us=15.0, unsplit_us=15.0, share_pct=15.0),
    ]
    project.add_run(document)
    lenses = await vscode.lenses(vscode.open(project.model))
    assert lenses == {2: "80.0 µs · 80 % of device time", 8: "15.0 µs · 15 % of device time"}


async def test_names_of_kernels_lose_their_addresses(vscode: Session, project: Project) -> None:
    """UP-115: addresses are stripped, so that runs compare."""
    document = project.document()
    document.kernels[0].name = "void f<at::Tensor>(0x7f12ab, `x`) [clone]"
    project.add_run(document)
    tree = await vscode.request("ridgeline/tree", {})
    assert tree["groups"][0]["items"][0]["label"] == "void f<at::Tensor>(0x…, `x`) [clone]"


def elsewhere(project: Project, path: str) -> ProfileDocument:
    """The run's document as another machine would have written it."""
    data = project.document()
    here = str(project.model)
    for line in data.lines:
        line.file = path
    for kernel in data.kernels:
        for source in kernel.source:
            source.file = path
    for finding in data.findings:
        finding.file = path if finding.file == here else finding.file
    for entry in data.files:
        if entry.path == here:
            entry.path, entry.root = path, str(Path(path).parent)
    return data


def test_run_folder_ids_are_group_and_run(project: Project) -> None:
    folder = project.add_run(name="20261129-100000")
    assert folder.id == RunFolder(folder.path).id
    assert folder.id.endswith("/20261129-100000")
