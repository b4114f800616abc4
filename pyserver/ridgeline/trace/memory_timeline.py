"""``export_memory_timeline``'s raw form: ``[[time, action, bytes, category], …]``, a file of its own.

Sizes are signed (what is freed is negative, a new version of a tensor is written as minus the old and plus the new), so
the level is their running sum. Rows of time -1 are what existed before: the starting level, not events.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ridgeline.trace.errors import TraceError
from ridgeline.trace.source import ByteSource
from ridgeline.trace.tables import F64, I64

_LARGEST = 1 << 30


class MemoryTimeline(NamedTuple):
    """What was allocated when. ``level`` includes what existed before recording began."""

    time: F64
    """As in the file (ns), of the rows that are events."""
    level: I64
    """Bytes allocated after each event."""
    initial: int
    """Bytes that existed before: the rows of time -1."""
    by_category: dict[int, int]
    """Bytes of ``initial`` by category number."""

    @property
    def peak(self) -> int:
        return max(self.initial, int(self.level.max())) if len(self.level) else self.initial


def read_memory_timeline(path: str | Path) -> MemoryTimeline:
    """Reads the raw form, compressed or not. Raises :class:`TraceError` where it is something else."""
    parts, size = [], 0
    for piece in ByteSource(path):
        parts.append(piece)
        size += len(piece)
        if size > _LARGEST:
            raise TraceError(f"{path} is too large for a memory timeline (over 1 GB)")
    text = b"".join(parts)
    if not re.match(rb"\s*\[\s*(?:\[|\])", text):
        raise TraceError(f"{path} is no memory timeline in its raw form: it holds no rows")
    try:
        rows: list[list[Any]] = msgspec.json.decode(text, type=list[list[Any]])
    except msgspec.DecodeError as error:
        raise TraceError(f"{path} is no memory timeline in its raw form ({error})") from None
    initial, level = 0, 0
    by_category: dict[int, int] = {}
    times: list[float] = []
    levels: list[int] = []
    for row in rows:
        if len(row) < 3 or not isinstance(row[0], (int, float)) or not isinstance(row[2], int):
            continue
        level += row[2]
        if row[0] < 0:
            initial = level
            if len(row) > 3 and isinstance(row[3], int):
                by_category[row[3]] = by_category.get(row[3], 0) + row[2]
            continue
        times.append(float(row[0]))
        levels.append(level)
    return MemoryTimeline(np.array(times, dtype=np.float64), np.array(levels, dtype=np.int64), initial, by_category)
