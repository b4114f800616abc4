"""Where the text of generated files comes from: a folder, a ``.tar.gz``, snapshots of a run, or the path itself.

A generated file's name is a hash of its content, so files are found by their stem wherever they lie. An archive is read
in memory, within caps, and nothing is ever extracted, imported or executed.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ridgeline.inductor.kernel_file import KernelFile, parse_kernel_file
from ridgeline.inductor.module import is_wrapper

MAX_FILES = 100_000
MAX_FILE_BYTES = 64_000_000
MAX_ARCHIVE_BYTES = 512_000_000


@dataclass(slots=True, frozen=True)
class _Entry:
    shown: str | None
    """The path under which the file can be opened here; None inside an archive."""
    path: Path | None
    data: bytes | None


class GeneratedFiles:
    """``source`` is a folder or an archive; ``snapshots`` maps paths as the program knew them to files of the run.

    ``skipped`` counts members that were not read (too large, not regular, beyond the caps).
    """

    def __init__(self, source: Path | None = None, snapshots: Mapping[str, Path] | None = None) -> None:
        self.skipped = 0
        self._entries: dict[str, _Entry] = {}
        self._texts: dict[str, str | None] = {}
        self._kernels: dict[str, KernelFile | None] = {}
        for path, file in (snapshots or {}).items():
            self._entries[stem_of(path)] = _Entry(path, file, None)
        if source is not None:
            if source.is_dir():
                self._scan(source)
            elif source.is_file():
                self._unpack(source)

    def _scan(self, folder: Path) -> None:
        for count, path in enumerate(sorted(folder.rglob("*.py"))):
            if count >= MAX_FILES:
                self.skipped += 1
                break
            self._entries[path.stem] = _Entry(str(path), path, None)

    def _unpack(self, archive: Path) -> None:
        total = 0
        try:
            with tarfile.open(archive, "r:*") as tar:
                for member in tar:
                    if not member.name.endswith(".py"):
                        continue
                    total += member.size
                    if (
                        not member.isreg()
                        or member.size > MAX_FILE_BYTES
                        or total > MAX_ARCHIVE_BYTES
                        or len(self._entries) >= MAX_FILES
                    ):
                        self.skipped += 1
                        continue
                    stream = tar.extractfile(member)
                    if stream is not None:
                        self._entries[stem_of(member.name)] = _Entry(None, None, stream.read(MAX_FILE_BYTES))
        except (tarfile.TarError, EOFError, OSError, zlib.error):
            self.skipped += 1

    def shown(self, path: str) -> str:
        """The name for ``path`` that a reader can open, else ``path`` itself."""
        entry = self._entries.get(stem_of(path))
        return entry.shown if entry is not None and entry.shown is not None else path

    def text(self, path: str) -> str | None:
        """The text of a generated file by any path that ends in its name; None where it is not at hand."""
        stem = stem_of(path)
        if stem not in self._texts:
            entry = self._entries.get(stem)
            if entry is not None and entry.data is not None:
                self._texts[stem] = entry.data.decode("utf-8", "replace")
            else:
                self._texts[stem] = _read(entry.path if entry is not None and entry.path is not None else Path(path))
        return self._texts[stem]

    def kernel(self, path: str) -> KernelFile | None:
        """A single-kernel file, parsed."""
        stem = stem_of(path)
        if stem not in self._kernels:
            text = self.text(path)
            self._kernels[stem] = parse_kernel_file(text, self.shown(path)) if text is not None else None
        return self._kernels[stem]

    def wrappers(self) -> Iterator[str]:
        """The paths of all wrapper modules among the known files."""
        for stem, entry in self._entries.items():
            path = entry.shown or f"{stem}.py"
            text = self.text(path)
            if text is not None and is_wrapper(text):
                yield path


def stem_of(path: str) -> str:
    """``/tmp/torchinductor_me/ab/cabc….py`` -> ``cabc…``."""
    return PurePosixPath(path.replace("\\", "/")).stem


def _read(path: Path) -> str | None:
    try:
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
