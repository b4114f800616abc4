"""What the functions that a Triton kernel calls do: loads and stores, reductions, mathematics, casts, random numbers."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeline.roofline import blocks, products
from ridgeline.roofline.accesses import memory
from ridgeline.roofline.expressions import unconverted
from ridgeline.roofline.indices import opaque
from ridgeline.roofline.reductions import ORDERS, SCANS, SPLIT_AXES, SUMS, WHOLE, reduction
from ridgeline.roofline.symbolic import INTEGER, KIND_OF, Atom, Kind, Value, count_of, truth
from ridgeline.roofline.walk import BLOCK_AXIS

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

MATHEMATICS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "fast_expf": "exp2", "erf": "erf", "erfc": "erf", "erfinv": "erfinv", "erfcinv": "erfinv",
    "log": "log", "log2": "log", "log1p": "log1p", "log10": "log", "fast_logf": "exp_fast", "rsqrt": "rsqrt", "sqrt": "sqrt", "sqrt_rn": "sqrt_rn",
    "tanh": "tanh", "fast_tanhf": "exp2", "sin": "sin", "cos": "sin", "tan": "sin", "sinh": "sinh", "cosh": "sinh", "fast_sinf": "exp2",
    "fast_cosf": "exp2", "asin": "asin", "acos": "asin", "atan": "asin", "atan2": "atan2", "asinh": "log1p", "acosh": "log1p", "atanh": "log1p",
    "sigmoid": "sigmoid", "pow": "pow", "pow_integer": "pow", "fast_powf": "exp_fast", "lgamma": "lgamma", "digamma": "lgamma",
    "fast_dividef": "divide", "div_rn": "divide", "fdiv": "divide", "fmod": "fmod", "i0": "pow", "i1": "pow", "hypot": "sqrt_rn",
    "floor": "round", "ceil": "round", "trunc": "round", "round": "round", "rint": "round", "nearbyint": "round", "llrint": "round",
}  # fmt: skip
DOUBLES = {"sqrt": "double_sqrt", "rsqrt": "double_sqrt", "pow": "double_pow", "divide": "double_divide"}
CHEAP = {"isnan", "isinf", "isfinited", "finitef", "signbit", "copysign", "clz", "popc", "umulhi", "mulhi", "clamp", "frexp", "ldexp", "bitcast"}  # fmt: skip
FREE = {"broadcast_to", "reshape", "view", "expand_dims", "permute", "trans", "multiple_of", "max_contiguous", "broadcast", "ravel", "promote_to_tensor", "max_constancy", "item", "squeeze", "unsqueeze"}  # fmt: skip
NOTHING = {"static_assert", "assume", "static_print", "device_print", "debug_barrier", "x_grid_barrier", "constexpr"}
RANDOM = {"rand": 1.0, "randn": 1.0, "randint": 1.0, "randint64": 1.0, "randint4x": 1.0, "philox": 1.0, "rand4x": 0.3, "randn4x": 0.6, "rand_eager_kernel": 1.1}  # fmt: skip
STEPS = {"welford_reduce": "welford_step", "welford_combine": "welford_combine", "online_softmax_combine": "online_softmax_step", "online_softmax_combine_with_sum": "online_softmax_step", "maximum_with_index": "index_step", "minimum_with_index": "index_step"}  # fmt: skip
SORTS = {"sort", "sort_with_index", "topk", "bucketize_binary_search"}
DEEPEST = 8


def call(walker: Walker, node: ast.Call) -> Value:
    """The value of a call; what it costs is noted in the walker's tally."""
    full = ast.unparse(node.func)
    name = full.split(".")[-1]
    if name in ("make_block_ptr", "make_tensor_descriptor", "_experimental_make_tensor_descriptor"):
        return blocks.made(walker, node, name != "make_block_ptr")
    if name == "advance" and node.args:
        return blocks.advanced(walker, node)
    if name in ("load", "store") or name.startswith("atomic_"):
        return memory(walker, node, name)
    if name == "arange":
        return arange(walker, node)
    if name in ("program_id", "num_programs"):
        axis = walker.value(node.args[0]).const if node.args else 0
        count = walker.grid[axis if isinstance(axis, int) and 0 <= axis < 3 else 0]
        if name == "num_programs":
            return Value(kind="int", const=count, terms={})
        return Value(kind="int", terms={Atom(f"program{axis}", count): 1} if count > 1 else {}, key=(name, axis))
    if name in ("full", "zeros", "full_like", "zeros_like"):
        return filled(walker, node, name)
    if name == "to" and isinstance(node.func, ast.Attribute) and node.args:
        return cast(walker, walker.value(node.func.value), type_name(walker, node.args[0]))
    if name == "cast" and len(node.args) > 1:
        return cast(walker, walker.value(node.args[0]), type_name(walker, node.args[1]))
    if name in FREE:
        return walker.value(node.args[0] if of_module(node) and node.args else receiver(node))
    arguments = [walker.value(a) for a in node.args]
    if full in ("min", "max"):
        known = [a.const for a in arguments if isinstance(a.const, int)]
        return Value(kind="int", const=(min if full == "min" else max)(known) if known else None, terms={})
    if name in ("cdiv", "next_power_of_2", "constexpr_next_power_of_2"):
        return folded(name, arguments)
    if name in SUMS or name in ORDERS or name in WHOLE or name in SCANS:
        return reduction(walker, node, name, arguments)
    if name == "where" and len(arguments) == 3:
        if arguments[0].const is not None and not arguments[0].run_time:
            walker.discard(node.args[2 if truth(arguments[0]) else 1])
        return where(walker, arguments)
    if not arguments and isinstance(node.func, ast.Attribute) and not of_module(node):
        arguments = [walker.value(node.func.value)]
    return computed(walker, name, full, arguments, node)


