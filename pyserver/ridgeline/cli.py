"""The command line. ``ridgeline lsp`` starts in a few milliseconds: nothing heavy is imported before it is known to be needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the ``ridgeline`` script. Exits with the status that CONTRACT gives."""
    if sys.argv[1:2] == ["lsp"]:
        from ridgeline.lsp.main import main as serve

        sys.argv[0:2] = ["ridgeline lsp"]
        sys.exit(serve())
    from ridgeline.cli_app import run

    sys.exit(run())


if __name__ == "__main__":
    main()
