"""An index of a finished run by source file, so that an editor need not read the whole profile document.

``build(run_folder)`` reads ``profile.json`` and writes ``index/`` beside it: ``manifest.json`` (what the run was and which
files it names), ``hot.json`` (the hottest kernels and lines, and the findings) and one small file for each source file with
everything that is shown in it. The folder is derived and may be deleted at any time; readers compare the size and time
stamp of ``profile.json`` in the manifest and rebuild it. Standard library only: analysis calls it after it has written
the document, and the language server (in a child process) where it is missing.

Numbers are copied, not recomputed, except the sums over functions and the bound of a line, which are views over several
kernels: a line is ``memory`` (or ``compute``, ``latency``) where at least 80 % of its kernels' time is, else ``mixed``.
"""

from __future__ import annotations

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

Json = dict[str, Any]


class IndexUnreadable(Exception):
    """``profile.json`` is missing, unreadable, or of a schema that this version does not know."""


# --- reading ---------------------------------------------------------------------------------------------------------


def stamp(profile: Path) -> Json:
    """What identifies one state of a profile document: size in bytes and modification time in nanoseconds."""
    status = profile.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


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


def build(run_folder: Path) -> Json:
    """Writes the index of a finished run and returns its manifest. Raises :class:`IndexUnreadable`.

    The folder appears at once (written beside, then renamed), so that a reader never sees half of it.
    """
    profile = run_folder / PROFILE
    try:
        mark = stamp(profile)
        document = json.loads(profile.read_bytes())
    except (OSError, ValueError) as error:
        raise IndexUnreadable(f"{profile}: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise IndexUnreadable(f"{profile}: schema {document.get('schema') if isinstance(document, dict) else None!r}")
    # The rest is imported here, since readers (the language server) never build in their own process.
    from ridgeline.index.parts import index_document

    manifest, parts = index_document(document, run_folder)
    manifest["profile"] = mark
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
