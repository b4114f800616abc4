"""Which statement of a function can have made a call, by its source alone. Exactly one, or none is claimed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ridgeline.attribution.sources import Function, callee_name

# Operators by the op that they run; an in-place op is an augmented assignment.
_BINARY: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "rsub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
    "floor_divide": ast.FloorDiv,
    "remainder": ast.Mod,
    "pow": ast.Pow,
    "matmul": ast.MatMult,
    "bitwise_and": ast.BitAnd,
    "bitwise_or": ast.BitOr,
    "bitwise_xor": ast.BitXor,
}
_COMPARISON: dict[str, type[ast.cmpop]] = {
    "gt": ast.Gt,
    "lt": ast.Lt,
    "ge": ast.GtE,
    "le": ast.LtE,
    "eq": ast.Eq,
    "ne": ast.NotEq,
}
_SUBSCRIPT = frozenset({"select", "slice", "index", "unsqueeze", "index_put_", "copy_", "fill_"})
_SAME_OBJECT = frozenset(
    "to cuda cpu half float double bfloat16 train eval requires_grad_ apply share_memory type".split()
)
_UNARY: dict[str, type[ast.unaryop]] = {"neg": ast.USub, "bitwise_not": ast.Invert}


@dataclass(slots=True, frozen=True)
class MatchedCall:
    kind: Literal["name", "module", "op", "compiled", "kernel", "unknown"]
    """name: a function or method of that name; module: an ``nn.Module`` of that type; op: an operator of that ATen op;
    compiled: something that ``torch.compile`` returned; kernel: a Triton kernel launched as ``kernel[grid](…)``."""
    name: str


def matching_statement(function: Function, call: MatchedCall, owner: ast.ClassDef | None = None) -> int | None:
    """The line of the one statement that fits, None where none or several do, or where something could hide the call.

    ``owner`` is the class of a method, whose ``__init__`` says of what type its submodules are.
    """
    if call.kind == "unknown" or call.name.startswith("<") or (not call.name and call.kind != "compiled"):
        return None
    wanted = {call.name}
    if call.kind == "module":
        wanted = _local_modules(function, call.name) | (_submodules(owner, call.name) if owner is not None else set())
    elif call.kind == "compiled":
        wanted = {n.targets[0].id for n in _own(function.node) if _is_compile(n)}  # type: ignore[attr-defined]
    lines = set(_lines(function, call, wanted))
    if len(lines) != 1 or (call.kind not in ("op", "kernel") and _hides_calls(function, wanted)):
        return None
    return lines.pop()


def _is_compile(node: ast.AST) -> bool:
    """``name = torch.compile(…)``"""
    return (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and callee_name(node.value) == "compile"
    )


def _submodules(owner: ast.ClassDef, kind: str) -> set[str]:
    """Attributes that the class assigns a module of that type: ``self.fc = nn.Linear(…)``, also in tuples."""
    found: set[str] = set()
    for node in ast.walk(owner):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            for left, right in pairs:
                if isinstance(left, ast.Attribute) and isinstance(right, ast.Call) and callee_name(right) == kind:
                    found.add(left.attr)
    return found


def _lines(function: Function, call: MatchedCall, wanted: set[str]) -> Iterator[int]:
    for node in _own(function.node):
        if call.name == "__next__":  # a ``for`` over something that has a frame of its own
            if isinstance(node, ast.For) and not (
                isinstance(node.iter, ast.Call) and callee_name(node.iter) == "range"
            ):
                yield node.lineno
        elif call.kind == "kernel":
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Subscript)
                and _last_name(node.func.value) in wanted
            ):
                yield node.func.value.end_lineno or node.lineno
        elif call.kind != "op":
            if isinstance(node, ast.Call) and callee_name(node) in wanted:
                yield _name_line(node)
        # Where C calls have no frames of their own, an op may also come from a call of its name.
        elif isinstance(node, ast.Call) and (callee_name(node) or "").strip("_") == call.name.strip("_"):
            yield _name_line(node)
        elif isinstance(node, ast.expr | ast.stmt) and _runs(node, call.name):
            yield node.lineno


def _name_line(node: ast.Call) -> int:
    """A call's own line: that of its last name, which for a chain over several lines is not where the chain begins."""
    target = node.func
    return (target.end_lineno or target.lineno) if isinstance(target, ast.Attribute) else target.lineno


def _runs(node: ast.AST, op: str) -> bool:
    plain = op.rstrip("_") if not op.startswith("_") else op
    if isinstance(node, ast.BinOp):
        return plain in _BINARY and isinstance(node.op, _BINARY[plain])
    if isinstance(node, ast.AugAssign):
        return plain in _BINARY and isinstance(node.op, _BINARY[plain]) and not _is_number(node.value)
    if isinstance(node, ast.UnaryOp):
        return plain in _UNARY and isinstance(node.op, _UNARY[plain])
    if isinstance(node, ast.Compare):
        return plain in _COMPARISON and any(isinstance(o, _COMPARISON[plain]) for o in node.ops)
    if isinstance(node, ast.Subscript):
        return op in _SUBSCRIPT
    return False


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _is_number(value: ast.expr) -> bool:
    """A Python number for sure: adding one to a Python number runs no op."""
    if isinstance(value, ast.Call):
        return callee_name(value) in {"item", "len", "int", "float", "time", "perf_counter"}
    return False


def _hides_calls(function: Function, wanted: set[str]) -> bool:
    """Whether the function calls something through a local name, so that the wanted call may be spelled otherwise.

    A local name that is a nested function, or was assigned an object that has frames of its own when it is called (an
    instance of a class, a compiled function), hides nothing.
    """
    opaque: set[str] = set()
    if not isinstance(function.node, ast.Module):
        arguments = function.node.args
        opaque = {arg.arg for arg in [*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs]}
    stores = [n.id for n in _own(function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    clear = {
        node.targets[0].id  # type: ignore[attr-defined]
        for node in _own(function.node)
        if _is_single_assignment(node) and (_constructed(node.value) or _is_compile(node))  # type: ignore[attr-defined]
    }
    opaque |= {name for name in stores if name not in clear or stores.count(name) > 1}
    for node in _own(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in opaque - wanted:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call | ast.Subscript):
            return True
    return False


def _is_single_assignment(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)


def _constructed(value: ast.expr) -> str | None:
    """The class of ``Class(…)``, also through methods that return the object itself (``.to(device)``)."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in _SAME_OBJECT:
            value = value.func.value
            continue
        name = callee_name(value)
        return name if name is not None and name[:1].isupper() else None
    return None


def _local_modules(function: Function, kind: str) -> set[str]:
    return {
        n.targets[0].id  # type: ignore[attr-defined]
        for n in _own(function.node)
        if _is_single_assignment(n) and _constructed(n.value) == kind  # type: ignore[attr-defined]
    }


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's own code: what nested functions and lambdas hold runs in frames of their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield child
        yield from _own(child)
