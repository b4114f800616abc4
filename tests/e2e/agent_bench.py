"""Runs a program under the agent alone, without supervisor and analysis, and reads what it left."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAIN = Path(__file__).resolve().parents[2] / "pyserver" / "ridgeline" / "agent" / "main.py"


@dataclass
class AgentRun:
    folder: Path
    process: subprocess.CompletedProcess[str]

    def sidecar(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.folder / "sidecar.json").read_text(encoding="utf-8"))
        return data

    def events(self, index: int = 0) -> list[dict[str, Any]]:
        with gzip.open(self.folder / self.sidecar()["windows"][index]["trace"], "rt", encoding="utf-8") as file:
            events: list[dict[str, Any]] = json.load(file)["traceEvents"]
        return events

    def phases(self) -> list[str]:
        return [json.loads(line)["phase"] for line in (self.folder / "progress.jsonl").read_text().splitlines()]

    def text_of(self, path: str) -> str:
        """A file as it was when the program ran, from the snapshot."""
        row = next(row for row in self.sidecar()["files"] if row["path"] == path)
        return (self.folder / row["snapshot"]).read_text(encoding="utf-8")


@dataclass
class Runner:
    """``folder`` is the programs' working folder; every run gets a folder of its own below it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    runs: int = 0
    main: Path = MAIN
    """The agent, or a script that starts it differently."""

    def program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def env(self) -> dict[str, str]:
        return {**os.environ, "OMP_NUM_THREADS": "1", "INDUCTOR_PROVENANCE": "1", **self.environment}

    def plain(self, target: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, str(target), *args])

    def agent(self, target: Path, *args: str, **options: Any) -> AgentRun:
        self.runs += 1
        folder = self.folder / f"run{self.runs}"
        folder.mkdir()
        spec = {"run_dir": str(folder), "target": str(target), "args": list(args), **options}
        (folder / "spec.json").write_text(json.dumps(spec))
        return AgentRun(folder, self._run([sys.executable, str(self.main), str(folder / "spec.json")]))

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.env(), capture_output=True, text=True, timeout=900, check=False
        )
