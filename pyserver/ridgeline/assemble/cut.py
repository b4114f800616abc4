"""What a recording holds beside its steps: the program's start, and operators that were still at work when it ended."""

from __future__ import annotations

import numpy as np

from ridgeline.sidecar import Sidecar
from ridgeline.trace.nesting import nest, threads_of
from ridgeline.trace.tables import Trace

STEPS = 3
"""With as many the steps speak for the program by themselves; with fewer, all that was recorded."""


def holds_start(trace: Trace, sidecar: Sidecar | None, name: str) -> bool:
    """Whether the trace file ``name`` is of a program that ended early, recorded from its beginning on: its data, its model and its
    first step are in it beside the steps that it is judged by."""
    own = next((w for w in sidecar.windows if w.trace == name), None) if sidecar is not None else None
    return own is not None and own.reason == "whole" and len(own.steps) >= STEPS and bool(trace.steps)


def end_with_steps(trace: Trace, sidecar: Sidecar | None, name: str) -> None:
    """Let operators of the trace file ``name`` that the recording cut off end with the last step.

    Where compiled regions delimit the steps, the recording ends inside of one: its record lasts until the profiler has
    stopped, some 20 ms that are none of the program's. Such an operator counts up to the end of the last step, for what
    came after belongs to none; one that began after it, up to the end of the window. Changes ``dur`` and ``self_dur``; call it once the steps are adopted.
    """
    own = next((w for w in sidecar.windows if w.trace == name), None) if sidecar is not None else None
    if own is None or not own.steps or trace.base_ns is None or not trace.steps:
        return
    ops = trace.ops
    stopped = (own.end_ns - trace.base_ns - trace.origin_ns) / 1000
    last = min(max(step.start + step.dur for step in trace.steps), stopped)
    cut = np.flatnonzero((ops.start < stopped) & (ops.start + ops.dur > stopped))
    if not len(cut):
        return
    ops.dur = ops.dur.copy()
    ops.dur[cut] = np.where(ops.start[cut] < last, last, stopped) - ops.start[cut]
    _, ops.self_dur = nest(ops.start, ops.dur, threads_of(ops.pid, ops.tid))
