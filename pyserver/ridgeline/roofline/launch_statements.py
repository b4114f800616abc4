"""Compile-time constants of a program's own Triton kernel, as the statements that launch it write them.

``kernel[grid](x, y, n, BLOCK=1024, num_warps=8)`` says what ``BLOCK`` is, and so does a default of the signature or the only
configuration of ``triton.autotune`` that fits the launch. What is computed at run time is left out.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ridgeline.roofline.launched import DEFAULT_WARPS
from ridgeline.roofline.source import MAX_SOURCE, KernelSource, literal, parameters
from ridgeline.roofline.symbolic import ABSENT

WARP = 32
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def constants(text: str, source: KernelSource, block: tuple[int, ...] | None) -> dict[str, Any]:
    """Argument -> value, where every statement (and configuration) that can have been the launch agrees."""
    tuned = [c for c in configurations(source.function) if _fits(c.get("num_warps", DEFAULT_WARPS), block)]
    found = _agreed(tuned)
    given = _agreed(
        one
        for one in statements(text, source.function.name)
        if tuned or _fits(one.get("num_warps", DEFAULT_WARPS), block)
    )
    defaults = dict(
        zip(
            [a.arg for a in reversed(source.function.args.args)],
            [_known(d, source) for d in reversed(source.function.args.defaults)],
        )
    )
    names = [a.arg for a in parameters(source.function)]
    positional = {names[i]: v for i, v in given.items() if isinstance(i, int) and i < len(names)}
    named = {k: v for k, v in given.items() if isinstance(k, str)}
    everything = {**defaults, **positional, **named, **found}
    values = {k: _known(v, source) if isinstance(v, ast.expr) else v for k, v in everything.items()}
    return {k: ABSENT if v is None else v for k, v in values.items() if k in source.constexprs and v is not _OPEN}


_OPEN = object()
"""A value that is only known at run time."""


def _known(node: ast.expr, source: KernelSource) -> Any:
    if isinstance(node, ast.Name):
        return source.globals.get(node.id, _OPEN)
    value = literal(node)
    return value if value is None or isinstance(value, (bool, int, float, str)) else _OPEN


def _fits(warps: Any, block: tuple[int, ...] | None) -> bool:
    if isinstance(warps, ast.expr):
        warps = warps.value if isinstance(warps, ast.Constant) else None
    return block is None or not isinstance(warps, int) or math.prod(block) == warps * WARP


def _agreed(choices: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
    """What all of them say alike."""
    rows = list(choices)
    if not rows:
        return {}
    shown = [{k: ast.dump(v) if isinstance(v, ast.expr) else repr(v) for k, v in row.items()} for row in rows]
    return {k: v for k, v in rows[0].items() if all(one.get(k) == shown[0][k] for one in shown)}


@lru_cache(maxsize=64)
def statements(text: str, name: str) -> tuple[dict[Any, Any], ...]:
    """Arguments of every ``name[grid](…)`` of the text: by position or by keyword."""
    if len(text) > MAX_SOURCE:
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        if ast.unparse(node.func.value).split(".")[-1] != name:
            continue
        plain = not any(isinstance(a, ast.Starred) for a in node.args)
        row: dict[Any, Any] = dict(enumerate(node.args)) if plain else {}
        row.update({k.arg: k.value for k in node.keywords if k.arg})
        found.append(row)
    return tuple(found)


def configurations(function: ast.FunctionDef) -> list[dict[str, Any]]:
    """Those of ``@triton.autotune(configs=[triton.Config({…}, num_warps=…), …])`` that the decorator writes out."""
    found: list[dict[str, Any]] = []
    for decorator in function.decorator_list:
        if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("autotune")):
            continue
        listed = next(
            (k.value for k in decorator.keywords if k.arg == "configs"), decorator.args[0] if decorator.args else None
        )
        for node in listed.elts if isinstance(listed, ast.List) else []:
            values = literal(node.args[0]) if isinstance(node, ast.Call) and node.args else None
            if not isinstance(node, ast.Call) or not isinstance(values, dict):
                return []  # one that is not written out could be the one
            extra = {k.arg: literal(k.value) for k in node.keywords if k.arg in OPTIONS}
            found.append({**values, **extra})
    return found
