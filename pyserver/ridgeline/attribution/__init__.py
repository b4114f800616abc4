"""From a unit of device work to the line that caused it: which statements, through which generated line, how sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ridgeline.attribution.alone import alone, place_own_calls
from ridgeline.attribution.backward import backward_map
from ridgeline.attribution.builder import Builder
from ridgeline.attribution.call_stacks import CallStacks
from ridgeline.attribution.compiled import STALE, CompiledCode
from ridgeline.attribution.eager import EagerCode, HostLines, TimelineStays
from ridgeline.attribution.frames import FrameLines
from ridgeline.attribution.host import host_of, regions_of
from ridgeline.attribution.kernel_places import place_kernel_files, place_user_kernels
from ridgeline.attribution.model import Attribution, GeneratedSite, PhaseOf
from ridgeline.attribution.modules import ModuleIndex
from ridgeline.attribution.region_lines import RegionLines
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.timeline import load_timeline
from ridgeline.inductor.files import GeneratedFiles
from ridgeline.inductor.provenance import ProvenanceLog, read_provenance
from ridgeline.profile import SourceRef
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import I32, Trace
from ridgeline.trace.work import WorkTable

__all__ = ["Attribution", "GeneratedSite", "PhaseOf", "attribute"]


def attribute(
    trace: Trace,
    work: WorkTable,
    *,
    sidecar: Sidecar | None = None,
    run_dir: Path | None = None,
    generated: Path | None = None,
    provenance: Path | None = None,
    source_roots: Sequence[tuple[str, str]] = (),
) -> Attribution:
    """Where every row of ``work`` comes from.

    ``generated`` is a folder with the generated files or an archive of one, ``provenance`` a ``TORCH_TRACE`` log or a
    folder of them, ``source_roots`` (old, new) prefixes for paths of another machine. Whatever is missing or damaged
    costs lines, said in ``reasons`` and ``notes``, never an exception.
    """
    builder = Builder(len(work.start))
    zero_ns = trace.base_ns + trace.origin_ns if trace.base_ns is not None else None
    store = SourceStore(sidecar=sidecar, run_dir=run_dir, roots=source_roots, recorded_ns=zero_ns)
    roots = tuple(sidecar.user_roots) if sidecar is not None else ()
    log = _read_log(provenance, builder)
    modules = ModuleIndex(
        _generated_files(sidecar, run_dir, generated, builder), store, roots, sidecar=sidecar, log=log
    )

    regions = regions_of(trace)
    host = host_of(trace, work, regions)
    timeline = load_timeline(sidecar.timeline, run_dir, store) if sidecar and sidecar.timeline and run_dir else None
    stacks = CallStacks(trace, store, roots)
    lines = HostLines(trace, timeline, FrameLines(trace, store, roots), backward_map(trace), zero_ns, stacks)
    if timeline is not None and zero_ns is None:
        builder.note("the trace does not say which clock it uses, so the recorded lines could not be joined to it")

    compiled = CompiledCode(
        trace, work, host, regions, modules, builder, RegionLines(trace, regions, lines, store, roots).refs
    )
    compiled.run()
    eager = EagerCode(trace, work, host, lines, builder)
    eager.run(np.flatnonzero(host.region < 0))
    eager.name(np.arange(len(work.start)))
    if not work.on_cpu:
        user_files = [file.path for file in sidecar.files if file.kind == "user"] if sidecar is not None else []
        place_user_kernels(trace, work, builder, store, user_files)
        place_kernel_files(trace, work, builder, modules.files)
    if sidecar is not None and alone(sidecar):
        place_own_calls(builder, sidecar, store)
    moved = [(old, new) for old, new in source_roots if old != new]
    if moved and not store.mapped:
        given = ", ".join(f"{old}={new}" for old, new in moved)
        builder.note(f"--source-root {given}: no file that the recording names lies there")
    if builder.rejected_us > 0:
        builder.note(f"{builder.rejected_us:.0f} us lie on lines that have changed since they were compiled ({STALE})")
    return Attribution(
        sites=builder.sites,
        site=builder.site,
        sources=builder.sources,
        source=builder.source,
        symbols=builder.symbols,
        symbol=builder.symbol,
        aten=builder.aten,
        aten_set=builder.aten_set,
        phase=builder.phase,
        reasons=builder.reasons,
        reason=builder.reason,
        modules=[entry.describe() for entry in compiled.modules_seen.values()],
        host_line=_host_line(lines),
        host_stays=TimelineStays(timeline, int(zero_ns)) if timeline is not None and zero_ns is not None else None,
        notes=list(builder.notes),
        rejected_us=builder.rejected_us,
        generated_text=modules.files.text,
        source_lines=store.lines,
        op_lines=_op_lines(trace, lines),
    )


def _read_log(provenance: Path | None, builder: Builder) -> ProvenanceLog | None:
    if provenance is None:
        return None
    try:
        log = read_provenance(provenance)
    except OSError as error:
        builder.note(f"the provenance log could not be read: {error}")
        return None
    if not (log.graphs or log.regions or log.truncated or log.skipped):
        builder.note(f"{provenance} holds no log of TORCH_TRACE; nothing was taken from it")
    if log.truncated:
        builder.note("the provenance log ends in the middle; what follows is missing")
    if log.skipped:
        named = [f"payload {name} of line {line}" for name, line in log.damaged[:3]]
        more = f" ({', '.join(named)}{' and others' if log.skipped > len(named) else ''})" if named else ""
        records = "1 record" if log.skipped == 1 else f"{log.skipped} records"
        builder.note(f"{records} of the provenance log could not be read and was left out{more}")
    return log


def _generated_files(
    sidecar: Sidecar | None, run_dir: Path | None, generated: Path | None, builder: Builder
) -> GeneratedFiles:
    snapshots: dict[str, Path] = {}
    if sidecar is not None and run_dir is not None:
        root = run_dir.resolve()
        for file in sidecar.files:
            if file.kind == "generated" and file.snapshot and (run_dir / file.snapshot).resolve().is_relative_to(root):
                snapshots[file.path] = run_dir / file.snapshot
    files = GeneratedFiles(generated, snapshots)
    if files.skipped:
        builder.note(f"{files.skipped} generated files were left out (damaged, too large or too many)")
    return files


def _host_line(lines: HostLines) -> Callable[[int, float], SourceRef | None]:
    def host_line(thread: int, time: float) -> SourceRef | None:
        found = lines.at(thread, time)
        return found if isinstance(found, SourceRef) else None

    return host_line


def _op_lines(trace: Trace, lines: HostLines) -> tuple[list[SourceRef], I32] | None:
    """The statement of every op, from the timeline alone."""
    if lines.timeline is None or not len(trace.ops.start):
        return None
    nodes = lines.nodes(trace.ops.tid, trace.ops.start)
    distinct, inverse = np.unique(nodes, return_inverse=True)
    refs: list[SourceRef] = []
    index = np.full(len(distinct), -1, dtype=np.int32)
    for i, node in enumerate(distinct.tolist()):
        ref = lines.timeline.ref(node)
        if ref is not None:
            index[i] = len(refs)
            refs.append(ref)
    return refs, index[inverse.reshape(-1)]
