"""Multi-kernels: one call for which Inductor wrote several kernels, of which the first run picks the fastest.

::

    arg_index = {
        0: [slice(0, 3, None)],
        1: [slice(0, 3, None)],
    }
    multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', [
        triton_red_fused_sum_0,
        triton_per_fused_sum_1,
    ], arg_index=arg_index)
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.bench.measure import Cache, rank

_CALLS = ("multi_kernel", "size_hint_multi_kernel")


@dataclass(slots=True, frozen=True)
class Choice:
    name: str
    line: int
    members: tuple[str, ...]
    index: dict[int, list[slice]]
    """Member -> which of the call's arguments it takes; empty: all of them (torch before 2.8)."""

    def arguments(self, member: int, given: Sequence[ast.expr]) -> list[ast.expr]:
        return [one for part in self.index.get(member, [slice(None)]) for one in given[part]]


def choices(tree: ast.Module) -> dict[str, Choice]:
    """The multi-kernels of a module by name. What is not understood is left out."""
    found: dict[str, Choice] = {}
    index: dict[int, list[slice]] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if name == "arg_index" and isinstance(value, ast.Dict):
            index = _index(value)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CALLS:
            members = _members(value.args[1]) if len(value.args) > 1 else ()
            indexed = any(keyword.arg == "arg_index" for keyword in value.keywords)
            if members:
                found[name] = Choice(name, node.lineno, members, dict(index) if indexed else {})
    return found


def _members(node: ast.expr) -> tuple[str, ...]:
    elements = node.elts if isinstance(node, ast.List) else node.values if isinstance(node, ast.Dict) else []
    return tuple(element.id for element in elements if isinstance(element, ast.Name))


def _index(node: ast.Dict) -> dict[int, list[slice]]:
    found = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, int) and isinstance(value, ast.List):
            parts = [_slice(element) for element in value.elts]
            if None not in parts:
                found[key.value] = [part for part in parts if part is not None]
    return found


def _slice(node: ast.expr) -> slice | None:
    """``slice(0, 3, None)`` with whole numbers and None only."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "slice":
        return None
    values = [argument.value if isinstance(argument, ast.Constant) else "?" for argument in node.args]
    if not 1 <= len(values) <= 3 or any(value is not None and not isinstance(value, int) for value in values):
        return None
    return slice(*values)


def ranked(choice: Choice, kernels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which member is fastest, apart for cold and warm caches, from the rows of the document."""
    rows = {kernel["name"]: kernel for kernel in kernels if kernel["name"] in choice.members}
    result: dict[str, Any] = {"name": choice.name, "line": choice.line, "members": list(choice.members)}
    caches: tuple[Cache, ...] = ("cold", "warm")
    for cache in caches:
        timed = {n: k[cache] for n, k in rows.items() if k[cache] is not None and k[cache]["median_us"] is not None}
        if len(timed) < 2:
            result[cache] = None
            continue
        order = rank({n: t["median_us"] for n, t in timed.items()}, cache, [t["spread"] or 0.0 for t in timed.values()])
        result[cache] = {"order": order.order, "tied": order.tied, "slower": order.slower, "sentence": order.sentence}
    return result
