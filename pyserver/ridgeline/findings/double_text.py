"""Where a program's text makes the doubles that a statement computes on: ``torch.from_numpy``, ``.double()``, ``dtype=torch.float64``.
Read, never run. What cannot be followed is not known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ridgeline.findings.arrays import is_array
from ridgeline.findings.code import statement_at
from ridgeline.findings.numbers import Function

DEPTH = 6
"""Of following what is assigned from what, and what functions are given."""
FROM_ARRAYS = ("from_numpy",)
OF_DATA = ("tensor", "as_tensor", "asarray")
"""What is double if it is made of an array; of Python's numbers these make float32."""
TORCH = ("torch", "nn", "F")
SINGLE = (
    "float",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "bool",
    "argmax",
    "argmin",
    "argsort",
    "size",
    "numel",
    "item",
    "tolist",
    "numpy",
    "type_as",
)
"""Methods whose result is no double tensor."""
DOUBLES = ("float64", "double")
OTHERS = re.compile(r"b?float(16|32)?|half|single|u?int\d*|long|bool_?|dtype")
"""Types that are not double, and that of something else. The built-in ``float`` as a type is double to NumPy and to torch."""

Scope = list[ast.AST]
"""A statement's functions, innermost first, and the module."""


def makers(tree: ast.Module, line: int) -> list[int]:
    """Lines on which doubles are made that the statement at a line computes on, in the order in which it names them; without
    its own line."""
    statement = statement_at(tree, line)
    if statement is None:
        return []
    reader = _Reader(tree)
    scope = reader.scope_of(statement)
    names = [n for part in _computed(statement) for n in ast.walk(part) if isinstance(n, (ast.Name, ast.Attribute))]
    names = [n for n in names if isinstance(n.ctx, ast.Load)]
    found: dict[int, None] = {}
    for name in sorted(names, key=lambda n: (n.lineno, n.col_offset)):
        for made in reader.made(name, scope, DEPTH):
            found.setdefault(made)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    return [made for made in found if not first <= made <= last]


def _computed(statement: ast.stmt) -> list[ast.expr]:
    """Expressions of the statement itself, not of the ones within it."""
    return [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.expr)]


