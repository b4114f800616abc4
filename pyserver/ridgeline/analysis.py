"""The pipeline from a recording to the profile document, readable top to bottom.

``python -m ridgeline.analysis RUN_DIR`` analyzes a finished run folder and leaves ``profile.json`` in it: the worker
that the language server starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ridgeline import index, own_categories, profile_io
from ridgeline.assemble.counted import counted_steps
from ridgeline.assemble.cut import end_with_steps, holds_start
from ridgeline.assemble.devices import (
    category_rows,
    device_rows,
    step_rows,
    window_of,
)
from ridgeline.assemble.direct import direct_launches
from ridgeline.assemble.files import file_rows
from ridgeline.assemble.kernels import KernelRows, build_kernels
from ridgeline.assemble.memory import memory_table
from ridgeline.assemble.operators import operator_table, user_ranges
from ridgeline.assemble.pace import adopt_steps, pace_by_device, select_steps, steps_of_loop, within_steps
from ridgeline.assemble.ranks import missing_ranks, ranks_of, straggler
from ridgeline.assemble.recorded import charge_profiler, source_of, steps_us, still_attached, totals_of
from ridgeline.assemble.roof import PEAKS_FILE, add_roofline, device_specs, peaks_of
from ridgeline.attribution import attribute
from ridgeline.attribution.model import Attribution
from ridgeline.attribution.split import line_rows, phase_totals
from ridgeline.findings import find, measure_padding
from ridgeline.findings.context import Context
from ridgeline.findings.padding import useful
from ridgeline.profile import CompileEvent, Module, ProfileDocument, QualityWarning
from ridgeline.profile_io import UnreadableError
from ridgeline.roofline.cache import peaks_for
from ridgeline.sidecar import Sidecar
from ridgeline.trace.exposure import exposure
from ridgeline.trace.gaps import idle_by_cause
from ridgeline.trace.reader import TraceError, read_trace
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import WorkTable, work_table

TRACE_SUFFIXES = (".json", ".json.gz")
TIMED = "timed.json"
"""In a run folder: {"statements": {statement: µs}}."""
BUSY_MACHINE_PCT = 10.0
"""From here on a reader is told: every tenth of what is shown for the host is waiting for a core."""


@dataclass(slots=True, kw_only=True)
class Recording:
    """What is analyzed: a trace, and beside it what else is known."""

    trace: Path
    sidecar: Sidecar | None = None
    run_dir: Path | None = None
    generated: Path | None = None
    provenance: Path | None = None
    source_roots: Sequence[tuple[str, str]] = ()
    select_steps: tuple[int, int] | None = None
    other_ranks: Sequence[Path] = ()
    """Traces of the same job's other ranks; the document is that of ``trace``."""
    tolerant: bool = False
    """The traces were found in a folder: one that cannot be read is left out with a note, as long as there are others."""
    steps_per_day: float | None = None
    """By which savings a day are counted; None: steps one after another."""
    notes: list[str] = field(default_factory=list)


def analyze_run(run_dir: Path, *, steps_per_day: float | None = None) -> ProfileDocument:
    """The document of a run folder that the agent filled. Raises :class:`UnreadableError`."""
    sidecar = profile_io.read_sidecar(run_dir / "sidecar.json")
    sidecar.exit_status = _exit_status(run_dir, sidecar)
    traces = [window.trace for window in sidecar.windows if (run_dir / window.trace).is_file()]
    if not traces:
        raise UnreadableError(
            f"{run_dir} holds no trace: nothing was recorded before the program ended; see log.txt there"
        )
    return analyze(Recording(trace=run_dir / traces[0], sidecar=sidecar, run_dir=run_dir, steps_per_day=steps_per_day))


def _exit_status(run_dir: Path, sidecar: Sidecar) -> int | None:
    """As the supervisor saw it, who also sees what the program could not (SIGKILL); else what the agent noted."""
    try:
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return sidecar.exit_status
    status = record.get("exit_status") if isinstance(record, dict) else None
    return status if isinstance(status, int) else sidecar.exit_status


def analyze_paths(
    paths: Sequence[Path],
    *,
    generated: Path | None = None,
    provenance: Path | None = None,
    source_roots: Sequence[tuple[str, str]] = (),
    select_steps: tuple[int, int] | None = None,
    steps_per_day: float | None = None,
) -> ProfileDocument:
    """The document of a trace, a run folder, a TensorBoard handler's folder, or several ranks' traces.

    Raises :class:`UnreadableError` with one line that says what, where, and what to do.
    """
    if len(paths) == 1 and (paths[0] / "sidecar.json").is_file():
        return analyze_run(paths[0], steps_per_day=steps_per_day)
    traces = [trace for path in paths for trace in _traces_at(path)]
    return analyze(
        Recording(
            trace=traces[0],
            generated=generated,
            provenance=provenance,
            source_roots=source_roots,
            select_steps=select_steps,
            steps_per_day=steps_per_day,
            other_ranks=traces[1:],
            tolerant=not set(traces) & set(paths),
        )
    )


