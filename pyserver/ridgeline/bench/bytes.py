"""Bytes of arguments, from their descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.bench.signatures import Signature

ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip


def harness_bytes(described: Mapping[str, Any]) -> int | None:
    """Bytes of the distinct elements of a described tensor: an expanded dimension (stride 0) counts once. None where it is not
    known."""
    item = ITEM_BYTES.get(str(described.get("dtype")))
    if item is None or len(described["size"]) != len(described["stride"]):
        return None
    elements = 1
    for size, stride in zip(described["size"], described["stride"], strict=True):
        elements *= 1 if stride == 0 and size > 0 else size
    return elements * item


def moved_bytes(signature: Signature, arguments: Sequence[Any]) -> int | None:
    """Bytes that a call must move if every buffer is read or written once: an in-place argument counts twice.

    An upper bound for a kernel that gathers (the whole table counts). None where a size is not known.
    """
    total = 0
    for position, value in enumerate(arguments):
        if not isinstance(value, dict) or "size" not in value:
            continue
        size = harness_bytes(value)
        if size is None:
            return None
        total += size * (2 if signature.in_place(position) else 1)
    return total
