"""Block pointers (``tl.make_block_ptr``, ``tl.advance``) and tensor descriptors (``tl.make_tensor_descriptor``, ``.load``):
addresses that a kernel gives as a tensor's shape and strides and a tile's place in it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ridgeline.roofline.indices import FAR
from ridgeline.roofline.symbolic import LARGEST, Atom, Bound, Descriptor, Value, count_of, form

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

ARGUMENTS = ("base", "shape", "strides", "offsets", "block_shape")
"""Of ``make_block_ptr`` in order; a descriptor has the same without offsets."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tile of a tensor in memory."""

    base: Value
    axes: tuple[str, ...]
    tile: tuple[int, ...]
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]


def made(walker: Walker, node: ast.Call, descriptor: bool) -> Value:
    """The value of ``make_block_ptr`` or ``make_tensor_descriptor``: a pointer to the whole tile."""
    names = [n for n in ARGUMENTS if not (descriptor and n == "offsets")]
    given = {**dict(zip(names, node.args)), **{k.arg: k.value for k in node.keywords if k.arg}}
    values = {k: walker.value(v) for k, v in given.items()}
    base = values.get("base") or Value()
    sizes = _numbers(values.get("block_shape"))
    if base.pointer is None or not sizes or any(n is None for n in sizes):
        return base
    listed = given["block_shape"]
    texts = [ast.unparse(e) for e in listed.elts] if isinstance(listed, (ast.Tuple, ast.List)) else []
    axes = axes_of(walker, texts if len(texts) == len(sizes) else [""] * len(sizes), node)
    shape, strides = _numbers(values.get("shape")), _numbers(values.get("strides"))
    return described(walker, base, axes, sizes, shape, strides, (values.get("offsets") or Value()).items or ())


def axes_of(walker: Walker, texts: Sequence[str], node: ast.Call) -> tuple[str, ...]:
    """Names of a tile's sides. One whose size is written as that of the kernel's only ``tl.arange`` of this size is the same
    axis, for what is masked or scaled by it; tiles whose sizes are written alike share axes too."""
    ranges: dict[str, list[ast.Call]] = {}
    for call in ast.walk(walker.source.function):
        if isinstance(call, ast.Call) and call.args and ast.unparse(call.func).endswith("arange"):
            ranges.setdefault(ast.unparse(call.args[-1]), []).append(call)
    axes: list[str] = []
    for d, text in enumerate(texts):
        same = ranges.get(text, [])
        axis = f"{text}@{same[0].lineno}:{same[0].col_offset}" if len(same) == 1 else f"{text}@0:0" if text else ""
        if not axis or axis in axes:
            axis = f"{text}@{node.lineno}:{node.col_offset * 10 + d}"
        axes.append(axis)
    return tuple(axes)


def of_host(walker: Walker, base: Value, given: Descriptor) -> Value:
    """The value of an argument that is a descriptor."""
    axes = tuple(f"{base.pointer}@0:{d}" for d in range(len(given.tile)))
    return described(walker, base, axes, given.tile, given.sides, given.strides)


def described(
    walker: Walker,
    base: Value,
    axes: tuple[str, ...],
    sizes: Sequence[int | None],
    shape: Sequence[int | None],
    strides: Sequence[int | None],
    offsets: Sequence[Value] = (),
) -> Value:
    for axis, size in zip(axes, sizes):
        walker.tally.tile.setdefault(axis, size or 1)
    rank = len(sizes)
    block = Block(
        base, axes, tuple(n or 1 for n in sizes), (*shape, *[None] * rank)[:rank], (*strides, *[None] * rank)[:rank]
    )
    return placed(walker, block, offsets)


def _numbers(value: Value | None) -> list[int | None]:
    return [v.const if isinstance(v.const, int) else None for v in (value.items or ())] if value is not None else []


def placed(walker: Walker, block: Block, offsets: Sequence[Value]) -> Value:
    """A pointer to the tile at ``offsets``, with the tensor's sides as its bounds."""
    terms: dict[Atom, int] = dict(block.base.terms or {})
    offset = block.base.offset
    bounds: list[Bound] = []
    known = block.base.terms is not None
    level = block.base.level
    for d, axis in enumerate(block.axes):
        at = offsets[d] if d < len(offsets) else Value(const=0, terms={})
        level = max(level, at.level)
        place = form(at)
        own = Atom(axis, block.tile[d], frozenset((axis,)), {axis: 1})
        index: dict[Atom, int] = {**(place[0] if place is not None else {}), own: 1}
        start = place[1] if place is not None else 0
        known = known and place is not None
        side, stride = block.shape[d], block.strides[d]
        if side is not None and place is not None:
            ordered = tuple(sorted(index.items(), key=lambda t: t[0].name))
            bounds.append(Bound(ordered, 0, min(LARGEST, side - start)))
        if stride is None:
            walker.fresh += 1
            index = {Atom(f"*{walker.fresh}", count_of(index), frozenset((axis,)), {axis: FAR}): 1}
            start, stride = 0, 1
        for atom, coefficient in index.items():
            terms[atom] = terms.get(atom, 0) + coefficient * stride
        offset += start * stride
    base = block.base
    key = walker.number(("block", base.key, block.axes, tuple((a.name, c) for a, c in terms.items()), offset))
    return Value(
        frozenset(block.axes), "pointer", terms if known else None, offset, pointer=base.pointer, element=base.element,
        bounds=tuple(bounds), level=level, key=key, block=block,
    )  # fmt: skip


def advanced(walker: Walker, node: ast.Call) -> Value:
    """``tl.advance(pointer, steps)``"""
    pointer = walker.value(node.args[0])
    given = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "offsets"), None)
    moves = _numbers(walker.value(given)) if given is not None else []
    return moved(pointer, moves, None)


def moved(pointer: Value, moves: Sequence[int | None], counter: Atom | None) -> Value:
    """The pointer ``moves`` elements on along its sides: once, or with every value of ``counter``."""
    block = pointer.block
    if block is None or pointer.terms is None:
        return pointer
    by = 0
    for d, move in enumerate(moves[: len(block.axes)]):
        stride = block.strides[d]
        if move and (stride is None or move is None):
            stride = FAR
        by += (move or 0) * (stride or 0)
    if not by:
        return pointer
    if counter is None:
        return replace(pointer, offset=pointer.offset + by, key=object())
    bounds = tuple(
        Bound(tuple(sorted([*bound.terms, (counter, moves[d] or 0)], key=lambda t: t[0].name)), bound.low, bound.high)
        if d < len(moves) and moves[d] and len(pointer.bounds) == len(block.axes)
        else bound
        for d, bound in enumerate(pointer.bounds)
    )
    return replace(pointer, terms={**pointer.terms, counter: by}, bounds=bounds, key=object())
