"""Machine instructions that one warp of a Triton kernel issues, by the unit that executes them.

An operation of the source stands for so many instructions an element: ``COST``. The numbers are what NVIDIA's compiler
emits (sm_90, Triton 3.6), read off disassembled kernels; they are rounded to what the expansion consists of, not tuned to
counters. How many elements a thread holds follows from the tile, the number of warps and Triton's blocked layout, which
gives each thread the widest vector (16 bytes) along the axis that most accesses run along.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ridgeline.roofline.symbolic import Access
from ridgeline.roofline.walk import Operation, Tally

VECTOR_BYTES = 16
WARP = 32
CACHE_LINE = 128

COST: dict[str, float] = {
    "float": 1.0,  # a product that feeds a sum is one instruction with it
    "compare": 1.0,
    "index_compare": 1.0,
    "where": 1.0,
    "logic": 0.7,
    "nan_max": 2.9,  # FSETP, FSEL, FMNMX: a maximum that keeps NaN
    "divide_constant": 1.5,
    "divide": 8.2,  # reciprocal, two Newton steps, a check for the slow path
    "reciprocal": 4.0,
    "divide_by_row": 5.0,
    "exp": 8.7,  # libdevice: range reduction, MUFU.EX2, scaling
    "exp2": 2.0,
    "erf": 27.0,  # two polynomials and a select
    "sigmoid": 11.8,  # exponential and division
    "log": 12.0,
    "log1p": 20.0,
    "rsqrt": 5.2,
    "sqrt": 7.0,
    "tanh": 20.0,
    "sin": 40.0,  # reduction by three-part pi/2, two polynomials, a rarely taken exact reduction
    "pow": 55.0,
    "integer": 1.0,
    "integer64": 2.0,
    "integer_divide": 20.0,
    "widen": 1.2,  # bf16 to fp32 is a shift
    "narrow": 0.5,  # two values a conversion
    "convert8": 1.0,
    "int_float": 1.0,
    "convert64": 1.0,
    "double": 1.0,
    "double_divide": 16.0,
    "double_sqrt": 45.0,
    "double_pow": 140.0,
    "double_function": 60.0,
    "philox": 60.0,  # ten rounds of two wide products
    "index_add": 0.7,
    "index_multiply": 0.7,
    "index_shift": 0.9,
    "index_divide": 4.0,  # multiply by a reciprocal, shift, correct
    "welford_step": 13.0,  # with its division
    "welford_combine": 14.0,
    "online_softmax_step": 24.0,  # two exponentials, NaN-keeping maximum, selects
    "index_step": 8.0,  # larger value, or the same at a smaller index; 64-bit indices
    "sort_step": 6.0,
    "unknown": 4.0,
    "loop": 3.0,
    "load": 2.9,  # the access and its 64-bit address
    "store": 1.8,
    "atomic": 2.0,
    "program": 12.0,
    "conversion": 1.5,  # an element through shared memory: a quarter of a store, a load, a barrier
    "transpose": 1.7,
}
OVERHEAD = 1.05
"""Moves, predicates and jumps that the compiler adds everywhere."""
ALU: dict[str, float] = {
    "compare": 1, "index_compare": 1, "where": 1, "logic": 1, "nan_max": 1, "narrow": 1, "convert8": 1, "index_shift": 1, "integer": 0.8,
    "integer64": 0.8, "integer_divide": 0.6, "index_add": 0.6, "index_divide": 0.6, "widen": 0.7, "reduce_max": 0.9, "reduce_index": 0.85,
    "index_step": 0.8, "online_softmax_step": 0.4, "philox": 0.47, "sort_step": 0.8, "welford_step": 0.35, "program": 0.4, "erf": 0.3,
    "sin": 0.3, "loop": 0.6, "load": 0.5, "store": 0.4,
}  # fmt: skip
"""Share of an operation's instructions that the integer and comparison unit executes, at half the schedulers' rate."""
ALU_ELSE = 0.2
HEAVY: dict[str, float] = {"philox": 0.75, "index_divide": 0.25, "integer_divide": 0.4}
"""Share that needs the half of the multiply unit that does wide integer products, counting those double."""
SPECIAL: dict[str, float] = {
    "exp": 1, "exp2": 1, "erf": 1, "divide": 1, "reciprocal": 1, "log": 1, "log1p": 1, "rsqrt": 1, "sqrt": 1, "sigmoid": 2, "tanh": 2,
    "sin": 0.1, "pow": 2, "welford_step": 1, "online_softmax_step": 2, "convert64": 1, "double_divide": 1, "double_sqrt": 1, "double_pow": 1,
}  # fmt: skip
"""Instructions of the special-function unit an element (MUFU; conversions to and from double run there too)."""
DOUBLE: dict[str, float] = {"double": 1, "double_divide": 8, "double_sqrt": 10, "double_pow": 60, "double_function": 30}
REDUCE: dict[str, tuple[float, float, float]] = {
    # an element, a shuffle step, a step across warps
    "reduce_sum": (1.2, 1.8, 1.8),
    "reduce_product": (0.2, 1.8, 1.8),
    "reduce_max": (1.7, 2.5, 2.5),
    "reduce_index": (10.0, 12.0, 12.0),
    "reduce_welford": (11.0, 15.0, 15.0),
    "reduce_softmax": (12.0, 12.0, 12.0),
    "scan": (3.0, 3.0, 3.0),
}
FLOPS: dict[str, float] = {
    "float": 1, "double": 1, "divide": 1, "divide_by_row": 1, "divide_constant": 1, "exp": 1, "exp2": 1, "erf": 1, "log": 1, "log1p": 1,
    "rsqrt": 1, "sqrt": 1, "tanh": 1, "sin": 1, "pow": 1, "sigmoid": 3, "welford_step": 6, "welford_combine": 8, "online_softmax_step": 5,
    "double_divide": 1, "double_sqrt": 1, "double_pow": 1, "double_function": 1, "reduce_sum": 1, "reduce_product": 1, "reduce_max": 0,
    "reduce_welford": 8, "reduce_softmax": 4, "scan": 1,
}  # fmt: skip
"""Floating-point operations an element as a person counts them: a function is one."""


@dataclass(slots=True)
class Warp:
    """What one warp issues during a program: warp instructions, all and of single units."""

    issued: float = 0.0
    special: float = 0.0
    load_store: float = 0.0
    alu: float = 0.0
    heavy: float = 0.0
    double: float = 0.0
    lines: float = 0.0
    """Cache lines that its accesses look up in the first-level cache, one a clock."""
    flops: float = 0.0
    """Floating-point operations of one program (all warps)."""
    by_operation: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, name: str, issued: float) -> None:
        issued *= OVERHEAD
        self.issued += issued
        self.alu += issued * ALU.get(name, ALU_ELSE)
        self.heavy += issued * HEAVY.get(name, 0.0)
        self.by_operation[name] += issued


class Layout:
    """How a tile is spread over threads: elements a thread holds of a value that varies over given axes."""

    def __init__(self, tally: Tally, threads: int) -> None:
        self.threads = max(1, threads)
        self.tile = tally.tile
        self.extent = tally.extent
        spans = [a.axes for a in tally.accesses] + [o.axes for o in tally.operations]
        self.axes = max(spans, key=self.size, default=frozenset())
        self.total = self.size(self.axes)
        self.per_thread = max(1.0, self.total / self.threads)
        weight: dict[str, int] = defaultdict(int)
        for access in tally.accesses:
            for axis in access.axes:
                if access.run(axis, self.whole(axis)) > 1:
                    weight[axis] += access.size * len(access.axes)
        self.fast = max(weight, key=lambda a: weight[a]) if weight else max(self.axes, default="")
        """The axis along which most accesses are contiguous."""
        self.vector = 1.0
        for access in tally.accesses:
            if self.fast in access.axes and access.run(self.fast, self.whole(self.fast)) > 1:
                align = access.alignment(self.fast, self.whole(self.fast))
                width = min(8, VECTOR_BYTES // access.size or 1, align, self.per_thread, self.tile.get(self.fast, 1))
                self.vector = max(self.vector, width)

    def size(self, axes: frozenset[str]) -> int:
        return math.prod(self.tile.get(a, 1) for a in axes)

    def whole(self, axis: str) -> int:
        return self.extent.get(axis) or self.tile.get(axis, 1)

    def elements(self, axes: frozenset[str]) -> float:
        """Elements a thread holds of a value over ``axes``; values of lower rank are repeated in several threads."""
        if not axes:
            return 1.0
        if self.size(axes) >= self.total:
            return self.per_thread
        fast = self.tile.get(self.fast, 1)
        vector = min(self.per_thread, fast, 8)
        rest = max(1.0, self.per_thread / vector)
        share = 1.0
        if self.fast in axes:
            share = vector
            if len(axes) > 1:
                share *= rest
            elif fast / self.threads > vector:
                share = max(share, min(self.per_thread, fast / self.threads))
        else:
            share = rest
        return max(1.0, min(share, self.per_thread))

    def repeats(self, operation: Operation) -> float:
        """Neighbouring elements of a thread for which the operation is done once."""
        hold = operation.hold.get(self.fast, 1)
        return min(float(hold), self.vector, self.elements(operation.axes)) if hold > 1 else 1.0

    def sharing(self, operation: Operation, tally: Tally) -> float:
        """Elements that one evaluation of an index serves: as many as the accesses that use it move at once."""
        users = [a for a in tally.accesses if self.fast in a.axes]
        if operation.atom is not None:
            users = [a for a in users if any(operation.atom in atom.name for atom in a.terms)]
        if not users:
            return 1.0 if operation.atom is not None else self.vector
        if operation.atom is not None:
            return min(self.width(a) for a in users)
        return len(users) / sum(1.0 / self.width(a) for a in users)

    def width(self, access: Access) -> float:
        """Elements that one instruction of a thread moves."""
        if self.threads > self.total:
            return 1.0
        axis = max(access.axes, key=lambda a: (access.run(a, self.whole(a)), a), default="")
        along = (
            min(self.per_thread, self.tile.get(axis, 1))
            if axis == self.fast
            else self.elements(frozenset((axis,) if axis else ()))
        )
        limit = VECTOR_BYTES // access.size or 1
        align = access.alignment(axis, self.whole(axis)) if axis else 1
        return max(1.0, min(limit, align, along, self.elements(access.axes)))

    def lines(self, access: Access) -> float:
        """Cache lines that one access of a warp touches; one where that depends on data. An access that is contiguous along
        some axis has its lanes there (it gets a layout of its own); lanes of the others lie a thread's vector apart."""
        axis = max(access.axes, key=lambda a: (access.run(a, self.whole(a)), a), default="")
        if not axis or not access.known:
            return 1.0
        run = min(access.run(axis, self.whole(axis)), self.tile.get(axis, 1))
        if run > 1:
            elements = min(WARP * self.width(access), float(self.size(access.axes)), self.places(access))
            row = min(elements, float(run))
            return max(1.0, elements / row * max(1.0, row * access.size / CACHE_LINE) / access.overlap())
        stride = access.stride(self.fast) if self.fast in access.axes else 0
        lanes = min(float(WARP), self.tile.get(self.fast, 1) / self.vector, self.places(access))
        return max(
            1.0, min(lanes / access.overlap(), lanes * self.vector * abs(stride or 0) * access.size / CACHE_LINE)
        )

    def places(self, access: Access) -> float:
        """Different elements that an access touches in one tile, at most."""
        total = 1.0
        for atom, coefficient in access.terms.items():
            side = math.prod(self.tile.get(a, 1) for a in atom.axes)
            if coefficient and side > 1:
                total *= min(max(1, atom.count), side)
        return total


