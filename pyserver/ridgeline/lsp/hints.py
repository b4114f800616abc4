"""Inlay hints at the ends of lines, for the lines a client shows: the time of a row, what autotuning may gain, and the
times of expressions that were measured by themselves.

Labels stay within 24 characters, since editors cut long ones; the sentence is in the tooltip.
"""

from __future__ import annotations

from lsprotocol import types

from ridgeline.lsp import timing, wording
from ridgeline.lsp.lenses import title
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.views import Row, View

MAX_LABEL = 24
MAX_HINTS = 1000
LEAST_PERCENT = 0.1
"""Below this share a time says nothing."""


def label(view: View, row: Row) -> str:
    """``4.13 ms · 16 %``, in at most 24 characters; ``✎`` marks a line that was edited since."""
    mark = "✎ " if row.stale else ""
    tuned = view.tuned(row)
    time = wording.duration(row.time_us / (view.run.steps or 1))
    share = wording.percent(wording.share_of(row.data)[0]) if row.share else ""
    words = mark + wording.joined(time, share)
    if tuned and tuned.get("status") == "candidate" and tuned.get("speedup"):
        with_gain = wording.joined(words, f"~{tuned['speedup']:.1f}×")
        if len(with_gain) <= MAX_LABEL:
            words = with_gain
    return words if len(words) <= MAX_LABEL else words[: MAX_LABEL - 1] + "…"


def hints(server: RidgelineServer, uri: str, wanted: types.Range) -> list[types.InlayHint]:
    document = server.documents.get(uri)
    if document is None or not server.settings.annotations.hints:
        return []
    timed = timing.hints(server, document, wanted)
    view = server.view(uri)
    if view is None:
        return timed
    rows = [
        row
        for row in view.rows_between(wanted.start.line, wanted.end.line)
        if row.kind != "function" and row.share >= LEAST_PERCENT and row.line < len(document.lines)
    ]
    found = []
    for row in rows[:MAX_HINTS]:
        at = document.line_range(row.line).end
        tooltip = wording.joined(title(view, row), wording.tuned_words(view.tuned(row)))
        found.append(types.InlayHint(position=at, label=label(view, row), padding_left=True, tooltip=tooltip))
    return found + timed


def register(server: RidgelineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=False))
    def inlay_hint(ls: RidgelineServer, params: types.InlayHintParams) -> list[types.InlayHint]:
        return hints(ls, params.text_document.uri, params.range)
