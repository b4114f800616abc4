"""The analysis as a child of the supervisor: a program of its own, so that no damage of a trace reaches anything else."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO

from ridgeline.runs import causes, processes
from ridgeline.runs.folder import RunFolder

Stamp = tuple[int, int, int | None]


@dataclass
class Analysis:
    """At most one worker at a time, started again when there is something new to say."""

    command: list[str]
    """Takes the run folder as its last argument and leaves ``profile.json`` there; empty: there is no analysis."""
    folder: RunFolder
    reaper: processes.Reaper
    failed: causes.Cause | None = None
    """Why the last one failed."""
    _process: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = field(default=None, repr=False)
    _done: Stamp | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pids(self) -> list[int]:
        """Of the worker, which no sweep of the program's tree may touch."""
        return [self._process.pid] if self._process is not None else []

    def stamp(self, ended: int | None) -> Stamp | None:
        """Changes when there is something new to say, the program's end included; ``None`` before there is anything."""
        try:
            return self.folder.sidecar.stat().st_mtime_ns, self.folder.trace.stat().st_mtime_ns, ended
        except OSError:
            return None

    def begun(self) -> bool:
        return self._done is not None

    def up_to_date(self, stamp: Stamp | None) -> bool:
        """Whether all there is has been analysed, or is being."""
        return stamp is None or self._done == stamp

    def start(self, stamp: Stamp) -> None:
        """Starts the worker; ``failed`` says why it did not start."""
        self._done = stamp
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open until the worker ends
        try:
            self._process = processes.start(
                [*self.command, str(self.folder.path)],
                cwd=str(self.folder.path),
                env=os.environ,
                stdin=subprocess.DEVNULL,
                stdout=self._output.fileno(),
                stderr=self._output.fileno(),
            )
        except processes.StartError as error:
            self.failed = causes.of_analysis(None, str(error))
            self._output.close()
            return
        self.reaper.watch(self._process)

    def ended(self) -> bool:
        """Whether the worker has just ended; then ``failed`` tells how it went. What it printed is in the log."""
        if self._process is None or self._process.returncode is None:
            return False
        assert self._output is not None
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        status = self._process.returncode
        self._forget()
        if output:
            self.folder.append_log(output)
        good = status == 0 and self.folder.profile.is_file()
        self.failed = None if good else causes.of_analysis(status, output)
        return True

    def stop(self) -> None:
        """Kills the worker; what it was about is to be analysed again."""
        if self._process is None:
            return
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)  # Our own child and not reaped: the pid is its own.
            while self._process.returncode is None:
                self.reaper.collect()
                time.sleep(0.005)
        self._forget()
        self._done = None

    def _forget(self) -> None:
        assert self._output is not None
        self._output.close()
        self._process = None
