"""How a batch of images (or volumes) lies in memory, by its sizes and strides: in which order its dimensions follow one another, whether
it is packed, and what torch takes it for, which is not always the same."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

RANKS = (4, 5)
"""Dimensions of what ``torch.channels_last`` and ``torch.channels_last_3d`` are for. Sequences (three) have neither."""

Order = Literal["first", "last", "either", "other"]


class Layout(NamedTuple):
    sizes: tuple[int, ...]
    order: Order
    """Where the channels are; ``either`` where there is one channel or one pixel, ``other`` where it is neither (transposed, expanded)."""
    packed: bool
    """Nothing lies between its elements: no part of a larger tensor."""
    for_last: bool
    """torch takes it for channels-last, and chooses a convolution's layout by that."""
    parent_channels: int | None = None
    """Of the tensor that this is a part of, if it is one along its channels."""

    @property
    def words(self) -> str:
        first = "NCHW" if len(self.sizes) == 4 else "NCDHW"
        return {"first": first, "last": "channels-last"}.get(self.order, "another layout")


def layout(sizes: list[int], strides: list[int]) -> Layout | None:
    """None where this is no batch of images, or empty, or sizes and strides do not go together (a trace may hold anything)."""
    rank = len(sizes)
    if rank not in RANKS or len(strides) != rank or min(sizes) < 1 or min(strides) < 0:
        return None
    first, last = tuple(range(rank)), (0, *range(2, rank), 1)
    ordered = {order: _follow(sizes, strides, dims) for order, dims in (("first", first), ("last", last))}
    packed = {
        order: ordered[order] and _is_packed(sizes, strides, dims) for order, dims in (("first", first), ("last", last))
    }
    plain = sizes[1] == 1 or math.prod(sizes[2:]) == 1
    order: Order = "other"
    if plain and (ordered["first"] or ordered["last"]):
        order = "either"
    elif ordered["first"]:
        order = "first"
    elif ordered["last"]:
        order = "last"
    whole = any(packed.values())
    parent = strides[-1] if order == "last" and not whole and strides[1] == 1 and sizes[-1] > 1 else None
    return Layout(tuple(sizes), order, whole, takes_for_last(sizes, strides), parent)


def takes_for_last(sizes: list[int], strides: list[int]) -> bool:
    """What ``is_channels_last_strides_2d`` and ``_3d`` of torch (c10/core/MemoryFormat.h) say. They ask dimensions of one element as well: a
    batch of one that got its dimension after the channels went last is none to them, nor is what has one channel and pixel."""
    if strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * max(1, sizes[dim])
    return True


def _follow(sizes: list[int], strides: list[int], dims: tuple[int, ...]) -> bool:
    """Whether each of these dimensions, if it has more than one element, steps over all of the next ones."""
    least = 1
    for dim in reversed(dims):
        if sizes[dim] > 1:
            if strides[dim] < least:
                return False
            least = strides[dim] * sizes[dim]
    return True


def _is_packed(sizes: list[int], strides: list[int], dims: tuple[int, ...]) -> bool:
    exact = 1
    for dim in reversed(dims):
        if sizes[dim] > 1 and strides[dim] != exact:
            return False
        exact *= sizes[dim]
    return True
