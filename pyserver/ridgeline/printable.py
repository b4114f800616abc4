"""Text of a trace, a program or a path as a terminal may have it. Standard library only.

Names in a recording are whatever a program or another person's file put there. Sent as they are, escape sequences move
the cursor, rename the window or hide rows, and bidirectional marks show a line that is not the one recorded.
"""

from __future__ import annotations

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls (C0 and C1), format marks (bidirectional ones among them), lone surrogates, line and paragraph separators."""

_JOINERS = "\u200c\u200d"
"""Format marks that words of several languages and many emoji are written with; they move nothing."""


def printable(text: str, *, keep: str = "") -> str:
    r"""``text`` with every character that would steer the terminal written as its escape; those in ``keep`` stay.

    >>> printable("\x1b[2Jk\u202e")
    '\\x1b[2Jk\\u202e'
    """
    if text.isprintable():
        return text
    kept = keep + _JOINERS
    return "".join(
        c if c.isprintable() or c in kept or unicodedata.category(c) not in _UNSAFE else _escaped(c) for c in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
