"""Looks after one run from start to end: the program under the agent, its whole process tree, then the analysis.

One thread, one loop: progress, output, control messages, ended children and due signals are looked at in turn. The
supervisor is in no group and no session that the program could signal, and it leaves only when nothing below it lives.
"""

from __future__ import annotations

import codecs
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, Any

from ridgeline.runs import causes, processes
from ridgeline.runs.folder import RunFolder, process_start, write_atomically
from ridgeline.runs.launch import agent_main
from ridgeline.runs.progress import Events, Progress, ProgressTail
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import write_summary

_TICK_S = 0.1
_LINGER_S = 1.0
"""What an ended program's helpers (compile workers, resource trackers) get to leave by themselves."""
_SETTLE_S = 1.0
"""After the window is on disk, how long a program that is about to end anyway is waited for before analysis starts."""
_SAVE_S, _SAVE_MORE_S, _SAVE_LIMIT_S = 5.0, 2.0, 90.0
"""After an interruption: what the agent gets to save, by how much saving in progress extends it, and to what limit."""
_LOG_LIMIT = 32 << 20
_TAIL = 8192


@dataclass
class Supervisor:
    spec: RunSpec
    folder: RunFolder
    events: Events
    control_fd: int | None
    """Lines ``cancel``, ``interrupted`` (a terminal has sent SIGINT already) and ``hurry``; end of file: the parent died."""

    program: subprocess.Popen[bytes] | None = None
    analysis: subprocess.Popen[bytes] | None = None
    ladder: processes.Ladder | None = None
    cancelled: str | None = None
    """Why we ended the program: ``cancelled``, ``interrupted``, ``parent died``."""
    discard: bool = False
    last: Progress | None = None
    env: dict[str, str] = field(default_factory=dict)
    _tail: ProgressTail = field(init=False)
    _reaper: processes.Reaper = field(default_factory=processes.Reaper)
    _selector: selectors.DefaultSelector = field(default_factory=selectors.DefaultSelector)
    _decoders: dict[str, codecs.IncrementalDecoder] = field(default_factory=dict)
    """Of the output streams that are still open."""
    _logged: int = 0
    _errors: str = ""
    _control_rest: bytes = b""
    _captured_at: float | None = None
    _ended_at: float | None = None
    _cancelled_at: float = 0.0
    _tree_gone: bool = False
    _analysed: tuple[int, int, int | None] | None = None
    _analysis_output: IO[bytes] | None = None
    _analysis_failed: causes.Cause | None = None

    def run(self) -> causes.Cause | None:
        """Returns when the run is over and nothing of it is left; the cause when there is no profile."""
        self._prepare()
        try:
            self._start_program()
        except processes.StartError as error:
            return self._finish(causes.Cause("start-failed", str(error), "choose another interpreter with --python"))
        except OSError as error:
            return self._finish(
                causes.Cause("start-failed", f"cannot use the run folder {self.folder.path}: {error.strerror}")
            )
        while not self._over():
            for key, _ in self._selector.select(_TICK_S):
                key.data(key.fileobj)
            self._reaper.collect()
            self._relay_progress()
            self._look_at_program()
            self._look_at_analysis()
            self._climb()
        return self._finish(self._cause())

    # Starting

    def _prepare(self) -> None:
        processes.become_subreaper()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._cancel("terminated"))
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU):
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda fd: os.read(fd, 4096))
        if self.control_fd is not None:
            self._selector.register(self.control_fd, selectors.EVENT_READ, self._on_control)
        self._tail = ProgressTail(self.folder.progress)
        self.env = {**os.environ, **self.spec.env}
        self.env.setdefault("INDUCTOR_PROVENANCE", "1")

    def _start_program(self) -> None:
        spec, folder = self.spec, self.folder
        me = os.getpid()
        owner = {"pid": me, "start": process_start(me), "host": os.uname().nodename}
        folder.update(state="running", started=time.time(), supervisor=owner)
        agent_spec = folder.path / "spec.json"
        write_atomically(agent_spec, json.dumps(spec.agent_spec(folder.path)))
        warning = causes.cache_path_warning(self.env)
        if warning:
            self._note("cache-path-space", warning)
        self.events.emit("progress", phase="starting", step=None, elapsed_s=0.0, message=spec.label())
        stdin, stdout, stderr = None, None, None
        readers: list[tuple[str, int]] = []
        if spec.output == "events":
            self.env.setdefault("PYTHONUNBUFFERED", "1")
            stdin = subprocess.DEVNULL
            (out_read, stdout), (err_read, stderr) = os.pipe(), os.pipe()
            readers = [("stdout", out_read), ("stderr", err_read)]
        elif spec.output == "stderr":
            stdout = 2
        argv = [spec.python, str(agent_main(spec)), str(agent_spec)]
        try:
            self.program = processes.start(
                argv, cwd=spec.cwd, env=self.env, stdin=stdin, stdout=stdout, stderr=stderr, group=spec.group
            )
        finally:
            if spec.output == "events":
                assert stdout is not None
                assert stderr is not None
                os.close(stdout)
                os.close(stderr)
        for stream, fd in readers:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            self._selector.register(fd, selectors.EVENT_READ, lambda f, s=stream: self._on_output(f, s))
        self._reaper.watch(self.program)
        folder.note(f"started {spec.label()} with {spec.python}, pid {self.program.pid}")
        self.events.emit("started", run_dir=str(folder.path), pid=self.program.pid)

    # What comes in

    def _on_control(self, fd: int) -> None:
        data = os.read(fd, 4096)
        if not data:
            self._selector.unregister(fd)
            self._cancel("parent died")
            return
        *lines, self._control_rest = (self._control_rest + data).split(b"\n")
        for line in lines:
            word = line.strip().decode(errors="replace")
            if word in ("cancel", "interrupted"):
                self._cancel(word)
            elif word == "hurry" and self.ladder is not None:
                self.ladder.hurry()
                self._give_up_analysis()

    def _on_output(self, fd: int, stream: str) -> None:
        data = os.read(fd, 1 << 16)
        text = self._decoders[stream].decode(data, final=not data)
        if text:
            self.events.emit("output", stream=stream, text=text)
            if self._logged < _LOG_LIMIT:
                self._logged += len(data)
                self.folder.append_log(
                    text if self._logged < _LOG_LIMIT else "\n[the log ends here: too much output]\n"
                )
            if stream == "stderr":
                self._errors = (self._errors + text)[-_TAIL:]
        if not data:
            self._selector.unregister(fd)
            os.close(fd)
            del self._decoders[stream]

    def _relay_progress(self) -> None:
        for one in self._tail.read():
            self.last = one
            self.events.emit("progress", phase=one.phase, step=one.step, elapsed_s=one.elapsed_s, message=one.message)

    def _note(self, code: str, message: str) -> None:
        self.folder.note(message)
        self.events.emit("note", code=code, message=message)

    # The program and its tree

    def _helpers(self) -> list[int]:
        return [self.analysis.pid] if self.analysis is not None else []

    def _cancel(self, why: str) -> None:
        if self.cancelled is not None and why != "parent died":
            return
        self.folder.note(f"stopping: {why}")
        self.cancelled, self._cancelled_at = why, time.monotonic()
        if why == "parent died" or not self.spec.keep_on_cancel or self._tree_gone:
            self.ladder = processes.Ladder.brisk()
            self._give_up_analysis()
        else:
            self.ladder = processes.Ladder.polite(interrupted_already=why == "interrupted", seconds=_SAVE_S)
        self.events.emit("progress", phase="stopping", step=None, elapsed_s=None, message=why)

    def _climb(self) -> None:
        """Sends the signal that is due; a program that is saving its window gets the time to do so."""
        if self.ladder is None or self._tree_gone:
            return
        now = time.monotonic()
        saving = self.last is not None and self.last.phase == "saving" and self._ended_at is None
        if saving and not self.discard and now - self._cancelled_at < _SAVE_LIMIT_S:
            self.ladder.extend(_SAVE_MORE_S)
        rung = self.ladder.step(now)
        if rung is None:
            return
        number, everyone = rung
        self.folder.note(f"sending {signal.Signals(number).name} to {'the tree' if everyone else 'the program'}")
        if number == signal.SIGKILL:
            self._sweep()
        elif everyone:
            processes.signal_all(os.getpid(), number, without=self._helpers())
        elif self.program is not None and self.program.returncode is None:
            os.kill(self.program.pid, number)  # Our own child and not reaped: the pid is its own.

    def _sweep(self) -> None:
        left = processes.sweep(without=self._helpers(), reap=self._reaper.collect)
        self._tree_gone = True
        if left:
            self._note("not-ended", f"could not be ended (in a driver, uninterruptible): {processes.commands(left)}")

    def _look_at_program(self) -> None:
        assert self.program is not None
        if self._captured_at is None and self.folder.captured.exists():
            self._captured_at = time.monotonic()
            self._record(state="captured")
            self.events.emit("captured")
        if self.program.returncode is None or self._tree_gone:
            return
        rest = processes.descendants(os.getpid(), without=self._helpers())
        if self._ended_at is None:
            self._ended_at = time.monotonic()
            self.folder.note(f"the program ended with {self.program.returncode}")
            self._record(exit_status=processes.shell_status(self.program.returncode))  # For the analysis as well.
            if rest:
                self.folder.note(f"left behind: {processes.commands(rest)}")
                self.ladder = processes.Ladder.leftovers(0.0 if self.cancelled else _LINGER_S)
        if not rest:
            self._tree_gone = True

    def _record(self, **facts: Any) -> None:
        """Into ``run.json``; a full disk must not end the supervision."""
        try:
            self.folder.update(**facts)
        except OSError as error:
            self._note("run-folder", f"cannot write {self.folder.run_json}: {error.strerror}")

    # The analysis

    def _stamp(self) -> tuple[int, int, int | None] | None:
        """Changes when there is something new to say, the program's end included; ``None`` before there is anything."""
        ended = self.program.returncode if self.program is not None else None
        try:
            return self.folder.sidecar.stat().st_mtime_ns, self.folder.trace.stat().st_mtime_ns, ended
        except OSError:
            return None

    def _look_at_analysis(self) -> None:
        if self.analysis is not None:
            if self.analysis.returncode is not None:
                self._analysis_ended(self.analysis.returncode)
            elif self._tree_gone and self._analysed != self._stamp():
                self._stop_analysis()  # The program's end added to the sidecar: what runs would be out of date.
            return
        if self.discard or not self.spec.analysis or self._captured_at is None:
            return
        if self._tree_gone:
            wanted = self._analysed != self._stamp()
        else:
            wanted = self._analysed is None and time.monotonic() - self._captured_at > _SETTLE_S
        if wanted and self._stamp() is not None:
            self._start_analysis()

    def _start_analysis(self) -> None:
        self._analysed = self._stamp()
        self._record(state="analyzing")
        self.events.emit(
            "progress", phase="analyzing", running=not self._tree_gone, step=None, elapsed_s=None, message=None
        )
        self._analysis_output = tempfile.TemporaryFile()  # noqa: SIM115 - open until the worker ends
        try:
            self.analysis = processes.start(
                [*self.spec.analysis, str(self.folder.path)],
                cwd=str(self.folder.path),
                env=os.environ,
                stdin=subprocess.DEVNULL,
                stdout=self._analysis_output.fileno(),
                stderr=self._analysis_output.fileno(),
            )
        except processes.StartError as error:
            self._analysis_failed = causes.of_analysis(None, str(error))
            return
        self._reaper.watch(self.analysis)

    def _analysis_ended(self, returncode: int) -> None:
        assert self._analysis_output is not None
        self._analysis_output.seek(0)
        output = self._analysis_output.read().decode(errors="replace")
        self._analysis_output.close()
        self.analysis = None
        if output:
            self.folder.append_log(output)
        if returncode != 0 or not self.folder.profile.is_file():
            self._analysis_failed = causes.of_analysis(returncode, output)
            self.folder.note(self._analysis_failed.line())
            return
        self._analysis_failed = None
        try:
            write_summary(self.folder)
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            self.folder.note(f"cannot index the profile: {error}")
        running = not self._tree_gone
        self.events.emit("profile", run_dir=str(self.folder.path), path=str(self.folder.profile), running=running)

    def _stop_analysis(self) -> None:
        if self.analysis is None:
            return
        if self.analysis.returncode is None:
            os.kill(self.analysis.pid, signal.SIGKILL)
            while self.analysis.returncode is None:
                self._reaper.collect()
                time.sleep(0.005)
        if self._analysis_output is not None:
            self._analysis_output.close()
        self.analysis, self._analysed = None, None

    def _give_up_analysis(self) -> None:
        self.discard = True
        self._stop_analysis()

    # The end

    def _over(self) -> bool:
        if not self._tree_gone or self.analysis is not None or self._decoders:
            return False
        if self.discard or not self.spec.analysis or self._captured_at is None or self._analysis_failed is not None:
            return True
        return self._stamp() is None or self._analysed == self._stamp()

    def _cause(self) -> causes.Cause | None:
        """Why there is no profile; ``None`` when there is one."""
        assert self.program is not None
        assert self.program.returncode is not None
        if self.folder.profile.is_file():
            return None
        if self.discard:
            return causes.Cause("cancelled", "the run was stopped")
        if self._captured_at is not None:
            if not self.spec.analysis:
                return None
            return self._analysis_failed or causes.of_analysis(None, "the trace or its sidecar is missing")
        if self.cancelled is not None:
            return causes.Cause("cancelled", "the run was interrupted before anything was recorded")
        return causes.of_program(
            self.spec,
            self.folder.path,
            self.env,
            returncode=self.program.returncode,
            last=self.last,
            errors=self._errors,
        )

    def _finish(self, cause: causes.Cause | None) -> causes.Cause | None:
        processes.sweep(reap=self._reaper.collect)
        status = None
        if self.program is not None and self.program.returncode is not None:
            status = processes.shell_status(self.program.returncode)
        if self.cancelled is not None:
            state = "cancelled"
        elif cause is None:
            state = "finished"
        else:
            state = "empty" if cause.code == "nothing-recorded" else "failed"
        profile = self.folder.profile.is_file()
        detail = cause.as_dict() if cause is not None else None
        self._record(
            state="finished" if profile else state,
            ended=time.time(),
            exit_status=status,
            cause=detail,
            cancelled=self.cancelled,
        )
        self.folder.note(f"over: {state}")
        self.events.emit(
            "finished", run_dir=str(self.folder.path), status=state, exit_status=status, profile=profile, cause=detail
        )
        return cause