def warp_instructions(tally: Tally, num_warps: int) -> Warp:
    """Instructions that one warp of one program issues. ``tally.unknown`` tells whether this is a lower bound."""
    layout = Layout(tally, num_warps * WARP)
    warp = Warp()
    for operation in tally.operations:
        if operation.name in REDUCE or operation.name.removesuffix("64") in REDUCE:
            reduce(warp, operation, layout, num_warps)
            continue
        count = layout.elements(operation.axes) * operation.count / layout.repeats(operation)
        if operation.name.startswith("index") and operation.name != "index_step" and layout.fast in operation.axes:
            count = max(operation.count, count / layout.sharing(operation, tally))
        count *= operation.trips
        cost = COST[operation.name]
        warp.add(operation.name, count * cost)
        warp.special += count * SPECIAL.get(operation.name, 0.0)
        warp.double += count * DOUBLE.get(operation.name, 0.0)
        warp.flops += layout.size(operation.axes) * operation.trips * operation.count * FLOPS.get(operation.name, 0.0)
    moved = 0.0
    for access in tally.accesses:
        side = layout.tile.get(layout.fast, 1)
        held = layout.vector if side > 1 and access.hold(layout.fast, side) >= side else 1.0
        count = layout.elements(access.axes) / max(1.0, min(held, layout.elements(access.axes)), layout.width(access))
        count *= access.trips
        warp.load_store += count
        warp.lines += count * layout.lines(access)
        warp.add("store" if access.store else "load", count * COST["store" if access.store else "load"])
        if access.atomic:
            warp.add("atomic", layout.elements(access.axes) * access.trips * COST["atomic"])
        moved += count
    warp.add("program", COST["program"])
    through_shared(warp, tally, layout)
    for dot in tally.dots:
        warp.flops += dot.flops * dot.trips
    return warp


