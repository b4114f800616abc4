"""Everything that starts, signals, stops or reaps a process, in one place.

Why not a process group: workers of ``torchrun`` and anything that calls ``setsid`` leave it, and survive a group kill.
Here the supervisor is a *child subreaper*: whatever is orphaned below it becomes its child, so the tree below its pid is
complete, and :func:`sweep` can end all of it. Signals go through pidfds, which cannot hit a recycled pid.

Linux only; :func:`unsupported` says so elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class StartError(OSError):
    """The program could not be started at all (interpreter missing, not executable, no memory…)."""


def unsupported() -> str | None:
    """Why programs cannot be run under supervision here, or ``None`` where they can."""
    if not sys.platform.startswith("linux"):
        return (
            f"profiling runs on Linux only in this version (this is {sys.platform}); stored runs and traces open here"
        )
    return None


def _prctl(option: int, value: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def become_subreaper() -> bool:
    """Orphans among this process's descendants become its children from now on. False where the kernel refuses."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


@dataclass(frozen=True, slots=True)
class Process:
    """A process as ``/proc`` shows it; ``pid`` with ``start`` (ticks since boot) names it for good."""

    pid: int
    parent: int
    state: str
    start: int
    name: str

    @property
    def over(self) -> bool:
        """Dead and waiting to be reaped. A main thread alone may be that, while others of the process live."""
        if self.state not in ("Z", "X"):
            return False
        try:
            return len(os.listdir(f"/proc/{self.pid}/task")) <= 1
        except OSError:
            return True

    def command(self) -> str:
        """Its command line as a person would type it; the short name when that cannot be read."""
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as source:
                words = source.read(4096).split(b"\0")
        except OSError:
            return self.name
        return " ".join(word.decode(errors="replace") for word in words if word) or self.name


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
            text = source.read()
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    values = tail.split()
    if len(values) < 20:
        return None
    return Process(pid=pid, parent=int(values[1]), state=values[0], start=int(values[19]), name=head.partition("(")[2])


