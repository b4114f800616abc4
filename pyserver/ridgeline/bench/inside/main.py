"""Entry: ``python main.py REQUEST.json RESULT.json``. Loads this package by location, as the agent does."""

import sys


def _load() -> object:
    """Import the package around this file as ``_ridgeline_bench`` without leaving its folder on ``sys.path``."""
    import importlib.util
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or os.curdir) == folder:
        sys.path[0] = os.getcwd()  # As ``python -c`` does: an op that the program registers is found.
    spec = importlib.util.spec_from_file_location(
        "_ridgeline_bench", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the benchmark from {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["_ridgeline_bench"] = package
    spec.loader.exec_module(package)
    from importlib import import_module

    return import_module("_ridgeline_bench.session")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: python main.py REQUEST.json RESULT.json (started by `ridgeline bench`)", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(_load().run(sys.argv[1], sys.argv[2]))  # type: ignore[attr-defined]
