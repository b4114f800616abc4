"""Whose code a file is: the user's, or a library's."""

from __future__ import annotations

import os
import site
import sys
import sysconfig

_HERE = os.path.dirname(os.path.abspath(__file__))


def library_roots() -> list[str]:
    """Folders of the interpreter and of installed packages, each with a trailing separator."""
    found: set[str] = set()
    for key in ("stdlib", "platstdlib", "purelib", "platlib"):
        path = sysconfig.get_paths().get(key)
        if path:
            found.add(path)
    for getter in (getattr(site, "getsitepackages", None), getattr(site, "getusersitepackages", None)):
        value = getter() if getter is not None else []
        found.update([value] if isinstance(value, str) else value)
    resolved = found | {os.path.realpath(path) for path in found}
    return sorted(path.rstrip(os.sep) + os.sep for path in resolved if path)


class UserFiles:
    """Tells the user's files from the rest. ``add_generated`` takes folders that torch generates code into."""

    def __init__(self, roots: list[str] | None, start: list[str]) -> None:
        self.roots = list(dict.fromkeys(os.path.abspath(root) for root in (roots if roots is not None else start)))
        self._given = roots is not None
        self._library = tuple(library_roots())
        self._generated: tuple[str, ...] = (_HERE + os.sep,)
        self._known: dict[str, bool] = {}

    def add_generated(self, folder: str) -> None:
        prefix = os.path.abspath(folder) + os.sep
        if prefix not in self._generated:
            self._generated += (prefix,)
            self._known.clear()

    def add_import_roots(self) -> None:
        """Entries of ``sys.path`` that are no library (``PYTHONPATH``, editable installs) count as the user's too."""
        if self._given:
            return
        for entry in sys.path:
            path = os.path.abspath(entry or os.curdir)
            if os.path.isdir(path) and not (path + os.sep).startswith(self._library) and path not in self.roots:
                self.roots.append(path)
                self._known.clear()

    def __call__(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._judge(file)
        return known

    def _judge(self, file: str) -> bool:
        if "ipykernel_" in file or file.startswith("<ipython-input"):
            return True
        if file.startswith("<"):
            return False
        path = os.path.abspath(file)
        if path.startswith(self._generated) or path.startswith(self._library):
            return False
        if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
            return False
        return any(path.startswith(root.rstrip(os.sep) + os.sep) for root in self.roots)


def is_ours(file: str) -> bool:
    """Whether a code object's file belongs to the agent."""
    return os.path.abspath(file).startswith(_HERE + os.sep)
