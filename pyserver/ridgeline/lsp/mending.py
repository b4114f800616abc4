"""Edits that a person reviews: a finding's mechanical mend, a label around a statement, a comment that silences a rule.

Where a client can mark edits for confirmation (change annotations), one that touches several places or changes numerics
asks for it; elsewhere the title says what is to be known.
"""

from __future__ import annotations

import functools
import io
import tokenize

from lsprotocol import types

from ridgeline import mends
from ridgeline.ignore import with_ignored
from ridgeline.lsp.documents import Document
from ridgeline.lsp.server import RidgelineServer

LABEL = "label-block"
LABEL_KIND = "refactor.rewrite.ridgeline"
CHANGES_NUMERICS = ("matmul-precision-high",)


def mend(server: RidgelineServer, document: Document, name: str, line: int) -> types.CodeAction | None:
    """The edit of a mend at a zero-based line as it stands now; ``None`` where the text is not what is expected."""
    found = _edits(name, "\n".join(document.lines), line + 1)
    title = mends.TITLES.get(name)
    if not found or title is None:
        return None
    edits = [types.TextEdit(_range(document, edit), edit.text) for edit in found]
    kind = LABEL_KIND if name == LABEL else types.CodeActionKind.QuickFix
    return types.CodeAction(
        title=title, kind=kind, edit=_workspace_edit(server, document, edits, title, careful=name in CHANGES_NUMERICS)
    )


def silence(server: RidgelineServer, document: Document, code: str, line: int) -> types.CodeAction | None:
    """Adds ``# ridgeline: ignore[code]`` to a zero-based line; ``None`` where a comment cannot stand there."""
    text = document.lines[line]
    changed = with_ignored(text, code)
    if changed == text or line not in comment_lines(tuple(document.lines)):
        return None
    # Only what is new is replaced, so that the line's anchors and the cursor stay.
    start = len(_common(text, changed))
    where = types.Range(
        start=types.Position(line, document.units(line, start)),
        end=types.Position(line, document.units(line, len(text))),
    )
    title = f"Ignore “{code}” on this line"
    edit = _workspace_edit(server, document, [types.TextEdit(where, changed[start:])], title, careful=False)
    return types.CodeAction(title=title, kind=types.CodeActionKind.QuickFix, edit=edit)


@functools.lru_cache(maxsize=2)
def comment_lines(lines: tuple[str, ...]) -> frozenset[int]:
    """Zero-based lines at whose end a comment may stand: no string runs over it, and no backslash ends it.

    Kept for the last texts, since editors ask for actions at every move of the cursor. Of a text that does not tokenize to
    its end, the lines before the error.
    """
    found: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL):
                found.add(token.start[0] - 1)
    except (tokenize.TokenError, SyntaxError):
        return frozenset(found)
    return frozenset(found)


@functools.lru_cache(maxsize=8)
def _edits(name: str, source: str, line: int) -> list[mends.Edit]:
    return mends.edits(name, source, line)


def _common(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _range(document: Document, edit: mends.Edit) -> types.Range:
    """A mend's range in the client's units. An end beyond the last line is the end of the text."""

    def at(line: int, column: int) -> types.Position:
        if line - 1 >= len(document.lines):
            last = len(document.lines) - 1
            return types.Position(last, document.units(last, len(document.lines[last])))
        return types.Position(line - 1, document.units(line - 1, column))

    return types.Range(start=at(edit.line, edit.column), end=at(edit.end_line, edit.end_column))


def _workspace_edit(
    server: RidgelineServer, document: Document, edits: list[types.TextEdit], title: str, *, careful: bool
) -> types.WorkspaceEdit:
    if not server.can.document_changes:
        return types.WorkspaceEdit(changes={document.uri: edits})
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    if not (careful and server.can.change_annotations):
        return types.WorkspaceEdit(
            document_changes=[types.TextDocumentEdit(text_document=identifier, edits=list(edits))]
        )
    annotated = [types.AnnotatedTextEdit(range=e.range, new_text=e.new_text, annotation_id="mend") for e in edits]
    annotation = types.ChangeAnnotation(label=title, needs_confirmation=True)
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(text_document=identifier, edits=list(annotated))],
        change_annotations={"mend": annotation},
    )
