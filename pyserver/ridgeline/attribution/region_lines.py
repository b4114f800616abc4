"""The user's call of a compiled region: what is left to say of a kernel whose own lines are not known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ridgeline.attribution.eager import HostLines
from ridgeline.attribution.frames import FUNCTION
from ridgeline.attribution.host import Regions
from ridgeline.attribution.modules import ModuleEntry
from ridgeline.attribution.nesting import Nest
from ridgeline.attribution.paths import owner
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.stacks import StackFrame
from ridgeline.profile import Frame, SourceRef
from ridgeline.trace.tables import Trace

METHOD = "region_call"
CONFIDENCE = 0.6


@dataclass(slots=True)
class RegionLines:
    trace: Trace
    regions: Regions
    lines: HostLines
    store: SourceStore
    user_roots: tuple[str, ...] = ()
    _ops: Nest | None = None
    _stacks: dict[tuple[StackFrame, ...], tuple[SourceRef, ...]] = field(default_factory=dict)
    _regions: dict[int, SourceRef | str] = field(default_factory=dict)

    def refs(self, region: int, entry: ModuleEntry | None) -> tuple[SourceRef, ...]:
        """At most one statement: where the thread was when the region began (for a backward region: when the forward's
        did), else the stack that Dynamo or the agent noted, else the function around it."""
        if region not in self._regions:
            self._regions[region] = self._from_host(region)
        found = self._regions[region]
        if isinstance(found, SourceRef) and not found.method.startswith(FUNCTION):
            return (self.lines.derived(found, METHOD, CONFIDENCE),)
        if entry is not None and (noted := self._from_stack(entry.call_stack)):
            return noted
        if isinstance(found, SourceRef):
            return (found,)
        return ()

    def _from_host(self, region: int) -> SourceRef | str:
        thread, time = int(self.regions.thread[region]), float(self.regions.start[region])
        op = self._op_around(thread, time)
        forward = int(self.lines.backward.forward[op]) if op >= 0 else -1
        if forward >= 0:
            thread, time, op = int(self.trace.ops.tid[forward]), float(self.trace.ops.start[forward]), forward
        return self.lines.at(thread, time, op)

    def _op_around(self, thread: int, time: float) -> int:
        if self._ops is None:
            self._ops = Nest(self.trace.ops.start, self.trace.ops.dur, self.trace.ops.tid)
        return int(self._ops.innermost(np.array([thread]), np.array([time]))[0])

    def _from_stack(self, stack: tuple[StackFrame, ...]) -> tuple[SourceRef, ...]:
        if stack not in self._stacks:
            users = [f for f in stack if owner(f.file, self.user_roots) == "user"]
            refs: tuple[SourceRef, ...] = ()
            if users and self.store.check(users[-1].file, users[-1].line, users[-1].text) != "stale":
                innermost = users[-1]
                refs = (
                    SourceRef(
                        file=self.store.resolve(innermost.file),
                        line=innermost.line,
                        function=innermost.function,
                        text=innermost.text or self.store.text(innermost.file, innermost.line),
                        stack=[Frame(file=self.store.resolve(f.file), line=f.line, function=f.function) for f in users],
                        method=METHOD,
                        confidence=CONFIDENCE,
                    ),
                )
            self._stacks[stack] = refs
        return self._stacks[stack]
