"""Real lengths of padded batches (``--lengths``): read from what a DataLoader gives and from what the outermost module takes,
never within the recorded window and never within compiled code.

What is a length is shown by the batch itself: a mask whose rows end once, a vector of lengths behind which the data stand
still, or token ids whose rows end in one value that stands nowhere else. What shows nothing is passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

from .kineto import mute
from .timeline import user_frames

SAMPLES = 200
"""Batches of loaders."""
CALLS = 32
"""Calls of the outermost module. On a device each costs a synchronisation."""
MAX_ITEMS = 1 << 20
MIN_WIDTH = 8
"""Rows of ids shorter than this may end alike by chance."""
DEPTH = 3
"""Of containers within a batch."""
SETTLING = ("off", "deferred", "early", "settle")
"""States of the recorder in which a batch may be read: before the window. What is recorded ``early`` is kept only of a
program that ends before it."""
Sample = tuple[list[int], int]
"""Lengths, and what they are padded to."""


class Lengths:
    """Rows of ``Sidecar.lengths`` and ``Sidecar.padded_to``."""

    def __init__(
        self, wanted: bool, is_user: Callable[[str], bool], state: Callable[[], str], complain: Callable[..., None]
    ) -> None:
        self.wanted = wanted
        self._is_user, self._state, self._complain = is_user, state, complain
        self._loaded: list[Sample] = []
        self._taken: list[Sample] = []
        self._torch: Any = None
        self._handle: Any = None
        self.place: tuple[str, int] | None = None
        """Where the user calls the outermost module."""

    @property
    def samples(self) -> list[Sample]:
        """What the module takes counts, where it is known: it may be padded further than what the loader gives."""
        return self._taken or self._loaded

    def batch(self, batch: Any) -> None:
        """A batch of a loader."""
        if self.wanted and len(self._loaded) < SAMPLES and self._state() in SETTLING:
            self._read(_named(batch, "", DEPTH), self._loaded)

    def on_module(self, module: Any) -> None:
        """``torch.nn.modules.module``"""
        if self.wanted:
            self._torch = sys.modules.get("torch")
            self._handle = module.register_module_forward_pre_hook(self._called)

    def leave(self) -> None:
        """Take the hook out: the window comes, or something is compiled, which must not see it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def _called(self, module: Any, args: tuple[Any, ...]) -> None:
        if self._state() not in SETTLING or len(self._taken) >= CALLS:
            self.leave()
            return
        frame: FrameType | None = sys._getframe(1)
        kwargs = frame.f_locals.get("kwargs") if frame is not None else None
        if _enclosed(frame):
            return
        if self.place is None:
            frames = user_frames(frame, self._is_user)
            self.place = (frames[-1].f_code.co_filename, frames[-1].f_lineno) if frames else None
        given = [*_named(args, "", DEPTH), *_named(kwargs if isinstance(kwargs, dict) else {}, "", DEPTH)]
        self._read(iter(given), self._taken)

    def _read(self, named: Iterator[tuple[str, Any]], into: list[Sample]) -> None:
        torch = self._torch or sys.modules.get("torch")
        if torch is None:
            return
        mute(torch, True)
        try:
            found = sample([(name, value) for name, value in named if _readable(value)])
        except Exception as error:  # noqa: BLE001  a tensor of another kind (vmap, a subclass): the program's own matter
            self._complain("lengths of a batch", error)
            self.wanted = False
            self.leave()
            return
        finally:
            mute(torch, False)
        if found is not None:
            into.append(found)


def _enclosed(frame: FrameType | None) -> bool:
    """Whether the call of a module is within another module's."""
    calls = 0
    while frame is not None:
        calls += frame.f_code.co_name == "_call_impl"
        if calls > 1:
            return True
        frame = frame.f_back
    return False


