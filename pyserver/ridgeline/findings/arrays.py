"""Whether a statement of the program computes on whole NumPy arrays. Read from its text; never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ridgeline.findings.code import statement_at

LIBRARIES = ("numpy", "scipy")
PLAIN = ("int", "float", "bool", "len", "min", "max", "abs", "range", "slice", "tuple")
"""Built-in functions that do nothing of note beside an array's."""
ROUNDS = 4
"""Of following what is assigned from what: a generator of random numbers, what it draws, what is computed of that."""


def on_arrays(text: str, line: int) -> bool:
    """Whether all that the statement at a line calls is NumPy's, SciPy's, or torch's making of a tensor of it. Whatever cannot be
    read is not."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    statement = statement_at(tree, line)
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)):
        return False
    if any(
        isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda))
        for n in ast.walk(statement)
    ):
        return False
    known = _names(tree)
    if not any(_rooted(n, known) for n in ast.walk(statement) if isinstance(n, ast.expr)):
        return False
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    return all(_rooted(c, known) or _is_plain(c.func) for c in calls)


def _is_plain(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in PLAIN
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "torch"


def _names(tree: ast.Module) -> set[str]:
    """Names, and ``.attribute`` for what objects hold, that stand for the libraries or what was made by them."""
    known = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in LIBRARIES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES:
            known |= {a.asname or a.name for a in node.names}
    if not known:
        return known
    assigned = [
        (t, n.value)
        for n in ast.walk(tree)
        if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value
        for t in _targets(n)
    ]
    for _ in range(ROUNDS):
        known |= {name for name, value in assigned if _rooted(value, known)}
    return known


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(each, ast.Name):
                yield each.id
            elif isinstance(each, ast.Attribute):
                yield f".{each.attr}"


def _rooted(node: ast.expr, known: set[str]) -> bool:
    """Whether an expression is an array, by what it begins with."""
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Attribute):
        return f".{node.attr}" in known or _rooted(node.value, known)
    if isinstance(node, ast.Call):
        made = isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"
        return made or _rooted(node.func, known)
    if isinstance(node, (ast.Subscript, ast.UnaryOp)):
        return _rooted(node.value if isinstance(node, ast.Subscript) else node.operand, known)
    return isinstance(node, ast.BinOp) and (_rooted(node.left, known) or _rooted(node.right, known))


def is_array(value: ast.expr, tree: ast.Module) -> bool:
    """Whether an expression of a file is an array of NumPy's or SciPy's, as far as its text tells."""
    return _rooted(value, _names(tree))
