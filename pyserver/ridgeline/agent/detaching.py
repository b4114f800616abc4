"""When CUPTI goes: once nothing more is to be recorded, no call into torch is left from the last recording, and it is safe.

Not where the program replays CUDA graphs: one that ran while CUPTI was attached still refers to it, and the next replay after
the detaching ended in an "unspecified launch failure" (on an H200, CUDA 13.0). Not where calls of the CUDA runtime come from
threads whose part in this has not been tried: a process group's, the program's own.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from . import cupti, kineto
from .calls import UnfinishedCalls
from .kineto import Recording
from .spec import Spec

_captured = False


def on_graphs(module: ModuleType) -> None:
    """``torch.cuda.graphs``: every capture through Python, Inductor's too, begins there."""
    graph: Any = module.CUDAGraph
    begin = graph.capture_begin

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _captured
        _captured = True
        return begin(self, *args, **kwargs)

    graph.capture_begin = capture_begin


def hindrance(torch: Any, calls: UnfinishedCalls) -> str | None:
    """Why CUPTI has to stay; None where it may go."""
    if (reason := cupti.fixed(torch)) is not None:
        return reason
    pools = _has_pools(torch)
    if _captured or kineto.graphs_seen() or pools:
        return "the program uses CUDA graphs"
    if pools is None:
        return "the allocator does not tell of CUDA graphs"
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return "a process group is at work"
    return "other threads are at work" if calls.others_at_work() else None


def _has_pools(torch: Any) -> bool | None:
    """Whether the allocator has memory for graphs, whoever captured them (or for pools that the program made); None if not known."""
    try:
        return any(tuple(segment["segment_pool_id"]) != (0, 0) for segment in torch.cuda.memory_snapshot())
    except (AttributeError, KeyError, RuntimeError):  # another torch, another allocator
        return None


class Detaching:
    """``want`` after what may be the last recording; then ``now`` until it is no longer ``due``."""

    def __init__(self, torch: Any, spec: Spec, calls: UnfinishedCalls) -> None:
        self._torch, self._calls = torch, calls
        self._spec = replace(spec, memory=False, stacks=False)
        self.due = False
        self.gone = False
        """Nothing was recorded since CUPTI was detached."""
        self.kept: str | None = None
        """Why CUPTI is still attached, once that is clear."""

    def want(self, kinds: list[str]) -> None:
        """A recording of these accelerators has ended, and its result is saved."""
        self.due = not self.gone and "cuda" in kinds and cupti.fixed(self._torch) is None
        if "cuda" in kinds and not self.gone:
            self.kept = cupti.fixed(self._torch) or "a call into torch outlived the recording"

    def now(self) -> bool:
        """Detach, if that is still safe; False while a call outlives the last recording: this takes a session of its own."""
        if not self._calls.ended():
            return False
        self.due = False
        self.kept = hindrance(self._torch, self._calls)
        if self.kept is None:
            self.gone = cupti.detach(self._torch, Recording(self._torch, self._spec))
            self.kept = None if self.gone else "no call of the CUDA runtime let it go"
            self._calls.note()
        return True

    def attached(self) -> None:
        """A session begins: the program's own, or one of ours."""
        self.due = self.gone = False
