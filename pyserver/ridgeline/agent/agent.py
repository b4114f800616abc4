"""Wires the parts together in one process: what is hooked when, and what is written at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from . import kernels, machine, markers, publish
from .compiles import CompileWatch
from .exits import Exits
from .hooks import PostImport
from .inductor import InductorCapture
from .labels import Scopes
from .loaders import Loaders
from .mainthread import MainThread
from .notes import CompileNotes
from .paths import UserFiles
from .recorder import Recorder, Take
from .runfolder import RunFolder
from .spec import Spec
from .timeline import Recorded, Timeline, create
from .userprof import UserProfiler
from .watch import Watch


class StopProgram(SystemExit):
    """Raised in the program's main thread once the result is on disk and ``then`` is ``stop``."""


class Agent:
    """One a process. ``arm`` before the program runs, ``main_ended`` after its main module."""

    def __init__(self, spec: Spec, main: str, first_path: str) -> None:
        self.spec = spec
        self.main = main
        self.main_module: ModuleType | None = None
        self.started_ns = time.time_ns()
        self.imported_torch_ns: int | None = None
        self.exit_status: int | None = None
        self.errors: list[str] = []
        self.notes: list[str] = []
        self.folder = RunFolder(spec.run_dir, spec.progress_fd)
        self.users = UserFiles(spec.user_roots, [first_path, os.getcwd()])
        self.timeline: Timeline | None = create(self.users) if spec.lines else None
        self.torch: Any = None
        self.recorder: Recorder | None = None
        self.capture = InductorCapture(self.users, self._mark, self.complain)
        self.compile_notes = CompileNotes(self.users, self.complain)
        self.compiles = CompileWatch(self._compile_started, self._compile_ended)
        self.scopes = Scopes()
        self.loaders = Loaders(self.users, self._mark, spec.lengths)
        self._labels: list[list[Any]] = []
        self.user_profiler: UserProfiler | None = None
        self.main_thread = MainThread(self.complain)
        self.imports = PostImport(self.complain)
        self.exits = Exits(self._finish)
        self._windows: list[dict[str, Any]] = []
        self._lines: Recorded | None = None
        self._timeline_row: dict[str, Any] | None = None
        self._packer: threading.Thread | None = None
        self._stopping = False

    # ------------------------------------------------------------------ arming
    def arm(self) -> None:
        """Hook what will be imported; import nothing of torch's."""
        self.folder.progress("starting", f"{self.main}")
        self.exits.install()
        if self.timeline is not None:
            self.timeline.prepare()
        when = self.imports.when
        when("torch", self._on_torch)
        when("torch._inductor.config", self.capture.on_config)
        when("torch._inductor.output_code", self.capture.on_output_code)
        when("torch._inductor.codecache", self.capture.on_codecache)
        when("torch.utils.data.dataloader", self.loaders.on_dataloader)
        when("torch._dynamo.callback", self.compiles.on_callback)
        when("torch._dynamo.symbolic_convert", self.compile_notes.on_symbolic_convert)
        when("torch._dynamo.convert_frame", self.compile_notes.on_convert_frame)
        when("torch._inductor.cudagraph_utils", self.compile_notes.on_cudagraph_utils)
        when("torch._dynamo.eval_frame", self._skip_own_code)
        self.imports.install()
        self.folder.progress("importing")

    def _on_torch(self, torch: ModuleType) -> None:
        self.torch = torch
        self.imported_torch_ns = time.time_ns()
        self.scopes.install(torch)
        recorder = Recorder(
            torch, self.spec, self.timeline, self.scopes, self._publish, self.folder.progress, self.complain
        )
        self.recorder = recorder
        self.user_profiler = UserProfiler(recorder, self.folder, self.timeline, self.scopes, self.complain)
        self.user_profiler.install(torch)
        markers.on_optimizer(torch, self._mark)
        self.imports.when("torch.profiler.profiler", lambda module: markers.on_profiler_module(module, self._mark_step))
        if self.spec.device != "cpu" and hasattr(torch, "cuda"):
            torch.cuda._lazy_call(self._on_cuda)
        if self._must_wait_for_cuda():
            recorder.defer()
        else:
            recorder.begin()
        Watch(recorder, self.main_thread, self.spec.after).start()

    def _must_wait_for_cuda(self) -> bool:
        """Where a GPU is present, any profiler session asks the driver for its devices, and after that a forked child
        cannot use CUDA. So nothing is started before the program itself has initialized it, or shows steps without it.
        """
        torch = self.torch
        gpu_build = bool(getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None))
        present = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")
        return gpu_build and present and not torch.cuda.is_initialized()

    def _on_cuda(self) -> None:
        """CUDA was initialized by the program. (The agent never does: it would break a later fork.)"""
        if self.recorder is not None:
            self.recorder.devices_appeared()

    def _skip_own_code(self, eval_frame: Any) -> None:
        """Dynamo would trace the agent's hooks otherwise, for they run inside compiled regions."""

        def skip(code: CodeType) -> None:
            eval_frame.skip_code(code)
            for constant in code.co_consts:
                if isinstance(constant, CodeType):
                    skip(constant)

        package = __name__.rpartition(".")[0] + "."
        for name, module in list(sys.modules.items()):
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            if name.startswith(package) and hasattr(loader, "get_code"):
                for code in _functions_of(module):
                    skip(code)

    # ------------------------------------------------------------------ events
    def complain(self, what: str, error: BaseException | str) -> None:
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        if len(self.errors) < 50:
            self.errors.append(f"{what}: {text}")

    def _mark(self, kind: str, key: Any) -> None:
        recorder = self.recorder
        if recorder is None:
            return
        recorder.mark(kind, key)
        if self._stopping and threading.current_thread() is threading.main_thread():
            self._stopping = False
            raise StopProgram(0)

    def _mark_step(self, kind: str, key: Any) -> None:
        if self.user_profiler is not None:
            self.user_profiler.step_marked()
        self._mark(kind, key)

    def _compile_started(self) -> None:
        if self.recorder is not None:
            self.recorder.compile_started()

    def _compile_ended(self) -> None:
        if self.recorder is not None:
            self.recorder.compile_ended()

    def stopped_by_us(self, error: BaseException) -> bool:
        return isinstance(error, StopProgram)

    def main_ended(self, error: BaseException | None) -> None:
        """The main module has run to its end, or ``error`` leaves it. Threads of the program may go on."""
        self.exit_status = _status_of(error)
        others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
        if self.recorder is not None and not others:
            self.recorder.stop()

    # ------------------------------------------------------------------ results
    def _publish(self, take: Take) -> None:
        """The window is closed: write it. Kineto's part here and now, the rest beside the program."""
        self.exits.busy = True
        self.folder.progress("saving")
        raw = publish.save_raw(self.folder, take, 0)
        self._packer = threading.Thread(target=self._pack, args=(take, raw), name="ridgeline-pack", daemon=True)
        self._packer.start()
        if self.spec.then == "stop":
            self._packer.join()
            self._stopping = True

    def _pack(self, take: Take, raw: str) -> None:
        try:
            self._add_window(take.window, raw, take.lines, take.labels)
            self._write_sidecar()
            publish.mark_captured(self.folder, self._windows)
            self.folder.progress("published")
            if self.spec.then == "continue" and self.exit_status is None:
                self.folder.progress("running")
        except OSError as error:
            self.complain("writing the result", error)
        finally:
            self.exits.busy = False

    def _add_window(self, window: dict[str, Any], raw: str, lines: Recorded | None, labels: list[list[Any]]) -> None:
        """Put a trace in place and take its lines and labels in; the sidecar is written afterwards."""
        window["trace"] = publish.pack(self.folder, raw, len(self._windows))
        self._windows.append(window)
        self._labels.extend(labels)
        if lines is None or not lines.threads:
            return
        if self._lines is None:
            self._lines = lines
        else:
            self._lines.merge(lines)
        self._timeline_row = publish.write_timeline(self.folder, self._lines)
        for file in lines.files():
            self.folder.snapshot(file, "user")

    def _user_windows(self) -> int:
        return len(self.user_profiler.sessions) if self.user_profiler is not None else 0

    def _harvest_notes(self) -> list[str]:
        own = len(self._windows)
        added = self._harvest()
        if not added:
            return []
        publish.mark_captured(self.folder, self._windows)
        text = f"the program ran torch's profiler itself: {added} of its windows were taken over"
        return [f"{text} beside ours" if own else text]

    def _harvest(self) -> int:
        """Add what the program recorded with torch's profiler itself; how many windows that is."""
        if self.user_profiler is None:
            return 0
        self.user_profiler.save_pending()
        added = 0
        for session in self.user_profiler.sessions:
            if session.raw is not None:
                self._add_window(session.window(), session.raw, session.lines, session.labels)
                added += 1
        return added

    def _finish(self, how: str, status: int | None) -> None:
        """Once, at the end of the process, however it ends."""
        if status is not None:
            self.exit_status = status
        recorder = self.recorder
        if recorder is not None:
            recorder.stop()
            take = recorder.best()
            if self._packer is None and take is not None and (take.order == 0 or not self._user_windows()):
                self.notes.append(_why_not_steady(recorder, how))
                recorder.publish_best()
            if self._packer is not None:
                self._packer.join()
        self.notes += self._harvest_notes()
        try:
            self._write_sidecar(ended=True)
        except OSError as error:
            self.folder.progress("failed", f"the run folder cannot be written: {error}")
            return
        if self._windows:
            self.folder.progress("done", how)
        else:
            self.folder.progress("failed", self._why_nothing(how))

    def _why_nothing(self, how: str) -> str:
        if self.torch is None:
            return f"the program ended ({how}) without importing torch"
        return f"nothing was recorded before the program ended ({how})"

    def _write_sidecar(self, ended: bool = False) -> None:
        graphs = self.capture.rows()
        self._snapshot_sources(graphs)
        torch, recorder = self.torch, self.recorder
        rank, world = machine.rank()
        document: dict[str, Any] = {
            "schema": 1,
            "torch": None if torch is None else str(torch.__version__),
            "python": sys.version.split()[0],
            "pid": os.getpid(),
            "rank": rank,
            "world_size": world,
            "argv": list(sys.argv),
            "cwd": os.getcwd(),
            "main": self.main,
            "user_roots": self.users.roots,
            "windows": self._windows,
            "plain_steps_ns": [] if recorder is None else recorder.times.plain,
            "profiled_steps_ns": [] if recorder is None else recorder.times.profiled,
            "compiles": self.compiles.rows,
            "graphs": graphs,
            "timeline": self._timeline_row,
            "files": self.folder.snapshots(),
            "compile_notes": self.compile_notes.rows,
            "loaders": self.loaders.rows(self._windows),
            "labels": self._labels,
            "lengths": self.loaders.lengths,
            "padded_to": self.loaders.padded_to,
            "devices": [] if torch is None else machine.devices(torch, self.spec.device),
            "cpu": {} if torch is None else machine.cpu(torch),
            "settings": {} if torch is None else machine.settings(torch),
            "exit_status": self.exit_status if ended else None,
            "imported_torch_ns": self.imported_torch_ns,
            "started_ns": self.started_ns,
            "ended_ns": time.time_ns() if ended else None,
            "notes": self.notes + ([] if recorder is None else recorder.notes),
            "errors": self.errors,
        }
        if self.timeline is not None and self.timeline.blocked:
            document["notes"].append(self.timeline.blocked)
        self.folder.write_json("sidecar.json", document)

    def _snapshot_sources(self, graphs: list[dict[str, Any]]) -> None:
        if os.path.isabs(self.main):
            self.folder.snapshot(self.main, "user")
        for path, source in list(self.capture.sources.items()):
            self.folder.keep(path, source.encode(), "generated")
        for path in publish.kernel_files(self.capture.sources.values()):
            self.folder.snapshot(path, "generated")
        try:
            kernels.keep(self.folder)
        except Exception as error:  # noqa: BLE001 - private attributes of torch and Triton
            self.complain("copy of cubins", error)
        for path in publish.stack_files(graphs):
            self.folder.snapshot(path, "user" if self.users(path) else "library")


def _functions_of(module: ModuleType) -> list[CodeType]:
    """Code of the functions and methods that a module defines."""
    found: list[CodeType] = []

    def visit(holder: Any) -> None:
        for value in list(vars(holder).values()):
            function: Callable[..., Any] | None = getattr(value, "fget", None) or getattr(value, "__func__", value)
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType) and getattr(function, "__module__", None) == module.__name__:
                found.append(code)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                visit(value)

    visit(module)
    return found


def _status_of(error: BaseException | None) -> int:
    """The exit status that Python gives for what leaves the main module."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code & 0xFF if isinstance(error.code, int) else 1
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _why_not_steady(recorder: Recorder, how: str) -> str:
    take = recorder.best()
    if take is None:
        return ""
    steps = len(take.window["steps"])
    if take.window["reason"] == "whole":
        return (
            f"the program ended ({how}) before it had settled: what was recorded from the import of torch on is shown, "
            f"{steps} whole steps"
            if steps
            else f"the program ended ({how}) before it had two steps: all of it after the import of torch is shown"
        )
    return f"the program ended ({how}) before its window was full: {steps} steps were recorded"
