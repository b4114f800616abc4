"""Which module a compiled region ran."""

from __future__ import annotations

import re

import numpy as np

from ridgeline.attribution.graphs import fits_module
from ridgeline.attribution.host import Host, Regions
from ridgeline.attribution.modules import ModuleEntry, ModuleIndex
from ridgeline.trace.tables import F64, I64, Trace
from ridgeline.trace.work import WorkTable

_WRAPPER_FRAME = re.compile(r"^(?P<path>.*\.py)\(\d+\): (?:call|partition_\d+|\w*subgraph\w*)$")

_NUMBERED = re.compile(r"^graph_(?P<number>\d+)_(?P<kernel>cpp_\w+)$")


def kernel_file_of(trace: Trace, op: int) -> str | None:
    """The single-kernel file that the launching op names."""
    if op < 0:
        return None
    row = int(trace.ops.args[op])
    triton = trace.op_args.triton[row] if row >= 0 else None
    value = triton.get("kernel_file") if triton else None
    return value if isinstance(value, str) and value else None


class RegionResolver:
    """By cache key where it is known; else by the frame of the module's ``call``, by the files of its kernels, or, for
    a replayed CUDA graph, by the one module whose kernels come in that order. What one region shows holds for its key."""

    def __init__(self, trace: Trace, work: WorkTable, host: Host, regions: Regions, modules: ModuleIndex) -> None:
        self.trace, self.work, self.host, self.regions, self.modules = trace, work, host, regions, modules
        self._by_key: dict[str, ModuleEntry | None] = {}
        self._frames = self._wrapper_frames()

    def module(self, region: int, rows: I64) -> ModuleEntry | None:
        """The module of a region; ``rows`` are its rows of work."""
        key = self.regions.key[region]
        known = self.modules.by_key.get(key) if key else None
        if known is not None:
            return known
        if self._by_key.get(key) is not None and key:
            return self._by_key[key]
        found = self._by_frame(region) or self._by_kernels(rows) or self._by_number(rows) or self._by_order(rows)
        if key:
            self._by_key[key] = found
            if found is not None:
                found.fx_key = found.fx_key or key
        return found

    def _wrapper_frames(self) -> tuple[F64, I64, list[str]]:
        frames = self.trace.frames
        empty: tuple[F64, I64, list[str]] = (np.zeros(0), np.zeros(0, dtype=np.int64), [])
        if frames is None:
            return empty
        paths = {
            i: m["path"] for i, text in enumerate(self.trace.strings) if (m := _WRAPPER_FRAME.match(text)) is not None
        }
        if not paths:
            return empty
        rows = np.flatnonzero(np.isin(frames.name, np.array(sorted(paths), dtype=np.int32)))
        rows = rows[np.argsort(frames.start[rows], kind="stable")]
        return frames.start[rows], frames.tid[rows], [paths[int(i)] for i in frames.name[rows]]

    def _by_frame(self, region: int) -> ModuleEntry | None:
        starts, tids, paths = self._frames
        start = float(self.regions.start[region])
        first = int(np.searchsorted(starts, start, side="left"))
        last = int(np.searchsorted(starts, start + float(self.regions.dur[region]), side="right"))
        for i in range(first, last):
            if tids[i] == self.regions.thread[region] and (entry := self.modules.find(paths[i])) is not None:
                return entry
        return None

    def _by_kernels(self, rows: I64) -> ModuleEntry | None:
        files = {file for op in self.host.op[rows].tolist() if (file := kernel_file_of(self.trace, op)) is not None}
        return self.modules.defining(sorted(files))

    def _by_number(self, rows: I64) -> ModuleEntry | None:
        """C++ kernels recorded by Inductor itself are called ``graph_N_kernel``, where N is the number in the AOT id."""
        wanted = {
            (match["number"], match["kernel"])
            for op in self.host.op[rows].tolist()
            if op >= 0 and (match := _NUMBERED.match(self.trace.strings[int(self.trace.ops.name[op])])) is not None
        }
        fitting = [
            entry
            for entry in (self.modules.all() if wanted else ())
            if all((entry.wrapper.aot_id or "").startswith(f"{n}_") and k in entry.wrapper.kernels for n, k in wanted)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _by_order(self, rows: I64) -> ModuleEntry | None:
        names = [self.trace.strings[i] for i in self.work.name[rows].tolist()]
        fitting = [entry for entry in self.modules.all() if fits_module(names, entry.wrapper)]
        return fitting[0] if len(fitting) == 1 else None
