"""Mechanical mends of findings, as edits for review. Standard library only; the language server offers them.

A finding names its mend in ``evidence["mend"]``. ``edits`` reads the file's text (parsed, never run) and answers with
replacements, or with none where the place is not exactly what is expected: a wrong edit is worse than no edit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

TITLES: dict[str, str] = {
    "zero-grad-set-to-none": "Drop set_to_none=False",
    "pin-memory": "Pin the loader's memory and copy without blocking",
    "non-blocking": "Copy without blocking",
    "fused-optimizer": "Make the optimizer fused",
    "matmul-precision-high": "Allow TF32 in matrix products (changes numerics)",
    "label-block": "Label this block with record_function",
}
DTYPES = (
    "float16",
    "half",
    "bfloat16",
    "float32",
    "float",
    "float64",
    "double",
    "int8",
    "uint8",
    "int32",
    "int",
    "int64",
    "long",
    "bool",
)
OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adagrad")


def calls_in(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Calls of these names below ``tree``, however qualified."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            if last in names:
                yield node


class Edit(NamedTuple):
    """Replace a range by a text. Lines from 1, columns from 0 in characters, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def edits(mend: str, source: str, line: int) -> list[Edit]:
    """Edits of ``mend`` for a finding at ``line``; empty where it does not fit the text."""
    make = _MENDS.get(mend)
    if make is None:
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return make(_Text(source, tree), line)


class _Text:
    """Source with positions in characters (``ast`` counts UTF-8 bytes)."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.tree = tree
        self.lines = source.split("\n")

    def column(self, line: int, byte: int) -> int:
        return len(self.lines[line - 1].encode()[:byte].decode(errors="ignore"))

    def start(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return node.lineno, self.column(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        line, byte = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return line, self.column(line, byte)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these names, however qualified."""
        return calls_in(self.tree, *names)

    def calls_at(self, line: int, *names: str) -> list[ast.Call]:
        return [c for c in self.calls(*names) if c.lineno <= line <= (c.end_lineno or c.lineno)]

    def with_argument(self, call: ast.Call, argument: str) -> Edit | None:
        """Adds ``name=value`` at the end of a call's arguments."""
        name = argument.split("=", 1)[0]
        if any(k.arg == name or k.arg is None for k in call.keywords):
            return None
        line, column = self.end(call)
        inside = [*call.args, *(k.value for k in call.keywords)]
        if not inside:
            return Edit(line, column - 1, line, column - 1, argument)
        last = max(self.end(node) for node in inside)
        return Edit(*last, *last, f", {argument}")


def _zero_grad(text: _Text, line: int) -> list[Edit]:
    for call in text.calls_at(line, "zero_grad"):
        for at, keyword in enumerate(call.keywords):
            if (
                keyword.arg != "set_to_none"
                or not isinstance(keyword.value, ast.Constant)
                or keyword.value.value is not False
            ):
                continue
            (l0, c0), (l1, c1) = (
                (keyword.lineno, text.column(keyword.lineno, keyword.col_offset)),
                text.end(keyword.value),
            )
            before = [*call.args, *(k.value for k in call.keywords[:at])]
            if before:
                l0, c0 = text.end(before[-1])
            elif at + 1 < len(call.keywords):
                following = call.keywords[at + 1]
                l1, c1 = following.lineno, text.column(following.lineno, following.col_offset)
            return [Edit(l0, c0, l1, c1, "")]
    return []


def _pin_memory(text: _Text, line: int) -> list[Edit]:
    loaders = list(text.calls("DataLoader"))
    if len(loaders) != 1:
        return []
    pinned = any(k.arg == "pin_memory" for k in loaders[0].keywords)
    found = [] if pinned else [text.with_argument(loaders[0], "pin_memory=True")]
    copies = _non_blocking(text, line)
    if not copies or None in found:
        return []
    return [*(e for e in found if e is not None), *copies]


def _non_blocking(text: _Text, line: int) -> list[Edit]:
    copies = [text.with_argument(c, "non_blocking=True") for c in text.calls_at(line, "to", "cuda") if not _is_cast(c)]
    return [e for e in copies if e is not None]


def _is_cast(call: ast.Call) -> bool:
    """``x.to(torch.float32)``: nothing is copied between devices."""
    positional = [a for a in call.args if not isinstance(a, ast.Starred)]
    return bool(positional) and all(isinstance(a, ast.Attribute) and a.attr in DTYPES for a in positional)


def _fused(text: _Text, line: int) -> list[Edit]:
    """The optimizer that the line steps, or the only one there is."""
    stepped = {ast.unparse(c.func.value) for c in text.calls_at(line, "step") if isinstance(c.func, ast.Attribute)}
    made = [
        node.value
        for node in ast.walk(text.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(node.value is c for c in text.calls(*OPTIMIZERS))
        and any(ast.unparse(target) in stepped for target in node.targets)
    ] or list(text.calls(*OPTIMIZERS))
    if len(made) != 1 or any(k.arg in ("foreach", "fused") for k in made[0].keywords):
        return []
    edit = text.with_argument(made[0], "fused=True")
    return [] if edit is None else [edit]


def _precision(text: _Text, line: int) -> list[Edit]:
    if any(True for _ in text.calls("set_float32_matmul_precision")):
        return []
    imports = [
        s
        for s in text.tree.body
        if isinstance(s, ast.Import) and any(a.name == "torch" and a.asname is None for a in s.names)
    ]
    if not imports:
        return []
    last = max((s.end_lineno or s.lineno) for s in text.tree.body if isinstance(s, (ast.Import, ast.ImportFrom)))
    return [Edit(last + 1, 0, last + 1, 0, '\ntorch.set_float32_matmul_precision("high")\n')]


UNLABELLED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
"""Statements that run nothing worth a label: definitions (their decorators stand on other lines), imports."""


def _label(text: _Text, line: int) -> list[Edit]:
    """Wraps the innermost statement of the line in ``with torch.profiler.record_function(…):``."""
    inside = [
        n for n in ast.walk(text.tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    if not inside:
        return []
    node = min(inside, key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
    first, last = node.lineno, node.end_lineno or node.lineno
    body = text.lines[first - 1 : last]
    indent = body[0][: len(body[0]) - len(body[0].lstrip())]
    strings = any(
        isinstance(n, (ast.Constant, ast.JoinedStr)) and n.lineno != (n.end_lineno or n.lineno) for n in ast.walk(node)
    )
    if isinstance(node, UNLABELLED) or body[0].lstrip().startswith("elif") or strings or ";" in body[0]:
        return []  # indenting would change a string that runs over lines, or split a line of two statements
    label = ast.unparse(node).split("\n", 1)[0][:40].replace("\\", "").replace('"', "'")
    wrapped = [
        f'{indent}with torch.profiler.record_function("{label}"):',
        *(f"    {row}" if row else row for row in body),
    ]
    return [Edit(first, 0, last, len(text.lines[last - 1]), "\n".join(wrapped))]


_MENDS: dict[str, Callable[[_Text, int], list[Edit]]] = {
    "zero-grad-set-to-none": _zero_grad,
    "pin-memory": _pin_memory,
    "non-blocking": _non_blocking,
    "fused-optimizer": _fused,
    "matmul-precision-high": _precision,
    "label-block": _label,
}
