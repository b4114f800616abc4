"""A user's own Triton kernel, launched outside ``torch.compile``: the trace has its name, grid and time, but neither block
sizes nor tensors.

Where the text shows a kernel that only streams (no matrix product, no atomic operation, no loop, no compile-time constant
besides the sizes of its blocks), the block size is taken to be the largest power of two whose bytes the memory could have
moved in the time. That assumes what it then concludes, so the verdict is marked: at most even confidence, borderline.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import DeviceSpec, KernelInput
from ridgeline.roofline.limits import streaming_rate
from ridgeline.roofline.source import KernelSource, parse_kernel
from ridgeline.roofline.tensors import arguments_are_its_own
from ridgeline.roofline.triton_model import Analysis, analyse, demand, find

SIZES = tuple(1 << e for e in range(5, 17))
FILLED = 1.1
NOTE = "neither sizes nor types of its tensors were recorded: the block size is inferred from the time, so the bound is a guess"


def user_kernel_text(symbol: str, texts: Iterable[str]) -> str | None:
    """The first of the user's files that defines a jit function called ``symbol``."""
    for text in texts:
        if f"def {symbol}(" in text:
            source = parse_kernel(text, symbol)
            if source is not None and source.function.name == symbol:
                return text
    return None


def block_constants(source: KernelSource) -> set[str] | None:
    """Compile-time arguments that are sizes of blocks; None if the text has anything whose extent cannot be known."""
    constants = {
        a.arg
        for a in source.function.args.args
        if a.annotation is not None and ast.unparse(a.annotation).endswith("constexpr")
    }
    blocks: set[str] = set()
    for node in ast.walk(source.function):
        if isinstance(node, (ast.For, ast.While)):
            return None
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called == "arange" and node.args:
                blocks |= {n.id for n in ast.walk(node.args[-1]) if isinstance(n, ast.Name)}
            if called in ("dot", "dot_scaled") or called.startswith("atomic"):
                return None
    return constants if constants and constants <= blocks else None


def inferred(kernel: KernelInput, device: DeviceSpec) -> tuple[Demand, Analysis] | None:
    """Demand and walked source under the inferred block size; None where the text does not allow it."""
    source = find(kernel) if kernel.launched is None else None
    rate = streaming_rate(device)
    if source is None or source.signature or arguments_are_its_own(kernel) or not kernel.grid or not rate:
        return None
    blocks = block_constants(source)
    if not blocks:
        return None
    chosen: tuple[Demand, Analysis] | None = None
    for size in SIZES:
        analysis = analyse(replace(kernel, kernel_kwargs=",".join(f"{name}={size}" for name in sorted(blocks))))
        if analysis is None or analysis.tally.unknown:
            return None
        work = demand(kernel, analysis)
        if (work.bytes or 0.0) > FILLED * kernel.duration_us * rate:
            break
        chosen = work, analysis
    if chosen is None:
        return None
    chosen[0].guessed = True
    chosen[0].notes.append(NOTE)
    return chosen
