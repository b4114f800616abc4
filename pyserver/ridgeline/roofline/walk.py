"""Walks the text of a Triton kernel and notes its memory accesses, its operations and how often each happens.

Nothing is executed: loops are walked once with their trip count as a factor, branches on compile-time constants are
decided and others walked on both sides. What the compiler would do is followed where it matters: an expression that was
computed already costs nothing, one that does not vary in a loop is computed before it, neighbours that are equal are
computed once. Expressions are in :mod:`ridgeline.roofline.expressions`, calls in :mod:`ridgeline.roofline.calls`.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.roofline.source import KernelSource, parameters
from ridgeline.roofline.symbolic import KIND_OF, Access, Atom, Descriptor, Kind, Value, add, form, truth
from ridgeline.roofline.tally import Operation, Tally

INDEX_NAME = re.compile(r"^(x|y|z|r\d*_?)index$")
NUMEL_NAME = re.compile(r"^(x|y|z|r\d*_?)numel$")
BRANCHED = {"sqrt_rn", "sin", "fmod", "pow", "double_sqrt", "double_divide", "double_pow"}
"""Operations with a path for rare operands: equal ones behind it are not found any more, and done for each element."""
BLOCK_AXIS = {"XBLOCK": "x", "YBLOCK": "y", "ZBLOCK": "z", "RBLOCK": "r0_", "R0_BLOCK": "r0_", "R1_BLOCK": "r1_"}


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
        halves = {kind.lstrip("*k") for kind in source.signature.values()} & {"fp16", "bf16"}
        self.tally = Tally(fp16=halves == {"fp16"})
        self.names: dict[str, Value] = {}
        self.trips: list[float] = [1]
        """Times that the body of each enclosing loop runs, outermost first; for parts of a kernel that only some programs
        execute, their share."""
        self.passed = 0
        """Programs that parts before have taken."""
        self.loops = [0]
        """Number of each of them."""
        self.seen: set[Any] = set()
        """Keys of what has been computed."""
        self.discarded: Counter[str] = Counter()
        self.loaded: dict[str, Access] = {}
        """Variable -> the load that made it."""
        self.updates: set[Any] = set()
        """Keys of what Welford's updates give."""
        self.numbers: dict[Any, int] = {}
        """Value numbers: keys made of keys are replaced by a number, or their length would double with every use."""
        self.fresh = 0
        self.places: dict[str, int] = {}
        """Axis -> its position in the shape of a tile, as a subscript (``i[:, None]``) gives it."""
        self.calls = 0
        from ridgeline.roofline.blocks import of_host

        for name, value in source.globals.items():
            self.names[name] = Value(const=value, kind="int" if isinstance(value, int) else "float", terms={})
        pointers = set() if source.signature else pointer_parameters(source.function)
        for argument in parameters(source.function):
            name = argument.arg
            declared = source.signature.get(name, "")
            value = constants.get(name, scalars.get(name))
            if declared.startswith("*"):
                element = declared.lstrip("*").removeprefix("k")
                base = Value(pointer=name, kind="pointer", element=element, terms={}, key=name)
                self.names[name] = of_host(self, base, value) if isinstance(value, Descriptor) else base
            elif isinstance(value, (int, float)):
                fallback = "int" if isinstance(value, int) else "float"
                kind: Kind = KIND_OF.get(declared, fallback)  # type: ignore[arg-type]  # both are kinds
                run_time = name not in constants
                self.names[name] = Value(const=value, kind=kind, terms={}, key=value, run_time=run_time)
            elif value is not None:
                self.names[name] = Value(const=value, terms={}, key=value)
            elif declared or not (name in pointers or name.endswith("ptr")):
                self.names[name] = Value(kind=KIND_OF.get(declared, "int"), terms={}, key=name)
            else:
                self.names[name] = Value(pointer=name, kind="pointer", terms={}, key=name)
            self.note_size(name, value)

    def run(self) -> Tally:
        self.block(self.source.function.body)
        self.drop_unused()
        return self.tally

    def discard(self, node: ast.expr) -> None:
        """A value that a choice which is decided leaves out."""
        if isinstance(node, ast.Name):
            self.discarded[node.id] += 1

    def drop_unused(self) -> None:
        """What is loaded and only left out of choices is not loaded."""
        uses = Counter(
            n.id for n in ast.walk(self.source.function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        )
        for name, count in self.discarded.items():
            access = self.loaded.get(name)
            if access is not None and count == uses[name] and access in self.tally.accesses:
                self.tally.accesses.remove(access)

    def number(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    @property
    def level(self) -> int:
        return len(self.trips) - 1

    def note_size(self, name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            return
        if name in BLOCK_AXIS:
            self.tally.tile[BLOCK_AXIS[name]] = value
        elif match := NUMEL_NAME.match(name):
            prefix = match.group(1)
            self.tally.extent["r0_" if prefix == "r" else prefix] = value

    def apply(
        self,
        name: str,
        operands: Sequence[Value],
        count: float = 1.0,
        atom: str | None = None,
        tag: Any = None,
        same: Any = None,
    ) -> Value:
        """The float-valued result of an operation on ``operands``, noted unless the same was computed before: one of the same operands,
        or what ``same`` says it amounts to."""
        for operand in operands:
            self.settle(operand)
            if operand.raw is not None:
                raw, operand.raw = operand.raw, None
                self.apply("logic" if raw.kind == "bool" else "widen", [raw])
        axes = frozenset[str]().union(*(v.axes for v in operands))
        hold = {}
        for axis in axes:
            length = math.gcd(*(v.hold.get(axis, 1) for v in operands if axis in v.axes))
            if length > 1:
                hold[axis] = length
        level = min(max((v.level for v in operands), default=0), self.level)
        sliced = any(v.sliced and v.axes for v in operands)
        of_load = any(v.of_load for v in operands)
        if of_load and name in BRANCHED:
            hold = {}
        made_of = [(v.kind, v.const) if v.const is not None else v.key for v in operands] if same is None else [same]
        key = self.number((name, tag, *made_of))
        if key not in self.seen and count > 0:
            self.seen.add(key)
            trips = math.prod(self.trips[: level + 1])
            operation = Operation(
                name,
                axes,
                trips,
                count,
                hold,
                atom,
                sliced=sliced,
                loop=self.loops[level],
                after=len(self.tally.accesses),
            )
            self.tally.operations.append(operation)
        return Value(axes, hold=hold, level=level, key=key, sliced=sliced, of_load=of_load)

    def settle(self, value: Value) -> None:
        """Notes what was put off: the value is needed as it stands."""
        if value.byte:
            value.byte = False
            self.apply("unpack", [replace(value, key=(value.key, "byte"))], 0.5)
        if value.halves:
            halves, value.halves = value.halves, ()
            self.apply("float", halves, 0.0 if any(h.product for h in halves) else 1.0, tag=value.key)

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            count = len(self.tally.accesses)
            value = self.value(node.value)
            if len(self.tally.accesses) == count + 1 and isinstance(node.targets[0], ast.Name):
                self.loaded[node.targets[0].id] = self.tally.accesses[-1]
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
            if test.const is not None:
                self.block(node.body if truth(test) else node.orelse)
            elif (share := self.share_of(node.test)) is not None:
                self.part(node.body, share)
                self.part(node.orelse, 1.0 - share)
            else:
                self.block(node.body)
                self.block(node.orelse)
        elif isinstance(node, ast.While):
            self.tally.open_loop = True
            self.block(node.body)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            items = value.items or ()
            for i, element in enumerate(target.elts):
                self.assign(element, items[i] if i < len(items) else Value(value.axes, value.kind, level=value.level))
            return
        if not isinstance(target, ast.Name):
            return
        match = INDEX_NAME.match(target.id) if self.source.by_inductor else None
        if match and value.axes:
            axis = "r0_" if match.group(1) == "r" else match.group(1)
            if axis in self.tally.extent:
                count = self.tally.extent[axis]
                atom = Atom(axis, count, value.axes, dict.fromkeys(value.axes, 1))
                value = Value(value.axes, "int", {atom: 1}, level=self.level, key=(target.id, self.level))
        self.note_size(target.id, value.const)
        self.names[target.id] = value

    def loop(self, node: ast.For) -> None:
        call = node.iter
        arguments = [self.value(a) for a in call.args] if isinstance(call, ast.Call) else []
        step = arguments[2].const if len(arguments) > 2 else 1
        low = arguments[0] if len(arguments) > 1 else Value(const=0, terms={})
        high = arguments[1] if len(arguments) > 1 else arguments[0] if arguments else Value()
        if isinstance(step, int) and step < 0:  # counts down
            low, high, step = high, low, -step
        terms, length = add(high, low, -1)
        trips = most = 1
        bounds = (low, high)
        if terms is not None and isinstance(step, int) and step > 0 and closed(terms) and all(map(is_known, bounds)):
            most = length + sum(max(0, c * (a.count - 1)) for a, c in terms.items())
            mean = length + sum(c * (a.count - 1) / 2 for a, c in terms.items())
            most = min(max(1, -(-most // step)), 1 << 40)
            # Programs that begin or end elsewhere (tiles dealt out in turn, a triangle of scores) run it another time.
            trips = min(most, max(1, round(mean / step))) if terms else most
        else:
            self.tally.open_loop = True
        counter = Atom(f"loop{node.lineno}", most)
        base = form(low) or ({}, 0)
        unrolled = isinstance(call, ast.Call) and ast.unparse(call.func).endswith("static_range")
        outer = self.seen
        self.seen = set(outer)
        self.trips.append(trips)
        self.loops.append(self.fresh_loop(trips) if trips > 1 and not unrolled else self.loops[-1])
        if trips > 1 and not unrolled:
            self.apply("loop", [Value(level=self.level)])
        if isinstance(node.target, ast.Name):
            scaled = step if isinstance(step, int) else 1
            loop_terms = {**base[0], counter: scaled} if most > 1 else dict(base[0])
            self.names[node.target.id] = Value(frozenset(), "int", loop_terms, base[1], level=self.level)
        self.carry(node.body, counter)
        self.block(node.body)
        self.trips.pop()
        self.loops.pop()
        self.seen = outer

    def share_of(self, test: ast.expr) -> float | None:
        """Share of the programs, of those that come here, for which ``program < number`` holds: several kernels in one."""
        if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt)):
            return None
        left, limit = form(self.quiet(test.left)), self.quiet(test.comparators[0]).const
        if left is None or not isinstance(limit, int) or left[1] or list(left[0].values()) != [1]:
            return None
        (program,) = left[0]
        if not program.name.startswith("program"):
            return None
        share = max(0.0, min(limit, program.count) - self.passed) / max(1, program.count - self.passed)
        self.passed = limit
        return min(1.0, share)

    def part(self, statements: Sequence[ast.stmt], share: float) -> None:
        """Statements that only some of the programs execute."""
        outer, self.seen = self.seen, set(self.seen)
        self.trips.append(share)
        self.loops.append(self.loops[-1])
        self.block(statements)
        self.trips.pop()
        self.loops.pop()
        self.seen = outer

    def fresh_loop(self, trips: int) -> int:
        number = 1 + len(self.tally.loops)
        self.tally.loops[number] = trips
        return number

    def carry(self, body: Sequence[ast.stmt], counter: Atom) -> None:
        """What a loop assigns anew varies in it; variables that it advances by a constant (``ptr += BLOCK``) move with
        its counter."""
        for statement in body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for target in targets:
                for name in ast.walk(target):
                    known = self.names.get(name.id) if isinstance(name, ast.Name) else None
                    if known is not None and isinstance(name, ast.Name) and not fixed(known):
                        self.names[name.id] = self.advancing(name.id, replaced(known, self.level), statement, counter)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                name_of = statement.target.id
                known = self.names.get(name_of)
                by = self.quiet(statement.value)
                if known is None or (self.source.by_inductor and INDEX_NAME.match(name_of)):
                    continue  # an index already stands for the whole extent
                moved = replaced(known, self.level)
                if known.terms is not None and isinstance(by.const, int) and counter.count > 1:
                    moved.terms = {**known.terms, counter: int(by.const)}
                self.names[name_of] = moved

    def advancing(self, name: str, value: Value, statement: ast.stmt, counter: Atom) -> Value:
        """A block pointer that the body advances by a constant moves with the loop's counter."""
        from ridgeline.roofline.blocks import moved

        call = statement.value if isinstance(statement, ast.Assign) else None
        if not (isinstance(call, ast.Call) and ast.unparse(call.func).endswith("advance") and len(call.args) > 1):
            return value
        if value.block is None or ast.unparse(call.args[0]) != name or counter.count <= 1:
            return value
        steps = self.quiet(call.args[1]).items or ()
        return moved(value, [s.const if isinstance(s.const, int) else None for s in steps], counter)

    def quiet(self, node: ast.expr) -> Value:
        """The value of an expression, without noting what it does."""
        tally = self.tally
        noted: tuple[list[Any], ...] = (tally.operations, tally.accesses, tally.dots)
        marks, seen = [len(one) for one in noted], set(self.seen)
        value = self.value(node)
        for one, mark in zip(noted, marks):
            del one[mark:]
        self.seen = seen
        return value

    def value(self, node: ast.expr | None) -> Value:
        from ridgeline.roofline.expressions import evaluate

        return evaluate(self, node)


def fixed(value: Value) -> bool:
    """Whether it is a whole number that is known, such as a size: what else a loop assigns anew is another on every trip."""
    return value.const is not None and value.kind not in ("float", "half", "double")


def is_known(value: Value) -> bool:
    """Whether a uniform number is known, or is made of the program's number."""
    program = isinstance(value.key, tuple) and value.key[:1] == ("program_id",)
    return value.const is not None or bool(value.terms) or program


def closed(terms: Mapping[Atom, int]) -> bool:
    """Whether every atom takes the values 0 … count-1, so that a mean can be formed."""
    return not any(a.indirect or a.axes or a.name.startswith(("?", "*")) for a in terms)


def pointer_parameters(function: ast.FunctionDef) -> set[str]:
    """Arguments that are what a load or store starts from: the first term of its address, directly or through variables."""
    assigned: dict[str, list[ast.expr]] = {}
    starts: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).split(".")[-1]
            if (
                called in ("load", "store")
                or called.startswith("atomic_")
                or called in ("make_block_ptr", "make_tensor_descriptor")
            ):
                starts.append(node.args[0])
    found: set[str] = set()
    seen: set[str] = set()
    while starts:
        node = starts.pop()
        while isinstance(node, (ast.BinOp, ast.Call)):
            if isinstance(node, ast.BinOp):
                node = node.left
            elif isinstance(node.func, ast.Attribute) and node.args:  # tl.advance(pointer, …), pointer.to(…)
                node = node.args[0] if ast.unparse(node.func.value) in ("tl", "triton.language") else node.func.value
            else:
                break
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            found.add(node.id)
            starts += assigned.get(node.id, [])
    return found & {a.arg for a in parameters(function)}


def replaced(value: Value, level: int) -> Value:
    """The same variable as a loop body sees it: another value on every trip."""
    return Value(
        value.axes, value.kind, value.terms, value.offset, None, value.pointer, value.element, value.bounds, value.items, {}, level,
        block=value.block,
    )  # fmt: skip
