"""Loops as the program's text writes them: what encloses a statement, and whether a round needs the one before.

A round of ``alpha = f(alpha, e)`` needs the one before: no rounds can be computed at once. A round of ``total = total + f(x[i])`` does
not: its sum can be taken afterwards. The two look the same in a recording.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Node = ast.For | ast.AsyncFor | ast.While | Comprehension

SUMS = (ast.Add, ast.Sub, ast.Mult, ast.BitOr, ast.BitAnd)
"""Of all rounds at once: ``sum``, ``prod``, ``any``, ``all``."""
EXTREMES = ("max", "min", "maximum", "minimum", "logaddexp")
COLLECTING = ("append", "extend", "add", "update", "insert", "add_", "sub_")
"""Methods that add a round's result to what is there."""
WRITING = ("copy_", "zero_", "fill_")
"""Methods that write without reading."""
MARKING = ("requires_grad_", "detach_", "retain_grad_", "share_memory_")
TRAINING = ("backward", "step", "zero_grad")
"""Methods that are called in a program's own loop, of which a round is a step."""
MODULES = ("torch", "nn", "F", "np", "numpy", "init")
PASSED = ("enumerate", "zip", "reversed", "list", "tuple", "iter")
CHUNKS = ("split", "chunk", "tensor_split", "array_split", "unfold")
"""What cuts into pieces of several rows: those are batches, or keep the memory down."""


class Loop:
    def __init__(self, node: Node, first: int, last: int) -> None:
        self.node = node
        self.first, self.last = first, last
        """Lines of what is repeated; those of a comprehension whole, for a line has no smaller part."""

    @cached_property
    def _body(self) -> _Body | None:
        return None if isinstance(self.node, Comprehension) else _Body(self.node)

    @cached_property
    def carried(self) -> frozenset[str]:
        """Names whose value a round takes from the one before."""
        return frozenset(self._body.carried if self._body else ())

    @cached_property
    def dependent(self) -> frozenset[int]:
        """Lines of the body's statements that need the round before, directly or by what another of them made."""
        return frozenset(self._body.dependent if self._body else ())

    @cached_property
    def is_training(self) -> bool:
        """Whether it is a loop over steps, or over parts of one step's batch that keep the memory down."""
        return any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in TRAINING
            for n in ast.walk(self.node)
        )

    @cached_property
    def over_parts(self) -> bool:
        """Whether the text lets it go over the parts of tensors one by one: ``for t, m in zip(times, marks)``, ``for row in x.unbind(0)``,
        ``for i in range(n)`` with ``x[i]`` in the body; not over pieces of several rows, and not with other weights each time
        (``heads[i](x[i])``). That they are tensors, only the recording can tell."""
        return any(self._goes_over_parts(target, it) for target, it in _heads(self.node))

    def _goes_over_parts(self, target: ast.expr, it: ast.expr) -> bool:
        names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        inside = [n for part in _repeated(self.node) for n in ast.walk(part)]
        if any(isinstance(n, ast.Call) and _root(n.func) in names and not _of_tensor(n) for n in inside):
            return False  # ``head(x) for head in heads``
        called = _called(it)
        while called in PASSED and isinstance(it, ast.Call) and len(it.args) == 1:
            it = it.args[0]
            called = _called(it)
        if called in CHUNKS or any(_called(a) in CHUNKS for a in getattr(it, "args", ())):
            return False
        if called == "range" and isinstance(it, ast.Call):
            plain = len(it.args) < 3
            return plain and any(isinstance(n, ast.Subscript) and _takes_row(n, names) for n in inside)
        return called in (None, "zip", "unbind")


class Loops:
    """The loops of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    @cached_property
    def all(self) -> list[Loop]:
        """Outer ones before those within."""
        found = [_loop(node) for node in ast.walk(self._tree) if isinstance(node, Node)]
        return sorted(found, key=lambda x: (x.first, -x.last, x.node.col_offset))

    def around(self, line: int) -> list[Loop]:
        """The loops that repeat a line of the function that it is in, innermost first."""
        function = max((f for f in self._functions if f[0] <= line <= f[1]), default=(0, 0))
        return [x for x in reversed(self.all) if x.first <= line <= x.last and x.first >= function[0]]

    @cached_property
    def _functions(self) -> list[tuple[int, int]]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [(n.lineno, n.end_lineno or n.lineno) for n in ast.walk(self._tree) if isinstance(n, kinds)]


def _loop(node: Node) -> Loop:
    if isinstance(node, Comprehension):
        return Loop(node, node.lineno, node.end_lineno or node.lineno)
    return Loop(node, node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno)


def _heads(node: Node) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, what it goes over)"""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.target, node.iter
    elif isinstance(node, Comprehension):
        yield from ((g.target, g.iter) for g in node.generators)


