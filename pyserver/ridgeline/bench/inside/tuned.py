"""A kernel as compiled against copies with the narrow and the wider search, A-B-C-A-B-C, in one process, on the same arguments.

All are copies without caches, so nothing is read from or written to the caches of the user's (their folders are set to a
temporary one by whoever starts this process).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .arguments import copied

if TYPE_CHECKING:
    from .kernels import Measuring

ROUNDS = 2
COPIES = ("plain", "narrow", "wider")


def compare(
    measuring: Measuring, name: str, search: dict[str, Any], given: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """Per copy: raw samples of the rounds (seconds), the configuration it ended with, seconds until it had run once."""
    from .kernels import _resources, load

    folder = os.path.dirname(measuring.request["path"])
    built: dict[str, Any] = {}
    for which in COPIES:
        if measuring.session.late:
            raise TimeoutError("the time is up (--timeout)")
        path = os.path.join(folder, f"{which}_{measuring.wanted[name]['index']}.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write(search[which])
        start = time.perf_counter()
        kernel = getattr(load(path, f"{which}_{measuring.wanted[name]['index']}"), search["symbol"])
        call = measuring.call_of(kernel, copied(measuring.torch, given), named)
        call()
        measuring._synchronize()
        built[which] = (kernel, call, time.perf_counter() - start)
    tick_s = 0.0
    rounds: dict[str, list[list[float]]] = {which: [] for which in COPIES}
    for _ in range(ROUNDS):
        if measuring.session.late:
            raise TimeoutError("the time is up (--timeout)")
        for which in COPIES:
            taken = measuring.clock.cold(built[which][1])
            rounds[which].append(taken["seconds"])
            tick_s = taken["tick_s"]
    return {
        "tick_s": tick_s,
        "copies": {
            which: {"rounds": rounds[which], "config": _resources(kernel)["config"], "compile_s": seconds}
            for which, (kernel, _, seconds) in built.items()
        },
    }
