"""Wires the parts together in one process: what is hooked when, and what is written at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import ModuleType
from typing import Any

from . import crash, detaching, kernels, machine, markers, publish
from .compiles import CompileWatch
from .exits import Exits, status_of
from .hooks import PostImport
from .inductor import InductorCapture
from .kineto import announce
from .labels import Scopes
from .lengths import Lengths
from .loaders import Loaders
from .mainthread import MainThread
from .notes import CompileNotes
from .paths import UserFiles
from .recorder import Recorder
from .result import Result, why_not_steady, why_nothing
from .runfolder import RunFolder
from .skip import skip_own_code
from .spec import Spec
from .take import Take
from .timeline import Timeline, create
from .triton_calls import TritonCalls
from .userprof import UserProfiler
from .watch import Watch

CURRENT: Agent | None = None
"""The agent that this process runs under; None where ``ridgeline.window`` alone is used."""


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
        self.raised: BaseException | None = None
        """What left the main module."""
        self.errors: list[str] = []
        self.notes: list[str] = []
        self.folder = RunFolder(spec.run_dir, spec.progress_fd)
        self.cwd = os.getcwd()
        """At the start: the program may leave its folder, or delete the one that it is in."""
        self.users = UserFiles(spec.user_roots, [first_path, self.cwd])
        self.timeline: Timeline | None = create(self.users) if spec.lines else None
        self.torch: Any = None
        self.recorder: Recorder | None = None
        self.capture = InductorCapture(self.users, self._mark, self.complain)
        self.compile_notes = CompileNotes(self.users, self.complain)
        self.compiles = CompileWatch(self._compile_started, self._compile_ended)
        self.scopes = Scopes()
        self.lengths = Lengths(spec.lengths, self.users, self._state, self.complain)
        self.loaders = Loaders(self.users, self._mark, self.lengths.batch, self._state)
        self.triton_calls = TritonCalls(self.complain)
        self.user_profiler: UserProfiler | None = None
        self.main_thread = MainThread(self.complain)
        self.imports = PostImport(self.complain)
        self.exits = Exits(self._finish)
        self.result = Result(self.folder, self.started_ns)
        self._packer: threading.Thread | None = None
        self._saved = 0
        self._stopping = False
        self._stopped: set[int] = set()
        self.standing = False

    # ------------------------------------------------------------------ arming
    def arm(self) -> None:
        """Hook what will be imported; import nothing of torch's."""
        global CURRENT
        CURRENT = self
        self.folder.progress("starting", f"{self.main}")
        crash.keep_frames(self.folder.path)
        self.exits.install()
        if self.timeline is not None:
            self.timeline.prepare()
        os.register_at_fork(after_in_child=self._in_child)
        self._hook_imports()
        self.imports.when("torch", self._on_torch)
        self.folder.progress("importing")

    def arm_standing(self, torch: ModuleType) -> None:
        """For windows by hand: hook what is imported and will be, record nothing by ourselves, leave exits alone."""
        self.standing = True
        self._hook_imports()
        self._make_recorder(torch)
        self.capture.adopt_loaded()

    def renew(self, spec: Spec) -> None:
        """Another window by hand: a new folder, with what the hooks have learnt."""
        self.spec = spec
        self.folder = RunFolder(spec.run_dir)
        self.timeline = create(self.users) if spec.lines else None
        self.result, self._packer = Result(self.folder, self.started_ns), None
        if self.recorder is not None:
            self.recorder.spec, self.recorder.timeline = spec, self.timeline
        if self.user_profiler is not None:
            self.user_profiler.sessions.clear()

    def open_manual(self) -> None:
        if self.recorder is None:
            raise RuntimeError("torch is not imported yet: nothing can be recorded")
        self.recorder.open_manual()

    def close_manual(self) -> None:
        if self.recorder is not None:
            self.recorder.close_manual()
        if self._packer is not None:
            self._packer.join()

    def manual_step(self) -> None:
        if self.recorder is not None:
            self.recorder.manual_step()

    def _hook_imports(self) -> None:
        when = self.imports.when
        when("torch._inductor.config", self.capture.on_config)
        when("torch._inductor.output_code", self.capture.on_output_code)
        when("torch._inductor.codecache", self.capture.on_codecache)
        when("torch.utils.data.dataloader", self.loaders.on_dataloader)
        when("torch.nn.modules.module", self.lengths.on_module)
        when("torch.cuda.graphs", detaching.on_graphs)
        when("torch._dynamo.callback", self.compiles.on_callback)
        when("torch._dynamo.symbolic_convert", self.compile_notes.on_symbolic_convert)
        when("torch._dynamo.convert_frame", self.compile_notes.on_convert_frame)
        when("torch._inductor.cudagraph_utils", self.compile_notes.on_cudagraph_utils)
        when("torch._dynamo.eval_frame", skip_own_code)
        when("triton.runtime.jit", self.triton_calls.on_runtime)
        when("triton.runtime.interpreter", self.triton_calls.on_runtime)
        when("triton.runtime.autotuner", self.triton_calls.on_autotuner)
        self.imports.install()

    def _make_recorder(self, torch: ModuleType) -> Recorder:
        self.torch = torch
        self.scopes.install(torch)
        recorder = Recorder(
            torch, self.spec, self.timeline, self.scopes, self._publish, self.folder.progress, self.complain
        )
        recorder.takes.save, recorder.before_session = self._save, self._before_session
        self.recorder = recorder
        self.user_profiler = UserProfiler(recorder, self.folder, self.timeline, self.scopes, self.complain)
        self.user_profiler.install(torch)
        markers.on_optimizer(torch, self._mark)
        self.imports.when("torch.profiler.profiler", lambda module: markers.on_profiler_module(module, self._mark_step))
        return recorder

    def _on_torch(self, torch: Any) -> None:
        self.imported_torch_ns = time.time_ns()
        recorder = self._make_recorder(torch)
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
        if self.recorder is not None and os.getpid() == self.folder.pid:
            announce("cuda")
            self.recorder.devices_appeared()

    def _in_child(self) -> None:
        """A forked child: nothing is recorded there, least of all for the whole life of a loader's worker."""
        if self.timeline is not None:
            self.timeline.stop()
        self.scopes.active = False
        if self.recorder is not None:
            self.recorder.abandon()

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
        if self._stopping and threading.get_ident() not in self._stopped:
            # Threads that step end here too: one that is inside an operator while the interpreter shuts down aborts it.
            self._stopped.add(threading.get_ident())
            raise StopProgram(0)

    def step_of_module(self, key: Any) -> None:
        """A call of a generated module that is profiled by itself begins."""
        self._mark("region", key)

    def captured(self) -> bool:
        """Whether a window has been taken: a module by itself has nothing more to show."""
        return self._packer is not None

    def _mark_step(self, kind: str, key: Any) -> None:
        if self.user_profiler is not None:
            self.user_profiler.step_marked()
        self._mark(kind, key)

    def _state(self) -> str:
        return "off" if self.recorder is None else self.recorder.state

    def _compile_started(self) -> None:
        self.lengths.leave()
        if self.recorder is not None:
            self.recorder.compile_started()

    def _compile_ended(self) -> None:
        if self.recorder is not None:
            self.recorder.compile_ended()

    def stopped_by_us(self, error: BaseException) -> bool:
        return isinstance(error, StopProgram)

    def main_ended(self, error: BaseException | None) -> None:
        """The main module has run to its end, or ``error`` leaves it. Threads of the program may go on."""
        self.exit_status, self.raised = status_of(error), error
        others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
        if self.recorder is not None and not others:
            self.recorder.stop()

    # ------------------------------------------------------------------ results
    def _save(self, take: Take) -> str:
        self._saved += 1
        return publish.save_raw(self.folder, take, self._saved - 1)

    def _before_session(self) -> None:
        """What has times of a device is saved before another session is set up: ours, and the program's own."""
        if self.recorder is not None:
            self.recorder.takes.secure()
        if self.user_profiler is not None:
            self.user_profiler.save_pending()

    def _publish(self, take: Take) -> None:
        """The window is closed: write it. Kineto's part here and now, the rest beside the program."""
        self.exits.busy = True
        self.folder.progress("saving")
        raw = take.raw or self._save(take)
        self._packer = threading.Thread(target=self._pack, args=(take, raw), name="ridgeline-pack", daemon=True)
        self._packer.start()
        if self.spec.then == "stop":
            self._packer.join()
            self._stopping = True
            in_mark = threading.current_thread() is threading.main_thread() and not self.main_thread.inside
            self.main_thread.end(None if in_mark else StopProgram, self._leave_now, 30.0)

    def _leave_now(self) -> None:
        """The main thread did not come to the exception that ends it: it is inside one long call."""
        self.exits.finish("stopped after the window", 0)
        self.exits.leave(0)

    def _pack(self, take: Take, raw: str) -> None:
        try:
            self.result.add(take.window, raw, take.lines, take.labels)
            self._write_sidecar()
            publish.mark_captured(self.folder, self.result.windows)
            self.folder.progress("published")
            if self.spec.then == "continue" and self.exit_status is None:
                self.folder.progress("running")
        except Exception as error:  # noqa: BLE001 - a thread beside the program: a traceback there is noise
            self.complain("writing the result", error)
        finally:
            self.exits.busy = False

    def _user_windows(self) -> int:
        return len(self.user_profiler.sessions) if self.user_profiler is not None else 0

    def _harvest_notes(self) -> list[str]:
        own = len(self.result.windows)
        added = self._harvest()
        if not added:
            return []
        publish.mark_captured(self.folder, self.result.windows)
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
                self.result.add(session.window(), session.raw, session.lines, session.labels)
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
                self.notes += filter(None, [why_not_steady(recorder, how)])
                recorder.publish_best()
            if self._packer is not None:
                self._packer.join()
            recorder.takes.clear()
        self.notes += self._harvest_notes()
        try:
            crash.forget_empty(self.folder.path)
            self._write_sidecar(ended=True)
        except OSError as error:
            self.folder.progress("failed", f"the run folder cannot be written: {error}")
            return
        if self.result.windows:
            self.folder.progress("done", "stopped after the window" if self._stopping else how)
        else:
            self.folder.progress("failed", why_nothing(self.torch is not None, self.raised, self.exit_status, how))

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
            "argv": [str(argument) for argument in getattr(sys, "argv", None) or ()],
            "cwd": self.cwd,
            "main": self.main,
            "user_roots": self.users.roots,
            "windows": self.result.windows,
            "plain_steps_ns": [] if recorder is None else recorder.times.plain,
            "profiled_steps_ns": [] if recorder is None else recorder.times.profiled,
            "cupti_left": None if recorder is None else recorder.cupti_left,
            "cupti_kept": None if recorder is None else recorder.detaching.kept,
            "compiles": self.compiles.rows,
            "graphs": graphs,
            "timeline": self.result.timeline_row,
            "files": self.folder.snapshots(),
            "compile_notes": self.compile_notes.rows,
            "loaders": self.loaders.rows(self.result.windows),
            "triton_calls": self.triton_calls.rows(self.result.windows),
            "tuned": self._tuned(),
            "labels": self.result.labels,
            "lengths": [lengths for lengths, _ in self.lengths.samples],
            "padded_to": [size for _, size in self.lengths.samples],
            "lengths_at": None if self.lengths.place is None else [*self.lengths.place],
            "devices": [] if torch is None else machine.devices(torch, self.spec.device),
            "cpu": {} if torch is None else machine.cpu(torch),
            "settings": {} if torch is None else machine.settings(torch),
            "exit_status": self.exit_status if ended else None,
            "imported_torch_ns": self.imported_torch_ns,
            "started_ns": self.started_ns,
            "ended_ns": time.time_ns() if ended else None,
            "notes": self.notes + self.result.notes + ([] if recorder is None else recorder.notes),
            "errors": self.errors,
        }
        if self.timeline is not None and self.timeline.blocked:
            document["notes"].append(self.timeline.blocked)
        self.folder.write_json("sidecar.json", document)

    def keep_main(self, path: str, source: bytes) -> None:
        """Keep the program's text as it runs: the file may be edited, or gone, when the window closes."""
        try:
            self.folder.keep(path, source, "user")
        except OSError as error:
            self.complain("copy of the program", error)

    def _tuned(self) -> dict[str, dict[str, Any]]:
        try:
            return kernels.tuned()
        except Exception as error:  # noqa: BLE001 - private attributes of torch and Triton
            self.complain("configurations of kernels", error)
            return {}

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
