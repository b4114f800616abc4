"""The fields of a trace record that are read, and nothing else. msgspec skips the rest without building objects.

Identifiers are integers in all that Kineto writes; a record in which one is something else fails the strict types
and is read again leniently (:func:`event_of`, :func:`args_of`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct, field

NOTHING = Raw(b"{}")
Id = int | str | float | None


class Event(Struct, gc=False):
    """One record. ``args`` stays raw: it is decoded by kind, and only for kinds that are kept."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Id = None
    tid: Id = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: Raw = NOTHING


class ExactEvent(Struct, gc=False):
    """As :class:`Event`, with the text of the timestamp: above 2**43 µs a float64 no longer holds a nanosecond."""

    ts: Raw = NOTHING
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Id = None
    tid: Id = None
    dur: float | str | None = None
    args: Raw = NOTHING


class DeviceArgs(Struct, gc=False):
    external_id: int = field(default=-1, name="External id")
    external_id_old: int = field(default=-1, name="external id")
    device: int = -1
    stream: int = -1
    correlation: int = -1
    bytes: float | None = None
    registers: int | None = field(default=None, name="registers per thread")
    shared_memory: int | None = field(default=None, name="shared memory")
    warps_per_sm: float | None = field(default=None, name="warps per SM")
    grid: Raw = NOTHING
    block: Raw = NOTHING
    occupancy: float | None = field(default=None, name="est. achieved occupancy %")
    graph_node: int = field(default=-1, name="graph node id")
    collective: str | None = field(default=None, name="Collective name")
    size: float | None = None
    direction: str | None = None
    npu_stream: int = field(default=-1, name="Stream Id")
    npu_task: str | None = field(default=None, name="Task Type")


class CallArgs(Struct, gc=False):
    external_id: int = field(default=-1, name="External id")
    external_id_old: int = field(default=-1, name="external id")
    correlation: int = -1


class OpArgsRecord(Struct, gc=False):
    external_id: int = field(default=-1, name="External id")
    external_id_old: int = field(default=-1, name="external id")
    sequence: int = field(default=-1, name="Sequence number")
    forward_thread: int = field(default=-1, name="Fwd thread id")
    concrete_inputs: Raw = field(default=NOTHING, name="Concrete Inputs")
    input_types: Raw = field(default=NOTHING, name="Input type")
    input_strides: Raw = field(default=NOTHING, name="Input Strides")
    input_dims: Raw = field(default=NOTHING, name="Input Dims")
    kernel_file: Raw = NOTHING
    kernel_hash: Raw = NOTHING
    kernel_backend: Raw = NOTHING
    kernel_name: Raw = NOTHING
    kernel_kwargs: Raw = NOTHING
    kernel_num_gb: Raw = NOTHING
    kernel_flop: Raw = NOTHING
    num_warps: Raw = NOTHING
    num_stages: Raw = NOTHING
    grid: Raw = NOTHING
    call_stack: str | None = field(default=None, name="Call stack")


TRITON_FIELDS = (
    "kernel_file",
    "kernel_hash",
    "kernel_backend",
    "kernel_name",
    "kernel_kwargs",
    "kernel_num_gb",
    "kernel_flop",
    "num_warps",
    "num_stages",
    "grid",
)


class RangeArgs(Struct, gc=False):
    external_id: int = field(default=-1, name="External id")
    external_id_old: int = field(default=-1, name="external id")


class FrameArgs(Struct, gc=False):
    parent: int | None = field(default=None, name="Python parent id")
    id: int | None = field(default=None, name="Python id")


class MemoryArgs(Struct, gc=False):
    total_reserved: int | None = field(default=None, name="Total Reserved")
    total_allocated: int | None = field(default=None, name="Total Allocated")
    bytes: int | None = field(default=None, name="Bytes")
    device: int = field(default=-1, name="Device Id")
    device_type: int = field(default=-1, name="Device Type")
    address: int = field(default=-1, name="Addr")


class MetaArgs(Struct, gc=False):
    name: str | None = None
    labels: str | None = None


_ENCODER = msgspec.json.Encoder(decimal_format="number")
_TEXT = ("ph", "cat", "name")
_IDS = ("pid", "tid")


def event_of(record: Any) -> Event | None:
    """A record whose fields have unexpected types, as well as it can be read; None where it is no object."""
    if not isinstance(record, dict):
        return None
    event = Event()
    for key in _TEXT:
        value = record.get(key)
        if value is not None:
            setattr(event, key, value if isinstance(value, str) else str(value))
    for key in _IDS:
        value = record.get(key)
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            setattr(event, key, value)
    for key in ("ts", "dur"):
        value = record.get(key)
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            setattr(event, key, str(value))  # As text, so that no digit is lost.
        elif isinstance(value, str):
            setattr(event, key, value)
    args = record.get("args")
    if isinstance(args, dict):
        event.args = Raw(_ENCODER.encode(args))
    return event


Args = TypeVar("Args", bound=Struct)


def integer(value: Any) -> int | None:
    """``value`` as an integer where that says the same thing: 7, 7.0, "7", "stream 7"; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value == value and abs(value) < 2**63 else None
    if isinstance(value, str):
        last = value.rsplit(None, 1)[-1] if value.strip() else ""
        digits = last.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            return int(last)
    return None


def args_of(kind: type[Args], value: Any) -> Args:
    """``value`` (a decoded ``args``) as ``kind``, field by field: one that does not fit takes its default."""
    out = kind()
    if not isinstance(value, dict):
        return out
    for info in msgspec.structs.fields(kind):
        given = value.get(info.encode_name)
        if given is None:
            continue
        try:
            setattr(out, info.name, msgspec.convert(given, info.type, strict=False))
        except msgspec.ValidationError:
            if info.type is Raw:
                setattr(out, info.name, Raw(msgspec.json.encode(given)))
            elif info.type in (int, int | None) and (number := integer(given)) is not None:
                setattr(out, info.name, number)
    return out
