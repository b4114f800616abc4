"""Sorts records by kind and turns each kind into columns, chunk by chunk."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct

from ridgeline.trace import repair, schema
from ridgeline.trace.clock import Clock, durations_us
from ridgeline.trace.columns import Columns, Identities, Interner, floats, integers
from ridgeline.trace.kinds import CATEGORIES, Kind, kind_without_category, work_of
from ridgeline.trace.records import Records
from ridgeline.trace.tables import I32, LaunchConfigs, OpArgs, Work

Args = TypeVar("Args", bound=Struct)
_NOTHING = bytes(schema.NOTHING)

_TIMED = {"start": np.float64, "dur": np.float64, "name": np.int32, "pid": np.int64, "tid": np.int64}
_DECODERS: dict[type[Struct], tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]] = {
    kind: (msgspec.json.Decoder(list[kind]), msgspec.json.Decoder(kind))  # type: ignore[valid-type]
    for kind in (
        schema.DeviceArgs,
        schema.CallArgs,
        schema.OpArgsRecord,
        schema.RangeArgs,
        schema.FrameArgs,
        schema.MemoryArgs,
        schema.MetaArgs,
    )
}


def decode_args(kind: type[Args], raws: list[Raw]) -> list[Args]:
    """The arguments of many records in one go; one by one, leniently, where that fails."""
    together, single = _DECODERS[kind]
    try:
        decoded: list[Args] = together.decode(b"[" + b",".join(raws) + b"]")
        return decoded
    except (msgspec.DecodeError, RecursionError):
        pass
    out = []
    for raw in raws:
        try:
            out.append(single.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            try:
                value = msgspec.json.decode(repair.mend_thoroughly(bytes(raw))[0])
            except (msgspec.DecodeError, RecursionError):
                value = None
            out.append(schema.args_of(kind, value))
    return out


class Collector:
    """The growing tables of one trace."""

    def __init__(self, *, frames: bool, memory: bool) -> None:
        self.clock = Clock()
        self.strings = Interner()
        self.identities = Identities()
        self.events = 0
        self.launch_configs = LaunchConfigs()
        self.op_args = OpArgs()
        self.collectives: list[tuple[int, bytes]] = []
        """(device row in file order, raw arguments) of communication kernels that carry their collective."""
        self.call_stacks: dict[int, str] = {}
        self.process_labels: dict[int, str] = {}
        self.thread_names: dict[int, str] = {}
        self.seen: Counter[str] = Counter()
        """Records by category, of those with one."""
        self.device = Columns(
            start=np.float64,
            dur=np.float64,
            name=np.int32,
            work=np.uint8,
            device=np.int32,
            stream=np.int64,
            correlation=np.int64,
            external_id=np.int64,
            bytes=np.float64,
            launch=np.int32,
            graph_node=np.int64,
        )
        self.calls = Columns(**_TIMED, correlation=np.int64, external_id=np.int64)
        self.ops = Columns(**_TIMED, external_id=np.int64, sequence=np.int64, forward_thread=np.int64, args=np.int32)
        self.ranges = Columns(**_TIMED, external_id=np.int64)
        self.overhead = Columns(**_TIMED, external_id=np.int64)
        self.frames = Columns(**_TIMED, python_id=np.int64, python_parent=np.int64) if frames else None
        self.memory = (
            Columns(
                time=np.float64,
                bytes=np.int64,
                address=np.int64,
                total_allocated=np.int64,
                total_reserved=np.int64,
                device_type=np.int32,
                device=np.int32,
                tid=np.int64,
            )
            if memory
            else None
        )
        self._launches: dict[tuple[Any, ...], int] = {}
        self._op_args: dict[bytes, int] = {}
        self._works: dict[tuple[str | None, Kind], Work] = {}
        self._adders = {
            Kind.KERNEL: self._add_device,
            Kind.MEMCPY: self._add_device,
            Kind.MEMSET: self._add_device,
            Kind.CALL: self._add_calls,
            Kind.OP: self._add_ops,
            Kind.RANGE: self._add_ranges,
            Kind.FRAME: self._add_frames,
            Kind.INSTANT: self._add_memory,
            Kind.OVERHEAD: self._add_ranges,
        }

    def add(self, records: Records) -> None:
        """Takes in one chunk."""
        self.events += len(records)
        buckets: dict[str | None, list[Any]] = {}
        for record in records:
            try:
                buckets[record.cat].append(record)
            except KeyError:
                buckets[record.cat] = [record]
        for category, bucket in buckets.items():
            if category is None:
                self._add_uncategorised(bucket)
                continue
            self.seen[category] += len(bucket)
            kind = CATEGORIES.get(category)
            if kind is not None:
                self._dispatch(kind, bucket)
            elif unknown := [record for record in bucket if record.ph == "X"]:
                self._add_unknown(unknown)

    def _dispatch(self, kind: Kind, bucket: list[Any]) -> None:
        adder = self._adders.get(kind)
        if adder is None:
            return
        phase = "i" if kind is Kind.INSTANT else "X"
        if {record.ph for record in bucket} != {phase}:
            bucket = [record for record in bucket if record.ph == phase]
        if bucket:
            adder(bucket, kind)

    def _add_uncategorised(self, bucket: list[Any]) -> None:
        by_kind: dict[Kind, list[Any]] = {}
        meta = []
        for record in bucket:
            if record.ph == "M":
                if record.name in ("process_name", "process_labels", "thread_name"):
                    meta.append(record)
            elif record.ph == "i":
                if record.name == "[memory]":
                    by_kind.setdefault(Kind.INSTANT, []).append(record)
            elif record.ph == "X" and (kind := kind_without_category(record.pid)) is not None:
                by_kind.setdefault(kind, []).append(record)
        for kind, rows in by_kind.items():
            self._dispatch(kind, rows)
        unknown = [record for record in bucket if record.ph == "X" and kind_without_category(record.pid) is None]
        if unknown:
            self._add_unknown(unknown)
        for record, args in zip(meta, decode_args(schema.MetaArgs, [record.args for record in meta])):
            text = args.name or args.labels
            if not text:
                continue
            if record.name == "thread_name":
                self.thread_names[self.identities.one(record.tid)] = text
            elif record.name == "process_labels" or self.identities.one(record.pid) not in self.process_labels:
                self.process_labels[self.identities.one(record.pid)] = text

    def _add_unknown(self, bucket: list[Any]) -> None:
        """An unknown vendor's device work is recognised by a stream, a grid or a task type in its arguments."""
        arguments = decode_args(schema.DeviceArgs, [record.args for record in bucket])
        device = [
            record
            for record, args in zip(bucket, arguments)
            if record.ph == "X"
            and (args.grid != schema.NOTHING or args.npu_task or (args.stream >= 0 and args.device >= 0))
            and record.cat != "cuda_sync"
        ]
        if device:
            self._dispatch(Kind.KERNEL, device)

    # --- one kind each

    def _timed(self, bucket: list[Any]) -> dict[str, Any]:
        return {
            "start": self.clock.offsets_ns([record.ts for record in bucket]),
            "dur": durations_us([record.dur for record in bucket]),
            "name": self.strings.ids([record.name for record in bucket]),
            "pid": self.identities.column([record.pid for record in bucket]),
            "tid": self.identities.column([record.tid for record in bucket]),
        }

    def _add_device(self, bucket: list[Any], kind: Kind) -> None:
        args = decode_args(schema.DeviceArgs, [record.args for record in bucket])
        timed = self._timed(bucket)
        process, thread = timed.pop("pid"), timed.pop("tid")
        legacy = np.fromiter((record.pid == "CUDA functions" for record in bucket), dtype=bool, count=len(bucket))
        device = integers([row.device for row in args])
        device = np.where(device >= 0, device, np.where(legacy, thread, process))
        stream = integers([row.stream if row.stream >= 0 else row.npu_stream for row in args])
        works = np.fromiter((self._work(record.name, kind) for record in bucket), dtype=np.uint8, count=len(bucket))
        external = integers([row.external_id for row in args])
        sizes = floats([row.bytes if row.bytes is not None else row.size for row in args])
        first = self.device.rows
        for row, found in enumerate(args):
            if found.collective is not None:
                self.collectives.append((first + row, bytes(bucket[row].args)))
        self.device.add(
            **timed,
            work=works,
            device=np.clip(device, -(2**31), 2**31 - 1),
            stream=np.where(stream >= 0, stream, np.where(legacy, 0, thread)),
            correlation=integers([row.correlation for row in args]),
            external_id=np.where(external >= 0, external, integers([row.external_id_old for row in args])),
            bytes=np.where((works == Work.KERNEL) | (sizes < 0), np.nan, sizes),
            launch=self._launch_rows(args),
            graph_node=integers([row.graph_node for row in args]),
        )

    def _work(self, name: str | None, kind: Kind) -> Work:
        """:func:`work_of`, once a name."""
        known = self._works.get((name, kind))
        if known is None:
            known = self._works[name, kind] = work_of(name or "", kind)
        return known

    def _launch_rows(self, args: list[schema.DeviceArgs]) -> I32:
        known, configs = self._launches, self.launch_configs
        rows = np.empty(len(args), dtype=np.int32)
        for row, found in enumerate(args):
            key = (
                bytes(found.grid),
                bytes(found.block),
                found.registers,
                found.shared_memory,
                found.occupancy,
                found.warps_per_sm,
            )
            number = known.get(key)
            if number is None:
                if key == (_NOTHING, _NOTHING, None, None, None, None):
                    number = -1
                else:
                    number = len(configs.grid)
                    configs.grid.append(_dimensions(found.grid))
                    configs.block.append(_dimensions(found.block))
                    configs.registers.append(found.registers)
                    configs.shared_memory.append(found.shared_memory)
                    configs.occupancy_pct.append(found.occupancy)
                    configs.warps_per_sm.append(found.warps_per_sm)
                known[key] = number
            rows[row] = number
        return rows

    def _add_calls(self, bucket: list[Any], kind: Kind) -> None:
        args = decode_args(schema.CallArgs, [record.args for record in bucket])
        self.calls.add(
            **self._timed(bucket),
            correlation=integers([row.correlation for row in args]),
            external_id=_external(args),
        )

    def _add_ops(self, bucket: list[Any], kind: Kind) -> None:
        steps = [record for record in bucket if (record.name or "").startswith("ProfilerStep#")]
        if steps:  # Kineto of 2021 wrote them as operators; as such they would own all that runs in them.
            self._add_ranges(steps, Kind.RANGE)
            bucket = [record for record in bucket if not (record.name or "").startswith("ProfilerStep#")]
            if not bucket:
                return
        args = decode_args(schema.OpArgsRecord, [record.args for record in bucket])
        first = self.ops.rows
        for row, found in enumerate(args):
            if found.call_stack:
                self.call_stacks[first + row] = found.call_stack
        self.ops.add(
            **self._timed(bucket),
            external_id=_external(args),
            sequence=integers([row.sequence for row in args]),
            forward_thread=integers([row.forward_thread for row in args]),
            args=np.fromiter(map(self._op_args_row, args), dtype=np.int32, count=len(args)),
        )

    def _op_args_row(self, args: schema.OpArgsRecord) -> int:
        triton = (
            [getattr(args, name) for name in schema.TRITON_FIELDS]
            if args.kernel_backend != schema.NOTHING or (args.kernel_file != schema.NOTHING)
            else []
        )
        parts = [args.input_dims, args.input_types, args.input_strides, args.concrete_inputs, *triton]
        key = b"\0".join(parts)
        number = self._op_args.get(key)
        if number is None:
            values = [_value(part) for part in parts]
            if all(value is None for value in values):
                number = -1
            else:
                table = self.op_args
                number = len(table.input_dims)
                table.input_dims.append(_list(values[0]))
                types = _list(values[1])
                table.input_types.append([str(item) for item in types] if types is not None else None)
                table.input_strides.append(_list(values[2]))
                table.concrete_inputs.append(_list(values[3]))
                named = {name: value for name, value in zip(schema.TRITON_FIELDS, values[4:]) if value is not None}
                table.triton.append(named or None)
            self._op_args[key] = number
        return number

    def _add_ranges(self, bucket: list[Any], kind: Kind) -> None:
        args = decode_args(schema.RangeArgs, [record.args for record in bucket])
        table = self.overhead if kind is Kind.OVERHEAD else self.ranges
        table.add(**self._timed(bucket), external_id=_external(args))

    def _add_frames(self, bucket: list[Any], kind: Kind) -> None:
        if self.frames is None:
            return
        args = decode_args(schema.FrameArgs, [record.args for record in bucket])
        self.frames.add(
            **self._timed(bucket),
            python_id=integers([row.id for row in args]),
            python_parent=integers([row.parent for row in args]),
        )

    def _add_memory(self, bucket: list[Any], kind: Kind) -> None:
        bucket = [record for record in bucket if record.name == "[memory]"]
        if self.memory is None or not bucket:
            return
        args = decode_args(schema.MemoryArgs, [record.args for record in bucket])
        self.memory.add(
            time=self.clock.offsets_ns([record.ts for record in bucket]),
            bytes=integers([row.bytes for row in args], 0),
            address=integers([row.address for row in args]),
            total_allocated=integers([row.total_allocated for row in args]),
            total_reserved=integers([row.total_reserved for row in args]),
            device_type=integers([row.device_type for row in args]),
            device=integers([row.device for row in args]),
            tid=self.identities.column([record.tid for record in bucket]),
        )


def _external(args: list[Any]) -> Any:
    newer = integers([row.external_id for row in args])
    return np.where(newer >= 0, newer, integers([row.external_id_old for row in args]))


def _value(raw: Raw) -> Any:
    if raw == schema.NOTHING:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _dimensions(raw: Raw) -> tuple[int, ...] | None:
    value = _value(raw)
    if isinstance(value, list) and value and all(type(item) is int and 0 < item < 1 << 32 for item in value):
        return tuple(value)
    return None
