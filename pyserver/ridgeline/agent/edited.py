"""Whether a source file still holds the code that runs: people edit while a program trains."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import CodeType
from typing import Any

LARGEST = 4 << 20


def edited(path: str, ran: Iterable[CodeType], since_ns: int) -> bool:
    """Whether ``path`` was written after ``since_ns`` (unix) and no longer compiles to the code objects that ran.

    False as well where the file cannot be read: what is not there shows no wrong text.
    """
    try:
        status = os.stat(path)
        if status.st_mtime_ns <= since_ns or status.st_size > LARGEST:
            return False
        with open(path, "rb") as file:
            source = file.read()
    except (OSError, ValueError):
        return False
    try:
        found = set(_all(compile(source, path, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # It ran once, so it was another text.
    return not all(_key(code) in found for code in ran)


def _all(code: CodeType) -> Iterable[Any]:
    yield _key(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all(constant)


def _key(code: CodeType) -> tuple[Any, ...]:
    lines = tuple(code.co_lines()) if hasattr(code, "co_lines") else (code.co_firstlineno,)
    return code.co_name, code.co_firstlineno, code.co_code, lines
