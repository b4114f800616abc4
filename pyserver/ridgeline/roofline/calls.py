"""What the functions that a Triton kernel calls do: loads and stores, reductions, mathematics, casts, random numbers."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from ridgeline.roofline.symbolic import INTEGER, KIND_OF, Access, Atom, Value
from ridgeline.roofline.types import itemsize

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

MATHEMATICS = {
    "exp": "exp", "exp2": "exp2", "expm1": "exp", "fast_expf": "exp2", "erf": "erf", "erfc": "erf", "erfinv": "erf",
    "log": "log", "log2": "log", "log1p": "log", "log10": "log", "rsqrt": "rsqrt", "sqrt": "sqrt", "sqrt_rn": "sqrt",
    "tanh": "tanh", "fast_tanhf": "exp2", "sin": "sin", "cos": "sin", "tan": "sin", "sinh": "exp", "cosh": "exp",
    "asin": "log", "acos": "log", "atan": "log", "atan2": "log", "asinh": "log", "acosh": "log", "atanh": "log",
    "sigmoid": "sigmoid", "pow": "pow", "pow_integer": "pow", "fast_powf": "pow", "lgamma": "pow", "digamma": "pow",
    "fast_dividef": "divide_constant", "div_rn": "divide", "fdiv": "divide", "fmod": "divide", "i0": "pow", "i1": "pow",
    "hypot": "sqrt",
}  # fmt: skip
CHEAP = {"floor", "ceil", "trunc", "round", "rint", "nearbyint", "isnan", "isinf", "isfinited", "finitef", "signbit", "copysign", "clz", "popc", "umulhi", "mulhi", "clamp", "frexp", "ldexp"}  # fmt: skip
FREE = {"broadcast_to", "reshape", "view", "expand_dims", "permute", "trans", "multiple_of", "max_contiguous", "broadcast", "ravel", "promote_to_tensor", "max_constancy", "item", "squeeze", "unsqueeze"}  # fmt: skip
NOTHING = {"static_assert", "assume", "static_print", "device_print", "debug_barrier", "x_grid_barrier", "constexpr"}
RANDOM = {"rand": 1.0, "randn": 1.6, "randint": 1.0, "randint64": 1.0, "randint4x": 1.0, "philox": 1.0, "rand4x": 0.3, "randn4x": 0.6, "rand_eager_kernel": 1.1}  # fmt: skip
SUMS = {"sum", "prod", "xor_sum", "any", "reduce_or"}
ORDERS = {"max", "min", "max2", "min2", "reduce", "argmax", "argmin", "max_with_index", "min_with_index"}
SCANS = {"associative_scan", "cumsum", "cumprod", "exclusive_scan_decoupled_lookback", "exclusive_scan_decoupled_lookback_64"}  # fmt: skip
SORTS = {"sort", "sort_with_index", "topk", "bucketize_binary_search"}
WITH_INDEX = {"argmax", "argmin", "max_with_index", "min_with_index"}
SPLIT_AXES = frozenset(("r0_", "r1_", "r2_"))


def call(walker: Walker, node: ast.Call) -> Value:
    """The value of a call; what it costs is noted in the walker's tally."""
    full = ast.unparse(node.func)
    name = full.split(".")[-1]
    if name in ("load", "store") or name.startswith("atomic_"):
        return memory(walker, node, name)
    if name == "arange":
        return arange(walker, node)
    if name == "program_id":
        axis = walker.value(node.args[0]).const if node.args else 0
        axis = axis if isinstance(axis, int) and 0 <= axis < 3 else 0
        count = walker.grid[axis]
        return Value(kind="int", terms={Atom(f"program{axis}", count): 1} if count > 1 else {})
    if name == "num_programs":
        axis = walker.value(node.args[0]).const if node.args else 0
        return Value(kind="int", const=walker.grid[axis if isinstance(axis, int) and 0 <= axis < 3 else 0], terms={})
    if name in ("full", "zeros", "full_like", "zeros_like"):
        return filled(walker, node, name)
    if name == "to" and isinstance(node.func, ast.Attribute) and node.args:
        return cast(walker, walker.value(node.func.value), ast.unparse(node.args[0]).split(".")[-1])
    if name == "cast" and len(node.args) > 1:
        return cast(walker, walker.value(node.args[0]), ast.unparse(node.args[1]).split(".")[-1])
    if name in FREE:
        return walker.value(node.args[0] if full.startswith(("tl.", "triton")) and node.args else receiver(node))
    arguments = [walker.value(a) for a in node.args]
    axes = frozenset[str]().union(*(a.axes for a in arguments))
    if full in ("min", "max"):
        known = [a.const for a in arguments if isinstance(a.const, int)]
        return Value(kind="int", const=(min if full == "min" else max)(known) if known else None, terms={})
    if name in ("cdiv", "next_power_of_2", "constexpr_next_power_of_2"):
        return folded(name, arguments)
    if name in SUMS or name in ORDERS or name in ("welford", "online_softmax_reduce") or name in SCANS:
        return reduction(walker, node, name, full, arguments)
    if name == "where" and len(arguments) == 3:
        return where(walker, arguments, axes)
    return computed(walker, node, name, full, arguments, axes)


