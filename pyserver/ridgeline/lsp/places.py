"""Paths of a profile on this machine: a run may come from another one, and generated files vanish with their cache.

A path is looked for, in this order: as it stands; with its root replaced by a workspace folder; as the run's own snapshot
(generated files only, for they are never edited); by the longest common tail among the workspace's Python files. What does
not name a file (``<string>``, ``<built-in …>``, a notebook cell, line 0) is never a link.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.uris import from_fs_path

from ridgeline.lsp.store import common_tail

Json = Mapping[str, Any]

SKIPPED = {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "env", "build", "dist"}
MAX_FILES = 20_000
RESCAN_AFTER_S = 60.0
_NOTEBOOK = re.compile(r"[\\/]ipykernel_\d+[\\/]")


def is_file_name(path: str) -> bool:
    """Whether a frame's file can name a file at all."""
    return (
        bool(path)
        and "<" not in path
        and not _NOTEBOOK.search(path)
        and path.endswith((".py", ".pyi", ".cpp", ".cu", ".h"))
    )


def uri_of(path: Path | str) -> str:
    return from_fs_path(str(path)) or ""


def location(path: Path, line: int) -> types.Location:
    """A whole line, one-based, without reading the file: an empty range at its start."""
    at = types.Position(line=max(line - 1, 0), character=0)
    return types.Location(uri=uri_of(path), range=types.Range(start=at, end=at))


def plain(location: types.Location) -> dict[str, Any]:
    """A location as the JSON it is on the wire, for payloads that pygls does not convert."""
    start, end = location.range.start, location.range.end
    return {
        "uri": location.uri,
        "range": {
            "start": {"line": start.line, "character": start.character},
            "end": {"line": end.line, "character": end.character},
        },
    }


def folder_of(file: Path | None, folders: list[Path]) -> Path | None:
    """The innermost workspace folder that holds the file, else the first one if there is no file."""
    if file is None:
        return folders[0] if folders else None
    holding = [folder for folder in folders if file.is_relative_to(folder)]
    return max(holding, key=lambda folder: len(folder.parts), default=None)


@dataclass(slots=True)
class Places:
    """Finds files of profiles below the workspace's folders."""

    folders: list[Path] = field(default_factory=list)
    _by_name: dict[str, list[str]] = field(default_factory=dict)
    _scanned: float = 0.0
    _known: dict[tuple[str, str], list[Path]] = field(default_factory=dict)

    def set_folders(self, folders: Iterable[Path]) -> None:
        self.folders = list(folders)
        self.forget()

    def forget(self) -> None:
        self._by_name, self._scanned = {}, 0.0
        self._known.clear()

    def find(self, path: str, run_folder: Path, entry: Json | None) -> list[Path]:
        """Where a profile's file is here: one path, several where the choice is the person's, or none."""
        key = (path, str(run_folder))
        if key not in self._known or not all(found.is_file() for found in self._known[key]):
            self._known[key] = self._find(path, run_folder, entry or {})
        return self._known[key]

    def _find(self, path: str, run_folder: Path, entry: Json) -> list[Path]:
        if not is_file_name(path):
            return []
        if os.path.isabs(path) and os.path.isfile(path):
            return [Path(path)]
        root = entry.get("root")
        if isinstance(root, str) and root and path.startswith(root.rstrip("/") + "/"):
            relative = path[len(root.rstrip("/")) + 1 :]
            under = [folder / relative for folder in self.folders if (folder / relative).is_file()]
            if under:
                return under
        if entry.get("kind") == "generated":
            snapshot = self.snapshot(run_folder, entry)
            return [snapshot] if snapshot else []
        candidates = self._named(path.replace("\\", "/").rsplit("/", 1)[-1])
        tails = [(common_tail(path, candidate), candidate) for candidate in candidates]
        longest = max((tail for tail, _ in tails), default=0)
        return [Path(candidate) for tail, candidate in tails if tail == longest][:10]

    def snapshot(self, run_folder: Path, entry: Json) -> Path | None:
        """The run's own copy of a file, if it has one; never a path that leads out of the run folder."""
        name = entry.get("snapshot")
        if not isinstance(name, str) or not name:
            return None
        found = (run_folder / name).resolve()
        return found if found.is_relative_to(run_folder.resolve()) and found.is_file() else None

    def _named(self, name: str) -> list[str]:
        if time.monotonic() - self._scanned > RESCAN_AFTER_S or not self._scanned:
            self._by_name = self._scan()
            self._scanned = time.monotonic()
        return self._by_name.get(name, [])

    def _scan(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        count = 0
        for folder in self.folders:
            for parent, folders, files in os.walk(folder):
                folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
                for name in files:
                    if name.endswith(".py"):
                        found[name].append(os.path.join(parent, name))
                        count += 1
                if count > MAX_FILES:
                    return dict(found)
        return dict(found)
