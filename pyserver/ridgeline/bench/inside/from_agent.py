"""Modules of the agent that a benchmark uses as well, loaded by location: no package of Ridgeline's is on the user's path."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

_AGENT = os.path.normpath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "agent"))


def load(name: str) -> Any:
    """The agent's module ``name``, one that imports the standard library alone."""
    spec = importlib.util.spec_from_file_location(f"_ridgeline_{name}", os.path.join(_AGENT, f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