def computed(walker: Walker, name: str, full: str, arguments: list[Value], node: ast.Call) -> Value:
    first = arguments[0] if arguments else Value()
    if name in MATHEMATICS:
        if first.kind == "double":
            function = DOUBLES.get(MATHEMATICS[name], "double_function")
            return of_kind(walker.apply(function, arguments, tag=name), "double")
        function = MATHEMATICS[name]
        if function == "exp" and not full.startswith("libdevice"):
            function = "exp_fast"  # tl.exp and tl_math.exp: ex2.approx
        if first.negated:
            walker.apply("float", arguments, tag="-")
        return of_kind(walker.apply(function, arguments, tag=name), "float")
    if name in ("maximum", "minimum"):
        integer = first.kind in INTEGER
        function = "nan_max" if full.startswith("triton_helpers") and not integer else "where"
        halves = unconverted(arguments)
        if halves:
            return reconverted(walker, walker.apply(function, halves, tag=name))
        result = walker.apply(function, arguments, tag=name)
        if integer:
            return opaque(walker, arguments, result)
        return of_kind(result, first.kind if first.const is None else arguments[-1].kind)
    if name == "fma":
        return of_kind(walker.apply("double" if first.kind == "double" else "float", arguments, tag=name), first.kind)
    if name == "abs":
        walker.settle(first)
        return Value(first.axes, first.kind, hold=first.hold, level=first.level, key=("abs", first.key))
    if name in RANDOM:
        result = walker.apply("philox", arguments, RANDOM[name], tag="rand" if name == "randn" else name)
        for part in (
            ("log", "sqrt", "sin", "float") if name == "randn" else ()
        ):  # Box and Muller's way from even to normal ones
            result = walker.apply(part, [result], tag="randn")
        return of_kind(result, "float")
    if name in STEPS:
        result = of_kind(walker.apply(STEPS[name], arguments, tag=name), "float")
        result.items = tuple(Value(result.axes, "float", level=result.level, key=(result.key, i)) for i in range(3))
        if STEPS[name] == "welford_step":
            walker.updates.update(item.key for item in result.items)
        return result
    if name == "dot":
        return products.dot(walker, arguments)
    if name in CHEAP:
        return of_kind(walker.apply("logic", arguments, tag=name), "bool" if name.startswith("is") else first.kind)
    if name in ("device_assert", "device_assert_then"):
        walker.apply("logic", arguments[:1], 1.0 if first.axes else 0.0, tag=name)
        return arguments[-1] if name.endswith("then") and arguments else Value()
    if name in SORTS:
        axes = first.axes
        tile = math.prod(walker.tally.tile.get(a, 1) for a in axes & SPLIT_AXES or axes)
        steps = max(1.0, math.log2(max(2, tile)))
        sorted_by = ast.unparse(node)
        result = of_kind(walker.apply("sort_step", arguments, steps * (steps + 1) / 2, tag=sorted_by), first.kind)
        result.items = (Value(axes, first.kind), Value(axes, first.kind))
        return result
    if name in NOTHING or name in ("int", "float"):
        return first
    if name in walker.source.helpers:
        return inline(walker, walker.source.helpers[name], arguments)
    if any(a.axes for a in arguments):
        walker.tally.unknown.add(name)
    return of_kind(
        walker.apply("unknown", arguments, 1.0 if any(a.axes for a in arguments) else 0.0, tag=name), first.kind
    )


