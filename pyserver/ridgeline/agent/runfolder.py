"""Writes the run folder: progress lines, snapshots of files, documents that are renamed into place whole."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import threading
import time
from typing import Any

SNAPSHOT_LIMIT = 32 << 20
"""Bytes. A larger file is listed with its hash but not copied."""


class RunFolder:
    """One run folder. Safe to call from several threads."""

    def __init__(self, path: str, progress_fd: int | None = None) -> None:
        self.path = os.path.abspath(path)
        self.pid = os.getpid()
        """The process that writes here; forked children do not."""
        os.makedirs(self.path, exist_ok=True)
        self._fd = progress_fd
        self._lock = threading.Lock()
        self._started = time.time()
        self._last: tuple[str, float] = ("", 0.0)
        self._snapshots: dict[str, dict[str, Any]] = {}
        self.step: int | None = None

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    # ------------------------------------------------------------------ progress
    def progress(self, phase: str, message: str = "", step: int | None = None) -> None:
        """Append one line to ``progress.jsonl``; the same phase at most four times a second."""
        if os.getpid() != self.pid:
            return
        now = time.time()
        if step is not None:
            self.step = step
        if phase == self._last[0] and now - self._last[1] < 0.25 and not message:
            return
        self._last = (phase, now)
        row = {
            "t": round(now, 3),
            "phase": phase,
            "step": self.step,
            "elapsed_s": round(now - self._started, 3),
            "message": message,
        }
        line = (json.dumps(row) + "\n").encode()
        try:
            with self._lock, open(self.file("progress.jsonl"), "ab") as file:
                file.write(line)
            if self._fd is not None:
                os.write(self._fd, line)
        except OSError:
            # A full disk or a reader that went away: the user's program goes on, and the pipe is not tried again.
            self._fd = None

    # ------------------------------------------------------------------ documents
    def write_json(self, name: str, document: Any) -> None:
        """Strict JSON, complete or not there at all. Raises ``OSError``."""
        target = self.file(name)
        partial = f"{target}.{os.getpid()}.part"
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, default=str)
        with open(partial, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        os.replace(partial, target)

    def write_bytes(self, name: str, chunks: list[bytes]) -> None:
        target = self.file(name)
        partial = f"{target}.{os.getpid()}.part"
        with open(partial, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        os.replace(partial, target)

    def compress(self, source: str, name: str) -> None:
        """``source`` (a path) to the gzip file ``name`` of the run folder; level 1, for the program may be waiting."""
        target = self.file(name)
        partial = f"{target}.{os.getpid()}.part"
        with open(source, "rb") as plain, gzip.open(partial, "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        os.replace(partial, target)

    # ------------------------------------------------------------------ snapshots
    def snapshot(self, path: str, kind: str) -> dict[str, Any] | None:
        """Copy a file under ``files/<sha256><suffix>``; its ``CapturedFile`` row, or None if it cannot be read."""
        known = self._snapshots.get(path)
        if known is not None:
            return known
        try:
            with open(path, "rb") as file:
                content = file.read(SNAPSHOT_LIMIT + 1)
        except OSError:
            return None
        return self.keep(path, content, kind)

    def keeps(self, path: str) -> bool:
        """Whether the file was copied already."""
        return path in self._snapshots

    def keep(self, path: str, content: bytes, kind: str) -> dict[str, Any]:
        """Like :meth:`snapshot` for content that is at hand."""
        digest = hashlib.sha256(content).hexdigest()
        row = {"path": path, "sha256": digest, "kind": kind, "snapshot": ""}
        if len(content) <= SNAPSHOT_LIMIT:
            suffix = os.path.splitext(path)[1]
            name = f"files/{digest}{suffix if suffix[1:].isalnum() else ''}"
            os.makedirs(self.file("files"), exist_ok=True)
            if not os.path.exists(self.file(name)):
                self.write_bytes(name, [content])
            row["snapshot"] = name
        self._snapshots[path] = row
        return row

    def snapshots(self) -> list[dict[str, Any]]:
        return sorted(self._snapshots.values(), key=lambda row: str(row["path"]))
