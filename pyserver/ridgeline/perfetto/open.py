"""From a run or a trace, and perhaps a kernel, to a served page."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ridgeline.perfetto import page
from ridgeline.perfetto.clean import Cleaned, Selected, Wanted, clean
from ridgeline.perfetto.excerpt import Excerpt, around, beginning, cut
from ridgeline.perfetto.server import IDLE_S, Served, TraceServer, local_ui
from ridgeline.perfetto.tracks import Tracks
from ridgeline.profile import Kernel, ProfileDocument
from ridgeline.trace.reader import read_trace

BROWSER_LIMIT = 1_000_000_000
"""Bytes of raw JSON above which the interface runs out of memory (1.3 GB opened, 1.8 GB failed in its issue tracker)."""
INFLATION = 12
"""A Kineto trace is about this much larger than its gzip."""


def open_trace(
    trace: Path,
    *,
    document: ProfileDocument | None = None,
    kernel: Kernel | None = None,
    reveal: Callable[[str], None] | None = None,
    idle_s: float = IDLE_S,
    limit: int = BROWSER_LIMIT,
) -> tuple[TraceServer, Cleaned]:
    """Serve a cleaned copy of ``trace``, with ``kernel``'s representative launch selected.

    Above ``limit`` bytes of raw JSON an excerpt around the kernel (else the first recorded step, else the first device
    work) is served instead; the note says so. The copy lies in a new folder, which is the caller's to remove. Raises
    ``ridgeline.trace.errors.TraceError`` and ``OSError``; then nothing is left behind.
    """
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-perfetto-"))
    server: TraceServer | None = None
    try:
        source, notes = _within(trace, folder, document, kernel, limit)
        served = Served(trace=folder / "trace.json.gz", title=trace.name, ui=local_ui(), reveal=reveal)
        if document is not None:
            served.places = {k.id: [(s.file, s.line, s.text) for s in k.source] for k in document.kernels if k.source}
        server = TraceServer(served, idle_s=idle_s)
        kernels = reversed(document.kernels) if document is not None else ()
        links = {k.symbol: server.link(k.id) for k in kernels if k.id in served.places}
        tracks = Tracks(read_trace(source, frames=False), document)
        cleaned = clean(source, served.trace, tracks=tracks, links=links, wanted=_wanted(kernel))
        served.params = _selection(cleaned.selected)
    except BaseException:
        if server is not None:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    cleaned.notes += notes
    if kernel is not None and cleaned.selected is None:
        cleaned.notes.append(f"no launch of {kernel.name} was found in the trace, so none is selected")
    return server, cleaned


def _within(
    trace: Path, folder: Path, document: ProfileDocument | None, kernel: Kernel | None, limit: int
) -> tuple[Path, list[str]]:
    """The trace itself, or an excerpt where it is too large for a browser, with a note."""
    raw = raw_size(trace)
    excerpt = _excerpt(trace, document, kernel) if raw > limit else None
    if excerpt is None:
        return trace, []
    part = folder / "excerpt.json.gz"
    cut(trace, part, excerpt)
    note = (
        f"the trace is too large for a browser (about {raw / 1e9:.1f} GB): shown is an excerpt of "
        f"{(excerpt.end_us - excerpt.start_us) / 1000:.0f} ms, with the launches, operators and steps that belong to it; "
        "for all of it run Perfetto's trace_processor"
    )
    return part, [note]


def raw_size(trace: Path) -> int:
    """Bytes of JSON: exact for plain files and for gzip of one member, whose end tells them modulo 4 GiB."""
    size = trace.stat().st_size
    with trace.open("rb") as file:
        if size < 20 or file.read(2) != b"\x1f\x8b":
            return size
        file.seek(-4, 2)
        told = int.from_bytes(file.read(4), "little")
    guess = size * INFLATION
    exact = told + (max(0, guess - told) + (1 << 31) >> 32 << 32)
    # Of several members the end tells the last one alone.
    return exact if exact >= size else guess


def _wanted(kernel: Kernel | None) -> Wanted | None:
    if kernel is None or kernel.slice is None:
        return None
    return Wanted(symbol=kernel.symbol, ts_us=kernel.slice.ts_us, dur_us=kernel.slice.dur_us)


def _selection(selected: Selected | None) -> dict[str, str]:
    if selected is None:
        return page.selection(None, None, None, None)
    return page.selection(selected.ts_ns, selected.dur_ns, selected.pid, selected.tid)


def _excerpt(trace: Path, document: ProfileDocument | None, kernel: Kernel | None) -> Excerpt | None:
    if kernel is not None and kernel.slice is not None:
        return around(kernel.slice.ts_us, kernel.slice.dur_us)
    if document is not None and document.steps:
        return around(document.steps[0].start_us, document.steps[0].wall_us)
    return beginning(trace)
