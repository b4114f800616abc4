"""Walks the text of a Triton kernel and notes its memory accesses, its operations and how often each happens.

Nothing is executed: loops are walked once with their trip count as a factor, branches on compile-time constants are
decided and others walked on both sides. What a call does is in :mod:`ridgeline.roofline.calls`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.roofline.source import KernelSource
from ridgeline.roofline.symbolic import INTEGER, KIND_OF, Access, Atom, Bound, Value, add, count_of, form

INDEX_NAME = re.compile(r"^(x|y|z|r\d*_?)index$")
NUMEL_NAME = re.compile(r"^(x|y|z|r\d*_?)numel$")
BLOCK_AXIS = {"XBLOCK": "x", "YBLOCK": "y", "ZBLOCK": "z", "RBLOCK": "r0_", "R0_BLOCK": "r0_", "R1_BLOCK": "r1_"}
FOLD: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
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
MAX_STATIC_TRIPS = 4096


@dataclass(slots=True)
class Operation:
    """``count`` instances of a kind of operation for every element of the tile over ``axes``, ``trips`` times."""

    name: str
    axes: frozenset[str]
    trips: int
    count: float = 1.0


@dataclass(slots=True)
class Dot:
    """A matrix product of tiles: 2 * rows * columns * depth FLOPs, ``trips`` times a program."""

    flops: float
    element: str
    trips: int
    operand_bytes: float


@dataclass(slots=True, kw_only=True)
class Tally:
    operations: list[Operation] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    tile: dict[str, int] = field(default_factory=dict)
    """Tile axis -> elements."""
    extent: dict[str, int] = field(default_factory=dict)
    """Tile axis -> elements of the whole problem, where known."""
    unknown: set[str] = field(default_factory=set)
    """Callees whose cost is not known: instruction counts are a lower bound."""


class Walker:
    """Fills a :class:`Tally`. ``scalars`` are values of run-time arguments, ``constants`` of compile-time ones."""

    def __init__(
        self,
        source: KernelSource,
        constants: Mapping[str, Any],
        scalars: Mapping[str, Any],
        grid: Sequence[int],
    ) -> None:
        self.source = source
        self.grid = [int(g) for g in grid] + [1, 1, 1]
        self.tally = Tally()
        self.names: dict[str, Value] = {}
        self.trips = 1
        self.depth = 0
        self.fresh = 0
        for argument in source.function.args.args:
            name = argument.arg
            declared = source.signature.get(name, "")
            value = constants.get(name, scalars.get(name))
            if declared.startswith("*"):
                element = declared.lstrip("*").removeprefix("k")
                self.names[name] = Value(pointer=name, kind="pointer", element=element, terms={})
            elif isinstance(value, (int, float)):
                fallback = "int" if isinstance(value, int) else "float"
                self.names[name] = Value(const=value, kind=KIND_OF.get(declared, fallback), terms={})  # type: ignore[arg-type]
            elif declared or not name.endswith("ptr"):
                self.names[name] = Value(kind=KIND_OF.get(declared, "int"), terms={})
            else:
                self.names[name] = Value(pointer=name, kind="pointer", terms={})
            self.note_size(name, value)

    def run(self) -> Tally:
        self.block(self.source.function.body)
        return self.tally

    def note_size(self, name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            return
        if name in BLOCK_AXIS:
            self.tally.tile[BLOCK_AXIS[name]] = value
        elif match := NUMEL_NAME.match(name):
            prefix = match.group(1)
            self.tally.extent["r0_" if prefix == "r" else prefix] = value

    def emit(self, name: str, axes: frozenset[str], count: float = 1.0) -> None:
        if count > 0:
            self.tally.operations.append(Operation(name, axes, self.trips, count))

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            left = ast.Name(id=node.target.id, ctx=ast.Load())
            self.assign(node.target, self.value(ast.BinOp(left=left, op=node.op, right=node.value)))
        elif isinstance(node, ast.Expr):
            self.value(node.value)
        elif isinstance(node, ast.For):
            self.loop(node)
        elif isinstance(node, ast.If):
            test = self.value(node.test)
            if isinstance(test.const, (bool, int)):
                self.block(node.body if test.const else node.orelse)
            else:
                self.block(node.body)
                self.block(node.orelse)
        elif isinstance(node, ast.While):
            self.block(node.body)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            items = value.items or ()
            for i, element in enumerate(target.elts):
                self.assign(element, items[i] if i < len(items) else Value(value.axes, value.kind))
            return
        if not isinstance(target, ast.Name):
            return
        match = INDEX_NAME.match(target.id) if self.source.by_inductor else None
        if match and value.axes:
            axis = "r0_" if match.group(1) == "r" else match.group(1)
            if axis in self.tally.extent:
                count = self.tally.extent[axis]
                atom = Atom(axis, count, value.axes, dict.fromkeys(value.axes, 1))
                value = Value(value.axes, "int", {atom: 1})
        self.note_size(target.id, value.const)
        self.names[target.id] = value

    def loop(self, node: ast.For) -> None:
        call = node.iter
        arguments = [self.value(a) for a in call.args] if isinstance(call, ast.Call) else []
        step = arguments[2].const if len(arguments) > 2 else 1
        low = arguments[0] if len(arguments) > 1 else Value(const=0, terms={})
        high = arguments[1] if len(arguments) > 1 else arguments[0] if arguments else Value()
        terms, length = add(high, low, -1)
        trips = 1
        if terms == {} and isinstance(step, int) and step > 0:
            trips = min(max(1, -(-length // step)), 1 << 40)
        self.depth += 1
        counter = Atom(f"loop{self.depth}:{node.lineno}", trips)
        base = form(low) or ({}, 0)
        if isinstance(node.target, ast.Name):
            scaled = step if isinstance(step, int) else 1
            loop_terms = {**base[0], counter: scaled} if trips > 1 else dict(base[0])
            self.names[node.target.id] = Value(frozenset(), "int", loop_terms, base[1])
        self.carry(node.body, counter)
        unrolled = isinstance(call, ast.Call) and ast.unparse(call.func).endswith("static_range")
        outer = self.trips
        self.trips = outer * trips
        if trips > 1 and not unrolled:
            self.emit("loop", frozenset())
        self.block(node.body)
        self.trips = outer
        self.depth -= 1

    def carry(self, body: Sequence[ast.stmt], counter: Atom) -> None:
        """Variables that a loop advances by a constant (``ptr += BLOCK``) move with its counter."""
        for statement in body:
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                known = self.names.get(statement.target.id)
                by = self.quiet(statement.value)
                if known is not None and known.terms is not None and isinstance(by.const, int) and counter.count > 1:
                    if self.source.by_inductor and INDEX_NAME.match(statement.target.id):
                        continue  # already stands for the whole extent
                    known.terms = {**known.terms, counter: int(by.const)}

    def quiet(self, node: ast.expr) -> Value:
        """The value of an expression, without noting its operations."""
        mark = len(self.tally.operations)
        value = self.value(node)
        del self.tally.operations[mark:]
        return value

    # expressions

    def value(self, node: ast.expr | None) -> Value:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, (bool, int, float)):
                kind = "bool" if isinstance(node.value, bool) else "int" if isinstance(node.value, int) else "float"
                return Value(kind=kind, const=node.value, terms={})  # type: ignore[arg-type]
            return Value(terms={})
        if isinstance(node, ast.Name):
            return self.names.get(node.id, Value(kind="int"))
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.BoolOp):
            values = [self.value(v) for v in node.values]
            axes = frozenset[str]().union(*(v.axes for v in values))
            self.emit("logic", axes, len(values) - 1)
            return Value(axes, "bool", bounds=sum((v.bounds for v in values), ()))
        if isinstance(node, ast.Call):
            from ridgeline.roofline.calls import call

            return call(self, node)
        if isinstance(node, ast.Subscript):
            inner = self.value(node.value)
            if inner.items is not None and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                return inner.items[node.slice.value] if node.slice.value < len(inner.items) else Value()
            return inner
        if isinstance(node, (ast.Tuple, ast.List)):
            items = tuple(self.value(e) for e in node.elts)
            axes = frozenset[str]().union(*(v.axes for v in items)) if items else frozenset[str]()
            return Value(axes, items[0].kind if items else "float", items=items)
        if isinstance(node, ast.IfExp):
            test = self.value(node.test)
            if isinstance(test.const, (bool, int)):
                return self.value(node.body if test.const else node.orelse)
            first, second = self.value(node.body), self.value(node.orelse)
            return Value(first.axes | second.axes, first.kind)
        return Value(kind="int")

    def unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            if isinstance(value.const, (int, float)):
                return Value(kind=value.kind, const=-value.const, terms={})
            return Value(value.axes, value.kind)  # a sign folds into the instruction that uses it
        if isinstance(node.op, ast.Not) and isinstance(value.const, (bool, int)):
            return Value(kind="bool", const=not value.const)
        if value.const is None:
            self.emit("logic", value.axes)
        return Value(value.axes, "bool" if value.kind == "bool" else value.kind)

    def comparison(self, node: ast.Compare) -> Value:
        left, right = self.value(node.left), self.value(node.comparators[0])
        axes = left.axes | right.axes
        test = type(node.ops[0])
        if isinstance(left.const, (int, float)) and isinstance(right.const, (int, float)) and test in COMPARE:
            return Value(kind="bool", const=COMPARE[test](left.const, right.const))
        bounds: tuple[Bound, ...] = ()
        if left.terms and isinstance(right.const, int) and test in (ast.Lt, ast.LtE, ast.GtE, ast.Gt):
            bounds = self.bound(left, int(right.const) - left.offset, test)
            if bounds and bounds[0].low <= 0 and bounds[0].high >= count_of(left.terms) and self.exact(left):
                return Value(axes, "bool", const=True)  # the mask never cuts: the compiler drops it
        if axes:
            integer = left.kind in INTEGER and right.kind in INTEGER
            self.emit("index_compare" if integer and left.affine else "compare", axes)
        return Value(axes, "bool", bounds=bounds)

    def exact(self, value: Value) -> bool:
        """Whether the tiles along the value's axes end exactly where the problem does."""
        for axis in value.axes:
            tile, extent = self.tally.tile.get(axis), self.tally.extent.get(axis)
            if tile is None or extent is None or extent % tile:
                return False
        return True

    @staticmethod
    def bound(left: Value, limit: int, test: type) -> tuple[Bound, ...]:
        terms = tuple(sorted((left.terms or {}).items(), key=lambda t: t[0].name))
        everything = 1 << 62
        if test in (ast.Lt, ast.LtE):
            return (Bound(terms, 0, limit + (test is ast.LtE)),)
        low = limit + (test is ast.Gt)
        count = count_of(left.terms or {})
        return (Bound(terms, low, count),) if low > 0 else (Bound(terms, 0, everything),)

    def binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        kind = type(node.op)
        if isinstance(left.const, (int, float)) and isinstance(right.const, (int, float)) and kind in FOLD:
            try:
                result = FOLD[kind](left.const, right.const)
            except (ZeroDivisionError, TypeError, ValueError, OverflowError):
                return Value()
            return Value(kind=left.kind if left.kind != "int" else right.kind, const=result, terms={})
        axes = left.axes | right.axes
        if left.pointer or right.pointer:
            base, moved = (left, right) if left.pointer else (right, left)
            terms, offset = add(base, moved, -1 if kind is ast.Sub else 1)
            return Value(axes, "pointer", terms, offset, pointer=base.pointer, element=base.element)
        if kind is ast.BitAnd and left.kind == "bool" and right.kind == "bool":
            if left.const is True:
                return right
            if right.const is True:
                return left
            self.emit("logic", axes, 1.0 if axes else 0.0)
            return Value(axes, "bool", bounds=left.bounds + right.bounds)
        if left.kind in INTEGER and right.kind in INTEGER and (left.affine or right.affine):
            return self.index_arithmetic(node.op, left, right)
        return self.arithmetic(kind, left, right)

    def index_arithmetic(self, op: ast.operator, left: Value, right: Value) -> Value:
        """Integer arithmetic on indices: kept affine where it is; divisions by constants make atoms."""
        axes = left.axes | right.axes
        kind = "long" if "long" in (left.kind, right.kind) else "int"
        if isinstance(op, (ast.Add, ast.Sub)):
            terms, offset = add(left, right, 1 if isinstance(op, ast.Add) else -1)
            constant = left.const is not None or right.const is not None
            self.emit("index_add", axes, (0.3 if constant else 1.0) if axes else 0.0)
            if terms is not None:
                return Value(axes, kind, terms, offset)  # type: ignore[arg-type]
        elif isinstance(op, ast.Mult):
            factor, other = (left, right) if isinstance(left.const, int) else (right, left)
            known = form(other)
            if isinstance(factor.const, int) and known is not None:
                self.emit("index_multiply", axes, 0.5 if axes else 0.0)
                by = int(factor.const)
                terms = {a: c * by for a, c in known[0].items()} if by else {}
                return Value(axes, kind, terms, known[1] * by)  # type: ignore[arg-type]
            self.emit("index_multiply", axes, 1.0 if axes else 0.0)
        elif isinstance(op, (ast.FloorDiv, ast.Mod)) and isinstance(right.const, int) and right.const > 0:
            divisor = int(right.const)
            power = divisor & (divisor - 1) == 0
            self.emit("index_shift" if power else "index_divide", axes, 1.0 if axes else 0.0)
            known = form(left)
            if known is not None:
                return self.divided(isinstance(op, ast.Mod), known, divisor, axes)
        else:
            self.emit("index_shift", axes, 1.0 if axes else 0.0)
        return self.opaque((left, right), axes)

    def divided(self, modulo: bool, known: tuple[dict[Atom, int], int], divisor: int, axes: frozenset[str]) -> Value:
        terms, offset = known
        text = "+".join(f"{c}*{a.name}" for a, c in sorted(terms.items(), key=lambda t: t[0].name)) + f"+{offset}"
        reach = offset + sum(c * (a.count - 1) for a, c in terms.items() if c > 0)
        whole = count_of(terms)
        count = min(divisor, whole) if modulo else min(max(1, reach // divisor + 1), whole)
        steps = {x: sum(c * a.steps.get(x, 0) for a, c in terms.items()) for x in axes}
        periods: dict[str, int] = {}
        for axis, step in steps.items():
            inner = math.gcd(*(a.periods.get(axis, 0) for a in terms)) if terms else 0
            here = divisor // step if step and divisor % step == 0 else 1 if step and step % divisor else 0
            periods[axis] = math.gcd(inner, here)
        if not modulo:
            steps = {x: s // divisor if s % divisor == 0 else 0 for x, s in steps.items()}
        indirect = any(a.indirect for a in terms)
        atom = Atom(f"({text}){'%' if modulo else '//'}{divisor}", count, axes, steps, periods, indirect)
        return Value(axes, "int", {atom: 1})

    def opaque(self, values: Sequence[Value], axes: frozenset[str], loaded: bool = False) -> Value:
        """An index whose form is lost: it takes at most as many values as what it is made of."""
        self.fresh += 1
        count = 1
        atoms: dict[Atom, int] = {}
        for value in values:
            atoms.update((value.terms or {}) if value.const is None else {})
        count = math.prod(max(1, a.count) for a in atoms) if atoms else 1
        extent = math.prod(self.tally.extent.get(a, self.tally.tile.get(a, 1)) for a in axes)
        indirect = loaded or any(a.indirect for a in atoms)
        atom = Atom(
            f"?{self.fresh}", max(1, min(count, extent) if atoms else extent), axes, {}, {}, indirect or not atoms
        )
        return Value(axes, "int", {atom: 1})

    def arithmetic(self, kind: type, left: Value, right: Value) -> Value:
        axes = left.axes | right.axes
        kinds = (left.kind, right.kind)
        result: Any = next((k for k in ("double", "float", "half", "long", "int", "bool") if k in kinds), "float")
        if result == "half":
            result = "float" if "float" in kinds else "half"
        name = "float"
        if kind in (ast.Div, ast.FloorDiv, ast.Mod):
            constant = isinstance(right.const, (int, float))
            name = ("divide_constant" if constant else "divide") if kind is ast.Div else "integer_divide"
            if kind is ast.Div and result in ("int", "long"):
                result = "float"
            if kind is not ast.Div and result in ("float", "half"):
                name = "divide"
        elif kind in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift):
            name = "logic"
        elif kind is ast.Pow:
            name = "pow"
        elif result in INTEGER:
            name = "integer" if result == "int" else "integer64"
        if result == "double":
            name = "double_divide" if name.startswith("divide") else "double"
        if axes or name != "logic":
            self.emit(name, axes)
        if name in ("integer", "integer64", "logic", "integer_divide") and result in INTEGER:
            return self.opaque((left, right), axes)
        return Value(axes, result)
