"""A Chrome trace of torch.profiler, read into the tables of :mod:`ridgeline.trace.tables`.

One pass in chunks (:mod:`~ridgeline.trace.records`), a column each (:mod:`~ridgeline.trace.collect`), then what needs
the whole: order, joins, self time, steps. What is not kept costs no memory.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.profile import Quality
from ridgeline.trace import checks, devices
from ridgeline.trace.collect import Collector
from ridgeline.trace.columns import Columns
from ridgeline.trace.communication import collective_of
from ridgeline.trace.errors import TraceError
from ridgeline.trace.frames import unclosed
from ridgeline.trace.joins import join
from ridgeline.trace.kinds import call_of
from ridgeline.trace.nesting import nest, threads_of
from ridgeline.trace.records import RecordStream
from ridgeline.trace.source import ByteSource
from ridgeline.trace.steps import find_steps
from ridgeline.trace.tables import Calls, DeviceEvents, Frames, MemoryEvents, Ops, Ranges, Trace

__all__ = ["TraceError", "read_trace"]

Table = dict[str, npt.NDArray[Any]]
_LONGEST_NS = 7 * 86_400e9
"""No recording lasts a week: what lies farther from the rest carries a wrong clock."""


def read_trace(path: str | Path, *, frames: bool = True, memory: bool = True) -> Trace:
    """Reads the trace at ``path`` (JSON, whatever its shape and compression).

    ``frames`` and ``memory`` say whether ``python_function`` and ``[memory]`` records are kept. What is damaged is
    mended or left out and counted in ``Trace.quality``. Raises :class:`TraceError`, whose text is for the person,
    where nothing can be read.
    """
    stream = RecordStream(ByteSource(path))
    collector = Collector(frames=frames, memory=memory)
    collecting = gc.isenabled()
    gc.disable()  # Millions of small objects, no cycles: the collector would only walk them.
    try:
        for records in stream:
            collector.add(records)
    finally:
        if collecting:
            gc.enable()
    return _assemble(str(path), stream, collector)


def _assemble(path: str, stream: RecordStream, collector: Collector) -> Trace:
    quality = Quality(events=collector.events)
    checks.note_damage(quality, stream.damage, collector.strings.paths_mended)
    tables = {
        name: columns.joined()
        for name, columns in (
            ("device", collector.device),
            ("calls", collector.calls),
            ("ops", collector.ops),
            ("ranges", collector.ranges),
            ("overhead", collector.overhead),
            ("frames", collector.frames or Columns(start=np.float64, dur=np.float64)),
        )
    }
    instants = collector.memory.joined() if collector.memory is not None else None
    kept = checks.usable_rows(tables, quality, _LONGEST_NS)
    starts = [table["start"][rows] for table, rows in zip(tables.values(), kept.values())]
    origin = min((float(start.min()) for start in starts if len(start)), default=np.nan)
    if np.isnan(origin):
        times = instants["time"] if instants is not None else np.empty(0)
        origin = float(np.nanmin(times)) if np.isfinite(times).any() else 0.0
    orders = {name: _order(tables[name], kept[name], origin) for name in tables}

    strings = collector.strings.texts
    device = _device(tables["device"])
    calls = _calls(tables["calls"], strings)
    ops = _ops(tables["ops"])
    join(device, calls, ops)
    ranges = Ranges(**tables["ranges"])
    device_names = sorted({strings[row] for row in np.unique(calls.name).tolist()})
    metadata = _metadata(stream.metadata, collector)
    accelerator = bool(len(device.start)) or checks.launches(calls) > 0
    base = metadata.get("baseTimeNanoseconds")
    trace = Trace(
        path=path,
        origin_ns=(collector.clock.origin_us or 0) * 1000 + round(origin),
        base_ns=base if type(base) is int else None,
        strings=strings,
        device_events=device,
        launch_configs=collector.launch_configs,
        calls=calls,
        ops=ops,
        op_args=collector.op_args,
        ranges=ranges,
        frames=_frames(tables["frames"], strings) if collector.frames is not None else None,
        memory=_memory(instants, origin) if instants is not None else None,
        steps=find_steps(ranges, strings),
        devices=devices.describe(
            np.unique(device.device).tolist(),
            metadata,
            collector.seen,
            device_names,
            collector.process_labels,
            accelerator=accelerator,
        ),
        metadata=metadata,
        quality=quality,
        thread_names=collector.thread_names,
    )
    if len(tables["overhead"]["start"]):
        trace.overhead = Ranges(**tables["overhead"])
    trace.collectives = _collectives(collector, orders["device"])
    trace.call_stacks = _moved(collector.call_stacks, orders["ops"])
    checks.note_content(trace, collector.seen)
    return trace


def _order(table: Table, rows: npt.NDArray[np.int64], origin: float) -> npt.NDArray[np.int64]:
    """Keeps ``rows`` of the table, in order of (start, -duration), times in µs from the origin; returns the order."""
    start, dur = table["start"][rows], table["dur"][rows]
    order: npt.NDArray[np.int64] = rows[np.lexsort((-dur, start))]
    for name in table:
        table[name] = table[name][order]
    table["start"] = (table["start"] - origin) / 1000.0
    return order


def _device(table: Table) -> DeviceEvents:
    none = np.full(len(table["start"]), -1, dtype=np.int32)
    return DeviceEvents(**table, call=none, op=none.copy())


def _calls(table: Table, strings: list[str]) -> Calls:
    names, inverse = np.unique(table["name"], return_inverse=True)
    kinds = np.fromiter((call_of(strings[name]) for name in names.tolist()), dtype=np.uint8, count=len(names))
    return Calls(**table, kind=kinds[inverse.reshape(-1)] if len(names) else np.empty(0, dtype=np.uint8))


def _ops(table: Table) -> Ops:
    parent, self_dur = nest(table["start"], table["dur"], threads_of(table["pid"], table["tid"]))
    return Ops(**table, parent=parent, self_dur=self_dur)


def _frames(table: Table, strings: list[str]) -> Frames:
    return Frames(**table, open_end=unclosed(table, strings))


def _memory(table: Table, origin: float) -> MemoryEvents:
    time = table["time"]
    order = np.argsort(time, kind="stable")
    order = order[np.isfinite(time[order])]
    ordered = {name: column[order] for name, column in table.items()}
    ordered["time"] = (ordered["time"] - origin) / 1000.0
    return MemoryEvents(**ordered)


def _metadata(top: dict[str, Any], collector: Collector) -> dict[str, Any]:
    metadata = dict(top)
    if "record_shapes" not in metadata and any(dims is not None for dims in collector.op_args.input_dims):
        metadata["record_shapes"] = 1
    if "with_stack" not in metadata and collector.seen.get("python_function"):
        metadata["with_stack"] = 1
    return metadata


def _moved(values: dict[int, str], order: npt.NDArray[np.int64]) -> dict[int, str]:
    if not values:
        return {}
    return {new: values[old] for new, old in enumerate(order.tolist()) if old in values}


def _collectives(collector: Collector, order: npt.NDArray[np.int64]) -> dict[int, dict[str, Any]]:
    place: dict[int, int] = {}
    if collector.collectives:
        wanted = {row for row, _ in collector.collectives}
        place = {old: new for new, old in enumerate(order.tolist()) if old in wanted}
    return {place[row]: collective_of(raw) for row, raw in collector.collectives if row in place}
