"""``export_memory_timeline(...)`` in its raw form: ``[[time_ns, action, bytes, category], …]``, gzipped or not.

Rows with time -1 are tensors that existed when recording began: the starting level, not events. A version change is two
rows, minus in the old category and plus in the new one. Actions and categories are torch's (``torch.profiler._memory_profiler``).
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ridgeline.trace.tables import I32, I64

CATEGORIES = (
    "unknown",
    "parameter",
    "gradient",
    "activation",
    "temporary",
    "optimizer_state",
    "autograd_detail",
    "input",
)
"""Names by index, as torch orders them in this file; an index beyond them has no name."""
MAX_BYTES = 1 << 31


class MemoryTimelineError(ValueError):
    """The file is not a raw memory timeline; one line says why."""


@dataclass(slots=True, frozen=True)
class MemoryTimeline:
    """Every array has one entry a row of the file, in the file's order."""

    time_ns: I64
    """-1: before the recording."""
    bytes: I64
    category: I32
    total: I64
    """Bytes live after each row."""

    @property
    def start_bytes(self) -> int:
        """What was live when recording began."""
        return int(self.bytes[self.time_ns == -1].sum())

    @property
    def peak_bytes(self) -> int:
        """The highest level at the end of any instant; rows of one instant belong together."""
        if not len(self.total):
            return 0
        last = np.append(self.time_ns[1:] != self.time_ns[:-1], True)
        return int(max(self.total[last].max(), 0))

    def by_category(self, row: int) -> dict[int, int]:
        """Live bytes of each category after a row."""
        upto = slice(0, row + 1)
        sums = np.bincount(self.category[upto], weights=self.bytes[upto].astype(np.float64))
        return {int(k): int(sums[k]) for k in np.unique(self.category[upto])}


def read_memory_timeline(path: Path) -> MemoryTimeline:
    """Raises :class:`MemoryTimelineError` for anything else than such a file, ``OSError`` if it cannot be read."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise MemoryTimelineError(f"{path}: larger than {MAX_BYTES >> 30} GiB")
    try:
        rows = msgspec.json.decode(data, type=list[tuple[int, int, int, int]])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise MemoryTimelineError(
            f"{path} is no raw memory timeline ([[time, action, bytes, category], …]): {error}"
        ) from error
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    if len(table) and table[:, 3].min() < 0:
        raise MemoryTimelineError(f"{path}: a category below zero")
    return MemoryTimeline(table[:, 0], table[:, 2], table[:, 3].astype(np.int32), np.cumsum(table[:, 2]))
