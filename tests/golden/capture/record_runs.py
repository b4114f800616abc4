"""Record programs under the agent on a machine with a CUDA device, as ``ridgeline profile`` starts it.

    python tests/golden/capture/record_runs.py OUT PROGRAM.py…

Needs torch and the standard library alone. Leaves ``OUT/NAME.tar.gz`` (the run folder) a program and ``OUT/log.jsonl``.
A name may be followed by options of the agent: ``train.py:stacks,memory``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

AGENT = Path(__file__).resolve().parents[3] / "pyserver" / "ridgeline" / "agent" / "main.py"
TIMEOUT_S = 120


def record(program: Path, options: list[str], out: Path, work: Path) -> dict[str, object]:
    folder = work / program.stem
    folder.mkdir()
    spec = folder / "spec.json"
    spec.write_text(
        json.dumps({"run_dir": str(folder), "target": str(program), "then": "stop", **dict.fromkeys(options, True)})
    )
    started = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        try:
            code: int | None = subprocess.run(
                [sys.executable, str(AGENT), str(spec)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=program.parent,
                env={"INDUCTOR_PROVENANCE": "1", **os.environ},
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    with tarfile.open(out / f"{program.stem}.tar.gz", "w:gz") as tar:
        tar.add(folder, arcname=program.stem)
    tail = (folder / "log.txt").read_text(errors="replace").strip().splitlines()[-3:]
    return {"program": program.name, "exit": code, "seconds": round(time.monotonic() - started, 1), "tail": tail}


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, (out / "log.jsonl").open("a") as log:
        for name in sys.argv[2:]:
            path, _, options = name.partition(":")
            result = record(Path(path).resolve(), [o for o in options.split(",") if o], out, Path(work))
            print(json.dumps(result), flush=True)
            print(json.dumps(result), file=log, flush=True)


if __name__ == "__main__":
    main()
