"""Shares of the wall as Inductor's own module report computes them, and why they need not fit together.

``python MODULE.py -p`` divides the device time of a *profiled* run by the wall time of another, unprofiled one
(``torch/_inductor/wrapper_benchmark.py``). Where the profiled run was slower, or its clocks other, the shares sum to more
than the whole. Ridgeline takes both from one run, so its shares of the wall never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROUNDING = 0.05
"""Points that the sum of a handful of rounded percentages may be off by."""


@dataclass(slots=True, frozen=True)
class Report:
    shares_pct: dict[str, float]
    busy_pct: float
    wall_ms: float | None
    explanation: str | None
    """Why the shares cannot be of one run; None where they can."""


def inductor_way(category_ms: Mapping[str, float], wall_ms: float) -> Report:
    """Each category's device time (ms a call) over the wall (ms a call) of the run without the profiler.

    ``busy_pct`` is their sum: it counts kernels on two streams twice. Raises ``ValueError`` for a wall of zero.
    """
    if wall_ms <= 0:
        raise ValueError("a wall time of zero has no shares")
    shares = {name: ms / wall_ms * 100 for name, ms in category_ms.items()}
    return explained(shares, wall_ms)


def explained(shares_pct: Mapping[str, float], wall_ms: float | None = None) -> Report:
    """The report of shares that somebody computed: their sum, and what a sum above the whole means."""
    total = sum(shares_pct.values())
    why = None
    if total > 100 + ROUNDING:
        why = (
            f"the shares sum to {total:.2f} %: the wall time comes from another run than the device times"
            f" (of its own run's wall, or on one stream, they cannot exceed 100 %)"
        )
    return Report(dict(shares_pct), total, wall_ms, why)


def of_one_run(category_us: Mapping[str, float], busy_us: float, wall_us: float) -> dict[str, tuple[float, float]]:
    """Category -> (share of the device's time, share of the wall) in percent, all from one run.

    ``busy_us`` is the union of the device's intervals: where kernels overlap, categories share it in proportion, so that
    the shares of the wall sum to the busy share and not to more. Raises ``ValueError`` for a wall of zero.
    """
    if wall_us <= 0:
        raise ValueError("a wall time of zero has no shares")
    total = sum(category_us.values())
    scale = min(1.0, busy_us / total) if total > 0 else 0.0
    return {name: (us / total * 100 if total else 0.0, us * scale / wall_us * 100) for name, us in category_us.items()}
