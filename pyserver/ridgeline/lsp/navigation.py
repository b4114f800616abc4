"""Jumps between the user's lines, the generated module that launches their kernels, and the kernel's own file.

User line → launches in generated modules (definition, implementation); launch → the kernel's definition (definition);
generated code → the user's lines (references, declaration). Comments in which Inductor names a file are document links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types

from ridgeline.lsp.places import is_file_name, location, uri_of
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.views import Row, View

MAX_TARGETS = 8
_FILE_COMMENT = re.compile(
    r"^\s*(?:#|//)\s*(?:kernel path|Compiled module path|compiled module path)\s*:\s*(?P<path>\S.*?)\s*$"
    r"|^\s*(?:#|//)?.*?\bFile:\s*(?P<source>\S[^:]*?):(?P<line>\d+)\s+in\s"
    r"|^\s*Compiled module path:\s*(?P<module>\S.*?)\s*$"
)


def targets_of(server: RidgelineServer, view: View, row: Row) -> list[types.Location]:
    """Where a click on a row leads: generated code for a user's row, the user's lines for a place of generated code."""
    if row.kind == "place":
        return source_locations(server, view, row.data["kernels"])
    if row.kind == "function":
        inside = [r for r in view.rows() if r.kind == "line" and row.data["line"] <= r.data["line"] <= row.data["end"]]
        inside.sort(key=lambda r: -r.time_us)
        return generated_locations(server, view, [identity for r in inside for identity in r.data["top"]])
    return generated_locations(server, view, row.data["top"])


def generated_locations(
    server: RidgelineServer, view: View, kernels: Iterable[str], *, definitions: bool = False
) -> list[types.Location]:
    """Launches (or, with ``definitions``, definitions) of kernels in generated code, hottest kernel first."""
    found: dict[tuple[str, int], types.Location] = {}
    for identity in kernels:
        kernel = view.kernels.get(identity) or {}
        references = kernel.get("generated") or []
        with_calls = [reference for reference in references if reference.get("calls")]
        # A library kernel is launched from a module and defined nowhere.
        defining = [reference for reference in references if reference.get("line") or not reference.get("calls")]
        for reference in defining if definitions else with_calls or references:
            lines = [reference.get("line") or 1] if definitions or not reference["calls"] else reference["calls"][:2]
            for path in local_paths(server, view, reference["file"]):
                for line in lines:
                    found.setdefault((str(path), line), location(path, line))
            if len(found) >= MAX_TARGETS:
                return list(found.values())[:MAX_TARGETS]
    return list(found.values())


def source_locations(server: RidgelineServer, view: View, kernels: Iterable[str]) -> list[types.Location]:
    """The source lines of kernels, the user's before the libraries', as they stand in open documents now."""
    sources = [source for identity in kernels for source in (view.kernels.get(identity) or {}).get("source") or []]
    found: dict[tuple[str, int], types.Location] = {}
    for source in sorted(sources, key=lambda source: bool(source.get("library"))):
        if not source.get("line") or (source.get("library") and found):
            continue
        for path in local_paths(server, view, source["file"]):
            line = current_line(server, path, source["line"])
            if line is not None:
                found.setdefault((str(path), line), location(path, line))
    return list(found.values())[:MAX_TARGETS]


def local_paths(server: RidgelineServer, view: View, path: str) -> list[Path]:
    return server.places.find(path, view.run.folder, view.run.files.get(path))


def current_line(server: RidgelineServer, path: Path, line: int) -> int | None:
    """A profiled line as numbered now if the file is open (``None`` if it is gone), else as it was."""
    view = server.view(uri_of(path))
    if view is None or view.generated or (line - 1) not in view.anchors.index:
        return line
    where = view.line_of(line)
    return where[0] + 1 if where is not None else None


def definitions(server: RidgelineServer, uri: str, position: types.Position) -> list[types.Location]:
    view = server.view(uri)
    wanted = server.settings.navigation.definition
    if view is None:
        return []
    rows = view.rows_at(position.line)
    if view.generated:
        places = [row for row in rows if row.kind == "place" and row.line == position.line]
        kernels = [identity for row in places for identity in row.data["kernels"]]
        found = generated_locations(server, view, kernels, definitions=True)
        elsewhere = [t for t in found if (t.uri, t.range.start.line) != (uri, position.line)]
        return elsewhere or source_locations(server, view, kernels)
    if wanted == "off" or (wanted == "operators" and _on_identifier(view, position)):
        return []
    return [target for row in rows for target in targets_of(server, view, row)][:MAX_TARGETS]


def _on_identifier(view: View, position: types.Position) -> bool:
    """Whether a word that another server would look up is at or just before the position."""
    text = view.document.lines[position.line] if position.line < len(view.document.lines) else ""
    column = view.document.column(position.line, position.character) if text else 0
    around = text[max(column - 1, 0) : column + 1]
    return any(character.isidentifier() or character.isdigit() for character in around)


def implementations(server: RidgelineServer, uri: str, position: types.Position) -> list[types.Location]:
    view = server.view(uri)
    if view is None:
        return []
    return [target for row in view.rows_at(position.line) for target in targets_of(server, view, row)][:MAX_TARGETS]


def references(server: RidgelineServer, uri: str, position: types.Position) -> list[types.Location]:
    """Of generated code: the user's lines, then the other launches of the same kernels. Of a user's line: the launches."""
    view = server.view(uri)
    if view is None:
        return []
    rows = view.rows_at(position.line)
    if not view.generated:
        return [target for row in rows for target in targets_of(server, view, row)]
    kernels = [identity for row in rows for identity in row.data.get("kernels", [])]
    found = source_locations(server, view, kernels)
    found += [
        t for t in generated_locations(server, view, kernels) if (t.uri, t.range.start.line) != (uri, position.line)
    ]
    return found


def declarations(server: RidgelineServer, uri: str, position: types.Position) -> list[types.Location]:
    """The user's lines of generated code; nothing for the user's own files."""
    view = server.view(uri)
    if view is None or not view.generated:
        return []
    kernels = [identity for row in view.rows_at(position.line) for identity in row.data.get("kernels", [])]
    return source_locations(server, view, kernels)


def links(server: RidgelineServer, uri: str) -> list[types.DocumentLink]:
    """Files that comments of generated code and logs name, where they exist on this machine."""
    document = server.documents.get(uri)
    if document is None:
        return []
    view = server.view(uri)
    found = []
    for number, text in enumerate(document.lines):
        if ".py" not in text and " path:" not in text:
            continue
        match = _FILE_COMMENT.match(text)
        if match is None:
            continue
        group = next(name for name in ("path", "source", "module") if match.group(name))
        path = match.group(group)
        if not is_file_name(path):
            continue
        here = (
            local_paths(server, view, path)
            if view
            else [Path(path)]
            if Path(path).is_absolute() and Path(path).is_file()
            else []
        )
        if len(here) != 1:
            continue
        target = uri_of(here[0]) + (f"#L{match.group('line')}" if group == "source" else "")
        start, end = match.span(group)
        if group == "source":
            end = match.end("line")
        found.append(
            types.DocumentLink(
                range=types.Range(
                    start=types.Position(line=number, character=document.units(number, start)),
                    end=types.Position(line=number, character=document.units(number, end)),
                ),
                target=target,
            )
        )
    return found


def register(server: RidgelineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(ls: RidgelineServer, params: types.DefinitionParams) -> list[types.Location]:
        return definitions(ls, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_IMPLEMENTATION)
    def implementation(ls: RidgelineServer, params: types.ImplementationParams) -> list[types.Location]:
        return implementations(ls, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DECLARATION)
    def declaration(ls: RidgelineServer, params: types.DeclarationParams) -> list[types.Location]:
        return declarations(ls, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def reference(ls: RidgelineServer, params: types.ReferenceParams) -> list[types.Location]:
        return references(ls, params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK, types.DocumentLinkOptions(resolve_provider=False))
    def document_link(ls: RidgelineServer, params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        return links(ls, params.text_document.uri)