def reduce(warp: Warp, operation: Operation, layout: Layout, num_warps: int) -> None:
    """A tree: serially within a thread, by shuffles within a warp, through shared memory across warps."""
    name = operation.name.removesuffix("64")
    element, shuffle, across = REDUCE[name]
    along = {a for a in operation.axes if a.startswith("r")} or set(operation.axes)
    reduced = math.prod(layout.tile.get(a, 1) for a in along)
    total = layout.size(operation.axes)
    rows = max(1.0, total / reduced)
    threads_a_row = max(1.0, min(reduced, layout.threads / rows))
    if layout.fast not in along:  # the reduced axis lies across threads that run along the other one
        side = max(
            1.0,
            min(
                layout.threads,
                layout.tile.get(layout.fast, 1) / min(layout.per_thread, 8, layout.tile.get(layout.fast, 1)),
            ),
        )
        threads_a_row = max(1.0, layout.threads / side)
    held = layout.elements(operation.axes)
    rows_a_thread = max(1.0, held / max(1.0, reduced / threads_a_row))
    steps = math.log2(max(1.0, min(WARP, threads_a_row)))
    issued = max(0.0, held - rows_a_thread) * element + rows_a_thread * steps * shuffle
    shuffles = rows_a_thread * steps
    if threads_a_row > WARP or (layout.fast not in along and num_warps > 1):
        issued += (1 + rows_a_thread * math.log2(max(2, min(WARP, num_warps)))) * across
    if operation.name.endswith("64"):
        warp.double += issued * operation.trips * 0.5
    warp.add(name, issued * operation.trips)
    warp.load_store += shuffles * operation.trips
    warp.flops += total * operation.trips * FLOPS.get(name, 0.0)


def through_shared(warp: Warp, tally: Tally, layout: Layout) -> None:
    """Layout conversions: a store that cannot be as wide as the loads, or that runs along another axis, goes through
    shared memory."""
    if any(a.startswith("r") for a in layout.axes):
        return
    full = [a for a in tally.accesses if layout.elements(a.axes) >= layout.per_thread and a.axes]
    loads, stores = [a for a in full if not a.store], [a for a in full if a.store]
    widest = max((layout.width(a) for a in loads), default=1.0)
    if layout.per_thread >= 8 and any(layout.width(a) < widest for a in stores):
        warp.add("conversion", layout.per_thread * COST["conversion"])
    if len(layout.axes) > 1:
        ways = {direction(a, layout) for a in stores}
        for access in loads:
            way = direction(access, layout)
            if ways and way not in ways and access.run(way, layout.whole(way)) > 1:
                warp.add("transpose", layout.per_thread * COST["transpose"])


def direction(access: Access, layout: Layout) -> str:
    return max(access.axes, key=lambda a: (access.run(a, layout.whole(a)), a), default="")
