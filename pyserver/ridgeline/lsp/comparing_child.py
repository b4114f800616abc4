"""Compares two profile documents and prints the result as JSON: a child of the server, so that it need not read either."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from ridgeline.compare import compare

CHANGED = "--changed"
"""Leaves out rows without a change: views mark what changed, and ten thousand kernels that did not are megabytes."""


def main(before: str, after: str, *options: str) -> None:
    found = asdict(compare(json.loads(Path(before).read_bytes()), json.loads(Path(after).read_bytes())))
    if CHANGED in options:
        for rows in ("kernels", "lines", "categories"):
            found[rows] = [change for change in found[rows] if change["verdict"] != "same"]
    print(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
