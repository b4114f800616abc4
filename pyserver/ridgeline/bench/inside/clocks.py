"""Times of one call, on the CPU's clock or the device's: raw samples in seconds, judged elsewhere."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.agent.machine import scheduled
else:
    from .from_agent import load

    scheduled = load("machine").scheduled

BLOCK_S = 2e-3
"""A warm sample on the CPU is a block of calls this long: a tick of the clock is then no part of it."""
ATTEMPTS = 3
"""How often a block is sized anew."""
BUDGET_S = 0.25
"""For one state of the cache of one kernel."""
FEWEST, MOST = 10, 200
LARGEST_CACHE = 256 << 20


def tick() -> float:
    """The smallest step that this machine's ``perf_counter`` is seen to make, seconds."""
    steps = []
    for _ in range(200):
        start = time.perf_counter()
        end = time.perf_counter()
        while end <= start:
            end = time.perf_counter()
        steps.append(end - start)
    return min(steps)


class CpuClock:
    """Wall time of a call from Python. A call's own overhead (some hundred nanoseconds) is part of it."""

    name = "perf_counter"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tick_s = tick()
        self.cache_bytes = _last_level_cache()
        self._flusher = None

    def warm(self, call: Callable[[], Any]) -> dict[str, Any]:
        call()
        found: dict[str, Any] = {}
        for _ in range(ATTEMPTS):
            calls = self._calls_of_a_block(call)
            found = self._samples(lambda calls=calls: self._block(call, calls), calls)  # type: ignore[misc]
            # A machine that was busy while the block was sized and quiet since: the block came out too short.
            if statistics.median(found["seconds"]) >= BLOCK_S / 2:
                break
        return found

    def _calls_of_a_block(self, call: Callable[[], Any]) -> int:
        calls = 1
        while True:
            # The shortest of a few: one that was interrupted says nothing about how many calls fill a block.
            spent = min(self._block(call, calls) for _ in range(5))
            if spent >= BLOCK_S or calls >= 1 << 22:
                return calls
            calls = min(calls * 10, max(calls + 1, int(calls * BLOCK_S * 1.2 / max(spent, 1e-9))))

    def cold(self, call: Callable[[], Any]) -> dict[str, Any]:
        """Every sample is one call after more than the last-level cache was written; the flush is outside of the time."""
        if self._flusher is None:
            self._flusher = self.torch.empty(2 * self.cache_bytes, dtype=self.torch.uint8)
        flusher: Any = self._flusher

        def sample() -> float:
            flusher.add_(1)
            return self._block(call, 1)

        call()
        return self._samples(sample, 1)

    def _samples(self, sample: Callable[[], float], calls: int) -> dict[str, Any]:
        seconds: list[float] = []
        since, ran = time.perf_counter(), scheduled()
        while len(seconds) < FEWEST or (len(seconds) < MOST and time.perf_counter() - since < BUDGET_S):
            seconds.append(sample())
            if time.perf_counter() - since > 8 * BUDGET_S and len(seconds) >= 3:
                break
        return {
            "seconds": seconds,
            "calls": calls,
            "tick_s": self.tick_s,
            "clock": self.name,
            "waited": waited_part(ran, scheduled()),
        }

    @staticmethod
    def _block(call: Callable[[], Any], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start


class CudaClock:
    """CUDA events around the kernel alone: a spin kernel keeps the device busy until the host has queued everything.

    Where the host came too late (the device had begun before all was queued) the samples would hold gaps: they are taken again
    behind a longer spin. A cold sample is a flush, an event, the call, an event, and many of them follow one another behind
    one spin, after one that is not timed: to the device the same as Inductor's own benchmarker, with which the times are to
    be compared. (Each alone behind a spin and a flush of twice the L2, on an H200 the fastest of 100 was 0.35 us longer in
    the median over 128 kernels of 4 to 150 us.) What a pair of events measures of nothing between them is kept as ``overhead_s``; it is not subtracted, for
    Inductor's does not either.
    """

    name = "cuda events"
    TICK_S = 5e-7
    """Resolution of ``cudaEventElapsedTime`` as NVIDIA documents it, an upper bound: devices show finer steps."""
    SPIN_CYCLES, SPIN_CYCLES_A_CALL = 2_000_000, 60_000
    """About a millisecond, and 30 us for each call: longer than it takes to queue a sample."""
    CYCLES_A_SECOND = 2_000_000_000
    """About the fastest that devices run."""
    LONGEST_SPIN = 64
    MOST = 300
    """Samples: as many as Inductor's benchmarker takes in the three times that it is asked."""
    IN_A_ROW = 20
    """Cold samples behind one spin."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.cache_bytes = int(getattr(properties, "L2_cache_size", 0) or LARGEST_CACHE)
        self._flusher: Any = None
        self._spin = 1
        self._pairs: list[tuple[Any, Any]] = []
        self.host_s: list[float] = []
        """Seconds that the host took for each call of the last samples."""
        self.late = 0
        """Times that samples were taken again since the host had not queued them in time."""
        empty = [self._sample(lambda: None, 1, flush=False) for _ in range(60)]
        self.overhead_s = statistics.median(empty)
        self.tick_s = _step(empty, self.TICK_S)

    def warm(self, call: Callable[[], Any]) -> dict[str, Any]:
        """Samples of calls in a row on the same buffers; what fits the L2 is read from there."""
        once = self._sample(call, 1, flush=False)
        calls = max(1, min(200, int(200e-6 / max(once, 1e-6))))
        return self._samples(lambda: [self._sample(call, calls, flush=False)], calls)

    def cold(self, call: Callable[[], Any]) -> dict[str, Any]:
        """One call a sample after a buffer of the L2's size was zeroed, as Inductor's own benchmarker does."""
        once = self._sample(call, 1, flush=True)
        host_s = self.host_s[-1]
        row = max(1, min(self.IN_A_ROW, int(BUDGET_S / 4 / max(once, host_s, 1e-6))))
        a_call = max(2 * self.SPIN_CYCLES_A_CALL, int(2 * host_s * self.CYCLES_A_SECOND))
        return self._samples(lambda: self._row(call, row, a_call), 1)

    def _row(self, call: Callable[[], Any], count: int, cycles_a_call: int) -> list[float]:
        """``count`` cold samples one after another, seconds."""
        while True:
            seconds, late = self._row_once(call, count, cycles_a_call)
            if not late:
                return seconds
            self.late += 1
            if self._spin < self.LONGEST_SPIN:
                self._spin *= 2
            elif count > 1:
                count //= 2
            else:
                return seconds

    def _row_once(self, call: Callable[[], Any], count: int, cycles_a_call: int) -> tuple[list[float], bool]:
        cuda = self.torch.cuda
        while len(self._pairs) < count:
            self._pairs.append((cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)))
        pairs, flusher = self._pairs[:count], self._flush_buffer()
        cuda._sleep(self._spin * (self.SPIN_CYCLES + (count + 1) * cycles_a_call))
        flusher.zero_()
        call()
        for start, end in pairs:
            flusher.zero_()
            start.record()
            since = time.perf_counter()
            call()
            self.host_s.append(time.perf_counter() - since)
            end.record()
        late = bool(pairs[0][0].query())  # the device has passed the first event while the host was still queuing
        cuda.synchronize()
        return [float(start.elapsed_time(end)) / 1e3 for start, end in pairs], late

    def _flush_buffer(self) -> Any:
        if self._flusher is None:
            self._flusher = self.torch.empty(self.cache_bytes // 4, dtype=self.torch.int32, device="cuda")
        return self._flusher

    def _sample(self, call: Callable[[], Any], calls: int, *, flush: bool) -> float:
        while True:
            seconds, late = self._once(call, calls, flush=flush)
            if not late or self._spin >= self.LONGEST_SPIN:
                return seconds
            self.late += 1
            self._spin *= 2

    def _once(self, call: Callable[[], Any], calls: int, *, flush: bool) -> tuple[float, bool]:
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        flusher = self._flush_buffer() if flush else None
        cuda._sleep(self._spin * (self.SPIN_CYCLES + (calls + 1) * self.SPIN_CYCLES_A_CALL))
        if flusher is not None:
            flusher.zero_()
        else:
            call()  # not timed: its code is in the instruction caches then, as its data is in the L2
        start.record()
        since = time.perf_counter()
        for _ in range(calls):
            call()
        self.host_s.append((time.perf_counter() - since) / calls)
        end.record()
        late = bool(start.query())  # the device has passed the first event while the host was still queuing
        cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3, late

    def _samples(self, sample: Callable[[], list[float]], calls: int) -> dict[str, Any]:
        seconds: list[float] = []
        self.host_s.clear()
        since = time.perf_counter()
        while len(seconds) < FEWEST or (len(seconds) < self.MOST and time.perf_counter() - since < BUDGET_S):
            seconds += sample()
            if time.perf_counter() - since > 8 * BUDGET_S and len(seconds) >= 3:
                break
        return {
            "seconds": seconds,
            "calls": calls,
            "tick_s": self.tick_s,
            "clock": self.name,
            "overhead_s": self.overhead_s,
            "host_s": statistics.median(self.host_s),
        }


def waited_part(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Which part of the time that they wanted to run the threads had no core."""
    if before is None or after is None:
        return None
    ran, waited = after[0] - before[0], after[1] - before[1]
    return waited / (ran + waited) if ran + waited > 0 and waited >= 0 else None


def _step(samples: list[float], at_most: float) -> float:
    """The smallest difference between samples that differ, seconds: the step of their clock, or a bound of it."""
    distinct = sorted(set(samples))
    steps = [b - a for a, b in itertools.pairwise(distinct) if b - a > 1e-9]
    return min([*steps, at_most])


def _last_level_cache() -> int:
    """Bytes of the largest cache of the first core; a large guess where the system does not say."""
    best = 0
    folder = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for entry in os.listdir(folder):
            with open(os.path.join(folder, entry, "size"), encoding="ascii") as file:
                text = file.read().strip()
            factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
            best = max(best, int(text.rstrip("KM")) * factor)
    except (OSError, ValueError):
        return LARGEST_CACHE // 4
    return min(best, LARGEST_CACHE) or LARGEST_CACHE // 4