def of_kind(value: Value, kind: Kind) -> Value:
    value.kind = kind
    return value


def of_module(node: ast.Call) -> bool:
    """Whether it is a function of a module (``tl.trans(x)``), not of a value (``x.trans()``)."""
    place = receiver(node)
    while isinstance(place, ast.Attribute):
        place = place.value
    return isinstance(place, ast.Name) and (
        place.id in ("tl", "triton", "libdevice") or place.id.endswith(("_math", "_helpers"))
    )


def receiver(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def arange(walker: Walker, node: ast.Call) -> Value:
    end = node.args[1] if len(node.args) > 1 else node.args[0]
    text = ast.unparse(end)
    size = walker.value(end).const
    if text in BLOCK_AXIS and (walker.source.by_inductor or BLOCK_AXIS[text] in walker.tally.tile):
        axis = BLOCK_AXIS[text]
    elif walker.source.heuristic == "template":
        axis = (
            f"{text}@0:0"  # ranges are made anew for what follows the loop, each side of a tile has a name of its own
        )
    else:
        axis = f"{text}@{node.lineno}:{node.col_offset}"
    if isinstance(size, int):
        walker.tally.tile.setdefault(axis, size)
    count = walker.tally.tile.get(axis, 1)
    return Value(frozenset((axis,)), "int", {Atom(axis, count, frozenset((axis,)), {axis: 1}): 1}, key=axis)


def filled(walker: Walker, node: ast.Call, name: str) -> Value:
    text = ast.unparse(node)
    if "tl.int1" in text:
        return Value(kind="bool", const=True if "True" in text else None)
    named = next((k for k in ("int32", "int64", "float64", "float16", "bfloat16") if f"tl.{k}" in text), "float32")
    kind = KIND_OF[named]
    fill = walker.value(node.args[1]).const if name == "full" and len(node.args) > 1 else 0
    constant = fill if isinstance(fill, (int, float)) and not isinstance(fill, bool) else None
    return Value(kind=kind, const=constant, terms={} if kind in INTEGER else None)


def type_name(walker: Walker, node: ast.expr) -> str:
    """``tl.float32``, an argument that stands for such a type, or that of a pointer's elements (``p.dtype.element_ty``)."""
    text = ast.unparse(node)
    value = walker.names.get(text.split(".")[0])
    if value is not None and isinstance(value.const, str):
        return value.const
    if value is not None and value.pointer is not None and text.endswith("element_ty"):
        return value.element
    if value is not None and text.endswith(".dtype"):
        return {"half": "bfloat16", "double": "float64", "int": "int32", "long": "int64"}.get(value.kind, "float32")
    return text.split(".")[-1]


def cast(walker: Walker, value: Value, target: str) -> Value:
    kind = KIND_OF.get(target, "float")
    if value.const is not None:
        return Value(value.axes, kind, value.terms, value.offset, value.const)
    if value.kind == kind:
        return value
    pair = (value.kind, kind)
    if value.halves and kind == "half":
        return of_kind(walker.apply("half", [v.raw or v for v in value.halves], tag=value.key), kind)
    if value.byte and kind in ("float", "half"):
        return of_kind(walker.apply("byte_float", [replace(value, byte=False)], tag=kind), kind)
    whole = (*INTEGER, "bool")
    name = (
        "convert64" if "double" in pair
        else "widen" if pair == ("half", "float")
        else "narrow" if pair == ("float", "half")
        else "convert8" if "eight" in pair
        else "where" if value.kind == "bool" and kind not in whole
        else "int_float" if value.kind in whole and kind not in whole
        else "float_int" if kind in whole and value.kind not in whole
        else "logic"
    )  # fmt: skip
    if name == "widen":
        raw = value
        wide = Value(value.axes, kind, hold=value.hold, level=value.level, key=walker.number(("widen", value.key)))
        wide.raw = raw
        return wide
    if kind in INTEGER and value.kind == "bool":
        number = opaque(walker, (value,), Value(value.axes, kind, hold=value.hold, level=value.level))
        number.key, number.raw = walker.number(("number", target, value.key)), value
        return number
    free = name == "logic" and value.kind != "bool"
    result = of_kind(walker.apply(name, [value], 0.0 if free else 1.0, tag=target), kind)
    if kind in INTEGER and value.kind in INTEGER:
        result.terms, result.offset, result.hold = value.terms, value.offset, value.hold
    result.bounds = value.bounds
    return result


def reconverted(walker: Walker, chosen: Value) -> Value:
    """One of such values, which is converted when it is used."""
    chosen.kind = "half"
    wide = Value(chosen.axes, "float", hold=chosen.hold, level=chosen.level, key=walker.number(("widen", chosen.key)))
    wide.raw = chosen
    return wide


def where(walker: Walker, arguments: list[Value]) -> Value:
    test, first, second = arguments
    if test.const is not None and not test.run_time:
        return first if truth(test) else second
    if first.key in walker.updates:
        walker.tally.uncounted = True
    picked = first if first.const is None else second
    halves = unconverted([first, second])
    if halves:
        return reconverted(walker, walker.apply("where", [test, *halves]))
    # a choice by a mask that only cuts what overhangs is a predicate of the instruction whose result is chosen
    overhang = bool(test.bounds) and all(b.low <= 0 and b.high >= count_of(dict(b.terms)) for b in test.bounds)
    result = walker.apply("where", arguments, 0.0 if overhang else 1.0)
    if picked.kind in INTEGER:
        if not result.axes and first.affine:
            return first
        atoms = {a for v in (first, second) for a in (v.terms or {}) if a.indirect}
        if atoms:  # the usual guard of a loaded index: where(i < 0, i + n, i)
            result.kind, result.terms = picked.kind, {next(iter(atoms)): 1}
            return result
        return opaque(walker, (first, second), result)
    return of_kind(result, picked.kind)


def folded(name: str, arguments: list[Value]) -> Value:
    known = [a.const for a in arguments]
    if name == "cdiv" and len(known) == 2 and all(isinstance(k, int) and k for k in known):
        return Value(kind="int", const=-(-known[0] // known[1]), terms={})
    if known and isinstance(known[0], int) and known[0] > 0:
        return Value(kind="int", const=1 << (known[0] - 1).bit_length(), terms={})
    return Value(kind="int")


def inline(walker: Walker, function: ast.FunctionDef, arguments: list[Value]) -> Value:
    """A call of another jit function of the same file: its body is walked with the arguments bound."""
    if walker.calls >= DEEPEST:
        return Value(arguments[0].axes if arguments else frozenset())
    outer = walker.names
    walker.names = {**outer, **{a.arg: v for a, v in zip(function.args.args, arguments)}}
    walker.calls += 1
    result = Value()
    for statement in function.body:
        if isinstance(statement, ast.Return):
            result = walker.value(statement.value)
        else:
            walker.statement(statement)
    walker.calls -= 1
    walker.names = outer
    return result
