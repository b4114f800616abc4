"""From ``initialize`` to exit: options, settings, the watch over the run folders, and the watch over the client's process."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol, settings
from ridgeline.lsp.comparing import repinned
from ridgeline.lsp.server import Capabilities, ClientWishes, RidgelineServer
from ridgeline.runs.folder import RunInfo
from ridgeline.runs.store import default_root

logger = logging.getLogger(__name__)

WATCH_EVERY_S = 1.0
PARENT_EVERY_S = 1.0
STOP_PATIENCE_S = 8.0
SECTION = "ridgeline"


def initialize(server: RidgelineServer, params: types.InitializeParams) -> None:
    options = params.initialization_options if isinstance(params.initialization_options, dict) else {}
    server.can = Capabilities.read(params.capabilities)
    server.wishes = ClientWishes.read(options.get("client"))
    server.trusted = options.get("trusted") is not False
    server.places.set_folders(_folders(server, params))
    use_settings(server, options.get("settings"))


def _folders(server: RidgelineServer, params: types.InitializeParams) -> list[Path]:
    uris = [folder.uri for folder in params.workspace_folders or []] or ([params.root_uri] if params.root_uri else [])
    return [Path(path) for uri in uris if (path := server.path_of(uri)) is not None]


def use_settings(server: RidgelineServer, value: Any, of_folders: dict[Path, Any] | None = None) -> None:
    """Takes settings as a client sent them; what is not understood is reported and left at its default.

    ``value`` is what holds outside of any folder, and in a folder that ``of_folders`` does not name.
    """
    server.settings, problems = settings.read(value)
    server.folder_settings = {}
    for named, own in (of_folders or {}).items():
        server.folder_settings[named], more = settings.read(own)
        problems += more
    roots: list[Path] = []
    folders: list[Path | None] = list(dict.fromkeys([*server.places.folders[:1], *server.folder_settings]))
    for folder in folders or [None]:
        try:
            roots.append(server.storage_of(folder))
        except settings.SettingError as error:
            problems.append(str(error))
    for problem in dict.fromkeys(problems):
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Warning, f"Ridgeline setting ignored: {problem}")
        )
    roots = list(dict.fromkeys([*roots, default_root()]))
    if roots != server.library.roots:
        server.library.open(roots)


async def pull_settings(server: RidgelineServer) -> None:
    """Asks the client for the section: of each workspace folder, and of none where there is no folder."""
    folders = list(server.places.folders)
    items = [types.ConfigurationItem(section=SECTION, scope_uri=folder.as_uri()) for folder in folders]
    items = items or [types.ConfigurationItem(section=SECTION)]
    answers = await server.workspace_configuration_async(types.ConfigurationParams(items=items)) or [None]
    before = (server.settings, server.folder_settings, server.library.roots)
    use_settings(server, answers[0], dict(zip(folders, answers)) if len(folders) > 1 else None)
    if (server.settings, server.folder_settings, server.library.roots) != before:
        server.show_all_again("settings", server.library.newest())


async def watch_runs(server: RidgelineServer) -> None:
    """Shows runs that others made (a terminal, a job on a cluster) when their profile appears."""
    while True:
        started = asyncio.get_running_loop().time()
        changed = await asyncio.to_thread(server.library.poll)
        spent = asyncio.get_running_loop().time() - started
        if changed:
            _show_changed(server, changed)
        # With very many runs a look takes longer; it must never be more than a small part of the time.
        await asyncio.sleep(max(WATCH_EVERY_S, 50 * spent))


def _show_changed(server: RidgelineServer, changed: list[RunInfo]) -> None:
    server.library.forget()
    folder = getattr(server.runner, "folder", None)
    own = folder.id if folder is not None else None
    finished = [info for info in changed if info.finished and info.id != own]
    new = [info for info in finished if info.id not in server.announced]
    server.announced.update(info.id for info in finished)
    if server.pins is not None and server.library.pins() != server.pins:
        repinned(server)
    for info in new:
        run = server.library.load(info)
        if run is None:
            server.index_missing()
        else:
            server.show_all_again("found", run)


async def watch_parent(server: RidgelineServer, pid: int) -> None:
    """Ends this process when the editor's is gone: its end of our standard input may be held open by a child of it."""
    while alive(pid):
        await asyncio.sleep(PARENT_EVERY_S)
    logger.warning("the client's process %d is gone; stopping", pid)
    await stop_run(server)
    # The reader thread is blocked on standard input, which nobody will ever close.
    os._exit(1)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def stop_run(server: RidgelineServer) -> None:
    """Cancels the run in progress and waits for its end, within reason."""
    runner = server.runner
    if runner is None:
        return
    runner.cancel()
    try:
        await asyncio.wait_for(runner.over(), STOP_PATIENCE_S)
    except asyncio.TimeoutError:
        logger.error("the run did not stop in %s s; its supervisor takes our end as a cancel", STOP_PATIENCE_S)


def register(server: RidgelineServer) -> None:
    @server.feature(types.INITIALIZE)
    def on_initialize(ls: RidgelineServer, params: types.InitializeParams) -> None:
        initialize(ls, params)
        # A client outside of our container names a process that we cannot see: then the end of standard input must do.
        if params.process_id and alive(params.process_id):
            ls.spawn(watch_parent(ls, params.process_id))

    @server.feature(types.INITIALIZED)
    def on_initialized(ls: RidgelineServer, params: types.InitializedParams) -> None:
        ls.spawn(watch_runs(ls))
        if ls.can.configuration:
            ls.spawn(pull_settings(ls))

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def on_configuration(ls: RidgelineServer, params: types.DidChangeConfigurationParams) -> None:
        if ls.can.configuration:
            ls.spawn(pull_settings(ls))
        elif isinstance(params.settings, dict):
            use_settings(ls, params.settings.get(SECTION, params.settings))
            ls.show_all_again("settings", ls.library.newest())

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def on_folders(ls: RidgelineServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
        paths = [ls.path_of(uri) for uri in ls.workspace.folders]
        ls.places.set_folders(Path(path) for path in paths if path is not None)
        if ls.can.configuration:
            ls.spawn(pull_settings(ls))

    @server.feature(protocol.TRUST)
    def on_trust(ls: RidgelineServer, params: protocol.Json) -> None:
        ls.trusted = params.get("trusted") is True

    @server.feature(types.SHUTDOWN)
    async def on_shutdown(ls: RidgelineServer, *_: Any) -> None:
        for tool in ls.served:
            tool.close()
        await stop_run(ls)
