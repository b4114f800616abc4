"""The copy of a kernel for the wider search: its metadata switched, its caches off. The file itself is never changed.

An environment variable does nothing for a generated file, because the switches are written into its ``inductor_meta``.
"""

from __future__ import annotations

import re

OFF = {"autotune_local_cache": False, "autotune_remote_cache": False, "force_disable_caches": True}
WIDER = {"max_autotune": True, "max_autotune_pointwise": True, "coordinate_descent_tuning": True}


class NoMetadata(ValueError):
    """The text holds no ``inductor_meta`` that could be switched: no kernel of Inductor's own."""


def plain(source: str) -> str:
    """The kernel as compiled, caches off: what A is. Raises :class:`NoMetadata`."""
    return switched(source, OFF)


def wider(source: str) -> str:
    """The kernel with the wider search and coordinate descent, caches off: what B is. Raises :class:`NoMetadata`."""
    return switched(source, {**OFF, **WIDER})


def switched(source: str, values: dict[str, bool]) -> str:
    """``source`` with these entries of ``inductor_meta`` set, added where they are missing."""
    start = source.find("inductor_meta={")
    if start < 0:
        raise NoMetadata("the file has no inductor_meta to switch")
    end = source.find("\n", start)
    row = source[start : end if end >= 0 else len(source)]
    for name, value in values.items():
        row, count = re.subn(rf"'{name}': (?:True|False|None)", f"'{name}': {value}", row)
        if not count:
            row = row.replace("inductor_meta={", f"inductor_meta={{'{name}': {value}, ", 1)
    return source[:start] + row + (source[end:] if end >= 0 else "")
