"""What a run is asked to do: the one description that the command line and the language server hand to the supervisor."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

Then = Literal["continue", "stop"]
OutputTo = Literal["inherit", "stderr", "events"]


class SpecError(ValueError):
    """The request cannot be run; the message says what is wrong, where, and what to do."""


@dataclass(slots=True, kw_only=True)
class RunSpec:
    """One run. Paths may be relative to ``cwd``; ``cwd`` and ``python`` are absolute."""

    target: str
    """A script's path, or a module's name with ``module``."""
    python: str
    """The user's interpreter; nothing but torch is expected in it."""
    cwd: str
    module: bool = False
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    """Laid over the supervisor's own environment."""

    steps: int | None = None
    warmup: int | None = None
    after: float | None = None
    """Seconds after which the window opens, for servers and long jobs."""
    then: Then = "continue"
    device: str = "auto"
    stacks: bool = False
    memory: bool = False
    lengths: bool = False
    lines: bool = True
    user_roots: list[str] = field(default_factory=list)
    """Folders whose code counts as the user's; empty: the agent decides (target's folder and ``cwd``)."""

    module_inputs: dict[str, Any] | None = None
    """Of a generated module: what to call it with (:mod:`ridgeline.bench.module_inputs`); ``None``: as its harness does."""

    output: OutputTo = "inherit"
    """Where the program's standard output goes: untouched, to standard error, or into ``output`` events and ``log.txt``
    (then standard error as well, standard input is empty, and ``PYTHONUNBUFFERED`` is set so that lines come at once)."""
    group: int | None = None
    """Process group that the program joins (the command line's own, so that Ctrl-C and Ctrl-Z reach it as they would
    without us); ``None``: a group of its own. Never the supervisor's."""
    keep_on_cancel: bool = True
    """After an interruption: save and analyse what there is (a terminal), or drop it and be quick (an editor's Cancel)."""

    analysis: list[str] = field(default_factory=list)
    """Command that takes the run folder as its last argument and leaves ``profile.json`` in it; empty: no analysis."""
    agent: str | None = None
    """Path of the agent's main file; ``None``: the one beside this package."""

    def label(self) -> str:
        """How a person names the target: ``train.py`` or ``-m package.module``."""
        return f"-m {self.target}" if self.module else self.target

    def target_path(self) -> Path | None:
        """Absolute path of the script, ``None`` for a module."""
        # Path.resolve would raise RuntimeError for a link to itself.
        return None if self.module else Path(os.path.realpath(os.path.join(self.cwd, self.target)))

    def check(self) -> None:
        """Raises :class:`SpecError` for what is plainly wrong before anything has been started."""
        if not Path(self.cwd).is_dir():
            raise SpecError(f"no such folder to run in: {self.cwd}; give one with --cwd")
        if not Path(self.python).is_file():
            raise SpecError(f"no such interpreter: {self.python}; choose one with --python")
        path = self.target_path()
        if path is None:
            if not all(part.isidentifier() for part in self.target.split(".")):
                raise SpecError(f"not a module name: {self.target}; -m takes package.module, as python -m does")
        elif path.is_dir():
            if not (path / "__main__.py").is_file():  # Which Python would run.
                raise SpecError(f"{self.target or path} is a folder; give a script in it, or a package with -m")
        elif not path.exists():
            raise SpecError(f"no such file: {path}; check the path, or use -m for a module")
        elif not path.is_file():
            raise SpecError(f"{path} is not a regular file; give a Python script")
        for name, value, least in (
            ("--steps", self.steps, 1),
            ("--warmup", self.warmup, 0),
            ("--after", self.after, 0),
        ):
            if value is not None and not least <= value < math.inf:  # nan is neither
                raise SpecError(f"{name} must be at least {least}, not {value}")

    def options(self) -> dict[str, Any]:
        """What was asked about the recording, for ``run.json``: no environment values, for they may be secrets."""
        return {
            "steps": self.steps,
            "warmup": self.warmup,
            "after": self.after,
            "then": self.then,
            "device": self.device,
            "stacks": self.stacks,
            "memory": self.memory,
            "lengths": self.lengths,
            "lines": self.lines,
            "env": sorted(self.env),
        }

    def agent_spec(self, run_dir: Path) -> dict[str, Any]:
        """``SPEC.json`` for the agent; its progress comes through ``progress.jsonl`` (no descriptor that children inherit)."""
        return {
            "run_dir": str(run_dir),
            "target": self.target,
            "module": self.module,
            "args": self.args,
            "steps": self.steps,
            "warmup": self.warmup,
            "after": self.after,
            "then": self.then,
            "device": self.device,
            "stacks": self.stacks,
            "memory": self.memory,
            "lengths": self.lengths,
            "lines": self.lines,
            "progress_fd": None,
            "user_roots": self.user_roots or None,
            "module_inputs": self.module_inputs,
        }

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSpec:
        """Reads what :meth:`to_json` wrote; unknown keys are ignored. Raises :class:`SpecError`."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SpecError(f"the run's specification is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise SpecError("the run's specification is not a JSON object")
        known = {f.name for f in fields(cls)}
        try:
            return cls(**{key: value for key, value in data.items() if key in known})
        except TypeError as error:
            raise SpecError(f"the run's specification is incomplete: {error}") from error
