"""``ridgeline.server.benchmark`` and ``verifyAutotune``: ``ridgeline bench`` on a generated file, one at a time."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol
from ridgeline.lsp.commands import one_object
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.profiling import refuse, require_trust
from ridgeline.lsp.requests import RequestError, Where, interpreter
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.tools import Tool, cli_command

Json = protocol.Json


async def bench(server: RidgelineServer, params: Json, *, verify: bool) -> Json:
    """Runs the benchmark in the user's interpreter. ``result`` is the document of ``ridgeline bench --format json``."""
    require_trust(server)
    if server.runner is not None:
        raise refuse("already-running", "a run is in progress; one at a time keeps the numbers honest")
    try:
        file = _file(server, params)
        where = Where(file, folder_of(file, server.places.folders))
        python = str(interpreter(params, server.settings_of(file), where))
        autotune = ["--autotune", "verify"] if verify else []
        tool = Tool(cli_command(server, params, "bench", str(file), "--format", "json", "--python", python, *autotune))
        return await run_tool(server, tool, title=f"Measuring {file.name}", failed="bench-failed")
    except RequestError as error:
        return answer("failed", str(error), 0.0, error.code, error.hint)


async def run_tool(server: RidgelineServer, tool: Tool, *, title: str, failed: str) -> Json:
    """Starts a tool as the one thing that runs, with progress where the client shows it; ``result`` is the JSON it prints.

    Raises :class:`RequestError` when it cannot be started. ``failed``: the code of the cause when it ends badly.
    """
    server.runner = tool
    token = None
    try:
        await tool.start()
        token = await _begin(server, title)
        output = await tool.output()
        status = await tool.finish()
    except asyncio.CancelledError:
        tool.cancel()
        await tool.finish()
        raise
    finally:
        server.runner = None
        if token is not None:
            server.work_done_progress.end(token, types.WorkDoneProgressEnd())
    if tool.cancelled:
        return answer("cancelled", "cancelled", tool.elapsed)
    lines = [line for line in tool.said.splitlines() if line.strip()]
    if status != 0:
        message = lines[-1] if lines else f"it ended with status {status} and said nothing"
        return {**answer("failed", message, tool.elapsed, failed), "exitStatus": status}
    return {**answer("done", "measured", tool.elapsed), "exitStatus": 0, "result": json.loads(output)}


async def _begin(server: RidgelineServer, title: str) -> str | None:
    if not server.can.work_done:
        return None
    token = str(uuid.uuid4())
    await server.work_done_progress.create_async(token)
    server.work_done_progress.begin(token, types.WorkDoneProgressBegin(title=title, cancellable=False))
    return token


def _file(server: RidgelineServer, params: Json) -> Path:
    """The generated file: the document itself, or the one of a kernel of a user's line."""
    uri = str(params.get("uri"))
    view = server.view(uri)
    path = server.path_of(uri)
    if view is not None and not view.generated:
        kernel = view.kernels.get(str(params.get("kernel"))) or {}
        for reference in reversed(kernel.get("generated") or []):
            for found in server.places.find(reference["file"], view.run.folder, view.run.files.get(reference["file"])):
                return found
        raise RequestError("no-target", "this kernel's generated file is not on this machine")
    if path is None:
        raise RequestError("no-target", "there is no generated file to measure")
    return Path(path)


def answer(
    state: protocol.State, message: str, seconds: float, code: str | None = None, hint: str | None = None
) -> Json:
    cause: Json | None = {"code": code, "message": message, "hint": hint, "actions": []} if code else None
    return {
        "state": state,
        "run": None,
        "exitStatus": None,
        "seconds": round(seconds, 3),
        "message": message,
        "cause": cause,
        "log": None,
    }


def register(server: RidgelineServer) -> None:
    @server.command(protocol.COMMAND_BENCHMARK)
    async def command_benchmark(ls: RidgelineServer, *arguments: Any) -> Json:
        return await bench(ls, one_object(arguments), verify=False)

    @server.command(protocol.COMMAND_VERIFY)
    async def command_verify(ls: RidgelineServer, *arguments: Any) -> Json:
        return await bench(ls, one_object(arguments), verify=True)
