"""What a Triton kernel's text says of itself: the function, its argument types, how Inductor classed it, its test arguments.

The text is untrusted: it is parsed, never evaluated; only literals are read out of it. It is either Inductor's file for one
kernel, the same text as it stands in a wrapper, or a user's module that holds the ``@triton.jit`` function.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ridgeline.roofline.dtypes import itemsize

MAX_SOURCE = 2_000_000
NOT_LITERAL = object()


@dataclass(slots=True, frozen=True, kw_only=True)
class KernelSource:
    function: ast.FunctionDef
    signature: dict[str, str] = field(default_factory=dict)
    """Argument -> ``*bf16`` | ``i32`` | ``constexpr``; empty for a user's function as the user wrote it."""
    meta: dict[str, Any] = field(default_factory=dict)
    """The literals among Inductor's ``inductor_meta``."""
    constants: dict[str, Any] = field(default_factory=dict)
    heuristic: str | None = None
    """pointwise | reduction | persistent_reduction | template | user_autotune | foreach | split_scan …; None: a user's own."""
    size_hints: dict[str, int] = field(default_factory=dict)
    reduction_hint: str | None = None
    configs: int | None = None
    """Configurations that a user's autotuner tries."""
    test_arguments: tuple[tuple[int, int] | None, ...] = ()
    """``get_args`` of Inductor's file: (elements, bytes an element) of each argument, None for scalars."""
    helpers: dict[str, ast.FunctionDef] = field(default_factory=dict)
    globals: dict[str, Any] = field(default_factory=dict)
    """Numbers and texts that the module names (``LN2 = 0.693``, ``tl.constexpr`` or not)."""

    @property
    def by_inductor(self) -> bool:
        return self.heuristic is not None and self.heuristic != "user_autotune"

    @property
    def constexprs(self) -> set[str]:
        """Arguments that the text declares to be compile-time constants."""
        return {a.arg for a in parameters(self.function) if _is_constexpr(a)}

    @property
    def arguments(self) -> list[str]:
        """Arguments of a launch in order: without compile-time constants."""
        if self.signature:
            return [n for n in self.signature if self.signature[n] != "constexpr" and n not in self.constants]
        return [a.arg for a in parameters(self.function) if not _is_constexpr(a)]


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """In the order of the signature."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _is_constexpr(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation).endswith("constexpr")


def literal(node: ast.expr | None) -> Any:
    """The value of a literal, with what is not one left out of dicts and lists; ``NOT_LITERAL`` if nothing is."""
    if node is None or isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        return NOT_LITERAL
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        pairs = [(literal(k), literal(v)) for k, v in zip(node.keys, node.values)]
        return {k: v for k, v in pairs if k is not NOT_LITERAL and v is not NOT_LITERAL and _hashable(k)}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [v for v in map(literal, node.elts) if v is not NOT_LITERAL]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return NOT_LITERAL


def _hashable(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, tuple, type(None)))


@lru_cache(maxsize=4096)
def parse_kernel(text: str, name: str | None = None) -> KernelSource | None:
    """The kernel in ``text``: the jit function called ``name``, else the first one with Inductor's heuristics, else the
    only one. None where there is none, or the text is not Python."""
    if len(text) > MAX_SOURCE:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    jitted = [n for n in tree.body if isinstance(n, ast.FunctionDef) and _is_jit(n)]
    jitted = jitted or [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _is_jit(n)]
    if not jitted:
        return None
    heuristics = [n for n in jitted if _heuristic(n) is not None]
    exact = [n for n in jitted if n.name == name]
    chosen = (exact or heuristics or (jitted if len(jitted) == 1 else []))[:1]
    if not chosen:
        return None
    function = chosen[0]
    call = _heuristic(function)
    keywords = {k.arg: k.value for k in call.keywords if k.arg} if call else {}
    triton_meta = _as_dict(literal(keywords.get("triton_meta")))
    hint = keywords.get("reduction_hint")
    hints = _as_dict(literal(keywords.get("size_hints")))
    configs = keywords.get("configs")
    return KernelSource(
        function=function,
        signature={k: v for k, v in _as_dict(triton_meta.get("signature")).items() if isinstance(v, str)},
        meta=_as_dict(literal(keywords.get("inductor_meta"))),
        constants=_as_dict(triton_meta.get("constants")),
        heuristic=ast.unparse(call.func).split(".")[-1] if call else None,
        size_hints={k: v for k, v in hints.items() if isinstance(v, int)},
        reduction_hint=ast.unparse(hint).split(".")[-1] if hint is not None else None,
        configs=len(configs.elts) if isinstance(configs, ast.List) else None,
        test_arguments=_test_arguments(tree),
        helpers={n.name: n for n in jitted if n is not function},
        globals=_globals(tree),
    )


def _globals(tree: ast.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in tree.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr") and value.args:
            value = value.args[0]
        known = literal(value)
        if isinstance(target, ast.Name) and isinstance(known, (bool, int, float, str)):
            found[target.id] = known
    return found


def _as_dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _is_jit(function: ast.FunctionDef) -> bool:
    called = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any((d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "")) == "jit" for d in called)


def _heuristic(function: ast.FunctionDef) -> ast.Call | None:
    for decorator in function.decorator_list:
        function_called = decorator.func if isinstance(decorator, ast.Call) else None
        if (
            isinstance(function_called, ast.Attribute)
            and getattr(function_called.value, "id", "") == "triton_heuristics"
        ):
            assert isinstance(decorator, ast.Call)
            return decorator
    return None


def _test_arguments(tree: ast.Module) -> tuple[tuple[int, int] | None, ...]:
    """Sizes in Inductor's ``get_args``: ``arg_0 = rand_strided(shape, strides, device=…, dtype=torch.bfloat16)``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "get_args":
            sizes: dict[str, tuple[int, int] | None] = {}
            for statement in node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    sizes[statement.targets[0].id] = _strided_size(statement.value)
                elif isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
                    return tuple(sizes.get(e.id) if isinstance(e, ast.Name) else None for e in statement.value.elts)
    return ()


def _strided_size(node: ast.expr) -> tuple[int, int] | None:
    if not (isinstance(node, ast.Call) and len(node.args) >= 2 and ast.unparse(node.func).endswith("rand_strided")):
        return None
    shape, strides = literal(node.args[0]), literal(node.args[1])
    dtype = next((ast.unparse(k.value).split(".")[-1] for k in node.keywords if k.arg == "dtype"), "float32")
    if isinstance(shape, (list, tuple)) and isinstance(strides, (list, tuple)):
        return distinct_elements(shape, strides), itemsize(dtype) or 4
    return None


def distinct_elements(shape: Any, strides: Any) -> int:
    """Elements of a tensor that lie at different addresses: a dimension of stride 0 is one element."""
    sizes = [int(n) for n in shape]
    if isinstance(strides, (list, tuple)) and len(strides) == len(sizes):
        sizes = [n for n, s in zip(sizes, strides) if s != 0 or n == 0]
    return math.prod(sizes)
