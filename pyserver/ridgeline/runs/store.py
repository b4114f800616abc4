"""The history of runs: one folder a run, grouped by target.

The root is, in this order, what the caller gives (``--run-dir``, a setting), ``RIDGELINE_RUN_DIR`` (so that the jobs of
``torchrun`` or Slurm land where an editor looks), or the user's state folder. Below it ``GROUP/RUN/``; a group is named
by its target's stem and a digest of its absolute path, a run by its time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from ridgeline import __version__
from ridgeline.index.parts import step_us
from ridgeline.runs.folder import RUN_JSON_SCHEMA, RunFolder, RunInfo
from ridgeline.runs.spec import RunSpec

KEPT_PER_TARGET = 20
_RANKS_START_WITHIN_S = 60.0
ROOT_VARIABLE = "RIDGELINE_RUN_DIR"
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


class StoreError(OSError):
    """The place where runs are kept cannot be used; the message says why and what to do."""


def default_root() -> Path:
    """``RIDGELINE_RUN_DIR``, else ``ridgeline/runs`` in the user's state folder."""
    named = os.environ.get(ROOT_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs  # Only here: a supervisor is told its folder and does without.

    return Path(platformdirs.user_state_dir("ridgeline", appauthor=False)) / "runs"


def group_name(target: str, module: bool, cwd: str) -> str:
    """The group's folder name. A script is its resolved path; a module its name and the folder it is run in."""
    identity = f"-m {target}\0{Path(cwd).resolve()}" if module else str((Path(cwd) / target).resolve())
    stem = target if module else Path(target).stem
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("._-")[:40] or "run"
    return f"{slug}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def rank_of(environment: dict[str, str] | os._Environ[str]) -> int | None:
    """This process's rank, as the launchers' variables say."""
    for name in _RANK_VARIABLES:
        value = environment.get(name, "")
        if value.isdigit():
            return int(value)
    return None


@dataclass
class Store:
    """The runs below one root. Reads are cached by the ``run.json``'s time of change, so listing often is cheap."""

    root: Path = field(default_factory=default_root)
    _cache: dict[Path, tuple[tuple[int, int, int], RunInfo | None]] = field(default_factory=dict, repr=False)

    def create(self, spec: RunSpec, *, kind: str = "run") -> RunFolder:
        """A new, private folder for ``spec`` with its ``run.json`` in state ``created``; old runs of the target go.

        Raises :class:`StoreError` when the folder cannot be made.
        """
        group = self.root / group_name(spec.target, spec.module, spec.cwd)
        rank = rank_of({**os.environ, **spec.env})
        now = time.time()
        stamp = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
        if rank is not None:
            stamp += f"-rank{rank}"
        try:
            group.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = _unused(group, stamp)
            folder = RunFolder(path)
            folder.update(
                schema=RUN_JSON_SCHEMA,
                kind=kind,
                target=spec.target if spec.module else str(spec.target_path()),
                module=spec.module,
                args=spec.args,
                python=spec.python,
                cwd=spec.cwd,
                options=spec.options(),
                rank=rank,
                created=now,
                state="created",
                ridgeline=__version__,
            )
        except OSError as error:
            raise StoreError(
                f"cannot make a run folder in {group}: {error.strerror or error}; "
                f"choose another place with --run-dir or {ROOT_VARIABLE}"
            ) from error
        self.prune(group)
        return folder

    def runs(self, group: Path | None = None) -> list[RunInfo]:
        """All runs, or those of one group, newest first."""
        found: list[RunInfo] = []
        for one in [group] if group is not None else _folders(self.root):
            found.extend(info for path in _folders(one) if (info := self._info(path)) is not None)
        return sorted(found, key=lambda info: (info.created, info.folder.path.name), reverse=True)

    def runs_of_target(self, target: str, *, module: bool = False, cwd: str | None = None) -> list[RunInfo]:
        """Runs of a script (any path to it) or of a module run in ``cwd``, newest first."""
        return self.runs(self.root / group_name(target, module, cwd or os.getcwd()))

    def newest_for_file(self, path: str | Path) -> RunInfo | None:
        """The newest run with a profile that has this file: as its target, or as one of the files it names."""
        wanted = {str(path), os.path.realpath(path)}
        for info in self.runs():
            if info.finished and (info.target in wanted or not wanted.isdisjoint(info.files)):
                return info
        return None

    def find(self, run_id: str) -> RunInfo | None:
        """The run with the id ``group/run``."""
        parts = run_id.split("/")
        if len(parts) != 2 or any(part in ("", ".", "..") for part in parts):
            return None
        return self._info(self.root / parts[0] / parts[1])

    def pin(self, folder: RunFolder, pinned: bool = True) -> None:
        """A pinned run is never pruned. Raises ``OSError``."""
        if pinned:
            folder.pinned.touch()
        else:
            folder.pinned.unlink(missing_ok=True)

    def prune(self, group: Path, keep: int = KEPT_PER_TARGET) -> list[Path]:
        """Removes the oldest runs of a group beyond ``keep``; pinned and active ones stay. Returns what went.

        The ranks of a job count as one. Only folders with a ``run.json`` of ours are ever touched: the root may be a
        folder that the user chose.
        """
        infos = self.runs(group)
        firsts = [info for info in infos if info.rank in (None, 0)]
        oldest_kept = firsts[keep - 1].created if 0 < keep <= len(firsts) else (0.0 if keep else float("inf"))
        removed = []
        for info in infos:
            slack = _RANKS_START_WITHIN_S if info.rank else 0.0  # Rank 0 need not be the first to start.
            if info.created + slack >= oldest_kept or info.pinned or info.active:
                continue
            shutil.rmtree(info.folder.path, ignore_errors=True)
            self._cache.pop(info.folder.path, None)
            removed.append(info.folder.path)
        return removed

    def _info(self, path: Path) -> RunInfo | None:
        folder = RunFolder(path)
        stamp = _stamp(folder)
        if stamp is None:
            return None
        known = self._cache.get(path)
        if known is not None and known[0] == stamp and not (known[1] is not None and known[1].active):
            return known[1]
        info = RunInfo.read(folder)
        self._cache[path] = (stamp, info)
        return info


@dataclass
class Watcher:
    """Notices runs that others make: one ``stat`` a folder, nothing is read that did not change.

    :meth:`poll` is meant to be called every second or so, from any thread, one at a time.
    """

    store: Store
    _seen: dict[Path, tuple[int, int, int]] = field(default_factory=dict, repr=False)
    _primed: bool = False

    def poll(self) -> list[RunInfo]:
        """Runs that appeared or changed since the last call, oldest first; the first call only looks."""
        now: dict[Path, tuple[int, int, int]] = {}
        for group in _folders(self.store.root):
            for path in _folders(group):
                stamp = _stamp(RunFolder(path))
                if stamp is not None:
                    now[path] = stamp
        changed = [path for path, stamp in now.items() if self._seen.get(path) != stamp]
        first, self._seen, self._primed = not self._primed, now, True
        if first:
            return []
        infos = [info for path in changed if (info := self.store._info(path)) is not None]
        return sorted(infos, key=lambda info: (info.created, info.folder.path.name))


def resolve_run(path: Path, store: Store | None = None) -> RunFolder:
    """The run that a person means by ``path``: its folder, its ``profile.json``, a group, a root, or an id of the store.

    Of several runs the newest one with a profile, else the newest. Raises :class:`StoreError` when there is none.
    """
    if path.name == "profile.json" and path.is_file():
        return RunFolder(path.parent)
    folder = RunFolder(path)
    if folder.exists():
        return folder
    if path.is_dir():
        here = Store(path)
        candidates = here.runs(path) or here.runs()
    else:
        known = (store or Store()).find(str(path))
        candidates = [known] if known is not None else []
    for info in candidates:
        if info.finished:
            return info.folder
    if candidates:
        return candidates[0].folder
    raise StoreError(f"no run at {path}; give a run folder, its profile.json, or a folder that runs are kept in")


def write_summary(folder: RunFolder) -> bool:
    """Puts into ``run.json`` what lists need of ``profile.json``: device, steps, and the files it names.

    False when the profile shows nothing at all: no kernel and no operation, nor (of a generated module, which may call its
    kernels where nobody sees them, or have none) the time of a call. Raises ``OSError``, or ``ValueError`` when
    the profile is none.
    """
    document = json.loads(folder.profile.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"{folder.profile} is not a profile")
    rows = [entry for entry in document.get("files") or [] if entry.get("kind") in ("user", "generated")]
    files = {str(entry["path"]) for entry in rows} | {str(row["file"]) for row in document.get("lines") or []}
    devices = document.get("devices") or [{}]
    steps = (document.get("source") or {}).get("steps")
    folder.update(
        files=sorted(files | {os.path.realpath(file) for file in files}),
        summary={"device": devices[0].get("name"), "steps": steps, "step_us": step_us(document)},
    )
    alone = (document.get("source") or {}).get("kind") == "module"
    return bool(document.get("kernels") or document.get("ops") or (alone and document.get("steps")))


def _unused(group: Path, stamp: str) -> Path:
    for attempt in range(100):
        path = group / (stamp if attempt == 0 else f"{stamp}-{attempt}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"no free name for {stamp}")


def _folders(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []


def _stamp(folder: RunFolder) -> tuple[int, int, int] | None:
    """Changes whenever ``run.json``, the profile or the pin does; ``None`` without a ``run.json``."""
    try:
        record = folder.run_json.stat()
    except OSError:
        return None
    try:
        profile = folder.profile.stat().st_mtime_ns
    except OSError:
        profile = 0
    return record.st_mtime_ns, profile, int(folder.pinned.exists())
