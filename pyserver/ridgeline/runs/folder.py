"""One run's folder: the names in it, and ``run.json``, the state of the run.

States: ``created`` → ``running`` → ``captured`` (the window is on disk) → ``analyzing`` → ``finished``, or ``failed``,
``cancelled``, ``empty`` (the program ended and nothing was recorded). A reader that sees ``profile.json`` sees a
finished analysis, whatever the state: with ``--then continue`` it is there while the program goes on.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeVar

State = Literal["created", "running", "captured", "analyzing", "finished", "failed", "cancelled", "empty"]
ACTIVE: frozenset[str] = frozenset({"created", "running", "captured", "analyzing"})
RUN_JSON_SCHEMA = 1


def write_atomically(path: Path, text: str) -> None:
    """Writes beside ``path`` and renames, so that a reader never sees half a file. Raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def process_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, which with the pid names it for good; ``None`` when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @property
    def id(self) -> str:
        """Unique in the store: ``group/run``."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def run_json(self) -> Path:
        return self.path / "run.json"

    @property
    def profile(self) -> Path:
        return self.path / "profile.json"

    @property
    def trace(self) -> Path:
        return self.path / "trace.json.gz"

    @property
    def sidecar(self) -> Path:
        return self.path / "sidecar.json"

    @property
    def progress(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def captured(self) -> Path:
        """The agent's flag: the window is on disk, analysis may start."""
        return self.path / "captured"

    @property
    def pinned(self) -> Path:
        """A marker beside ``run.json``, so that pinning a run never races with its supervisor."""
        return self.path / "pinned"

    def exists(self) -> bool:
        return self.run_json.is_file()

    def record(self) -> dict[str, Any]:
        """``run.json``; empty when it is missing or damaged (a run folder is data from anywhere)."""
        try:
            data = json.loads(self.run_json.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def update(self, **changes: Any) -> dict[str, Any]:
        """Changes keys of ``run.json``. One writer at a time: the creator first, then the supervisor. Raises ``OSError``."""
        data = self.record() | changes | {"updated": time.time()}
        write_atomically(self.run_json, json.dumps(data, indent=1, allow_nan=False))
        return data

    def append_log(self, text: str) -> None:
        """Best effort: a full disk must not keep a supervisor from ending the processes it looks after."""
        try:
            with self.log.open("a", encoding="utf-8", errors="backslashreplace") as out:
                out.write(text)
        except OSError:
            return

    def note(self, message: str) -> None:
        stamp = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")[:-3]
        self.append_log(f"[ridgeline {stamp}] {message}\n")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as lists show it, read from ``run.json`` alone."""

    folder: RunFolder
    target: str
    module: bool
    cwd: str | None
    state: str
    """As in the file, or ``lost``: its supervisor is gone and nobody will finish it."""
    created: float
    """Unix seconds."""
    finished: bool
    """``profile.json`` is there, and shows something."""
    pinned: bool
    exit_status: int | None
    rank: int | None
    """Of a job with several processes, each of which has a run of its own."""
    device: str | None
    steps: int | None
    step_us: float | None
    files: tuple[str, ...]
    """Absolute paths of the user's and the generated files that its profile names."""
    cause: dict[str, Any] | None

    @property
    def id(self) -> str:
        return self.folder.id

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def created_iso(self) -> str:
        return datetime.fromtimestamp(self.created, timezone.utc).isoformat(timespec="seconds")

    @classmethod
    def read(cls, folder: RunFolder) -> RunInfo | None:
        """``None`` when the folder holds no readable ``run.json``."""
        data = folder.record()
        if not isinstance(data.get("target"), str):
            return None
        state = str(data.get("state", "created"))
        if state in ACTIVE and not _supervised(data, folder):
            state = "lost"
        summary = _as(dict, data.get("summary")) or {}
        return cls(
            folder=folder,
            target=data["target"],
            module=bool(data.get("module")),
            cwd=_as(str, data.get("cwd")),
            state=state,
            created=_number(data.get("created")) or 0.0,
            finished=state != "empty" and folder.profile.is_file(),
            pinned=folder.pinned.exists(),
            exit_status=_as(int, data.get("exit_status")),
            rank=_as(int, data.get("rank")),
            device=_as(str, summary.get("device")),
            steps=_as(int, summary.get("steps")),
            step_us=_number(summary.get("step_us")),
            files=tuple(f for f in _as(list, data.get("files")) or () if isinstance(f, str)),
            cause=_as(dict, data.get("cause")),
        )


_T = TypeVar("_T")


def _as(kind: type[_T], value: object) -> _T | None:
    """The value where it is what it should be: a run folder is data from anywhere."""
    return value if isinstance(value, kind) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _supervised(data: dict[str, Any], folder: RunFolder) -> bool:
    """Whether somebody still looks after the run: its supervisor lives, or it was created moments ago."""
    owner = data.get("supervisor")
    if isinstance(owner, dict) and isinstance(owner.get("pid"), int):
        if owner.get("host") != os.uname().nodename:
            return True  # A job on another node of a cluster: unknown from here, so not to be called lost.
        return process_start(owner["pid"]) == owner.get("start")
    created = data.get("created")
    return isinstance(created, (int, float)) and time.time() - created < 30
