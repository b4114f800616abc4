"""Folders in which Inductor's C++ compilation does not survive: it splits its command line at spaces, loses backslashes."""

from __future__ import annotations

import getpass
from collections.abc import Mapping

CACHE, TEMPORARY = "TORCHINDUCTOR_CACHE_DIR", "TMPDIR"
PLAIN = "/tmp"


def harmless(path: str) -> bool:
    """Whether the compilation works below this folder."""
    return not any(character in path for character in " \t\\\"'")


def instead(env: Mapping[str, str]) -> dict[str, str]:
    """Other values for those variables of ``env`` that name a folder in which it fails. (Its default lies below ``TMPDIR``.)"""
    changed = {}
    if not harmless(env.get(TEMPORARY, "")):
        changed[TEMPORARY] = PLAIN
    if not harmless(env.get(CACHE, "")):
        changed[CACHE] = f"{PLAIN}/torchinductor_{getpass.getuser()}"
    return changed
