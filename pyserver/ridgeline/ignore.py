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


def unmarked(text: str) -> str:
    """The line's text without the comment: a line that got one since it was measured is still the line that was measured."""
    return _MARK.sub("", text).rstrip() if is_marked(text) else text


def is_marked(text: str) -> bool:
    """Whether there is such a comment, for any code."""
    return "ridgeline" in text and _MARK.search(text) is not None


def with_ignored(text: str, code: str) -> str:
    """The line's text with the comment for ``code``: a code more in one that is there, else at the end of the line."""
    mark = _MARK.search(text)
    if mark is None:
        return f"{text.rstrip()}  # ridgeline: ignore[{code}]"
    if ignored(text, code):
        return text
    codes = [part.strip() for part in (mark.group(1) or "").split(",") if part.strip()]
    return f"{text[: mark.start()]}# ridgeline: ignore[{', '.join([*codes, code])}]{text[mark.end() :]}"
