"""DataLoaders that the program iterates: their settings, the line of the loop, and the time spent waiting."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from types import ModuleType
from typing import Any

from . import drawing
from .drawing import Draw
from .handover import Asked, contents
from .timeline import user_frames

WAITS = 20_000
"""Waits kept a loader."""
PLAIN_STATES = ("settle", "plain", "counted", "deferred", "done")
"""The recorder's states in which nothing is recorded."""
BATCHES = 3
"""Batches of a loader that are looked into."""

Wait = tuple[int, int, int, "bool | None", "tuple[Draw, ...] | None"]
"""Start and end, the time that the waiting thread computed meanwhile, whether the batch was ready, and when indices were drawn (None
where torch does not tell)."""


@dataclass
class Row:
    """One loader and line (a loader made anew each epoch stays one row)."""

    settings: dict[str, Any]
    file: str | None
    line: int | None
    waits: list[Wait] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)
    """Nanoseconds of the waits while nothing was recorded, but for the first of an iterator, which begins an epoch."""
    plain_drawn: list[int] = field(default_factory=list)
    """Nanoseconds of each of these that indices were drawn in."""
    late: int = 0
    """Of these, those for a batch that a worker had not made yet."""
    looked: int = 0
    batch: tuple[int, int] | None = (0, 0)

    def note(self, wait: Wait, plain: bool, batch: Any) -> None:
        if len(self.waits) < WAITS:
            self.waits.append(wait)
        if plain and len(self.plain) < WAITS:
            self.plain.append(wait[1] - wait[0])
            if wait[4] is not None:
                self.plain_drawn.append(drawing.took_ns(wait[4]))
            self.late += wait[3] is False
        if self.looked < BATCHES and self.batch is not None:
            self.looked += 1
            try:
                held = contents(batch)
            except Exception:  # noqa: BLE001 - a mapping or an array of the program's own kind
                held = None
            self.batch = None if held is None else max(self.batch, held)

    def as_json(self, windows: list[dict[str, Any]]) -> dict[str, Any]:
        """A row of ``Sidecar.loaders``, with the waits that touch one of the windows."""
        inside = [
            wait
            for wait in self.waits
            if any(wait[0] < window["end_ns"] and wait[1] > window["start_ns"] for window in windows)
        ]
        waited = sum(wait[1] - wait[0] for wait in inside)
        computed = sum(wait[2] for wait in inside)
        draws = None if any(wait[4] is None for wait in inside) else [draw for wait in inside for draw in wait[4] or ()]
        tensors, size = self.batch if self.looked and self.batch is not None else (None, None)
        return {
            **self.settings,
            "file": self.file,
            "line": self.line,
            "waits": [{"start_ns": wait[0], "end_ns": wait[1]} for wait in inside],
            "draws": None if draws is None else [{"start_ns": start, "end_ns": end} for start, end in draws],
            "cpu_share": min(1.0, computed / waited) if waited > 0 else None,
            "ready": [wait[3] for wait in inside] if self.settings["num_workers"] else [],
            "plain_us": median(self.plain) / 1e3 if self.plain else None,
            "plain_drawn_us": median(self.plain_drawn) / 1e3 if self.plain_drawn else None,
            "plain_waits": len(self.plain),
            "plain_late": self.late,
            "batch_tensors": tensors,
            "batch_bytes": size,
        }


class Loaders:
    """Rows of ``Sidecar.loaders``."""

    def __init__(
        self,
        is_user: Callable[[str], bool],
        mark: Callable[[str, Any], None],
        given: Callable[[Any], None],
        state: Callable[[], str],
    ) -> None:
        """``given``: what looks at every batch; ``state``: the recorder's."""
        self._is_user, self._mark, self._given, self._state = is_user, mark, given, state
        self._rows: dict[tuple[Any, ...], Row] = {}

    def rows(self, windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the waits that touch one of the windows, and which part of them the waiting thread computed."""
        return [row.as_json(windows) for row in self._rows.values()]

    def on_dataloader(self, module: ModuleType) -> None:
        """``torch.utils.data.dataloader``"""
        base: Any = module._BaseDataLoaderIter  # type: ignore[attr-defined,unused-ignore]
        start, fetch = base.__init__, base.__next__
        timed = drawing.hook(base)
        loaders = self

        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            start(self, loader, *args, **kwargs)
            self._ridgeline_settings = _settings(loader)

        def __next__(self: Any) -> Any:
            loaders._mark("loader", id(type(self)))
            asked = Asked(self)
            drawing.begin(self)
            begin, computed = time.time_ns(), time.thread_time_ns()
            batch = fetch(self)
            end, computed = time.time_ns(), time.thread_time_ns() - computed
            draws = drawing.end(self)
            loaders._note(self, (begin, end, computed, asked.ready(), draws if timed else None), batch)
            return batch

        base.__init__, base.__next__ = __init__, __next__

    def _note(self, iterator: Any, wait: Wait, batch: Any) -> None:
        row: Row | None = getattr(iterator, "_ridgeline_row", None)
        first = row is None
        if row is None:
            settings = getattr(iterator, "_ridgeline_settings", None)
            if settings is None:
                return
            frames = user_frames(sys._getframe(2), self._is_user)
            file, line = (frames[-1].f_code.co_filename, frames[-1].f_lineno) if frames else (None, None)
            row = self._rows.setdefault((file, line, *settings.values()), Row(settings, file, line))
            iterator._ridgeline_row = row
        row.note(wait, not first and self._state() in PLAIN_STATES, batch)
        self._given(batch)


def _settings(loader: Any) -> dict[str, Any]:
    workers = int(getattr(loader, "num_workers", 0))
    return {
        "num_workers": workers,
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "prefetch_factor": getattr(loader, "prefetch_factor", None) if workers else None,
        "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
        "batch_size": getattr(loader, "batch_size", None),
    }
