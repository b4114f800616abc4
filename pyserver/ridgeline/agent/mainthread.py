"""Runs a function in the main thread between two bytecodes, from another thread, without a signal.

A signal would interrupt system calls of the program and of its libraries, and its handler can be replaced;
``Py_AddPendingCall`` does neither. It waits while the main thread is inside one long C call.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable

_CALLBACK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class MainThread:
    """A queue of functions for the main thread. Exceptions of a function go to ``on_error``."""

    def __init__(self, on_error: Callable[[str, BaseException], None]) -> None:
        self._queue: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._on_error = on_error
        self.inside = False
        """True while a task runs in the main thread: nothing may be raised through the C call around it."""
        self._callback = _CALLBACK(self._drain)
        self._add = ctypes.pythonapi.Py_AddPendingCall
        self._add.argtypes = [_CALLBACK, ctypes.c_void_p]
        self._add.restype = ctypes.c_int

    def _drain(self, _: int | None) -> int:
        self.inside = True
        try:
            while self._queue:
                try:
                    function, done = self._queue.popleft()
                except IndexError:
                    break
                try:
                    function()
                except Exception as error:  # noqa: BLE001 - must not surface between two lines of the user's
                    self._on_error("a task in the main thread", error)
                done.set()
        finally:
            # The very last thing: between this and the return no other thread runs, so that an exception that one of
            # them throws at the main thread reaches the program's own code and never this C callback.
            self.inside = False
        return 0

    def call(self, function: Callable[[], None], patience_s: float) -> bool:
        """Run ``function`` in the main thread; False if it did not come to it within ``patience_s`` (then it never will).

        Called from the main thread itself it runs at once.
        """
        if threading.current_thread() is threading.main_thread():
            function()
            return True
        done = threading.Event()
        entry = (function, done)
        self._queue.append(entry)
        self._add(self._callback, None)
        if done.wait(patience_s):
            return True
        try:
            self._queue.remove(entry)
        except ValueError:
            return done.wait(60.0)  # it has just begun
        return False

    def end(self, exception: type[BaseException] | None, otherwise: Callable[[], None], patience_s: float) -> None:
        """Raise ``exception`` in the main thread at its next bytecode, so that it cleans up as on ``sys.exit``.

        With ``None`` the caller raises it itself. ``otherwise`` is called from a thread of its own if the process is
        still there after ``patience_s``: the main thread sits in one long call, or other threads go on.
        """

        def wait() -> None:
            ident = threading.main_thread().ident
            while self.inside:  # raised through the C call around a task of ours it would be a SystemError
                time.sleep(0.01)
            if ident is not None and exception is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(exception))
            time.sleep(patience_s)
            otherwise()

        threading.Thread(target=wait, name="ridgeline-end", daemon=True).start()
