"""What the reader must know before trusting a number, in words."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.profile import Quality, QualityWarning
from ridgeline.trace import repair
from ridgeline.trace.bounds import bounded
from ridgeline.trace.records import Damage
from ridgeline.trace.tables import Call, Calls, Trace

Table = dict[str, npt.NDArray[Any]]
_HOUR_NS = 3600e9
_FEW = 0.01

_MENDS = {
    repair.ESCAPES: ("escape", "backslashes that start no legal escape were read as backslashes"),
    repair.UTF8: ("place", "bytes that are no UTF-8 are shown as replacement characters"),
    repair.CONTROL: ("place", "raw control characters inside names were escaped"),
    repair.NUMBERS: ("value", "what is no JSON (NaN, Infinity…) was read as unknown"),
    repair.COMMAS: ("comma", "too many or missing"),
}


def warn(quality: Quality, code: str, message: str, count: int = 1) -> None:
    """Adds one warning."""
    quality.warnings.append(QualityWarning(code=code, message=message, count=count))


def note_damage(quality: Quality, damage: Damage, paths_mended: int) -> None:
    """What was mended and lost while parsing."""
    for kind, count in sorted(damage.mends.items()):
        noun, what = _MENDS[kind]
        warn(quality, f"repaired-{kind}", f"repaired {count} {noun}{'' if count == 1 else 's'}: {what}", count)
    if paths_mended:
        warn(
            quality,
            "repaired-paths",
            f"repaired {paths_mended} Windows paths whose backslashes were not escaped",
            paths_mended,
        )
    quality.repaired = sum(damage.mends.values()) + paths_mended
    quality.skipped = len(damage.skipped)
    if damage.skipped:
        places = ", ".join(str(place) for place in damage.skipped[:5])
        more = ", …" if len(damage.skipped) > 5 else ""
        records = "record" if len(damage.skipped) == 1 else "records"
        warn(
            quality,
            "skipped-records",
            f"{len(damage.skipped)} malformed {records} left out (at byte {places}{more})",
            len(damage.skipped),
        )
    if damage.truncated is not None:
        quality.truncated = True
        warn(quality, "truncated", f"truncated: {damage.truncated}; totals are lower bounds")


def usable_rows(tables: dict[str, Table], quality: Quality, longest_ns: float) -> dict[str, npt.NDArray[np.int64]]:
    """Rows of each table whose time and duration can be; the others are counted by what is wrong with them."""
    starts = np.concatenate([table["start"] for table in tables.values()] or [np.empty(0)])
    finite = starts[np.isfinite(starts)]
    # One of the times themselves: between two clocks, the middle of both would be far from each.
    middle = float(np.percentile(finite, 50, method="lower")) if len(finite) else 0.0
    # Nothing lasts a week; and a few records an hour away from all the others did not happen then either.
    distant = int((np.abs(finite - middle) > _HOUR_NS).sum())
    farthest = _HOUR_NS if distant < len(finite) * _FEW else longest_ns
    # What the device's own recorder wrote (work and calls) goes by one clock, ops by the host's.
    ops = tables.get("ops", {}).get("start", np.empty(0))
    ops = ops[np.isfinite(ops) & (np.abs(np.nan_to_num(ops) - middle) <= farthest)]
    first, last = (float(ops.min()), float(ops.max())) if len(ops) else (-np.inf, np.inf)
    wrong: Counter[str] = Counter()
    kept = {}
    for name, table in tables.items():
        start, dur = table["start"], table["dur"]
        with np.errstate(invalid="ignore"):
            no_time = ~np.isfinite(start)
            far = ~no_time & (np.abs(start - middle) > farthest)
            if name in ("device", "calls"):
                far |= ~no_time & ((start < first - _HOUR_NS) | (start > last + _HOUR_NS))
            no_dur = ~(no_time | far) & ~np.isfinite(dur)
            negative = ~(no_time | far) & (dur < 0)
            long = ~(no_time | far) & np.isfinite(dur) & (dur > longest_ns / 1000.0)
        wrong["no-timestamp"] += int(no_time.sum())
        wrong["wrong-clock"] += int(far.sum())
        wrong["no-duration"] += int(no_dur.sum())
        wrong["negative-duration"] += int(negative.sum())
        wrong["endless-duration"] += int(long.sum())
        kept[name] = np.flatnonzero(~(no_time | far | no_dur | negative | long))
        if name == "device" and len(start) and far.all():
            warn(
                quality,
                "no-device-records",
                f"all {len(start)} records of the device carry another clock than the host's: when the device worked is not"
                " known, nor for how long. CUPTI does so now and then (pytorch/pytorch#192021); record again",
                len(start),
            )
    words = {
        "no-timestamp": "no usable timestamp",
        "wrong-clock": "far from all the others in time (a wrong clock)",
        "no-duration": "no usable duration",
        "negative-duration": "a negative duration",
        "endless-duration": "a duration of more than a week",
    }
    for code, count in wrong.items():
        if count:
            quality.skipped += count
            warn(quality, code, f"{count} {'record' if count == 1 else 'records'} left out: {words[code]}", count)
    return kept


def launches(calls: Calls) -> int:
    """Calls that must lead to work on a device."""
    return int(np.isin(calls.kind, (Call.LAUNCH, Call.GRAPH_LAUNCH)).sum())


def note_content(trace: Trace, seen: Counter[str]) -> None:
    """What is missing or doubtful in what was read."""
    quality, calls, device = trace.quality, trace.calls, trace.device_events
    launching = np.flatnonzero(np.isin(calls.kind, (Call.LAUNCH, Call.GRAPH_LAUNCH)))
    answered = np.isin(calls.correlation[launching], device.correlation) & (calls.correlation[launching] >= 0)
    missing = len(launching) - int(answered.sum())
    quality.launches_without_kernel = missing
    quality.kernels_without_launch = int((device.call < 0).sum())
    if missing:
        share = 100.0 * missing / len(launching)
        if len(device.start) == 0:
            warn(
                quality,
                "no-device-records",
                f"device activity was not recorded: {len(launching)} launches, no kernel (often missing permission for"
                " performance counters, or CUPTI could not start); busy and idle times are not available",
                missing,
            )
        else:
            warn(
                quality,
                "launches-without-kernel",
                f"{missing} of {len(launching)} launches have no kernel record ({share:.0f} %); device totals are lower"
                " bounds",
                missing,
            )
    if quality.kernels_without_launch and len(calls.start):
        share = 100.0 * quality.kernels_without_launch / len(device.start)
        warn(
            quality,
            "kernels-without-launch",
            f"{quality.kernels_without_launch} of {len(device.start)} device events have no launch in the trace"
            f" ({share:.1f} %): launched before recording began, or by a thread that was not recorded",
            quality.kernels_without_launch,
        )
    unnamed = int((trace.ranges.name == trace.strings.index("unknown")).sum()) if "unknown" in trace.strings else 0
    if unnamed:
        warn(
            quality,
            "labels-not-exportable",
            f"{unnamed} record_function {'label has' if unnamed == 1 else 'labels have'} characters that torch cannot"
            " export; they appear as 'unknown', each for itself",
            unnamed,
        )
    _note_durations(trace)
    _note_steps(trace)
    if not (len(device.start) or len(calls.start) or len(trace.ops.start) or len(trace.ranges.start)):
        if trace.frames is not None and len(trace.frames.start):
            warn(quality, "no-operators", "the trace holds Python frames only: no operators, no device work")
        else:
            kinds = ", ".join(f"{name} ({count})" for name, count in seen.most_common(3))
            warn(
                quality,
                "no-activity",
                "the trace holds no operators and no device work" + (f"; its records are {kinds}" if kinds else ""),
            )


def _note_durations(trace: Trace) -> None:
    events = trace.device_events
    if not len(events.start):
        return
    _, flagged = bounded(trace)
    count = int(flagged.sum())
    if count:
        warn(
            trace.quality,
            "impossible-durations",
            f"{count} of {len(events.start)} device records {'runs' if count == 1 else 'run'} past later work of the same stream that is already over;"
            " bounded to the next start",
            count,
        )
    total = float(events.dur.sum())
    longest = int(events.dur.argmax())
    if len(events.start) >= 10 and total > 0 and flagged[longest]:
        share = 100.0 * float(events.dur[longest]) / total
        if share >= 50.0:
            warn(
                trace.quality,
                "one-event-dominates",
                f"one event ({trace.strings[events.name[longest]][:80]}) is {share:.0f} % of the recorded device time and"
                " cannot be right; busy and idle times are unreliable",
            )


def _note_steps(trace: Trace) -> None:
    events = trace.device_events
    if len(trace.steps) < 4 or not len(events.start):
        return
    starts = np.array([step.start for step in trace.steps])
    ends = starts + np.array([step.dur for step in trace.steps])
    begun = np.sort(events.start)
    counts = np.searchsorted(begun, ends) - np.searchsorted(begun, starts)
    empty = int((counts <= 0).sum())
    # A device may run a step or two behind the host; that leaves few steps empty.
    if empty > max(2, len(starts) // 2):
        warn(
            trace.quality,
            "steps-without-device-work",
            f"{empty} of {len(starts)} steps contain no GPU work: records are missing, idle times are unreliable",
            empty,
        )
