"""Sizes in a generated module: integers, symbols (``s77``, ``u0``) and their arithmetic, worked out without evaluating."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min, "int": int}
LARGEST = 2**62


class Symbols:
    """What is known of the sizes; values that a person gave win over those that the file states."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self.given = dict(given)
        self.known = dict(given)

    def learn(self, name: str, value: int) -> None:
        self.known.setdefault(name, value)

    def value(self, node: ast.expr) -> int | float | None:
        """The number of an expression; None where a symbol is not known or the expression is something else."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, (int, float)) else None
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand)
            return None if inner is None else -inner
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.value(node.left), self.value(node.right)
            if not isinstance(left, int) or not isinstance(right, int):
                return None
            if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0:
                return None
            result = _OPERATORS[type(node.op)](left, right)
            return result if abs(result) < LARGEST else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and node.args:
            values = [self.value(argument) for argument in node.args]
            return None if None in values or node.keywords else _FUNCTIONS[node.func.id](*values)
        return None

    def values(self, node: ast.expr) -> list[int] | None:
        """The integers of a tuple."""
        if not isinstance(node, ast.Tuple):
            return None
        found = [self.value(element) for element in node.elts]
        whole = [value for value in found if isinstance(value, int)]
        return whole if len(whole) == len(found) else None

    def missing(self, *nodes: ast.expr) -> str:
        """One line for sizes that are not known."""
        names = sorted(
            {
                inner.id
                for node in nodes
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name) and inner.id not in self.known and inner.id not in _FUNCTIONS
            }
        )
        return self.unknown(", ".join(names))

    @staticmethod
    def unknown(name: str) -> str:
        return (
            f"size {name} is known only in a run: give a value (--size {name}=VALUE)"
            if name
            else "a size is not understood"
        )
