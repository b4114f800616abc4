"""Expressions of a Triton kernel: arithmetic, comparisons and the affine form of indices."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ridgeline.roofline.indices import KNOWN, followed, index_arithmetic, is_residue, opaque
from ridgeline.roofline.symbolic import (
    ABSENT,
    DIVISIBLE,
    INTEGER,
    KIND_OF,
    LARGEST,
    Bound,
    Kind,
    Value,
    add,
    count_of,
    form,
    truth,
)

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

FOLD: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
LONGEST_BITS = 128
LOWER = 0.5
"""Share of the comparisons of an index with a lower limit that are not one with that with an upper limit."""
NEUTRAL = {(ast.Add, 0), (ast.Sub, 0), (ast.Mult, 1), (ast.Div, 1)}


def evaluate(walker: Walker, node: ast.expr | None) -> Value:
    """The value of an expression; what it costs is noted in the walker's tally."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (bool, int, float)):
            kind: Kind = "bool" if isinstance(node.value, bool) else "int" if isinstance(node.value, int) else "float"
            return Value(kind=kind, const=node.value, terms={})
        return Value(terms={}, key=node.value)
    if isinstance(node, ast.Name):
        return walker.names.get(node.id) or Value(kind="int", key=node.id)
    if isinstance(node, ast.UnaryOp):
        return unary(walker, node)
    if isinstance(node, ast.BinOp):
        return binary(walker, node)
    if isinstance(node, ast.Compare):
        return comparison(walker, node)
    if isinstance(node, ast.BoolOp):
        values = []
        for part in node.values:
            value = evaluate(walker, part)
            if value.const is None:
                values.append(value)
            elif truth(value) is isinstance(node.op, ast.Or):
                return Value(kind="bool", const=truth(value), terms={}, run_time=value.run_time)
        if not values:
            return Value(kind="bool", const=isinstance(node.op, ast.And), terms={})
        result = walker.apply("logic", values, len(values) - 1, tag=type(node.op))
        result.kind, result.bounds = "bool", sum((v.bounds for v in values), ())
        return result
    if isinstance(node, ast.Call):
        from ridgeline.roofline.calls import call

        return call(walker, node)
    if (
        isinstance(node, ast.Attribute)
        and node.attr in KIND_OF
        and ast.unparse(node.value) in ("tl", "triton.language")
    ):
        return Value(const=node.attr, terms={}, key=node.attr)
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return evaluate(walker, node.value)
    if isinstance(node, ast.Subscript):
        inner = evaluate(walker, node.value)
        if isinstance(node.slice, ast.Tuple) and len(inner.axes) == 1:
            kept = [n for n, part in enumerate(node.slice.elts) if isinstance(part, ast.Slice)]
            if len(kept) == 1:
                walker.places.setdefault(next(iter(inner.axes)), kept[0])
        if inner.items is not None and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return inner.items[node.slice.value] if node.slice.value < len(inner.items) else Value()
        return inner
    if isinstance(node, (ast.Tuple, ast.List)):
        items = tuple(evaluate(walker, e) for e in node.elts)
        axes = frozenset[str]().union(*(v.axes for v in items)) if items else frozenset[str]()
        return Value(
            axes, items[0].kind if items else "float", items=items, level=max((v.level for v in items), default=0)
        )
    if isinstance(node, ast.IfExp):
        test = evaluate(walker, node.test)
        if test.const is not None:
            return evaluate(walker, node.body if truth(test) else node.orelse)
        first, second = evaluate(walker, node.body), evaluate(walker, node.orelse)
        return Value(first.axes | second.axes, first.kind, level=max(first.level, second.level))
    return Value(kind="int")


def unary(walker: Walker, node: ast.UnaryOp) -> Value:
    value = evaluate(walker, node.operand)
    walker.settle(value)
    if isinstance(node.op, ast.USub):
        if isinstance(value.const, (int, float)):
            return Value(kind=value.kind, const=-value.const, terms={})
        # a sign folds into the instruction that uses it
        return Value(
            value.axes,
            value.kind,
            hold=value.hold,
            level=value.level,
            product=value.product,
            negated=not value.negated,
            raw=value.raw,
            key=walker.number(("-", value.key)),
        )
    if isinstance(node.op, ast.Not) and isinstance(value.const, (bool, int)):
        return Value(kind="bool", const=not value.const)
    result = walker.apply("logic", [value], 1.0 if value.const is None and value.axes else 0.0, tag="not")
    result.kind = value.kind
    return result


