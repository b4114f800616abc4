"""What a step is in this trace: the profiler's own marks, else a range of the user's that repeats, else nothing."""

from __future__ import annotations

import re

import numpy as np

from ridgeline.trace.nesting import rows_by
from ridgeline.trace.tables import Ranges, StepRow

_PROFILER_STEP = re.compile(r"ProfilerStep#(\d{1,18})")
_FRAMEWORK = re.compile(
    r"ProfilerStep#|## Call CompiledFxGraph|Torch-Compiled Region|TorchDynamo Cache Lookup|Optimizer\.(?:step|zero_grad)#"
    r"|enumerate\(DataLoader\)|Pregraph bytecode|CompiledFunction|AOTDispatcher|DistributedDataParallel\.|FSDP::"
    r"|nccl:|gloo:|hccl:|rccl:|mpi:|ucc:|xccl:|c10d::|autograd::|Inductor|async_compile|PyTorch Profiler|unknown$|\[pg"
)


def is_framework_range(name: str) -> bool:
    """Whether ``name`` is a mark that PyTorch itself sets, not a label of the user."""
    return _FRAMEWORK.match(name) is not None


def find_steps(ranges: Ranges, strings: list[str]) -> list[StepRow]:
    """Steps in order of time. A jump in the profiler's numbers opens a new window."""
    numbers: dict[int, int] = {}
    for name in np.unique(ranges.name).tolist():
        if (match := _PROFILER_STEP.fullmatch(strings[name])) is not None:
            numbers[name] = int(match[1])
    if numbers:
        return _profiler_steps(ranges, strings, numbers)
    return _user_steps(ranges, strings)


def _profiler_steps(ranges: Ranges, strings: list[str], numbers: dict[int, int]) -> list[StepRow]:
    steps: list[StepRow] = []
    window, last = 0, None
    for row in np.flatnonzero(np.isin(ranges.name, np.array(list(numbers), dtype=np.int32))).tolist():
        number = numbers[int(ranges.name[row])]
        if last is not None and number != last + 1:
            if number == last:
                continue  # The same mark of another thread.
            window += 1
        last = number
        steps.append(
            StepRow(
                name=strings[int(ranges.name[row])],
                start=float(ranges.start[row]),
                dur=float(ranges.dur[row]),
                window=window,
            )
        )
    return steps


def _user_steps(ranges: Ranges, strings: list[str]) -> list[StepRow]:
    best, best_rows = 0.0, None
    for name, rows in rows_by(ranges.name):
        if len(rows) < 2 or not strings[name] or is_framework_range(strings[name]):
            continue
        if (ranges.tid[rows] != ranges.tid[rows[0]]).any():
            continue
        start, end = ranges.start[rows], ranges.start[rows] + ranges.dur[rows]
        if (start[1:] < end[:-1]).any():
            continue  # Nested in itself.
        covered = float((end - start).sum())
        if covered > best:
            best, best_rows = covered, rows
    if best_rows is None:
        return []
    return [
        StepRow(
            name=f"{strings[int(ranges.name[row])]}#{number}",
            start=float(ranges.start[row]),
            dur=float(ranges.dur[row]),
        )
        for number, row in enumerate(best_rows.tolist())
    ]
