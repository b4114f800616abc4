"""``# ridgeline: ignore[code]`` at the end of a line: its findings of that code are not wanted. Standard library only.

``# ridgeline: ignore`` without a code means all of them; several codes stand between commas.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"#\s*ridgeline:\s*ignore(?:\[([\w\s,-]*)\])?")


def ignored(text: str, code: str) -> bool:
    """Whether the line's text says so."""
    mark = _MARK.search(text)
    if mark is None:
        return False
    codes = mark.group(1)
    return codes is None or code in (part.strip() for part in codes.split(","))
