"""From a run or a trace, and perhaps a kernel, to a served page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from ridgeline.perfetto import page
from ridgeline.perfetto.clean import Cleaned, Excerpt, clean
from ridgeline.perfetto.server import IDLE_S, Served, TraceServer, local_ui
from ridgeline.perfetto.tracks import Tracks
from ridgeline.profile import Kernel, ProfileDocument
from ridgeline.trace.reader import read_trace

BROWSER_LIMIT = 1_000_000_000
"""Bytes of raw JSON above which the interface runs out of memory (1.3 GB opened, 1.8 GB failed in its issue tracker)."""
INFLATION = 12
"""A Kineto trace is about this much larger than its gzip."""
AROUND_US = 50_000.0
"""Context on each side of a kernel in an excerpt."""


def open_trace(
    trace: Path,
    *,
    document: ProfileDocument | None = None,
    kernel: Kernel | None = None,
    reveal: Callable[[str], None] | None = None,
    idle_s: float = IDLE_S,
) -> tuple[TraceServer, Cleaned]:
    """Serve a cleaned copy of ``trace``, with ``kernel``'s representative launch selected.

    Above the browser's limit an excerpt around the kernel (or the first recorded step) is served instead; the note says
    so. Raises ``ridgeline.trace.errors.TraceError`` and ``OSError``.
    """
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-perfetto-"))
    target = folder / "trace.json.gz"
    raw = trace.stat().st_size * (INFLATION if trace.suffix == ".gz" else 1)
    excerpt = _excerpt(document, kernel) if raw > BROWSER_LIMIT else None
    params = _selection(kernel)
    served = Served(trace=target, title=trace.name, params=params, ui=local_ui(), reveal=reveal)
    if document is not None:
        served.places = {k.id: [(s.file, s.line, s.text) for s in k.source] for k in document.kernels if k.source}
    server = TraceServer(served, idle_s=idle_s)
    links = (
        {k.symbol: server.link(k.id) for k in reversed(document.kernels) if k.id in served.places} if document else {}
    )
    tracks = Tracks(read_trace(trace, frames=False), document) if excerpt is None else None
    try:
        cleaned = clean(trace, target, excerpt=excerpt, tracks=tracks, links=links)
    except BaseException:
        server.close()
        raise
    if excerpt is not None:
        cleaned.notes.append(
            f"the trace is too large for a browser (about {raw / 1e9:.1f} GB): shown is an excerpt of "
            f"{(excerpt.end_us - excerpt.start_us) / 1000:.0f} ms; for all of it run Perfetto's trace_processor"
        )
    return server, cleaned


def _selection(kernel: Kernel | None) -> dict[str, str]:
    if kernel is None or kernel.slice is None:
        return page.selection(None, None, None, None)
    return page.selection(round(kernel.slice.ts_us * 1000), round(kernel.slice.dur_us * 1000), None, None)


def _excerpt(document: ProfileDocument | None, kernel: Kernel | None) -> Excerpt | None:
    if kernel is not None and kernel.slice is not None:
        start, end = kernel.slice.ts_us, kernel.slice.ts_us + kernel.slice.dur_us
    elif document is not None and document.steps:
        start, end = document.steps[0].start_us, document.steps[0].start_us + document.steps[0].wall_us
    else:
        return None
    return Excerpt(start_us=start - AROUND_US, end_us=end + AROUND_US)
