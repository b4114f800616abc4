"""Ridgeline: kernel timings on your source lines.

``ridgeline.window()`` records a stretch of a notebook or a server; ``ridgeline.Profile`` gives its tables. Both load
lazily: importing this package costs nothing, since the language server and the agent do it too.
"""

from typing import Any

__version__ = "0.1.0"

__all__ = ["Profile", "__version__", "window"]


def __getattr__(name: str) -> Any:
    if name == "Profile":
        from ridgeline.notebook import Profile

        return Profile
    if name == "window":
        from ridgeline.agent.window import window

        return window
    raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
