"""The overview's data from profile documents: a child of the server, so that it need not read them.

usage: ``python -m ridgeline.lsp.overview_child PROFILE [BEFORE]``. Prints one line of JSON for the page, and one that says
where on this machine the places of the page are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ridgeline.report.decode import document
from ridgeline.report.page import embedded
from ridgeline.report.page_data import page_and_links


def main(profile: str, before: str | None = None) -> int:
    try:
        decoded = json.loads(Path(profile).read_bytes())
        shown = document(decoded)
    except (OSError, ValueError) as error:
        print(f"{profile} cannot be shown: {error}")
        return 1
    earlier = _earlier(Path(before)) if before is not None else None
    data, links = page_and_links(shown, before=earlier, after=decoded if earlier is not None else None)
    # UTF-8, whatever the locale of this process.
    sys.stdout.buffer.write(embedded(data).encode() + b"\n" + json.dumps(links).encode() + b"\n")
    return 0


def _earlier(profile: Path) -> Any:
    """An earlier run that cannot be read is no reason not to show this one."""
    try:
        decoded = json.loads(profile.read_bytes())
        document(decoded)
    except (OSError, ValueError) as error:
        print(f"{profile} is not compared with: {error}", file=sys.stderr)
        return None
    return decoded


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
