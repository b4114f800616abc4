"""Kernels within a convolution that bring one of its tensors to another layout: which tensor, from what to what, and why."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from ridgeline.findings.facts import Facts
from ridgeline.findings.layouts import Layout, layout

TRANSPOSES = ("nchwtonhwc", "nhwctonchw")
"""In the names of cuDNN's kernels."""
FORWARD = ("aten::_convolution", "aten::convolution", "aten::cudnn_convolution", "aten::cudnn_convolution_transpose")
BACKWARD = "aten::convolution_backward"
CONVOLUTIONS = (*FORWARD, BACKWARD)
"""Ops within which ``contiguous`` copies an operand whose layout is not that of the other (a batch in NCHW, weights in NHWC)."""

COPYING = ("aten::copy_", "aten::clone", "aten::contiguous")

Operand = Literal["gradient", "input", "weights"]
Why = Literal["model", "input", "unknown", "unrecognised", "gradient", "part", "kernel", "other"]
"""``model``: its weights are in NCHW. ``input``: they are channels-last, and what goes in is in NCHW. ``unknown``: no strides were recorded.
The rest no memory format of the model mends. ``unrecognised``: channels-last, but torch does not take it for that. ``gradient``: it
arrives in NCHW. ``part``: of a larger tensor. ``kernel``: what runs knows NCHW only."""


class LayoutCopy(NamedTuple):
    row: int
    """Of work."""
    why: Why
    operand: Operand | None = None
    source: Layout | None = None
    target: Layout | None = None
    left: float = 0.0
    """What part of it stays once it is mended: something smaller is copied then."""
    op: str = ""
    """What asks for it."""


class _Given(NamedTuple):
    op: str
    operands: dict[Operand, Layout]
    raw: dict[Operand, tuple[list[int], list[int]]]
    """Sizes and strides."""


def layout_copies(facts: Facts) -> list[LayoutCopy]:
    """Of the recorded work, but for what cuDNN transposes within of its own accord, where all it is given is channels-last, and what it does
    to sequences, which have no such memory format."""
    found = []
    for row in facts.recorded_work:
        op = int(facts.work.op[row])
        transposes = any(t in facts.names[int(facts.work.name[row])].lower() for t in TRANSPOSES)
        if not transposes and (op < 0 or facts.op_name(op) != "aten::copy_"):
            continue
        chain = list(facts.ancestors(op))
        within = [r for r in chain if facts.op_name(r) in CONVOLUTIONS]
        if not transposes and not (within and any(facts.op_name(r) == "aten::contiguous" for r in chain)):
            continue
        if any(_of_sequences(facts, r) for r in within):
            continue
        given = next((g for r in within if (g := _given(facts, r)) is not None), None)
        if given is None:
            found.append(LayoutCopy(row, "unknown"))
        elif transposes:
            why = _whose(given)
            if why is not None:
                found.append(LayoutCopy(row, why, op=given.op))
        else:
            found.append(_copy(facts, row, op, given))
    return found


def _given(facts: Facts, op: int) -> _Given | None:
    """None where the recording does not hold its strides."""
    names: tuple[Operand, ...] = (
        ("gradient", "input", "weights") if facts.op_name(op) == BACKWARD else ("input", "weights")
    )
    raw = dict(zip(names, zip(facts.dims_of(op), facts.strides_of(op))))
    operands = {name: lay for name, (sizes, strides) in raw.items() if (lay := layout(sizes, strides)) is not None}
    return _Given(facts.op_name(op), operands, raw) if len(operands) == len(names) else None


def _of_sequences(facts: Facts, op: int) -> bool:
    """Whether it is one over sequences: what cuDNN is given of that has four dimensions, the convolution itself three."""
    dims = facts.dims_of(op)
    return bool(dims) and len(dims[0]) == 3


def _whose(given: _Given) -> Why | None:
    """Because of which of its tensors a convolution works in NCHW, or one is transposed; None where none of them is."""
    if not given.operands["weights"].for_last and given.operands["weights"].order != "last":
        others = [lay for name, lay in given.operands.items() if name != "weights"]
        if given.operands["weights"].order == "first" or any(lay.order == "first" for lay in others):
            return "model"
        return None
    if given.operands["input"].order == "first":
        return "input"
    return "gradient" if "gradient" in given.operands and given.operands["gradient"].order == "first" else None


def _copy(facts: Facts, row: int, op: int, given: _Given) -> LayoutCopy:
    dims, strides = facts.dims_of(op), facts.strides_of(op)
    target, source = (
        (layout(*pair) for pair in zip(dims[:2], strides[:2])) if len(strides) > 1 < len(dims) else (None, None)
    )
    if source is None or target is None:
        return LayoutCopy(row, "unknown")
    same = [name for name, (sizes, _) in given.raw.items() if sizes == dims[1]]
    operand = next((name for name in same if given.raw[name][1] == strides[1]), same[0] if same else None)
    asks = next((name for r in facts.ancestors(op) if (name := facts.op_name(r)) not in COPYING), given.op)
    made = LayoutCopy(row, "other", operand, source, target, op=asks)
    if source.order == "first" and target.order == "last":
        if not given.operands["weights"].for_last:
            return made._replace(why="model")
        return made._replace(why=operand if operand in ("gradient", "input") else "other")
    if (
        source.order == "last"
        and source.packed
        and not source.for_last
        and operand == "input"
        and target.order == "first"
    ):
        gradient = given.operands.get("gradient")
        left = math.prod(gradient.sizes) / math.prod(source.sizes) if gradient and gradient.order == "first" else 0.0
        return made._replace(why="unrecognised", left=min(1.0, left))
    if source.order != "other" and not source.packed:
        return made._replace(why="part")
    if source.order == "last" and target.order == "first":
        # torch chooses channels-last where it takes input or weights for that: who copies all the same knows NCHW only.
        known = given.operands["input"].for_last or given.operands["weights"].for_last
        return made._replace(why="kernel" if known else "model")
    return made