def computed(
    walker: Walker, node: ast.Call, name: str, full: str, arguments: list[Value], axes: frozenset[str]
) -> Value:
    first = arguments[0] if arguments else (walker.value(receiver(node)) if "." in full else Value())
    axes = axes | first.axes
    if name in MATHEMATICS:
        double = first.kind == "double"
        walker.emit("double_function" if double else MATHEMATICS[name], axes)
        return Value(axes, "double" if double else "float")
    if name in ("maximum", "minimum"):
        integer = first.kind in INTEGER
        walker.emit("nan_max" if full.startswith("triton_helpers") and not integer else "where", axes)
        if integer:
            return walker.opaque(arguments, axes)
        return Value(axes, first.kind if first.const is None else arguments[-1].kind)
    if name == "fma":
        walker.emit("double" if first.kind == "double" else "float", axes)
        return Value(axes, first.kind)
    if name == "abs":
        return Value(axes, first.kind)
    if name in RANDOM:
        walker.emit("philox", axes, RANDOM[name])
        return Value(axes, "float")
    if name in ("welford_reduce", "welford_combine", "online_softmax_combine", "online_softmax_combine_with_sum"):
        walker.emit(
            {"welford_reduce": "welford_step", "welford_combine": "welford_combine"}.get(name, "online_softmax_step"),
            axes,
        )
        item = Value(axes, "float")
        return Value(axes, "float", items=(item, item, item))
    if name == "dot":
        return dot(walker, arguments)
    if name in CHEAP or name == "bitcast":
        walker.emit("logic", axes)
        return Value(axes, "bool" if name.startswith("is") else first.kind)
    if name in ("device_assert", "device_assert_then"):
        walker.emit("logic", axes)
        return arguments[-1] if name.endswith("then") else Value()
    if name in SORTS:
        tile = math.prod(walker.tally.tile.get(a, 1) for a in axes & SPLIT_AXES or axes)
        steps = max(1.0, math.log2(max(2, tile)))
        walker.emit("sort_step", axes, steps * (steps + 1) / 2)
        item = Value(axes, first.kind)
        return Value(axes, first.kind, items=(item, item))
    if name in NOTHING or name in ("int", "float"):
        return arguments[0] if arguments and name in ("int", "float", "constexpr") else Value()
    if name in ("device_assert_then",):
        return arguments[-1]
    if name in walker.source.helpers:
        return inline(walker, walker.source.helpers[name], arguments)
    if axes:
        walker.emit("unknown", axes)
        walker.tally.unknown.add(name)
    return Value(axes, first.kind)


def receiver(node: ast.Call) -> ast.expr | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def arange(walker: Walker, node: ast.Call) -> Value:
    end = node.args[1] if len(node.args) > 1 else node.args[0]
    text = ast.unparse(end)
    from ridgeline.roofline.walk import BLOCK_AXIS

    size = walker.value(end).const
    if text in BLOCK_AXIS and (walker.source.by_inductor or BLOCK_AXIS[text] in walker.tally.tile):
        axis = BLOCK_AXIS[text]
    else:
        axis = f"{text}@{node.lineno}:{node.col_offset}"
    if isinstance(size, int):
        walker.tally.tile.setdefault(axis, size)
    count = walker.tally.tile.get(axis, 1)
    return Value(frozenset((axis,)), "int", {Atom(axis, count, frozenset((axis,)), {axis: 1}): 1})