def comparison(walker: Walker, node: ast.Compare) -> Value:
    left, right = evaluate(walker, node.left), evaluate(walker, node.comparators[0])
    test = type(node.ops[0])
    decided = identity(node, left, right)
    if decided is not None:
        return Value(kind="bool", const=decided, terms={})
    if isinstance(left.const, (int, float)) and isinstance(right.const, (int, float)) and test in COMPARE:
        run_time = left.run_time or right.run_time
        return Value(kind="bool", const=COMPARE[test](left.const, right.const), run_time=run_time)
    flag = left if left.kind == "bool" else left.raw
    if flag is not None and flag.kind == "bool" and right.const in (0, 1) and test in (ast.Eq, ast.NotEq):
        same = (test is ast.Eq) is bool(right.const)
        key = flag.key if same else walker.number(("not", flag.key))
        return replace(flag, bounds=flag.bounds if same else (), key=key)
    bounds: tuple[Bound, ...] = ()
    if left.terms and isinstance(right.const, int) and test in (ast.Lt, ast.LtE, ast.GtE, ast.Gt):
        bounds = tuple(
            Bound(b.terms, b.low, b.high, right.run_time) for b in bound(left, int(right.const) - left.offset, test)
        )
        whole = bounds[0].low <= 0 and bounds[0].high >= count_of(left.terms)
        if whole and not right.run_time and (exact(walker, left) or not masks(left)):
            return Value(left.axes, "bool", const=True)  # the mask never cuts: the compiler drops it
    # A bound of an index holds for a whole vector; an index is compared with loaded data element by element, in 64 bits
    # with a sum of its own.
    name = "index_compare" if bounds else "compare"
    wide = "long" in (left.kind, right.kind)
    cost = (4.0 if left.affine and right.affine and not bounds else 2.0) if wide else 1.0
    axes = left.axes | right.axes
    if bounds and test in (ast.GtE, ast.Gt):
        cost *= LOWER
    if is_residue(left.terms) and isinstance(right.const, int):
        cost *= KNOWN
    result = walker.apply(name, unconverted([left, right]) or [left, right], cost if axes else 0.0, tag=test)
    result.kind, result.bounds, result.compared = "bool", bounds, True
    if test in (ast.Lt, ast.GtE):
        result.hold |= same_side(walker, left, right)
    return result


def same_side(walker: Walker, left: Value, right: Value) -> dict[str, int]:
    """Neighbours that are all below a limit or all not, as Triton's AxisInfo.cpp sees it: as many of those that follow each
    other as their start and the limit are multiples of."""
    known = form(left)
    if known is None or right.axes:
        return {}
    limit = multiple_of(right)
    found = {}
    for axis in left.axes:
        together = followed(known[0], axis, walker.tally.tile.get(axis, 1))
        if together > 1:
            common = math.gcd(together, known[1], limit)
            found[axis] = common & -common
    return found


def multiple_of(limit: Value) -> int:
    """A number that a uniform value is a multiple of, as far as the compiler sees: of arguments it knows 16."""
    known = form(limit)
    if known is None:
        return DIVISIBLE
    if any(a.indirect for a in known[0]):
        return 1
    common = math.gcd(known[1], *known[0].values())
    return math.gcd(common, DIVISIBLE) // DIVISIBLE * DIVISIBLE or 1 if known[0] or limit.run_time else common


def identity(node: ast.Compare, left: Value, right: Value) -> bool | None:
    """Whether an argument is None, or one text another; None where that is not what is asked or not known."""
    other = node.comparators[0]
    if isinstance(other, ast.Constant) and other.value is None:
        same = left.const is ABSENT
        known = same or left.const is not None or left.pointer is not None
    elif isinstance(other, ast.Constant) and isinstance(other.value, str):
        same, known = left.const == other.value, left.const is not None
    elif isinstance(left.const, str) and isinstance(right.const, str):
        same, known = left.const == right.const, True
    else:
        return None
    if not known:
        return None
    return same if isinstance(node.ops[0], (ast.Is, ast.Eq)) else not same


def unconverted(values: list[Value]) -> list[Value]:
    """The half-precision values that ``values`` are conversions of, where all are, or numbers: they are compared and chosen before
    they are converted. Empty otherwise."""
    halves = [v.raw is not None and v.raw.kind != "bool" for v in values]
    if not any(halves) or not all(half or v.const is not None for half, v in zip(halves, values)):
        return []
    return [v.raw or v for v in values]


def masks(value: Value) -> bool:
    """Whether the value is an axis' own index, whose tiles may overhang the problem."""
    return any(not a.periods for a in value.terms or {})


def exact(walker: Walker, value: Value) -> bool:
    """Whether the tiles along the value's axes end exactly where the problem does."""
    if walker.source.by_inductor and not all(axis.startswith("r") for axis in value.axes):
        return False  # the compiler does not know how many programs there are
    for axis in value.axes:
        tile, extent = walker.tally.tile.get(axis), walker.tally.extent.get(axis)
        if not tile or extent is None or extent % tile:
            return False
    return True


def bound(left: Value, limit: int, test: type) -> tuple[Bound, ...]:
    terms = tuple(sorted((left.terms or {}).items(), key=lambda t: t[0].name))
    if test in (ast.Lt, ast.LtE):
        return (Bound(terms, 0, limit + (test is ast.LtE)),)
    low = limit + (test is ast.Gt)
    return (Bound(terms, low, count_of(left.terms or {})),) if low > 0 else (Bound(terms, 0, LARGEST),)


