"""Paths as short as they can be without doubt."""

from __future__ import annotations

import os
from pathlib import PurePath

from ridgeline.profile import ProfileDocument


class Shortener:
    """Shows files below the current folder relative to it, generated and library files by their last parts."""

    def __init__(self, document: ProfileDocument) -> None:
        self._kind = {file.path: file.kind for file in document.files}
        try:
            self._here = os.getcwd() + os.sep
        except OSError:
            self._here = ""  # The current folder was deleted: nothing lies below it.

    def __call__(self, path: str) -> str:
        if self._here and path.startswith(self._here):
            return path[len(self._here) :]
        parts = PurePath(path).parts
        if self._kind.get(path) == "library" and "site-packages" in parts:
            return "/".join(parts[parts.index("site-packages") + 1 :])
        if self._kind.get(path) == "generated":
            return "/".join(parts[-2:])
        home = os.path.expanduser("~") + os.sep
        return "~/" + path[len(home) :] if path.startswith(home) and len(home) > 2 else path
