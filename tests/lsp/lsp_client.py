"""A client that starts the server over standard input and output and remembers what it is told."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pytest_lsp import LanguageClient, make_test_lsp_client

from lsp_profiles import capabilities

OWN_NOTIFICATIONS = (
    "ridgeline/progress",
    "ridgeline/output",
    "ridgeline/profileChanged",
    "ridgeline/annotations",
    "ridgeline/tree",
)
VSCODE_WISHES = {
    "annotations": True,
    "tree": True,
    "output": True,
    "openTrace": True,
    "commands": [
        f"ridgeline.{name}"
        for name in (
            "goToLocations",
            "profileFile",
            "openTrace",
            "selectInterpreter",
            "rebuildAnalysis",
            "profileWith",
            "debugInfo",
            "openSettings",
        )
    ],
}


OFFERS = ("Profile this module", "Benchmark", "Verify autotune", "Open in Perfetto")


def as_json(value: Any) -> Any:
    """pygls gives unknown payloads as nested named tuples; back to what was on the wire."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: as_json(item) for key, item in value._asdict().items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return value


class Session:
    """One client and its server."""

    def __init__(self, profile: str, client: LanguageClient) -> None:
        self.profile = profile
        self.client = client
        self.told: dict[str, list[Any]] = defaultdict(list)
        self.refreshed: list[str] = []
        self._news = asyncio.Event()

    @classmethod
    async def start(
        cls,
        profile: str,
        folder: Path,
        *,
        store: Path,
        options: dict[str, Any] | None = None,
        configuration: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        others: dict[Path, dict[str, Any]] | None = None,
    ) -> Session:
        """``others``: more workspace folders, each with its own configuration."""
        client = make_test_lsp_client()
        session = cls(profile, client)
        session._listen()
        await client.start_io(
            sys.executable, "-m", "ridgeline.lsp", env={**os.environ, "RIDGELINE_RUN_DIR": str(store), **(env or {})}
        )
        wishes = {"client": VSCODE_WISHES} if profile == "vscode" else {}
        client.set_configuration(configuration or {}, section="ridgeline")
        for other, own in (others or {}).items():
            client.set_configuration(own, section="ridgeline", scope_uri=other.as_uri())
        folders = [folder, *(others or {})]
        await client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities(profile),
                process_id=os.getpid(),
                root_uri=folder.as_uri(),
                workspace_folders=[types.WorkspaceFolder(uri=one.as_uri(), name=one.name) for one in folders],
                initialization_options={**wishes, **(options or {})},
            )
        )
        return session

    def _listen(self) -> None:
        for method in OWN_NOTIFICATIONS:
            self._on(method)

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def lens_refresh(_: Any) -> None:
            self.refreshed.append("lens")

        @self.client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def hint_refresh(_: Any) -> None:
            self.refreshed.append("hint")

    def _on(self, method: str) -> None:
        @self.client.feature(method)
        def received(params: Any) -> None:
            self.told[method].append(as_json(params))
            self._news.set()

    async def until(self, condition: Callable[[], Any], seconds: float = 10.0, what: str = "") -> Any:
        """Waits until ``condition`` is true; fails with ``what`` when it does not become so."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (value := condition()):
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not in {seconds} s: {what or condition}")
            await asyncio.sleep(0.02)
        return value

    async def stop(self) -> None:
        await self.client.shutdown_session()

    # Shorthands

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        content = path.read_bytes().decode("utf-8") if text is None else text
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(
                types.TextDocumentItem(uri=uri, language_id="python", version=1, text=content)
            )
        )
        return uri

    def edit(self, uri: str, version: int, *changes: tuple[int, int, int, int, str]) -> None:
        """Changes as (line, character, end line, end character, text)."""
        events: list[types.TextDocumentContentChangeEvent] = [
            types.TextDocumentContentChangePartial(
                range=types.Range(types.Position(line, character), types.Position(end_line, end_character)), text=text
            )
            for line, character, end_line, end_character, text in changes
        ]
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version=version, uri=uri), events)
        )

    async def lenses(self, uri: str) -> dict[int, str]:
        """Line to title, of those that say something; what generated code offers to do is left out."""
        found = await self.client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
        titles = {lens.range.start.line: lens.command.title for lens in found or [] if lens.command}
        return {line: title for line, title in titles.items() if title not in OFFERS}

    async def request_lens(self, uri: str, line: int) -> Any:
        """The command of the lens on a line, as JSON."""
        found = await self.client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
        command = next(lens.command for lens in found or [] if lens.range.start.line == line)
        assert command is not None
        return {"command": command.command, "arguments": [as_json(argument) for argument in command.arguments or []]}

    async def hints(self, uri: str, first: int = 0, last: int = 10_000) -> dict[int, str]:
        wanted = types.Range(types.Position(first, 0), types.Position(last, 0))
        found = await self.client.text_document_inlay_hint_async(
            types.InlayHintParams(types.TextDocumentIdentifier(uri), wanted)
        )
        return {hint.position.line: str(hint.label) for hint in found or []}

    async def hover(self, uri: str, line: int, character: int = 0) -> str | None:
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        )
        return found.contents.value if found is not None else None  # type: ignore[union-attr]

    async def request(self, method: str, params: Any) -> Any:
        return as_json(await self.client.protocol.send_request_async(method, params))

    async def actions(
        self,
        uri: str,
        line: int,
        *,
        only: list[str] | None = None,
        diagnostics: list[types.Diagnostic] | None = None,
        where: types.Range | None = None,
    ) -> list[dict[str, Any]]:
        """Code actions as JSON: lsprotocol reads one that has a command as the command alone."""
        at = types.Position(line, 4)
        context = types.CodeActionContext(diagnostics=diagnostics or [], only=only)  # type: ignore[arg-type]
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where or types.Range(at, at), context)
        identity = f"actions-{uri}-{line}-{len(self.told)}-{id(params)}"
        answer = self.client.protocol.send_request(types.TEXT_DOCUMENT_CODE_ACTION, params, msg_id=identity)
        self.client.protocol._result_types[identity] = None
        return as_json(await asyncio.wrap_future(answer)) or []

    async def command(self, command: str, *arguments: Any) -> Any:
        return as_json(
            await self.client.workspace_execute_command_async(
                types.ExecuteCommandParams(command, arguments=list(arguments))
            )
        )
