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
from collections.abc import Iterator
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


class UnfinishedCalls:
    """``note`` when a recording closes, ``ended`` before the next one opens; any thread."""

    def __init__(self, torch_folder: str) -> None:
        self._prefix = torch_folder.rstrip(os.sep) + os.sep
        self._quiet = tuple(self._prefix + part.replace("/", os.sep) for part in QUIET)
        self._frames: list[FrameType] = []
        """Kept by reference, for an identity may be used again; ``ended`` lets go of those that have returned, and is
        called several times a second, for a frame keeps the arguments of its call alive."""

    def note(self) -> None:
        """Remember the calls that run just now, in all threads."""
        self._frames = [frame for frame in _running() if self._may_hold_a_scope(frame)]

    def ended(self) -> bool:
        """Whether all calls of the last ``note`` have returned."""
        if self._frames:
            running = set(map(id, _running()))
            self._frames = [frame for frame in self._frames if id(frame) in running]
        return not self._frames

    def _may_hold_a_scope(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return file.startswith(self._prefix) and not file.startswith(self._quiet)


def _running() -> Iterator[FrameType]:
    """Frames of all threads."""
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            yield frame
            frame = frame.f_back
