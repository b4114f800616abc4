"""From raw times to what may be said of them: median, spread, rate, order, and where nothing may be said."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

TRUSTED_TICKS = 20
"""A sample shorter than so many ticks of its clock has an error of more than 5 % from the clock alone."""
FEW = 4
"""Below this number of samples there are no quartiles worth the name."""
SAME = 0.03
"""Medians closer than this are a tie even where the samples scatter less: clocks and temperature drift by as much."""
UNSTEADY = 0.2
"""Interquartile range, as a part of the median, from which a time is called unsteady."""
CROWDED = 0.1
"""Part of the time without a core from which a time on the CPU is not the kernel's own."""
WITHOUT_CORE = "its threads were without a core"
NOT_STEADY = "unsteady: the machine is busy, or clocks change"
LAUNCH_US = 200.0
"""An ordinary launch from Python takes tens of microseconds; from here on the host's part is worth a line."""
MUCH = 0.1
"""Part of a sample from which the clock's own share of it is said."""
Cache = Literal["cold", "warm"]


@dataclass(slots=True, frozen=True, kw_only=True)
class Timing:
    """Microseconds a call, in one state of the cache."""

    cache: Cache
    clock: str
    """What took the time: ``cuda events``, ``perf_counter``."""
    samples: int
    calls_per_sample: int
    median_us: float | None
    """None below the timer's resolution."""
    min_us: float | None
    q1_us: float | None
    q3_us: float | None
    spread: float | None
    """Interquartile range as a part of the median."""
    gb_per_s: float | None
    """GB are 10^9 bytes."""
    note: str | None = None


def timing(
    seconds: Sequence[float],
    *,
    cache: Cache,
    clock: str,
    calls: int = 1,
    tick_s: float = 0.0,
    overhead_s: float = 0.0,
    moved_bytes: float | None = None,
    waited: float | None = None,
) -> Timing:
    """``seconds`` are per sample of ``calls`` calls; ``tick_s`` is the resolution of the clock for one sample, and
    ``overhead_s`` what the clock measures of nothing: it is part of a sample, and said where it is much of it. ``waited`` is
    the part of the time that the threads were ready and without a core.

    A median of zero, or below one tick, is no measurement: no time, no rate.
    """
    ordered = sorted(seconds)
    median = statistics.median(ordered) if ordered else 0.0
    common = {"cache": cache, "clock": clock, "samples": len(ordered), "calls_per_sample": calls}
    if median <= 0 or median < tick_s:
        return Timing(
            **common,  # type: ignore[arg-type]
            median_us=None, min_us=None, q1_us=None, q3_us=None, spread=None, gb_per_s=None,
            note="below timer resolution",
        )  # fmt: skip
    per_call = 1e6 / calls
    q1 = q3 = None
    if len(ordered) >= FEW:
        q1, _, q3 = statistics.quantiles(ordered, n=4, method="inclusive")
    note = None
    if median < TRUSTED_TICKS * tick_s:
        note = f"near the timer's resolution: right within {tick_s / median:.0%} at best"
    elif waited is not None and waited > CROWDED:
        note = f"{WITHOUT_CORE} {waited:.0%} of the time: too long, measure again when the machine is idle"
    elif q1 is not None and q3 is not None and (q3 - q1) > UNSTEADY * median:
        note = NOT_STEADY
    elif overhead_s > MUCH * median:
        note = f"up to {shown_us(overhead_s * per_call)} of it is the measurement itself"
    return Timing(
        **common,  # type: ignore[arg-type]
        median_us=median * per_call,
        min_us=ordered[0] * per_call,
        q1_us=None if q1 is None else q1 * per_call,
        q3_us=None if q3 is None else q3 * per_call,
        spread=None if q1 is None or q3 is None else (q3 - q1) / median,
        gb_per_s=None if moved_bytes is None else moved_bytes / 1e9 / (median / calls),
        note=note,
    )


def shown_us(us: float) -> str:
    """A time with at least three digits that mean something: ``812 ns``, ``1.42 µs``, ``54.7 µs``, ``2.47 ms``."""
    for limit, factor, unit in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{us * factor:.3g} {unit}" if us * factor < 999.5 else f"{us * factor:.0f} {unit}"
    return f"{us / 1e6:.3g} s"


@dataclass(slots=True, frozen=True)
class Ranking:
    """``order`` from fastest to slowest; ``tied`` are those that cannot be told from the fastest."""

    cache: Cache
    order: list[str]
    tied: list[str]
    slower: dict[str, float]
    """How many times the fastest one's time each takes."""

    @property
    def sentence(self) -> str:
        if len(self.tied) == len(self.order):
            return f"{self.cache} cache: tie"
        return f"{self.cache} cache: {self.order[0]} is fastest"


def rank(medians_us: Mapping[str, float], cache: Cache, spreads: Iterable[float] = ()) -> Ranking:
    """Order of candidates in one state of the cache. Times of different states are not to be compared."""
    order = sorted(medians_us, key=lambda name: medians_us[name])
    best = medians_us[order[0]]
    margin = max([SAME, *spreads])
    slower = {name: medians_us[name] / best for name in order}
    return Ranking(cache, order, [name for name in order if slower[name] - 1 <= margin], slower)


@dataclass(slots=True, frozen=True)
class Overhead:
    """A kernel's own time beside what a call of it costs the host."""

    kernel_us: float
    host_us: float

    @property
    def sentence(self) -> str | None:
        """None where the host is no slower than the device, or not by enough to be anything but an ordinary launch."""
        if self.host_us <= self.kernel_us or self.host_us < LAUNCH_US:
            return None
        return f"host overhead of measurement {shown_us(self.host_us)}: not part of the kernel's time"


def rate_tflops(flop: float, us: float) -> float | None:
    return flop / us / 1e6 if us > 0 else None
