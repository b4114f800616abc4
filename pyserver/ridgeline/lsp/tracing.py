"""``ridgeline.server.openTrace``: the trace of a run on a loopback page, served by a child for as long as it is looked at."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol
from ridgeline.lsp.commands import one_object
from ridgeline.lsp.hot import place_of
from ridgeline.lsp.places import location
from ridgeline.lsp.requests import RequestError
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.store import ShownRun
from ridgeline.lsp.tools import Tool, cli_command

Json = protocol.Json
START_TIMEOUT_S = 120.0
"""A trace is cleaned before it is served; hundreds of megabytes take a while."""
MAX_SERVED = 3


async def open_trace(server: RidgelineServer, params: Json) -> Json | None:
    """Where the trace is and a URL that shows it, with the kernel's launch selected; ``url`` is null where it cannot be served."""
    run = server.library.find(str(params["run"])) if params.get("run") else server.run_of(params.get("uri"))
    if run is None or not run.info.folder.trace.is_file():
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Info, "Ridgeline: there is no trace of this run.")
        )
        return None
    kernel = _kernel(run, params.get("kernel"))
    answer: Json = {"path": str(run.info.folder.trace), "url": None, "slice": (kernel or {}).get("slice")}
    try:
        answer["url"] = await _serve(server, run, kernel, params)
    except RequestError as error:
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Warning, f"Ridgeline cannot serve the trace: {error}")
        )
    if answer["url"] and not server.wishes.openTrace:
        await asyncio.to_thread(webbrowser.open, answer["url"])
    return answer


def _kernel(run: ShownRun, identity: Any) -> Json | None:
    return next((kernel for kernel in run.hot()["kernels"] if kernel["id"] == identity), None)


async def _serve(server: RidgelineServer, run: ShownRun, kernel: Json | None, params: Json) -> str:
    if not server.trusted:
        # Our own code alone would run, but in an interpreter that the workspace's settings may have named.
        raise RequestError("untrusted", "this workspace is not trusted, so nothing is started in it")
    chosen = ["--kernel", kernel["id"]] if kernel is not None else []
    tool = Tool(cli_command(server, params, "open", str(run.folder), "--announce", *chosen))
    await tool.start()
    events = tool.lines()
    try:
        first = await asyncio.wait_for(events.__anext__(), START_TIMEOUT_S)
    except StopAsyncIteration:
        await tool.finish()
        lines = [line for line in tool.said.splitlines() if line.strip()]
        raise RequestError("trace-failed", lines[-1] if lines else "its page did not start") from None
    except BaseException:
        tool.cancel()
        raise
    server.served.append(tool)
    for old in server.served[:-MAX_SERVED]:
        old.close()
    server.spawn(_follow(server, run, tool, events))
    return str(first.get("url"))


async def _follow(server: RidgelineServer, run: ShownRun, tool: Tool, events: Any) -> None:
    """Links in the trace lead back: the kernel's source line is shown in the editor."""
    async for event in events:
        if event.get("event") == "reveal" and server.can.show_document:
            target = _source(server, run, _kernel(run, event.get("kernel")))
            if target is not None:
                await server.window_show_document_async(
                    types.ShowDocumentParams(uri=target.uri, selection=target.range, take_focus=True)
                )
    await tool.finish()
    if tool in server.served:
        server.served.remove(tool)


def _source(server: RidgelineServer, run: ShownRun, kernel: Json | None) -> types.Location | None:
    for source in (kernel or {}).get("source") or []:
        place = place_of(server, run, source["file"], source.get("line") or 0)
        if place is not None:
            return location(Path(str(server.path_of(place["uri"]))), place["range"]["start"]["line"] + 1)
    return None


def register(server: RidgelineServer) -> None:
    @server.command(protocol.COMMAND_OPEN_TRACE)
    async def command_open_trace(ls: RidgelineServer, *arguments: Any) -> Json | None:
        return await open_trace(ls, one_object(arguments))
