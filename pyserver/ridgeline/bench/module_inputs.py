"""What a generated module is to be profiled with, from its text: for the agent, which makes the tensors.

The harness is read, not executed: one that is broken, missing, or of another version of torch does no harm, and sizes can be
given. Where the text does not say all, the agent falls back to the module's own ``get_args``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ridgeline.bench import plan
from ridgeline.inductor.files import MAX_FILE_BYTES
from ridgeline.inductor.module import is_wrapper


class SizeError(ValueError):
    """One line: a size was given that the module does not have, or for a file that is no module."""


def of_file(path: Path, sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """{inputs, constants, bound, notes, unbacked}; None for anything but a module whose text says its inputs. Raises :class:`SizeError`."""
    read = _plan(path, sizes)
    unknown = [name for name in sizes if read is None or name not in read.symbols]
    if unknown:
        there = f"it has {', '.join(read.symbols)}" if read is not None and read.symbols else "all its sizes are fixed"
        raise SizeError(
            f"--size {unknown[0]}: {path} has no such size; {there}"
            if read is not None
            else f"--size is for generated modules: {path} is none"
        )
    if read is None or read.inputs is None:
        return None
    bounds = [kernel.bounds for kernel in read.kernels if kernel.bounds]
    return {
        "inputs": read.inputs,
        "constants": read.constants,
        "bound": min(bounds, default=None),
        "notes": read.notes,
        # Those that an input gives have a note of their own.
        "unbacked": [name for name in read.unbacked if name not in sizes and name not in read.sizes],
    }


def _plan(path: Path, sizes: Mapping[str, int]) -> plan.Plan | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
        return plan.read(text, str(path), sizes) if is_wrapper(text) else None
    except (OSError, plan.PlanError):
        return None
