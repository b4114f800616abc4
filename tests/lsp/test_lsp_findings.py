"""Which findings become diagnostics, with what beside them, and what an editor offers to do about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsprotocol import types

from lsp_builder import MODEL, Project, sha
from lsp_client import Session
from ridgeline.profile import File, Finding, ProfileDocument, Source, Totals


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
    assert "edited since" not in session.client.diagnostics[uri][0].message, (
        "what was measured is still what stands there"
    )
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


TRAINING = """\
import torch


def train(model, batch):
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(batch).sum()
    optimizer.zero_grad(set_to_none=False)
    text = \"\"\"
    é\"\"\"; y = model(batch)
    return loss.item()
"""


def applied(text: str, action: dict[str, Any], *, utf8: bool) -> str:
    """The text after a code action's edit, in the client's units."""
    edit = action["edit"]
    edits = edit["changes"].popitem()[1] if edit.get("changes") else edit["documentChanges"][0]["edits"]
    lines = text.split("\n")

    def offset(position: dict[str, int]) -> int:
        line = lines[position["line"]]
        encoded = line.encode("utf-8" if utf8 else "utf-16-le")[: position["character"] * (1 if utf8 else 2)]
        column = len(encoded.decode("utf-8" if utf8 else "utf-16-le"))
        return sum(len(line) + 1 for line in lines[: position["line"]]) + column

    for one in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        text = text[: offset(one["range"]["start"])] + one["newText"] + text[offset(one["range"]["end"]) :]
    return text


async def fixes(session: Session, uri: str, code: str) -> dict[str, dict[str, Any]]:
    """Quick fixes of the finding of a code, by title."""
    one = next(d for d in await shown(session, uri) if d.code == code)
    actions = await session.actions(uri, one.range.start.line, diagnostics=[one], only=["quickfix"])
    return {action["title"]: action for action in actions}


def training(project: Project) -> Project:
    project.model.write_text(TRAINING, encoding="utf-8")
    return project


def mended(project: Project, *findings: Finding) -> None:
    """A run of the training program that found nothing else."""
    made = ProfileDocument(source=Source(kind="run", path=str(project.model)), totals=Totals())
    made.files = [File(path=str(project.model), sha256=sha(TRAINING), snapshot="files/model.py")]
    made.findings = list(findings)
    project.add_run(made)


async def test_a_mechanical_mend_is_an_edit_to_review(session: Session, project: Project) -> None:
    training(project)
    zero = finding(project, "zero-grad", "zero_grad", evidence={"mend": "zero-grad-set-to-none"})
    precise = finding(project, "tf32-off", "model(batch).sum", evidence={"mend": "matmul-precision-high"})
    unfit = finding(project, "pageable-copy", "model(batch).sum", evidence={"mend": "pin-memory"})
    unknown = finding(project, "other", "model(batch).sum", evidence={"mend": "no-such-mend"})
    mended(project, zero, precise, unfit, unknown)
    uri = session.open(project.model)
    utf8 = session.profile == "helix"
    drop = (await fixes(session, uri, "zero-grad"))["Drop set_to_none=False"]
    assert applied(TRAINING, drop, utf8=utf8) == TRAINING.replace("set_to_none=False", "")
    assert [d["code"] for d in drop["diagnostics"]] == ["zero-grad"]
    title = "Allow TF32 in matrix products (changes numerics)"
    numerics = (await fixes(session, uri, "tf32-off"))[title]
    changed = applied(TRAINING, numerics, utf8=utf8)
    assert changed.startswith('import torch\n\ntorch.set_float32_matmul_precision("high")\n')
    if session.profile == "vscode":
        (annotation,) = numerics["edit"]["changeAnnotations"].values()
        assert annotation["needsConfirmation"] is True
    for code in ("pageable-copy", "other"):
        assert all("edit" not in a for t, a in (await fixes(session, uri, code)).items() if not t.startswith("Ignore"))


async def test_a_line_can_be_silenced_by_an_action(session: Session, project: Project) -> None:
    training(project)
    findings = [
        finding(project, "hidden-sync", "loss.item()"),
        finding(project, "float64", "loss.item()"),
        finding(project, "idle", 'text = """'),
    ]
    mended(project, *findings)
    uri = session.open(project.model)
    action = (await fixes(session, uri, "hidden-sync"))["Ignore “hidden-sync” on this line"]
    after = applied(TRAINING, action, utf8=session.profile == "helix")
    assert after == TRAINING.replace("loss.item()", "loss.item()  # ridgeline: ignore[hidden-sync]")
    assert not any(title.startswith("Ignore") for title in await fixes(session, uri, "idle")), "a string runs over it"
    session.edit(uri, 2, (0, 0, 100, 0, after))
    await session.until(
        lambda: {d.code for d in session.client.diagnostics[uri]} == {"float64", "idle"}, what="one is silenced"
    )
    second = (await fixes(session, uri, "float64"))["Ignore “float64” on this line"]
    assert applied(after, second, utf8=session.profile == "helix") == after.replace(
        "[hidden-sync]", "[hidden-sync, float64]"
    )


async def test_a_hot_line_can_be_labelled(session: Session, project: Project) -> None:
    project.add_run()
    uri = session.open(project.model)
    (action,) = await session.actions(uri, project.line_of("torch.cat("), only=["refactor.rewrite"])
    after = applied(MODEL, action, utf8=session.profile == "helix")
    assert '        with torch.profiler.record_function("h = torch.cat([h, x], dim=-1)"):\n' in after
    assert "            h = torch.cat(\n                [h, x],\n" in after
    assert await session.actions(uri, project.line_of("loss.backward"), only=["refactor.rewrite"]) == []