def _named(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Tensors and lists of numbers with the name they stand under, ``""`` in a tuple."""
    if depth < 0 or value is None or isinstance(value, (str, bytes)):
        return
    if hasattr(value, "shape") or (isinstance(value, list) and value and all(type(item) is int for item in value)):
        yield name, value
    elif hasattr(value, "items") and hasattr(value, "get"):
        for key, item in value.items():
            yield from _named(item, str(key), depth - 1)
    elif hasattr(value, "_asdict"):
        yield from _named(value._asdict(), name, depth)
    elif isinstance(value, (list, tuple)):
        for item in value[:16]:
            yield from _named(item, name, depth - 1)


def _readable(value: Any) -> bool:
    """A plain tensor of moderate size, or a list."""
    if isinstance(value, list):
        return True
    return type(value).__name__ == "Tensor" and value.dim() > 0 and value.shape[0] > 0


def sample(named: list[tuple[str, Any]]) -> Sample | None:
    """Lengths of one batch, from the surest sign that it has; None if it has none."""
    for reader in (_by_mask, _by_lengths, _by_ids):
        found = reader(named)
        if found is not None:
            return found
    return None


def _whole(value: Any) -> bool:
    """Whether it counts something."""
    return not value.is_floating_point() and not value.is_complex()


def _by_mask(named: list[tuple[str, Any]]) -> Sample | None:
    for name, value in named:
        flat = name.lower()
        if isinstance(value, list) or value.dim() != 2 or value.numel() > MAX_ITEMS or value.shape[1] < 2:
            continue
        if "mask" not in flat and str(value.dtype) != "torch.bool":
            continue
        rows = [[bool(item) for item in row] for row in value.tolist()]
        real = _real_of(rows, padding="padding" in flat)
        if real is not None:
            return real, len(rows[0])
    return None


def _real_of(rows: list[list[bool]], *, padding: bool) -> list[int] | None:
    """Real positions of each row of a mask; None if it is no mask of padding. True marks what is real, unless the name or
    the rows say otherwise: no row is all padding."""
    if any(sum(a != b for a, b in pairwise(row)) > 1 for row in rows):
        return None
    padding = padding or (any(not any(row) for row in rows) and all(not row[0] for row in rows))
    real = [row.count(not padding) for row in rows]
    return real if all(real) else None


def _by_lengths(named: list[tuple[str, Any]]) -> Sample | None:
    for name, value in named:
        if not isinstance(value, list) and (value.dim() != 1 or not _whole(value)):
            continue
        lengths = [int(item) for item in (value if isinstance(value, list) else value.tolist())]
        said = "len" in name.lower()
        if not lengths or min(lengths) < 1 or (len(lengths) < 2 and not said):
            continue
        for _, data in named:
            if data is value or isinstance(data, list) or data.dim() < 2 or data.numel() > MAX_ITEMS * 64:
                continue
            if data.shape[0] == len(lengths) and max(lengths) <= data.shape[1]:
                if said or _still_behind(data, lengths):
                    return lengths, int(data.shape[1])
            elif said and data.shape[1] == len(lengths) and max(lengths) <= data.shape[0]:
                return lengths, int(data.shape[0])
    return None


def _still_behind(data: Any, lengths: list[int]) -> bool:
    """Whether every row keeps one value, the same in all, from its length on, and another one right before."""
    plane = data.reshape(data.shape[0], data.shape[1], -1)[:, :, 0]
    if plane.numel() > MAX_ITEMS:
        return False
    rows = plane.tolist()
    tails = [row[n:] for row, n in zip(rows, lengths)]
    values = {item for tail in tails for item in tail}
    return len(values) == 1 and all(row[n - 1] not in values for row, n in zip(rows, lengths) if n < len(row))


def _by_ids(named: list[tuple[str, Any]]) -> Sample | None:
    for _, value in named:
        if isinstance(value, list) or value.dim() != 2 or not _whole(value) or value.numel() > MAX_ITEMS:
            continue
        if value.shape[0] < 2 or value.shape[1] < MIN_WIDTH or str(value.dtype) == "torch.bool":
            continue
        rows = value.tolist()
        ends = [row[-1] for row in rows]
        pad = max(set(ends), key=ends.count)
        real = [_before_tail(row, pad) for row in rows]
        padded = sum(n < len(row) for n, row in zip(real, rows))
        varies = len(set(real)) > 1 and min(real) > 0
        if varies and 2 * padded >= len(rows) and all(pad not in row[:n] for n, row in zip(real, rows)):
            return real, len(rows[0])
    return None


def _before_tail(row: list[int], pad: int) -> int:
    """Length of a row without the run of ``pad`` at its end."""
    count = len(row)
    while count and row[count - 1] == pad:
        count -= 1
    return count
