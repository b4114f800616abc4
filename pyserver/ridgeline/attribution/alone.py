"""A generated module that is profiled by itself: its own call lines are the lines of the file that the person has open."""

from __future__ import annotations

import numpy as np

from ridgeline.attribution.builder import Builder
from ridgeline.attribution.sources import SourceStore
from ridgeline.profile import SourceRef
from ridgeline.sidecar import Sidecar

METHOD = "module_call"
CONFIDENCE = 0.95
"""As sure as the join of the launch with the call."""


def alone(sidecar: Sidecar | None) -> bool:
    """Whether the program that ran was a generated module."""
    return sidecar is not None and any(graph.path == sidecar.main for graph in sidecar.graphs)


def place_own_calls(builder: Builder, sidecar: Sidecar, store: SourceStore) -> None:
    """Give rows of a module that ran alone, where no line is known, the module's line that called them."""
    main = sidecar.main
    if main is None:
        return
    rows = store.lines(main) or []
    refs: dict[int, SourceRef] = {}
    for row in np.flatnonzero((builder.source < 0) & (builder.site >= 0)).tolist():
        site = builder.sites[int(builder.site[row])]
        line = site.call_line
        if site.module != main or line is None:
            continue
        if line not in refs:
            text = rows[line - 1].strip() if line <= len(rows) else None
            refs[line] = SourceRef(
                file=main, line=line, function="call", text=text, method=METHOD, confidence=CONFIDENCE
            )
        builder.source[row] = builder.source_id((refs[line],))
        builder.reason[row] = -1