def _traces_at(path: Path) -> list[Path]:
    if not path.exists():
        raise UnreadableError(f"{path} does not exist; name a trace (.json, .json.gz), a run folder or a log folder")
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UnreadableError(f"{path} is no file (a pipe or a device); save the trace to a file, and name that")
    files = sorted(p for p in path.iterdir() if p.is_file())
    # TensorBoard's handler: WORKER.TIME.pt.trace.json[.gz], one a recorded window. The newest of each worker counts.
    newest = {p.name.split(".", 1)[0]: p for p in files if p.name.endswith((".pt.trace.json", ".pt.trace.json.gz"))}
    found = list(newest.values()) or [p for p in files if p.name.endswith(TRACE_SUFFIXES) and "trace" in p.name]
    if not found:
        raise UnreadableError(f"{path} holds no trace (*.json, *.json.gz) and is no run folder; name the trace itself")
    return found


def analyze(recording: Recording) -> ProfileDocument:
    """Read, attribute, group, estimate, find. Each room sees only what those before it left."""
    trace = _read_first(recording)
    adopt_steps(trace, recording.sidecar, recording.trace.name)
    end_with_steps(trace, recording.sidecar, recording.trace.name)
    looped = steps_of_loop(trace, recording.sidecar, recording.run_dir)
    work = work_table(trace)
    if looped is not None or holds_start(trace, recording.sidecar, recording.trace.name):
        work = within_steps(trace, work)
    ahead = pace_by_device(trace, work)
    select_steps(trace, recording.select_steps)
    attribution = attribute(
        trace,
        work,
        sidecar=recording.sidecar,
        run_dir=recording.run_dir,
        generated=recording.generated,
        provenance=recording.provenance,
        source_roots=recording.source_roots,
    )
    window = window_of(trace, work)
    if looped is not None:
        recording.sidecar, unknown = counted_steps(trace, recording.sidecar, window)
        looped = "; ".join(filter(None, [looped, unknown]))
    direct = direct_launches(trace, work, recording.sidecar)
    totals = totals_of(trace, work, window, recording.sidecar)
    step_wall_us = steps_us(totals, window, on_cpu=work.on_cpu)
    rows = build_kernels(
        trace,
        work,
        attribution,
        step_wall_us=step_wall_us,
        direct=direct.of_work,
    )
    document = ProfileDocument(
        source=source_of(trace, recording.sidecar, recording.run_dir, window), quality=trace.quality
    )
    document.kernels = rows.kernels
    specs = device_specs(trace, recording.sidecar, recording.run_dir)
    add_roofline(
        trace,
        work,
        attribution,
        rows,
        specs,
        useful_rows_pct=_useful_rows_pct(recording.sidecar),
        tuned=recording.sidecar.tuned if recording.sidecar is not None else {},
        direct=direct,
    )
    document.devices = device_rows(trace, work, rows, window)
    for device in document.devices:
        device.peaks = peaks_of(specs[device.id]) if device.id in specs else device.peaks
        if not work.on_cpu:
            exposed = exposure(trace, device.id)
            device.underfilled_us = exposed.underfilled.total if exposed.underfilled is not None else None
    document.categories = category_rows(work, rows)
    _own_categories(document)
    document.lines, document.unattributed = line_rows(
        trace,
        work,
        attribution,
        rows.of_work,
        [k.id for k in rows.kernels],
        exposed=rows.exposed,
        step_wall_us=step_wall_us,
    )
    document.phases = phase_totals(work, attribution)
    document.ops = operator_table(trace, work, attribution)
    document.ranges = user_ranges(trace, work, attribution, recording.sidecar)
    document.memory = memory_table(trace, attribution)
    document.steps = step_rows(trace, work)
    document.modules = _modules(attribution, rows, work)
    document.compile_events = _compile_events(recording.sidecar)
    document.totals = totals
    if document.devices and not work.on_cpu:
        first = document.devices[0]
        idle, _ = idle_by_cause(trace, first.id, (window.start, window.end), sidecar=recording.sidecar)
        document.idle = charge_profiler(idle, document.totals, window.steps, first.busy_us or 0.0)
    _explain_quality(document, attribution, recording)
    if looped is not None:
        document.quality.warnings.append(QualityWarning(code="steps-by-loop", message=looped))
    if ahead is not None:
        document.quality.warnings.append(QualityWarning(code="host-ahead", message=ahead))
    context = Context(
        trace=trace,
        work=work,
        attribution=attribution,
        document=document,
        sidecar=recording.sidecar,
        work_kernel=dict(enumerate(rows.of_work.tolist())),
        steps_per_day=recording.steps_per_day,
        timed=_timed(recording.run_dir),
        sources=_snapshots(recording, "user"),
        generated=_snapshots(recording, "generated"),
    )
    document.padding = measure_padding(context)
    document.findings = find(context)
    if recording.other_ranks:
        _add_ranks(document, trace, recording)
    document.files = file_rows(document, recording.sidecar)
    return document


