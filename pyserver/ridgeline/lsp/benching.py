"""``ridgeline.server.benchmark`` and ``verifyAutotune``: ``ridgeline bench`` on a generated file, one at a time."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.commands import one_object
from ridgeline.lsp.places import folder_of, uri_of
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
        options = ["--format", "json", "--python", python, *_options(server, params, file, verify)]
        tool = Tool(await cli_command(server, params, "bench", str(file), *options))
        found = await run_tool(server, tool, title=f"Measuring {file.name}", failed="bench-failed")
        if found["state"] == "done":
            found["message"] = _keep(server, params, file, found["result"])
    except RequestError as error:
        found = refused(error)
    if found["state"] != "cancelled":
        kind = types.MessageType.Info if found["state"] == "done" else types.MessageType.Warning
        hint = (found["cause"] or {}).get("hint")
        server.window_show_message(types.ShowMessageParams(kind, found["message"] + (f" ({hint})" if hint else "")))
    return found


def _options(server: RidgelineServer, params: Json, file: Path, verify: bool) -> list[str]:
    """Of a kernel that a run knows: its name in a module, and the part of the step that only it fills."""
    kernel = _kernel(server, params) or {}
    options = ["--autotune", "verify"] if verify else []
    if params.get("name"):
        options += ["--kernel", str(params["name"])]
    elif any(
        Path(reference["file"]).name == file.name and reference["calls"] for reference in kernel.get("generated") or []
    ):
        options += ["--kernel", kernel["name"]]
    share = kernel.get("step_share_pct")
    return [*options, "--exposed-share", f"{share / 100:.4f}"] if verify and share is not None else options


def _kernel(server: RidgelineServer, params: Json) -> Json | None:
    """The kernel that a request names, as the document's run knows it."""
    view = server.view(str(params.get("uri")))
    return view.kernels.get(str(params.get("kernel"))) if view is not None else None


def _keep(server: RidgelineServer, params: Json, file: Path, result: Json) -> str:
    """Has what was measured shown above the kernels, and verified gains on the lines; returns it in a sentence."""
    uri = uri_of(file)
    # Of a kernel with several sets of arguments the first stands above it.
    measured = {row["line"] - 1: wording.benched_words(row) for row in reversed(result["kernels"]) if row.get("line")}
    server.benched[uri] = {**server.benched.get(uri, {}), **measured}
    of_name = {kernel["name"]: kernel["id"] for kernel in _known(server, uri)}
    asked = _kernel(server, params)
    if asked is not None and len(result["kernels"]) == 1:
        # In a file of its own a kernel may have another name than in the run.
        of_name[result["kernels"][0]["name"]] = asked["id"]
    for row in result["kernels"]:
        tuned = row.get("autotune") or {}
        if row["name"] in of_name and tuned.get("state") in ("verified", "no_gain"):
            kept = {"kernel": of_name[row["name"]], "status": tuned["state"], "speedup": tuned["speedup"]}
            server.library.searched[kept["kernel"]] = {**kept, "config": tuned.get("config")}
    server.refresh()
    first = result["kernels"][0] if result["kernels"] else None
    if first is None:
        return f"{file.name}: there is nothing to measure"
    more = f"; and {len(result['kernels']) - 1} more, above their lines" if len(result["kernels"]) > 1 else ""
    return f"{wording.clean_name(first['name'])}: {wording.benched_words(first)}{more}"


def _known(server: RidgelineServer, uri: str) -> list[Json]:
    view = server.view(uri)
    if view is not None:
        return list(view.kernels.values())
    run = server.run_of(None)
    kernels: list[Json] = run.hot()["kernels"] if run is not None else []
    return kernels


async def run_tool(server: RidgelineServer, tool: Tool, *, title: str, failed: str) -> Json:
    """Starts a tool as the one thing that runs, with progress where the client shows it; ``result`` is the JSON it prints.

    Raises :class:`RequestError` when it cannot be started. ``failed``: the code of the cause when it ends badly.
    """
    server.runner = tool
    token = None
    try:
        await tool.start()
        token = await _begin(server, title, tool)
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
            server.work_done_progress.tokens.pop(token, None)
    if tool.cancelled:
        return answer("cancelled", "cancelled", tool.elapsed)
    lines = [line for line in tool.said.splitlines() if line.strip()]
    if status != 0:
        message = lines[-1] if lines else f"it ended with status {status} and said nothing"
        return {**answer("failed", message, tool.elapsed, failed), "exitStatus": status}
    return {**answer("done", "measured", tool.elapsed), "exitStatus": 0, "result": json.loads(output)}


async def _begin(server: RidgelineServer, title: str, tool: Tool) -> str | None:
    if not server.can.work_done:
        return None
    token = str(uuid.uuid4())
    await server.work_done_progress.create_async(token)
    server.work_done_progress.begin(token, types.WorkDoneProgressBegin(title=title, cancellable=True))
    cancelled = server.work_done_progress.tokens[token]
    cancelled.add_done_callback(lambda future: tool.cancel() if future.cancelled() else None)
    return token


def _file(server: RidgelineServer, params: Json) -> Path:
    """The document itself (generated, or with the kernel of its own that is named), or the file of a user's line's kernel."""
    uri = str(params.get("uri"))
    view = server.view(uri)
    path = server.path_of(uri)
    if view is not None and not view.generated and not params.get("name"):
        kernel = view.kernels.get(str(params.get("kernel"))) or {}
        for reference in reversed(kernel.get("generated") or []):
            for found in server.places.find(reference["file"], view.run.folder, view.run.files.get(reference["file"])):
                return found
        raise RequestError("no-target", "this kernel's generated file is not on this machine")
    if path is None:
        raise RequestError("no-target", "there is no generated file to measure")
    return Path(path)


def refused(error: RequestError) -> Json:
    """The answer where nothing was started."""
    if error.code == "cancelled":
        return answer("cancelled", "cancelled", 0.0)
    return answer("failed", str(error), 0.0, error.code, error.hint)


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
