"""Categories beside the wall of the same run, and the generated modules of a step side by side, from the profile alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ridgeline.profile import Module, ProfileDocument
from ridgeline.report.whatif import step_us


@dataclass(slots=True)
class ModuleRow:
    """A category in every generated module: microseconds a step."""

    category: str
    by_module: list[float] = field(default_factory=list)


def wall_share(document: ProfileDocument, time_us: float) -> float | None:
    """Percent of the steps' wall as it is without the profiler, where that is known, else of the recorded; None without a wall."""
    wall = document.totals.wall_us
    if wall is not None and document.source.steps and document.devices:
        wall = document.source.steps * (step_us(document, document.devices[0]) or 0.0)
    return time_us / wall * 100 if wall else None


def place_of(document: ProfileDocument, module: Module) -> str:
    """A path at which the module can be opened here: where torch wrote it, else the run's copy; its name where neither is.

    Caches in temporary folders are gone soon, so the first need not be there any more.
    """
    if os.path.isfile(module.file):
        return module.file
    copy = next((file.snapshot for file in document.files if file.path == module.file and file.snapshot), None)
    return f"{os.path.basename(module.file)}, kept in the run folder as {copy}" if copy else module.file


def side_by_side(document: ProfileDocument) -> tuple[list[Module], list[ModuleRow]]:
    """The modules (forward before backward) and the categories' times in each, largest first.

    A kernel that several modules launch counts in each with what that module's call lines took; where the lines carry no
    time, a kernel of one module counts there whole, and one of several is left out rather than guessed.
    """
    order = {"forward": 0, "inference": 1, "backward": 2}
    modules = sorted(document.modules, key=lambda module: order[module.kind])
    steps = document.source.steps or 1
    rows: dict[str, ModuleRow] = {}
    for kernel in document.kernels:
        owners = [index for index, module in enumerate(modules) if kernel.id in module.kernels]
        for index in owners:
            refs = [ref for ref in kernel.generated if ref.file == modules[index].file]
            taken = sum(call.time_us or 0.0 for ref in refs for call in ref.call_lines)
            if not taken and len(owners) == 1:
                taken = kernel.total_us
            row = rows.setdefault(kernel.category, ModuleRow(kernel.category, [0.0] * len(modules)))
            row.by_module[index] += taken / steps
    return modules, sorted(rows.values(), key=lambda row: -sum(row.by_module))
