"""The ways in which a program ends, each kept as it is, with what was recorded put on disk first."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from .paths import is_ours

Finish = Callable[[str, "int | None"], None]
USUAL = "end of the program"
"""How most programs end."""


def strip_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback as the program alone would have left it: without the agent's frames at its start."""
    while traceback is not None and is_ours(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def show_as_plain_python() -> None:
    """Let the interpreter print the exception that is leaving ``main``, with the user's own hook, without our frames."""
    users = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> Any:
        sys.excepthook = users
        stripped = strip_own_frames(traceback)
        if value.__traceback__ is traceback:
            value.__traceback__ = stripped
        return users(kind, value, stripped)

    sys.excepthook = excepthook


class Exits:
    """Hooks on process exit. ``finish(how, status)`` is called once, in the process that was profiled only."""

    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._pid = os.getpid()
        self._done = False
        self.busy = False
        """True while a result is being written: a SIGTERM then waits for it."""
        self._pending: int | None = None
        self.leave: Callable[[int], Any] = os._exit
        """The interpreter's own ``os._exit``."""

    def install(self) -> None:
        # Registered first, so it runs after every atexit function of the program's own.
        atexit.register(self.finish, USUAL)
        leave = self.leave = os._exit

        def _exit(status: int) -> None:
            self.finish("os._exit", status)
            leave(status)

        os._exit = _exit  # type: ignore[assignment]
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_term)

    def finish(self, how: str, status: int | None = None) -> None:
        if self._done or os.getpid() != self._pid:
            return
        self._done = True
        try:
            self._finish(how, status)
        except Exception as error:  # noqa: BLE001 - the program's exit status must not depend on us
            print(f"ridgeline: the result could not be written: {type(error).__name__}: {error}", file=sys.stderr)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._pid and self.busy:
            self._pending = number
            return
        self.finish(f"signal {signal.Signals(number).name}", -number)
        self._die(number)

    def after_work(self) -> None:
        """Call once the result is written: a signal that came meanwhile takes effect."""
        if self._pending is not None:
            number, self._pending = self._pending, None
            self.finish(f"signal {signal.Signals(number).name}", -number)
            self._die(number)

    @staticmethod
    def _die(number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def status_of(error: BaseException | None) -> int:
    """The exit status that Python gives for what leaves the main module."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code & 0xFF if isinstance(error.code, int) else 1
    return 130 if isinstance(error, KeyboardInterrupt) else 1
