"""Demand of one launch of a Triton kernel, from its text and what the trace recorded of the launch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ridgeline.roofline import launched
from ridgeline.roofline.architecture import HOPPER, blocks_per_sm
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.gemm import OLD_RATE
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.instructions import Warp, warp_instructions
from ridgeline.roofline.layout import Layout
from ridgeline.roofline.source import KernelSource, distinct_elements, parse_kernel
from ridgeline.roofline.tally import Dot, Tally
from ridgeline.roofline.tensors import arguments_are_its_own
from ridgeline.roofline.traffic import SECTOR, cached_traffic, traffic
from ridgeline.roofline.walk import Walker

GROUP_ROWS = 64
"""Rows of a matrix instruction of four warps."""
WORDS = {
    "exp": "exp (about 9 instructions)",
    "erf": "erf (about 28 instructions)",
    "sigmoid": "sigmoid (about 12 instructions)",
    "tanh": "tanh (about 22 instructions)",
    "divide": "division (about 8 instructions)",
    "log": "log (about 25 instructions)",
    "log1p": "log1p (about 30 instructions)",
    "sin": "sin and cos (about 40 instructions, twice that for large arguments)",
    "pow": "pow (about 55 instructions)",
    "philox": "random numbers (about 50 instructions)",
    "online_softmax_step": "the online softmax step (about 28 instructions)",
    "welford_step": "Welford's update (about 13 instructions)",
    "welford_plain": "Welford's update (about 4 instructions)",
    "welford_counted": "Welford's update (about 6 instructions)",
    "index_divide": "division of indices",
    "index_mask": "remainders of indices",
    "address": "addresses of single elements",
    "float": "plain arithmetic",
    "load": "loads",
    "store": "stores",
    "atomic": "atomic additions",
    "sqrt_rn": "square roots",
    "nan_max": "maxima that keep NaN",
    "where": "choices",
    "integer": "arithmetic of whole numbers",
    "integer_divide": "division of whole numbers",
    "double": "arithmetic in double precision",
    "double_pow": "pow in double precision",
    "double_function": "functions in double precision",
    "reduce_welford": "Welford's means put together",
    "online_softmax_first": "the online softmax step",
    "sort_step": "sorting",
    "unpack": "unpacking",
    "shuffled": "shuffles between lanes",
}
FAMILIES = (
    (("index_",), "arithmetic of indices"),
    (("reduce_",), "the reduction within and across warps"),
    (("exchange", "turn"), "changes of layout"),
    (("welford",), "Welford's update"),
    (("widen", "narrow", "convert", "half", "int_float", "float_int", "byte_float"), "conversions between types"),
    (("double_",), "double precision"),
)
"""What operations without words of their own are called, by how their names begin."""


@dataclass(slots=True, frozen=True)
class Analysis:
    """A kernel's text walked for one configuration."""

    source: KernelSource
    tally: Tally
    warp: Warp
    layout: Layout
    num_warps: int


def analyse(kernel: KernelInput) -> Analysis | None:
    """None where there is no source, or none that parses."""
    source = find(kernel)
    if source is None:
        return None
    constants: Mapping[str, Any]
    if kernel.launched is not None:
        constants = launched.constants(source, kernel.launched)
    else:
        constants = configuration(kernel, source)
    return analyse_as(kernel, source, source.signature, constants, run_time_scalars(kernel, source))


