"""Kernels that a program launches itself (``@triton.jit``), with the arguments that a profiled run of it gave them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ridgeline.bench.bytes import ITEM_BYTES
from ridgeline.bench.harness import Harness, tensor
from ridgeline.bench.plan import Kernel, Plan, Site
from ridgeline.bench.signatures import Signature
from ridgeline.sidecar import TritonKernel

MARK = "triton.jit"
_OWN = "triton_heuristics"
"""What every kernel file of Inductor's imports and no program does."""
NOT_RECORDED = (
    "{file} defines kernels of its own, and no run of it holds their arguments:"
    " profile the program that launches them first (ridgeline profile), or name a run with --run"
)


def is_program(text: str) -> bool:
    """Whether a file is a program (or library) with Triton kernels of its own, not a file that Inductor wrote."""
    return MARK in text and _OWN not in text


def of_file(rows: Iterable[TritonKernel], file: Path) -> list[TritonKernel]:
    """The kernels that stand in ``file``, by any path to it."""
    wanted = {str(file), os.path.realpath(file)}
    return [row for row in rows if row.file in wanted or os.path.realpath(row.file) in wanted]


def plan_of(rows: Sequence[TritonKernel], text: str, path: str, run: str) -> Plan:
    """Every kernel once for each set of arguments it was seen with: ``scale``, ``scale#2``. ``text`` is the file today."""
    kernels, notes = [], []
    for row in rows:
        if _body(row) not in " ".join(text.split()):
            notes.append(f"{row.name} was edited since that run: what the run launched is measured")
        for number, call in enumerate(row.calls, 1):
            kernels.append(_kernel(row, call, row.name if number == 1 else f"{row.name}#{number}"))
        if not row.calls:
            notes.append(f"{row.name} was not launched outside of autotuning")
    return Plan(path, "launches", None, kernels, Harness(), "", None, notes=notes, run=run)


def _body(row: TritonKernel) -> str:
    """The kernel's own text, blanks aside: it stands first of what is jitted in ``text``."""
    start = row.text.find(f"def {row.name}(")
    end = row.text.find("\n@triton.jit", start)
    return " ".join(row.text[start : end if end >= 0 else None].split()) if start >= 0 else row.name


def _kernel(row: TritonKernel, call: dict[str, Any], name: str) -> Kernel:
    arguments: list[Any] = []
    problem: str | None = None
    notes = []
    names = [str(one.get("name")) for one in call["arguments"]]
    for one in call["arguments"]:
        if "size" in one:
            described = tensor(one["size"], one["stride"], one["dtype"], one["device"])
            if isinstance(one.get("content"), dict):
                described["content"] = one["content"]
            if one.get("same_as") in names:
                described["same_as"] = names.index(one["same_as"])
            arguments.append(described)
        elif one.get("type") == "unknown":
            problem = problem or f"its argument {one['name']} is a {one['value']}, which cannot be made again"
            arguments.append(None)
        else:
            arguments.append({k: one[k] for k in ("type", "value")} if "type" in one else one["value"])
    if row.needs:
        problem = problem or f"it needs {', '.join(row.needs)} of {Path(row.file).name}, which a run does not record"
    if not row.text:
        problem = problem or "its text was not recorded"
    integral = [one for one in arguments if isinstance(one, dict) and "size" in one and _integral(one["dtype"])]
    if any("content" not in one for one in integral):
        notes.append("its integer buffers hold zeros: where they are indices, reading through them may look free")
    elif any("values" not in one["content"] for one in integral):
        notes.append("its integer buffers hold random values within the range that the run had")
    return Kernel(
        name=name,
        language="triton",
        line=row.line,
        source=row.text,
        signature=Signature(tuple(names), tuple(None for _ in names), tuple("size" in a for a in call["arguments"])),
        sites=[Site(row.line, arguments, names, problem)],
        needs=[f"kernel {row.name} needs {what} from {row.file}" for what in row.needs],
        notes=notes,
        symbol=row.name,
        launch={"grid": list(call["grid"]), "options": dict(call["options"])},
    )


def _integral(dtype: str) -> bool:
    return dtype in ITEM_BYTES and dtype.startswith(("int", "uint"))
