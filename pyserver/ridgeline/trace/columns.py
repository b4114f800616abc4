"""Growing columns, interned texts, and integers that are not."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ridgeline.trace.repair import path_again
from ridgeline.trace.schema import integer
from ridgeline.trace.tables import I32, I64

LONGEST_TEXT = 1 << 16
"""Characters of a name; mangled templates have some thousands. Every pattern that names are held against costs their length."""
_WRAP = 1 << 64
_HALF = 1 << 63


class Interner(dict[str | None, int]):
    """Text -> id, in order of first sight. ``texts`` holds the distinct texts; a missing name is the empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.paths_mended = 0

    def __missing__(self, key: str | None) -> int:
        text = path_again(key or "")
        if len(text) > LONGEST_TEXT:
            key = text = f"{text[:LONGEST_TEXT]}… ({len(text)} characters)"
            if text in self:
                return self[text]
        if text != (key or ""):
            self.paths_mended += 1
        if text == key or text not in self:
            number = len(self.texts)
            self.texts.append(text)
            super().__setitem__(text, number)
        else:
            number = super().__getitem__(text)
        super().__setitem__(key, number)
        return number

    def ids(self, texts: Iterable[str | None]) -> I32:
        return np.fromiter(map(self.__getitem__, texts), dtype=np.int32)


class Identities:
    """Process and thread ids as int64: numbers as they are (``"stream 7"`` is 7), other texts from -2 downwards."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}

    def column(self, values: Sequence[Any]) -> I64:
        try:
            return np.array(array("q", cast("list[int]", values)), dtype=np.int64)
        except (TypeError, OverflowError):
            return np.fromiter((self.one(value) for value in values), dtype=np.int64, count=len(values))

    def one(self, value: Any) -> int:
        number = integer(value)
        if number is not None:
            return wrapped(number)
        if isinstance(value, str):
            return self._named.setdefault(value, -2 - len(self._named))
        return -1


def wrapped(number: int) -> int:
    """``number`` in the range of int64: identifiers are unsigned 64 bit in places."""
    if -_HALF <= number < _HALF:
        return number
    number %= _WRAP
    return number - _WRAP if number >= _HALF else number


def integers(values: Sequence[int | None], missing: int = -1) -> I64:
    """Integers as a column; None becomes ``missing``."""
    try:
        return np.array(array("q", cast("list[int]", values)), dtype=np.int64)
    except (TypeError, OverflowError):
        return np.fromiter(
            (missing if value is None else wrapped(value) for value in values), dtype=np.int64, count=len(values)
        )


def floats(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    """Floats as a column; None becomes NaN."""
    return np.fromiter((np.nan if value is None else value for value in values), dtype=np.float64, count=len(values))


class Columns:
    """One table while it grows: arrays are added chunk by chunk and joined once."""

    def __init__(self, **dtypes: Any) -> None:
        self._dtypes = dtypes
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in dtypes}
        self.rows = 0

    def add(self, **arrays: npt.NDArray[Any]) -> None:
        for name, dtype in self._dtypes.items():
            self._parts[name].append(arrays[name].astype(dtype, copy=False))
        self.rows += len(next(iter(arrays.values())))

    def joined(self) -> dict[str, npt.NDArray[Any]]:
        out = {}
        for name, dtype in self._dtypes.items():
            parts = self._parts.pop(name)
            out[name] = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
        return out
