"""Finished runs on disk as the editor sees them: which run is shown for a file, and what was hidden or muted."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

from ridgeline import index
from ridgeline.lsp.protocol import RunInfo as WireRun
from ridgeline.runs.folder import RunInfo
from ridgeline.runs.store import Store, Watcher, default_root

Json = dict[str, Any]
logger = logging.getLogger(__name__)

PREFERENCES = ".editor.json"
MAX_LOADED = 16
LISTED_FOR_S = 0.25
"""How long a listing holds: one change is looked at from many sides, and each look costs three ``stat`` a run."""
RANKS_WITHIN_S = 60.0
"""The processes of one job start within this time of each other."""
MAX_LOOKED_AT = 200
"""Runs whose manifests are read when a file is looked for under another path."""

BOOT = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); module, sys.argv[1:] = sys.argv[2], sys.argv[3:]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def own_python(module: str, *arguments: str) -> list[str]:
    """Command that runs one of our standard-library modules with this interpreter and this process's libraries alone."""
    return [sys.executable, "-I", "-S", "-c", BOOT, json.dumps(sys.path), module, *arguments]


@dataclass(slots=True)
class ShownRun:
    """A finished run with its manifest; parts of the index are read when a file asks for them."""

    info: RunInfo
    manifest: Json
    files: dict[str, Json] = field(default_factory=dict)
    _parts: dict[str, Json | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = {entry["path"]: entry for entry in self.manifest["files"]}

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def folder(self) -> Path:
        return self.info.folder.path

    @property
    def steps(self) -> int | None:
        steps: int | None = self.manifest.get("steps")
        return steps

    @property
    def step_us(self) -> float | None:
        value: float | None = self.manifest.get("step_us")
        return value

    @property
    def device(self) -> str | None:
        for device in self.manifest.get("devices") or []:
            return str(device["name"])
        return None

    def part(self, name: str) -> Json | None:
        """A file of the index, read once."""
        if name not in self._parts:
            self._parts[name] = index.read_part(self.folder, name)
        return self._parts[name]

    def hot(self) -> Json:
        return self.part(index.HOT) or {"kernels": [], "lines": [], "findings": [], "modules": [], "idle": None}

    def wire(self) -> WireRun:
        source = self.manifest.get("source") or {}
        created = source.get("created") or self.info.created_iso
        known: WireRun = {**wire(self.info), "created": created, "device": self.device}
        return {**known, "steps": self.steps, "stepUs": self.step_us}


def wire(info: RunInfo) -> WireRun:
    """A run as its ``run.json`` tells it, for one that need not be indexed to be named."""
    return {
        "id": info.id,
        "folder": str(info.folder.path),
        "target": info.target,
        "created": info.created_iso,
        "device": info.device,
        "steps": info.steps,
        "stepUs": info.step_us,
        "trace": str(info.folder.trace) if info.folder.trace.is_file() else None,
        "pinned": info.pinned,
        "rank": info.rank,
    }


@dataclass(slots=True)
class Library:
    """All runs below one or several roots (the setting's, and the default one), newest first."""

    roots: list[Path] = field(default_factory=lambda: [default_root()])
    stores: list[Store] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)
    selected: str | None = None
    hidden: set[str] = field(default_factory=set)
    muted: set[str] = field(default_factory=set)
    searched: dict[str, Json] = field(default_factory=dict)
    """By kernel id: what **Verify autotune** found in this session, in the shape of the profile's ``autotune``."""
    unindexed: dict[Path, RunInfo] = field(default_factory=dict)
    """Finished runs without a usable index; the server has it built in a child process."""
    unreadable: dict[Path, RunInfo] = field(default_factory=dict)
    """Runs that could not be indexed; they are not tried again until they change."""
    _loaded: dict[Path, tuple[RunInfo, ShownRun]] = field(default_factory=dict)
    _by_path: dict[str, ShownRun | None] = field(default_factory=dict)
    _listed: list[RunInfo] | None = None
    _listed_at: float = 0.0

    def __post_init__(self) -> None:
        self.open(self.roots)

    def open(self, roots: list[Path]) -> None:
        """Looks in these folders from now on."""
        self.roots = list(dict.fromkeys(roots))
        self.stores = [Store(root) for root in self.roots]
        self.watchers = [Watcher(store) for store in self.stores]
        self._loaded.clear()
        self._by_path.clear()
        self._read_preferences()

    # Which runs there are

    def runs(self, *, hidden: bool = False) -> list[RunInfo]:
        """Finished runs, newest first; those that were cleared only with ``hidden``."""
        now = time.monotonic()
        if self._listed is None or now - self._listed_at > LISTED_FOR_S:
            found = [info for store in self.stores for info in store.runs() if info.finished]
            if len(self.stores) > 1:
                found.sort(key=lambda info: (info.created, info.folder.path.name), reverse=True)
            self._listed, self._listed_at = _ranks_in_order(found), now
        return [info for info in self._listed if hidden or info.id not in self.hidden]

    def poll(self) -> list[RunInfo]:
        """Runs that appeared or changed since the last call. May be called from another thread, one call at a time;
        the caller then calls :meth:`forget` on the event loop."""
        return [info for watcher in self.watchers for info in watcher.poll()]

    def forget(self) -> None:
        """Drops which run is shown for which file, so that it is found anew."""
        self._by_path.clear()
        self._listed = None

    def info(self, run_id: str) -> RunInfo | None:
        """A finished run by its id."""
        found = (store.find(run_id) for store in self.stores)
        return next((info for info in found if info is not None and info.finished), None)

    def find(self, run_id: str) -> ShownRun | None:
        info = self.info(run_id)
        return self.load(info) if info is not None else None

    def newest(self) -> ShownRun | None:
        """The selected run, else the newest one that can be read."""
        return next(self._in_order(), None)

    def load(self, info: RunInfo) -> ShownRun | None:
        """The run with its manifest; ``None`` (and an entry in ``unindexed``) when it has to be indexed first."""
        path = info.folder.path
        known = self._loaded.get(path)
        if known is not None and (known[0] is info or _unchanged(known[1], info)):
            return known[1]
        manifest = index.read_manifest(path)
        if manifest is None:
            if self.unreadable.get(path) != info:
                self.unindexed[path] = info
            return None
        self.unindexed.pop(path, None)
        run = ShownRun(info, manifest)
        while len(self._loaded) >= MAX_LOADED:
            self._loaded.pop(next(iter(self._loaded)))
        self._loaded[path] = (info, run)
        return run

    def _in_order(self) -> Iterator[ShownRun]:
        runs = self.runs()
        if self.selected is not None:
            runs.sort(key=lambda info: info.id != self.selected)
        for info in runs:
            run = self.load(info)
            if run is not None:
                yield run

    # Which run is shown for a file

    def run_for(self, path: str) -> ShownRun | None:
        """The run whose results are shown in this file: the selected one if it names the file, else the newest that does."""
        if path not in self._by_path:
            self._by_path[path] = self._find_run(path)
        return self._by_path[path]

    def _find_run(self, path: str) -> ShownRun | None:
        wanted = {path, os.path.realpath(path)}
        runs = self.runs()
        if self.selected is not None:
            runs.sort(key=lambda info: info.id != self.selected)
        for info in runs:
            if info.files and info.target not in wanted and wanted.isdisjoint(info.files):
                continue
            run = self.load(info)
            if run is not None and (info.target in wanted or not wanted.isdisjoint(run.files)):
                return run
        return None

    def foreign(self, path: str) -> Iterator[tuple[ShownRun, Json]]:
        """Runs that name a file of the same name under a path that is not on this machine, with that file's entry.

        The longest common tail of the paths comes first within a run. The caller compares the text before it trusts one.
        """
        name = PurePath(path).name
        for info in self.runs()[:MAX_LOOKED_AT]:
            if info.files and not any(file.replace("\\", "/").rsplit("/", 1)[-1] == name for file in info.files):
                continue
            run = self.load(info)
            if run is None:
                continue
            entries = [
                entry for entry in run.files.values() if entry["path"].replace("\\", "/").rsplit("/", 1)[-1] == name
            ]
            entries = [entry for entry in entries if entry.get("key") and not Path(entry["path"]).exists()]
            entries.sort(key=lambda entry: -common_tail(entry["path"], path))
            for entry in entries:
                yield run, entry

    # What the user hid

    def clear(self, run_ids: list[str]) -> None:
        """Hides runs from now on, in later sessions too. Their folders stay."""
        self.hidden.update(run_ids)
        if self.selected in self.hidden:
            self.selected = None
        self.forget()
        self._write_preferences()

    def pin(self, info: RunInfo, pinned: bool) -> None:
        """Marks a run as the baseline of its target, or takes the mark away. Raises ``OSError``."""
        self.stores[0].pin(info.folder, pinned)
        self.forget()

    def pins(self) -> frozenset[str]:
        """Ids of the pinned runs."""
        return frozenset(info.id for info in self.runs(hidden=True) if info.pinned)

    def mute(self, code: str, muted: bool) -> None:
        """Hides or shows again all findings of one code."""
        (self.muted.add if muted else self.muted.discard)(code)
        self._write_preferences()

    def _read_preferences(self) -> None:
        self.hidden, self.muted = set(), set()
        try:
            kept = json.loads((self.roots[0] / PREFERENCES).read_text(encoding="utf-8"))
            self.hidden = {item for item in kept.get("hidden", []) if isinstance(item, str)}
            self.muted = {item for item in kept.get("muted", []) if isinstance(item, str)}
        except FileNotFoundError:
            return
        except (OSError, ValueError, AttributeError, TypeError) as error:
            logger.warning("%s is not readable and was ignored: %s", self.roots[0] / PREFERENCES, error)

    def _write_preferences(self) -> None:
        path = self.roots[0] / PREFERENCES
        known = {info.id for info in self.runs(hidden=True)}
        try:
            self.roots[0].mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(
                json.dumps({"hidden": sorted(self.hidden & known), "muted": sorted(self.muted)}), encoding="utf-8"
            )
            temporary.replace(path)
        except OSError as error:
            logger.warning("cannot remember what was cleared: %s", error)


def _ranks_in_order(runs: list[RunInfo]) -> list[RunInfo]:
    """Newest first, but of the processes of one job rank 0 comes first: which of them started last is chance."""
    ordered: list[RunInfo] = []
    for (_, alone), job in groupby(runs, key=lambda info: (info.target, info.rank is None)):
        rest = list(job)
        if alone:
            ordered += rest
            continue
        while rest:
            newest = rest[0].created
            together = [info for info in rest if newest - info.created < RANKS_WITHIN_S]
            ordered += sorted(together, key=lambda info: info.rank or 0)
            rest = rest[len(together) :]
    return ordered


def _unchanged(run: ShownRun, info: RunInfo) -> bool:
    """Whether what was loaded still holds (a program that goes on after its profile keeps changing ``run.json``)."""
    try:
        return run.info == info and index.stamp(info.folder.profile) == run.manifest["profile"]
    except OSError:
        return False


def common_tail(one: str, other: str) -> int:
    """Number of path components that two paths share at their ends."""
    count = 0
    for a, b in zip(reversed(one.replace("\\", "/").split("/")), reversed(other.replace("\\", "/").split("/"))):
        if a != b:
            break
        count += 1
    return count
