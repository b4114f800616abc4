"""A run against the one before it, or against a pinned baseline: the request, ▲▼ on lines and kernels, and the pin.

The comparison itself runs in a child (``python -m …comparing_child``); what changed is kept by run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ridgeline.lsp import protocol
from ridgeline.lsp.commands import one_object
from ridgeline.lsp.running import run_child
from ridgeline.lsp.server import Listener, RidgelineServer
from ridgeline.lsp.store import Library, ShownRun, wire
from ridgeline.lsp.wording import age, delta_words
from ridgeline.runs.folder import RunInfo

Json = protocol.Json
CHILD = "ridgeline.lsp.comparing_child"


@dataclass(slots=True)
class Compared:
    """What changed between a run and an earlier one. Rows without a change are not in it."""

    before: RunInfo
    document: Json
    """Of ``ridgeline compare``; see :class:`ridgeline.compare.Comparison`."""
    lines: dict[str, Json] = field(default_factory=dict)
    """By ``file:line`` of the later run."""
    kernels: dict[str, Json] = field(default_factory=dict)
    """By kernel id of the later run."""

    def __post_init__(self) -> None:
        self.lines = {change["key"]: change for change in self.document["lines"]}
        self.kernels = {change["key"]: change for change in self.document["kernels"]}

    @property
    def against(self) -> str:
        """``the pinned run of 3 h ago``"""
        pinned = "the pinned run" if self.before.pinned else "the run"
        since = age(self.before.created)
        return f"{pinned} of {since}" if since.endswith("ago") else f"{pinned} before"


def previous(library: Library, run: ShownRun) -> RunInfo | None:
    """The run before this one: the newest pinned one of the same target (a baseline), else the newest older one."""
    older = [info for info in _of_target(library, run.info) if info.created < run.info.created]
    older.sort(key=lambda info: not info.pinned)
    return older[0] if older else None


def _of_target(library: Library, run: RunInfo) -> list[RunInfo]:
    """Other runs of a run's target and rank, newest first."""
    mine = (run.target, run.rank)
    return [info for info in library.runs(hidden=True) if (info.target, info.rank) == mine and info.id != run.id]


async def compare(before: RunInfo, after: RunInfo, *options: str) -> Json:
    """The comparison's document. Raises ``ValueError`` with the reason when it could not be made."""
    paths = (str(before.folder.profile), str(after.folder.profile))
    status, output = await run_child(CHILD, *paths, *options, keep=1 << 26)
    if status != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        raise ValueError(lines[-1] if lines else f"the comparison ended with status {status}")
    found: Json = json.loads(output)
    return {**found, "before_run": wire(before), "after_run": wire(after)}


def delta_of_line(server: RidgelineServer, run: ShownRun, file: str, line: int) -> str:
    """``▼ 12 %`` since the run before, where that is more than noise."""
    compared = server.compared.get(run.id)
    return delta_words(compared.lines.get(f"{file}:{line}")) if compared is not None else ""


def delta_of_kernel(server: RidgelineServer, run: ShownRun, kernel: str) -> str:
    compared = server.compared.get(run.id)
    return delta_words(compared.kernels.get(kernel)) if compared is not None else ""


@dataclass
class Comparer(Listener):
    """Compares each newly shown run with the one before it, and has what changed shown."""

    server: RidgelineServer

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        if reason == "cleared":
            return
        views = [self.server.view(uri) for uri in uris]
        runs = {view.run.id: view.run for view in views if view is not None}
        # The tree shows the newest run, whether or not a file of it is open.
        if (newest := self.server.library.newest()) is not None:
            runs[newest.id] = newest
        if runs and self.server.pins is None:
            self.server.pins = self.server.library.pins()
        for run in runs.values():
            if run.id not in self.server.compared:
                self.server.compared[run.id] = None
                self.server.spawn(self._compare(run))

    async def _compare(self, run: ShownRun) -> None:
        before = previous(self.server.library, run)
        if before is None:
            return
        try:
            found = Compared(before, await compare(before, run.info, "--changed"))
        except ValueError as error:
            self.server.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"not compared: {error}"))
            return
        self.server.compared[run.id] = found
        for listener in self.server.listeners:
            listener.compared(run)
        if found.lines or found.kernels:
            self.server.refresh()


def pin(server: RidgelineServer, params: Json) -> Json:
    """Makes a run the baseline that later runs of its target are compared with, or none with ``pinned: false``.

    One baseline a target: pinning takes the pin from the others. A pinned run is never pruned.
    """
    named, shown = params.get("run"), server.run_of(params.get("uri"))
    run = server.library.info(str(named)) if named else shown.info if shown is not None else None
    if run is None:
        raise JsonRpcException(message="there is no run to pin", code=protocol.REQUEST_FAILED)
    pinned = params.get("pinned") is not False
    taken = [info for info in _of_target(server.library, run) if info.pinned]
    try:
        for info in taken:
            server.library.pin(info, False)
        server.library.pin(run, pinned)
    except OSError as error:
        raise JsonRpcException(
            message=f"cannot mark {run.folder.path}: {error}", code=protocol.REQUEST_FAILED
        ) from error
    repinned(server)
    since = age(run.created)
    words = f"later runs are compared with {f'the run of {since}' if since.endswith('ago') else 'this run'}"
    message = words if pinned else "each run is compared with the one before it"
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, f"Ridgeline: {message}."))
    return {"run": run.id, "pinned": pinned}


def repinned(server: RidgelineServer) -> None:
    """Another baseline, set here or elsewhere: everything is compared anew."""
    server.pins = server.library.pins()
    server.compared.clear()
    server.show_all_again("pinned", server.library.newest())


def register(server: RidgelineServer) -> None:
    server.listeners.append(Comparer(server))

    @server.command(protocol.COMMAND_PIN)
    def command_pin(ls: RidgelineServer, *arguments: object) -> Json:
        return pin(ls, one_object(arguments))

    @server.feature(protocol.COMPARE)
    async def on_compare(ls: RidgelineServer, params: Json) -> Json:
        after = ls.library.find(str(params["after"])) if params.get("after") else ls.run_of(params.get("uri"))
        if after is None:
            raise JsonRpcException(message="there is no run to compare", code=protocol.REQUEST_FAILED)
        before = ls.library.info(str(params["before"])) if params.get("before") else previous(ls.library, after)
        if before is None:
            raise JsonRpcException(message="there is no earlier run of this program", code=protocol.REQUEST_FAILED)
        try:
            return await compare(before, after.info)
        except ValueError as error:
            raise JsonRpcException(message=str(error), code=protocol.REQUEST_FAILED) from error
