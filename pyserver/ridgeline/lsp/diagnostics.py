"""Findings as diagnostics, pushed: they come from a run, not from an edit, and every client takes pushed ones.

Information unless told otherwise; at most ten a file, those that save most, and five hundred in all. What is known to be
worth less than one per cent of the step is left to the text and JSON views, and ``# ridgeline: ignore[code]`` counts as
soon as it is typed. A finding of the whole program stands on the first line of its target, since not every editor has a
place for findings without one. Files that are not open get theirs too when a run is new, so that the list of problems is
whole.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types

import ridgeline
from ridgeline.ignore import ignored
from ridgeline.lsp import protocol, wording
from ridgeline.lsp.documents import Document, split_lines
from ridgeline.lsp.navigation import current_line, generated_locations
from ridgeline.lsp.places import location, uri_of
from ridgeline.lsp.server import Listener, RidgelineServer
from ridgeline.lsp.store import ShownRun
from ridgeline.lsp.views import View

SOURCE = "ridgeline"
SUMMARY = "summary"
MAX_OF_FILE = 10
MAX_OF_WORKSPACE = 500
MAX_RELATED = 3
"""Places in generated code; the lines that the evidence names come on top of them, as many again."""
SEVERITIES = {
    "hint": types.DiagnosticSeverity.Hint,
    "information": types.DiagnosticSeverity.Information,
    "warning": types.DiagnosticSeverity.Warning,
    "error": types.DiagnosticSeverity.Error,
}
Json = protocol.Json


@functools.cache
def page_of(doc: str | None) -> str | None:
    """URI of a finding's page: as it is if it is one, else the file of that name shipped with the package."""
    if not doc:
        return None
    if doc.startswith(("https://", "http://", "file://")):
        return doc
    start = Path(ridgeline.__file__).resolve().parent
    for folder in (start, *list(start.parents)[:3]):
        page = (folder / doc).resolve()
        if page.is_file() and page.is_relative_to(folder):
            return uri_of(page)
    return None


def severity_of(server: RidgelineServer, finding: Json) -> types.DiagnosticSeverity | None:
    """``None`` where the code is muted or off, or what it saves is known to be too little to show in an editor.

    A finding that calls itself a hint stays one unless a setting says otherwise.
    """
    code = finding["code"]
    if code in server.library.muted or (finding.get("evidence") or {}).get("editor") is False:
        return None
    own = server.settings_of(finding.get("file")).diagnostics
    chosen = own.of(code)
    named = code in own.severity or "*" in own.severity
    if not named and finding.get("severity") == "hint":
        chosen = "hint"
    return SEVERITIES.get(chosen)


def is_problem(finding: Json) -> bool:
    """Whether a finding without a place belongs among problems: the summary and hints about the whole program do not."""
    return finding["code"] != SUMMARY and finding.get("severity") != "hint"


def message_of(finding: Json, *, stale: bool) -> str:
    """``Title. Message (saves ~1.2 ms/step, ~4.0 % of the step)``"""
    gain, saving = finding.get("step_gain_pct"), finding.get("saving_us")
    parts = [
        f"~{wording.duration(saving)}/step" if saving else "",
        f"~{wording.percent(gain)} of the step" if gain else "",
    ]
    saves = ", ".join(part for part in parts if part)
    text = f"{finding['title']}. {finding['message']}" if finding.get("message") else finding["title"]
    return text + (f" (may save {saves})" if saves else "") + (" (this line was edited since)" if stale else "")


def related_lines(server: RidgelineServer, run: ShownRun, finding: Json) -> list[types.DiagnosticRelatedInformation]:
    """The other lines that a finding's evidence names, as they stand in open documents now."""
    found = []
    for item in (finding.get("evidence") or {}).get("related") or []:
        file, line = item.get("file"), item.get("line")
        if not isinstance(file, str) or not isinstance(line, int):
            continue
        for path in server.places.find(file, run.folder, run.files.get(file))[:1]:
            now = current_line(server, path, line)
            if now is not None:
                words = str(item.get("text") or "related")
                found.append(types.DiagnosticRelatedInformation(location=location(path, now), message=words))
    return found[:MAX_RELATED]


def is_ignored(finding: Json, document: Document, line: int) -> bool:
    """Whether the line says ``# ridgeline: ignore`` now, whatever it said when the program ran."""
    return bool(finding.get("line")) and line < len(document.lines) and ignored(document.lines[line], finding["code"])


def diagnostic(
    server: RidgelineServer,
    finding: Json,
    where: types.Range,
    related: list[types.DiagnosticRelatedInformation],
    *,
    stale: bool,
) -> types.Diagnostic | None:
    severity = severity_of(server, finding)
    if severity is None:
        return None
    page = page_of(finding.get("doc"))
    return types.Diagnostic(
        range=where,
        severity=severity,
        code=finding["code"],
        code_description=types.CodeDescription(href=page) if page and server.can.code_description else None,
        source=SOURCE,
        message=message_of(finding, stale=stale),
        related_information=related if related and server.can.related_information else None,
        data={"code": finding["code"], "line": finding.get("line")},
    )


