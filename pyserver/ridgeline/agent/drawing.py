"""How long the loop's own thread draws the indices of batches: samplers run there, within ``next()``, whatever workers there are.

``_BaseDataLoaderIter._next_index`` asks the sampler (alike in torch 2.9 to 2.14): of the batch itself without workers, with workers of
one that is as many batches ahead as are prefetched. Where it is gone the answer is "unknown".
"""

from __future__ import annotations

import time
from typing import Any

Draw = tuple[int, int]
"""Start and end, nanoseconds of the Unix clock."""


def hook(base: Any) -> bool:
    """``base``: torch's class of iterators. Whether drawing can be timed."""
    draw = getattr(base, "_next_index", None)
    if draw is None:
        return False

    def _next_index(self: Any) -> Any:
        draws: list[Draw] | None = getattr(self, "_ridgeline_draws", None)
        if draws is None:
            return draw(self)
        begin = time.time_ns()
        try:
            return draw(self)
        finally:  # a sampler that is at its end has looked for more
            draws.append((begin, time.time_ns()))

    base._next_index = _next_index
    return True


def begin(iterator: Any) -> None:
    """The loop asks for a batch. What is drawn before, when workers begin, belongs to no batch."""
    iterator._ridgeline_draws = []


def end(iterator: Any) -> tuple[Draw, ...]:
    """It has come: what was drawn meanwhile."""
    draws: list[Draw] = iterator._ridgeline_draws
    iterator._ridgeline_draws = None
    return tuple(draws)


def took_ns(draws: tuple[Draw, ...]) -> int:
    return sum(end - begin for begin, end in draws)