def filled(walker: Walker, node: ast.Call, name: str) -> Value:
    text = ast.unparse(node)
    if "tl.int1" in text:
        return Value(kind="bool", const=True if "True" in text else None)
    named = next((k for k in ("int32", "int64", "float64", "float16", "bfloat16") if f"tl.{k}" in text), "float32")
    kind = KIND_OF[named]
    fill = walker.value(node.args[1]).const if name == "full" and len(node.args) > 1 else 0
    constant = fill if isinstance(fill, (int, float)) and not isinstance(fill, bool) else None
    return Value(kind=kind, const=constant, terms={} if kind in INTEGER else None)


def cast(walker: Walker, value: Value, target: str) -> Value:
    kind = KIND_OF.get(target, "float")
    if value.const is not None:
        return Value(value.axes, kind, value.terms, value.offset, value.const)
    pair = (value.kind, kind)
    if value.kind == kind:
        pass
    elif "double" in pair:
        walker.emit("convert64", value.axes)
    elif pair == ("half", "float"):
        walker.emit("widen", value.axes)
    elif pair == ("float", "half"):
        walker.emit("narrow", value.axes)
    elif "eight" in pair:
        walker.emit("convert8", value.axes)
    elif (value.kind in (*INTEGER, "bool")) != (kind in (*INTEGER, "bool")):
        walker.emit("int_float", value.axes)
    elif value.kind == "bool":
        walker.emit("logic", value.axes)
    keep = kind in INTEGER and value.kind in INTEGER
    if kind in INTEGER and value.kind == "bool":
        return walker.opaque((value,), value.axes)
    return Value(value.axes, kind, value.terms if keep else None, value.offset if keep else 0, bounds=value.bounds)


def memory(walker: Walker, node: ast.Call, name: str) -> Value:
    """A load, store or atomic operation through a pointer that is affine in the tile's indices, or not."""
    place = walker.value(node.args[0]) if node.args else Value()
    keywords = {k.arg: k.value for k in node.keywords if k.arg}
    stored = walker.value(node.args[1]) if name != "load" and len(node.args) > 1 else None
    position = 1 if name == "load" else 3 if name == "atomic_cas" else 2
    mask_node = node.args[position] if len(node.args) > position else keywords.get("mask")
    mask = walker.value(mask_node) if mask_node is not None else Value()
    size = itemsize(place.element) or 4
    axes = place.axes
    if place.pointer is not None:
        policy = keywords.get("eviction_policy")
        walker.tally.accesses.append(
            Access(
                pointer=place.pointer,
                size=size,
                axes=axes,
                terms=dict(place.terms or {}),
                offset=place.offset,
                trips=walker.trips,
                store=name != "load",
                atomic=name.startswith("atomic_"),
                bounds=mask.bounds,
                evict_last=isinstance(policy, ast.Constant) and policy.value == "evict_last",
                known=place.terms is not None,
            )
        )
    else:
        walker.tally.unknown.add(name)
    kind = KIND_OF.get(place.element, "float")
    if stored is not None:
        if kind == "half" and stored.kind == "float" and stored.const is None:
            walker.emit("narrow", axes)
        elif kind in ("int", "bool") and stored.kind in ("float", "bool"):
            walker.emit("logic", axes)
        if not name.startswith("atomic_"):
            return Value()
    if kind in INTEGER and name == "load":
        count = walker.tally.accesses[-1].distinct() if place.pointer is not None else 1
        walker.fresh += 1
        return Value(axes, kind, {Atom(f"loaded{walker.fresh}", count, axes, {}, {}, True): 1})
    return Value(axes, kind)


