"""The Python frames of a trace as a tree: which frame called which, whose code it is, which were running at the start.

A frame is called ``file(line): function``, where the line is the function's *first*; a frame that was already running
when recording began shows instead the line it happened to be at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ridgeline.attribution.nesting import Nest
from ridgeline.attribution.paths import owner
from ridgeline.trace.tables import F64, I32, I64, U8, Trace

_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d{1,9})\): (?P<function>.+)$")
_PROFILER_START = re.compile(
    r"(?:^|/)(?:torch/)?(?:autograd|profiler)/profiler\.py\(\d+\): (?:_?start\w*|__enter__|step|_transit_action|prepare_trace)$"
)
_AUTOGRAD = re.compile(r"(?:^|/)torch/(?:_tensor|autograd/__init__)\.py\(\d+\): (?:backward|grad)$")
_TRIAL = re.compile(
    r"(?:^|/)(?:triton/testing\.py\(\d+\): do_bench\w*|triton/runtime/autotuner\.py\(\d+\): (?:_bench|benchmark)"
    r"|torch/_inductor/runtime/triton_heuristics\.py\(\d+\): (?:bench|benchmark_all_configs|autotune_to_one_config"
    r"|coordinate_descent_tuning)|torch/_inductor/(?:runtime/benchmarking|autotune_process|select_algorithm)\.py\(\d+\): "
    r"(?:benchmark\w*|do_bench\w*))$"
)
# Frames between a call and what it is known by: decorators and dispatchers.
_WRAPPERS = frozenset(
    "wrapper inner wrapped decorate_context _fn helper _use_grad profile_hook_step _call_impl _wrapped_call_impl "
    "_use_grad_for_differentiable decorate_autocast fast_path_wrapper".split()
)
MAX_DEPTH = 400
_LATE_US = 1.0
_DEEP = 3
"""A real stack at the start of a recording has at least the module, a function, and what it calls."""


@dataclass(slots=True, frozen=True)
class ParsedFrame:
    file: str
    line: int
    function: str


def parse_frame(name: str) -> ParsedFrame | None:
    """``model.py(12): forward``; None for names without a file or a real line (line 0 is none, but for a module's top)."""
    match = _FRAME.match(name.replace("\\", "/"))
    if match is None or (int(match["line"]) < 1 and match["function"] != "<module>"):
        return None
    return ParsedFrame(match["file"], int(match["line"]), match["function"])


class FrameTree:
    """One row for every row of ``Trace.frames``; -1 for none.

    ``parent`` is the calling frame, ``user`` the innermost user frame at or around a frame, ``child`` the frame that this
    user frame called on the way down, ``named`` the first on that way that is no decorator, ``chain`` a number for the
    user frames around (equal numbers, equal frames).
    """

    def __init__(self, trace: Trace, user_roots: tuple[str, ...] = ()) -> None:
        assert trace.frames is not None
        self.trace, self.user_roots, self.frames = trace, user_roots, trace.frames
        self.parsed: dict[int, ParsedFrame | None] = {}
        frames = self.frames
        texts = trace.strings
        used = np.unique(frames.name).tolist()
        for name in used:
            self.parsed[name] = parse_frame(texts[name])
        self.is_user = self._marks(
            {n for n, f in self.parsed.items() if f is not None and owner(f.file, user_roots) == "user"}
        )
        builtin = self._marks({n for n in used if texts[n].startswith("<built-in")})
        # A C call whose return was missed seems to outlive its caller, and all that came later to lie inside: left out.
        # (A Python frame of that kind ends where its caller does.)
        limit = self._caller_end(frames.start + frames.dur)
        lost = frames.start + frames.dur > limit + _LATE_US
        self._kept = np.flatnonzero(~((lost | (frames.open_end > 0)) & (builtin[frames.name] > 0)))
        dur = np.where(lost, np.maximum(limit - frames.start, 0.0), frames.dur)
        self._nest = Nest(frames.start[self._kept], dur[self._kept], frames.tid[self._kept])
        self.parent: I32 = np.full(len(frames.name), -1, dtype=np.int32)
        self.parent[self._kept] = np.where(self._nest.parent >= 0, self._kept[np.maximum(self._nest.parent, 0)], -1)
        self.threads = [int(t) for t in np.unique(frames.tid)]
        self.running = self._running_at_start()
        self._walk(used)

    def _marks(self, names: set[int]) -> U8:
        marks: U8 = np.zeros(len(self.trace.strings), dtype=np.uint8)
        marks[list(names)] = 1
        return marks

    def _caller_end(self, end: F64) -> F64:
        """For every frame the end of the frame that called it; infinite where the caller is not recorded."""
        ids, parents = self.frames.python_id, self.frames.python_parent
        order = np.argsort(ids, kind="stable")
        at = np.minimum(np.searchsorted(ids[order], parents), len(order) - 1)
        found = (parents >= 0) & (ids[order[at]] == parents) & (self.frames.tid[order[at]] == self.frames.tid)
        return np.where(found, end[order[at]], np.inf)

    def _walk(self, used: list[int]) -> None:
        """One pass from callers to callees."""
        n = len(self.frames.name)
        wrapper = {
            name for name, f in self.parsed.items() if f is not None and f.function.rpartition(".")[2] in _WRAPPERS
        }
        trials = {name for name in used if _TRIAL.search(self.trace.strings[name])}
        autograd = {name for name in used if _AUTOGRAD.search(self.trace.strings[name])}
        user, child, named, chain = [-1] * n, [-1] * n, [-1] * n, [-1] * n
        trial, grad = bytearray(n), bytearray(n)
        names, parents, is_user = self.frames.name.tolist(), self.parent.tolist(), self.is_user.tolist()
        chains: dict[tuple[int, int], int] = {}
        order = self._kept[np.lexsort((self._depth(), self.frames.start[self._kept]))]
        for row in order.tolist():
            name, above = names[row], parents[row]
            outer = chain[above] if above >= 0 else -1
            if above >= 0:
                trial[row] = trial[above]
            if is_user[name]:
                user[row] = row
                chain[row] = chains.setdefault((outer, name), len(chains))
            elif above >= 0:
                user[row], chain[row], grad[row] = user[above], outer, grad[above]
                child[row] = child[above] if child[above] >= 0 else row
                known = named[above]
                named[row] = known if known >= 0 and names[known] not in wrapper else row
                if name in autograd:
                    grad[row] = 1
            if name in trials:
                trial[row] = 1
        self.user, self.child = np.array(user, dtype=np.int32), np.array(child, dtype=np.int32)
        self.named, self.chain = np.array(named, dtype=np.int32), np.array(chain, dtype=np.int32)
        self.trial: U8 = np.frombuffer(bytes(trial), dtype=np.uint8)
        """1 inside a benchmark of an autotuner."""
        self.in_autograd: U8 = np.frombuffer(bytes(grad), dtype=np.uint8)
        """1 where the user frame around called ``backward`` or ``grad``."""

    def _depth(self) -> I32:
        """Of the kept frames: a caller's is less than its callees'."""
        depth: I32 = np.zeros(len(self._kept), dtype=np.int32)
        current = self._nest.parent.copy()
        active = np.flatnonzero(current >= 0)
        while len(active):
            depth[active] += 1
            current[active] = self._nest.parent[current[active]]
            active = active[current[active] >= 0]
        return depth

    def innermost(self, thread: I64, time: F64) -> I32:
        """Row of the innermost frame at each instant."""
        found = self._nest.innermost(thread, time)
        return np.where(found >= 0, self._kept[np.maximum(found, 0)], -1).astype(np.int32)

    def _running_at_start(self) -> frozenset[int]:
        """Frames that were on a stack when recording began: the first frame of a thread, its first child, and so on down
        to the profiler's own start. Where no frame shows that start (it was asked for from outside), those that last as
        long as their thread's recording."""
        frames, spines = self.frames, []
        end = frames.start + frames.dur
        began = np.inf
        for tid in self.threads:
            rows = np.flatnonzero(frames.tid == tid)
            last = float(end[rows].max())
            rows = rows[np.lexsort((-frames.dur[rows], frames.start[rows]))][:MAX_DEPTH]
            spine = [int(rows[0])]
            for row in rows[1:].tolist():
                if int(self.parent[row]) != spine[-1]:
                    break
                spine.append(row)
            spines.append((spine, last))
            starts = [row for row in spine if _PROFILER_START.search(self.trace.strings[int(frames.name[row])])]
            if starts:
                began = min(began, float(frames.start[starts[-1]]))
        if np.isfinite(began):
            return frozenset(row for spine, _ in spines for row in spine if frames.start[row] <= began)
        return frozenset(
            row for spine, last in spines if len(spine) >= _DEEP for row in spine if end[row] >= last - _LATE_US
        )
