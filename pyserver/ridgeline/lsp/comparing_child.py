"""Compares two profile documents and prints the result as JSON: a child of the server, so that it need not read either."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from ridgeline.compare import compare


def main(before: str, after: str) -> None:
    found = compare(json.loads(Path(before).read_bytes()), json.loads(Path(after).read_bytes()))
    print(json.dumps(asdict(found), allow_nan=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
