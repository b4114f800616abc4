"""Calls a function right after a module was imported, whoever imports it. A module imported earlier counts at once."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Hook = Callable[[ModuleType], None]


class PostImport(importlib.abc.MetaPathFinder):
    """A finder that stands first on ``sys.meta_path``, lets the others find, and wraps the loader of known names."""

    def __init__(self, on_error: Callable[[str, BaseException], None]) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        self._busy: set[str] = set()
        self._on_error = on_error

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def when(self, name: str, hook: Hook) -> None:
        """Run ``hook(module)`` once ``name`` is imported; now, if it is already."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            self._call(name, hook, module)
        else:
            self._hooks.setdefault(name, []).append(hook)

    def _call(self, name: str, hook: Hook, module: ModuleType) -> None:
        try:
            hook(module)
        except Exception as error:  # noqa: BLE001 - a hook of ours must never break the user's import
            self._on_error(f"hook on {name}", error)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._hooks or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = self._find(fullname, path, target)
        finally:
            self._busy.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for hook in self._hooks.pop(fullname, []):
                self._call(fullname, hook, module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError as error:
            self._on_error(f"hook on {fullname}", error)
        return spec

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None