def _timed(run_dir: Path | None) -> dict[str, float]:
    """What ``ridgeline time --of`` left in the run folder; empty if nothing, or nothing that can be read."""
    try:
        found = json.loads((run_dir / TIMED).read_text(encoding="utf-8")) if run_dir is not None else {}
    except (OSError, ValueError):
        return {}
    rows = found.get("statements") if isinstance(found, dict) else None
    return {
        statement: float(us)
        for statement, us in (rows.items() if isinstance(rows, dict) else ())
        if isinstance(us, (int, float)) and us > 0
    }


def _own_categories(document: ProfileDocument) -> None:
    """Those of the ``pyproject.toml`` beside the program (of a bare trace: beside the trace)."""
    path = Path(document.source.path)
    try:
        rules = own_categories.from_project(path) if path.is_absolute() else []
    except own_categories.CategoryError as error:
        document.quality.warnings.append(QualityWarning(code="own-categories", message=str(error)))
        return
    if rules:
        own_categories.apply(document, rules)


def _read(path: Path, *, frames: bool = True) -> Trace:
    try:
        trace = read_trace(path, frames=frames)
    except TraceError as error:
        raise UnreadableError(str(error)) from error
    tables = (trace.device_events, trace.calls, trace.ops, trace.ranges, trace.frames)
    recorded = any(table is not None and len(table.start) for table in tables)
    if not recorded and (trace.memory is None or not len(trace.memory.time)):
        raise UnreadableError(
            f"{path} holds no events of torch.profiler: nothing was recorded, or it is another tool's file"
        )
    return trace


def _read_first(recording: Recording) -> Trace:
    """The recording's trace; of a folder's, the first that can be read."""
    while True:
        try:
            return _read(recording.trace)
        except UnreadableError as error:
            if not (recording.tolerant and recording.other_ranks):
                raise
            recording.notes.append(f"left out: {error}")
            recording.trace, *recording.other_ranks = recording.other_ranks


def _modules(attribution: Attribution, rows: KernelRows, work: WorkTable) -> list[Module]:
    """The generated modules with their kernels and device time."""
    by_file: dict[str, tuple[set[str], float]] = {}
    known = np.flatnonzero(attribution.site >= 0)
    pairs = np.stack([attribution.site[known].astype(np.int64), rows.of_work[known].astype(np.int64)])
    groups, inverse = np.unique(pairs, axis=1, return_inverse=True)
    times = np.bincount(inverse.reshape(-1), weights=work.time[known], minlength=groups.shape[1])
    for (site, kernel), spent in zip(groups.T.tolist(), times.tolist()):
        file = attribution.sites[site].module
        if file is not None:
            ids, time = by_file.get(file, (set(), 0.0))
            by_file[file] = (ids | {rows.kernels[kernel].id}, time + spent)
    for module in attribution.modules:
        ids, time = by_file.get(module.file, (set(), 0.0))
        module.kernels = [k.id for k in rows.kernels if k.id in ids]
        module.device_us = time if ids else None
    return attribution.modules


def _compile_events(sidecar: Sidecar | None) -> list[CompileEvent]:
    if sidecar is None:
        return []
    kinds = ("break", "recompile", "cudagraph_skip", "fallback")
    return [
        CompileEvent(kind=note.kind, reason=note.reason, file=note.file, line=note.line)  # type: ignore[arg-type]
        for note in sidecar.compile_notes
        if note.kind in kinds
    ]


def _add_ranks(document: ProfileDocument, trace: Trace, recording: Recording) -> None:
    traces = [trace]
    for path in recording.other_ranks:
        try:
            traces.append(_read(path, frames=False))
        except UnreadableError as error:
            if not recording.tolerant:
                raise
            document.quality.warnings.append(QualityWarning(code="note", message=f"left out: {error}"))
    document.source.ranks = ranks_of(traces)
    absent = missing_ranks(traces)
    if absent is not None:
        document.quality.warnings.append(QualityWarning(code="ranks-missing", message=absent))
    found = straggler(traces, document.source.steps)
    if found is not None:
        document.findings.append(found)


