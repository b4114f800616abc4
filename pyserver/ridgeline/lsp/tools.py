"""Parts of the command line as child processes: what needs numpy runs in the analysis's interpreter, never here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types

import ridgeline
from ridgeline.lsp.environment import with_analysis
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.requests import ANALYSIS_BOOT, RequestError, Where, analysis_command, inherited_environment
from ridgeline.lsp.server import RidgelineServer

Json = dict[str, Any]
STOP_PATIENCE_S = 3.0
LINE_LIMIT = 1 << 26


async def cli_command(server: RidgelineServer, params: Json, *arguments: str) -> list[str]:
    """``ridgeline …`` in the interpreter that analyses, built where there is none. Raises :class:`RequestError`."""
    file = server.path_of(str(params["uri"])) if params.get("uri") else None
    path = Path(file) if file else None
    params = await with_analysis(server, params, path, lambda message: _tell(server, message))
    where = Where(path, folder_of(path, server.places.folders))
    python = analysis_command(params, server.settings_of(path), where)[0]
    package = str(Path(ridgeline.__file__).resolve().parent.parent)
    boot = ANALYSIS_BOOT.format(folder=package).replace("ridgeline.analysis", "ridgeline.cli")
    return [python, "-c", boot, *arguments]


def _tell(server: RidgelineServer, message: str) -> None:
    server.window_log_message(types.LogMessageParams(types.MessageType.Info, message))


@dataclass
class Tool:
    """One child in a session of its own; it ends with us, for it reads the end of its standard input."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    """Laid over what it inherits."""
    cancelled: bool = False
    said: str = ""
    """The end of its standard error, once it is over."""
    url: str | None = None
    """Of what it serves."""
    _process: asyncio.subprocess.Process | None = None
    _errors: asyncio.Task[bytes] | None = None
    _started: float = field(default_factory=time.monotonic)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    async def start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**inherited_environment(), **self.environment},
                start_new_session=True,
                limit=LINE_LIMIT,
            )
        except OSError as error:
            raise RequestError("start-failed", f"cannot start {self.command[0]}: {error.strerror or error}") from error
        assert self._process.stderr is not None
        self._errors = asyncio.ensure_future(self._process.stderr.read())

    async def lines(self) -> AsyncIterator[Json]:
        """JSON lines of its standard output; others are passed over."""
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value

    async def output(self) -> bytes:
        """All of its standard output, at its end."""
        assert self._process is not None
        assert self._process.stdout is not None
        return await self._process.stdout.read()

    async def finish(self) -> int:
        """Its exit status, when it and its group are gone."""
        assert self._process is not None
        assert self._errors is not None
        status = await self._process.wait()
        self.said = (await self._errors)[-4000:].decode("utf-8", "replace")
        self._signal(signal.SIGKILL)
        self._over.set()
        return status

    def cancel(self) -> None:
        self.cancelled = True
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGINT)
            asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._kill)

    async def over(self) -> None:
        await self._over.wait()

    def tell(self, message: Json) -> None:
        """One JSON line to its standard input."""
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Ends it by the end of its standard input."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """To its whole group, which is its own: it was started as a session leader."""
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
