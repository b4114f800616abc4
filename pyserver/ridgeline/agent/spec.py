"""What the supervisor asks of the agent: ``SPEC.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spec:
    """One request. Times in seconds; ``None`` leaves the choice to the agent."""

    run_dir: str
    target: str
    module: bool = False
    args: list[str] = field(default_factory=list)
    steps: int | None = None
    warmup: int | None = None
    after: float | None = None
    then: str = "continue"
    """continue | stop: what the program does once the window is on disk."""
    device: str = "auto"
    """auto | cpu | cuda"""
    stacks: bool = False
    memory: bool = False
    lengths: bool = False
    lines: bool = True
    progress_fd: int | None = None
    user_roots: list[str] | None = None
    module_inputs: dict[str, Any] | None = None
    """Of a generated module: {inputs, bound, notes, unbacked}, read from its text; None: its own harness."""


def from_dict(raw: dict[str, Any]) -> Spec:
    """Unknown keys are ignored, so that a newer supervisor may add some. Raises ``ValueError`` on a wrong value."""
    known = {name: raw[name] for name in Spec.__dataclass_fields__ if name in raw}
    spec = Spec(**known)
    if spec.then not in ("continue", "stop"):
        raise ValueError(f"then must be continue or stop, not {spec.then!r}")
    if spec.device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, not {spec.device!r}")
    return spec


def read(path: str) -> Spec:
    with open(path, encoding="utf-8") as file:
        return from_dict(json.load(file))
