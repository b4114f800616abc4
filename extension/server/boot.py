"""Starts the language server from inside the extension.

Run with ``-I -S``: neither the user's site-packages nor PYTHONPATH nor the working folder are on ``sys.path``, so no
package of theirs can stand in for one of ours. The bundled libraries come first and are the only ones.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent / "libs"))
    runpy.run_module("ridgeline.lsp", run_name="__main__", alter_sys=True)
