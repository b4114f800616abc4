"""Makes the C++ kernels of Inductor's generated modules visible, in memory only.

Kineto sees no C++ kernel of Inductor's unless the C++ is compiled anew with profiling. Instead, when a generated
wrapper module with C++ kernels is loaded, every statement that calls one is wrapped in a record-function scope
named ``kernel@line#stem`` (stem: the module's file name without ``.py``). The file, its lines and what Inductor
compiled stay as they are. Modules without C++ kernels run unmodified. Calls of library kernels
(``extern_kernels.mm(…)``) need no scope: their own operators are recorded, and attribution places them by their order.
"""

from __future__ import annotations

import ast
import os
from types import CodeType

SCOPE = "_ridgeline_scope"
_HARNESS = {"get_args", "benchmark_compiled_module", "recursively_apply_fns"}
_CPP_MAKERS = {"cpp", "cpp_pybinding"}


def is_wrapper(source: str) -> bool:
    """Whether the text is a generated wrapper module (not the file of one kernel) that defines C++ kernels."""
    return source.lstrip().startswith("# AOT ID:") and "async_compile.cpp" in source


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def cpp_kernels(tree: ast.Module) -> set[str]:
    """Names bound at module level to ``async_compile.cpp_pybinding(…)``."""
    found: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        maker = _dotted(statement.value.func) or ""
        if maker.startswith("async_compile.") and maker.split(".")[-1] in _CPP_MAKERS:
            found.update(target.id for target in statement.targets if isinstance(target, ast.Name))
    return found


class _Wrapper(ast.NodeTransformer):
    def __init__(self, kernels: set[str], stem: str) -> None:
        self.kernels, self.stem = kernels, stem
        self.sites: list[tuple[int, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name not in _HARNESS and not node.name.startswith("__"):
            self.generic_visit(node)
        return node

    def _statement(self, node: ast.Expr | ast.Assign) -> ast.stmt:
        call = node.value
        if not isinstance(call, ast.Call):
            return node
        kernel = _dotted(call.func)
        if kernel is None or kernel not in self.kernels:
            return node
        tensors = [ast.Name(a.id, ast.Load()) for a in call.args if isinstance(a, ast.Name)]
        scope = ast.Call(
            func=ast.Name(SCOPE, ast.Load()),
            args=[ast.Constant(f"{kernel}@{node.lineno}#{self.stem}"), ast.Tuple(list(tensors), ast.Load())],
            keywords=[],
        )
        self.sites.append((node.lineno, kernel))
        return ast.copy_location(ast.With(items=[ast.withitem(context_expr=scope)], body=[node]), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return self._statement(node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        return self._statement(node)


def instrument(source: str, path: str) -> tuple[CodeType, list[tuple[int, str]]]:
    """The module's code with wrapped call sites, and the sites [(line, kernel)]. Raises ``SyntaxError``."""
    tree = ast.parse(source)
    wrapper = _Wrapper(cpp_kernels(tree), os.path.basename(path).removesuffix(".py"))
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            wrapper.visit(statement)
    ast.fix_missing_locations(tree)
    return compile(tree, path, "exec", dont_inherit=True), wrapper.sites
