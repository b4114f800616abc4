"""Detaching CUPTI, so that the program is as fast after a recording as without one.

Kineto leaves CUPTI attached when a session ends, and then every launch costs more (pytorch/pytorch#144455). Its own switch
is ``TEARDOWN_CUPTI``, read whenever a session's data are thrown away: at its end, and again when the next one is set up.
With ``1`` a thread of its own calls ``cuptiFinalize`` from within the next call of the CUDA runtime, whichever thread makes
it, and ends. Two such threads at once damage the process (pytorch/kineto#1169), and a finalization within a session takes
its device records (pytorch/kineto#1554). So the switch is on for the end of one session alone, a short one made for this
once nothing more is to be recorded; this waits for that thread; and the switch is off around all other sessions of ours,
though the user may have set it.

CUDA graphs crashed after this before CUDA 12.6 (torch itself keeps CUPTI attached there); below that, and where the user has
set the switch to ``0``, nothing is detached.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SWITCH = "TEARDOWN_CUPTI"
SINCE_CUDA = (12, 6)
PATIENCE_S = 2.0
TICK_S = 0.002


@contextmanager
def switched(value: str) -> Iterator[None]:
    """``TEARDOWN_CUPTI`` for the sessions within; afterwards it is as the program left it."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = value
    try:
        yield
    finally:
        if os.environ.get(SWITCH) == value:  # else torch has set it meanwhile
            if before is None:
                os.environ.pop(SWITCH, None)
            else:
                os.environ[SWITCH] = before


@contextmanager
def kept() -> Iterator[None]:
    """No detaching by a session within, for another one of ours may follow at once."""
    if os.environ.get(SWITCH) != "1":
        yield
        return
    with switched("0"):
        yield


def fixed(torch: Any) -> str | None:
    """Why CUPTI, once attached to this process, cannot be detached whatever the program does; None if it can be."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 is set"
    version = str(getattr(getattr(torch, "version", None), "cuda", None) or "")
    numbers = version.split(".")[:2]
    if not all(part.isdigit() for part in numbers) or tuple(map(int, numbers)) < SINCE_CUDA:
        return f"CUDA {version or 'of this torch'}"
    return "the system does not tell of threads" if _threads() is None else None


def detach(torch: Any, recording: Any) -> bool:
    """End the new session ``recording`` (a ``kineto.Recording``, not started yet) as the one after which CUPTI goes.

    Returns whether it has gone. Costs some milliseconds, waits for the device. Call it where a session may be opened.
    """
    recording.start()
    with switched("1"):
        before = _threads() or set()
        recording.stop(last=True)
        begun = (_threads() or set()) - before
        return bool(begun) and _left(torch, begun)


def _left(torch: Any, begun: set[int]) -> bool:
    """Whether the finalizing thread has ended: with every call of the runtime it gets another chance."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        torch.cuda.synchronize()
        if not begun & (_threads() or set()):
            return True
        time.sleep(TICK_S)
    return False


def _threads() -> set[int] | None:
    """Native threads of this process; None where the system does not tell."""
    try:
        return {int(name) for name in os.listdir("/proc/self/task")}
    except (OSError, ValueError):
        return None