def _repeated(node: Node) -> list[ast.AST]:
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return [*node.body]
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _called(node: ast.AST) -> str | None:
    """The name of the function or method that is called, None where it is no call."""
    if not isinstance(node, ast.Call):
        return None
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _of_tensor(call: ast.Call) -> bool:
    """``w.abs()``: a method of the part itself, not the part as a function or ``heads[i](…)``."""
    return isinstance(call.func, ast.Attribute)


def _root(node: ast.expr) -> str:
    """The name that an expression of attributes and subscripts begins with; of ``heads[i]`` it is ``i``, which varies."""
    if isinstance(node, ast.Subscript):
        return _root(node.slice) if isinstance(node.slice, ast.Name) else _root(node.value)
    if isinstance(node, ast.Attribute):
        return _root(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def _takes_row(node: ast.Subscript, names: set[str]) -> bool:
    """``x[i]``, ``x[i, …]``"""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    return isinstance(first, ast.Name) and first.id in names


def _dotted(node: ast.AST) -> str | None:
    """``x`` or ``self.x.y``"""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        above = _dotted(node.value)
        return f"{above}.{node.attr}" if above else None
    return None


class _Read(NamedTuple):
    name: str
    first: bool
    """Whether the round has not written it yet: its value is that of the round before."""
    as_index: bool
    """Within a subscript."""
    value: bool
    """Whether its value enters: not as an index, in a comparison, in a sum of all rounds or through a selection of itself."""
    by: frozenset[str]
    """Names that the statement assigns."""


class _Body:
    """What one round of a loop reads before it writes it."""

    def __init__(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        self._reads: list[_Read] = []
        self._stored: dict[str, set[str]] = {}
        """Tensors and lists that rounds write to, by the places that they write to (``out[t]``)."""
        self._loads: list[tuple[str, str]] = []
        self._plain: dict[str, bool] = {}
        """Names, and whether all that the body does to them is to count (``i += 1``) or to leave some out (``order = order[1:]``)."""
        local = {n for part in node.body for c in ast.walk(part) if isinstance(c, Comprehension) for n in _bound(c)}
        self._assigned = {name for part in node.body for name in _assigned(part)} - local
        start = _assigned(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else []
        self._targets = set(start)
        self._needs: list[tuple[ast.stmt, set[str], set[str]]] = []
        self._block(node.body, set(start))

    @cached_property
    def carried(self) -> set[str]:
        indexes = self._indexes()
        by_name = {r.name for r in self._reads if r.first and r.value and not (r.by and r.by <= indexes)}
        by_name -= {name for name, plain in self._plain.items() if plain}
        rows = {
            name
            for name, place in self._loads
            if place not in self._stored.get(name, {place}) and name not in self._targets
        }
        return by_name | rows

    def _indexes(self) -> set[str]:
        """Names that are positions and nothing else (``x[lo:hi]; lo = hi``): a round does not wait for the values of the one before."""
        found = {r.name for r in self._reads if r.as_index}
        while wrong := {r.name for r in self._reads if r.name in found and r.value and not (r.by and r.by <= found)}:
            found -= wrong
        return found

    @cached_property
    def dependent(self) -> set[int]:
        tainted, lines = set(self.carried), set[int]()
        for _ in range(2):  # the second time for what a later statement made
            for statement, reads, writes in self._needs:
                if reads & tainted:
                    tainted |= writes
                    lines |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        return lines

    def _block(self, body: Iterable[ast.stmt], written: set[str]) -> None:
        for statement in body:
            self._statement(statement, written)

    def _statement(self, statement: ast.stmt, written: set[str]) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if isinstance(statement, ast.If):
            branches = []
            for branch in (statement.body, statement.orelse):
                branches.append(set(written))
                self._block(branch, branches[-1])
            written |= branches[0] & branches[1]
            return
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self._uses(statement, [statement.iter], [], written)
            written |= set(_assigned(statement.target))
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)):
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                written |= {n for item in statement.items if item.optional_vars for n in _assigned(item.optional_vars)}
            self._block(statement.body, written)
            return
        if isinstance(statement, ast.Try):
            self._block([*statement.body, *statement.orelse, *statement.finalbody], written)
            return
        targets = _targets(statement)
        value = getattr(statement, "value", None)
        self._uses(statement, [value] if isinstance(value, ast.AST) else [], targets, written)
        written |= {name for target in targets for name in _assigned(target)}

    def _uses(self, statement: ast.stmt, values: list[ast.AST], targets: list[ast.expr], written: set[str]) -> None:
        writes = {name for target in targets for name in _assigned(target)}
        indexes = {
            id(n) for v in values for s in ast.walk(v) if isinstance(s, ast.Subscript) for n in ast.walk(s.slice)
        }
        compared = {id(n) for v in values for s in ast.walk(v) if isinstance(s, ast.Compare) for n in ast.walk(s)}
        sums = {id(n) for n in _added_up(statement, writes)}
        reads: set[str] = set()
        changed: set[str] = set()
        for node in (n for value in values for n in ast.walk(value)):
            name = _dotted(node)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and id(node) not in indexes:
                self._loads.append((_dotted(node.value) or "", ast.unparse(node.slice)))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self._method(node.func, written)
                if node.func.attr in COLLECTING and (base := _dotted(node.func.value)):
                    changed.add(base)
            if name is None or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            reads.add(name)
            if name in self._assigned:
                enters = id(node) not in indexes | compared | sums
                self._reads.append(_Read(name, name not in written, id(node) in indexes, enters, frozenset(writes)))
        if isinstance(statement, ast.AugAssign):
            self._augmented(statement, written)
        for name in writes:
            self._plain[name] = self._plain.get(name, True) and _is_plain(statement, name)
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Subscript) and (base := _dotted(node.value)):
                    self._stored.setdefault(base, set()).add(ast.unparse(node.slice))
                    writes.add(base)
        self._needs.append((statement, reads, writes | changed))

    def _augmented(self, statement: ast.AugAssign, written: set[str]) -> None:
        """``x += e`` reads x, but takes no more than its sum."""
        name = _dotted(statement.target)
        if name and not isinstance(statement.op, SUMS):
            self._reads.append(_Read(name, name not in written, False, True, frozenset((name,))))

    def _method(self, function: ast.Attribute, written: set[str]) -> None:
        """Methods that change what they are called on."""
        name = _dotted(function.value)
        if not name or name in written or name in self._assigned or name.split(".")[0] in MODULES:
            return
        if function.attr in ("append", "insert"):
            self._stored.setdefault(name, set()).add(f".{function.attr}")
        elif (
            function.attr.endswith("_")
            and not function.attr.endswith("__")
            and function.attr not in (*COLLECTING, *WRITING, *MARKING)
        ):
            self._loads.append((name, f".{function.attr}"))
            self._stored.setdefault(name, set())


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


