"""DataLoaders that the program iterates: their settings, the line of the loop, and the time spent waiting."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .timeline import user_frames

WAITS = 20_000
"""Waits kept a loader."""


class Loaders:
    """Rows of ``Sidecar.loaders``; one a loader and line (a loader made anew each epoch stays one row)."""

    def __init__(
        self, is_user: Callable[[str], bool], mark: Callable[[str, Any], None], given: Callable[[Any], None]
    ) -> None:
        """``given``: what looks at every batch."""
        self._is_user, self._mark, self._given = is_user, mark, given
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def rows(self, windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the waits that touch one of the windows, and which part of them the waiting thread computed."""
        result = []
        for row in self._rows.values():
            inside = [
                wait
                for wait in row["waits"]
                if any(wait[0] < window["end_ns"] and wait[1] > window["start_ns"] for window in windows)
            ]
            waits = [{"start_ns": start, "end_ns": end} for start, end, _ in inside]
            waited = sum(end - start for start, end, _ in inside)
            share = min(1.0, sum(cpu for _, _, cpu in inside) / waited) if waited > 0 else None
            result.append({**row, "waits": waits, "cpu_share": share})
        return result

    def on_dataloader(self, module: ModuleType) -> None:
        """``torch.utils.data.dataloader``"""
        base: Any = module._BaseDataLoaderIter  # type: ignore[attr-defined,unused-ignore]
        start, fetch = base.__init__, base.__next__
        loaders = self

        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            start(self, loader, *args, **kwargs)
            self._ridgeline_settings = _settings(loader)

        def __next__(self: Any) -> Any:
            loaders._mark("loader", id(type(self)))
            begin, computed = time.time_ns(), time.thread_time_ns()
            batch = fetch(self)
            loaders._note(self, (begin, time.time_ns(), time.thread_time_ns() - computed), batch)
            return batch

        base.__init__, base.__next__ = __init__, __next__

    def _note(self, iterator: Any, wait: tuple[int, int, int], batch: Any) -> None:
        row = getattr(iterator, "_ridgeline_row", None)
        if row is None:
            settings = getattr(iterator, "_ridgeline_settings", None)
            if settings is None:
                return
            frames = user_frames(sys._getframe(2), self._is_user)
            file, line = (frames[-1].f_code.co_filename, frames[-1].f_lineno) if frames else (None, None)
            key = (file, line, *settings.values())
            row = self._rows.setdefault(key, {**settings, "file": file, "line": line, "waits": []})
            iterator._ridgeline_row = row
        if len(row["waits"]) < WAITS:
            row["waits"].append(wait)
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