def _useful_rows_pct(sidecar: Sidecar | None) -> float | None:
    """Share of the batches' positions that are no padding, where lengths were recorded."""
    if sidecar is None:
        return None
    batches = [(lengths, size) for lengths, size in zip(sidecar.lengths, sidecar.padded_to) if lengths and size > 0]
    return 100 * useful(batches).linear if batches else None


def _snapshots(recording: Recording, kind: str) -> dict[str, str]:
    """Files of a kind (the user's, generated ones) as they ran, from the run folder's snapshots."""
    if recording.sidecar is None or recording.run_dir is None:
        return {}
    root = recording.run_dir.resolve()
    texts = {}
    for file in recording.sidecar.files:
        snapshot = (root / file.snapshot).resolve()
        if file.kind == kind and file.snapshot and snapshot.is_relative_to(root) and snapshot.is_file():
            texts[file.path] = snapshot.read_text(encoding="utf-8", errors="replace")
    return texts


def _explain_quality(document: ProfileDocument, attribution: Attribution, recording: Recording) -> None:
    warnings = document.quality.warnings
    warnings += [QualityWarning(code="attribution", message=note) for note in attribution.notes]
    trials = [kernel for kernel in document.kernels if kernel.tuning]
    if trials:
        count, us = sum(k.count for k in trials), sum(k.total_us for k in trials)
        text = f"{count:,} tuning launches ({us:,.0f} us) excluded: an autotuner tried them out, they are in no share"
        warnings.append(QualityWarning(code="autotuning", message=text, count=count))
    if recording.sidecar is not None:
        warnings += [QualityWarning(code="note", message=note) for note in recording.sidecar.notes]
        warnings += [QualityWarning(code="hook", message=error) for error in recording.sidecar.errors]
    warnings += [QualityWarning(code="note", message=note) for note in recording.notes]
    attached = still_attached(document, recording.sidecar)
    if attached is not None:
        warnings.append(QualityWarning(code="profiler-attached", message=attached))
    waited = document.source.cpu_wait_pct
    if waited is not None and waited >= BUSY_MACHINE_PCT:
        text = (
            f"the program's threads were without a core {waited:.0f} % of the time that they wanted to run: other processes "
            "are at work, or there are more threads and workers than cores. Times on the host are too long and scatter"
        )
        warnings.append(QualityWarning(code="busy-machine", message=text))


def bring_peaks(run_dir: Path) -> str | None:
    """Lay the device's measured peaks beside the run, measuring them once where the program has ended.

    Returns what a person should know where they could not be had.
    """
    target = run_dir / PEAKS_FILE
    try:
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if target.is_file() or not isinstance(record, dict) or not isinstance(record.get("python"), str):
        return None
    sidecar = profile_io.read_sidecar(run_dir / "sidecar.json")
    threads = sidecar.cpu.get("threads")
    found, trouble = peaks_for(
        f"cuda:{sidecar.devices[0].get('index', 0)}" if sidecar.devices else "cpu",
        python=record["python"],
        cwd=str(run_dir),
        threads=threads if not sidecar.devices and isinstance(threads, int) else None,
        may_measure=record.get("exit_status") is not None,
    )
    if found is not None:
        profile_io.write_atomically(target, json.dumps(found).encode())
    return trouble


def publish(document: ProfileDocument, run_dir: Path) -> None:
    """Write ``profile.json`` and the per-file index; a reader that sees the former sees a finished run."""
    index.build(run_dir, profile_io.to_json(document))
    profile_io.write(document, run_dir / "profile.json")


def main(arguments: Sequence[str]) -> int:
    """The worker: analyze one run folder. Categories that are given stand instead of those of a ``pyproject.toml``."""
    *options, last = [*arguments] or [""]
    if not last or len(options) % 2 or any(option != "--category" for option in options[::2]):
        print("usage: python -m ridgeline.analysis [--category NAME=PATTERN]... RUN_DIR", file=sys.stderr)
        return 2
    run_dir = Path(last)
    try:
        rules = own_categories.from_options(options[1::2])
        trouble = bring_peaks(run_dir)
        document = analyze_run(run_dir)
        if trouble:
            document.quality.warnings.append(QualityWarning(code="peaks", message=trouble))
        if rules:
            own_categories.apply(document, rules)
        publish(document, run_dir)
    except (UnreadableError, own_categories.CategoryError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
