"""Launch to kernel by correlation, operator to launch by external id, or by time where the ids say nothing."""

from __future__ import annotations

import numpy as np

from ridgeline.trace.nesting import innermost, latest, threads_of
from ridgeline.trace.tables import F64, I32, I64, U8, Call, Calls, DeviceEvents, Ops

_LATE = 1.0
"""Host and device clocks are aligned to about a microsecond: a kernel may seem to start that much before its launch."""
_PRODUCERS = (Call.LAUNCH, Call.GRAPH_LAUNCH, Call.MEMCPY, Call.MEMSET)


def match_latest(keys: I64, times: F64, wanted: I64, moments: F64, preferred: U8 | None = None) -> I32:
    """For each wanted key: the row with that key which began last before the moment (the first of them if none did).

    Rows with ``preferred`` set win over others of the same key. -1 where the key is negative or unknown.
    """
    out = np.full(len(wanted), -1, dtype=np.int64)
    for rows in (
        np.flatnonzero((keys >= 0) & (preferred > 0)) if preferred is not None else None,
        np.flatnonzero(keys >= 0),
    ):
        open_rows = np.flatnonzero((out < 0) & (wanted >= 0))
        if rows is None or not len(rows) or not len(open_rows):
            continue
        found = latest(keys[rows], times[rows], wanted[open_rows], moments[open_rows] + _LATE)
        # None began before: the first of the key.
        order = np.lexsort((times[rows], keys[rows]))
        position = np.minimum(np.searchsorted(keys[rows][order], wanted[open_rows]), len(rows) - 1)
        first = np.where(keys[rows][order[position]] == wanted[open_rows], order[position], -1)
        found = np.where(found >= 0, found, first)
        out[open_rows] = np.where(found >= 0, rows[np.maximum(found, 0)], -1)
    return out.astype(np.int32)


def join(device: DeviceEvents, calls: Calls, ops: Ops) -> None:
    """Fills ``device.call`` and ``device.op``."""
    producing = np.isin(calls.kind, np.array(_PRODUCERS, dtype=np.uint8)).astype(np.uint8)
    device.call = match_latest(calls.correlation, calls.start, device.correlation, device.start, producing)

    op_end = ops.start + ops.dur
    threads = threads_of(np.concatenate([ops.pid, calls.pid]), np.concatenate([ops.tid, calls.tid]))
    op_thread, call_thread = threads[: len(ops.pid)], threads[len(ops.pid) :]
    by_time = innermost(ops.start, op_end, op_thread, ops.parent, calls.start, call_thread)
    by_id = match_latest(ops.external_id, ops.start, calls.external_id, calls.start)
    # An id holds where the operator encloses the call. Old traces write the correlation into that field, and ids of
    # several profiler sessions repeat.
    safe = np.maximum(by_id, 0)
    if len(op_end):
        encloses = (
            (by_id >= 0)
            & (op_thread[safe] == call_thread)
            & (ops.start[safe] <= calls.start + _LATE)
            & (op_end[safe] >= calls.start - _LATE)
        )
    else:
        encloses = np.zeros(len(by_id), dtype=bool)
    op_of_call = np.where(encloses, by_id, np.where(by_time >= 0, by_time, by_id)).astype(np.int32)

    has_call = device.call >= 0
    through_call = np.where(has_call, op_of_call[np.maximum(device.call, 0)] if len(op_of_call) else -1, -1)
    direct = match_latest(ops.external_id, ops.start, device.external_id, device.start)
    if len(op_end):
        direct = np.where((direct >= 0) & (ops.start[np.maximum(direct, 0)] <= device.start + _LATE), direct, -1)
    device.op = np.where(has_call & (through_call >= 0), through_call, direct).astype(np.int32)
