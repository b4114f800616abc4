"""A user's own Triton kernel, launched outside ``torch.compile``: the trace has its name, grid and time, but neither block
sizes nor tensors.

What can be had of them, the surest first. The statement that launches it, a default or the autotuner's only fitting
configuration write constants out; the grid times the block is then the size of the problem up to one block, for a kernel
masks its tail. Where block sizes are computed, the tensor allocated just before the launch tells them: it is what the
kernel fills. Last, of a kernel that only streams, the block size is taken to be the largest power of two whose bytes the
memory could have moved in the time; that assumes what it then concludes, so the verdict is marked: at most even confidence,
borderline. A loop whose trips are not known, or a product of tiles, leaves the kernel unknown.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.roofline import launch_statements
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec, KernelInput
from ridgeline.roofline.launched import TYPES
from ridgeline.roofline.limits import streaming_rate
from ridgeline.roofline.source import KernelSource, parameters, parse_kernel
from ridgeline.roofline.tensors import arguments_are_its_own
from ridgeline.roofline.triton_model import Analysis, analyse_as, demand, find
from ridgeline.roofline.walk import pointer_parameters

SIZES = tuple(1 << e for e in range(3, 17))
MOST_BOUNDS = 2
FILLED, CLOSE = 1.1, 0.7
NOTE = "neither sizes nor types of its tensors were recorded: the block size is inferred from the time, so the bound is a guess"
UNTYPED = "types of its tensors were not recorded: 4 bytes an element are assumed, so the bound is a guess"
SIZED = "sizes of its tensors were not recorded: inferred from its grid, the launching statement and the tensor allocated for it"


def user_kernel_text(symbol: str, texts: Iterable[str]) -> str | None:
    """The first of the user's files that defines a jit function called ``symbol``."""
    for text in texts:
        if f"def {symbol}(" in text:
            source = parse_kernel(text, symbol)
            if source is not None and source.function.name == symbol:
                return text
    return None


def blocks_of(source: KernelSource) -> set[str]:
    """Compile-time arguments that are sizes of blocks."""
    return {
        n.id
        for node in ast.walk(source.function)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("arange") and node.args
        for n in ast.walk(node.args[-1])
        if isinstance(n, ast.Name)
    } & source.constexprs


def only_streams(source: KernelSource) -> bool:
    """Whether the text has neither loops nor atomic operations."""
    for node in ast.walk(source.function):
        if isinstance(node, (ast.For, ast.While)):
            return False
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1].startswith("atomic"):
            return False
    return True


def inferred(kernel: KernelInput, device: DeviceSpec) -> tuple[Demand, Analysis] | None:
    """Demand and walked source under inferred sizes; None where the text does not allow it."""
    source = find(kernel) if kernel.launched is None else None
    rate = streaming_rate(device)
    if source is None or source.signature or arguments_are_its_own(kernel) or not kernel.grid or not rate:
        return None
    known = launch_statements.constants(kernel.kernel_source or "", source, kernel.block)
    blocks = blocks_of(source)
    left = source.constexprs - known.keys()
    if not source.constexprs or not left <= blocks:
        return None
    types = {kind for _, kind in kernel.allocated}
    kind = TYPES[types.pop()] if len(types) == 1 else None
    most = FILLED * kernel.duration_us * rate
    if not left and not loop_bounds(source):
        chosen = _walked(kernel, source, kind, known)
        note = SIZED if kind else UNTYPED
        if kind is None and chosen is not None and (chosen[0].bytes or 0.0) > most:
            return None  # the elements must be smaller than was assumed
    else:
        chosen, note = _filling(kernel, source, known, left), SIZED
        if chosen is None and only_streams(source):
            chosen, note = _in_time(kernel, source, known, left, most), NOTE
    if chosen is None:
        return None
    chosen[0].guessed = True
    chosen[0].notes.append(note)
    return chosen


def loop_bounds(source: KernelSource) -> set[str]:
    """Run-time numbers that loops run up to."""
    plain = {a.arg for a in parameters(source.function)} - source.constexprs
    return plain & {
        n.id
        for node in ast.walk(source.function)
        if isinstance(node, ast.For)
        for n in ast.walk(node.iter)
        if isinstance(n, ast.Name)
    }


def _walked(
    kernel: KernelInput,
    source: KernelSource,
    kind: str | None,
    constants: Mapping[str, Any],
    scalars: Mapping[str, int] | None = None,
) -> tuple[Demand, Analysis] | None:
    pointers = pointer_parameters(source.function)
    signature = {
        a.arg: "constexpr" if a.arg in source.constexprs else f"*{kind or 'fp32'}" if a.arg in pointers else "i32"
        for a in parameters(source.function)
    }
    analysis = analyse_as(kernel, source, signature, constants, scalars or {})
    if analysis is None or analysis.tally.unknown or analysis.tally.open_loop or analysis.tally.dots:
        return None
    return demand(kernel, analysis), analysis


def _filling(
    kernel: KernelInput, source: KernelSource, known: Mapping[str, Any], left: set[str]
) -> tuple[Demand, Analysis] | None:
    """Under the smallest blocks whose stores fill a tensor that was allocated for the launch; loops run up to one of its sides."""
    bounds = sorted(loop_bounds(source))
    for shape, kind in sorted(kernel.allocated, key=lambda made: -math.prod(made[0])):
        elements = math.prod(shape)
        for sides in itertools.product(dict.fromkeys(shape), repeat=len(bounds)) if len(bounds) <= MOST_BOUNDS else ():
            scalars = dict(zip(bounds, sides))
            for size in SIZES if left else SIZES[:1]:
                walked = _walked(kernel, source, TYPES[kind], {**known, **dict.fromkeys(left, size)}, scalars)
                if walked is None:
                    break
                stored = (walked[0].write or 0.0) / max(a.size for a in walked[1].tally.accesses)
                if stored >= elements:
                    if stored < 2 * elements:
                        return walked
                    break
    return None


def _in_time(
    kernel: KernelInput, source: KernelSource, known: Mapping[str, Any], left: set[str], most: float
) -> tuple[Demand, Analysis] | None:
    """Under the largest blocks whose bytes are at most ``most``; None where they come to less than most of it, for then
    nothing tells."""
    chosen = None
    for size in SIZES:
        walked = _walked(kernel, source, None, {**known, **dict.fromkeys(left, size)})
        if walked is None or (walked[0].bytes or 0.0) > most:
            break
        chosen = walked
    return chosen if chosen is not None and (chosen[0].bytes or 0.0) > CLOSE * most else None
