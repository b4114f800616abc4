"""What a stored run shows in an open document, in four kinds of clients."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from lsp_builder import MODEL, Project
from lsp_client import Session
from lsp_profiles import capabilities
from ridgeline.profile import CompileEvent, Finding


async def test_lenses_stand_on_hot_lines(session: Session, project: Project) -> None:
    project.add_run()
    lenses = await session.lenses(session.open(project.model))
    assert lenses[project.line_of("gelu(h)")] == "4.10 ms/step · 16 % of step · ~memory bound"
    assert lenses[project.line_of("self.first(x)")] == "10.0 ms/step · 40 % of step · ~compute bound · shared with L12"
    assert lenses[project.line_of("def forward")] == "14.6 ms/step · 58 % of step · ~mixed · whole function"
    assert project.line_of("loss.item()") not in lenses, "0.2 % is below the threshold"


async def test_generated_module_shows_where_it_comes_from(session: Session, project: Project) -> None:
    project.add_run()
    lenses = await session.lenses(session.open(project.files["module"]))
    assert (
        lenses[project.line_of("gelu_0.run(", "module")]
        == "4.10 ms/step · 16 % of step · ~memory bound · from model.py:7"
    )
    assert lenses[project.line_of("addmm(", "module")].endswith("from model.py:6 and 1 more")


async def test_kernel_file_shows_its_kernel(session: Session, project: Project) -> None:
    project.add_run()
    lenses = await session.lenses(session.open(project.files["kernel"]))
    assert lenses == {4: "4.10 ms/step · 16 % of step · ~memory bound · from model.py:7"}


async def test_hints_are_short_and_only_in_the_window(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    hints = await session.hints(uri)
    assert hints[project.line_of("gelu(h)")] == "4.10 ms · 16 % · ~1.3×"
    assert all(len(label) <= 24 for label in hints.values())
    gelu = project.line_of("gelu(h)")
    assert set(await session.hints(uri, gelu, gelu)) == {gelu}


async def test_hover_has_at_most_eight_lines_and_ends_with_provenance(session: Session, project: Project) -> None:
    project.add_run()
    text = await session.hover(session.open(project.model), project.line_of("gelu(h)"), 9)
    assert text is not None
    lines = text.split("\n")
    assert len(lines) <= 8
    assert "4.10 ms/step · 16 % of step · ~memory bound" in lines[0]
    assert "84 % of the measured bandwidth" in lines[1]
    assert "`triton_poi_fused_gelu_0`" in lines[2]
    assert "NVIDIA H200 · 10 steps · overhead 6.0 % · torch 2.13.0" in lines[-1]
    assert ("command:" in text) is False, "there is no trace in this run, so no link to one"


async def test_hover_reaches_over_the_whole_statement(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    assert await session.hover(uri, project.line_of("dim=-1")) == await session.hover(
        uri, project.line_of("torch.cat(")
    )
    assert await session.hover(uri, project.line_of("import torch")) is None


async def test_names_in_generated_code_are_explained(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.files["module"])
    text = project.text("module").split("\n")
    gemm, original = project.line_of("extern_kernels.addmm(", "module"), project.line_of("Original ATen", "module")
    hover = await session.hover(uri, gemm, text[gemm].index("addmm") + 2)
    lines = (hover or "").split("\n")
    assert lines[0].startswith("`aten::addmm`: Bias and product in one operator")
    assert "10.0 ms/step" in (hover or "")
    assert len(lines) <= 8
    launch = project.line_of("gelu_0.run(", "module")
    named = await session.hover(uri, launch, 6)
    assert named is not None
    assert named.startswith("`triton_poi_fused_gelu_0`: Inductor's pointwise kernel for gelu.")
    assert (await session.hover(uri, launch, text[launch].index("stream=")) or "").startswith("**4.10 ms/step")
    assert await session.hover(uri, original, 3) is None, "nothing certain is known of this word"


async def test_a_kernels_name_is_explained_where_there_is_room(session: Session, project: Project) -> None:
    document = project.document()
    hostile = "triton_poi_fused_[here](command:x)_0"
    document.kernels[1].name = hostile
    project.add_run(document)
    text = await session.hover(session.open(project.model), project.line_of("gelu(h)"), 9)
    assert text is not None
    assert "Inductor's pointwise kernel" in text
    assert "[here](" not in text.replace(f"`{hostile}`", ""), "what a name from a trace holds is no link"
    assert len(text.split("\n")) <= 8


async def test_findings_become_diagnostics(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    found = await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")
    by_code = {diagnostic.code: diagnostic for diagnostic in found}
    sync = by_code["hidden-sync"]
    assert sync.range.start == types.Position(project.line_of("loss.item()"), 4)
    assert sync.severity == types.DiagnosticSeverity.Information
    assert sync.source == "ridgeline"
    assert "~8.4 % of the step" in sync.message
    assert by_code["launch-bound"].range.start.line == 0, "a finding of the whole program stands on the first line"
    if session.profile == "vscode":
        assert sync.code_description is not None
        assert sync.code_description.href.endswith("docs/findings/hidden-sync.md")
    else:
        assert sync.code_description is None or session.profile == "neovim"


async def test_everything_in_a_lens_is_also_an_action(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    lenses = await session.lenses(uri)
    for line, title in lenses.items():
        actions = await session.actions(uri, line)
        assert any(title in action["title"] for action in actions), title
    titles = [action["title"] for action in await session.actions(uri, project.line_of("gelu(h)"))]
    assert "Verify the autotune gain by measuring it" in titles
    assert "Profile this file" in titles


async def test_actions_are_filtered_by_kind(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    assert await session.actions(uri, project.line_of("gelu(h)"), only=["refactor.extract"]) == []
    rewrites = await session.actions(uri, project.line_of("gelu(h)"), only=["refactor"])
    assert [action["title"] for action in rewrites] == ["Label this block with record_function"]
    assert await session.actions(uri, project.line_of("gelu(h)"), only=["source"]) != []


async def test_a_finding_can_be_explained_and_muted(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    found = await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")
    sync = next(diagnostic for diagnostic in found if diagnostic.code == "hidden-sync")
    actions = await session.actions(uri, sync.range.start.line, diagnostics=[sync])
    mute = next(action for action in actions if action["title"] == "Do not show “hidden-sync” any more")
    assert mute["kind"] == "quickfix"
    await session.command(mute["command"]["command"], *mute["command"]["arguments"])
    await session.until(
        lambda: [d.code for d in session.client.diagnostics[uri]] == ["launch-bound"], what="hidden-sync is gone"
    )


async def test_symbols_by_time(session: Session, project: Project) -> None:
    project.add_run()
    module = session.open(project.files["module"])
    found = await session.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(types.TextDocumentIdentifier(module))
    )
    assert next(symbol.name for symbol in found or []).startswith("nvjet_tst")
    workspace = await session.client.workspace_symbol_async(types.WorkspaceSymbolParams("gelu"))
    assert next(symbol.name for symbol in workspace or []) == "triton_poi_fused_gelu_0"
    everything = await session.client.workspace_symbol_async(types.WorkspaceSymbolParams(""))
    assert next(symbol.container_name for symbol in everything or []).startswith("10.0 ms/step")
    own = await session.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(types.TextDocumentIdentifier(session.open(project.model)))
    )
    assert bool(own) == (session.profile != "vscode"), "a client with a tree has another outline for the user's files"


async def test_from_a_line_to_its_kernel_and_back(session: Session, project: Project) -> None:
    project.add_run()
    model, module = session.open(project.model), session.open(project.files["module"])
    launch = project.line_of("gelu_0.run(", "module")
    at = types.Position(project.line_of("gelu(h)"), 0)
    there = await session.client.text_document_definition_async(
        types.DefinitionParams(types.TextDocumentIdentifier(model), at)
    )
    assert places(there) == [(module, launch)]
    call = types.Position(launch, 6)
    kernel = await session.client.text_document_definition_async(
        types.DefinitionParams(types.TextDocumentIdentifier(module), call)
    )
    assert (module, project.line_of("gelu_0 = ", "module")) in places(kernel)
    assert (project.uri("kernel"), 4) in places(kernel)
    back = await session.client.text_document_references_async(
        types.ReferenceParams(types.ReferenceContext(True), types.TextDocumentIdentifier(module), call)
    )
    assert places(back)[0] == (model, project.line_of("gelu(h)"))


async def test_comments_that_name_files_are_links(session: Session, project: Project) -> None:
    project.add_run()
    module = session.open(project.files["module"])
    found = await session.client.text_document_document_link_async(
        types.DocumentLinkParams(types.TextDocumentIdentifier(module))
    )
    assert [link.target for link in found or []] == [project.uri("kernel")]


async def test_a_file_that_no_run_names_is_left_alone(session: Session, project: Project) -> None:
    project.add_run()
    other = project.workspace / "other.py"
    other.write_text("x = 1\n", encoding="utf-8")
    uri = session.open(other)
    assert await session.lenses(uri) == {}
    assert await session.hints(uri) == {}
    assert await session.hover(uri, 0) is None


async def test_lens_and_hint_and_hover_agree(session: Session, project: Project) -> None:
    """One source of truth: the same number in the lens, the hint, the hover, the tree and the table."""
    project.add_run()
    uri = session.open(project.model)
    line = project.line_of("gelu(h)")
    lens = (await session.lenses(uri))[line]
    hover = await session.hover(uri, line)
    assert lens in (hover or "")
    assert (await session.hints(uri))[line].startswith("4.10 ms · 16 %")
    tree = await session.request("ridgeline/tree", {})
    lines = next(group for group in tree["groups"] if group["id"] == "lines")["items"]
    assert any(item["description"].startswith(lens) for item in lines)
    table = await session.request("ridgeline/hotKernels", {"uri": uri})
    assert table["kernels"][1]["stepUs"] == 4100.0


async def test_columns_count_in_the_clients_units(session: Session, tmp_path: Path) -> None:
    """Emoji take two UTF-16 units and four bytes of UTF-8, Chinese letters one and three."""
    project = Project.make(
        tmp_path / "wide", MODEL.replace("h = torch.nn.functional.gelu(h)", "h = torch.nn.functional.gelu(h)  # 😀漢字")
    )
    session_here = await Session.start(session.profile, project.workspace, store=project.store)
    try:
        project.add_run()
        uri = session_here.open(project.model)
        at = types.Range(types.Position(0, 0), types.Position(100, 0))
        found = await session_here.client.text_document_inlay_hint_async(
            types.InlayHintParams(types.TextDocumentIdentifier(uri), at)
        )
        line = project.line_of("gelu(h)")
        text = project.text("model").split("\n")[line]
        offered = capabilities(session.profile).general
        utf8 = offered is not None and (offered.position_encodings or ["utf-16"])[0] == "utf-8"
        hint = next(hint for hint in found or [] if hint.position.line == line)
        assert hint.position.character == len(text.encode()) if utf8 else len(text.encode("utf-16-le")) // 2
    finally:
        await session_here.stop()


async def test_compile_events_and_findings_survive_missing_lines(session: Session, project: Project) -> None:
    document = project.document()
    document.findings.append(
        Finding(
            code="graph-break", title="A graph break", severity="warning", message="", file=str(project.model), line=999
        )
    )
    document.compile_events.append(CompileEvent(kind="break", reason="print", file=str(project.model), line=999))
    project.add_run(document)
    uri = session.open(project.model)
    found = await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics")
    assert {d.code for d in found} == {"hidden-sync", "launch-bound"}, (
        "a finding on a line that is not there is not shown"
    )


def places(found: object) -> list[tuple[str, int]]:
    assert isinstance(found, (list, tuple))
    return [(location.uri, location.range.start.line) for location in found]
