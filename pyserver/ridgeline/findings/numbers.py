"""Which names of a function stand for numbers, as far as its text tells: for the rules that read code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

SHAPES = ("size", "dim", "numel", "len", "int", "float", "round", "abs", "max", "min")
"""Calls that give numbers, or tuples of them."""
NUMERIC = ("int", "float")
SIZED = ("arange", "ones", "zeros", "empty", "eye", "tril_indices", "triu_indices")
"""Constructors of torch's that are given numbers alone, in order."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[tuple[Function, ast.ClassDef | None]]:
    """Every function with the class that it is a method of."""
    of_class = {f: c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, of_class.get(node)


def number_fields(tree: ast.Module) -> frozenset[str]:
    """``.NAME`` of whatever object: fields that a class declares as numbers (a dataclass of settings), that no class declares as
    anything else, and that nothing in the file assigns to."""
    declared = [
        n for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for n in c.body if isinstance(n, ast.AnnAssign)
    ]
    found, others = set[str](), set[str]()
    for field in declared:
        if isinstance(field.target, ast.Name):
            numeric = isinstance(field.annotation, ast.Name) and field.annotation.id in NUMERIC
            (found if numeric else others).add(field.target.id)
    others |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    return frozenset(f".{name}" for name in found - others)


def numbers_of(function: Function, owner: ast.ClassDef | None, fields: frozenset[str] = frozenset()) -> set[str]:
    """Names that are numbers wherever the function uses them: parameters with a numeric default or annotation, what is assigned
    once from sizes, literals and other such names. Attributes as ``self.NAME``, ``fields`` (``number_fields``) as they are."""
    found = {*fields, *_parameters(function), *(_attributes(owner, fields) if owner is not None else ())}
    assigned: dict[str, list[ast.expr]] = {}
    others: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    assigned.setdefault(name, []).append(value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            assigned.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
            others |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    found -= {*assigned, *others}
    for name, values in assigned.items():  # in the order of the text
        if len(values) == 1 and name not in others and is_number(values[0], found):
            found.add(name)
    return found


def is_number(value: ast.expr, numbers: set[str]) -> bool:
    """Whether an expression gives a number, or a tuple of numbers, if these names do."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if isinstance(value, ast.Name):
        return value.id in numbers
    if isinstance(value, ast.Attribute):
        return (
            value.attr in ("shape", "ndim", "pi", "e") or f".{value.attr}" in numbers or ast.unparse(value) in numbers
        )
    if isinstance(value, ast.Subscript):
        return is_number(value.value, numbers)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand, numbers)
    if isinstance(value, ast.BinOp):
        return is_number(value.left, numbers) and is_number(value.right, numbers)
    if isinstance(value, ast.Tuple):
        return all(is_number(v, numbers) for v in value.elts)
    if isinstance(value, ast.Call):
        called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        of_math = isinstance(value.func, ast.Attribute) and getattr(value.func.value, "id", "") == "math"
        if of_math or (isinstance(value.func, ast.Name) and called not in ("len", *NUMERIC)):
            return (of_math or called in SHAPES) and all(is_number(a, numbers) for a in value.args)
        return called in ("size", "dim", "numel", "len") or (isinstance(value.func, ast.Name) and called in NUMERIC)
    return False


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of an assignment; of ``a, b = x.shape`` each name with the whole."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        each = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
        for k, item in enumerate(target.elts):
            yield from _pairs(item, each[k] if each is not None else value)


def _parameters(function: Function) -> Iterator[str]:
    given = function.args
    defaults = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    for argument, default in [*zip(given.args, defaults), *zip(given.kwonlyargs, given.kw_defaults)]:
        annotated = isinstance(argument.annotation, ast.Name) and argument.annotation.id in NUMERIC
        if annotated or (default is not None and is_number(default, set())):
            yield argument.arg


def _attributes(owner: ast.ClassDef, fields: frozenset[str]) -> Iterator[str]:
    """``self.NAME`` that ``__init__`` assigns a number to, and no other method anything; or something that a method gives a constructor
    of torch's as a size."""
    methods = [f for f in owner.body if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))]
    init = next((f for f in methods if f.name == "__init__"), None)
    if init is None:
        return
    later = {ast.unparse(t) for f in methods if f is not init for n in ast.walk(f) for t in _targets(n)}
    known = {*fields, *_parameters(init)}
    sizes = {name for f in methods for node in ast.walk(f) for name in _sizes(node)}
    for node in ast.walk(init):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts) if several else [(target, value)]  # type: ignore[attr-defined]
            for one, what in pairs:
                name = ast.unparse(one)
                if name.startswith("self.") and name not in later and (name in sizes or is_number(what, known)):
                    yield name


def _sizes(node: ast.AST) -> Iterator[str]:
    """``self.n`` of ``torch.arange(self.n)`` and ``torch.ones((self.n, 2))``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SIZED):
        return
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
        for given in node.args:
            parts = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
            yield from (ast.unparse(part) for part in parts if isinstance(part, ast.Attribute))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
