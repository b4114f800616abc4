"""Compiled code: from what ran inside a compiled region to the module's call line and the user's statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.attribution.align import align
from ridgeline.attribution.builder import Builder
from ridgeline.attribution.graphs import replay_places
from ridgeline.attribution.host import Host, Regions, is_graph_call, outermost_in, site_ops
from ridgeline.attribution.model import GeneratedSite, PhaseOf
from ridgeline.attribution.modules import ModuleEntry, ModuleIndex
from ridgeline.attribution.resolve import RegionResolver, kernel_file_of
from ridgeline.inductor.cpp_wrapper import shim_op
from ridgeline.inductor.module import CallSite, op_name
from ridgeline.inductor.names import is_generic, take_apart
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import I32, I64, Call, Trace
from ridgeline.trace.work import WorkTable

AMBIGUOUS = "several call sites of the generated module fit this launch"
STALE = "the recorded line no longer holds its recorded text"
NOT_ITEMISED = (
    "generated C++ that calls its kernels itself (cpp_wrapper, an AOTInductor package) shows as one row a call; "
    "torch._inductor.config.cpp.enable_kernel_profile = True records its kernels by name"
)

RegionLine = Callable[[int, ModuleEntry | None], tuple[SourceRef, ...]]
"""(region, module) -> the user's call of the region, if it is known."""

_ALIASES = {"bias_addmm": "addmm"}


@dataclass(slots=True, frozen=True)
class _Item:
    """What ran, as far as a call site can be told from it."""

    op: str | None
    device: str


@dataclass(slots=True)
class _Execution:
    """What one execution of a module came to, for all that launch the same."""

    columns: list[npt.NDArray[Any]]
    rejected: npt.NDArray[np.bool_]
    itemised: bool


