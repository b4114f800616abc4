"""One recording of torch's profiler: start, stop, count, save. The only module that starts Kineto.

A recording is global (``profile_all_threads``): threads of the user's own are seen, and any thread may stop it. One with
memory cannot be: it sees the thread that started it, which is the main one, and those of autograd that work for it.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from typing import Any

from .cupti import kept
from .spec import Spec

# Kineto writes a line of severity USDT to standard error at every start and stop; 6 is above all severities.
QUIET_KINETO = "6"

SLACK_NS = 60_000_000_000
"""How far a device's record may lie outside its recording before its clock is another one. Clocks that belong together
differ by microseconds, the other one by hours."""


GRAPH_CALLS = ("cudaGraph", "cuGraph", "cudaStreamBeginCapture", "cuStreamBeginCapture")

_OURS: dict[int, Any] = {}
_STARTING = False
"""The profile object is made within ``start``, so hooks see it before it can be in ``_OURS``."""


_announced: set[str] = set()
_graphs = False


def graphs_seen() -> bool:
    """Whether a recording had calls that make or launch CUDA graphs, whoever made them."""
    return _graphs


def announce(kind: str) -> None:
    """The program is initializing this accelerator just now; torch does not count it as initialized yet."""
    _announced.add(kind)


def accelerators(torch: Any, wanted: str) -> list[str]:
    """Accelerator types in use by this process. Never initializes one: that would break a later fork."""
    if wanted == "cpu":
        return []
    found = []
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is None:
            continue
        if kind in _announced or getattr(module, "is_initialized", lambda: False)():
            found.append(kind)
    return found


def synchronize(torch: Any, kinds: list[str]) -> None:
    """Wait for the devices, so that a window holds the whole of its steps and nothing else."""
    for kind in kinds:
        getattr(torch, kind).synchronize()


class Recording:
    """A profiler session of ours. ``prepare`` if at all, ``start`` and ``stop`` once each; ``save`` once."""

    def __init__(self, torch: Any, spec: Spec) -> None:
        from torch.profiler import ProfilerActivity
        from torch.profiler.profiler import _KinetoProfile

        self.torch = torch
        self.devices = accelerators(torch, spec.device)
        activities = [ProfilerActivity.CPU]
        activities += [getattr(ProfilerActivity, kind.upper()) for kind in self.devices]
        self.shapes, self.memory, self.stacks = True, spec.memory, spec.stacks
        self.start_ns = self.end_ns = 0
        self.saved = False
        self._prepared = False
        self.global_session = True
        options: dict[str, Any] = {
            "activities": activities,
            "record_shapes": True,
            "profile_memory": spec.memory,
            "with_stack": spec.stacks,
        }
        try:
            from torch._C._profiler import _ExperimentalConfig

            # The allocators report to a session of their own thread alone: a global one gets not a single allocation.
            if not spec.memory:
                options["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
        except (ImportError, TypeError):
            pass
        self.global_session = "experimental_config" in options
        self.profile: Any = _KinetoProfile(**options)

    def prepare(self) -> None:
        """Let Kineto set itself up (on a device: CUPTI, its buffers) without recording yet."""
        global _STARTING
        if self._prepared:
            return
        synchronize(self.torch, self.devices)
        from torch.profiler import profiler as module

        # Before 2.13 the first start of any session warns on standard error about events of earlier cycles.
        warn = getattr(module, "_warn_once", None)
        _STARTING = True
        try:
            if warn is not None:
                module._warn_once = lambda *args, **kwargs: None
            with kept():
                self.profile.prepare_trace()
        finally:
            _STARTING = False
            if warn is not None:
                module._warn_once = warn
        _OURS[id(self.profile.profiler)] = self.profile.profiler
        self._prepared = True

    def start(self) -> None:
        self.prepare()
        synchronize(self.torch, self.devices)
        self.profile.start_trace()
        self.start_ns = time.time_ns()

    def cancel(self) -> None:
        """End a session that was prepared and not started; Kineto knows no shorter way."""
        if self._prepared:
            with kept():
                self.profile.start_trace()
                self.profile.stop()
            _OURS.pop(id(self.profile.profiler), None)

    def stop(self, last: bool = False) -> None:
        """End it; ``last`` leaves it to the process's ``TEARDOWN_CUPTI`` whether CUPTI is detached, else it stays."""
        synchronize(self.torch, self.devices)
        self.end_ns = time.time_ns()
        with nullcontext() if last else kept():
            self.profile.stop()
        if self.devices:
            self._look_for_graphs()
        _OURS.pop(id(self.profile.profiler), None)

    def _look_for_graphs(self) -> None:
        global _graphs
        _graphs = _graphs or any(event.name().startswith(GRAPH_CALLS) for event in self._results().events())

    @staticmethod
    def is_ours(autograd_profile: Any) -> bool:
        """Whether a ``torch.autograd.profiler.profile`` belongs to a recording of ours."""
        return id(autograd_profile) in _OURS or _STARTING

    def _results(self) -> Any:
        return self.profile.profiler.kineto_results

    def event_count(self) -> int:
        return len(self._results().events())

    def events_since(self, since_ns: int) -> int:
        """How many events started at or after ``since_ns``."""
        return sum(1 for event in self._results().events() if event.start_ns() >= since_ns)

    def lost_the_clock(self) -> bool:
        """Whether most of the device's records lie outside the recording: CUPTI gives them in a clock of its own now and
        then, after a process has had several sessions (pytorch/pytorch#192021). Times and durations are then of no use."""
        if not self.devices:
            return False
        host = self.torch._C._autograd.DeviceType.CPU
        inside = outside = 0
        for event in self._results().events():
            if event.device_type() != host:
                if self.start_ns - SLACK_NS <= event.start_ns() <= self.end_ns + SLACK_NS:
                    inside += 1
                else:
                    outside += 1
        return outside > inside

    def op_histogram(self) -> dict[str, int]:
        """How often each op was called: what two stretches of a steady program have in common."""
        counts: dict[str, int] = {}
        for event in self._results().events():
            name = event.name()
            counts[name] = counts.get(name, 0) + 1
        return counts

    def rows(self, kinds: dict[str, int]) -> list[tuple[int, str, int, int, int]]:
        """(what its kind of activity stands for, name, start, nanoseconds, thread) of the events of these kinds; none of a torch
        that does not tell them."""
        return [
            (kinds[event.activity_type()], event.name(), event.start_ns(), event.duration_ns(), event.start_thread_id())
            for event in self._results().events()
            if getattr(event, "activity_type", str)() in kinds
        ]

    def save(self, path: str) -> None:
        """Write plain Chrome JSON. Kineto can save a result only once, and has to before any other session is set up: it
        converts the device's times now, by the clock of the newest session, to zero where they lie before that."""
        if self.saved:
            raise RuntimeError("this recording was saved before")
        self.profile.export_chrome_trace(path)
        self.saved = True


def mute(torch: Any, muted: bool) -> None:
    """Stop or resume the recording of ops in this thread: compilation runs thousands of ops on fake tensors."""
    torch._C._autograd._enable_record_function(not muted)


_initialized = False


def initialize(torch: Any, spec: Spec) -> None:
    """Once: initialize Kineto on this (normally the main) thread, without its chatter.

    The first session on another thread prints an error, and the first one anywhere takes about a second: both are
    kept out of the windows. The level is read once, so the environment is put back for the user's own processes.
    """
    global _initialized
    if _initialized:
        return
    _initialized = True
    before = os.environ.get("KINETO_LOG_LEVEL")
    if before is None:
        os.environ["KINETO_LOG_LEVEL"] = QUIET_KINETO
    try:
        recording = Recording(torch, spec)
        recording.start()
        recording.stop()
    finally:
        if before is None:
            os.environ.pop("KINETO_LOG_LEVEL", None)
