"""A-B-A-B of a kernel as compiled against its copy with the wider search, in this process and on the same arguments.

Both are copies without caches, so nothing is read from or written to the caches of the user's (their folders are set to a
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


def compare(
    measuring: Measuring, name: str, search: dict[str, Any], given: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """Raw samples of the rounds (seconds), the configuration that the search chose, and what compiling took."""
    from .kernels import _resources, load

    folder = os.path.dirname(measuring.request["path"])
    built: dict[str, Any] = {}
    for which in ("plain", "wider"):
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
    rounds: dict[str, list[list[float]]] = {"plain": [], "wider": []}
    for _ in range(ROUNDS):
        if measuring.session.late:
            raise TimeoutError("the time is up (--timeout)")
        for which in ("plain", "wider"):
            taken = measuring.clock.cold(built[which][1])
            rounds[which].append(taken["seconds"])
            tick_s = taken["tick_s"]
    return {
        "before": rounds["plain"],
        "after": rounds["wider"],
        "tick_s": tick_s,
        "before_config": _resources(built["plain"][0])["config"],
        "after_config": _resources(built["wider"][0])["config"],
        "compile_s": max(0.0, built["wider"][2] - built["plain"][2]),
    }