@dataclass(slots=True)
class CompiledCode:
    trace: Trace
    work: WorkTable
    host: Host
    regions: Regions
    modules: ModuleIndex
    builder: Builder
    region_line: RegionLine
    modules_seen: dict[str, ModuleEntry] = field(default_factory=dict)
    _itemised: set[int] = field(default_factory=set)
    """Regions in which C++ kernels have events of their own."""
    _executions: dict[tuple[object, ...], _Execution] = field(default_factory=dict)
    _sites: dict[tuple[str, int, str | None], int] = field(default_factory=dict)
    _combined: dict[tuple[int, ...], tuple[SourceRef, ...]] = field(default_factory=dict)

    def run(self) -> None:
        """Fill the rows that lie in compiled regions."""
        resolver = RegionResolver(self.trace, self.work, self.host, self.regions, self.modules)
        inside = np.flatnonzero(self.host.region >= 0)
        order = inside[np.lexsort((self.work.start[inside], self.host.time[inside], self.host.region[inside]))]
        if len(order):
            cuts = np.flatnonzero(np.diff(self.host.region[order])) + 1
            site_of_op, names = site_ops(self.trace)
            for rows in np.split(order, cuts):
                region = int(self.host.region[rows[0]])
                rest = self._instrumented(region, rows, site_of_op, names)
                entry = resolver.module(region, rest) if len(rest) else None
                if len(rest):
                    self._region(region, rest, entry)
                if self.work.on_cpu:
                    self._own_time(region, rows, entry)

    def _own_time(self, region: int, rows: I64, entry: ModuleEntry | None) -> None:
        """What a region's own event takes: its C++ kernels where those have no events, else the module's Python.

        A module of operators alone (products, fallbacks of complex numbers) has no kernels that could have events.
        """
        if entry is not None and not entry.wrapper.cpp and not entry.wrapper.kernels:
            self._itemised.add(region)
        text = "generated module (Python)" if region in self._itemised else "generated C++ (not itemised)"
        for row in rows.tolist():
            op = int(self.host.op[row])
            if op >= 0 and is_graph_call(self.trace.strings[int(self.trace.ops.name[op])]):
                self.builder.symbol[row] = self.builder.symbol_id(text)
                if region not in self._itemised:
                    self.builder.note(NOT_ITEMISED)

    def _instrumented(
        self, region: int, rows: I64, site_of_op: npt.NDArray[np.int32], names: dict[int, tuple[str, int, str]]
    ) -> I64:
        """Rows under an event that names its own call line; returns the others."""
        if not names:
            return rows
        rest = []
        for row in rows.tolist():
            op = int(self.host.op[row])
            site_op = int(site_of_op[op]) if op >= 0 else -1
            if site_op < 0:
                rest.append(row)
                continue
            kernel, line, stem = names[int(self.trace.ops.name[site_op])]
            entry = self.modules.find(f"{stem}.py") or self.modules.entries.get(stem)
            self._itemised.add(region)
            if site_op == op:
                self.builder.symbol[row] = self.builder.symbol_id(kernel)
            if entry is None:
                self._fallback(row, region, None)
                continue
            index = next((i for i, call in enumerate(entry.wrapper.calls) if call.line == line), -1)
            self._place(row, region, entry, index)
        return np.array(rest, dtype=np.int64)

    def _region(self, region: int, rows: I64, entry: ModuleEntry | None) -> None:
        if entry is None and not self.regions.key[region]:
            self.host.region[rows] = -1  # only the compiled function's frame, which also holds what runs eagerly
            return
        if entry is None:
            for row in rows.tolist():
                self._fallback(row, region, None)
            return
        calls = self.work.call[rows]
        replayed = (
            (calls >= 0) & (self.trace.calls.kind[np.maximum(calls, 0)] == int(Call.GRAPH_LAUNCH))
            if len(self.trace.calls.kind)
            else np.zeros(len(rows), bool)
        )
        launched = rows[~replayed]
        if replayed.any():
            self._replay(region, rows[replayed], entry)
            for row in launched.tolist():  # copies of inputs into the graph's memory
                self._fallback(row, region, entry)
        elif len(launched):
            self._launches(region, launched, entry)

    def _launches(self, region: int, rows: I64, entry: ModuleEntry) -> None:
        since = np.full(len(rows), self.regions.start[region])
        tops = outermost_in(self.trace, self.host.op[rows], since)
        self._repeat(region, rows, entry, tops, lambda: self._launch_each(region, rows, entry, tops))

    def _launch_each(self, region: int, rows: I64, entry: ModuleEntry, tops: I32) -> None:
        items: list[_Item] = []
        item_of: dict[int, int] = {}
        of_row: list[int] = []
        for row, top in zip(rows.tolist(), tops.tolist()):
            key = top if top >= 0 else -2 - row
            if key not in item_of:
                item_of[key] = len(items)
                op = self.trace.strings[int(self.trace.ops.name[top])] if top >= 0 else None
                items.append(_Item(op, self.trace.strings[int(self.work.name[row])]))
            of_row.append(item_of[key])
        alignment = align(items, entry.wrapper.calls, lambda a, b: _fits(a, b, entry))
        for row, item, top in zip(rows.tolist(), of_row, tops.tolist()):
            place = alignment.places[item]
            call = entry.wrapper.calls[place] if place >= 0 else None
            if self.work.on_cpu and call is not None and top == self.host.op[row]:
                if call.kind == "kernel":
                    self.builder.symbol[row] = self.builder.symbol_id(call.callee)
                    self._itemised.add(region)
                elif (op := shim_op(items[item].op or "")) is not None:
                    self.builder.symbol[row] = self.builder.symbol_id(op)
            self._place(row, region, entry, place, alignment.candidates[item])

    def _replay(self, region: int, rows: I64, entry: ModuleEntry) -> None:
        def each() -> None:
            names = [self.trace.strings[i] for i in self.work.name[rows].tolist()]
            for row, place in zip(rows.tolist(), replay_places(names, entry.wrapper)):
                self._place(row, region, entry, place)

        self._repeat(region, rows, entry, np.full(len(rows), -1, dtype=np.int32), each)

    def _repeat(self, region: int, rows: I64, entry: ModuleEntry, tops: I32, each: Callable[[], None]) -> None:
        """Attribute rows one by one, or, where an execution of the module launched exactly the same, as it was then."""
        op = self.host.op[rows]
        args = np.where(op >= 0, self.trace.ops.args[np.maximum(op, 0)], -1) if len(self.trace.ops.args) else op
        _, pattern = np.unique(tops, return_inverse=True)
        key = (
            entry.stem,
            *(id(ref) for ref in self.region_line(region, entry)),
            self.work.name[rows].tobytes(),
            args.tobytes(),
            pattern.astype(np.int32).tobytes(),
            (tops == op).tobytes(),
            self.host.in_optimizer[rows].tobytes(),
        )
        b = self.builder
        columns: tuple[npt.NDArray[Any], ...] = (b.site, b.aten_set, b.source, b.phase, b.symbol, b.reason)
        known = self._executions.get(key)
        if known is not None:
            for column, then in zip(columns, known.columns):
                column[rows] = then
            self.builder.rejected_us += float(self.work.time[rows[known.rejected]].sum())
            if known.itemised:
                self._itemised.add(region)
            return
        each()
        stale = self.builder.reason[rows] == self.builder.reason_id(STALE)
        if (self.host.region[rows] == region).all():  # none was handed on to the eager rules
            values: list[npt.NDArray[Any]] = [column[rows].copy() for column in columns]
            self._executions[key] = _Execution(values, stale, region in self._itemised)

    def _place(self, row: int, region: int, entry: ModuleEntry, index: int, candidates: tuple[int, ...] = ()) -> None:
        """Row ``row`` was launched by call ``index`` of the module (-1: not known, one of ``candidates``)."""
        self.modules_seen.setdefault(entry.stem, entry)
        if index < 0:
            sets = {_lines(entry.statements(entry.wrapper.calls[c].handle).refs) for c in candidates}
            if len(sets) == 1 and sets != {frozenset()}:  # whichever it was, the statements are the same
                refs = entry.statements(entry.wrapper.calls[candidates[0]].handle).refs
                self._finish(row, region, entry, refs)
                self._site(row, entry, entry.wrapper.calls[candidates[0]], known_line=False)
                return
            self._fallback(row, region, entry, AMBIGUOUS if candidates else None)
            return
        call = entry.wrapper.calls[index]
        self._site(row, entry, call, known_line=True)
        self.builder.aten_set[row] = self.builder.aten_id(call.aten or take_apart(call.callee).ops)
        found = entry.statements(call.handle)
        if found.refs:
            self._finish(row, region, entry, found.refs)
        elif found.stale:
            self._phase(row, entry)
            self.builder.reason[row] = self.builder.reason_id(STALE)
            self.builder.rejected_us += float(self.work.time[row])
        else:
            self._fallback(row, region, entry)

    def _finish(self, row: int, region: int, entry: ModuleEntry, refs: tuple[SourceRef, ...]) -> None:
        self._phase(row, entry)
        if all(ref.library for ref in refs):  # a library's model: the line is the user's call of the region
            refs = self._joined(refs, self.region_line(region, entry))
        self.builder.source[row] = self.builder.source_id(refs)
        if all(ref.library for ref in refs):
            self.builder.reason[row] = self.builder.reason_id("only library code is known to cause it")

    def _joined(self, refs: tuple[SourceRef, ...], more: tuple[SourceRef, ...]) -> tuple[SourceRef, ...]:
        key = tuple(id(ref) for ref in (*refs, *more))
        return self._combined.setdefault(key, (*refs, *more))

    def _fallback(self, row: int, region: int, entry: ModuleEntry | None, reason: str | None = None) -> None:
        if not self.regions.key[region] and self.builder.site[row] < 0:
            self.host.region[row] = -1
            return
        if entry is not None:
            self.modules_seen.setdefault(entry.stem, entry)
            if self.builder.site[row] < 0:
                self._module_only(row, entry)
        self._phase(row, entry)
        refs = self.region_line(region, entry)
        self.builder.source[row] = self.builder.source_id(refs)
        if not refs:
            kind = entry.kind if entry is not None else "compiled"
            graph = entry.wrapper.aot_id if entry is not None else None
            number = graph.split("_")[0] if graph else None
            text = (
                f"source not recorded ({kind} of graph {number})" if number else "source not recorded (compiled graph)"
            )
            self.builder.reason[row] = self.builder.reason_id(reason or text)

    def _phase(self, row: int, entry: ModuleEntry | None) -> None:
        if self.host.in_optimizer[row]:
            phase = PhaseOf.OPTIMIZER
        elif entry is not None:
            phase = PhaseOf.BACKWARD if entry.kind == "backward" else PhaseOf.FORWARD
        else:
            return
        self.builder.phase[row] = int(phase)

    def _module_only(self, row: int, entry: ModuleEntry) -> None:
        """Without a call line: the definition at least, where the launch names its kernel."""
        op = int(self.host.op[row])
        names = {self.trace.strings[int(self.work.name[row])]}
        if op >= 0:
            names.add(self.trace.strings[int(self.trace.ops.name[op])])
        for kernel in entry.wrapper.kernels.values():
            if kernel.name in names:
                site = GeneratedSite(
                    module=entry.path,
                    definition_line=kernel.body_line or kernel.line,
                    call_line=None,
                    kernel_file=self._kernel_file(row, kernel.path),
                )
                self.builder.site[row] = self.builder.site_id(site)
                return

    def _site(self, row: int, entry: ModuleEntry, call: CallSite, *, known_line: bool) -> None:
        kernel = entry.wrapper.kernels.get(call.callee)
        recorded = kernel_file_of(self.trace, int(self.host.op[row]))
        key = (entry.stem, call.line if known_line else -call.line, recorded)
        if key not in self._sites:
            path = self._kernel_file(row, kernel.path if kernel is not None else None)
            parsed = self.modules.files.kernel(path) if path is not None else None
            site = GeneratedSite(
                module=entry.path,
                definition_line=(kernel.body_line or kernel.line) if kernel is not None else None,
                call_line=call.line if known_line else None,
                kernel_file=path,
                kernel_line=parsed.line if parsed is not None else None,
            )
            self._sites[key] = self.builder.site_id(site)
        self.builder.site[row] = self._sites[key]
        name = self.trace.strings[int(self.work.name[row])]
        if kernel is not None and not self.work.on_cpu and is_generic(name):
            self.builder.symbol[row] = self.builder.symbol_id(call.callee)

    def _kernel_file(self, row: int, defined: str | None) -> str | None:
        path = kernel_file_of(self.trace, int(self.host.op[row])) or defined
        return self.modules.files.shown(path) if path is not None else None


def _lines(refs: tuple[SourceRef, ...]) -> frozenset[tuple[str, int]]:
    return frozenset((ref.file, ref.line) for ref in refs)


def _fits(item: _Item, call: CallSite, entry: ModuleEntry) -> bool:
    """Whether a launch can come from a call site."""
    if call.kind == "kernel":
        kernel = entry.wrapper.kernels.get(call.callee)
        names = {call.callee} | ({kernel.symbol, *kernel.members} if kernel is not None else set())
        if item.op is not None:
            return item.op in names or _without_graph(item.op) in names
        return item.device in names
    if item.op is None:
        return entry.wrapper.cpp and item.device not in {c.callee for c in entry.wrapper.calls}
    called = (op_name(item.op) or item.op).rpartition("::")[2]
    wanted = (op_name(call.callee) or call.callee).rpartition("::")[2]
    return called == _ALIASES.get(wanted, wanted)


def _without_graph(name: str) -> str:
    """``graph_0_cpp_fused_add_0`` -> ``cpp_fused_add_0``."""
    head, _, rest = name.partition("_cpp_")
    return f"cpp_{rest}" if rest and head.startswith("graph_") else name
