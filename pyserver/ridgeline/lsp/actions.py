"""Code actions: whatever a lens offers, and what can be done about a finding, for editors without lenses too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types

from ridgeline.lsp import mending, protocol
from ridgeline.lsp.diagnostics import SOURCE, page_of
from ridgeline.lsp.documents import Document
from ridgeline.lsp.lenses import command_for, title
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.targets import test_at, test_params
from ridgeline.lsp.timing import statement_of
from ridgeline.lsp.views import Row, View

PROFILE_KIND = "source.ridgeline"


def actions(server: RidgelineServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    document = server.documents.get(uri)
    if document is None:
        return []
    found: list[types.CodeAction] = []
    view = server.view(uri)
    if view is not None:
        for row in view.rows_at(params.range.start.line)[:2]:
            found += _of_row(server, view, row)
        found += _of_findings(server, view, params)
        # Editors ask at every move of the cursor for their light bulb; a whole file is read for a label only on request.
        if params.context.trigger_kind != types.CodeActionTriggerKind.Automatic:
            labels = [_label(server, view, row) for row in view.rows_at(params.range.start.line)[:1]]
            found += [action for action in labels if action is not None]
        trace = (
            protocol.CLIENT_OPEN_TRACE
            if protocol.CLIENT_OPEN_TRACE in server.wishes.commands
            else protocol.COMMAND_OPEN_TRACE
        )
        if found and view.run.wire()["trace"]:
            found.append(_action("Open the trace in Perfetto", PROFILE_KIND, trace, {"run": view.run.id}))
        found += _of_baseline(server, view)
        found.append(_action("Clear the profile of this file", PROFILE_KIND, protocol.COMMAND_CLEAR, {"uri": uri}))
    if server.trusted and document.language == "python":
        if _timeable(document, params):
            argument = {"uri": uri, "range": _plain_range(params.range)}
            found.append(_action("Time this expression", PROFILE_KIND, protocol.COMMAND_TIME, argument))
        profile = (
            protocol.CLIENT_PROFILE if protocol.CLIENT_PROFILE in server.wishes.commands else protocol.COMMAND_PROFILE
        )
        words = "Profile this module" if view is not None and view.generated else "Profile this file"
        found.append(_action(words, PROFILE_KIND, profile, {"uri": uri}))
        test, path = test_at(document, params.range.start.line), server.path_of(uri)
        if test and path:
            argument = test_params(uri, Path(path), test)
            found.append(_action(f"Profile the test {test}", PROFILE_KIND, profile, argument))
    wanted = params.context.only
    return [action for action in found if not wanted or any(_within(action.kind or "", kind) for kind in wanted)]


def _timeable(document: Document, params: types.CodeActionParams) -> bool:
    return params.range.start != params.range.end and statement_of(document, params.range) is not None


def _plain_range(where: types.Range) -> protocol.Json:
    return {
        "start": {"line": where.start.line, "character": where.start.character},
        "end": {"line": where.end.line, "character": where.end.character},
    }


def _of_baseline(server: RidgelineServer, view: View) -> Iterator[types.CodeAction]:
    run, compared = view.run, server.compared.get(view.run.id)
    argument = {"uri": view.document.uri, "run": run.id}
    if not run.info.pinned:
        words = "Compare later runs with this one (pin it)"
        yield _action(words, PROFILE_KIND, protocol.COMMAND_PIN, {**argument, "pinned": True})
    if run.info.pinned or (compared is not None and compared.before.pinned):
        words = "Compare each run with the one before it (unpin)"
        yield _action(words, PROFILE_KIND, protocol.COMMAND_PIN, {**argument, "pinned": False})


def _of_row(server: RidgelineServer, view: View, row: Row) -> list[types.CodeAction]:
    words = title(view, row)
    verb = "Go to the source" if row.kind == "place" else "Show the kernels"
    command = types.Command(**command_for(server, view, row, words))
    found = [types.CodeAction(title=f"{verb}: {words}", kind=PROFILE_KIND, command=command)]
    if server.trusted and view.generated and row.kind == "place":
        argument = {"uri": view.document.uri, "kernel": row.data["kernels"][0]}
        found.append(_action("Benchmark this kernel", PROFILE_KIND, protocol.COMMAND_BENCHMARK, argument))
    tuned = view.tuned(row)
    if server.trusted and tuned and tuned.get("status") == "candidate":
        argument = {"uri": view.document.uri, "kernel": tuned["kernel"]}
        found.append(
            _action("Verify the autotune gain by measuring it", PROFILE_KIND, protocol.COMMAND_VERIFY, argument)
        )
    return found


def _of_findings(server: RidgelineServer, view: View, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Quick fixes of our diagnostics in the range: their mend, a comment against them, their page, their rule's off-switch."""
    found: list[types.CodeAction] = []
    for one in params.context.diagnostics:
        if one.source != SOURCE:
            continue
        finding = _finding_of(view, one)
        if finding is None:
            continue
        line = one.range.start.line
        for action in _quick_fixes(server, view, finding, line):
            action.diagnostics = [one]
            found.append(action)
    return found


