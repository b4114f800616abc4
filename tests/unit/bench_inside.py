"""Loads ``ridgeline.bench.inside`` as the user's interpreter does: by its location."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import ridgeline.bench


def load_inside() -> None:
    """``_ridgeline_bench`` in ``sys.modules``, its modules ready to import."""
    folder = Path(ridgeline.bench.__file__).parent / "inside"
    if "_ridgeline_bench" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "_ridgeline_bench", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_ridgeline_bench"] = package
    spec.loader.exec_module(package)
    importlib.import_module("_ridgeline_bench.kernels")
