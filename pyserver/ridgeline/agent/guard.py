"""One door to the recorder's state: one thread at a time, never from within itself, never in a forked child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class Guard:
    """``failed`` is told of an exception; none reaches the program, whose step must not break."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self.lock = threading.RLock()
        self._inside = False
        self._pid = os.getpid()

    def __call__(self, action: Callable[[], None]) -> bool:
        """Run ``action``; False in a forked child, and when a hook of ours fired within our own work."""
        if os.getpid() != self._pid:
            return False
        with self.lock:
            if self._inside:
                return False
            self._inside = True
            try:
                action()
            except Exception as error:  # noqa: BLE001 - a failing recorder must not break the user's step
                self._failed(error)
            finally:
                self._inside = False
        return True
