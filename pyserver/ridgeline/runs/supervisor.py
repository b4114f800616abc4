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
import time
from dataclasses import dataclass, field
from typing import Any

from ridgeline.runs import causes, processes
from ridgeline.runs.folder import RunFolder, process_start, write_atomically
from ridgeline.runs.launch import agent_main
from ridgeline.runs.progress import Events, Progress, ProgressTail
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import write_summary
from ridgeline.runs.worker import Analysis, Stamp

_TICK_S = 0.1
_LINGER_S = 1.0
"""What an ended program's helpers (compile workers, resource trackers) get to leave by themselves."""
_SETTLE_S = 1.0
"""After the window is on disk, how long a program that is about to end anyway is waited for before analysis starts."""
_STOP_S = 3.0
"""With ``then: stop``, what the agent gets to unwind the program at its next step before it is told by signal."""
_END_S = 15.0
"""What the interpreter gets to shut down when the program has ended by itself; it may unload gigabytes of libraries."""
_REAP_S = 2.0
"""What a killed program may take to be gone; one that hangs in a driver takes longer, and is left to the kernel."""
_DRAIN_S = 2.0
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
    analysis: Analysis = field(init=False)
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
    _guard: int = 0
    """The process that watches this one; when it dies, another adopts us."""
    _ended_at: float | None = None
    _cancelled_at: float = 0.0
    _gone_at: float | None = None
    """When the last process of the program's tree was gone."""
    _stopped: bool = False
    """We ended the program as asked, its result being there: that is no failure of its own."""
    _shows_something: bool = True
    _unwritable: bool = False

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
            self._look_at_guard()
            self._relay_progress()
            self._look_at_program()
            self._look_at_analysis()
            self._climb()
        return self._finish(self._cause())

    # Starting

    def _prepare(self) -> None:
        self._guard = os.getppid()
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
        self.analysis = Analysis(self.spec.analysis, self.folder, self._reaper)
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

    def _look_at_guard(self) -> None:
        """The kernel's signal at its death has been seen to be lost: in one run of some thousands nothing came."""
        if self.cancelled != "parent died" and os.getppid() != self._guard:
            self._cancel("parent died")

    def _climb(self) -> None:
        """Sends the signal that is due; a program that is saving its window gets the time to do so."""
        if self.ladder is None or self._tree_gone:
            return
        now = time.monotonic()
        saving = self.last is not None and self.last.phase == "saving" and self._ended_at is None
        if saving and not self.discard and now - self._cancelled_at < _SAVE_LIMIT_S:
            self.ladder.extend(_SAVE_MORE_S)
        if self.cancelled is None and self._ending() and now - (self._captured_at or now) < _END_S:
            return
        rung = self.ladder.step(now)
        if rung is None:
            return
        number, everyone = rung
        self._stopped = self._stopped or (self.cancelled is None and self._ended_at is None)
        self.folder.note(f"sending {signal.Signals(number).name} to {'the tree' if everyone else 'the program'}")
        if number == signal.SIGKILL:
            self._sweep()
        elif everyone:
            processes.signal_all(os.getpid(), number, without=self.analysis.pids)
        elif self.program is not None and self.program.returncode is None:
            os.kill(self.program.pid, number)  # Our own child and not reaped: the pid is its own.

    @property
    def _tree_gone(self) -> bool:
        return self._gone_at is not None

    def _ending(self) -> bool:
        """The program is on its way out by itself: the agent has said its last word."""
        return self._ended_at is None and self.last is not None and self.last.phase == "done"

    def _sweep(self) -> None:
        left = processes.sweep(without=self.analysis.pids, reap=self._reaper.collect)
        self._gone_at = time.monotonic()
        assert self.program is not None
        deadline = time.monotonic() + _REAP_S
        while self.program.returncode is None and time.monotonic() < deadline:
            self._reaper.collect()  # Killed, and its threads are still leaving.
            time.sleep(0.005)
        if left:
            self._note("not-ended", f"could not be ended (in a driver, uninterruptible): {processes.commands(left)}")

    def _look_at_program(self) -> None:
        assert self.program is not None
        if self._captured_at is None and self.folder.captured.exists():
            self._captured_at = time.monotonic()
            self._record(state="captured")
            self.events.emit("captured")
            if self.spec.then == "stop" and self.ladder is None:
                self.ladder = processes.Ladder.stop(_STOP_S)
        if self.program.returncode is None or self._tree_gone:
            return
        rest = processes.descendants(os.getpid(), without=self.analysis.pids)
        if self._ended_at is None:
            self._ended_at = time.monotonic()
            self.folder.note(f"the program ended with {self.program.returncode}")
            self._record(exit_status=self._status())  # For the analysis as well.
            if rest:
                self.folder.note(f"left behind: {processes.commands(rest)}")
                self.ladder = processes.Ladder.leftovers(0.0 if self.cancelled else _LINGER_S)
        if not rest:
            self._gone_at = time.monotonic()

    def _record(self, **facts: Any) -> None:
        """Into ``run.json``; a full disk must not end the supervision."""
        try:
            self.folder.update(**facts)
        except OSError as error:
            if not self._unwritable:
                self._unwritable = True
                self._note("run-folder", f"cannot write {self.folder.run_json}: {error.strerror}")

    # The analysis

    def _stamp(self) -> Stamp | None:
        return self.analysis.stamp(self.program.returncode if self.program is not None else None)

    def _look_at_analysis(self) -> None:
        if self.analysis.ended():
            self._analysis_ended()
        elif self.analysis.running:
            if self._tree_gone and not self.analysis.up_to_date(self._stamp()):
                self.analysis.stop()  # The program's end added to what is known: what runs would be out of date.
            return
        if self.discard or not self.spec.analysis or self._captured_at is None:
            return
        stamp = self._stamp()
        if self._tree_gone:
            wanted = not self.analysis.up_to_date(stamp)
        else:
            settled = time.monotonic() - self._captured_at > _SETTLE_S
            wanted = settled and not self._ending() and not self.analysis.begun()
        if wanted and stamp is not None:
            self._record(state="analyzing")
            self.events.emit(
                "progress", phase="analyzing", running=not self._tree_gone, step=None, elapsed_s=None, message=None
            )
            self.analysis.start(stamp)

    def _analysis_ended(self) -> None:
        if self.analysis.failed is not None:
            self.folder.note(self.analysis.failed.line())
            return
        try:
            self._shows_something = write_summary(self.folder)
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            self.folder.note(f"cannot summarise the profile: {error}")
        running = not self._tree_gone and not self._ending()
        self.events.emit("profile", run_dir=str(self.folder.path), path=str(self.folder.profile), running=running)

    def _give_up_analysis(self) -> None:
        self.discard = True
        self.analysis.stop()

    # The end

    def _over(self) -> bool:
        if self._gone_at is None or self.analysis.running:
            return False
        if self._decoders and time.monotonic() - self._gone_at < _DRAIN_S:
            return False  # The rest of its output; a pipe that stays open is held by what could not be ended.
        if self.discard or not self.spec.analysis or self._captured_at is None or self.analysis.failed is not None:
            return True
        return self.analysis.up_to_date(self._stamp())

    def _cause(self) -> causes.Cause | None:
        """Why there is no profile; ``None`` when there is one."""
        assert self.program is not None
        if self.folder.profile.is_file() and self._shows_something:
            return None
        if self.discard:
            return causes.Cause("cancelled", "the run was stopped")
        if self._captured_at is not None and self._shows_something:
            if not self.spec.analysis:
                return None
            if not self.program.returncode or self.cancelled is not None:
                return self.analysis.failed or causes.of_analysis(None, "the trace or its sidecar is missing")
            # Nothing that can be analysed was recorded because it failed first: what it failed of is the cause.
        if self.cancelled is not None:
            return causes.Cause("cancelled", "the run was interrupted before anything was recorded")
        if self.program.returncode is None:
            return causes.Cause(
                "killed", "the program does not end, not even by SIGKILL", "it hangs in a driver: see dmesg"
            )
        return causes.of_program(
            self.spec,
            self.folder.path,
            self.env,
            returncode=self.program.returncode,
            last=self.last,
            errors=self._errors,
        )

    def _status(self) -> int | None:
        """The program's exit status as a shell gives it; 0 for one that we stopped as asked."""
        if self.program is None or self.program.returncode is None:
            return None
        return 0 if self._stopped and self.program.returncode < 0 else processes.shell_status(self.program.returncode)

    def _finish(self, cause: causes.Cause | None) -> causes.Cause | None:
        processes.sweep(reap=self._reaper.collect)
        status = self._status()
        if self.cancelled is not None:
            state = "cancelled"
        elif cause is None:
            state = "finished"
        else:
            state = "empty" if cause.code == "nothing-recorded" else "failed"
        profile = self.folder.profile.is_file() and self._shows_something
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