def analyse_as(
    kernel: KernelInput,
    source: KernelSource,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    scalars: Mapping[str, Any],
) -> Analysis | None:
    """With types and values of the arguments as given."""
    warps = kernel.num_warps or (math.prod(kernel.block) // 32 if kernel.block else 4)
    return _analyse(
        text_of(kernel),
        source.function.name,
        tuple(signature.items()),
        tuple(sorted(constants.items())),
        tuple(sorted(scalars.items())),
        kernel.grid or (1, 1, 1),
        max(1, warps),
    )


def text_of(kernel: KernelInput) -> str:
    """Of a kernel that the program launches, what the agent kept of it: the file may have been edited since."""
    return (kernel.launched.text if kernel.launched is not None else None) or kernel.kernel_source or ""


def find(kernel: KernelInput) -> KernelSource | None:
    """The kernel's source, with the types of its arguments where they were recorded."""
    text = text_of(kernel)
    if not text:
        return None
    for name in (kernel.symbol, kernel.name, None):
        source = parse_kernel(text, name)
        if source is not None:
            return source if kernel.launched is None else launched.with_signature(source, kernel.launched)
    return None


Values = tuple[tuple[str, Any], ...]
"""Names and what they stand for."""


@lru_cache(maxsize=4096)
def _analyse(
    text: str, name: str, types: Values, constants: Values, scalars: Values, grid: tuple[int, ...], warps: int
) -> Analysis | None:
    walked = _walk(text, name, types, constants, scalars, grid)
    if walked is None:
        return None
    source, tally = walked
    return Analysis(source, tally, warp_instructions(tally, warps), Layout(tally, warps * 32), warps)


@lru_cache(maxsize=4096)
def _walk(
    text: str, name: str, types: Values, constants: Values, scalars: Values, grid: tuple[int, ...]
) -> tuple[KernelSource, Tally] | None:
    source = parse_kernel(text, name)
    if source is None:
        return None
    source = replace(source, signature=dict(types))
    try:
        return source, Walker(source, {**source.constants, **dict(constants)}, dict(scalars), grid).run()
    except RecursionError:
        return None


def configuration(kernel: KernelInput, source: KernelSource) -> dict[str, int]:
    """Compile-time constants: as the trace has them, else from the chosen configuration beside the file, else what the
    grid implies of the block."""
    constants: dict[str, int] = {}
    for key, value in (kernel.best_config or {}).items():
        if isinstance(value, int) and not isinstance(value, bool) and key.isupper():
            constants[key] = value
    for part in (kernel.kernel_kwargs or "").split(","):
        key, _, text = part.partition("=")
        if text.strip().lstrip("-").isdigit():
            constants[key.strip()] = int(text)
    for key in ("RSPLIT_SIZE", "RSPLIT", "NUM_STAGES"):
        value = source.meta.get(key)
        if isinstance(value, int):
            constants.setdefault(key, value)
    if source.by_inductor and kernel.grid:
        for key, hint, blocks in zip(("XBLOCK", "YBLOCK", "ZBLOCK"), "xyz", kernel.grid):
            size = source.size_hints.get(hint)
            if key not in constants and size and blocks:
                constants[key] = 1 << max(0, (-(-size // blocks) - 1).bit_length())
        rows = next((v for k, v in source.size_hints.items() if k.startswith("r")), None)
        if rows and "R0_BLOCK" not in constants:
            constants["R0_BLOCK"] = min(rows, 2048)
    return constants


def run_time_scalars(kernel: KernelInput, source: KernelSource) -> dict[str, float | int]:
    """Values of the scalar arguments, where the trace recorded them."""
    if kernel.launched is not None:
        return launched.scalars(source, kernel.launched)
    scalars: dict[str, float | int] = {}
    if not arguments_are_its_own(kernel):
        return scalars
    for name, text in zip(source.arguments, kernel.concrete_inputs or []):
        if source.signature.get(name, "").startswith("*"):
            continue
        value = number(text)
        if value is not None:
            scalars[name] = value
    return scalars


def number(text: Any) -> float | int | None:
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return text
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def buffer_bytes(kernel: KernelInput, source: KernelSource) -> dict[str, int]:
    """Bytes at different addresses behind each pointer argument: recorded shapes, else Inductor's test arguments."""
    if kernel.launched is not None:
        return launched.buffer_bytes(kernel.launched)
    sizes: dict[str, int] = {}
    names = source.arguments
    for name, argument in zip(names, source.test_arguments):
        if argument is not None:
            sizes[name] = argument[0] * argument[1]
    if not arguments_are_its_own(kernel):
        return sizes
    strides = kernel.input_strides or []
    for i, (name, shape, kind) in enumerate(zip(names, kernel.input_dims or [], kernel.input_types or [])):
        size = itemsize(kind)
        if size is not None and isinstance(shape, list) and all(isinstance(n, int) for n in shape):
            sizes[name] = distinct_elements(shape, strides[i] if i < len(strides) else None) * size
    return sizes


def demand(
    kernel: KernelInput, analysis: Analysis, sm_count: int | None = None, l2_bytes: float | None = None
) -> Demand:
    tally, warp = analysis.tally, analysis.warp
    sizes = buffer_bytes(kernel, analysis.source)
    read, write, fetched, upper = traffic(tally, sizes, l2_bytes)
    programs = math.prod(kernel.grid) if kernel.grid else 1
    holders = min(programs, sm_count or programs)
    resident = min(blocks_per_sm(kernel, HOPPER) or 1, -(-programs // max(1, holders)))
    cache_read, cache_write = cached_traffic(tally, analysis.layout, programs, holders, resident=resident, sizes=sizes)
    sectors, _ = cached_traffic(tally, analysis.layout, programs, holders, SECTOR, resident, sizes)
    known = bool(tally.extent) or bool(sizes) or not tally.accesses
    warps = programs * analysis.num_warps
    result = Demand(
        read=read,
        write=write,
        fetched=fetched,
        cache_read=max(cache_read, read) if known else read,
        cache_write=max(cache_write, write) if known else write,
        cache_sectors=min(sectors, cache_read) if known else None,
        flops=warp.flops * programs,
        flop_type="fp64" if warp.double > 0 else "fp32",
        issued=warp.issued * warps,
        special=warp.special * warps,
        load_store=warp.load_store * warps,
        alu=warp.alu * warps,
        heavy=warp.heavy * warps,
        double=warp.double * warps,
        shared_clocks=4 * warp.lines * warps,
        by_lines=True,
        exchanged=warp.exchanges > warp.lines / 2,
        scattered=not tally.dots,
        upper_bound=upper,
        lower_bound=bool(tally.unknown),
        top=top_operation(warp),
    )
    if tally.dots:
        result.tensor_flops = sum(d.flops * d.trips for d in tally.dots) * programs
        result.flops = float(kernel.kernel_flop) if kernel.kernel_flop else result.flops
        result.flop_type = matrix_type(analysis.source, tally)
        matrix_units(result, tally, analysis.num_warps)
    if tally.unknown:
        result.notes.append(f"cost of {', '.join(sorted(tally.unknown)[:3])} not known: instructions are a lower bound")
    if upper:
        result.notes.append("bytes depend on loaded indices: an upper bound")
    return result


def matrix_units(result: Demand, tally: Tally, num_warps: int) -> None:
    """How the factors of ``tl.dot`` reach the matrix units.

    On Hopper a group of four warps multiplies 64 rows at a time with the second factor in shared memory, and with the first
    there too unless it was computed (Triton's ``MMAv3``; ``gemm.shared_per_tensor`` has the clocks). Tiles of fewer rows, or
    fewer warps, take the instructions of before.
    """
    total = sum(d.flops * d.trips for d in tally.dots)
    clocks = old = 0.0
    for dot in tally.dots:
        share = dot.flops * dot.trips / total if total else 0.0
        if dot.rows < GROUP_ROWS or num_warps % 4:
            old += share
            clocks += share * exchanged_per_tensor(dot, num_warps)
        else:
            side = min(dot.columns, 256)
            clocks += share * ((0 if dot.in_registers else 16) + side / 4) / (side / 2)
    result.shared_per_tensor = clocks
    result.tensor_rate = 1.0 / (old / OLD_RATE + (1.0 - old))


def exchanged_per_tensor(dot: Dot, num_warps: int) -> float:
    """Clocks of shared memory for one of the matrix units, with the instructions of before: both factors are written to it, and
    read again by every warp that has rows, or columns, of them."""
    down = max(1, min(num_warps, dot.rows // 16))
    across = max(1, num_warps // down)
    moved = (dot.rows * (1 + across) + dot.columns * (1 + down)) * dot.depth * dot.size
    return moved / HOPPER.shared_bytes / (dot.flops / HOPPER.tensor / OLD_RATE)


def matrix_type(source: KernelSource, tally: Tally) -> str:
    elements = {v.lstrip("*") for v in source.signature.values() if v.startswith("*")}
    if tally.dots[0].element == "bf16":
        return "fp16" if "fp16" in elements and "bf16" not in elements else "bf16"
    return tally.dots[0].element


def top_operation(warp: Warp) -> str | None:
    """What issues most, in words, if it is a sizeable part."""
    if not warp.by_operation or warp.issued <= 0:
        return None
    name, issued = max(warp.by_operation.items(), key=lambda t: t[1])
    if issued < 0.2 * warp.issued:
        return None
    family = next((words for begins, words in FAMILIES if name.startswith(begins)), name.replace("_", " "))
    return WORDS.get(name, family)
