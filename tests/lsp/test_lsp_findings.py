"""Which findings become diagnostics, with what beside them, and what an editor offers to do about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_builder import Project
from lsp_client import Session
from lsprotocol import types

from ridgeline.profile import Finding


def finding(project: Project, code: str, text: str | None, **values: Any) -> Finding:
    """A finding on the line that holds ``text``, or of the whole program."""
    place = {"file": str(project.model), "line": project.line_of(text) + 1} if text else {}
    return Finding(
        **{"code": code, "title": f"Title of {code}", "severity": "information", "message": "", **place, **values}
    )


def with_findings(project: Project, *findings: Finding) -> None:
    project.add_run(project.document(findings=list(findings)))


async def shown(session: Session, uri: str) -> list[types.Diagnostic]:
    return list(await session.until(lambda: session.client.diagnostics.get(uri), what="diagnostics"))


async def test_what_is_worth_little_is_left_to_the_other_views(session: Session, project: Project) -> None:
    small = {"severity": "hint", "evidence": {"editor": False}}
    with_findings(
        project,
        finding(project, "hidden-sync", "loss.item()", evidence={"editor": True}),
        finding(project, "float64", "gelu(h)", **small),
        finding(project, "idle", None, **small),
    )
    uri = session.open(project.model)
    assert [d.code for d in await shown(session, uri)] == ["hidden-sync"]
    assert "float64" not in (await session.hover(uri, project.line_of("gelu(h)")) or "")
    tree = await session.request("ridgeline/tree", {})
    findings = next(group for group in tree["groups"] if group["id"] == "findings")["items"]
    assert [item["label"] for item in findings] == ["Title of hidden-sync"]


async def test_related_lines_stand_beside_a_finding_where_they_are_now(session: Session, project: Project) -> None:
    loss = project.line_of("loss = model")
    evidence = {
        "related": [
            {"file": str(project.model), "line": loss + 1, "text": "the value is made here"},
            {"file": "/elsewhere/gone.py", "line": 3, "text": "not on this machine"},
            {"file": None, "line": "x"},
        ]
    }
    with_findings(project, finding(project, "hidden-sync", "loss.item()", evidence=evidence))
    uri = session.open(project.model)
    related = (await shown(session, uri))[0].related_information
    if session.profile not in ("vscode", "neovim"):
        assert related is None
        return
    assert related is not None
    assert [(r.message, r.location.uri, r.location.range.start.line) for r in related] == [
        ("the value is made here", uri, loss)
    ]
    session.edit(uri, 2, (0, 0, 0, 0, "\n\n"))

    def moved() -> bool:
        found = session.client.diagnostics[uri][0].related_information
        return bool(found) and found[0].location.range.start.line == loss + 2

    # A shift alone is the editor's to follow; with the next real edit the server says it again.
    session.edit(uri, 3, (project.line_of("gelu(h)") + 2, 8, project.line_of("gelu(h)") + 2, 9, "g"))
    await session.until(moved, what="the related line moved")


async def test_a_comment_silences_a_finding_as_soon_as_it_is_typed(session: Session, project: Project) -> None:
    with_findings(
        project,
        finding(project, "hidden-sync", "loss.item()"),
        finding(project, "float64", "loss.item()"),
    )
    uri = session.open(project.model)
    assert {d.code for d in await shown(session, uri)} == {"hidden-sync", "float64"}
    line = project.line_of("loss.item()")
    end = len("    return loss.item()")
    session.edit(uri, 2, (line, end, line, end, "  # ridgeline: ignore[hidden-sync]"))
    await session.until(lambda: [d.code for d in session.client.diagnostics[uri]] == ["float64"], what="one is left")
    session.edit(uri, 3, (line, end, line, end + len("  # ridgeline: ignore[hidden-sync]"), ""))
    await session.until(lambda: len(session.client.diagnostics[uri]) == 2, what="both are back")


async def test_at_most_ten_a_file_and_those_that_save_most(session: Session, project: Project) -> None:
    many = [finding(project, f"rule-{i}", "gelu(h)", saving_us=10.0 * i) for i in range(1, 13)]
    with_findings(project, *many, finding(project, "launch-bound", None, saving_us=500.0))
    uri = session.open(project.model)
    codes = [d.code for d in await shown(session, uri)]
    assert codes == ["launch-bound", *(f"rule-{i}" for i in range(12, 3, -1))]


async def test_severities_are_set_by_rule(project: Project, tmp_path: Path) -> None:
    with_findings(
        project,
        finding(project, "hidden-sync", "loss.item()"),
        finding(project, "float64", "gelu(h)", severity="hint"),
        finding(project, "idle", "gelu(h)"),
    )
    settings = {"diagnostics": {"severity": {"hidden-sync": "warning", "float64": "information", "idle": "off"}}}
    for profile in ("vscode", "helix"):
        session = await Session.start(profile, project.workspace, store=project.store, configuration=settings)
        try:
            uri = session.open(project.model)

            def severities(session: Session = session, uri: str = uri) -> bool:
                found = {d.code: d.severity for d in session.client.diagnostics.get(uri, [])}
                wanted = {
                    "hidden-sync": types.DiagnosticSeverity.Warning,
                    "float64": types.DiagnosticSeverity.Information,
                }
                return found == wanted

            await session.until(severities, what="severities of the settings")
        finally:
            await session.stop()
