"""``ridgeline/overview``: the data of the page that ``ridgeline report`` writes, for clients that show it beside the code.

The page and this server are strangers to each other's files: its data comes with the answer, and what is clicked in it
comes back as a place. So it works wherever the client's window is, and needs no port.
"""

from __future__ import annotations

import json

from pygls.exceptions import JsonRpcException

from ridgeline.lsp import protocol
from ridgeline.lsp.comparing import previous
from ridgeline.lsp.hot import place_of
from ridgeline.lsp.running import run_child
from ridgeline.lsp.server import Plain, RidgelineServer
from ridgeline.lsp.store import ShownRun

Json = protocol.Json
CHILD = "ridgeline.lsp.overview_child"
MOST_BYTES = 1 << 28


async def overview(server: RidgelineServer, params: Json) -> Json:
    """Of the named run, of the document's, or of the one that is shown; ``run`` and ``page`` are null without one."""
    run = _run(server, params)
    if run is None:
        server.index_missing()
        return {"run": None, "page": None, "places": []}
    before = previous(server.library, run)
    profiles = [str(info.folder.profile) for info in (run.info, before) if info is not None]
    status, output = await run_child(CHILD, *profiles, keep=MOST_BYTES)
    lines = [line for line in output.split("\n") if line.strip()]
    if status != 0 or len(lines) < 2:
        why = lines[-1] if lines else f"the overview could not be made (status {status})"
        raise JsonRpcException(message=why, code=protocol.REQUEST_FAILED)
    found = json.loads(lines[-1]).items()
    return {"run": run.wire(), "page": lines[-2], "places": [{"place": place, "at": at} for place, at in found]}


def _run(server: RidgelineServer, params: Json) -> ShownRun | None:
    if params.get("run"):
        return server.library.find(str(params["run"]))
    return server.run_of(str(params["uri"])) if params.get("uri") else server.library.newest()


def places(server: RidgelineServer, params: Json) -> Plain:
    """Where a run's files and lines are in this workspace, as they are numbered now; what is not here is left out."""
    run = server.library.find(str(params.get("run")))
    found = []
    for file, line in params.get("places") or []:
        place = place_of(server, run, str(file), int(line)) if run is not None else None
        if place is not None and place not in found:
            found.append(place)
    return Plain(found)


def register(server: RidgelineServer) -> None:
    @server.feature(protocol.OVERVIEW)
    async def on_overview(ls: RidgelineServer, params: Json) -> Json:
        return await overview(ls, params)

    @server.feature(protocol.PLACES)
    def on_places(ls: RidgelineServer, params: Json) -> Plain:
        return places(ls, params)
