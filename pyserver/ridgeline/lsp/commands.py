"""Commands and requests that do something: profile, cancel, clear, show, mute, choose a run, open a trace."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ridgeline.lsp import protocol
from ridgeline.lsp.environment import forget, with_analysis
from ridgeline.lsp.navigation import targets_of
from ridgeline.lsp.profiling import profile, require_trust
from ridgeline.lsp.requests import RequestError
from ridgeline.lsp.server import Plain, RidgelineServer
from ridgeline.lsp.store import wire

Json = protocol.Json
MAX_RUNS = 20
logger = logging.getLogger(__name__)


def one_object(arguments: tuple[Any, ...]) -> Json:
    """The argument of a command: an object, or nothing."""
    if not arguments or arguments[0] is None:
        return {}
    if len(arguments) == 1 and isinstance(arguments[0], dict):
        return arguments[0]
    raise JsonRpcException(message="this command takes one object", code=types.ErrorCodes.InvalidParams)


async def profile_with_progress(server: RidgelineServer, params: Json) -> Json:
    """For clients that start by command: progress and cancel by work-done progress where the client has it."""
    token = params.get("workDoneToken")
    if token is None and server.can.work_done:
        token = str(uuid.uuid4())
        await server.work_done_progress.create_async(token)
    return await profile(server, {**params, "workDoneToken": token})


async def cancel(server: RidgelineServer) -> Json:
    """Stops the run in progress and answers when nothing of it is left."""
    runner = server.runner
    if runner is None:
        return {"cancelled": False}
    runner.cancel()
    await runner.over()
    return {"cancelled": True}


async def rebuild_analysis(server: RidgelineServer, params: Json) -> Json:
    """Builds the analysis environment afresh, where one has to be built."""
    require_trust(server)
    forget()
    path = server.path_of(str(params["uri"])) if params.get("uri") else None
    try:
        found = await with_analysis(server, params, Path(path) if path else None, lambda message: logger.info(message))
    except RequestError as error:
        if error.code != "cancelled":
            server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"Ridgeline: {error}"))
        return {"python": None}
    return {"python": found.get("analysisPython")}


def clear(server: RidgelineServer, params: Json) -> Json:
    """Hides what is shown in the document (all finished runs that name it), or everything."""
    uri = params.get("uri")
    library = server.library
    if uri:
        view = server.view(str(uri))
        path = server.path_of(str(uri))
        names = {path, view.entry["path"] if view else path}
        chosen = [info.id for info in library.runs() if info.target in names or names & set(info.files)]
        if view is not None and view.run.id not in chosen:
            chosen.append(view.run.id)
    else:
        chosen = [info.id for info in library.runs()]
    library.clear(chosen)
    server.show_all_again("cleared", None)
    return {"cleared": chosen}


async def show(server: RidgelineServer, params: Json) -> list[types.Location]:
    """The places a row leads to; the first is shown where the client can show documents."""
    uri, line = str(params.get("uri")), int(params.get("line") or 0)
    at = types.Position(line=line, character=0)
    if params.get("what") == "page":
        found = [types.Location(uri=uri, range=types.Range(start=at, end=at))]
    else:
        view = server.view(uri)
        rows = [row for row in view.rows_at(line) if row.line == line] if view else []
        found = [target for row in rows for target in targets_of(server, view, row)] if view else []
    if found and server.can.show_document:
        await server.window_show_document_async(
            types.ShowDocumentParams(uri=found[0].uri, selection=found[0].range, take_focus=True)
        )
    elif not found:
        server.window_show_message(
            types.ShowMessageParams(
                types.MessageType.Info, "Ridgeline knows no generated code or source line for this line."
            )
        )
    return found


def mute(server: RidgelineServer, params: Json) -> Json:
    code = params.get("code")
    if not isinstance(code, str):
        raise JsonRpcException(message="mute takes the code of a finding", code=types.ErrorCodes.InvalidParams)
    server.library.mute(code, params.get("muted") is not False)
    server.show_all_again("settings", server.library.newest())
    return {"muted": sorted(server.library.muted)}


async def select_run(server: RidgelineServer, params: Json) -> Json:
    """Shows one run instead of the newest; ``null`` goes back to the newest."""
    chosen = params.get("run")
    info = server.library.info(str(chosen)) if chosen else None
    run = await server.loaded(info) if info is not None else None
    if chosen and run is None:
        raise JsonRpcException(message=f"there is no finished run {chosen}", code=types.ErrorCodes.InvalidParams)
    server.library.selected = run.id if run else None
    if run is not None:
        server.library.hidden.discard(run.id)
    server.show_all_again("selected", run or server.library.newest())
    return {"run": run.wire() if run else None}


def runs(server: RidgelineServer, params: Json) -> list[Any]:
    """Finished runs, newest first: those that name the document, or all."""
    library = server.library
    limit = int(params.get("limit") or MAX_RUNS)
    path = server.path_of(str(params["uri"])) if params.get("uri") else None
    infos = [info for info in library.runs(hidden=True) if path in (None, info.target) or path in info.files]
    return [run.wire() if (run := library.load(info)) else wire(info) for info in infos[:limit]]


def register(server: RidgelineServer) -> None:
    @server.feature(protocol.PROFILE)
    async def on_profile(ls: RidgelineServer, params: Json) -> Json:
        return await profile(ls, params)

    @server.feature(protocol.RUNS)
    def on_runs(ls: RidgelineServer, params: Json) -> Plain:
        return Plain(runs(ls, params))

    @server.command(protocol.COMMAND_PROFILE)
    async def command_profile(ls: RidgelineServer, *arguments: Any) -> Json:
        return await profile_with_progress(ls, one_object(arguments))

    @server.command(protocol.COMMAND_CANCEL)
    async def command_cancel(ls: RidgelineServer, *arguments: Any) -> Json:
        return await cancel(ls)

    @server.command(protocol.COMMAND_REBUILD)
    async def command_rebuild(ls: RidgelineServer, *arguments: Any) -> Json:
        return await rebuild_analysis(ls, one_object(arguments))

    @server.command(protocol.COMMAND_CLEAR)
    def command_clear(ls: RidgelineServer, *arguments: Any) -> Json:
        return clear(ls, one_object(arguments))

    @server.command(protocol.COMMAND_SHOW)
    async def command_show(ls: RidgelineServer, *arguments: Any) -> list[types.Location]:
        return await show(ls, one_object(arguments))

    @server.command(protocol.COMMAND_MUTE)
    def command_mute(ls: RidgelineServer, *arguments: Any) -> Json:
        return mute(ls, one_object(arguments))

    @server.command(protocol.COMMAND_SELECT_RUN)
    async def command_select_run(ls: RidgelineServer, *arguments: Any) -> Json:
        return await select_run(ls, one_object(arguments))