def _quick_fixes(server: RidgelineServer, view: View, finding: protocol.Json, line: int) -> Iterator[types.CodeAction]:
    code, here = finding["code"], bool(finding.get("file")) and line < len(view.document.lines)
    name = (finding.get("evidence") or {}).get("mend")
    if here and isinstance(name, str):
        mended = mending.mend(server, view.document, name, line)
        if mended is not None:
            yield mended
    asks = (finding.get("evidence") or {}).get("time")
    if server.trusted and isinstance(asks, list) and asks:
        again = "again " if (finding.get("evidence") or {}).get("verified") else ""
        words = f"Time it {again}on this machine, as it is and mended"
        yield _action(words, "quickfix", protocol.COMMAND_TIME_FINDINGS, {"uri": view.document.uri})
    page = page_of(finding.get("doc"))
    if page:
        argument = {"uri": page, "line": 0, "what": "page"}
        yield _action(f"Explain “{code}”", "quickfix", protocol.COMMAND_SHOW, argument)
    if here and finding.get("line"):
        silenced = mending.silence(server, view.document, code, line)
        if silenced is not None:
            yield silenced
    yield _action(f"Do not show “{code}” any more", "quickfix", protocol.COMMAND_MUTE, {"code": code})


def _finding_of(view: View, one: types.Diagnostic) -> protocol.Json | None:
    """The finding behind a diagnostic: of the same code, and on the line where the diagnostic stands if it has one."""
    for finding in (*view.part["findings"], *view.run.hot()["findings"]):
        if finding["code"] != one.code or (finding.get("file") not in (None, view.part["path"])):
            continue
        where = view.line_of(finding["line"]) if finding.get("line") else (0, False)
        if where is not None and where[0] == one.range.start.line:
            found: protocol.Json = finding
            return found
    return None


def _label(server: RidgelineServer, view: View, row: Row) -> types.CodeAction | None:
    """``record_function`` around the statement of a row with device time, so that traces and ``ranges`` name it."""
    if row.kind != "line" or view.generated or not row.time_us:
        return None
    return mending.mend(server, view.document, mending.LABEL, row.line)


def _action(title: str, kind: str, command: str, argument: protocol.Json) -> types.CodeAction:
    return types.CodeAction(
        title=title, kind=kind, command=types.Command(title=title, command=command, arguments=[argument])
    )


def _within(kind: str, wanted: str) -> bool:
    """Kinds are hierarchical: ``source`` asks for ``source.ridgeline`` too."""
    return not wanted or kind == wanted or kind.startswith(wanted + ".")


def register(server: RidgelineServer) -> None:
    options = types.CodeActionOptions(
        code_action_kinds=["quickfix", mending.LABEL_KIND, PROFILE_KIND], resolve_provider=False
    )

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def code_action(ls: RidgelineServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        return actions(ls, params)
