"""Symbols by time: of a document for outlines and breadcrumbs, of the workspace for a search over all that is hot."""

from __future__ import annotations

from lsprotocol import types

from ridgeline.lsp import wording
from ridgeline.lsp.lenses import title
from ridgeline.lsp.places import location
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.store import ShownRun
from ridgeline.lsp.views import Row, View

MAX_SYMBOLS = 200
MAX_MATCHES = 100


def of_document(server: RidgelineServer, uri: str) -> list[types.DocumentSymbol]:
    """Hot rows, hottest first. For the user's own files only where the client has no tree of ours, since there another
    server's outline is what a person expects."""
    view = server.view(uri)
    if view is None or (server.wishes.tree and not view.generated):
        return []
    rows = sorted((row for row in view.rows() if row.time_us > 0), key=lambda row: -row.time_us)[:MAX_SYMBOLS]
    found = []
    for row in rows:
        where = view.document.line_range(row.line)
        kind = types.SymbolKind.Function if row.kind in ("function", "place") else types.SymbolKind.Event
        found.append(types.DocumentSymbol(_name(view, row), kind, where, where, detail=title(view, row)))
    return found


def _name(view: View, row: Row) -> str:
    if row.kind == "function":
        return str(row.data["name"])
    if row.kind == "place":
        names = [wording.clean_name(view.kernels[identity]["name"]) for identity in row.data["kernels"]]
        return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    text = view.document.lines[row.line].strip() if row.line < len(view.document.lines) else ""
    return text[:60] or f"line {row.line + 1}"


def of_workspace(server: RidgelineServer, query: str) -> list[types.WorkspaceSymbol]:
    """Kernels and lines of the newest (or selected) run whose name holds the query's letters in order, hottest first."""
    run = server.library.newest()
    if run is None:
        return []
    hot = run.hot()
    found: list[tuple[float, types.WorkspaceSymbol]] = []
    for kernel in hot["kernels"]:
        if not matches(query, kernel["name"]):
            continue
        where = _first_place(server, run, kernel)
        if where is not None:
            words = wording.kernel_line(kernel, run.steps)
            found.append(
                (
                    kernel["total_us"],
                    _symbol(wording.clean_name(kernel["name"]), types.SymbolKind.Function, where, words),
                )
            )
    for line in hot["lines"]:
        name = f"{wording.base(line['file'])}:{line['line']} {(line.get('text') or '').strip()}"[:80]
        paths = server.places.find(line["file"], run.folder, run.files.get(line["file"]))
        if paths and matches(query, name):
            time = wording.time_of(line.get("unsplit_us"), run.steps)
            words = wording.joined(time, wording.share_words(line), wording.bound_words(line))
            where = location(paths[0], line["line"])
            found.append((line.get("unsplit_us") or 0.0, _symbol(name, types.SymbolKind.Event, where, words)))
    found.sort(key=lambda item: -item[0])
    return [symbol for _, symbol in found[:MAX_MATCHES]]


def _symbol(name: str, kind: types.SymbolKind, where: types.Location, words: str) -> types.WorkspaceSymbol:
    return types.WorkspaceSymbol(location=where, name=name, kind=kind, container_name=words)


def _first_place(server: RidgelineServer, run: ShownRun, kernel: wording.Json) -> types.Location | None:
    """Where to go for a kernel: its generated code, else the user's line."""
    for reference in kernel.get("generated") or []:
        for path in server.places.find(reference["file"], run.folder, run.files.get(reference["file"])):
            return location(path, reference.get("line") or (reference.get("calls") or [1])[0])
    for source in kernel.get("source") or []:
        for path in server.places.find(source["file"], run.folder, run.files.get(source["file"])):
            if source.get("line"):
                return location(path, source["line"])
    return None


def matches(query: str, name: str) -> bool:
    """Whether the query's characters stand in the name in that order, as editors match them; an empty query matches all."""
    rest = iter(name.lower())
    return all(character in rest for character in query.lower() if not character.isspace())


def register(server: RidgelineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(ls: RidgelineServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        # Editors keep the symbols that they were given first, and there is no request to ask again.
        await ls.indexed()
        return of_document(ls, params.text_document.uri)

    @server.feature(types.WORKSPACE_SYMBOL)
    def workspace_symbol(ls: RidgelineServer, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        return of_workspace(ls, params.query)
