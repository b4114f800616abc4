"""A read trace on disk as columns, so that reopening costs no parsing.

One file: a magic line, the length of the header, the header (MessagePack: everything but the arrays), then the arrays
one after another, each on an 64-byte boundary, mapped when read (copy on write: what a reader changes stays its own).
No pickle: a header that does not fit the declared tables, a digest of these that differs, a source that has changed,
or an array that reaches outside the file means that the trace is read again.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_origin

import msgspec
import numpy as np
import numpy.typing as npt

from ridgeline import __version__
from ridgeline.trace import tables
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace

_MAGIC = b"ridgeline columns 1\n"
_ALIGN = 64
_LONGEST_HEADER = 1 << 30
_DTYPES = {"<f8", "<i8", "<i4", "|u1", "|b1"}


class _Header(msgspec.Struct):
    digest: str
    size: int
    mtime_ns: int
    frames: bool
    memory: bool
    trace: msgspec.Raw


def read_cached(path: str | Path, cache: str | Path, *, frames: bool = True, memory: bool = True) -> Trace:
    """As :func:`~ridgeline.trace.reader.read_trace`, from ``cache`` where that is of this very file.

    Else the trace is read and ``cache`` written (whole or not at all; a folder that cannot be written is no error).
    Raises :class:`~ridgeline.trace.errors.TraceError` like the reader.
    """
    path, cache = Path(path), Path(cache)
    found = load(path, cache, frames=frames, memory=memory)
    if found is None:
        found = read_trace(path, frames=frames, memory=memory)
        save(found, path, cache, frames=frames, memory=memory)
    return found


def digest() -> str:
    """Of what the file's layout follows from: the declared tables and this version."""
    parts = [__version__]
    for name, kind in sorted(vars(tables).items()):
        if is_dataclass(kind) and isinstance(kind, type):
            parts.append(name + "(" + ",".join(f"{field.name}:{field.type}" for field in fields(kind)) + ")")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def save(trace: Trace, path: Path, cache: Path, *, frames: bool = True, memory: bool = True) -> bool:
    """Writes ``trace``, read from ``path``, to ``cache``; False where that is not possible."""
    arrays: list[npt.NDArray[Any]] = []
    offset = 0

    def enc_hook(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, np.ndarray):
            start = offset
            arrays.append(np.ascontiguousarray(value))
            offset += -(-value.nbytes // _ALIGN) * _ALIGN
            return [value.dtype.str, start, len(value)]
        if isinstance(value, np.generic):
            return value.item()
        raise NotImplementedError

    try:
        status = path.stat()
        body = msgspec.msgpack.Encoder(enc_hook=enc_hook).encode(trace)
        header = msgspec.msgpack.encode(
            _Header(digest(), status.st_size, status.st_mtime_ns, frames, memory, msgspec.Raw(body))
        )
        start = len(_MAGIC) + 8 + len(header)
        handle, partial = tempfile.mkstemp(dir=cache.parent, prefix=cache.name, suffix=".part")
    except (OSError, OverflowError, NotImplementedError):
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + struct.pack("<Q", len(header)) + header + b"\0" * (-start % _ALIGN))
            for array in arrays:
                file.write(array.data)
                file.write(b"\0" * (-array.nbytes % _ALIGN))
        os.replace(partial, cache)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        return False
    return True


def load(path: Path, cache: Path, *, frames: bool = True, memory: bool = True) -> Trace | None:
    """The trace of ``path`` from ``cache``; None where there is none, or it is another file's, or damaged."""
    try:
        status = path.stat()
        with cache.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LONGEST_HEADER, cache.stat().st_size):
                return None
            header = msgspec.msgpack.decode(file.read(length), type=_Header)
    except (OSError, struct.error, msgspec.DecodeError):
        return None
    known = (digest(), status.st_size, status.st_mtime_ns, frames, memory)
    if (header.digest, header.size, header.mtime_ns, header.frames, header.memory) != known:
        return None
    first = len(_MAGIC) + 8 + length
    first += -first % _ALIGN
    try:
        data = np.memmap(cache, dtype=np.uint8, mode="c")
    except (OSError, ValueError):
        return None

    def dec_hook(kind: Any, value: Any) -> Any:
        if (get_origin(kind) or kind) is not np.ndarray:
            raise NotImplementedError
        name, start, count = value
        if name not in _DTYPES or count < 0 or start < 0:
            raise ValueError("not an array of ours")
        begin, end = first + start, first + start + count * np.dtype(name).itemsize
        if end > len(data):
            raise ValueError("an array reaches outside the file")
        return np.frombuffer(data[begin:end].data, dtype=name)

    try:
        trace: Trace = msgspec.msgpack.Decoder(Trace, dec_hook=dec_hook).decode(header.trace)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, TypeError):
        return None
    trace.path = str(path)
    return trace
