"""An index of a finished run by source file, so that an editor need not read the whole profile document.

``build(run_folder)`` reads ``profile.json`` and writes ``index/`` beside it: ``manifest.json`` (what the run was and which
files it names), ``hot.json`` (the hottest kernels and lines, and the findings) and one small file for each source file with
everything that is shown in it. The folder is derived and may be deleted at any time; readers compare the size and a
digest of ``profile.json`` with the manifest and rebuild it. Standard library only: analysis calls it just before it publishes
the document, and the language server (in a child process) where it is missing.

Numbers are copied, not recomputed, except the sums over functions and the bound of a line, which are views over several
kernels: a line is ``memory`` (or ``compute``, ``latency``) where at least 80 % of its kernels' time is, else ``mixed``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INDEX_SCHEMA = 1
FOLDER = "index"
MANIFEST = "manifest.json"
HOT = "hot.json"
PROFILE = "profile.json"

_END = 1 << 16
"""Bytes at either end of a document that its stamp covers."""

Json = dict[str, Any]


class IndexUnreadable(Exception):
    """``profile.json`` is missing, unreadable, or of a schema that this version does not know."""


# --- reading ---------------------------------------------------------------------------------------------------------


def stamp(profile: Path) -> Json:
    """What identifies one state of a document without reading it all: its size and a digest of its two ends.

    The first bytes hold the run's times and the last ones its findings. Raises ``OSError``.
    """
    with profile.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        first = stream.read(_END)
        stream.seek(max(size - _END, 0))
        return _stamp(size, first, stream.read(_END))


def _stamp(size: int, first: bytes, last: bytes) -> Json:
    return {"size": size, "digest": hashlib.sha256(first + last).hexdigest()}


def read_manifest(run_folder: Path) -> Json | None:
    """The manifest, or ``None`` where it is missing, broken, of another schema, or older than the document."""
    try:
        manifest = json.loads((run_folder / FOLDER / MANIFEST).read_bytes())
        fresh = manifest["index"] == INDEX_SCHEMA and manifest["profile"] == stamp(run_folder / PROFILE)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if fresh else None


def read_part(run_folder: Path, name: str) -> Json | None:
    """One file of the index (``hot.json`` or the ``key`` of a file in the manifest); ``None`` if it cannot be read."""
    if Path(name).name != name:
        return None
    try:
        part = json.loads((run_folder / FOLDER / name).read_bytes())
    except (OSError, ValueError):
        return None
    return part if isinstance(part, dict) else None


def snapshot_text(run_folder: Path, entry: Mapping[str, Any]) -> str | None:
    """The text of a file as it was profiled, from the run's own copy; ``None`` if the run has none.

    ``snapshot`` is a path below the run folder; one that leads elsewhere is refused, for a document may come from anywhere.
    """
    name = entry.get("snapshot")
    if not isinstance(name, str) or not name:
        return None
    base = run_folder.resolve()
    path = (base / name).resolve()
    if not path.is_relative_to(base):
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def build(run_folder: Path, data: bytes | None = None) -> Json:
    """Writes the index of a run and returns its manifest. Raises :class:`IndexUnreadable` and ``OSError``.

    ``data`` is the document as it is (or is about to be) written to ``profile.json``; without it that file is read. The
    folder appears at once (written beside, then renamed), so that a reader never sees half of it.
    """
    profile = run_folder / PROFILE
    try:
        data = profile.read_bytes() if data is None else data
        document = json.loads(data)
    except (OSError, ValueError) as error:
        raise IndexUnreadable(f"{profile}: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise IndexUnreadable(f"{profile}: schema {document.get('schema') if isinstance(document, dict) else None!r}")
    # The rest is imported here, since readers (the language server) never build in their own process.
    from ridgeline.index.parts import index_document

    manifest, parts = index_document(document, run_folder)
    manifest["profile"] = _stamp(len(data), data[:_END], data[max(len(data) - _END, 0) :])
    temporary = run_folder / f".{FOLDER}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for name, part in parts.items():
        (temporary / name).write_text(_dump(part), encoding="utf-8")
    (temporary / MANIFEST).write_text(_dump(manifest), encoding="utf-8")
    target = run_folder / FOLDER
    old = run_folder / f".{FOLDER}-old-{os.getpid()}"
    try:
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except OSError:
        # Another process built it between the two renames; what it wrote is as good as ours.
        shutil.rmtree(temporary, ignore_errors=True)
        if read_manifest(run_folder) is None:
            raise
    shutil.rmtree(old, ignore_errors=True)
    return manifest


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
