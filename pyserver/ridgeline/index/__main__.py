"""``python -m ridgeline.index RUN_FOLDER…``: writes the index of finished runs (the language server's child process)."""

from __future__ import annotations

import sys
from pathlib import Path

from ridgeline.index import build

if __name__ == "__main__":
    for folder in sys.argv[1:]:
        build(Path(folder))
