"""Calls into torch that outlive a recording.

An operator's scope that was entered in one Kineto session and is left in a later one makes torch write into the first
one's freed buffers: the heap is damaged, and the program dies later, anywhere. (``labels`` mends the same for
``record_function``, whose scopes can be reached; those in C++ cannot: a backward pass, a compiled region, an operator
that calls back into Python.) Such a scope lies below a call into torch, and that call's frame can be seen: so no
recording opens before every call that was running when the last one closed has returned.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from types import FrameType

QUIET = (
    "autograd/profiler.py",
    "distributed/elastic/",
    "distributed/launcher/",
    "distributed/run.py",
    "multiprocessing/",
    "nn/modules/",
    "optim/",
    "profiler/",
    "utils/_contextlib.py",
    "utils/benchmark/",
    "utils/data/",
)
"""Parts of torch that call the user's code and hold no scope meanwhile but a ``record_function``. Whole programs run
below one of them (a decorator ``torch.no_grad()``, a module's ``forward``), so waiting for its end would be for ever."""


MONITORS = (os.path.join("tqdm", "_monitor.py"),)
"""Threads of libraries that only look on. Inductor counts its kernels with tqdm, so every compiled program has that one."""


class UnfinishedCalls:
    """``note`` when a recording closes, ``ended`` before the next one opens; any thread."""

    def __init__(self, torch_folder: str) -> None:
        self._prefix = torch_folder.rstrip(os.sep) + os.sep
        paths = sysconfig.get_paths()
        self._library = tuple(paths[key].rstrip(os.sep) + os.sep for key in ("stdlib", "platstdlib"))
        self._installed = tuple(paths[key].rstrip(os.sep) + os.sep for key in ("purelib", "platlib"))
        self._quiet = tuple(self._prefix + part.replace("/", os.sep) for part in QUIET)
        self._frames: list[FrameType] = []
        """Kept by reference, for an identity may be used again; ``ended`` lets go of those that have returned, and is
        called several times a second, for a frame keeps the arguments of its call alive."""

    def note(self) -> None:
        """Remember the calls that run just now, in all threads."""
        stacks = filter(self._runs_anything_else, _stacks())
        self._frames = [frame for stack in stacks for frame in stack if self._may_hold_a_scope(frame)]

    def ended(self) -> bool:
        """Whether all calls of the last ``note`` have returned."""
        if self._frames:
            running = {id(frame) for stack in _stacks() for frame in stack}
            self._frames = [frame for frame in self._frames if id(frame) in running]
        return not self._frames

    def waited_for(self) -> str | None:
        """One call that has not returned, as ``function (file)``; None if all have."""
        code = self._frames[0].f_code if self._frames else None
        return None if code is None else f"{code.co_name} ({os.path.relpath(code.co_filename, self._prefix)})"

    def others_at_work(self) -> bool:
        """Whether another thread than this one and the agent's is inside code that is not torch's or Python's."""
        mine = sys._getframe()
        while mine.f_back is not None:
            mine = mine.f_back
        found = any(
            stack[-1] is not mine and self._runs_anything_else(stack) and not _looks_on(stack) for stack in _stacks()
        )
        del mine
        return found

    def _runs_anything_else(self, stack: list[FrameType]) -> bool:
        """False for a thread of torch's own, as the one that reads what the compile workers send: it lives as long as the
        process, runs no operator, and nobody's code but torch's and Python's. A thread of the autograd engine starts in C++
        and counts."""
        if stack[-1].f_code.co_filename != threading.__file__:
            return True
        return not all(self._is_torch_or_python(frame.f_code.co_filename) for frame in stack)

    def _is_torch_or_python(self, file: str) -> bool:
        return file.startswith(self._prefix) or (
            file.startswith(("<frozen ", *self._library)) and not file.startswith(self._installed)
        )

    def _may_hold_a_scope(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return file.startswith(self._prefix) and not file.startswith(self._quiet)


def _stacks() -> list[list[FrameType]]:
    """Of every thread its frames, the innermost first; without those of this module.

    A frame that was looked at keeps its variables when it ends: what refers to frames here is let go by hand, or this
    function's own frame would be held by itself, and with it the arguments of every call.
    """
    stacks: list[list[FrameType]] = []
    frames = list(sys._current_frames().values())
    while frames:
        stack: list[FrameType] = []
        frame: FrameType | None = frames.pop()
        while frame is not None:
            if frame.f_code.co_filename != __file__:
                stack.append(frame)
            frame = frame.f_back
        if stack:
            stacks.append(stack)
        del stack
    return stacks


def _looks_on(stack: list[FrameType]) -> bool:
    """A thread of the agent's, or one of a library's that launches nothing."""
    own = os.path.dirname(__file__) + os.sep
    return any(
        frame.f_code.co_filename.startswith(own) or frame.f_code.co_filename.endswith(MONITORS) for frame in stack
    )
