"""Puts a run that the agent recorded on an H200 (``tests/golden/data/h200_runs``) into a run store, analysed here.

usage: ``recorded_run.py NAME WORKSPACE STORE``. The program's text goes into the workspace; the paths of the recording stay
as they were, on a machine that is not this one. Prints one line of JSON: the run's folder, and of the hottest kernels what
a test needs to look for.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from ridgeline import profile_io
from ridgeline.analysis import analyze_run
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.spec import RunSpec
from ridgeline.runs.store import Store, write_summary

RECORDED = Path(__file__).parents[2] / "golden" / "data" / "h200_runs"


def main(name: str, workspace: Path, store: Path) -> None:
    program = workspace / f"{name}.py"
    spec = RunSpec(target=str(program), python=os.devnull, cwd=str(workspace))
    folder = RunFolder(Store(store).create(spec).path)
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(RECORDED / f"{name}.tar.gz") as tar:
            tar.extractall(temporary, filter="data")
        shutil.copytree(Path(temporary) / name, folder.path, dirs_exist_ok=True)
    document = analyze_run(folder.path)
    (own,) = [file for file in document.files if file.kind == "user"]
    shutil.copyfile(folder.path / str(own.snapshot), program)
    profile_io.write(document, folder.profile)
    write_summary(folder)
    folder.update(state="finished", exit_status=0, created=time.time())
    kernels = [
        {"id": k.id, "name": k.name, "ts_us": k.slice.ts_us if k.slice else None, "line": k.source[0].line if k.source else None}
        for k in document.kernels[:10]
    ]  # fmt: skip
    print(json.dumps({"folder": str(folder.path), "kernels": kernels}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
