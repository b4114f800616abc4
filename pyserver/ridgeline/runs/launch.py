"""How a run is started: the supervisor's command line, and the session of a terminal that waits for it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.runs import processes
from ridgeline.runs.folder import RunFolder, write_atomically
from ridgeline.runs.spec import RunSpec

_SI_KERNEL = 0x80
"""``si_code`` of a signal that the terminal sent (to the whole foreground group), from ``<bits/siginfo-consts.h>``."""


def agent_main(spec: RunSpec) -> Path:
    """The agent's main file: a path, for the user's interpreter has no Ridgeline to import."""
    return Path(spec.agent) if spec.agent else Path(__file__).resolve().parent.parent / "agent" / "main.py"


def write_spec(spec: RunSpec, folder: RunFolder) -> Path:
    """Leaves the specification in the run folder for the supervisor, which deletes it: its environment may hold secrets."""
    path = folder.path / ".spec.json"
    write_atomically(path, spec.to_json())
    return path


def supervisor_command(spec_file: Path, *, python: str | None = None) -> list[str]:
    """Events come on its standard output; its standard input takes ``cancel`` and must stay open, for its end cancels.

    Isolated from the user's variables and packages; ``python`` defaults to this interpreter.
    """
    return [python or sys.executable, "-I", "-S", str(Path(__file__).resolve().parent / "__main__.py"), str(spec_file)]


@dataclass
class Session:
    """A run that a terminal waits for. The program shares our process group, and with it the terminal, Ctrl-C and Ctrl-Z."""

    spec: RunSpec
    folder: RunFolder
    interrupts: int = 0
    ended_by: int | None = None
    """The signal that ended the session, if one did."""
    _supervisor: subprocess.Popen[bytes] | None = None
    _control: int = -1
    _signals: tuple[int, int] = field(default=(-1, -1))

    def events(self) -> Iterator[dict[str, Any]]:
        """Starts the run and yields its events; the last is ``finished``, or ``lost`` when the supervisor died.
        Where a second passes without one, there is a ``tick``.

        Nothing of the run is left when it is exhausted or closed.
        """
        self.spec.group = os.getpgrp()
        processes.become_subreaper()  # The second line: if the supervisor is killed, its orphans come to us.
        control_read, self._control = os.pipe()
        events_read, events_write = os.pipe()
        command = supervisor_command(write_spec(self.spec, self.folder))
        command += ["--control-fd", str(control_read), "--events-fd", str(events_write)]
        self._supervisor = processes.start_supervisor(command, keep_fds=(control_read, events_write))
        os.close(control_read)
        os.close(events_write)
        self._watch_signals()
        finished = False
        try:
            for event in self._read(events_read):
                finished = event["event"] == "finished"
                yield event
                if finished:
                    return
            yield {"event": "lost"}
        finally:
            os.close(self._control)
            os.close(events_read)
            if finished or self._supervisor.poll() is None:
                self._wait_for_supervisor()
            processes.sweep()

    def _wait_for_supervisor(self) -> None:
        assert self._supervisor is not None
        try:
            self._supervisor.wait(10)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def _read(self, fd: int) -> Iterator[dict[str, Any]]:
        rest = b""
        while True:
            ready, _, _ = select.select([fd, self._signals[0]], [], [], 1.0)
            if not ready:
                yield {"event": "tick"}
            if self._signals[0] in ready:
                self._on_signal(os.read(self._signals[0], 2))
            if fd not in ready:
                continue
            data = os.read(fd, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _watch_signals(self) -> None:
        """A thread waits for signals, since only ``sigwaitinfo`` tells whether the terminal sent one to everybody."""
        numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        read, write = os.pipe()
        self._signals = (read, write)

        def wait() -> None:
            while True:
                info = signal.sigwaitinfo(numbers)
                os.write(write, bytes((info.si_signo, int(info.si_code == _SI_KERNEL))))

        threading.Thread(target=wait, name="signals", daemon=True).start()

    def _on_signal(self, data: bytes) -> None:
        number, from_terminal = data[0], bool(data[1])
        self.interrupts += 1
        self.ended_by = self.ended_by or number
        if self.interrupts > 1:
            word = "hurry"
        else:
            word = "interrupted" if from_terminal else "cancel"
        try:
            os.write(self._control, f"{word}\n".encode())
        except OSError:
            return  # The supervisor is gone; reading its events ends next.
