"""The heat map: for clients that draw it, the hot lines of a document with their share of the step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.server import Listener, RidgelineServer
from ridgeline.lsp.views import Row, View

BUCKETS = (1.0, 3.0, 10.0, 25.0, 50.0)
"""Lower bounds, in percent of the step, of heat buckets 1 to 5."""
MAX_HEAT = 1000
LEAST_HEAT = 0.1


def bucket_of(percent: float) -> int:
    return sum(percent >= bound for bound in BUCKETS)


def heat(server: RidgelineServer, uri: str) -> protocol.Annotations:
    view, document = server.view(uri), server.documents.get(uri)
    version = document.version if document else None
    if view is None or not server.settings.annotations.heatMap:
        return {"uri": uri, "version": version, "run": None, "state": "none", "lines": []}
    rows = [row for row in view.rows(LEAST_HEAT) if row.kind != "function"][:MAX_HEAT]
    rows.sort(key=lambda row: row.line)
    return {
        "uri": uri,
        "version": version,
        "run": view.run.id,
        "state": view.state,
        "lines": [_heat(view, row) for row in rows],
    }


def _heat(view: View, row: Row) -> protocol.AnnotatedLine:
    time = wording.duration(row.time_us / (view.run.steps or 1))
    text = wording.joined(time, wording.percent(row.share), "edited since" if row.stale else "")
    return {
        "line": row.line,
        "bucket": bucket_of(row.share),
        "percent": round(row.share, 3),
        "text": text,
        "stale": row.stale,
    }


@dataclass
class Sender(Listener):
    """Pushes the heat map of open documents when their rows, or the state of one, changed."""

    server: RidgelineServer
    sent: dict[str, list[tuple[int, bool]]] = field(default_factory=dict)

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        if self.server.wishes.annotations:
            for uri in uris & set(self.server.documents):
                self._send(uri, heat(self.server, uri))

    def edited(self, uris: set[str]) -> None:
        """Editors move decorations themselves; they are sent again when a row became stale, fresh, lost or found."""
        for uri in uris if self.server.wishes.annotations else ():
            payload = heat(self.server, uri)
            if self.sent.get(uri) != [(line["bucket"], line["stale"]) for line in payload["lines"]]:
                self._send(uri, payload)

    def _send(self, uri: str, payload: protocol.Annotations) -> None:
        self.sent[uri] = [(line["bucket"], line["stale"]) for line in payload["lines"]]
        self.server.tell(protocol.ANNOTATIONS, payload)


def register(server: RidgelineServer) -> None:
    server.listeners.append(Sender(server))

    @server.feature(protocol.ANNOTATIONS)
    def on_annotations(ls: RidgelineServer, params: protocol.Json) -> protocol.Annotations:
        return heat(ls, str(params.get("uri")))
