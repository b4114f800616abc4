"""A strict copy of a damaged trace, for viewers that refuse it. The original stays as it is."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Raw

from ridgeline.trace.decode import Failure, RecordDecoder
from ridgeline.trace.records import Damage, RecordStream
from ridgeline.trace.source import ByteSource


class _RawDecoder(RecordDecoder):
    """Keeps records as text, and takes only what is strict JSON in UTF-8."""

    def __init__(self) -> None:
        super().__init__()
        self._texts = msgspec.json.Decoder(list[Raw])

    def parse(self, text: bytes | memoryview) -> list[Raw] | Failure:  # type: ignore[override]
        try:
            wrapped = b"".join((b"[", text, b"]"))
            wrapped.decode("utf-8")
            return self._texts.decode(wrapped)
        except UnicodeDecodeError:
            return Failure(None)
        except (msgspec.DecodeError, RecursionError):
            outcome = super().parse(text)
            return outcome if isinstance(outcome, Failure) else Failure(None)


def needs_cleaning(path: str | Path) -> bool:
    """Whether a strict JSON reader would refuse the trace. Reads it once. Raises :class:`TraceError` if it is none."""
    return _copy(Path(path), None)


def write_clean(path: str | Path, target: str | Path) -> bool:
    """Writes a strict, gzipped copy of the trace to ``target``, whole or not at all; whether anything was mended.

    Records that cannot be mended are left out, a cut file is closed. Raises :class:`TraceError` if it is no trace, and
    OSError where ``target`` cannot be written.
    """
    target = Path(target)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    os.close(handle)
    try:
        mended = _copy(Path(path), Path(partial))
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return mended


def _copy(path: Path, target: Path | None) -> bool:
    stream = RecordStream(ByteSource(path), decoder=_RawDecoder())
    if target is None:
        for _ in stream:
            pass
        return _mended(stream.damage)
    with gzip.open(target, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents":[\n')
        first = True
        for records in stream:
            texts: list[Raw] = records  # type: ignore[assignment]
            if not texts:
                continue
            file.write((b"" if first else b",\n") + b",\n".join(texts))
            first = False
        file.write(b"\n]")
        for key, value in stream.metadata.items():
            file.write(b",\n" + msgspec.json.encode(key) + b":" + msgspec.json.encode(value))
        file.write(b"}\n")
    return _mended(stream.damage)


def _mended(damage: Damage) -> bool:
    return bool(damage.mends or damage.skipped or damage.truncated)
