"""What a user's ``@triton.jit`` kernel needs from the user's own file and does not find in the generated one."""

from __future__ import annotations

import ast
import builtins


def inner(source: str) -> str:
    """The Python text inside the string of ``NAME = async_compile.triton('SYMBOL', '''…''', …)``."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    # The constant, not the text between the quotes: escapes in it are resolved as Inductor's loader resolves them.
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return max((text for text in strings if "\n" in text), key=len, default="")


def of(text: str, symbol: str, original: str | None) -> list[str]:
    """One line per name that ``symbol`` uses and ``text`` does not define; empty where it stands alone.

    A name that is called is a helper, any other a constant. ``original`` is the user's file, where it is known.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == symbol), None)
    if function is None:
        return []
    defined = set(dir(builtins)) | {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            defined |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defined.add(statement.name)
        else:
            defined |= _stored(statement)
    defined |= _stored(function)
    called = {n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    missing: dict[str, None] = {}
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in defined:
                missing.setdefault(node.id)
    where = f" from {original}" if original else " from the program's own file"
    return [f"kernel {symbol} needs {'helper' if name in called else 'constant'} {name}{where}" for name in missing]


def _stored(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
