"""Runs the user's program in this interpreter as plain ``python`` would."""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import types
from typing import Any

from . import generated
from . import spec as specs
from .agent import Agent
from .exits import show_as_plain_python


def run(spec_path: str, loaded_at_start: frozenset[str]) -> None:
    """Read the request, arm the agent, become the user's program. Whatever the program raises leaves this function."""
    spec = specs.read(spec_path)
    main, first_path = _identity(spec)
    agent = Agent(spec, main, first_path)
    _forget_shadowed(first_path, loaded_at_start)
    agent.arm()
    run_program(spec, agent, first_path)


def _identity(spec: specs.Spec) -> tuple[str, str]:
    """(absolute path or module name that runs as ``__main__``, ``sys.path[0]``) as ``python`` would choose them."""
    if spec.module:
        return spec.target, os.getcwd()
    path = os.path.abspath(spec.target)
    return path, path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))


def _forget_shadowed(folder: str, loaded_at_start: frozenset[str]) -> None:
    """Un-import the standard modules that only the agent needed and that a file of the program's would shadow."""
    for name in set(sys.modules) - loaded_at_start:
        if "." in name or name.startswith("_ridgeline"):
            continue
        if os.path.exists(os.path.join(folder, f"{name}.py")) or os.path.isdir(os.path.join(folder, name)):
            del sys.modules[name]


def _fresh_main(file: str | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    names: dict[str, Any] = {"__builtins__": builtins, "__spec__": None, "__annotations__": {}}
    if file is not None:
        names.update(__file__=file, __cached__=None, __loader__=importlib.machinery.SourceFileLoader("__main__", file))
    module.__dict__.update(names)
    return module


def run_program(spec: specs.Spec, agent: Agent, first_path: str) -> None:
    sys.argv = [spec.target, *spec.args]
    command = ["-m", spec.target] if spec.module else [spec.target]
    sys.orig_argv[1:] = [*command, *spec.args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, first_path)
    try:
        if spec.module or os.path.isdir(spec.target):
            sys.modules["__main__"] = agent.main_module = _fresh_main(None)
            # What `python -m` itself calls: it finds the module, sets sys.argv[0], runs it in __main__'s namespace.
            name = spec.target if spec.module else "__main__"
            runpy._run_module_as_main(name, alter_argv=spec.module)  # type: ignore[attr-defined]
        else:
            _run_script(spec.target, agent)
    except BaseException as error:
        agent.main_ended(error)
        if not agent.stopped_by_us(error):
            show_as_plain_python()
            raise
    else:
        agent.main_ended(None)


def _run_script(target: str, agent: Agent) -> None:
    path = os.path.abspath(target)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    if not agent.spec.args and generated.is_generated(source):
        generated.run(path, source.decode("utf-8", "replace"), agent)
        return
    agent.keep_main(path, source)
    module = _fresh_main(path)
    sys.modules["__main__"] = agent.main_module = module  # kept alive: threads may outlive the script's end
    code = compile(source, path, "exec", dont_inherit=True)
    exec(code, module.__dict__)
