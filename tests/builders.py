"""Small traces written by hand, as tables: for tests of rooms that come after reading.

    b = TraceBuilder()
    b.step(0, 1000)
    b.line(0, 500, "train.py", 12, "loss.item()")
    op = b.op("aten::item", 400, 80)
    b.copy("Memcpy DtoH (Device -> Pageable)", 410, 60, launched=405, blocks_until=475)
    context = b.context()

Times are microseconds. Everything is sorted and joined on ``build``, as the reader does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from builder_stays import StaysOfLines
from ridgeline.attribution.model import Attribution
from ridgeline.findings.context import Context
from ridgeline.profile import Kernel, ProfileDocument, RecordedWith, Source, SourceRef, Totals
from ridgeline.profile import Quality as DocumentQuality
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import (
    Call,
    Calls,
    DeviceEvents,
    DeviceInfo,
    LaunchConfigs,
    MemoryEvents,
    OpArgs,
    Ops,
    Ranges,
    StepRow,
    Trace,
    Work,
)
from ridgeline.trace.work import WorkTable

MAIN = 1
"""Native thread id of the thread that everything happens on unless said otherwise."""
BASE_NS = 1_700_000_000_000_000_000


def unix_ns(us: float) -> int:
    """The Unix clock at an offset of a built trace."""
    return BASE_NS + int(us * 1000)


@dataclass
class TraceBuilder:
    strings: list[str] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    _ops: list[dict[str, Any]] = field(default_factory=list)
    _calls: list[dict[str, Any]] = field(default_factory=list)
    _events: list[dict[str, Any]] = field(default_factory=list)
    _ranges: list[dict[str, Any]] = field(default_factory=list)
    _memory: list[dict[str, Any]] = field(default_factory=list)
    _lines: list[tuple[int, float, float, SourceRef]] = field(default_factory=list)
    launch_configs: LaunchConfigs = field(default_factory=LaunchConfigs)
    op_args: OpArgs = field(default_factory=OpArgs)

    def name(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def step(self, start: float, dur: float) -> None:
        self.steps.append(StepRow(name=f"ProfilerStep#{len(self.steps)}", start=start, dur=dur))
        self.range(self.steps[-1].name, start, dur)

    def line(self, start: float, end: float, file: str, line: int, text: str = "", *, tid: int = MAIN) -> None:
        """Between these moments the thread was in this user statement; later calls win (inner statements)."""
        place = SourceRef(file=file, line=line, text=text or None, method="timeline", confidence=1.0)
        self._lines.append((tid, start, end, place))

    def range(self, name: str, start: float, dur: float, *, tid: int = MAIN) -> None:
        self._ranges.append({"name": self.name(name), "start": start, "dur": dur, "tid": tid})

    def op(
        self,
        name: str,
        start: float,
        dur: float,
        *,
        tid: int = MAIN,
        sequence: int = -1,
        forward_thread: int = 0,
        dims: list[Any] | None = None,
        types: list[str] | None = None,
        strides: list[Any] | None = None,
        concrete: list[Any] | None = None,
    ) -> None:
        args = -1
        if dims is not None or types is not None or concrete is not None:
            table = self.op_args
            sets = list(zip(table.input_dims, table.input_types, table.input_strides, table.concrete_inputs))
            mine = (dims, types, strides, concrete)
            args = sets.index(mine) if mine in sets else len(sets)
        if args == len(self.op_args.input_dims):
            self.op_args.input_dims.append(dims)
            self.op_args.input_types.append(types)
            self.op_args.input_strides.append(strides)
            self.op_args.concrete_inputs.append(concrete)
            self.op_args.triton.append(None)
        self._ops.append(
            {
                "name": self.name(name),
                "start": start,
                "dur": dur,
                "tid": tid,
                "sequence": sequence,
                "forward_thread": forward_thread,
                "args": args,
            }
        )

    def call(self, name: str, start: float, dur: float, kind: Call, *, tid: int = MAIN) -> int:
        """Returns a handle for ``kernel(call=...)``."""
        self._calls.append({"name": self.name(name), "start": start, "dur": dur, "kind": kind, "tid": tid})
        return len(self._calls) - 1

    def sync(self, start: float, dur: float, *, name: str = "cudaStreamSynchronize", tid: int = MAIN) -> int:
        return self.call(name, start, dur, Call.SYNC, tid=tid)

    def kernel(
        self,
        name: str,
        start: float,
        dur: float,
        *,
        launched: float | None = None,
        call: int | None = None,
        stream: int = 7,
        device: int = 0,
        tid: int = MAIN,
        work: Work = Work.KERNEL,
        nbytes: float = float("nan"),
        grid: tuple[int, ...] | None = None,
        block: tuple[int, ...] | None = None,
    ) -> None:
        """A kernel; ``launched`` is the start of its launching call (default: 5 µs before it runs)."""
        if call is None:
            call = self.call(
                "cudaLaunchKernel", start - 5.0 if launched is None else launched, 3.0, Call.LAUNCH, tid=tid
            )
        config = -1
        if grid is not None or block is not None:
            config = len(self.launch_configs.grid)
            self.launch_configs.grid.append(grid)
            self.launch_configs.block.append(block)
            self.launch_configs.registers.append(None)
            self.launch_configs.shared_memory.append(None)
            self.launch_configs.occupancy_pct.append(None)
            self.launch_configs.warps_per_sm.append(None)
        self._events.append(
            {
                "name": self.name(name),
                "start": start,
                "dur": dur,
                "call": call,
                "stream": stream,
                "device": device,
                "work": work,
                "bytes": nbytes,
                "launch": config,
            }
        )

    def copy(
        self,
        name: str,
        start: float,
        dur: float,
        *,
        launched: float,
        blocks_until: float | None = None,
        nbytes: float = float("nan"),
        stream: int = 7,
        tid: int = MAIN,
    ) -> None:
        """A copy by cudaMemcpyAsync; ``blocks_until``: the call returns only then (pageable memory)."""
        end = launched + 4.0 if blocks_until is None else blocks_until
        call = self.call("cudaMemcpyAsync", launched, end - launched, Call.MEMCPY, tid=tid)
        self.kernel(name, start, dur, call=call, stream=stream, work=Work.MEMCPY, nbytes=nbytes)

    def memory(
        self, time: float, nbytes: int, total: int, *, reserved: int = 0, device: int = 0, tid: int = MAIN
    ) -> None:
        self._memory.append(
            {"time": time, "bytes": nbytes, "total": total, "reserved": reserved, "device": device, "tid": tid}
        )

    # ------------------------------------------------------------------------------------------------------------

    def build(self, *, devices: list[DeviceInfo] | None = None) -> Trace:
        ops, _ = _sorted(self._ops)
        calls, call_rank = _sorted(self._calls)
        events, _ = _sorted(self._events)
        ranges, _ = _sorted(self._ranges)
        parent, own = _nest(ops)
        op_of_call = [_innermost(ops, parent, c["tid"], c["start"]) for c in calls]
        event_call = [call_rank[e["call"]] for e in events]
        f, i64, i32 = _column(np.float64), _column(np.int64), _column(np.int32)
        if devices is None:
            devices = [DeviceInfo(id=d, name="Some GPU", kind="cuda") for d in sorted({e["device"] for e in events})]
        return Trace(
            path="trace.json",
            origin_ns=0,
            base_ns=BASE_NS,
            strings=self.strings,
            device_events=DeviceEvents(
                start=f(events, "start"),
                dur=f(events, "dur"),
                name=i32(events, "name"),
                work=np.array([e["work"] for e in events], dtype=np.uint8),
                device=i32(events, "device"),
                stream=i64(events, "stream"),
                correlation=np.array(event_call, dtype=np.int64),
                external_id=np.full(len(events), -1, dtype=np.int64),
                call=np.array(event_call, dtype=np.int32),
                op=np.array([op_of_call[c] for c in event_call], dtype=np.int32),
                bytes=f(events, "bytes"),
                launch=i32(events, "launch"),
                graph_node=np.full(len(events), -1, dtype=np.int64),
            ),
            launch_configs=self.launch_configs,
            calls=Calls(
                start=f(calls, "start"),
                dur=f(calls, "dur"),
                name=i32(calls, "name"),
                kind=np.array([c["kind"] for c in calls], dtype=np.uint8),
                pid=np.ones(len(calls), dtype=np.int64),
                tid=i64(calls, "tid"),
                correlation=np.arange(len(calls), dtype=np.int64),
                external_id=np.full(len(calls), -1, dtype=np.int64),
            ),
            ops=Ops(
                start=f(ops, "start"),
                dur=f(ops, "dur"),
                self_dur=np.array(own, dtype=np.float64),
                name=i32(ops, "name"),
                pid=np.ones(len(ops), dtype=np.int64),
                tid=i64(ops, "tid"),
                parent=np.array(parent, dtype=np.int32),
                external_id=np.arange(len(ops), dtype=np.int64),
                sequence=i64(ops, "sequence"),
                forward_thread=i64(ops, "forward_thread"),
                args=i32(ops, "args"),
            ),
            op_args=self.op_args,
            ranges=Ranges(
                start=f(ranges, "start"),
                dur=f(ranges, "dur"),
                name=i32(ranges, "name"),
                pid=np.ones(len(ranges), dtype=np.int64),
                tid=i64(ranges, "tid"),
                external_id=np.full(len(ranges), -1, dtype=np.int64),
            ),
            frames=None,
            memory=self._memory_events(),
            steps=self.steps,
            devices=devices,
            metadata=self.metadata,
            quality=DocumentQuality(),
        )

    def _memory_events(self) -> MemoryEvents | None:
        if not self._memory:
            return None
        rows = sorted(self._memory, key=lambda m: m["time"])
        f, i64, i32 = _column(np.float64), _column(np.int64), _column(np.int32)
        return MemoryEvents(
            time=f(rows, "time"),
            bytes=i64(rows, "bytes"),
            address=np.arange(len(rows), dtype=np.int64),
            total_allocated=i64(rows, "total"),
            total_reserved=i64(rows, "reserved"),
            device_type=np.array([1 if m["device"] >= 0 else 0 for m in rows], dtype=np.int32),
            device=i32(rows, "device"),
            tid=i32(rows, "tid"),
        )

    def context(
        self,
        *,
        sidecar: Sidecar | None = None,
        stacks: bool = False,
        plain_step_us: float | None = None,
        profiled_step_us: float | None = None,
        kernels: list[Kernel] | None = None,
        sources: dict[str, str] | None = None,
        devices: list[DeviceInfo] | None = None,
        on_cpu: bool | None = None,
    ) -> Context:
        """The trace with what the rooms between would make of it: work, attribution by the lines given, a document."""
        trace = self.build(devices=devices)
        cpu = not self._events if on_cpu is None else on_cpu
        work = _work(trace, cpu)
        attribution = self._attribution(trace, work)
        document = ProfileDocument(
            source=Source(kind="trace", path=trace.path, recorded_with=RecordedWith(stacks=stacks)),
            totals=Totals(plain_step_us=plain_step_us, profiled_step_us=profiled_step_us),
            kernels=kernels or [],
        )
        return Context(
            trace=trace, work=work, attribution=attribution, document=document, sidecar=sidecar, sources=sources or {}
        )

    def _attribution(self, trace: Trace, work: WorkTable) -> Attribution:
        lines = list(self._lines)

        def host_line(tid: int, time: float) -> SourceRef | None:
            return next((p for t, lo, hi, p in reversed(lines) if t == tid and lo <= time < hi), None)

        sources: list[tuple[SourceRef, ...]] = []
        rows = []
        for row in range(len(work.start)):
            call, op = int(work.call[row]), int(work.op[row])
            place = None
            if call >= 0:
                place = host_line(int(trace.calls.tid[call]), float(trace.calls.start[call]))
            elif op >= 0:
                place = host_line(int(trace.ops.tid[op]), float(trace.ops.start[op]))
            rows.append(-1 if place is None else len(sources))
            if place is not None:
                sources.append((place,))
        none = np.full(len(work.start), -1, dtype=np.int32)
        return Attribution(
            sites=[],
            site=none,
            sources=sources,
            source=np.array(rows, dtype=np.int32),
            symbols=[],
            symbol=none,
            aten=[],
            aten_set=none,
            phase=np.zeros(len(work.start), dtype=np.uint8),
            reasons=[],
            reason=none,
            modules=[],
            host_line=host_line,
            host_stays=StaysOfLines(lines) if lines else None,
        )


def _work(trace: Trace, cpu: bool) -> WorkTable:
    if cpu:
        ops = trace.ops
        rows = np.arange(len(ops.start), dtype=np.int32)
        none = np.full(len(rows), -1, dtype=np.int32)
        return WorkTable(
            on_cpu=True,
            start=ops.start,
            time=ops.self_dur,
            end=ops.start + ops.dur,
            name=ops.name,
            work=np.zeros(len(rows), dtype=np.uint8),
            device=np.zeros(len(rows), dtype=np.int32),
            stream=ops.tid,
            call=none,
            op=rows,
            launch=none,
            event=none,
        )
    events = trace.device_events
    return WorkTable(
        on_cpu=False,
        start=events.start,
        time=events.dur,
        end=events.start + events.dur,
        name=events.name,
        work=events.work,
        device=events.device,
        stream=events.stream,
        call=events.call,
        op=events.op,
        launch=events.launch,
        event=np.arange(len(events.start), dtype=np.int32),
    )


def _sorted(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, int]]:
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["start"], -rows[i]["dur"]))
    return [rows[i] for i in order], {old: new for new, old in enumerate(order)}


def _nest(ops: list[dict[str, Any]]) -> tuple[list[int], list[float]]:
    parent, own = [], [op["dur"] for op in ops]
    stacks: dict[int, list[int]] = {}
    for row, op in enumerate(ops):
        stack = stacks.setdefault(op["tid"], [])
        while stack and ops[stack[-1]]["start"] + ops[stack[-1]]["dur"] <= op["start"]:
            stack.pop()
        parent.append(stack[-1] if stack else -1)
        if stack:
            own[stack[-1]] -= op["dur"]
        stack.append(row)
    return parent, own


def _innermost(ops: list[dict[str, Any]], parent: list[int], tid: int, time: float) -> int:
    found = -1
    for row, op in enumerate(ops):
        if op["tid"] == tid and op["start"] <= time <= op["start"] + op["dur"]:
            found = row
    return found


def _column(dtype: Any) -> Any:
    return lambda rows, key: np.array([r[key] for r in rows], dtype=dtype)
