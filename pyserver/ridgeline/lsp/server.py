"""The server's state, and what every feature asks of it: documents, views, settings, the run library, the client's wishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Protocol as TypingProtocol

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import JsonRPCNotification, JsonRPCRequestMessage, LanguageServerProtocol, lsp_method
from pygls.uris import to_fs_path

from ridgeline import __version__
from ridgeline.ignore import is_marked
from ridgeline.lsp import protocol, settings
from ridgeline.lsp.documents import Document, split_lines
from ridgeline.lsp.places import Places, folder_of
from ridgeline.lsp.store import Library, ShownRun
from ridgeline.lsp.views import View, build_view
from ridgeline.runs.folder import RunInfo
from ridgeline.runs.store import default_root

if TYPE_CHECKING:
    from ridgeline.lsp.comparing import Compared
    from ridgeline.lsp.timing import Timed
    from ridgeline.lsp.tools import Tool

logger = logging.getLogger(__name__)

INDEX_PATIENCE_S = 10.0


class Protocol(LanguageServerProtocol):
    """pygls' protocol with our own documents (see :mod:`ridgeline.lsp.documents`) and plain JSON for our own methods."""

    _server: RidgelineServer

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.opened(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.changed(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.closed(params.text_document.uri)

    def structure_message(self, data: dict[str, Any]) -> Any:
        method = data.get("method")
        if "jsonrpc" not in data or not isinstance(method, str) or not method.startswith("ridgeline/"):
            return super().structure_message(data)
        params = data.get("params") or {}
        if "id" in data:
            return JsonRPCRequestMessage(id=data["id"], method=method, jsonrpc=data["jsonrpc"], params=params)
        return JsonRPCNotification(method=method, jsonrpc=data["jsonrpc"], params=params)

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        """Plain JSON goes out as it is: converting two hundred lenses through attrs classes would take longer than all else."""
        if error is None and isinstance(result, (dict, Plain)):
            self._send_data({"id": msg_id, "jsonrpc": self.VERSION, "result": result})
        else:
            super()._send_response(msg_id, result, error)

    def tell(self, method: str, params: protocol.Json) -> None:
        """A notification of our own, as plain JSON."""
        self._send_data({"jsonrpc": self.VERSION, "method": method, "params": params})


class Plain(list[Any]):
    """A result that is JSON already."""


@dataclass(slots=True)
class ClientWishes:
    """``initializationOptions.client``."""

    annotations: bool = False
    tree: bool = False
    output: bool = False
    openTrace: bool = False
    commands: frozenset[str] = frozenset()

    @classmethod
    def read(cls, value: Any) -> ClientWishes:
        given = value if isinstance(value, dict) else {}
        commands = given.get("commands")
        return cls(
            annotations=given.get("annotations") is True,
            tree=given.get("tree") is True,
            output=given.get("output") is True,
            openTrace=given.get("openTrace") is True,
            commands=frozenset(c for c in commands if isinstance(c, str))
            if isinstance(commands, list)
            else frozenset(),
        )


@dataclass(slots=True)
class Capabilities:
    """What the client can do, of what matters here."""

    configuration: bool = False
    lens_refresh: bool = False
    hint_refresh: bool = False
    show_document: bool = False
    work_done: bool = False
    related_information: bool = False
    code_description: bool = False
    document_changes: bool = False
    change_annotations: bool = False

    @classmethod
    def read(cls, given: types.ClientCapabilities) -> Capabilities:
        workspace, window, text = given.workspace, given.window, given.text_document
        publish = text.publish_diagnostics if text else None
        edits = workspace.workspace_edit if workspace else None
        return cls(
            configuration=bool(workspace and workspace.configuration),
            lens_refresh=bool(workspace and workspace.code_lens and workspace.code_lens.refresh_support),
            hint_refresh=bool(workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support),
            show_document=bool(window and window.show_document and window.show_document.support),
            work_done=bool(window and window.work_done_progress),
            related_information=bool(publish and publish.related_information),
            code_description=bool(publish and publish.code_description_support),
            document_changes=bool(edits and edits.document_changes),
            change_annotations=bool(edits and edits.change_annotation_support),
        )


class Stoppable(TypingProtocol):
    """A run or a benchmark: it can be asked to stop, and waited for."""

    def cancel(self) -> None: ...
    async def over(self) -> None: ...


class RidgelineServer(LanguageServer):
    """One per client. All of its state is touched on the event loop only."""

    def __init__(self) -> None:
        super().__init__("ridgeline", __version__, protocol_cls=Protocol, max_workers=2)
        self.protocol: Protocol
        self.wishes = ClientWishes()
        self.can = Capabilities()
        self.trusted = True
        self.settings = settings.Settings()
        """Of the first folder, or of none."""
        self.folder_settings: dict[Path, settings.Settings] = {}
        """Where there are several folders: of each."""
        self.library = Library()
        self.places = Places()
        self.documents: dict[str, Document] = {}
        self._views: dict[str, View | None] = {}
        self.runner: Stoppable | None = None
        """What is being run; one at a time."""
        self.served: list[Tool] = []
        """Children that serve traces."""
        self.compared: dict[str, Compared | None] = {}
        """By run id: what changed since the run before; ``None`` until that is known, and where there is none."""
        self.benched: dict[str, dict[int, str]] = {}
        """By URI of a generated file: what its benchmark measured, in words, by the zero-based line of the kernel."""
        self.pins: frozenset[str] | None = None
        """Runs that were pinned when what is shown was compared; ``None`` until something was."""
        self.timed: dict[str, list[Timed]] = {}
        """Measured expressions of open documents, by URI."""
        self.announced: set[str] = set()
        """Runs whose appearance clients were told of, so that the watch does not tell them again."""
        self.listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._late: asyncio.TimerHandle | None = None
        self._late_uris: set[str] = set()
        self._indexing: set[Path] = set()

    # Documents

    def opened(self, item: types.TextDocumentItem) -> None:
        document = Document(
            item.uri, item.version, item.language_id, split_lines(item.text), self.workspace.position_codec, item.text
        )
        self.documents[item.uri] = document
        self._views.pop(item.uri, None)
        # A run may have ended since the last look at the folders, and a person opens its file at once.
        self.library.forget()
        for listener in self.listeners:
            listener.shown({item.uri}, "restored")

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self.documents.get(params.text_document.uri)
        if document is None:
            return
        view = self._views.get(document.uri)
        changed = False
        for change in params.content_changes:
            edit = document.apply(change)
            if document.uri in self.timed:
                self.timed[document.uri] = [timed for timed in self.timed[document.uri] if timed.follow(edit)]
            if view is not None:
                changed |= view.apply(edit) or any(is_marked(line) for line in (*edit.old, *edit.new))
        document.version = params.text_document.version
        self.benched.pop(document.uri, None)
        if view is not None and (changed or view.anchors.edited):
            self._settle(document.uri)

    def closed(self, uri: str) -> None:
        self.documents.pop(uri, None)
        self._views.pop(uri, None)
        self.timed.pop(uri, None)
        self.benched.pop(uri, None)
        self._late_uris.discard(uri)

    def _settle(self, uri: str) -> None:
        """When typing pauses: looks for lost rows again and tells the views that cannot ask (diagnostics, heat map)."""
        self._late_uris.add(uri)
        if self._late is not None:
            self._late.cancel()
        self._late = asyncio.get_running_loop().call_later(0.25, self._settled)

    def _settled(self) -> None:
        uris, self._late_uris = self._late_uris & set(self.documents), set()
        views = [view for uri in uris if (view := self._views.get(uri)) is not None]
        # Every one is asked: a client has its lenses of right after the edit, without the rows that were found just now.
        recovered = [view.recover() for view in views]
        if any(recovered):
            self.refresh()
        for listener in self.listeners:
            listener.edited(uris)

    def path_of(self, uri: str) -> str | None:
        return to_fs_path(uri) if uri.startswith("file:") else None

    def settings_of(self, path: Path | str | None) -> settings.Settings:
        """The settings of the workspace folder that holds a file."""
        folder = folder_of(Path(path) if path else None, self.places.folders)
        return self.folder_settings.get(folder, self.settings) if folder is not None else self.settings

    def storage_of(self, path: Path | None) -> Path:
        """Where runs of a file are kept. Raises :class:`~ridgeline.lsp.settings.SettingError`."""
        chosen = self.settings_of(path).storage.path
        if not chosen:
            return default_root()
        folder = folder_of(path, self.places.folders)
        named = settings.substitute(chosen, name="ridgeline.storage.path", file=None, folder=folder)
        return Path(named).expanduser().absolute()

    def view(self, uri: str) -> View | None:
        """The view of an open document, built when first asked for; ``None`` where no run has anything on it."""
        if uri not in self._views:
            document, path = self.documents.get(uri), self.path_of(uri)
            if document is None or path is None:
                return None
            self._views[uri] = build_view(document, path, document.text, self.library)
            self.index_missing()
        return self._views[uri]

    def run_of(self, uri: str | None) -> ShownRun | None:
        """The run that a request about a document (or about nothing) means."""
        if uri:
            view = self.view(uri)
            if view is not None:
                return view.run
            path = self.path_of(uri)
            if path is not None and (run := self.library.run_for(path)) is not None:
                return run
        return self.library.newest()

    # Changes of what is shown

    def show_again(self, uris: Iterable[str], reason: protocol.Reason, run: ShownRun | None) -> None:
        """Forgets the views of documents and has every feature show them anew."""
        changed = set(uris)
        for uri in changed:
            self._views.pop(uri, None)
        for listener in self.listeners:
            listener.shown(changed, reason)
        self.refresh()
        params = {"reason": reason, "run": run.wire() if run else None, "uris": sorted(changed)}
        self.tell(protocol.PROFILE_CHANGED, params)

    def refresh(self) -> None:
        """Asks clients that can to ask again."""
        if self.can.lens_refresh:
            self.workspace_code_lens_refresh(None)
        if self.can.hint_refresh:
            self.workspace_inlay_hint_refresh(None)

    def show_all_again(self, reason: protocol.Reason, run: ShownRun | None) -> None:
        self.library.forget()
        self.show_again(list(self.documents), reason, run)

    def index_missing(self) -> None:
        """Starts a child that indexes finished runs without an index; what they annotate is shown when it is done."""
        for folder in list(self.library.unindexed):
            if folder not in self._indexing and len(self._indexing) < 2:
                self._indexing.add(folder)
                self.spawn(self._index(folder))

    async def indexed(self) -> None:
        """Waits until the runs that are being indexed are; not for ever, and not where there is nothing to wait for."""
        self.library.newest()
        self.index_missing()
        deadline = asyncio.get_running_loop().time() + INDEX_PATIENCE_S
        while self._indexing and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)

    async def loaded(self, info: RunInfo) -> ShownRun | None:
        """The run, indexed first where it must be; ``None`` where that fails."""
        run = self.library.load(info)
        if run is None and info.folder.path in self.library.unindexed:
            await self._index(info.folder.path)
            run = self.library.load(info)
        return run

    async def _index(self, folder: Path) -> None:
        from ridgeline.lsp.running import run_child

        info = self.library.unindexed.pop(folder, None)
        status, output = await run_child("ridgeline.index", str(folder))
        self._indexing.discard(folder)
        if status != 0:
            lines = output.strip().splitlines()
            if info is not None:
                self.library.unreadable[folder] = info
            logger.warning("%s cannot be shown: %s", folder, lines[-1] if lines else f"status {status}")
            return
        run = self.library.load(info) if info is not None else None
        self.show_all_again("found", run)

    def tell(self, method: str, params: Any) -> None:
        """Sends a notification of our own (names and shapes in :mod:`ridgeline.lsp.protocol`)."""
        self.protocol.tell(method, params)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """A task that is not lost, and whose failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a background task failed", exc_info=task.exception())


class Listener:
    """A feature that speaks without being asked."""

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        """Another run (or none) is shown in these open documents, or they were just opened."""

    def edited(self, uris: set[str]) -> None:
        """Rows of these documents may have become stale, lost or fresh; typing has paused."""

    def compared(self, run: ShownRun) -> None:
        """What changed since the run before this one is known now."""
