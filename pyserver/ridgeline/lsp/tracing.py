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
START_TIMEOUT_S = 900.0
"""A trace is cleaned before it is served; of a gigabyte an excerpt is cut, which takes minutes."""
MAX_SERVED = 3


async def open_trace(server: RidgelineServer, params: Json) -> Json | None:
    """Where the trace is and a URL that shows it, with the kernel's launch selected; ``url`` is null where it cannot be served."""
    run = server.library.find(str(params["run"])) if params.get("run") else server.run_of(params.get("uri"))
    if run is None or not run.info.folder.trace.is_file():
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Info, "Ridgeline: there is no trace of this run.")
        )
        return None
    wanted = params.get("kernel")
    kernel = wanted if isinstance(wanted, str) and wanted else None
    # Of the hottest alone; the child knows them all.
    slice_ = next((row.get("slice") for row in run.hot()["kernels"] if row["id"] == kernel), None)
    answer: Json = {"path": str(run.info.folder.trace), "url": None, "ui": None, "notes": [], "slice": slice_}
    try:
        serving = await _serve(server, run, kernel, params)
        answer.update(url=str(serving.get("url")), ui=serving.get("ui"), notes=serving.get("notes") or [])
    except RequestError as error:
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Warning, f"Ridgeline cannot serve the trace: {error}")
        )
    if answer["url"] and not server.wishes.openTrace:
        await asyncio.to_thread(webbrowser.open, answer["url"])
    return answer


async def _serve(server: RidgelineServer, run: ShownRun, kernel: str | None, params: Json) -> Json:
    """What the child says of itself (``ridgeline open --announce``) once it serves."""
    if not server.trusted:
        # Our own code alone would run, but in an interpreter that the workspace's settings may have named.
        raise RequestError("untrusted", "this workspace is not trusted, so nothing is started in it")
    chosen = [f"--kernel={kernel}"] if kernel is not None else []
    # Where the interface's files are, if the client names a folder.
    named = params.get("interface")
    environment = {"RIDGELINE_PERFETTO_UI": named} if isinstance(named, str) and named else {}
    command = await cli_command(server, params, "open", str(run.folder), "--announce", *chosen)
    tool = Tool(command, environment)
    await tool.start()
    events = tool.lines()
    try:
        first = await asyncio.wait_for(events.__anext__(), START_TIMEOUT_S)
    except StopAsyncIteration:
        await tool.finish()
        lines = [line for line in tool.said.splitlines() if line.strip()]
        raise RequestError("trace-failed", lines[-1] if lines else "its page did not start") from None
    except asyncio.TimeoutError:
        tool.cancel()
        raise RequestError("trace-failed", f"it was not ready after {START_TIMEOUT_S / 60:.0f} minutes") from None
    except BaseException:
        tool.cancel()
        raise
    server.served.append(tool)
    for old in server.served[:-MAX_SERVED]:
        old.close()
    server.spawn(_follow(server, run, tool, events))
    tool.url = str(first.get("url"))
    return first


def forwarded(server: RidgelineServer, params: Json) -> None:
    """The client's editor forwards a page by another name: the one that serves it has to know that name."""
    for tool in server.served:
        if tool.url is not None and tool.url == params.get("url") and isinstance(params.get("host"), str):
            tool.tell({"allow": params["host"]})


async def _follow(server: RidgelineServer, run: ShownRun, tool: Tool, events: Any) -> None:
    """Links in the trace lead back: the kernel's source line is shown in the editor."""
    async for event in events:
        if event.get("event") == "reveal" and server.can.show_document:
            target = _source(server, run, event.get("places") or [])
            if target is not None:
                await server.window_show_document_async(
                    types.ShowDocumentParams(uri=target.uri, selection=target.range, take_focus=True)
                )
    await tool.finish()
    if tool in server.served:
        server.served.remove(tool)


def _source(server: RidgelineServer, run: ShownRun, places: list[Any]) -> types.Location | None:
    for file, line in places:
        place = place_of(server, run, str(file), int(line or 0))
        if place is not None:
            return location(Path(str(server.path_of(place["uri"]))), place["range"]["start"]["line"] + 1)
    return None


def register(server: RidgelineServer) -> None:
    @server.command(protocol.COMMAND_OPEN_TRACE)
    async def command_open_trace(ls: RidgelineServer, *arguments: Any) -> Json | None:
        return await open_trace(ls, one_object(arguments))

    @server.feature(protocol.TRACE_FORWARDED)
    def on_forwarded(ls: RidgelineServer, params: Json) -> None:
        forwarded(ls, params)
