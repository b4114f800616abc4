"""What was recorded, how, and the sums over the whole window."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from ridgeline.assemble.devices import WindowOf, median_us, overhead_pct
from ridgeline.attribution.alone import alone
from ridgeline.profile import Idle, ProfileDocument, RecordedWith, Source, Totals
from ridgeline.sidecar import Sidecar
from ridgeline.sidecar import Window as RecordedWindow
from ridgeline.steps import undisturbed_us
from ridgeline.trace.intervals import clip, union
from ridgeline.trace.tables import Call, Trace
from ridgeline.trace.work import WorkTable

PACE = 0.8
"""The same work may take the device somewhat less in other steps, for its clock differs."""

HOST_BOUND = 0.85
"""Device work over a step below which steps wait for the host; of twelve programs on an H200 those above it had the same step
with and without a recording before it (``tests/seeded/frozen``: sidecars beside ``pairs.json``)."""


def source_of(trace: Trace, sidecar: Sidecar | None, run_dir: Path | None, window: WindowOf) -> Source:
    """What was recorded, of what, and how."""
    path, metadata = Path(trace.path), trace.metadata
    own = next((w for w in sidecar.windows if w.trace == path.name), None) if sidecar else None
    return Source(
        kind=_kind(sidecar) if run_dir else "trace",
        path=(sidecar.main if sidecar and sidecar.main else None) or str(path),
        created=_created(trace),
        argv=sidecar.argv if sidecar else None,
        exit_status=sidecar.exit_status if sidecar else None,
        torch=sidecar.torch if sidecar else _text(metadata.get("pytorch_version")),
        python=sidecar.python if sidecar else None,
        ranks=([sidecar.rank] if sidecar and sidecar.rank is not None else _ranks(metadata)),
        recorded_with=RecordedWith(
            stacks=own.stacks if own else _flag(metadata, "with_stack"),
            shapes=own.shapes if own else _flag(metadata, "record_shapes"),
            memory=own.memory if own else _flag(metadata, "profile_memory"),
        ),
        steps=window.steps,
        profiler_overhead_pct=overhead_pct(sidecar),
        cpu_wait_pct=cpu_wait_pct(own),
        revision=_revision(Path(sidecar.main)) if sidecar and sidecar.main and run_dir else None,
    )


def charge_profiler(idle: Idle, totals: Totals, steps: int | None, busy_us: float) -> Idle:
    """Idle time less what the profiler made of it, where plain steps beside the recorded ones tell how much that is.

    What a recorded step takes longer than a plain one is the profiler's, beyond the stretches in which it is seen at work:
    it slows every call of the host, so the host launches late. Moved to ``profiler`` from ``launch`` and ``other``, by
    their sizes. A plain step is no shorter than the device's work in it: the host may run ahead of that.
    """
    if not steps or totals.plain_step_us is None or totals.profiled_step_us is None:
        return idle
    plain = max(totals.plain_step_us, busy_us / steps)
    made = (totals.profiled_step_us - plain) * steps - idle.profiler
    host = idle.launch + idle.other
    moved = min(made, host)
    if moved <= 0:
        return idle
    kept = 1 - moved / host
    return replace(idle, launch=idle.launch * kept, other=idle.other * kept, profiler=idle.profiler + moved)


def cpu_wait_pct(window: RecordedWindow | None) -> float | None:
    """What the scheduler says of the window: other processes at work, or more threads than cores."""
    if window is None or window.ran_ns is None or window.waited_ns is None:
        return None
    wanted = window.ran_ns + window.waited_ns
    return 100 * window.waited_ns / wanted if wanted > 0 else None


def _kind(sidecar: Sidecar | None) -> Literal["run", "module"]:
    """A generated module was the program itself."""
    return "module" if alone(sidecar) else "run"


def _revision(file: Path) -> str | None:
    """The commit that the program's working tree is at, read from git's own files; None outside a repository."""
    for folder in file.parents:
        git = folder / ".git"
        if not git.is_dir():
            continue
        try:
            head = (git / "HEAD").read_text(encoding="ascii").strip()
            if not head.startswith("ref: "):
                return head[:12] or None
            reference = head.removeprefix("ref: ")
            loose = git / reference
            if loose.is_file():
                return loose.read_text(encoding="ascii").strip()[:12]
            packed = (git / "packed-refs").read_text(encoding="ascii").splitlines()
            return next((line[:12] for line in packed if line.endswith(f" {reference}")), None)
        except (OSError, UnicodeDecodeError):
            return None
    return None


def _created(trace: Trace) -> str | None:
    if trace.base_ns is not None:
        seconds = (trace.base_ns + trace.origin_ns) / 1e9
        try:
            return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
        except (OverflowError, ValueError, OSError):
            return None
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flag(metadata: dict[str, object], name: str) -> bool | None:
    """``with_stack: 1`` in a Kineto trace; an absent key means off in a trace that has Kineto's other keys."""
    if name in metadata:
        return bool(metadata[name])
    return False if "schemaVersion" in metadata else None


