"""Launch to kernel by correlation, operator to launch by external id, or by time where the ids say nothing."""

from __future__ import annotations

import numpy as np

from ridgeline.trace.nesting import innermost, threads_of
from ridgeline.trace.tables import F64, I32, I64, U8, Call, Calls, DeviceEvents, Ops

_LATE = 1.0
"""Host and device clocks are aligned to about a microsecond: a kernel may seem to start that much before its launch."""
_PRODUCERS = (Call.LAUNCH, Call.GRAPH_LAUNCH, Call.MEMCPY, Call.MEMSET)


def match_latest(keys: I64, times: F64, wanted: I64, moments: F64, preferred: U8 | None = None) -> I32:
    """For each wanted key: the row with that key which began last before the moment (the first of them if none did).

    Rows with ``preferred`` set win over others of the same key. -1 where the key is negative or unknown.
    """
    out = np.full(len(wanted), -1, dtype=np.int32)
    usable = np.flatnonzero(keys >= 0)
    if not len(usable) or not len(wanted):
        return out
    order = usable[np.lexsort((times[usable], keys[usable]))]
    sorted_keys = keys[order]
    left = np.searchsorted(sorted_keys, wanted, side="left")
    right = np.searchsorted(sorted_keys, wanted, side="right")
    found = (wanted >= 0) & (right > left)
    single = found & (right - left == 1)
    out[single] = order[left[single]]
    for row in np.flatnonzero(found & ~single):
        rows = order[left[row] : right[row]]
        if preferred is not None and preferred[rows].any():
            rows = rows[preferred[rows] > 0]
        position = int(np.searchsorted(times[rows], moments[row] + _LATE, side="right")) - 1
        out[row] = rows[max(position, 0)]
    return out


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
