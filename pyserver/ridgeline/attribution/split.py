"""From attribution to ``lines[]``: a launch's time split equally over its distinct user statements, so that rows add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.model import TRIAL, Attribution, PhaseOf
from ridgeline.profile import Line, Phases, SourceRef, Unattributed
from ridgeline.trace.tables import F64, I32, Trace
from ridgeline.trace.work import WorkTable

UNKNOWN_REASON = "source not recorded"
FUNCTION_METHOD = "function"

Key = tuple[str, int]


def statements(refs: Sequence[SourceRef]) -> list[SourceRef]:
    """The distinct user statements of a launch: library frames are shown with it but own no time."""
    found: dict[Key, SourceRef] = {}
    for ref in refs:
        if not ref.library:
            found.setdefault((ref.file, ref.line), ref)
    return list(found.values())


def line_rows(
    trace: Trace,
    work: WorkTable,
    attribution: Attribution,
    of_work: I32,
    kernel_ids: Sequence[str],
    *,
    exposed: F64 | None = None,
    step_wall_us: float | None = None,
) -> tuple[list[Line], Unattributed]:
    """The lines, largest first, and what no line is known for. Together they hold all device time.

    ``of_work`` gives each work row's index in ``kernel_ids``; ``exposed`` the microseconds of each row while nothing
    else ran, ``step_wall_us`` the wall time of all recorded steps together.
    """
    total = math.fsum(work.time.tolist())
    shared = total - math.fsum(work.time[attribution.trials].tolist())
    """What shares are of: an autotuner's trials are no part of what the program does."""
    sets = [statements(refs) for refs in attribution.sources]
    rows: dict[Key, Line] = {}
    exposed_of: dict[Key, float] = {}
    owned = attribution.source >= 0
    if sets:
        has_user = np.array([bool(s) for s in sets], dtype=bool)
        owned &= has_user[np.maximum(attribution.source, 0)]
    # One pass over the distinct (source set, kernel, phase) instead of over launches.
    mine = np.flatnonzero(owned)
    columns = np.stack(
        [
            attribution.source[mine].astype(np.int64),
            of_work[mine].astype(np.int64),
            attribution.phase[mine].astype(np.int64),
        ]
    )
    groups, inverse = np.unique(columns, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    time = np.bincount(inverse, weights=work.time[mine], minlength=groups.shape[1])
    count = np.bincount(inverse, minlength=groups.shape[1])
    shown = np.bincount(inverse, weights=exposed[mine], minlength=groups.shape[1]) if exposed is not None else None
    for g in range(groups.shape[1]):
        source, kernel, phase = (int(v) for v in groups[:, g])
        refs = sets[source]
        share = float(time[g]) / len(refs)
        for ref in refs:
            key = (ref.file, ref.line)
            line = rows.get(key)
            if line is None:
                line = rows[key] = Line(file=ref.file, line=ref.line, text=ref.text, granularity="function")
            if not ref.method.startswith(FUNCTION_METHOD):
                line.granularity = "statement"
            line.text = line.text or ref.text
            line.device_us += share
            line.unsplit_us += float(time[g])
            line.count += int(count[g])
            kernel_id = kernel_ids[kernel]
            if kernel_id not in line.kernels:
                line.kernels.append(kernel_id)
            line.shared_with.extend(
                o.line for o in refs if o.file == ref.file and o.line != ref.line and o.line not in line.shared_with
            )
            if phase == PhaseOf.BACKWARD:
                line.phase.backward_us += share
            elif phase == PhaseOf.OPTIMIZER:
                line.phase.optimizer_us += share
            else:
                line.phase.forward_us += share
            if shown is not None:
                exposed_of[key] = exposed_of.get(key, 0.0) + float(shown[g])
    order = {kernel: i for i, kernel in enumerate(kernel_ids)}
    for key, line in rows.items():
        line.kernels.sort(key=order.__getitem__)
        line.shared_with.sort()
        line.share_pct = 100 * line.device_us / shared if shared > 0 else None
        if step_wall_us and key in exposed_of:
            line.step_share_pct = 100 * exposed_of[key] / step_wall_us
    _host_time(trace, attribution, rows)
    lines = sorted(rows.values(), key=lambda line: (-line.device_us, line.file, line.line))
    return lines, _unattributed(work, attribution, ~owned, (total, shared), lines)


def phase_totals(work: WorkTable, attribution: Attribution) -> Phases | None:
    """All device time by phase; None where not a single launch has one."""
    sums = np.bincount(attribution.phase, weights=work.time, minlength=len(PhaseOf)).tolist()
    known = Phases(
        forward_us=sums[PhaseOf.FORWARD], backward_us=sums[PhaseOf.BACKWARD], optimizer_us=sums[PhaseOf.OPTIMIZER],
        unknown_us=sums[PhaseOf.UNKNOWN],
    )  # fmt: skip
    return known if known.forward_us or known.backward_us or known.optimizer_us else None


def _unattributed(
    work: WorkTable,
    attribution: Attribution,
    rest: npt.NDArray[np.bool_],
    whole: tuple[float, float],
    lines: Sequence[Line],
) -> Unattributed:
    """What is left, by reason. The sum is what the lines leave of the total, so that nothing is lost to rounding.

    ``whole`` is all device time, and that without an autotuner's trials, which shares are of.
    """
    total, shared = whole
    at = np.flatnonzero(rest)
    reasons: dict[str, float] = {}
    if len(at):
        ids = attribution.reason[at]
        for reason in np.unique(ids):
            text = attribution.reasons[int(reason)] if reason >= 0 else UNKNOWN_REASON
            reasons[text] = reasons.get(text, 0.0) + math.fsum(work.time[at[ids == reason]].tolist())
        reasons = {text: us for text, us in reasons.items() if us > 0}
    device_us = math.fsum(reasons.values())
    residue = total - math.fsum([*(line.device_us for line in lines), device_us])
    if residue and lines:  # the last bits of the divisions
        lines[0].device_us += residue
    return Unattributed(
        device_us=device_us,
        share_pct=100 * max(0.0, device_us - reasons.get(TRIAL, 0.0)) / shared if shared > 0 else None,
        reason=dict(sorted(reasons.items(), key=lambda item: -item[1])),
    )


def _host_time(trace: Trace, attribution: Attribution, rows: dict[Key, Line]) -> None:
    """``cpu_us``: self time of the ops that ran while a thread was in the line, where lines were recorded."""
    if attribution.op_lines is None:
        return
    refs, of_op = attribution.op_lines
    known = np.flatnonzero(of_op >= 0)
    if not len(known):
        return
    sums = np.bincount(of_op[known], weights=trace.ops.self_dur[known], minlength=len(refs))
    for ref, us in zip(refs, sums.tolist()):
        line = rows.get((ref.file, ref.line))
        if line is not None and us > 0:
            line.cpu_us = (line.cpu_us or 0.0) + us