def of_view(server: RidgelineServer, view: View) -> list[tuple[Json, types.Diagnostic]]:
    """Those of an open document with their findings, where lines stand now; without findings on lines that are gone."""
    found = []
    for finding in view.part["findings"]:
        where = view.line_of(finding["line"]) if finding.get("line") else (0, False)
        if where is None:
            continue
        line, stale = where
        if is_ignored(finding, view.document, line):
            continue
        rows = [row for row in view.rows_at(line) if row.kind == "line" and row.line == line]
        generated = [t for row in rows for t in generated_locations(server, view, row.data["top"])][:MAX_RELATED]
        related = related_lines(server, view.run, finding)
        related += [types.DiagnosticRelatedInformation(target, "generated code of this line") for target in generated]
        end = line + max(rows[0].data.get("end", 0) - rows[0].data["line"], 0) if rows else line
        one = diagnostic(server, finding, view.document.line_range(line, end_line=end), related, stale=stale)
        if one is not None:
            found.append((finding, one))
    return found


def of_program(server: RidgelineServer, run: ShownRun, document: Document) -> list[tuple[Json, types.Diagnostic]]:
    """Findings without a file, on the first line of the run's target."""
    found = []
    for finding in run.hot()["findings"]:
        if not finding.get("file") and is_problem(finding):
            related = related_lines(server, run, finding)
            one = diagnostic(server, finding, document.line_range(0), related, stale=False)
            if one is not None:
                found.append((finding, one))
    return found


def of_closed(
    server: RidgelineServer, run: ShownRun, document: Document, findings: list[Json]
) -> list[types.Diagnostic]:
    """Those of a file that is not open and still reads as it was profiled."""
    found = []
    for finding in findings:
        line = (finding.get("line") or 1) - 1
        if is_ignored(finding, document, line):
            continue
        related = related_lines(server, run, finding)
        one = diagnostic(server, finding, document.line_range(line), related, stale=False)
        if one is not None:
            found.append((finding, one))
    return best(found)


def best(found: list[tuple[Json, types.Diagnostic]]) -> list[types.Diagnostic]:
    """The ten most worth doing, in that order: by severity, then by what they save, then as the analysis ranked them."""
    ranked = sorted(
        found, key=lambda pair: (pair[1].severity or types.DiagnosticSeverity.Hint, -(pair[0].get("saving_us") or 0.0))
    )
    return [one for _, one in ranked[:MAX_OF_FILE]]


@dataclass
class Publisher(Listener):
    server: RidgelineServer
    published: set[str] = field(default_factory=set)
    """URIs that have diagnostics of ours at the moment."""

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        wanted: dict[str, list[types.Diagnostic]] = {}
        if self.server.settings.annotations.diagnostics:
            for uri in uris:
                found = self._of_open(uri)
                if found is not None:
                    wanted[uri] = best(found)
            if reason != "restored":
                self._add_closed_files(wanted)
        else:
            uris = uris | self.published
        stale = self.published if reason != "restored" else self.published & uris
        for uri in (stale | uris) - set(wanted):
            wanted[uri] = []
        self._publish(wanted)

    def edited(self, uris: set[str]) -> None:
        """Editors move diagnostics with the text themselves; what changes is which are stale or gone."""
        if self.server.settings.annotations.diagnostics:
            self.shown(uris, "restored")

    def _publish(self, wanted: dict[str, list[types.Diagnostic]]) -> None:
        room = MAX_OF_WORKSPACE
        for uri, items in wanted.items():
            items = items[:room]
            room -= len(items)
            if not items and uri not in self.published:
                continue
            (self.published.add if items else self.published.discard)(uri)
            document = self.server.documents.get(uri)
            version = document.version if document else None
            self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, items, version))

    def _of_open(self, uri: str) -> list[tuple[Json, types.Diagnostic]] | None:
        """``None`` for a document that no run has anything on."""
        view, path, document = self.server.view(uri), self.server.path_of(uri), self.server.documents.get(uri)
        found = of_view(self.server, view) if view is not None else None
        run = self.server.library.run_for(path) if path else None
        if document is not None and run is not None and path == run.info.target:
            found = [*(found or []), *of_program(self.server, run, document)]
        return found

    def _add_closed_files(self, wanted: dict[str, list[types.Diagnostic]]) -> None:
        run = self.server.library.newest()
        if run is None:
            return
        by_file: dict[str, list[Json]] = {}
        for finding in run.hot()["findings"]:
            if not finding.get("file") and not is_problem(finding):
                continue
            by_file.setdefault(finding.get("file") or run.info.target, []).append(finding)
        for path, findings in by_file.items():
            document = self._closed_document(path, run)
            if document is None or document.uri in self.server.documents:
                continue
            wanted[document.uri] = of_closed(self.server, run, document, findings)

    def _closed_document(self, path: str, run: ShownRun) -> Document | None:
        """A file that is not open, with its text, if it is still what was profiled."""
        found = self.server.places.find(path, run.folder, run.files.get(path))
        if len(found) != 1:
            return None
        try:
            data = found[0].read_bytes()
        except OSError:
            return None
        entry = run.files.get(path) or {}
        if entry.get("sha256") and not _is(data, entry["sha256"]):
            return None
        lines = split_lines(data.decode("utf-8", "replace"))
        return Document(uri_of(found[0]), None, "python", lines, self.server.workspace.position_codec)


def _is(data: bytes, digest: str) -> bool:
    import hashlib

    return hashlib.sha256(data).hexdigest() == digest


def register(server: RidgelineServer) -> None:
    server.listeners.append(Publisher(server))
