"""The environment in which traces are analysed: one that is named, one that has the packages already, else one built once.

It is never the program's own, unless Ridgeline is installed there: its packages must not meet the user's. The packages come
from a package index, or from a folder of wheels (``ridgeline.analysis.wheelhouse``).
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import ridgeline
from ridgeline.lsp import protocol
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.requests import ANALYSIS_NEEDS, RequestError, Where, inherited_environment, interpreter
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.settings import SettingError, Settings

Json = protocol.Json
Report = Callable[[str], None]

REQUIREMENTS = Path(ridgeline.__file__).resolve().parents[2] / "requirements-analysis.txt"
"""Where the editor's extension carries them; a Ridgeline that pip installed has the packages themselves."""
READY = "ridgeline-ready"
"""Written last: an environment without it was interrupted while it was built."""
BUILD_TIMEOUT_S = 900.0
PROBE_TIMEOUT_S = 60.0
PROBE = f"""
import json, sys
from importlib.util import find_spec
print(json.dumps([list(sys.version_info[:2]), all(find_spec(name) for name in {("ridgeline", *ANALYSIS_NEEDS)!r})]))
"""
_WORTH_TELLING = re.compile(r"^(Collecting|Downloading|Installing)")


def root() -> Path:
    """``ridgeline/analysis`` in the user's state folder, shared by all editors."""
    import platformdirs

    return Path(platformdirs.user_state_dir("ridgeline", appauthor=False)) / "analysis"


@dataclass
class Builder:
    """One build. It is what runs while it runs, so that it is cancelled as a program is."""

    report: Report
    cancelled: bool = False
    _process: asyncio.subprocess.Process | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def build(self, base: str, version: list[int], wheelhouse: Path | None) -> str:
        """The interpreter of the environment. Raises :class:`RequestError` with the reason where it cannot be built."""
        try:
            wanted = REQUIREMENTS.read_text(encoding="utf-8")
        except OSError as error:
            needs = f"the analysis needs {' and '.join(ANALYSIS_NEEDS)}"
            raise RequestError(
                "analysis-missing", needs, "set ridgeline.analysis.python to an interpreter that has them"
            ) from error
        key = hashlib.sha256(f"{version}\n{wanted}".encode()).hexdigest()[:12]
        folder = root() / key
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if (folder / READY).exists() and python.exists():
            return str(python)
        self.report("building the analysis environment (once)")
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            await self._step("create a virtual environment", base, "-I", "-m", "venv", str(folder))
            source = ["--no-index", "--find-links", str(wheelhouse)] if wheelhouse is not None else []
            pip = [
                "-I",
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "--no-input",
                "--prefer-binary",
                *source,
            ]
            await self._step("install the analysis packages", str(python), *pip, "-r", str(REQUIREMENTS))
            (folder / READY).touch()
        except OSError as error:
            raise RequestError("disk-full" if error.errno == 28 else "analysis-build", str(error)) from error
        finally:
            self._over.set()
        return str(python)

    async def _step(self, what: str, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=root(),
            env=inherited_environment(),
            start_new_session=True,
        )
        self._process = process
        try:
            said = await asyncio.wait_for(self._follow(process), BUILD_TIMEOUT_S)
        except asyncio.TimeoutError:
            said = f"it was not done after {BUILD_TIMEOUT_S / 60:.0f} minutes"
        finally:
            self._kill()
            status = await process.wait()
        if self.cancelled:
            raise RequestError("cancelled", "cancelled")
        if status != 0:
            hint = "name an environment or a folder of wheels in the settings"
            raise RequestError("analysis-build", f"could not {what}: {said or f'status {status}'}", hint)

    async def _follow(self, process: asyncio.subprocess.Process) -> str:
        """The last line that it says; what pip is at is told meanwhile."""
        assert process.stdout is not None
        last = ""
        async for data in process.stdout:
            line = data.decode("utf-8", "replace").strip()
            if _WORTH_TELLING.match(line):
                self.report(line[:80])
            if line and not line.startswith("[notice]"):
                last = line
        await process.wait()
        return last

    def cancel(self) -> None:
        self.cancelled = True
        self._kill()

    async def over(self) -> None:
        await self._over.wait()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return


async def with_analysis(server: RidgelineServer, params: Json, path: Path | None, report: Report) -> Json:
    """The request with the interpreter of its analysis, built where there is none. Raises :class:`RequestError`.

    Only for what runs code in a trusted workspace: it may start the interpreter that the workspace names.
    """
    settings = server.settings_of(path)
    named = params.get("analysisPython") or settings.analysis.python
    if named or all(importlib.util.find_spec(name) is not None for name in ANALYSIS_NEEDS):
        return params
    where = Where(path, folder_of(path, server.places.folders))
    base = str(interpreter(params, settings, where))
    version, has_all = await _probe(base)
    if has_all:
        return {**params, "analysisPython": base}
    builder, free = Builder(report), server.runner is None
    if free:
        server.runner = builder
    try:
        return {**params, "analysisPython": await builder.build(base, version, _wheelhouse(settings, where))}
    except asyncio.CancelledError:
        builder.cancel()
        raise
    finally:
        if free:
            server.runner = None


def _wheelhouse(settings: Settings, where: Where) -> Path | None:
    named = settings.analysis.wheelhouse
    try:
        return where.path(named, "ridgeline.analysis.wheelhouse") if named else None
    except SettingError as error:
        raise RequestError("bad-setting", str(error)) from error


async def _probe(python: str) -> tuple[list[int], bool]:
    """The version of an interpreter, and whether Ridgeline and the packages of its analysis are installed there."""
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-I",
            "-c",
            PROBE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=inherited_environment(),
        )
        output, _ = await asyncio.wait_for(process.communicate(), PROBE_TIMEOUT_S)
        version, has_all = json.loads(output)
        return list(version), bool(has_all)
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        raise RequestError("wrong-interpreter", f"{python} does not run Python code: {error}") from error


def forget() -> None:
    """Removes what was built, so that the next use builds it afresh."""
    shutil.rmtree(root(), ignore_errors=True)