def binary(walker: Walker, node: ast.BinOp) -> Value:
    left, right = evaluate(walker, node.left), evaluate(walker, node.right)
    kind = type(node.op)
    if isinstance(left.const, (int, float)) and isinstance(right.const, (int, float)) and kind in FOLD:
        if any(isinstance(c, int) and c.bit_length() > LONGEST_BITS for c in (left.const, right.const)):
            return Value()  # no size of a kernel; products of such numbers only grow
        try:
            result = FOLD[kind](left.const, right.const)
        except (ZeroDivisionError, TypeError, ValueError, OverflowError):
            return Value()
        run_time = left.run_time or right.run_time
        return Value(kind=left.kind if left.kind != "int" else right.kind, const=result, terms={}, run_time=run_time)
    if left.pointer or right.pointer:
        base, moved = (left, right) if left.pointer else (right, left)
        terms, offset = add(base, moved, -1 if kind is ast.Sub else 1)
        axes, level = left.axes | right.axes, max(left.level, right.level)
        key = walker.number((kind, base.key, moved.key if moved.const is None else (moved.const,)))
        return Value(axes, "pointer", terms, offset, pointer=base.pointer, element=base.element, level=level, key=key)
    if kind is ast.BitAnd and left.kind == "bool" and right.kind == "bool":
        if left.const is True or right.const is True:
            return right if left.const is True else left
        # masks of places hold for a whole vector
        some = left.axes | right.axes and not (one_range(left, right) or left.compared or right.compared)
        name = "index_and" if left.bounds or right.bounds else "logic"
        both = walker.apply(name, [left, right], 1.0 if some else 0.0, tag="&")
        both.kind, both.bounds = "bool", left.bounds + right.bounds
        return both
    if kind is ast.BitOr and left.kind == "bool" and right.kind == "bool" and (left.compared or right.compared):
        either = walker.apply("logic", [left, right], 0.0, tag="|")
        either.kind = "bool"
        return either
    if left.kind in INTEGER and right.kind in INTEGER and (left.affine or right.affine):
        return index_arithmetic(walker, node.op, left, right)
    return arithmetic(walker, kind, left, right)


def halves_of(left: Value, right: Value) -> list[Value]:
    """The half-precision values that both are conversions of, or numbers that are such values; empty otherwise."""
    if not all((v.raw is not None and v.raw.kind == "half") or short(v.const) for v in (left, right)):
        return []
    return [] if left.raw is None and right.raw is None else [v.raw or v for v in (left, right)]


def short(number: object) -> bool:
    """Whether the number has at most eight binary digits, as bfloat16 does."""
    return isinstance(number, (int, float)) and math.isfinite(number) and (math.frexp(number)[0] * 256).is_integer()


def one_range(left: Value, right: Value) -> bool:
    """Whether two masks bound one index from below and from above, which is one comparison without sign."""
    return len(left.bounds) == len(right.bounds) == 1 and left.bounds[0].terms == right.bounds[0].terms


def arithmetic(walker: Walker, kind: type, left: Value, right: Value) -> Value:
    axes = left.axes | right.axes
    kinds = (left.kind, right.kind)
    if (kind, right.const) in NEUTRAL:
        return left
    result_kind: Kind = next((k for k in ("double", "float", "half", "long", "int", "bool") if k in kinds), "float")
    name, count = "float", 1.0
    if kind in (ast.Div, ast.FloorDiv, ast.Mod):
        constant = isinstance(right.const, (int, float))
        name = ("divide_constant" if constant else "divide") if kind is ast.Div else "integer_divide"
        if kind is ast.Div and result_kind in INTEGER:
            result_kind = "float"
        if kind is not ast.Div and result_kind in ("float", "half"):
            name = "divide"
        if name == "divide" and result_kind != "double" and right.axes < axes:
            walker.apply("reciprocal", [right])  # the divisor's reciprocal serves its whole row
            name = "divide_by_row"
    elif kind in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift):
        name = "logic"
    elif kind is ast.Pow:
        name = "pow"
    elif result_kind in INTEGER:
        name = "integer" if result_kind == "int" else "integer64"
    if result_kind == "double":
        name = "double_divide" if name.startswith("divide") else "double"
    absorbed = name == "float" and kind in (ast.Add, ast.Sub) and (left.product or right.product)
    halves = halves_of(left, right) if name == "float" and kind in (ast.Add, ast.Sub, ast.Mult) else ()
    if halves and not absorbed:
        result = walker.apply("half", halves, 0.0, tag=kind)
        result.kind, result.product, result.halves = result_kind, kind is ast.Mult, (left, right)
        return result
    result = walker.apply(name, [left, right], 0.0 if absorbed or (name == "logic" and not axes) else count, tag=kind)
    if name in ("integer", "integer64", "logic", "integer_divide") and result_kind in INTEGER:
        return opaque(walker, (left, right), result)
    result.kind, result.product = result_kind, kind is ast.Mult and name == "float"
    return result