def reduction(walker: Walker, node: ast.Call, name: str, full: str, arguments: list[Value]) -> Value:
    values = [v for a in arguments for v in (a.items or (a,)) if v.axes]
    axes = frozenset[str]().union(*(v.axes for v in values)) if values else frozenset[str]()
    if name in SCANS:
        if not axes and walker.tally.tile:  # decoupled look-back works on the scalar of a block
            return Value(kind="float", items=(Value(), Value()))
        walker.emit("scan", axes)
        return Value(
            axes, values[0].kind if values else "float", items=tuple(Value(v.axes, v.kind) for v in values) or None
        )
    reduced = reduced_axes(node, axes, values)
    kind = {"welford": "reduce_welford", "online_softmax_reduce": "reduce_softmax"}.get(name)
    if kind is None:
        kind = "reduce_sum" if name in SUMS else "reduce_index" if name in WITH_INDEX else "reduce_max"
    if values and values[0].kind == "double":
        kind += "64"
    walker.emit(kind, axes)
    if not walker.source.by_inductor and len(reduced) < len(axes):
        pass
    result = Value(axes - reduced, values[0].kind if values else "float")
    wide = 3 if name == "welford" else 2 if name in (*WITH_INDEX, "online_softmax_reduce") else 0
    if wide:
        result.items = tuple(Value(axes - reduced, result.kind) for _ in range(wide))
    return result


def reduced_axes(node: ast.Call, axes: frozenset[str], values: list[Value]) -> frozenset[str]:
    """Inductor reduces its ``r`` axes (along dimension 1 or 0 of the tile); a user's call the axis its position names."""
    split = axes & SPLIT_AXES
    axis = next(
        (k.value for k in node.keywords if k.arg in ("axis", "dim")), node.args[-1] if len(node.args) > 1 else None
    )
    place = axis.value if isinstance(axis, ast.Constant) and isinstance(axis.value, int) else None
    if split:
        return axes - split if place == 0 and axes - split and "x" in axes and len(axes) > 1 else split
    ordered = sorted(axes, key=lambda a: [int(p) for p in a.split("@")[-1].split(":")] if "@" in a else [0, 0])
    if place is None or not ordered:
        return axes
    return frozenset(ordered[place : place + 1] or ordered[-1:])


def where(walker: Walker, arguments: list[Value], axes: frozenset[str]) -> Value:
    test, first, second = arguments
    if test.const is True:
        return first
    walker.emit("where", axes)
    picked = first if first.const is None else second
    if picked.kind in INTEGER:
        if not axes and first.affine:
            return first
        atoms = {a for v in (first, second) for a in (v.terms or {}) if a.indirect}
        if atoms:  # the usual guard of a loaded index: where(i < 0, i + n, i)
            return Value(axes, picked.kind, {next(iter(atoms)): 1})
        return walker.opaque((first, second), axes)
    return Value(axes, picked.kind)


def dot(walker: Walker, arguments: list[Value]) -> Value:
    from ridgeline.roofline.walk import Dot

    if len(arguments) < 2:
        return Value()
    left, right = arguments[0], arguments[1]
    axes = left.axes | right.axes
    tile = walker.tally.tile
    size = {"half": 2, "eight": 1, "double": 8}.get(left.kind, 4)
    operands = sum(math.prod(tile.get(a, 1) for a in v.axes) * size for v in (left, right))
    element = {"half": "bf16", "eight": "fp8", "double": "fp64", "int": "int8"}.get(left.kind, "tf32")
    walker.tally.dots.append(Dot(2.0 * math.prod(tile.get(a, 1) for a in axes), element, walker.trips, operands))
    shared = left.axes & right.axes
    return Value(axes - shared if shared and axes - shared else axes, "float")


def folded(name: str, arguments: list[Value]) -> Value:
    known = [a.const for a in arguments]
    if name == "cdiv" and len(known) == 2 and all(isinstance(k, int) and k for k in known):
        return Value(kind="int", const=-(-known[0] // known[1]), terms={})
    if known and isinstance(known[0], int) and known[0] > 0:
        return Value(kind="int", const=1 << (known[0] - 1).bit_length(), terms={})
    return Value(kind="int")


def inline(walker: Walker, function: ast.FunctionDef, arguments: list[Value]) -> Value:
    """A call of another jit function of the same file: its body is walked with the arguments bound."""
    if walker.depth > 8:
        return Value(arguments[0].axes if arguments else frozenset())
    outer = walker.names
    walker.names = {**outer, **{a.arg: v for a, v in zip(function.args.args, arguments)}}
    walker.depth += 1
    result = Value()
    for statement in function.body:
        if isinstance(statement, ast.Return):
            result = walker.value(statement.value)
        else:
            walker.statement(statement)
    walker.depth -= 1
    walker.names = outer
    return result
