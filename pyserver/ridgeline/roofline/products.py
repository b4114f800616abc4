"""``tl.dot``: a product of tiles on the matrix units."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeline.roofline.layout import rank_of
from ridgeline.roofline.symbolic import Value
from ridgeline.roofline.tally import Dot

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker


def dot(walker: Walker, arguments: list[Value]) -> Value:
    if len(arguments) < 2:
        return Value()
    left, right = arguments[0], arguments[1]
    axes = left.axes | right.axes
    tile = walker.tally.tile
    if len(left.axes) == len(right.axes) == 2 and not left.axes & right.axes:
        # sides that are written apart: the depth is a side of both of one size, the last of the first where it can be
        ordered = [sorted(v.axes, key=rank_of) for v in (left, right)]
        pairs = [(a, b) for a in reversed(ordered[0]) for b in ordered[1] if tile.get(a) == tile.get(b)]
        if pairs:
            axes -= {pairs[0][1]}
            left, right = left, replace(right, axes=right.axes - {pairs[0][1]} | {pairs[0][0]})
    size = {"half": 2, "eight": 1, "double": 8}.get(left.kind, 4)
    element = {"half": "bf16", "eight": "fp8", "double": "fp64", "int": "int8"}.get(left.kind, "tf32")
    parts = (left.axes - right.axes, right.axes - left.axes)
    sides = [math.prod(tile.get(a, 1) for a in part) for part in parts]
    depth = math.prod(tile.get(a, 1) for a in left.axes & right.axes)
    dot = Dot(sides[0], sides[1], depth, element, size, math.prod(walker.trips), not is_loaded(left), parts)
    walker.tally.dots.append(dot)
    shared = left.axes & right.axes
    return Value(
        axes - shared if shared and axes - shared else axes,
        "float",
        level=walker.level,
        key=walker.number(("dot", left.key, right.key)),
    )


def is_loaded(value: Value) -> bool:
    """Whether it is what a load gave, unchanged: then the matrix units can read it from shared memory."""
    key = value.key[0] if isinstance(value.key, tuple) and value.key else None
    return isinstance(key, tuple) and key[:1] == ("load",)
