"""Where a kernel is defined, for launches whose place in a wrapper module is not known: the single-kernel file that the
launching op names, or the user's own ``@triton.jit`` function."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import numpy as np

from ridgeline.attribution.builder import Builder
from ridgeline.attribution.model import GeneratedSite
from ridgeline.attribution.resolve import kernel_file_of
from ridgeline.attribution.sources import Function, SourceStore
from ridgeline.inductor.files import GeneratedFiles
from ridgeline.trace.tables import Trace, Work
from ridgeline.trace.work import WorkTable


def is_jitted(function: Function) -> bool:
    """``@triton.jit``, ``@jit`` or either with arguments."""
    if isinstance(function.node, ast.Module):
        return False
    for decorator in function.node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
        if name == "jit":
            return True
    return False


def definitions(store: SourceStore, files: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Kernel name -> (file, line of its ``def``); a name that is defined twice is nobody's."""
    found: dict[str, tuple[str, int] | None] = {}
    for file in files:
        for function in store.functions(file):
            if is_jitted(function):
                place = (store.resolve(file), function.def_line)
                found[function.name] = place if found.get(function.name, place) == place else None
    return {name: place for name, place in found.items() if place is not None}


def place_user_kernels(
    trace: Trace, work: WorkTable, builder: Builder, store: SourceStore, more_files: Iterable[str]
) -> None:
    """Give launches without an op of their own (Triton's) the definition of their kernel as their site."""
    candidates = np.flatnonzero((work.op < 0) & (work.call >= 0) & (work.work == int(Work.KERNEL)) & (builder.site < 0))
    if not len(candidates):
        return
    used = {int(i) for i in np.unique(builder.source[candidates]) if i >= 0}
    files = {frame.file for i in used for ref in builder.sources[i] for frame in ref.stack}
    files |= {ref.file for i in used for ref in builder.sources[i]} | set(more_files)
    known = definitions(store, sorted(files))
    for row in candidates.tolist():
        place = known.get(trace.strings[int(work.name[row])])
        if place is not None:
            builder.site[row] = builder.site_id(
                GeneratedSite(
                    module=None, definition_line=None, call_line=None, kernel_file=place[0], kernel_line=place[1]
                )
            )


def place_kernel_files(trace: Trace, work: WorkTable, builder: Builder, files: GeneratedFiles) -> None:
    """Give launches without a site the single-kernel file that their op names."""
    known: dict[int, int] = {}
    for row in np.flatnonzero((builder.site < 0) & (work.op >= 0)).tolist():
        op = int(work.op[row])
        args = int(trace.ops.args[op])
        if args < 0:
            continue
        if args not in known:
            path = kernel_file_of(trace, op)
            if path is None:
                known[args] = -1
                continue
            parsed = files.kernel(path)
            known[args] = builder.site_id(
                GeneratedSite(
                    module=None,
                    definition_line=None,
                    call_line=None,
                    kernel_file=files.shown(path),
                    kernel_line=parsed.line if parsed is not None else None,
                )
            )
        builder.site[row] = known[args]
