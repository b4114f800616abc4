"""``ridgeline/profile``: one run from the request to its result, with its progress told to whoever listens."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ridgeline.lsp import protocol
from ridgeline.lsp.environment import with_analysis
from ridgeline.lsp.requests import RequestError, run_spec
from ridgeline.lsp.running import Runner
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.settings import SettingError
from ridgeline.lsp.store import ShownRun
from ridgeline.lsp.targets import typed
from ridgeline.runs.processes import unsupported
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import Store
from ridgeline.units import duration

Json = protocol.Json

OUTPUT_EVERY_S = 0.05

_INTERPRETER = ("Select Interpreter", "ridgeline.selectInterpreter")
_ANALYSIS = ("Rebuild Analysis Environment", "ridgeline.rebuildAnalysis")
_OTHERWISE = ("Profile With…", "ridgeline.profileWith")
_REPORT = ("Debug Information", "ridgeline.debugInfo")
_OPEN_SETTINGS = "ridgeline.openSettings"
BUTTONS: dict[str, tuple[str, ...]] = {
    "no-torch": _INTERPRETER,
    "wrong-interpreter": _INTERPRETER,
    "module-missing": _INTERPRETER,
    "start-failed": _INTERPRETER,
    "no-cuda": _INTERPRETER,
    "analysis-missing": _ANALYSIS,
    "analysis-failed": _ANALYSIS,
    "analysis-build": ("Open Settings", _OPEN_SETTINGS, "ridgeline.analysis"),
    # A smaller batch, other arguments, the module that does the work.
    "out-of-memory": _OTHERWISE,
    "nothing-recorded": _OTHERWISE,
    "bad-target": _OTHERWISE,
    "disk-full": ("Choose Another Place", _OPEN_SETTINGS, "ridgeline.storage.path"),
    "bad-setting": ("Open Settings", _OPEN_SETTINGS, "ridgeline.run"),
    "no-device-records": _REPORT,
    "agent-failed": _REPORT,
    "supervisor-lost": _REPORT,
}
"""A cause's button, the client command behind it and its arguments; offered where the client has the command."""


def refuse(code: str, message: str) -> JsonRpcException:
    return JsonRpcException(message=message, code=protocol.REQUEST_FAILED, data={"code": code})


def require_trust(server: RidgelineServer) -> None:
    if not server.trusted:
        raise refuse("untrusted", "ServerNotTrusted: this workspace is not trusted, so nothing is run in it")


async def profile(server: RidgelineServer, params: Json) -> Json:
    """Runs and analyses; the result says what came of it. Cancelling the request stops the run before it answers."""
    require_trust(server)
    if server.runner is not None:
        raise refuse("already-running", "a run is in progress; one at a time keeps the numbers honest")
    uri = params.get("uri")
    reporter = Reporter(server, params.get("workDoneToken"), str(uri) if uri else None)
    named = server.path_of(str(uri)) if uri else None
    path = Path(named) if named else None
    try:
        if (why := unsupported()) is not None:
            raise RequestError("unsupported", why)
        params = await with_analysis(server, typed(params), path, reporter.note)
        spec = run_spec(params, path, server.places.folders, server.settings_of(path))
        store = Store(server.storage_of(path))
    except SettingError as error:
        return _failed(server, reporter, RequestError("bad-setting", str(error)), 0.0, None)
    except RequestError as error:
        return _failed(server, reporter, error, 0.0, None)
    except asyncio.CancelledError:
        reporter.end("cancelled", "cancelled")
        raise
    runner = Runner(spec, store, str(uri) if uri else None, reporter.report, reporter.output)
    server.runner = runner
    reporter.begin(f"Profiling {spec.label() if spec.module else Path(spec.target).name}", runner)
    try:
        finished = await runner.run()
    except RequestError as error:
        return _failed(server, reporter, error, runner.elapsed, runner)
    except asyncio.CancelledError:
        reporter.end("cancelled", "cancelled")
        raise
    finally:
        server.runner = None
    return _concluded(server, reporter, runner, finished)


def _concluded(server: RidgelineServer, reporter: Reporter, runner: Runner, finished: Json) -> Json:
    assert runner.folder is not None
    run: ShownRun | None = None
    if finished.get("profile"):
        server.library.forget()
        run = server.library.find(runner.folder.id)
    state: protocol.State = "done" if run is not None else "failed"
    if runner.cancelled and run is None:
        state = "cancelled"
    cause = finished.get("cause") if run is None else doubt(run, runner.spec)
    message = summary(run) if run is not None else str((cause or {}).get("message") or "nothing was recorded")
    status = finished.get("exit_status")
    if run is not None and status and spec_continues(runner):
        message += f"; the program ended with status {status}"
    if runner.notes and run is not None:
        message += f"; {runner.notes[-1]}"
    if run is not None:
        server.announced.add(run.id)
        server.library.selected = None
        server.show_all_again("profiled", run)
    reporter.end(state, message)
    return {
        "state": state,
        "run": run.wire() if run else None,
        "exitStatus": status,
        "seconds": round(runner.elapsed, 3),
        "message": message,
        "cause": _cause(server, cause) if cause and state != "cancelled" else None,
        "log": str(runner.folder.log) if runner.folder.log.is_file() else None,
    }


