"""The unprofiled round of a program that marks no steps: time by allocations (the agent's ``counted`` tells how they are counted)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from ridgeline.assemble.devices import WindowOf
from ridgeline.sidecar import Sidecar
from ridgeline.sidecar import Window as RecordedWindow
from ridgeline.trace.tables import Trace

FEWEST = 200
"""Allocations in either of two stretches that are compared: one more or less is half a per cent."""
ROUNDS = 3
"""Rounds that the two stretches hold together: they begin and end anywhere in one, and a round need not allocate evenly."""
ALIKE = 0.05
"""Two stretches after one another that differ by no more in their pace: then neither matters where in a round they began, nor has the
program turned to something else. (Rounds of three of the blind programs were between 10 and 250 ms long; the agent waits up to three
seconds for stretches to be alike within 3 %.)"""
LONGER = 1.1
"""A recording makes nothing faster: rounds that take so much longer without it are other work, or have other allocations."""
FEW = "it allocates too little memory on the device to count by"
LAST = 2
"""Looks in a half of the last stretch, on which the agent ends."""


def counted_steps(trace: Trace, sidecar: Sidecar | None, window: WindowOf) -> tuple[Sidecar | None, str | None]:
    """The sidecar with the unprofiled and the recorded step, where steps are rounds of a loop and allocations tell how long one takes
    without the profiler. Else as it is, and why they do not; no reason where there was nothing to count."""
    name = trace.path.rsplit("/", 1)[-1]
    own = next((w for w in sidecar.windows if w.trace == name), None) if sidecar is not None else None
    if sidecar is None or own is None or sidecar.plain_steps_ns or own.allocations is None or not window.steps:
        return sidecar, None
    a_round = of_a_round(trace, own.allocations)
    found = plain_rounds_ns(own, a_round) if a_round else FEW
    recorded_ns = 1000 * window.wall_us / window.steps
    if not isinstance(found, str) and float(np.mean(found)) > LONGER * recorded_ns:
        found = "the program turned to something else after it"
    if isinstance(found, str):
        return sidecar, f"how long it takes without the profiler is not known: {found}"
    return replace(sidecar, plain_steps_ns=found, profiled_steps_ns=[round(recorded_ns)]), None


def of_a_round(trace: Trace, allocations: int) -> float:
    """Allocations of a recorded round: those of the whole recording, less the part that its operations before the first round and
    after the last one had; 0 without operations."""
    spans = [step.asked or (step.start, step.start + step.dur) for step in trace.steps]
    if not spans or not len(trace.ops.start):
        return 0.0
    starts = np.sort(trace.ops.start)
    within = int(np.diff(np.searchsorted(starts, np.array(spans, dtype=np.float64))).sum())
    return allocations * within / len(starts) / len(spans)


def plain_rounds_ns(own: RecordedWindow, a_round: float) -> list[int] | str:
    """Nanoseconds of a round in each of two stretches after one another, unprofiled; else why there are none, in words."""
    looks = own.plain_counts
    most = (len(looks) - 1) // 2
    if (own.allocations or 0) < FEWEST:
        return FEW
    if not looks:
        return "the program ended with the recording, or a call into torch outlived it"
    if most < 1:
        return "the program ended too soon after the recording"
    differ = 0.0
    for half in dict.fromkeys((min(LAST, most), most)):
        parts = looks[-1 - 2 * half : len(looks) - half], looks[-1 - half :]
        counts = [rows[-1][2] - rows[0][2] for rows in parts]
        if min(counts) < FEWEST:
            return FEW
        if sum(counts) < ROUNDS * a_round:
            continue
        paces = [sum(b[0] - a[1] for a, b in pairwise(rows)) / n for rows, n in zip(parts, counts)]
        differ = max(paces) / min(paces) - 1
        if differ <= ALIKE:
            return [round(one * a_round) for one in paces]
    if not differ:
        return f"fewer than {ROUNDS} rounds followed the recording"
    return f"two stretches of time after the recording differ by {100 * differ:.0f} % in the time of a round"
