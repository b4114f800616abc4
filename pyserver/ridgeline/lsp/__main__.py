"""``python -m ridgeline.lsp``."""

import sys

from ridgeline.lsp.main import main

if __name__ == "__main__":
    sys.exit(main())
