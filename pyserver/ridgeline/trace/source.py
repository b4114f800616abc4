"""Bytes of a trace, decompressed as they are read, whatever the file's name says.

Recognised by their first bytes: gzip (several members too), zip (its first JSON member), bzip2, xz, plain. UTF-16
text with a byte-order mark is re-encoded as UTF-8; a UTF-8 mark is dropped. A stream that is cut or damaged gives all
that can be inflated before the damage, and says so in :attr:`ByteSource.damage`.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ridgeline.trace.errors import TraceError

_PIECE = 1 << 18
_LONGEST_PIECE = 1 << 22
"""A piece of compressed zeros inflates a thousandfold; nothing larger than this is handed on at once."""


class ByteSource:
    """Iterates the decompressed bytes of ``path`` in pieces of at most a few megabytes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damage: str | None = None
        """In words, why the stream ended early; None where it is whole."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from _as_utf8(self._plain(file))
        except FileNotFoundError:
            raise TraceError(f"{self.path}: there is no such file") from None
        except IsADirectoryError:
            raise TraceError(f"{self.path} is a folder; give the trace file in it") from None
        except PermissionError:
            raise TraceError(f"{self.path} may not be read by this user") from None

    def _plain(self, file: IO[bytes]) -> Iterator[bytes]:
        head = file.read(6)
        file.seek(0)
        if head.startswith(b"\x1f\x8b"):
            yield from self._gzip(file)
        elif head.startswith(b"PK\x03\x04"):
            yield from self._zip(file)
        elif head.startswith(b"BZh"):
            yield from self._inflate(file, bz2.BZ2Decompressor)
        elif head.startswith(b"\xfd7zXZ"):
            yield from self._inflate(file, lzma.LZMADecompressor)
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            raise TraceError(f"{self.path} is compressed with zstd; decompress it first (zstd -d)")
        else:
            while piece := file.read(_PIECE * 4):
                yield piece

    def _gzip(self, file: IO[bytes]) -> Iterator[bytes]:
        inflater = zlib.decompressobj(31)
        while piece := file.read(_PIECE):
            while piece:
                before = inflater.copy()
                try:
                    out = inflater.decompress(piece, _LONGEST_PIECE)
                except zlib.error as error:
                    yield _until_damage(before, piece)
                    self.damage = f"the compressed data is damaged ({error})"
                    return
                if out:
                    yield out
                if inflater.eof:
                    piece = inflater.unused_data.lstrip(b"\0") or file.read(_PIECE)
                    if not piece.startswith(b"\x1f\x8b"):
                        return  # The end, or trailing bytes that are no further member, which gzip ignores too.
                    inflater = zlib.decompressobj(31)
                else:
                    piece = inflater.unconsumed_tail
        if tail := inflater.flush():
            yield tail
        if not inflater.eof:
            self.damage = "the compressed file ends in the middle"

    def _inflate(
        self, file: IO[bytes], make: type[bz2.BZ2Decompressor] | type[lzma.LZMADecompressor]
    ) -> Iterator[bytes]:
        inflater = make()
        piece = file.read(_PIECE)
        while piece:
            try:
                yield inflater.decompress(piece, _LONGEST_PIECE)
                while not inflater.eof and (out := inflater.decompress(b"", _LONGEST_PIECE)):
                    yield out
            except (OSError, lzma.LZMAError) as error:
                self.damage = f"the compressed data is damaged ({error})"
                return
            piece = (inflater.unused_data if inflater.eof else b"") or file.read(_PIECE)
            if inflater.eof and piece:
                inflater = make()
        if not inflater.eof:
            self.damage = "the compressed file ends in the middle"

    def _zip(self, file: IO[bytes]) -> Iterator[bytes]:
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise TraceError(f"{self.path} is a damaged zip archive ({error})") from None
        names = [name for name in archive.namelist() if not name.endswith("/")]
        wanted = next((name for name in names if ".json" in name.lower()), names[0] if names else None)
        if wanted is None:
            raise TraceError(f"{self.path} is an empty zip archive")
        try:
            with archive.open(wanted) as member:
                while piece := member.read(_PIECE * 4):
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            self.damage = f"the archive's {wanted} is damaged ({error})"


def _until_damage(inflater: zlib._Decompress, piece: bytes) -> bytes:
    """What can be had from ``piece``: halves again and again, as a call that fails gives nothing of its output."""
    out: list[bytes] = []
    low, size = 0, len(piece)
    while size >= 1 and low < len(piece):
        trial = inflater.copy()
        try:
            got = trial.decompress(piece[low : low + size])
        except zlib.error:
            size //= 2
            continue
        out.append(got)
        inflater = trial
        low += size
    return b"".join(out)


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= 4:
            break
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(first).encode("utf-8", "replace")
        for piece in pieces:
            yield decoder.decode(piece).encode("utf-8", "replace")
        return
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from pieces