def doubt(run: ShownRun, spec: RunSpec) -> Json | None:
    """What a person must know at once of a run that has a result: that the device itself was not seen."""
    for warning in (run.manifest.get("quality") or {}).get("warnings") or []:
        if warning["code"] == "no-device-records":
            hint = "in a container, mount the driver's libcupti and allow profiling; end nsys, ncu or dcgm"
            return {"code": warning["code"], "message": str(warning["message"]), "hint": hint}
    kinds = {device.get("kind") for device in run.manifest.get("devices") or []}
    if spec.device == "cuda" and "cuda" not in kinds:
        hint = "is torch built for CUDA, and does it see the device?"
        return {
            "code": "no-cuda",
            "message": "nothing ran on a CUDA device; what is shown is the processor's",
            "hint": hint,
        }
    return None


def spec_continues(runner: Runner) -> bool:
    """Whether the program's own end says something: with ``then: stop`` we ended it ourselves."""
    return runner.spec.then == "continue"


def summary(run: ShownRun) -> str:
    """``3 steps of 25.1 ms on NVIDIA H200``"""
    steps, step = run.steps, run.step_us
    device = f" on {run.device}" if run.device else ""
    if steps and step:
        return f"{steps} step{'s' if steps != 1 else ''} of {duration(step)}{device}"
    wall = (run.manifest.get("totals") or {}).get("wall_us")
    return f"{duration(wall)} recorded{device}" if wall else f"recorded{device}"


def _failed(
    server: RidgelineServer, reporter: Reporter, error: RequestError, seconds: float, runner: Runner | None
) -> Json:
    state: protocol.State = "cancelled" if error.code == "cancelled" else "failed"
    reporter.end(state, str(error))
    cause = {"code": error.code, "message": str(error), "hint": error.hint}
    log = runner.folder.log if runner is not None and runner.folder is not None else None
    return {
        "state": state,
        "run": None,
        "exitStatus": None,
        "seconds": round(seconds, 3),
        "message": str(error),
        "cause": _cause(server, cause) if state == "failed" else None,
        "log": str(log) if log is not None and log.is_file() else None,
    }


def _cause(server: RidgelineServer, cause: Json) -> protocol.Cause:
    title, command, *arguments = BUTTONS.get(str(cause.get("code")), ("", ""))
    actions: list[protocol.CauseAction] = []
    if command in server.wishes.commands:
        actions.append({"title": title, "command": command, "arguments": arguments})
    return {
        "code": str(cause.get("code")),
        "message": str(cause.get("message")),
        "hint": cause.get("hint"),
        "actions": actions,
    }


class Reporter:
    """Tells progress to our own client, and to any client by work-done progress."""

    def __init__(self, server: RidgelineServer, token: types.ProgressToken | None, uri: str | None) -> None:
        self.server = server
        self.token = token
        self.uri = uri
        self._begun = False
        self._last: protocol.Progress | None = None
        self._pieces: list[tuple[str, str, str]] = []
        self._flush: asyncio.TimerHandle | None = None

    def begin(self, title: str, runner: Runner) -> None:
        if self.token is None:
            return
        begin = types.WorkDoneProgressBegin(title=title, cancellable=True, message="starting")
        self.server.work_done_progress.begin(self.token, begin)
        self._begun = True
        # Fires on `window/workDoneProgress/cancel`: pygls cancels the token's future.
        cancelled = self.server.work_done_progress.tokens[self.token]
        cancelled.add_done_callback(lambda future: runner.cancel() if future.cancelled() else None)

    def note(self, message: str) -> None:
        """What happens before there is a run: the analysis environment is built."""
        self.report(
            {
                "run": None,
                "uri": self.uri,
                "state": "running",
                "phase": "environment",
                "message": message,
                "step": None,
                "steps": None,
                "elapsedSeconds": 0.0,
                "percentage": None,
            }
        )

    def report(self, progress: protocol.Progress) -> None:
        self._last = progress
        self.server.tell(protocol.PROGRESS, progress)
        if self._begun and self.token is not None:
            report = types.WorkDoneProgressReport(message=progress["message"], percentage=progress["percentage"])
            self.server.work_done_progress.report(self.token, report)

    def output(self, run: str, stream: str, text: str) -> None:
        """Pieces are gathered for a moment: an unbuffered program may write a thousand of them a second."""
        if self._pieces and self._pieces[-1][:2] == (run, stream):
            text = self._pieces.pop()[2] + text
        self._pieces.append((run, stream, text))
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(OUTPUT_EVERY_S, self.flush)

    def flush(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        pieces, self._pieces = self._pieces, []
        for run, stream, text in pieces:
            if self.server.wishes.output:
                self.server.tell(protocol.OUTPUT, {"run": run, "stream": stream, "text": text})
            else:
                message = types.LogMessageParams(type=types.MessageType.Log, message=text.rstrip("\n"))
                self.server.window_log_message(message)

    def end(self, state: protocol.State, message: str) -> None:
        self.flush()
        last = self._last
        final: protocol.Progress = {
            "run": last["run"] if last else None,
            "uri": last["uri"] if last else None,
            "state": state,
            "phase": state,
            "message": message,
            "step": last["step"] if last else None,
            "steps": last["steps"] if last else None,
            "elapsedSeconds": last["elapsedSeconds"] if last else 0.0,
            "percentage": None,
        }
        self.server.tell(protocol.PROGRESS, final)
        if self._begun and self.token is not None:
            self.server.work_done_progress.end(self.token, types.WorkDoneProgressEnd(message=message))
            self.server.work_done_progress.tokens.pop(self.token, None)
