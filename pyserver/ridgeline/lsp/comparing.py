"""A run against the one before it: the request, and ▲▼ on the lines, computed in a child (``python -m …comparing_child``)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ridgeline.lsp import protocol
from ridgeline.lsp.running import run_child
from ridgeline.lsp.server import Listener, RidgelineServer
from ridgeline.lsp.store import Library, ShownRun
from ridgeline.lsp.wording import delta_words

Json = protocol.Json
CHILD = "ridgeline.lsp.comparing_child"


def previous(library: Library, run: ShownRun) -> ShownRun | None:
    """The run before this one: the newest pinned one of the same target (a baseline), else the newest older one."""
    older = [
        info
        for info in library.runs(hidden=True)
        if info.target == run.info.target and info.created < run.info.created and info.id != run.id
    ]
    older.sort(key=lambda info: not info.pinned)
    return library.load(older[0]) if older else None


async def compare(before: ShownRun, after: ShownRun) -> Json:
    """The comparison's document. Raises ``ValueError`` with the reason when it could not be made."""
    status, output = await run_child(
        CHILD, str(before.info.folder.profile), str(after.info.folder.profile), keep=1 << 26
    )
    if status != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        raise ValueError(lines[-1] if lines else f"the comparison ended with status {status}")
    found: Json = json.loads(output)
    return {**found, "before_run": before.wire(), "after_run": after.wire()}


@dataclass
class Deltas(Listener):
    """Compares each newly shown run with the one before it, and has its lines shown again when there is a change."""

    server: RidgelineServer

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        if reason not in ("profiled", "found", "restored", "selected"):
            return
        for uri in uris:
            view = self.server.view(uri)
            if view is not None and view.run.id not in self.server.deltas:
                self.server.deltas[view.run.id] = {}
                self.server.spawn(self._compare(view.run))

    async def _compare(self, run: ShownRun) -> None:
        before = previous(self.server.library, run)
        if before is None:
            return
        try:
            found = await compare(before, run)
        except ValueError as error:
            self.server.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"not compared: {error}"))
            return
        lines = {change["key"]: change for change in found["lines"] if delta_words(change)}
        if lines:
            self.server.deltas[run.id] = lines
            self.server.refresh()


def register(server: RidgelineServer) -> None:
    server.listeners.append(Deltas(server))

    @server.feature(protocol.COMPARE)
    async def on_compare(ls: RidgelineServer, params: Json) -> Json:
        after = ls.library.find(str(params["after"])) if params.get("after") else ls.run_of(params.get("uri"))
        if after is None:
            raise JsonRpcException(message="there is no run to compare", code=protocol.REQUEST_FAILED)
        before = ls.library.find(str(params["before"])) if params.get("before") else previous(ls.library, after)
        if before is None:
            raise JsonRpcException(message="there is no earlier run of this program", code=protocol.REQUEST_FAILED)
        try:
            return await compare(before, after)
        except ValueError as error:
            raise JsonRpcException(message=str(error), code=protocol.REQUEST_FAILED) from error
