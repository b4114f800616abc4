"""Runs under the real supervisor with a stand-in agent, as the language server starts them, and what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.runs import launch
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import Store

HERE = Path(__file__).resolve().parent / "unit"
MARK = "RIDGELINE_TEST_MARK"


def marked(mark: str) -> list[int]:
    """Live processes that carry the mark in their environment, wherever in the process tree they are."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in environment and lives(int(entry)):
            found.append(int(entry))
    return found


def lives(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """The condition's first true value, or its last false one after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


@dataclass
class Running:
    """A run that goes on: its supervisor, started as the language server starts it."""

    folder: RunFolder
    mark: str
    process: subprocess.Popen[bytes]
    seen: list[dict[str, Any]] = field(default_factory=list)

    def events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.seen.append(event)
            yield event

    def until(self, name: str, **facts: Any) -> dict[str, Any]:
        """Reads on to an event with these facts."""
        for event in self.events():
            if event["event"] == name and all(event.get(key) == value for key, value in facts.items()):
                return event
        raise AssertionError(f"no {name} {facts} among {self.seen}")

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def output(self, stream: str = "stdout") -> str:
        return "".join(e["text"] for e in self.seen if e["event"] == "output" and e["stream"] == stream)

    def left(self) -> list[int]:
        return marked(self.mark)


@dataclass
class Starter:
    """Starts runs of small programs below ``root``; ends what a failing test leaves."""

    root: Path
    started: list[Running] = field(default_factory=list)

    def spec(self, source: str, **options: Any) -> RunSpec:
        script = self.root / f"{options.pop('name', 'program')}.py"
        script.write_text(textwrap.dedent(source))
        defaults: dict[str, Any] = {
            "agent": str(HERE / "runs_fake_agent.py"),
            "analysis": [sys.executable, str(HERE / "runs_fake_analysis.py")],
            "output": "events",
            "keep_on_cancel": False,
            "then": "stop",
        }
        return RunSpec(target=str(script), python=sys.executable, cwd=str(self.root), **(defaults | options))

    def start(self, source: str | RunSpec, **options: Any) -> Running:
        spec = source if isinstance(source, RunSpec) else self.spec(source, **options)
        mark = uuid.uuid4().hex
        spec.env = {**spec.env, MARK: mark}
        folder = Store(self.root / "runs").create(spec)
        process = subprocess.Popen(
            launch.supervisor_command(launch.write_spec(spec, folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        running = Running(folder, mark, process)
        self.started.append(running)
        return running

    def finish(self, source: str | RunSpec, **options: Any) -> tuple[Running, dict[str, Any]]:
        running = self.start(source, **options)
        last = running.until("finished")
        running.process.wait(10)
        return running, last

    def close(self) -> None:
        for running in self.started:
            for pid in running.left():
                os.kill(pid, 9)
            running.process.kill()
            running.process.wait()
            for pipe in (running.process.stdin, running.process.stdout):
                if pipe is not None:
                    pipe.close()
