"""Machine code and tuning results of the Triton kernels that this process loaded: cubins, and the configurations chosen.

The caches that cubins lie in are often temporary. The ``.best_config`` file beside a kernel has a name that only torch can
derive, and is not there where nothing was tuned; the launcher itself knows what it runs with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from .runfolder import RunFolder

LIMIT = 2000
"""Cubins kept."""


def _compiled(tuner: Any) -> Iterator[Any]:
    """The ``triton.compiler.CompiledKernel`` objects behind an Inductor ``CachingAutotuner``, whatever its version."""
    for result in getattr(tuner, "compile_results", None) or []:
        kernel = getattr(result, "kernel", None)
        if kernel is not None:
            yield kernel
    for launcher in getattr(tuner, "launchers", None) or []:
        kernel = getattr(launcher, "bin", None)
        if kernel is not None:
            yield kernel


def _tuners() -> Iterator[Any]:
    """Kernels bound in generated modules that are loaded."""
    cache = sys.modules.get("torch._inductor.codecache")
    modules = list(getattr(getattr(cache, "PyCodeCache", None), "modules", None) or [])
    for module in modules:
        for value in list(vars(module).values()):
            if hasattr(value, "compile_results") and hasattr(value, "launchers"):
                yield value


def keep(folder: RunFolder) -> int:
    """Copy the machine code of loaded kernels into the run folder; the number of cubins kept."""
    kept: set[str] = set()
    for tuner in _tuners():
        filename = getattr(tuner, "filename", None)
        if isinstance(filename, str):
            folder.snapshot(filename, "generated")
        for kernel in _compiled(tuner):
            if len(kept) >= LIMIT:
                return len(kept)
            path, content = _machine_code(kernel)
            if path is not None and content is not None and path not in kept:
                kept.add(path)
                folder.keep(path, content, "cubin")
    return len(kept)


def tuned() -> dict[str, dict[str, Any]]:
    """By kernel file: the configuration that is launched, as ``.best_config`` has it, of kernels with one launcher left."""
    found = {}
    for tuner in _tuners():
        filename, launchers = getattr(tuner, "filename", None), getattr(tuner, "launchers", None) or []
        config = getattr(launchers[0], "config", None) if len(launchers) == 1 else None
        if isinstance(filename, str) and config is not None:
            kwargs: Any = getattr(config, "kwargs", None)
            found[filename] = {
                **{name: value for name, value in dict(kwargs or {}).items() if isinstance(value, (int, str))},
                "num_warps": getattr(config, "num_warps", None),
                "num_stages": getattr(config, "num_stages", None),
                "found_by_coordesc": bool(getattr(config, "found_by_coordesc", False)),
            }
    return found


def _machine_code(kernel: Any) -> tuple[str | None, bytes | None]:
    """(a path that names kernel and hash, the cubin or code object)."""
    asm: Any = getattr(kernel, "asm", None)
    if not hasattr(asm, "get"):
        return None, None
    for suffix in ("cubin", "hsaco"):
        content = asm.get(suffix)
        if isinstance(content, bytes):
            metadata = getattr(kernel, "metadata", None)
            name = getattr(metadata, "name", None) or "kernel"
            folder = os.path.dirname(str(getattr(kernel, "metadata_path", "") or ""))
            digest = str(getattr(kernel, "hash", "") or id(kernel))
            return os.path.join(folder or f"triton-{digest}", f"{name}.{suffix}"), content
    return None, None
