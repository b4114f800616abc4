"""``ridgeline.window()``: a window opened by hand, in a notebook, a server, or a program that runs under the agent.

Needs torch and the standard library only. The result is a run folder that ``ridgeline analyze`` reads::

    with ridgeline.window() as run:
        for batch in batches:
            train_step(batch)
            run.step()          # optional: otherwise optimizer steps, compiled regions or batches delimit the steps
    print(run.path)
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .agent import Agent
from .spec import Spec

_standing: Agent | None = None
_lock = threading.Lock()


class Window:
    """What ``with ridgeline.window() as run`` gives."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.path: str = agent.folder.path
        """The run folder."""

    def step(self) -> None:
        """Say that a step has ended."""
        self._agent.manual_step()

    def __repr__(self) -> str:
        return f"ridgeline.Window({self.path!r})"


@contextmanager
def window(
    run_dir: str | os.PathLike[str] | None = None,
    *,
    lines: bool = True,
    stacks: bool = False,
    memory: bool = False,
) -> Iterator[Window]:
    """Record what runs inside the ``with`` block of this process, all threads, and write a run folder.

    ``run_dir``: the folder to write, by default a new one where ``ridgeline`` keeps its runs. Warm up before: a
    compilation inside is left out of the ops but not out of the time. Raises ``RuntimeError`` when a window is open
    already, ``ImportError`` without torch.
    """
    agent = _agent(run_dir, Spec(run_dir="", target="", lines=lines, stacks=stacks, memory=memory))
    if not _lock.acquire(blocking=False):
        raise RuntimeError("a ridgeline.window() is open already")
    try:
        agent.open_manual()
        try:
            yield Window(agent)
        finally:
            agent.close_manual()
    finally:
        _lock.release()


def _agent(run_dir: str | os.PathLike[str] | None, spec: Spec) -> Agent:
    """The agent that the program runs under, or a standing one that hooks torch without exits and early recording."""
    global _standing
    running: Any = sys.modules.get("_ridgeline_agent.agent")
    current = getattr(running, "CURRENT", None)
    if current is not None and run_dir is None:
        return current  # type: ignore[no-any-return]
    import torch

    target = _target()
    folder = os.path.abspath(os.fspath(run_dir)) if run_dir is not None else _new_folder(target)
    spec = Spec(**{**vars(spec), "run_dir": folder, "target": target})
    if _standing is None:
        _standing = Agent(spec, target, os.path.dirname(target) if os.path.isabs(target) else os.getcwd())
        _standing.arm_standing(torch)
    else:
        _standing.renew(spec)
    _describe(_standing, target)
    return _standing


def _target() -> str:
    """The script of ``__main__``, or ``notebook`` where there is none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) and "ipykernel" not in file else "notebook"


def _new_folder(target: str) -> str:
    root = os.environ.get("RIDGELINE_RUN_DIR")
    if not root:
        state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
        root = os.path.join(state, "ridgeline", "runs")
    stem = os.path.splitext(os.path.basename(target))[0]
    group = f"{stem}-{hashlib.sha256(os.path.realpath(target).encode()).hexdigest()[:10]}"
    now = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + f"-{int(now % 1 * 1e6):06d}"
    return os.path.join(root, group, stamp)


def _describe(agent: Agent, target: str) -> None:
    """A ``run.json`` as the supervisor would have written, so that the run appears among the others."""
    agent.folder.write_json(
        "run.json",
        {
            "schema": 1,
            "kind": "window",
            "target": target,
            "module": False,
            "args": list(sys.argv[1:]),
            "python": sys.executable,
            "cwd": os.getcwd(),
            "created": time.time(),
            "state": "captured",
        },
    )
