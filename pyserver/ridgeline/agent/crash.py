"""Where a program was when a signal such as SIGSEGV ended it: the interpreter writes its frames into the run folder."""

from __future__ import annotations

import faulthandler
import os

NAME = "crash.txt"


def keep_frames(folder: str) -> None:
    """From now on. Left alone where the program's environment has the interpreter print them already, and replaced by
    the program's own ``faulthandler.enable()``."""
    if not faulthandler.is_enabled():
        file = open(os.path.join(folder, NAME), "w")  # noqa: SIM115 - open until the process ends, whatever ends it
        os.set_inheritable(file.fileno(), False)
        faulthandler.enable(file)


def forget_empty(folder: str) -> None:
    """At the end of a program that did not crash."""
    path = os.path.join(folder, NAME)
    if os.path.exists(path) and not os.path.getsize(path):
        os.unlink(path)
