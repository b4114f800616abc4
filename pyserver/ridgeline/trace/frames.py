"""Python frames of a trace: what their names say, and which of them never closed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.trace.tables import U8

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SAME_INSTANT = 0.002
"""Microseconds: ends that were rounded apart."""


def parse_frame(name: str) -> tuple[str, int, str] | None:
    """(file, line, function) of ``"file(line): function"``; None where there is no place in a file to go to.

    The line is the function's first. Backslashes become slashes. Built-ins, ``nn.Module: X``, ``<string>`` and line 0
    have no place. A notebook cell's file is given as it stands (``/tmp/ipykernel_12/3481.py``).
    """
    match = _FRAME.fullmatch(name)
    if match is None:
        return None
    file, line = match["file"], int(match["line"][:18])
    if line == 0 or file.startswith("<") or file.startswith(("nn.Module:", "torch::")):
        return None
    return file.replace("\\", "/"), line, match["function"]


def is_notebook_cell(file: str) -> bool:
    """Whether ``file`` is a Jupyter cell, which only the notebook that ran it can show."""
    return re.search(r"(?:^|/)ipykernel_\d+/\d+\.py$|^<ipython-input-", file.replace("\\", "/")) is not None


def without_address(name: str) -> str:
    """``name`` less the object's address, so that runs compare."""
    return _ADDRESS.sub("", name)


def unclosed(table: dict[str, npt.NDArray[Any]], strings: list[str]) -> U8:
    """1 for frames that the tracer lost sight of: they last until recording stops though their caller went on.

    Frames on the stack at the stop end at that instant too, rightly: of those with one caller only the last can be
    open. Where the callers are not recorded, only built-ins are judged, by thread.
    """
    n = len(table["start"])
    out = np.zeros(n, dtype=np.uint8)
    if n < 2:
        return out
    end = table["start"] + table["dur"]
    at_stop = np.flatnonzero(end >= end.max() - _SAME_INSTANT)
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for row in at_stop.tolist():
        parent = int(table["python_parent"][row])
        name = -1
        if parent < 0:
            name = int(table["name"][row])
            if not strings[name].startswith("<built-in"):
                continue
        key = (int(table["pid"][row]), int(table["tid"][row]), parent, name)
        groups.setdefault(key, []).append(row)
    for rows in groups.values():
        if len(rows) > 1:
            # The last of siblings may still be running at the stop, but not where it has the name of the lost ones.
            lost = rows[:-1]
            if table["name"][rows[-1]] in table["name"][lost]:
                lost = rows
            out[lost] = 1
    return out