class _Reader:
    """One file's names: what is assigned to them, and where."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.around: dict[ast.AST, ast.AST] = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}
        self.functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self.calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        self.held: dict[str, list[tuple[ast.expr, ast.AST]]] = {}
        """Attribute -> what is assigned to it, or registered as a buffer of that name, with where."""
        self.local: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self.following: set[ast.expr] = set()
        """Expressions that are being followed: ``w = w / w.sum()`` leads to itself."""
        for node in ast.walk(tree):
            for target, value in _pairs(node):
                if isinstance(target, ast.Attribute):
                    self.held.setdefault(target.attr, []).append((value, node))
                elif isinstance(target, ast.Name):
                    self.local.setdefault(self.scope_of(node)[0], {}).setdefault(target.id, []).append(value)
            if isinstance(node, ast.Call) and _called(node) == "register_buffer" and len(node.args) > 1:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    self.held.setdefault(name.value, []).append((node.args[1], node))

    def scope_of(self, node: ast.AST) -> Scope:
        found: Scope = []
        at = self.around.get(node)
        while at is not None:
            if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
                found.append(at)
            at = self.around.get(at)
        return found or [self.tree]

    def made(self, value: ast.expr, scope: Scope, depth: int) -> list[int]:
        """Lines that make an expression a double; empty where it is none, or not known to be."""
        if depth <= 0 or value in self.following:
            return []
        self.following.add(value)
        try:
            return self._made(value, scope, depth)
        finally:
            self.following.discard(value)

    def _made(self, value: ast.expr, scope: Scope, depth: int) -> list[int]:
        if isinstance(value, ast.Call):
            return self._by_call(value, scope, depth)
        if isinstance(value, ast.Name):
            return self._named(value.id, scope, depth - 1)
        if isinstance(value, ast.Attribute):
            if value.attr in self.held and not (isinstance(value.value, ast.Name) and value.value.id in TORCH):
                known = self.held[value.attr]
                return [m for v, node in known for m in self.made(v, self.scope_of(node), depth - 1)]
            return self.made(value.value, scope, depth) if value.attr in ("T", "mT", "data", "real") else []
        if isinstance(value, (ast.Subscript, ast.Starred)):
            return self.made(value.value, scope, depth)
        if isinstance(value, ast.UnaryOp):
            return self.made(value.operand, scope, depth)
        if isinstance(value, ast.BinOp):
            return [*self.made(value.left, scope, depth), *self.made(value.right, scope, depth)]
        if isinstance(value, ast.IfExp):
            return [*self.made(value.body, scope, depth), *self.made(value.orelse, scope, depth)]
        if isinstance(value, (ast.Tuple, ast.List)):
            return [m for v in value.elts for m in self.made(v, scope, depth)]
        return []

    def _by_call(self, call: ast.Call, scope: Scope, depth: int) -> list[int]:
        name, given = _called(call), _asked_type(call)
        if given is not None:
            return [call.lineno] if given else []
        mine = [f for f in self.functions if f.name == name]
        if isinstance(call.func, ast.Attribute) and not _of_torch(call.func) and not mine:
            if name in SINGLE:
                return []
            return [call.lineno] if name == "double" else self.made(call.func.value, scope, depth)
        if name in FROM_ARRAYS or (name in OF_DATA and call.args and is_array(call.args[0], self.tree)):
            return [] if not call.args or self._is_other(call.args[0], scope) else [call.lineno]
        if mine or isinstance(call.func, ast.Name):
            returned = [(n.value, n) for f in mine for n in ast.walk(f) if isinstance(n, ast.Return) and n.value]
            return [m for v, node in returned for m in self.made(v, self.scope_of(node), depth - 1)]
        return [m for a in call.args for m in self.made(a, scope, depth)]

    def _named(self, name: str, scope: Scope, depth: int) -> list[int]:
        for k, inner in enumerate(scope):
            known = self.local.get(inner, {}).get(name)
            if known:
                return [m for v in known for m in self.made(v, scope[k:], depth)]
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and name in _parameters(inner):
                return self._given(inner, name, depth)
        return []

    def _given(self, function: Function, name: str, depth: int) -> list[int]:
        """What calls in the file give for a function's parameter; of ``__init__`` those of its class, of ``forward`` none: modules are
        called by the names that hold them."""
        owner = self.around.get(function)
        parameters = _parameters(function)
        method = isinstance(owner, ast.ClassDef) and parameters[:1] == ["self"]
        called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        place = parameters.index(name) - method
        found: list[int] = []
        for call in self.calls:
            if _called(call) != called:
                continue
            value = next((k.value for k in call.keywords if k.arg == name), None)
            if value is None and 0 <= place < len(call.args):
                value = call.args[place]
            if value is not None:
                found += self.made(value, self.scope_of(call), depth - 1)
        return found

    def _is_other(self, array: ast.expr, scope: Scope) -> bool:
        """Whether an array is said to be something else than double where it is made, or where its name is assigned."""
        if _says_other(array):
            return True
        if not isinstance(array, ast.Name):
            return False
        known = next((v for inner in scope if (v := self.local.get(inner, {}).get(array.id))), [])
        return bool(known) and all(_says_other(v) for v in known)


def _says_other(array: ast.expr) -> bool:
    calls = [n for n in ast.walk(array) if isinstance(n, ast.Call)]
    return any(_asked_type(c) is False or (_of(c.func) and _is_type(c.func) is False) for c in calls)


def _of(function: ast.expr) -> bool:
    """``np.float32(…)`` is one as well."""
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)


def _asked_type(call: ast.Call) -> bool | None:
    """Whether a call names double as the type of what it gives; None where it names none."""
    named = [k.value for k in call.keywords if k.arg == "dtype"]
    if _called(call) in ("to", "type", "astype"):
        named += call.args
    known = [_is_type(value) for value in named]
    return True if True in known else False if False in known else None


def _is_type(value: ast.expr) -> bool | None:
    """Whether what is given for a type is double; None where it is no type."""
    if isinstance(value, ast.Constant):
        name = value.value if isinstance(value.value, str) else ""
        return True if name in (*DOUBLES, "float", "d", "f8") else False if OTHERS.fullmatch(name) else None
    name = _last(value)
    if name in DOUBLES or (isinstance(value, ast.Name) and name == "float"):
        return True
    return False if OTHERS.fullmatch(name) else None


def _last(value: ast.expr) -> str:
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


def _called(call: ast.Call) -> str:
    return _last(call.func)


def _of_torch(function: ast.Attribute) -> bool:
    """Whether it is a library's function, not a method of something."""
    node: ast.expr = function.value
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in TORCH


def _parameters(function: Function) -> list[str]:
    return [a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of assignments; of ``a, b = x, y`` each with its own."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    each = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
    for k, item in enumerate(target.elts):
        yield from _unpacked(item, each[k] if each is not None else value)
