"""Copies of a kernel for the searches: the metadata switched, the caches off. The file itself is never changed.

An environment variable does nothing for a generated file, because the switches are written into its ``inductor_meta``.
"""

from __future__ import annotations

import re

OFF = {"autotune_local_cache": False, "autotune_remote_cache": False, "force_disable_caches": True}
NARROW = {"coordinate_descent_tuning": True}
"""What ``options={"coordinate_descent_tuning": True}`` writes: the search begins at the configuration as compiled."""
WIDER = {"max_autotune": True, "max_autotune_pointwise": True, "coordinate_descent_tuning": True}
"""Begins at the best of several configurations; for a generated kernel the first two switches mean the same."""


class NoMetadata(ValueError):
    """The text holds no ``inductor_meta`` that could be switched: no kernel of Inductor's own."""


def copies(source: str, symbol: str) -> dict[str, str]:
    """The texts to compare: ``plain`` as compiled, ``narrow``, ``wider``. Raises :class:`NoMetadata`."""
    return {
        "plain": plain(source),
        "narrow": marked(switched(source, {**OFF, **NARROW}), symbol, "narrow search"),
        "wider": marked(wider(source), symbol, "wider search"),
    }


def plain(source: str) -> str:
    """The kernel as compiled, caches off: what A is. Raises :class:`NoMetadata`."""
    return switched(source, OFF)


def wider(source: str) -> str:
    """The kernel with the wider search and coordinate descent, caches off. Raises :class:`NoMetadata`."""
    return switched(source, {**OFF, **WIDER})


def marked(source: str, symbol: str, mark: str) -> str:
    """``source`` with a comment in the kernel's body, which is part of Triton's cache key.

    Each copy then compiles its configurations itself, so that what one search costs is not paid by the one before it.
    """
    return re.sub(rf"(?m)^(def {re.escape(symbol)}\([^\n]*\):\n)", rf"\1    # {mark}\n", source, count=1)


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