def _assigned(node: ast.AST) -> list[str]:
    """Names, dotted ones too, that are bound in a piece of text."""
    found = [_dotted(n) for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store)]
    return [name for name in found if name]


def _bound(node: Comprehension) -> list[str]:
    """Names of a comprehension's own."""
    return [name for g in node.generators for name in _assigned(g.target)]


def _is_plain(statement: ast.stmt, name: str) -> bool:
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign):
        return isinstance(value, ast.Constant)
    if isinstance(value, ast.BinOp):
        return _dotted(value.left) == name and isinstance(value.right, ast.Constant)
    inner = value
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    return inner is not value and inner is not None and _dotted(inner) == name


def _added_up(statement: ast.stmt, writes: set[str]) -> Iterator[ast.AST]:
    """Where a statement reads what it assigns without needing its value: the summands of ``x = x + e``, the selection ``x = x[1:]``, the
    greatest so far."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or value is None:
        return
    while isinstance(value, ast.Subscript):
        value = value.value
    found = list(_summands(value))
    if isinstance(value, ast.Call) and _called(value) in EXTREMES:
        found += value.args
    yield from (n for n in found if _dotted(n) in writes)


def _summands(value: ast.AST) -> Iterator[ast.AST]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, SUMS):
        first = value
        yield from _of_chain(first, type(first.op) in (ast.Add, ast.Sub))
    else:
        yield value


def _of_chain(value: ast.AST, adding: bool) -> Iterator[ast.AST]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, SUMS) and (type(value.op) in (ast.Add, ast.Sub)) == adding:
        yield from _of_chain(value.left, adding)
        yield from _of_chain(value.right, adding)
    else:
        yield value
