"""``ridgeline profile``: starts a run, follows it, shows its result, and passes the program's exit status through."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.cli_common import (
    FAILED,
    INTERRUPTED,
    CommandError,
    check_format,
    environment,
    interpreter,
    named_sizes,
    say,
)
from ridgeline.cli_progress import ProgressLine
from ridgeline.runs import compile_folders, processes
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.launch import Session
from ridgeline.runs.spec import RunSpec, SpecError
from ridgeline.runs.store import Store, StoreError

_PATIENCE_S = 15.0
"""A program that ends this soon after its result is there gets it shown below its own output, where a person looks."""


@dataclass(slots=True, kw_only=True)
class Request:
    """The options of the command, as typed."""

    target: str
    args: list[str]
    module: bool
    steps: int | None
    warmup: int | None
    after: float | None
    then: str
    device: str
    stacks: bool
    memory: bool
    lengths: bool
    lines: bool
    python: str | None
    cwd: Path | None
    env: list[str]
    run_dir: Path | None
    format: str
    output: Path | None
    quiet: bool
    category: list[str] = field(default_factory=list)
    size: list[str] = field(default_factory=list)

    def spec(self) -> RunSpec:
        """Raises :class:`CommandError` for what cannot be run."""
        if self.then not in ("continue", "stop"):
            raise CommandError(f"--then {self.then}: choose continue or stop")
        if self.device not in ("auto", "cpu", "cuda"):
            raise CommandError(f"--device {self.device}: choose auto, cpu or cuda")
        cwd = os.path.abspath(self.cwd) if self.cwd is not None else os.getcwd()
        target = self.target
        if not self.module and self.cwd is not None and os.path.exists(target):
            target = os.path.abspath(target)  # What was typed is meant from where it was typed.
        spec = RunSpec(
            target=target,
            module=self.module,
            args=self.args,
            python=interpreter(self.python),
            cwd=cwd,
            env=environment(self.env),
            steps=self.steps,
            warmup=self.warmup,
            after=self.after,
            then="stop" if self.then == "stop" else "continue",
            device=self.device,
            stacks=self.stacks,
            memory=self.memory,
            lengths=self.lengths,
            lines=self.lines,
            # With JSON on standard output nothing else may stand there.
            output="stderr" if self.format == "json" and self.output is None else "inherit",
            analysis=[sys.executable, "-m", "ridgeline.analysis"],
        )
        spec.module_inputs = self._module_inputs(spec)
        try:
            spec.check()
        except SpecError as error:
            raise CommandError(str(error)) from error
        return spec

    def _module_inputs(self, spec: RunSpec) -> dict[str, Any] | None:
        """What a generated module is called with; None for a program. Raises :class:`CommandError`."""
        from ridgeline.bench.module_inputs import SizeError, of_file

        sizes = named_sizes(self.size)
        path = spec.target_path()
        if path is None or self.args:
            if sizes:
                raise CommandError("--size is for a generated module by itself: the program has its own sizes")
            return None
        try:
            found = of_file(path, sizes)
        except SizeError as error:
            raise CommandError(str(error)) from error
        if found is not None:
            # A module by itself is compiled anew: not in a folder whose name breaks that. (A program's own is its business.)
            spec.env.update(compile_folders.instead({**os.environ, **spec.env}))
        return found


def run(request: Request) -> int:
    """The exit status. Raises :class:`CommandError`."""
    from ridgeline.cli_analyze import category_rules

    check_format(request.format)
    category_rules(request.category)
    refused = processes.unsupported()
    if refused is not None:
        raise CommandError(refused)
    spec = request.spec()
    if request.output is not None and not request.output.absolute().parent.is_dir():
        raise CommandError(f"--output {request.output}: no such folder; found out before the program runs, not after")
    try:
        folder = Store(request.run_dir.absolute()).create(spec) if request.run_dir else Store().create(spec)
    except StoreError as error:
        raise CommandError(str(error)) from error
    return Follower(request, folder, Session(spec, folder)).follow()


@dataclass
class Follower:
    """Turns the events of a run into what a person sees."""

    request: Request
    folder: RunFolder
    session: Session
    line: ProgressLine = field(init=False)
    shown: bool = False
    ready_at: float | None = None
    """Since when there is a result while the program goes on."""

    def __post_init__(self) -> None:
        self.line = ProgressLine(enabled=not self.request.quiet)

    def follow(self) -> int:
        last: dict[str, Any] = {"event": "lost"}
        with self.line:
            for event in self.session.events():
                last = event
                self.line.show(event)
                if event["event"] == "note":
                    self.line.clear()
                    say(event["message"])
                elif event["event"] == "profile":
                    self.ready_at = time.monotonic() if event["running"] else None
                self._show_early()
        if last["event"] != "finished":
            say(f"the supervisor of the run was killed; what there is lies in {self.folder.path}")
            return FAILED
        return self._end(last)

    def _show_early(self) -> None:
        """Of a long program the result is shown while it goes on, not hours later; of a short one at its end, once."""
        if self.shown or self.ready_at is None or time.monotonic() - self.ready_at < _PATIENCE_S:
            return
        if self.request.format == "json" and self.request.output is None:
            return  # One document, and the program's end still adds to it.
        self._show()
        if not self.request.quiet and sys.stderr.isatty():
            say("the program goes on; Ctrl-C ends it")

    def _show(self) -> None:
        from ridgeline import profile_io
        from ridgeline.cli_analyze import category_rules, show

        try:
            document = profile_io.read(self.folder.profile)
        except profile_io.UnreadableError as error:
            raise CommandError(str(error), FAILED) from error
        show(
            document,
            format=self.request.format,
            output=self.request.output,
            run_dir=self.folder.path,
            rules=category_rules(self.request.category),
        )
        self.shown = True

    def _end(self, event: dict[str, Any]) -> int:
        status, cause = event["exit_status"], event["cause"]
        there = event["profile"] or (self.request.format == "json" and self.folder.profile.is_file())
        if there and (not self.shown or self.request.output is not None):
            self._show()
        if cause is not None:
            say(f"{cause['message']}; {cause['hint']}" if cause.get("hint") else cause["message"])
        if self.session.ended_by is not None:
            return INTERRUPTED if self.session.ended_by == signal.SIGINT else 128 + self.session.ended_by
        if status:
            if cause is None or cause["code"] not in ("script-failed", "killed"):
                say(f"the program ended with status {status}")
            return int(status)
        if cause is not None and cause["code"] in _OURS:
            return FAILED
        if cause is not None and cause["code"] == "start-failed":
            return 2
        return 0


_OURS = frozenset({"agent-failed", "analysis-failed", "disk-full"})
