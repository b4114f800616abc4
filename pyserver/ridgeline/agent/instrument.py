"""Makes the C++ kernels of Inductor's generated modules visible, in memory only.

Kineto sees no C++ kernel of Inductor's unless the C++ is compiled anew with profiling. Instead, when a generated
wrapper module with C++ kernels is loaded, every statement that calls a kernel is wrapped in a record-function scope
named ``kernel@line#stem`` (stem: the module's file name without ``.py``). The file, its lines and what Inductor
compiled stay as they are. Modules without C++ kernels run unmodified.
"""

from __future__ import annotations

import ast
import os
from types import CodeType

SCOPE = "_ridgeline_scope"
_HARNESS = {"get_args", "benchmark_compiled_module", "recursively_apply_fns"}
_EXTERN = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.", "quantized.")
_TENSOR_METHODS = {"zero_", "copy_", "fill_"}
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
    def __init__(self, kernels: set[str], stem: str, with_extern: bool) -> None:
        self.kernels, self.stem, self.with_extern = kernels, stem, with_extern
        self.sites: list[tuple[int, str]] = []

    def kernel_of(self, call: ast.Call) -> str | None:
        name = _dotted(call.func)
        if name is None:
            return None
        if name in self.kernels:
            return name
        if not self.with_extern:
            return None
        if name.startswith(_EXTERN):
            return name
        head, _, method = name.rpartition(".")
        return name if method in _TENSOR_METHODS and head and "." not in head else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name not in _HARNESS and not node.name.startswith("__"):
            self.generic_visit(node)
        return node

    def _statement(self, node: ast.Expr | ast.Assign) -> ast.stmt:
        call = node.value
        if not isinstance(call, ast.Call):
            return node
        kernel = self.kernel_of(call)
        if kernel is None:
            return node
        arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "out")]
        tensors = [ast.Name(a.id, ast.Load()) for a in arguments if isinstance(a, ast.Name)]
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
    """The module's code with wrapped call sites, and the sites [(line, kernel)]. Raises ``SyntaxError``.

    Calls of extern kernels are wrapped too in a module that runs on the CPU alone, so that one statement is one site.
    """
    tree = ast.parse(source)
    with_extern = "async_compile.triton" not in source and "cuda" not in source
    wrapper = _Wrapper(cpp_kernels(tree), os.path.basename(path).removesuffix(".py"), with_extern)
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            wrapper.visit(statement)
    ast.fix_missing_locations(tree)
    return compile(tree, path, "exec", dont_inherit=True), wrapper.sites
