"""Entry: ``python main.py SPEC.json``. Loads the agent by location and gives the interpreter to the user's program."""

import sys

_LOADED_AT_START = frozenset(sys.modules)


def _load() -> object:
    """Import the package around this file as ``_ridgeline_agent`` without leaving its folder on ``sys.path``."""
    import importlib.util
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or os.curdir) == folder:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(
        "_ridgeline_agent", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the agent from {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["_ridgeline_agent"] = package
    spec.loader.exec_module(package)
    from importlib import import_module

    return import_module("_ridgeline_agent.launch")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python main.py SPEC.json (started by `ridgeline profile`)", file=sys.stderr)
        raise SystemExit(2)
    _load().run(sys.argv[1], _LOADED_AT_START)  # type: ignore[attr-defined]
