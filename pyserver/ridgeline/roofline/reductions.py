"""Reductions and scans of a Triton kernel: which axes they remove and what combining two partial results costs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ridgeline.roofline.costs import COST
from ridgeline.roofline.symbolic import INTEGER, Kind, Value

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

SUMS = {"sum", "prod", "xor_sum", "any", "reduce_or"}
ORDERS = {"max", "min", "max2", "min2", "reduce", "argmax", "argmin", "max_with_index", "min_with_index"}
SCANS = {"associative_scan", "cumsum", "cumprod", "exclusive_scan_decoupled_lookback", "exclusive_scan_decoupled_lookback_64"}  # fmt: skip
WITH_INDEX = {"argmax", "argmin", "max_with_index", "min_with_index"}
WHOLE = {"welford": "reduce_welford", "online_softmax_reduce": "reduce_softmax"}
SPLIT_AXES = frozenset(("r0_", "r1_", "r2_"))


def reduction(walker: Walker, node: ast.Call, name: str, arguments: list[Value]) -> Value:
    values = [v for a in arguments for v in (a.items or (a,)) if v.axes]
    axes = frozenset[str]().union(*(v.axes for v in values)) if values else frozenset[str]()
    kind: Kind = values[0].kind if values else "float"
    if name in SCANS:
        if not axes and walker.tally.tile:  # decoupled look-back works on the scalar of a block
            return Value(kind="float", items=(Value(), Value()))
        result = walker.apply("scan", values, scan_cost(walker, node, values), tag=ast.unparse(node))
        result.kind = kind
        result.items = tuple(Value(v.axes, v.kind, level=result.level) for v in values) or None
        return result
    reduced = reduced_axes(walker, node, name, axes)
    what = WHOLE.get(name) or ("reduce_sum" if name in SUMS else "reduce_index" if name in WITH_INDEX else "reduce_max")
    if what == "reduce_max" and ast.unparse(node.func).startswith(("tl.", "triton.language")) and kind not in INTEGER:
        what = "reduce_max_fast"  # takes any of a NaN and a number, which is one instruction; Inductor's keeps NaN
    if what == "reduce_sum" and values and values[0].product:
        what = "reduce_product"
    mark = len(walker.tally.operations)
    result = walker.apply(what + ("64" if kind == "double" else ""), values, tag=ast.unparse(node))
    for operation in walker.tally.operations[mark:]:
        operation.along = reduced if operation.name.startswith("reduce") else frozenset()
    result.kind, result.axes, result.sliced = kind, axes - reduced, True
    result.hold = {a: n for a, n in result.hold.items() if a in result.axes}
    wide = 3 if name == "welford" else 2 if name in (*WITH_INDEX, "online_softmax_reduce") else 0
    if wide:
        result.items = tuple(Value(result.axes, kind, level=result.level, key=(result.key, i)) for i in range(wide))
    return result


def scan_cost(walker: Walker, node: ast.Call, values: list[Value]) -> float:
    """Instructions that combine two partial results: what the function that the scan is given does with one element."""
    name = node.args[2].id if len(node.args) > 2 and isinstance(node.args[2], ast.Name) else ""
    function = walker.source.helpers.get(name)
    if function is None:
        return 1.0
    mark, seen = len(walker.tally.operations), set(walker.seen)
    pair = [Value(v.axes, v.kind, level=walker.level) for v in (*values, *values)]
    from ridgeline.roofline.calls import inline

    inline(walker, function, pair)
    cost = sum(COST.get(o.name, 1.0) * o.count for o in walker.tally.operations[mark:])
    del walker.tally.operations[mark:]
    walker.seen = seen
    return max(1.0, cost)


def reduced_axes(walker: Walker, node: ast.Call, name: str, axes: frozenset[str]) -> frozenset[str]:
    """Inductor reduces its ``r`` axes (along dimension 1 or 0 of the tile); a user's call the axis its position names."""
    split = axes & SPLIT_AXES
    place_of = {"welford": 3, "online_softmax_reduce": 2, "max_with_index": 2, "min_with_index": 2}.get(name, 1)
    given = node.args[place_of] if len(node.args) > place_of else None
    axis = next((k.value for k in node.keywords if k.arg in ("axis", "dim")), given)
    place = axis.value if isinstance(axis, ast.Constant) and isinstance(axis.value, int) else None
    if split:
        return axes - split if place == 0 and axes - split and len(axes) > 1 else split
    ordered = sorted(axes, key=lambda a: [int(p) for p in a.split("@")[-1].split(":")] if "@" in a else [0, 0])
    if place is None or not ordered:
        return axes
    subscripted = [a for a in ordered if walker.places.get(a) == place % len(ordered)]
    if len(subscripted) == 1:
        return frozenset(subscripted)
    return frozenset(ordered[place : place + 1] or ordered[-1:])