def descendants(root: int, *, without: Collection[int] = ()) -> list[Process]:
    """All live processes below ``root`` (not itself), parents first; those in ``without`` and what is below them left out."""
    children: dict[int, list[Process]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (process := _read(int(entry))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child.pid in without:
                continue
            pending.append(child.pid)
            if not child.over:
                found.append(child)
    return found


def send(process: Process, number: int) -> bool:
    """Signals exactly this process; False when it is gone or its pid belongs to another one by now."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        again = _read(process.pid)
        if again is None or again.start != process.start:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def signal_all(root: int, number: int, *, without: Collection[int] = ()) -> int:
    """Signals every descendant of ``root``; how many it reached."""
    return sum(send(process, number) for process in descendants(root, without=without))


def start(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    group: int | None = None,
    keep_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a program in the process group ``group`` (``None``: a new one), to be killed if this process dies.

    Signals and the signal mask are Python's and the shell's defaults again in the child. Call it from a process without
    threads. The caller reaps with a :class:`Reaper`. Raises :class:`StartError`.
    """
    prctl = ctypes.CDLL(None).prctl  # Loaded before the fork.
    parent = os.getpid()

    def in_child() -> None:
        os.setpgid(0, group if group is not None else 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # It died before the line above.
            os._exit(125)

    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(keep_fds),
            preexec_fn=in_child,  # No threads here, and Popen's process_group came with 3.11.
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StartError(f"cannot start {argv[0]}: {reason}") from error


def start_supervisor(argv: Sequence[str], *, keep_fds: Sequence[int]) -> subprocess.Popen[bytes]:
    """Starts the supervisor in a process group of its own within this session, so that a terminal's Ctrl-C passes it by."""
    return subprocess.Popen(
        list(argv),
        pass_fds=tuple(keep_fds),
        preexec_fn=lambda: os.setpgid(0, 0),
    )


def probe(
    argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None, seconds: float = 20.0
) -> str | None:
    """Standard output of a short question to an interpreter or a tool; ``None`` when it fails, or takes too long."""
    try:
        done = subprocess.run(
            list(argv), cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def run_to_end(argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> int:
    """A short program at the terminal, in this process group; its status as a shell gives it. Raises :class:`StartError`."""
    try:
        return shell_status(subprocess.run(list(argv), cwd=cwd, env=dict(env), check=False).returncode)
    except OSError as error:
        raise StartError(f"cannot start {argv[0]}: {error.strerror or error}") from error


def guarded(work: Callable[[], int]) -> int:
    """Runs ``work`` in a child and ends what it leaves if it is killed itself; its status, 128 + n for signal n.

    The two watch each other: this process adopts and sweeps the orphans of a killed child, and a child whose guard is
    killed gets SIGTERM. Call it before there are threads.
    """
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        os._exit(_status_of(work) if os.getppid() == guard else 125)
    become_subreaper()
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    reaper = Reaper()
    sweep(reap=reaper.collect)
    return shell_status(os.waitstatus_to_exitcode(status))


def _status_of(work: Callable[[], int]) -> int:
    """What ``work`` returns, or 125 with its traceback on standard error."""
    try:
        return work()
    except Exception:  # noqa: BLE001 - the last line of defence of a process: said, and told by its status
        traceback.print_exc()
        return 125


class Reaper:
    """Collects every child that ended, ours and adopted ones, and tells :class:`subprocess.Popen` objects about theirs."""

    def __init__(self) -> None:
        self._known: dict[int, subprocess.Popen[bytes]] = {}

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        self._known[process.pid] = process

    def collect(self) -> None:
        """Reaps without waiting; sets ``returncode`` (negative for a signal, as subprocess does)."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = self._known.pop(pid, None)
            if process is not None:
                process.returncode = os.waitstatus_to_exitcode(status)


def shell_status(returncode: int) -> int:
    """``Popen.returncode`` as a shell gives it: 128 + n for signal n."""
    return returncode if returncode >= 0 else 128 - returncode


def sweep(
    *,
    without: Collection[int] = (),
    reap: Callable[[], None] = lambda: None,
    patience_s: float = 5.0,
) -> list[Process]:
    """Ends every descendant of this process with SIGKILL; returns those that would not go (uninterruptible in a driver).

    All are stopped before any is killed, again and again until no new one shows, so that a tree that forks or respawns
    its workers cannot outrun it.
    """
    deadline = time.monotonic() + patience_s
    me = os.getpid()
    while True:
        stopped: set[tuple[int, int]] = set()
        for _ in range(50):
            fresh = [p for p in descendants(me, without=without) if (p.pid, p.start) not in stopped]
            if not fresh:
                break
            for process in fresh:
                send(process, signal.SIGSTOP)
                stopped.add((process.pid, process.start))
        signal_all(me, signal.SIGKILL, without=without)
        reap()
        left = descendants(me, without=without)
        if not left or time.monotonic() > deadline:
            reap()  # What died since the last time.
            return left
        time.sleep(0.01)


@dataclass
class Ladder:
    """SIGINT, wait, SIGTERM, wait, SIGKILL: what to send next, as time passes. Never blocks.

    ``waits`` are the seconds after each rung before the next one; a rung is (signal, whether to all descendants or only
    to the program itself). The program alone gets the first signal: it unwinds its own workers best.
    """

    rungs: list[tuple[int, bool]]
    waits: list[float]
    started: float = field(default_factory=time.monotonic)
    _next: int = 0
    _due: float | None = None

    @classmethod
    def polite(cls, *, interrupted_already: bool, seconds: float) -> Ladder:
        """For an interruption at a terminal: ``seconds`` to save what there is. The terminal has sent SIGINT itself."""
        first = [] if interrupted_already else [(int(signal.SIGINT), False)]
        ladder = cls(rungs=[*first, (int(signal.SIGTERM), True), (int(signal.SIGKILL), True)], waits=[])
        ladder.waits = [seconds, 1.0, 0.0][3 - len(ladder.rungs) :]
        if interrupted_already:
            ladder._due = ladder.started + seconds
        return ladder

    @classmethod
    def brisk(cls) -> Ladder:
        """For an editor's Cancel or a dead parent: everything is gone within three seconds."""
        rungs = [(int(signal.SIGINT), False), (int(signal.SIGTERM), True), (int(signal.SIGKILL), True)]
        return cls(rungs=rungs, waits=[1.0, 0.5, 0.0])

    @classmethod
    def stop(cls, seconds: float) -> Ladder:
        """For a program that is to stop once its result is there: ``seconds`` to unwind by itself first."""
        rungs = [(int(signal.SIGTERM), False), (int(signal.SIGTERM), True), (int(signal.SIGKILL), True)]
        ladder = cls(rungs=rungs, waits=[2.0, 1.0, 0.0])
        ladder._due = ladder.started + seconds
        return ladder

    @classmethod
    def leftovers(cls, seconds: float) -> Ladder:
        """For what an ended program leaves behind: ``seconds`` to go by itself first."""
        ladder = cls(rungs=[(int(signal.SIGTERM), True), (int(signal.SIGKILL), True)], waits=[0.6, 0.0])
        ladder._due = ladder.started + seconds
        return ladder

    def hurry(self) -> None:
        """The next rung is due now."""
        self._due = 0.0

    def extend(self, seconds: float) -> None:
        """Not before ``seconds`` from now."""
        if self._due is not None and self._next < len(self.rungs):
            self._due = max(self._due, time.monotonic() + seconds)

    def step(self, now: float) -> tuple[int, bool] | None:
        """The signal to send now, if one is due."""
        if self._next >= len(self.rungs) or (self._due is not None and now < self._due):
            return None
        rung = self.rungs[self._next]
        self._due = now + self.waits[self._next]
        self._next += 1
        return rung


def commands(processes: Iterable[Process], limit: int = 3) -> str:
    """A few processes in words: ``python worker.py (pid 4711) and 2 more``."""
    listed = list(processes)
    words = ", ".join(f"{p.command()[:80]} (pid {p.pid})" for p in listed[:limit])
    return words + (f" and {len(listed) - limit} more" if len(listed) > limit else "")
