"""Launches that an autotuner only measures, told apart from real ones.

With Python frames they lie inside a benchmark function. Without, a benchmark shows in its shape: while a thread stays at
one statement, one kernel is launched again and again in several configurations, and before most launches a buffer is
cleared to empty the cache. The last launch is the real one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.frame_tree import FrameTree
from ridgeline.attribution.host import Host
from ridgeline.trace.tables import I32, I64, Trace, Work
from ridgeline.trace.work import WorkTable

MIN_LAUNCHES = 10
"""A benchmark of even one configuration repeats more often; a loop in one statement seldom does with cleared buffers."""
MIN_CONFIGURATIONS = 2
MIN_CLEARED = 0.5
"""Share of the launches before which a buffer was cleared."""

_CLEARING = ("aten::zero_", "aten::fill_")
Mask = npt.NDArray[np.bool_]


def trials(trace: Trace, work: WorkTable, host: Host, rows: I64, visit: I32, tree: FrameTree | None) -> Mask:
    """Which of ``rows`` are trials. ``visit`` numbers, for each row, its thread's stay at a statement (-1: not known)."""
    found = np.zeros(len(rows), dtype=bool)
    if tree is not None and tree.trial.any():
        known = np.flatnonzero(~np.isnan(host.time[rows]))
        frame = tree.innermost(host.thread[rows[known]], host.time[rows[known]])
        found[known] = (frame >= 0) & (tree.trial[np.maximum(frame, 0)] > 0)
    if not work.on_cpu:
        _by_shape(trace, work, host, rows, visit, found)
    return found


def _by_shape(trace: Trace, work: WorkTable, host: Host, rows: I64, visit: I32, found: Mask) -> None:
    clearing_names = [i for i, text in enumerate(trace.strings) if text in _CLEARING]
    op = host.op[rows]
    clearing = work.work[rows] == int(Work.MEMSET)
    if len(trace.ops.name):
        clearing |= (op >= 0) & np.isin(trace.ops.name[np.maximum(op, 0)], clearing_names)
    candidate = (op < 0) & (host.call[rows] >= 0) & (work.work[rows] == int(Work.KERNEL)) & (visit >= 0)
    if candidate.sum() < MIN_LAUNCHES:
        return
    keys = np.stack([host.thread[rows], visit.astype(np.int64), work.name[rows].astype(np.int64)])[:, candidate]
    at = np.flatnonzero(candidate)
    _, inverse, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    for group in np.flatnonzero(count >= MIN_LAUNCHES):
        mine = at[inverse == group]
        mine = mine[np.argsort(host.time[rows[mine]], kind="stable")]
        if len(np.unique(work.launch[rows[mine]])) < MIN_CONFIGURATIONS:
            continue
        first, last = mine[0], mine[-1]
        stay = (host.thread[rows] == host.thread[rows[first]]) & (visit == visit[first])
        before_last = host.time[rows] < host.time[rows[last]]
        cleared = stay & clearing & before_last
        if cleared.sum() >= MIN_CLEARED * (len(mine) - 1):
            found[mine[:-1]] = True
            found |= cleared