def _ranks(metadata: dict[str, object]) -> list[int] | None:
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return [rank] if isinstance(rank, int) else None


def totals_of(trace: Trace, work: WorkTable, window: WindowOf, sidecar: Sidecar | None) -> Totals:
    waits = np.isin(trace.calls.kind, [int(Call.SYNC)])
    totals = Totals(
        wall_us=window.wall_us,
        self_cpu_us=float(trace.ops.self_dur.sum()) if len(trace.ops.start) else None,
        host_wait_us=float(trace.calls.dur[waits].sum()) if len(trace.calls.start) else None,
        self_device_us=float(work.time.sum()) if len(work.start) else None,
    )
    if sidecar is not None:
        totals.compile_us = sum(c.end_ns - c.start_ns for c in sidecar.compiles) / 1000 if sidecar.compiles else None
        totals.warmup_us = _warmup_us(sidecar)
        least = _least_step_us(work, window)
        totals.plain_step_us = _whole(median_us(sidecar.plain_steps_ns), least)
        totals.profiled_step_us = _whole(median_us(sidecar.profiled_steps_ns), least)
    return totals


def steps_us(totals: Totals, window: WindowOf, *, on_cpu: bool) -> float | None:
    """The recorded steps together, as they take without the profiler; None where steps are not known."""
    if not window.known or not window.steps:
        return None
    step = undisturbed_us(window.wall_us / window.steps, totals.plain_step_us, on_cpu=on_cpu)
    return step * window.steps if step else None


def still_attached(document: ProfileDocument, sidecar: Sidecar | None) -> str | None:
    """What to say where the plain steps' time is in doubt: CUPTI stays attached once a recording has ended, unless the agent
    could detach it, and slows every launch. Steps that wait for the host show it, the device's work is as fast as ever."""
    if sidecar is not None and sidecar.cupti_left:
        return None
    device, plain = next(iter(document.devices), None), document.totals.plain_step_us
    if device is None or device.kind != "cuda" or not plain or not document.source.steps or device.busy_us is None:
        return None
    if device.busy_us / document.source.steps >= HOST_BOUND * plain:
        return None
    why = f" ({sidecar.cupti_kept})" if sidecar is not None and sidecar.cupti_kept else ""
    return (
        f"the unprofiled steps ran with CUPTI still attached{why}, which slows launches after a recording (pytorch/pytorch#144455): "
        "without any profiler steps that wait for the host are shorter (of seven programs on an H200 by 4 to 50 %)"
    )


def _least_step_us(work: WorkTable, window: WindowOf) -> float:
    """The device's work in a step: none is shorter."""
    if work.on_cpu or not window.known or not window.steps:
        return 0.0
    return clip(union(work.start, work.start + work.time), window.start, window.end).total / window.steps


def _whole(measured_us: float | None, least_us: float) -> float | None:
    """None for a time in which the device's work does not fit: the host alone was timed, and had run ahead."""
    return None if measured_us is None or measured_us < PACE * least_us else measured_us


def _warmup_us(sidecar: Sidecar) -> float | None:
    """From torch's import to the window, less compilation; None where the window did not wait for steps to settle: what ran
    before it was no warm-up."""
    if not sidecar.windows or sidecar.imported_torch_ns is None or not sidecar.windows[0].steps:
        return None
    opened = sidecar.windows[0].start_ns
    compiled = sum(min(c.end_ns, opened) - c.start_ns for c in sidecar.compiles if c.start_ns < opened)
    return max(0.0, (opened - sidecar.imported_torch_ns - compiled) / 1000)
