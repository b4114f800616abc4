"""Shapes of a library call in Inductor's wrapper, for kernels whose op the trace does not have (a replayed CUDA graph).

``extern_kernels.mm(buf0, reinterpret_tensor(arg1, (10, 16), (1, 10), 0), out=buf1)``: sizes come from the views in the
call, from ``empty_strided_cuda`` and from ``assert_size_stride``. The type is that of the result, which was allocated here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ridgeline.roofline.source import MAX_SOURCE, NOT_LITERAL, literal

CALLS = {
    "mm": "aten::mm",
    "bmm": "aten::bmm",
    "addmm": "aten::addmm",
    "baddbmm": "aten::baddbmm",
    "_int_mm": "aten::_int_mm",
}


@dataclass(slots=True, frozen=True)
class Arguments:
    op_name: str
    dims: list[Any]
    types: list[str]
    strides: list[Any]


@dataclass(slots=True, frozen=True)
class _Buffer:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None


@lru_cache(maxsize=64)
def calls_of(text: str) -> dict[int, Arguments]:
    """Line of a product's call -> its arguments, of every call whose sizes are known."""
    if len(text) > MAX_SOURCE:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, Arguments] = {}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for function in (f for f in functions if f.name == "call" or f.name.startswith("partition_")):
        buffers: dict[str, _Buffer] = {}
        for node in sorted(
            (n for n in ast.walk(function) if isinstance(n, (ast.Assign, ast.Expr))), key=lambda n: n.lineno
        ):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                made = _buffer(node.value, buffers)
                if made is not None:
                    buffers[node.targets[0].id] = made
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                _note(node.value, buffers, found)
    return found


def _note(call: ast.Call, buffers: dict[str, _Buffer], found: dict[int, Arguments]) -> None:
    name = ast.unparse(call.func)
    if name == "assert_size_stride" and len(call.args) >= 3 and isinstance(call.args[0], ast.Name):
        made = _sized(call.args[1], call.args[2], None)
        if made is not None:
            buffers[call.args[0].id] = made
    if not name.startswith("extern_kernels.") or name.removeprefix("extern_kernels.") not in CALLS:
        return
    out = next((_buffer(k.value, buffers) for k in call.keywords if k.arg == "out"), None)
    operands = [_buffer(a, buffers) for a in call.args]
    if out is None or out.dtype is None or not operands or any(o is None for o in operands):
        return
    known = [o for o in operands if o is not None]
    types = [o.dtype or out.dtype for o in known]
    found[call.lineno] = Arguments(
        CALLS[name.removeprefix("extern_kernels.")],
        [list(o.shape) for o in known],
        types,
        [list(o.strides) for o in known],
    )


def _buffer(node: ast.expr, buffers: dict[str, _Buffer]) -> _Buffer | None:
    if isinstance(node, ast.Name):
        return buffers.get(node.id)
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    if name.startswith("empty_strided") and len(node.args) >= 3:
        return _sized(node.args[0], node.args[1], ast.unparse(node.args[2]).removeprefix("torch."))
    if name == "reinterpret_tensor" and len(node.args) >= 3:
        base = _buffer(node.args[0], buffers)
        return _sized(node.args[1], node.args[2], base.dtype if base else None)
    return None


def _sized(shape: ast.expr, strides: ast.expr, dtype: str | None) -> _Buffer | None:
    sizes, steps = literal(shape), literal(strides)
    if (
        sizes is NOT_LITERAL
        or steps is NOT_LITERAL
        or not isinstance(sizes, (list, tuple))
        or not isinstance(steps, (list, tuple))
    ):
        return None
    if not all(isinstance(n, int) for n in (*sizes, *steps)) or len(sizes) != len(steps):
        return None
    return _Buffer(tuple(sizes), tuple(steps), dtype)
