"""Which loops of a program's text go over a model's parameters. Read, never run."""

from __future__ import annotations

import ast
from typing import NamedTuple

GIVE = ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict")
"""Methods that give parameters, or what is kept beside them."""
GROUPS = ("params",)
"""Where an optimizer's group holds them."""


class ParameterLoop(NamedTuple):
    first: int
    """Lines of its body."""
    last: int


def parameter_loops(tree: ast.Module) -> list[ParameterLoop]:
    """``for p in model.parameters():`` and the like, over names and attributes that were assigned from such as well."""
    known: set[str] = set()
    assigned = [(t, n.value) for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets]
    known |= {_last(target) for target, value in assigned if _gives(value, set())} - {""}
    return [
        ParameterLoop(node.body[0].lineno, max(s.end_lineno or s.lineno for s in node.body))
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and _gives(node.iter, known)
    ]


def _gives(value: ast.expr, known: set[str]) -> bool:
    """Whether parameters are gone over: as they are, in a list, numbered, or beside others."""
    if isinstance(value, ast.Call):
        name = _last(value.func)
        if name in GIVE:
            return isinstance(value.func, ast.Attribute)
        if name in ("items", "values") and isinstance(value.func, ast.Attribute):
            return _gives(value.func.value, known)
        return name in ("zip", "list", "tuple", "enumerate", "reversed", "filter", "chain") and any(
            _gives(a, known) for a in value.args
        )
    if isinstance(value, ast.Starred):
        return _gives(value.value, known)
    if isinstance(value, (ast.List, ast.Tuple)):
        return any(_gives(v, known) for v in value.elts)
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return any(_gives(g.iter, known) for g in value.generators)
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Constant) and value.slice.value in GROUPS
    return isinstance(value, (ast.Name, ast.Attribute)) and _last(value) in known


def _last(value: ast.expr) -> str:
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
