"""Keeps Dynamo out of the agent: it would trace our hooks, for they run inside compiled regions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any


def skip_own_code(eval_frame: Any) -> None:
    """``torch._dynamo.eval_frame``: mark every function of this package, and those nested in it, as not to be traced."""

    def skip(code: CodeType) -> None:
        eval_frame.skip_code(code)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                skip(constant)

    package = __name__.rpartition(".")[0] + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            for code in functions_of(module):
                skip(code)


def functions_of(module: ModuleType) -> list[CodeType]:
    """Code of the functions and methods that a module defines."""
    found: list[CodeType] = []

    def visit(holder: Any) -> None:
        for value in list(vars(holder).values()):
            function: Callable[..., Any] | None = getattr(value, "fget", None) or getattr(value, "__func__", value)
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType) and getattr(function, "__module__", None) == module.__name__:
                found.append(code)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                visit(value)

    visit(module)
    return found
