"""Draw the terminal view of a capture or a run for the README.

usage: python scripts/picture.py CAPTURE_FOLDER OUT.svg
       python scripts/picture.py RUN_FOLDER OUT.svg PROJECT     (places are shown relative to PROJECT)
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from ridgeline.analysis import analyze_paths
from ridgeline.profile import ProfileDocument
from ridgeline.report.text import render

RECORDED_IN = "/home/user/project"
"""Where the corpus was recorded."""


def main() -> None:
    capture, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if len(sys.argv) > 3:
        os.chdir(sys.argv[3])
        document = analyze_paths([capture])
        draw(document, out, f"ridgeline profile {os.path.relpath(document.source.path)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        for file in capture.iterdir():
            shutil.copy(file, folder)
        os.chdir(folder)
        document = analyze_paths(
            [Path("trace.json.gz")],
            generated=Path("generated.tar.gz"),
            provenance=Path("torch_trace.log.gz"),
            source_roots=[(RECORDED_IN, folder)],
        )
        draw(document, out, f"ridgeline analyze {capture.name}")


def draw(document: ProfileDocument, out: Path, title: str) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=132, force_terminal=True, file=nowhere)
        render(document, console)
    console.save_svg(str(out), title=title)


if __name__ == "__main__":
    main()
