"""The command line. ``ridgeline lsp`` starts in a few milliseconds: nothing heavy is imported before it is known to be needed."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the ``ridgeline`` script. Exits with the status that CONTRACT gives."""
    _leave_out_the_current_folder()
    if sys.argv[1:2] == ["lsp"]:
        from ridgeline.lsp.main import main as serve

        sys.argv[0:2] = ["ridgeline lsp"]
        sys.exit(serve())
    from ridgeline.cli_app import run

    sys.exit(run())


def _leave_out_the_current_folder() -> None:
    """``python -m`` looks for modules there first: a program's ``random.py`` would be imported in place of Python's."""
    try:
        here = os.getcwd()
    except OSError:
        return  # It was deleted, and holds no modules.
    if sys.path[:1] == [here] and not os.path.isdir(os.path.join(here, "ridgeline")):
        del sys.path[0]


if __name__ == "__main__":
    main()
