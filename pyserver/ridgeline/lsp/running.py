"""The one run at a time that the server looks after: its supervisor's events, cancel, and what came of it.

The supervisor (:mod:`ridgeline.runs`) owns the program's process tree. It reads ``cancel`` from its standard input and
takes the end of that pipe for our death, so that no process outlives this one, however it ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ridgeline.lsp import protocol
from ridgeline.lsp.requests import RequestError, inherited_environment
from ridgeline.lsp.store import own_python
from ridgeline.runs import launch
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.spec import RunSpec, SpecError
from ridgeline.runs.store import Store

Json = dict[str, Any]
logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 22
"""Longest event in bytes: program output comes in pieces of 64 KiB, which JSON may make six times as long."""
STOP_PATIENCE_S = 10.0
"""After this the supervisor itself is killed; its tree dies with it (parent-death signals and its lifeline)."""
REPORT_EVERY_S = 0.1

WORDS = {
    "starting": "starting",
    "importing": "importing",
    "compiling": "compiling",
    "warming_up": "warming up",
    "recording": "recording",
    "saving": "saving the recording",
    "published": "recorded",
    "running": "running",
    "analyzing": "analyzing",
    "stopping": "stopping",
    "done": "finishing",
}


async def run_child(module: str, *arguments: str, timeout_s: float = 120.0, keep: int = 4000) -> tuple[int, str]:
    """Runs one of our own modules in a child and returns its status and the last ``keep`` bytes of what it said.

    It is killed when this is cancelled or takes too long.
    """
    process = await asyncio.create_subprocess_exec(
        *own_python(module, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, output[-keep:].decode("utf-8", "replace")


@dataclass
class Runner:
    """Starts a run and follows it. ``report`` gets ``ridgeline/progress`` payloads, ``output`` (stream, text)."""

    spec: RunSpec
    store: Store
    uri: str | None
    report: Callable[[protocol.Progress], None]
    output: Callable[[str, str, str], None]
    folder: RunFolder | None = None
    cancelled: bool = False
    _process: asyncio.subprocess.Process | None = None
    _started: float = field(default_factory=time.monotonic)
    _reported: float = 0.0
    _notes: list[str] = field(default_factory=list)
    _finished: Json | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    async def run(self) -> Json:
        """The supervisor's last event (``finished``), when nothing of the run is left.

        Raises :class:`RequestError` when it could not be started. Cancelling this coroutine stops the run first.
        """
        try:
            return await self._run()
        finally:
            self._over.set()

    async def _run(self) -> Json:
        self._say("running", "starting", None, None)
        try:
            self.spec.check()
            # The folder appears when the supervisor is about to start: a bad request leaves no empty run behind.
            self.folder = self.store.create(self.spec)
            command = launch.supervisor_command(launch.write_spec(self.spec, self.folder))
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=inherited_environment(),
                start_new_session=True,
                limit=LINE_LIMIT,
            )
        except SpecError as error:
            raise RequestError("bad-target", str(error)) from error
        except OSError as error:
            raise RequestError(
                "start-failed", str(error), "check that the disk has space and can be written to"
            ) from error
        process = self._process
        errors = asyncio.ensure_future(self._drain_errors(process))
        try:
            if self.cancelled:
                self.cancel()
            await self._follow(process)
        except asyncio.CancelledError:
            await self._stop(process)
            raise
        finally:
            if process.returncode is None:
                await self._stop(process)
            said = await errors
        if self._finished is None:
            lines = [line for line in said.splitlines() if line.strip()]
            raise RequestError(
                "supervisor-lost",
                f"the run's supervisor ended unexpectedly: {lines[-1] if lines else 'it said nothing'}",
            )
        return self._finished

    def cancel(self) -> None:
        """Asks the supervisor to stop everything; :meth:`run` returns when that is done."""
        self.cancelled = True
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(b"cancel\n")

    async def over(self) -> None:
        """Returns when :meth:`run` has."""
        await self._over.wait()

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            try:
                event = json.loads(line)
            except ValueError:
                logger.warning("not an event: %r", line[:200])
                continue
            self._on_event(event)
            if self._finished is not None:
                break
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.wait_for(process.wait(), STOP_PATIENCE_S)

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        self.cancel()
        try:
            await asyncio.wait_for(self._follow(process), STOP_PATIENCE_S)
        except (asyncio.TimeoutError, ValueError, OSError):
            logger.error("the supervisor did not stop in %s s and is killed", STOP_PATIENCE_S)
        if process.returncode is None:
            process.kill()
            await process.wait()

    async def _drain_errors(self, process: asyncio.subprocess.Process) -> str:
        assert process.stderr is not None
        kept = b""
        while data := await process.stderr.read(1 << 16):
            kept = (kept + data)[-8000:]
        return kept.decode("utf-8", "replace")

    # Events

    def _on_event(self, event: Json) -> None:
        kind = event.get("event")
        if kind == "progress":
            self._on_progress(event)
        elif kind == "output":
            self.output(self.folder.id if self.folder else "", str(event.get("stream")), str(event.get("text")))
        elif kind == "note":
            self._notes.append(str(event.get("message")))
        elif kind == "captured":
            self._say("running", "published", None, None)
        elif kind == "finished":
            self._finished = event

    @property
    def notes(self) -> list[str]:
        """What the supervisor thought a person should know."""
        return self._notes

    def _on_progress(self, event: Json) -> None:
        step = event.get("step")
        now = time.monotonic()
        # Steps may come by the hundred a second; other phases are always worth a word.
        if event.get("phase") in ("recording", "warming_up") and now - self._reported < REPORT_EVERY_S:
            return
        self._reported = now
        self._say("running", str(event.get("phase")), event.get("message"), step if isinstance(step, int) else None)

    def _say(self, state: protocol.State, phase: str, message: str | None, step: int | None) -> None:
        steps = self.spec.steps if phase == "recording" else None
        words = WORDS.get(phase, phase)
        if step is not None and phase == "recording":
            words += f" step {step}" + (f" of {steps}" if steps else "")
        elif message and phase not in ("starting",):
            words += f": {message}"
        self.report(
            {
                "run": self.folder.id if self.folder else None,
                "uri": self.uri,
                "state": state,
                "phase": phase,
                "message": words,
                "step": step,
                "steps": steps,
                "elapsedSeconds": round(self.elapsed, 3),
                "percentage": min(100, round(100 * step / steps)) if step is not None and steps else None,
            }
        )
