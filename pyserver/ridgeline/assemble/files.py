"""The files that a profile names, with their digests and the snapshots in the run folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from ridgeline.profile import File, ProfileDocument
from ridgeline.sidecar import Sidecar

MAX_HASHED = 8 * 1024 * 1024


def file_rows(document: ProfileDocument, sidecar: Sidecar | None) -> list[File]:
    """One row a file that kernels, lines, ops or findings name. Reads files to hash them, never for writing."""
    library: set[str] = set()
    generated: set[str] = set()
    user: set[str] = set()
    for kernel in document.kernels:
        own = user if kernel.category == "user_triton" else generated
        own.update(ref.file for ref in kernel.generated)
        for source in kernel.source:
            (library if source.library else user).add(source.file)
            library.update(frame.file for frame in source.stack if _in_library(frame.file))
    generated.update(module.file for module in document.modules)
    user.update(line.file for line in document.lines)
    user.update(f.file for f in document.findings if f.file)
    user.update(op.source.file for op in document.ops if op.source)
    captured = {file.path: file for file in sidecar.files} if sidecar else {}
    roots = sidecar.user_roots if sidecar else []
    rows = []
    for path in sorted(user | generated | library):
        kind: Literal["user", "library", "generated"] = (
            "generated" if path in generated else "user" if path in user and not _in_library(path) else "library"
        )
        known = captured.get(path)
        rows.append(
            File(
                path=path,
                root=next((root for root in roots if path.startswith(root.rstrip("/") + "/")), None),
                sha256=known.sha256 if known else _digest(path),
                snapshot=known.snapshot or None if known else None,
                kind=kind,
            )
        )
    return rows


def _in_library(path: str) -> bool:
    return "site-packages" in path or "dist-packages" in path or "/lib/python3" in path


def _digest(path: str) -> str | None:
    """SHA-256 of a file on this machine, None where it is not here or is too large to be source."""
    file = Path(path)
    try:
        if not file.is_file() or file.stat().st_size > MAX_HASHED:
            return None
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
