"""What a step is where only the agent marked them, and how long one takes where the host runs ahead of the device."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.timeline import load_timeline
from ridgeline.profile_io import UnreadableError
from ridgeline.sidecar import Sidecar
from ridgeline.trace.intervals import clip, union
from ridgeline.trace.tables import I64, StepRow, Trace
from ridgeline.trace.work import WorkTable, asked_at

AHEAD = 1.02
"""The device needs more than so many times what the host needs, from the end of the first step to that of the last. A host
that is held back by a full queue of launches goes at the device's pace, as many steps ahead as it may be."""

BUSY = 0.9
"""Part of that time in which the device works: an idle device waits for the host, and does not set the pace."""


def adopt_steps(trace: Trace, sidecar: Sidecar | None, name: str) -> None:
    """Steps that only the agent knows (optimizer steps, compiled regions) of the trace file ``name``."""
    if sidecar is None or trace.base_ns is None:
        return
    own = next((w for w in sidecar.windows if w.trace == name), None)
    if own is not None and own.steps and not any(s.name.startswith("ProfilerStep") for s in trace.steps):
        zero = trace.base_ns + trace.origin_ns
        trace.steps = [
            StepRow(
                name=f"{own.marker or 'step'} {number}",
                start=(step.start_ns - zero) / 1000,
                dur=(step.end_ns - step.start_ns) / 1000,
            )
            for number, step in enumerate(own.steps)
        ]


def steps_of_loop(trace: Trace, sidecar: Sidecar | None, run_dir: Path | None) -> str | None:
    """Where nothing marks steps: the rounds of the program's own loop, by the lines that were recorded, of the thread that calls
    the most operations. Returns what to tell the person where steps were found."""
    ops = trace.ops
    if trace.steps or not len(ops.start) or trace.base_ns is None or run_dir is None:
        return None
    if sidecar is None or sidecar.timeline is None:
        return None
    zero = trace.base_ns + trace.origin_ns
    timeline = load_timeline(sidecar.timeline, run_dir, SourceStore(sidecar=sidecar, run_dir=run_dir, recorded_ns=zero))
    ids, where = np.unique(ops.tid, return_inverse=True)
    thread = int(ids[int(np.argmax(np.bincount(where.reshape(-1))))])
    mine = ops.tid == thread
    begin, end = float(ops.start[mine].min()), float((ops.start + ops.dur)[mine].max())
    found = timeline.rounds(thread, zero + 1000 * begin, zero + 1000 * end) if timeline is not None else None
    if found is None:
        return None
    at, began = found
    edges = ((began - zero) / 1000).tolist()
    trace.steps = [
        StepRow(name=f"round {number}", start=lo, dur=hi - lo) for number, (lo, hi) in enumerate(pairwise(edges))
    ]
    place = f"{at.file.rsplit('/', 1)[-1]}:{at.line}"
    return f"the program marks no steps (no optimizer, loader or compiled region): a step is a round of its loop at {place}"


def within_steps(trace: Trace, work: WorkTable) -> WorkTable:
    """The work of a CPU that lies in the steps, where the recording began and ended in the middle of one."""
    if not work.on_cpu:
        return work
    lo, hi = trace.steps[0].start, trace.steps[-1].start + trace.steps[-1].dur
    keep = (work.start >= lo) & (work.start < hi)
    columns = {f.name: getattr(work, f.name)[keep] for f in fields(work) if f.name != "on_cpu"}
    return replace(work, **columns)


def select_steps(trace: Trace, chosen: tuple[int, int] | None) -> None:
    """Leave only the steps from ``first`` up to ``last``. Raises UnreadableError where the trace has no such steps."""
    if chosen is None:
        return
    first, last = chosen
    if not 0 <= first < last <= len(trace.steps):
        raise UnreadableError(
            f"--select-steps {first}:{last}: the trace has {len(trace.steps)} steps; choose within 0:{len(trace.steps)}"
        )
    trace.steps = trace.steps[first:last]


def handed_over(trace: Trace, work: WorkTable) -> list[I64]:
    """Of each step the rows of the work that the host asked for in it, by when it did."""
    asked = asked_at(trace, work)
    order = np.argsort(asked, kind="stable")
    spans = [step.asked or (step.start, step.start + step.dur) for step in trace.steps]
    low, high = np.searchsorted(asked[order], np.array(spans, dtype=np.float64).reshape(-1, 2).T)
    return [order[first:last] for first, last in zip(low.tolist(), high.tolist(), strict=True)]


def pace_by_device(trace: Trace, work: WorkTable) -> str | None:
    """Let the steps end when the device has done their work, if the host runs so far ahead that its marks say nothing.

    A program that never waits for its device hands over a step in the time of its launches, and goes on. Its step takes what
    the device takes: from the end of one step's work to the end of the next one's. Returns what to tell the person where the steps
    were changed.
    """
    steps = trace.steps
    if work.on_cpu or len(steps) < 2 or not len(work.start) or len({s.window for s in steps}) > 1:
        return None
    end, mine = work.start + work.time, handed_over(trace, work)
    rows = np.concatenate(mine)
    if not len(rows):
        return None
    began = float(work.start[rows].min())
    paced, done = [], began
    for step, of_step in zip(steps, mine, strict=True):
        until = max(done, float(end[of_step].max())) if len(of_step) else done
        paced.append(replace(step, start=done, dur=until - done, asked=(step.start, step.start + step.dur)))
        done = until
    host = steps[-1].start + steps[-1].dur - (steps[0].start + steps[0].dur)
    since = paced[0].start + paced[0].dur
    busy = clip(union(work.start, end), since, done).total
    if done - since <= AHEAD * host or busy < BUSY * (done - since):
        return None
    trace.steps = paced
    return (
        f"the program runs ahead of the device: the host handed over a step every {host / (len(steps) - 1) / 1000:.3g} ms, the device "
        f"needs {(done - began) / len(steps) / 1000:.3g} ms for it; a step is what the device needs"
    )
