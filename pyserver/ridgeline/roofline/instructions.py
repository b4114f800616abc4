"""Machine instructions that one warp of a Triton kernel issues, by the unit that executes them.

An operation of the source stands for so many instructions an element: ``COST``. The numbers are no fit: each is the
difference between two kernels that Triton 3.6 compiles for sm_90, with the operation and without, divided by the elements
of a thread (``tests/golden/roofline_costs.py`` compiles them and prints the table; it needs no GPU). How many elements a
thread holds follows from Triton's layouts (:mod:`ridgeline.roofline.layout`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ridgeline.roofline.layout import WARP, Layout
from ridgeline.roofline.tally import Operation, Tally

COST: dict[str, float] = {
    "float": 1.0,  # a product that feeds a sum is one instruction with it
    "compare": 1.0,
    "index_compare": 1.0,
    "where": 1.0,
    "logic": 1.0,
    "nan_max": 3.0,  # FSETP, FSETP, FSEL: a maximum that keeps NaN
    "divide_constant": 1.0,  # by its reciprocal
    "divide": 8.0,  # div.full: scaling for large divisors, reciprocal
    "reciprocal": 4.0,
    "divide_by_row": 3.3,
    "exp": 9.2,  # libdevice: range reduction, MUFU.EX2, scaling
    "exp_fast": 5.0,  # tl.exp: a product, a guard for small results, MUFU.EX2
    "exp2": 1.0,
    "expm1": 25.4,
    "erf": 28.4,  # two polynomials and a select
    "erfinv": 40.5,
    "sigmoid": 12.1,  # exponential and division
    "log": 25.5,
    "log1p": 29.6,
    "rsqrt": 1.0,
    "sqrt": 1.0,
    "sqrt_rn": 10.0,  # without the call for rare operands, which is jumped over
    "tanh": 22.4,
    "sinh": 33.4,
    "sin": 40.0,  # reduction by three-part pi/2, two polynomials; without the rarely taken exact reduction
    "asin": 17.2,
    "atan2": 63.9,
    "fmod": 24.0,
    "pow": 55.0,  # without the special cases, which are jumped over
    "lgamma": 211.0,
    "round": 1.0,
    "integer": 1.0,
    "integer64": 2.0,
    "integer_divide": 26.0,
    "widen": 1.0,  # bfloat16: a shift or a selection of bytes
    "widen_fp16": 1.0,  # HADD2.F32, in the multiply unit
    "half": 0.5,  # a sum or product of two halves that is one again, in pairs
    "narrow": 0.5,  # two values a conversion
    "convert8": 1.0,
    "unpack": 2.0,  # a byte that is a flag: out of its word, compared with 0
    "int_float": 1.0,
    "byte_float": 1.0,  # takes the byte out of its word
    "float_int": 1.0,
    "convert64": 1.0,
    "double": 1.0,
    "double_divide": 26.0,
    "double_sqrt": 28.0,
    "double_pow": 192.0,  # most of it in a function that is called
    "double_function": 75.0,  # exp 40, log 84, sin 67, erf 80, tanh 100
    "philox": 51.0,  # ten rounds of two wide products
    "index_add": 1.0,
    "index_and": 1.0,
    "index_multiply": 1.0,
    "index_shift": 1.5,  # a signed shift
    "index_mask": 3.4,  # the remainder of a power of two, with its sign
    "index_narrow": 2.5,  # a remainder that is divided again: in 16 bits, unpacked and packed
    "index_divide": 3.6,  # wide product with a reciprocal, shift, correction of the sign
    "welford_step": 19.0,  # with its division, and what is chosen in the first trip and under a mask
    "welford_masked": 9.0,  # the same under a mask
    "welford_counted": 6.0,  # in a loop that is unrolled, where the count is a constant
    "welford_combine": 19.0,
    "online_softmax_step": 28.5,  # two exponentials, NaN-keeping maximum, selects
    "online_softmax_first": 13.0,  # with nothing before it
    "index_step": 9.5,  # larger value, or the same at a smaller index
    "sort_step": 9.5,  # two shuffles, comparison, selects, moves
    "copied": 3.0,  # of an asynchronous copy in a pipelined loop: its pointer moves on in 64 bits, with its predicate
    "pipeline": 40.0,  # of a trip of one: buffers change, barriers, descriptors of the factors
    "unknown": 4.0,
    "loop": 3.0,
    "load": 1.0,
    "store": 1.0,
    "address": 2.0,  # base and offset added in 64 bits
    "atomic": 2.0,
    "program": 8.0,  # indices of thread and block, the end
    "policy": 5.0,
    "shuffled": 3.0,  # a word that changes lanes: a shuffle, two selects
    "exchanged": 1.0,  # a word through shared memory, in vectors; its addresses and the barrier are "exchange"
    "exchange": 14.0,
    "turned": 2.0,  # an element that another axis is fast for: out of its word, stored alone; addresses are "turn"
    "turn": 30.0,
    "barrier": 6.0,  # what of that remains for further values, whose addresses are known
    "across": 12.0,  # of reductions across warps: addresses, predicates
    "barriers": 8.0,  # and of each
}
OVERHEAD = 1.04
"""Moves, predicates and jumps beside what the source asks for: the median over some 500 kernels, about 200 of them of
programs that are not kept in the repository (``tests/golden/roofline_costs.py`` compares those of any capture)."""
DEAR = 8.0
"""Instructions from which the compiler would rather convert a function's result between layouts than compute it again in
another (RemoveLayoutConversions.cpp weighs the two)."""
EXCHANGE_CLOCKS = 1.75
"""Clocks of the first-level cache's data path for a shuffle or an exchange through shared memory: read off Nsight Compute on an
H200, twenty kernels that do little else within a fifth."""
MATRIX_ROW = 8
"""Elements of 16 bits that Hopper's matrix stores turn at once."""
UNROLLED = 700.0
"""Instructions up to which the compiler unrolls a loop whole: of 120 loops in kernels compiled for sm_90 those that come to fewer
are unrolled, but for two, and those that come to more are not, but for five of four trips."""
FEW_TRIPS = 8
"""Trips up to which Welford's update under a mask is weighed with the division by a constant that it becomes when the loop is unrolled."""
ALU: dict[str, float] = {
    "compare": 1, "index_compare": 1, "index_and": 1, "where": 1, "logic": 1, "nan_max": 1, "narrow": 1, "convert8": 1, "unpack": 1, "index_shift": 1, "index_mask": 0.66, "index_narrow": 1,
    "integer": 0.8, "integer64": 0.8, "integer_divide": 0.52, "index_add": 0.6, "index_divide": 0.55, "widen": 0.5, "reduce_max": 1.0, "reduce_max_fast": 0.7,
    "reduce_index": 1.0, "reduce_welford": 0.38, "reduce_counted": 0.1, "reduce_softmax": 0.4, "index_step": 1.0, "online_softmax_step": 0.45, "online_softmax_first": 0.5, "philox": 0.39,
    "sort_step": 0.8, "welford_step": 0.5, "welford_combine": 0.38, "program": 0.4, "erf": 0.13, "exp": 0.11, "exp_fast": 0.2, "sigmoid": 0.25,
    "log": 0.38, "log1p": 0.32, "tanh": 0.2, "divide": 0.29, "divide_by_row": 0.08, "sin": 0.37, "pow": 0.4, "atan2": 0.33, "fmod": 0.38,
    "expm1": 0.36, "asin": 0.29, "sinh": 0.26, "loop": 0.6, "address": 0.5, "shuffled": 0.67, "exchange": 0.6, "turned": 0.5, "turn": 0.6, "across": 0.6, "int_float": 1.0,
    "copied": 0.5, "pipeline": 0.4,
}  # fmt: skip
"""Share of an operation's instructions that the integer and comparison unit executes, at half the schedulers' rate."""
HEAVY: dict[str, float] = {
    "philox": 0.91,
    "index_divide": 0.55,
    "integer_divide": 0.28,
    "address": 0.5,
    "index_multiply": 1.0,
}
"""Share that needs the half of the multiply unit that does integer products, counting wide ones double."""
SPECIAL: dict[str, float] = {
    "exp": 1, "exp_fast": 1, "exp2": 1, "expm1": 2, "erf": 1, "erfinv": 3, "divide": 1, "reciprocal": 1, "log": 0, "log1p": 0, "rsqrt": 1,
    "sqrt": 1, "sqrt_rn": 1, "sigmoid": 2, "tanh": 2, "sinh": 3, "sin": 1, "asin": 1, "atan2": 2, "fmod": 4, "pow": 3, "lgamma": 5, "round": 1,
    "welford_step": 1, "welford_combine": 1, "online_softmax_step": 2, "online_softmax_first": 0.5, "convert64": 1, "integer_divide": 5, "float_int": 1, "byte_float": 1,
    "double_divide": 1, "double_sqrt": 1, "double_pow": 1, "reduce_welford": 1, "reduce_softmax": 1,
}  # fmt: skip
"""Instructions of the special-function unit an element (MUFU; rounding, and conversions between whole numbers and floats, to
and from double run there too)."""
DOUBLE: dict[str, float] = {"double": 1, "double_divide": 8, "double_sqrt": 9, "double_pow": 82, "double_function": 29}
REDUCE: dict[str, tuple[float, int]] = {
    # instructions to combine two partial results, words of one (each is shuffled)
    "reduce_sum": (1.0, 1),
    "reduce_product": (1.0, 1),
    "reduce_max": (3.0, 1),
    "reduce_max_fast": (1.0, 1),
    "reduce_index": (9.5, 2),
    "reduce_welford": (18.5, 3),
    "reduce_counted": (9.0, 2),  # where the counts are constants: no division, and they are not exchanged
    "reduce_softmax": (4.5, 2),
    "scan": (1.0, 1),
}
ELEMENT: dict[str, float] = {"reduce_softmax": 12.2}
"""What such a reduction does with every element before it combines them: here the exponential."""
FLOPS: dict[str, float] = {
    "float": 1, "double": 1, "divide": 1, "divide_by_row": 1, "divide_constant": 1, "exp": 1, "exp_fast": 1, "exp2": 1, "expm1": 1, "erfinv": 1, "sqrt_rn": 1, "sinh": 1, "asin": 1, "atan2": 1, "fmod": 1, "lgamma": 1, "erf": 1, "log": 1, "log1p": 1,
    "rsqrt": 1, "sqrt": 1, "tanh": 1, "sin": 1, "pow": 1, "sigmoid": 3, "welford_step": 6, "welford_combine": 8, "online_softmax_step": 5,
    "double_divide": 1, "double_sqrt": 1, "double_pow": 1, "double_function": 1, "reduce_sum": 1, "reduce_product": 1, "reduce_max": 0, "reduce_max_fast": 0,
    "reduce_welford": 8, "reduce_counted": 6, "reduce_softmax": 4, "scan": 1,
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
    """Clocks of the first-level cache: a line looked up takes one, what lanes and warps exchange more."""
    exchanges: float = 0.0
    """Those of what they exchange."""
    flops: float = 0.0
    """Floating-point operations of one program (all warps)."""
    by_operation: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, name: str, issued: float) -> None:
        issued *= OVERHEAD
        self.issued += issued
        self.alu += issued * ALU.get(name, 0.0)
        self.heavy += issued * HEAVY.get(name, 0.0)
        self.by_operation[name] += issued


def warp_instructions(tally: Tally, num_warps: int) -> Warp:
    """Instructions that one warp of one program issues. ``tally.unknown`` tells whether this is a lower bound."""
    layout = Layout(tally, num_warps * WARP)
    warp = Warp()
    unrolled = loops_unrolled(tally, layout)
    for operation in tally.operations:
        if operation.name in REDUCE or operation.name.removesuffix("64") in REDUCE:
            steps = [o.loop in unrolled or not o.loop for o in tally.operations if o.name == "welford_step"]
            reduce(warp, operation, layout, bool(steps) and all(steps) and not tally.uncounted)
            continue
        count = operation.trips * operation.count * evaluations(operation, layout, tally)
        name = operation.name
        if name == "loop" and operation.loop in unrolled:
            continue
        if name.startswith("index_") and operation.linear and operation.loop:
            count /= tally.loops[operation.loop]  # what a loop adds to it is added to the address
        if name == "welford_step" and (operation.loop in unrolled or not operation.loop):
            name = "welford_counted"
        elif name == "online_softmax_step" and operation.trips == 1:
            name = "online_softmax_first"
        if name == "widen" and tally.fp16:
            name = "widen_fp16"
        warp.add(name, count * COST[name])
        warp.special += count * SPECIAL.get(name, 0.0)
        warp.double += count * DOUBLE.get(operation.name, 0.0)
        warp.flops += layout.size(operation.axes) * operation.trips * operation.count * FLOPS.get(operation.name, 0.0)
    for access in tally.accesses:
        count = layout.instructions(access)
        warp.load_store += count * access.trips
        warp.lines += count * layout.lines(access) * access.trips
        warp.add("store" if access.store else "load", count * access.trips)
        places = min(count, layout.places_apart(access)) if access.linear else count
        warp.add("address", places * access.trips * COST["address"])
        if access.atomic:
            warp.add("atomic", count * access.trips * COST["atomic"])
    accessed = sum(layout.instructions(a) * a.trips for a in tally.accesses)
    hinted = sum(
        layout.instructions(a) * a.trips / (1 if a.loop in unrolled else tally.loops.get(a.loop, 1))
        for a in tally.accesses
        if a.hinted
    )
    # a predicated load makes its policy with its neighbour's, others share one that is made at the beginning
    warp.add("program", COST["program"] + COST["policy"] * max(float(tally.policy), hinted / 2))
    convert(warp, tally, layout)
    warp.exchanges = EXCHANGE_CLOCKS * max(0.0, warp.load_store - accessed)
    warp.lines += warp.exchanges
    for dot in tally.dots:
        warp.flops += dot.flops * dot.trips
    pipelined = max((dot.trips for dot in tally.dots), default=1)
    if pipelined > 1:
        copies = sum(layout.instructions(a) * a.trips for a in tally.accesses if not a.store and a.trips > 1)
        warp.add("copied", copies * COST["copied"])
        warp.add("pipeline", pipelined * COST["pipeline"])
    return warp


def loops_unrolled(tally: Tally, layout: Layout) -> set[int]:
    """Numbers of the loops that the compiler unrolls whole."""
    size = defaultdict[int, float](float)
    for operation in tally.operations:
        if operation.loop and operation.name != "loop":
            cost = COST.get(operation.name) or REDUCE[operation.name.removesuffix("64")][0]
            if operation.name == "welford_step" and not tally.uncounted:
                cost = COST["welford_counted"]
            elif operation.name == "welford_step" and tally.loops[operation.loop] <= FEW_TRIPS:
                cost = COST["welford_masked"]
            size[operation.loop] += operation.trips * operation.count * evaluations(operation, layout, tally) * cost
    for access in tally.accesses:
        if access.loop:
            size[access.loop] += access.trips * layout.instructions(access) * (1 + COST["address"])
    return {number for number in tally.loops if size[number] <= UNROLLED}


def evaluations(operation: Operation, layout: Layout, tally: Tally) -> float:
    """How often a thread does an operation. Equal neighbours are computed once. Of an index only what an access needs is
    computed: that of the first element of a vector, and of a sum of plain indices only the first of all, for the others lie
    at constant distances from it."""
    count = layout.elements(operation.axes) / layout.repeats(operation)
    if not operation.name.startswith("index_") or operation.name == "index_step":
        dear = not operation.sliced and COST.get(operation.name, 0.0) >= DEAR
        return min(count, layout.own(operation.axes)) if dear else count
    if operation.linear:
        return 1.0
    users = [
        a for a in tally.accesses if operation.atom is None or any(operation.atom in atom.name for atom in a.terms)
    ]
    if not users:
        return count
    return max(1.0, min(count, max(layout.instructions(a) for a in users)))


def reduce(warp: Warp, operation: Operation, layout: Layout, counted: bool = False) -> None:
    """A tree: serially within a thread, by shuffles within a warp, through shared memory across warps (Triton's
    ReduceOpToLLVM.cpp: a word a row and warp is stored, read back spread over all threads, reduced by shuffles, stored, read).
    ``counted``: the compiler knows how many elements each partial mean is of."""
    name = operation.name.removesuffix("64")
    if name == "reduce_welford" and counted:
        name = "reduce_counted"
    combine, words = REDUCE[name]
    along = layout.shape_of(
        operation.along or frozenset(a for a in operation.axes if a.startswith("r")) or operation.axes
    )
    main = layout.block_of(operation.axes)
    held = main.elements(along)
    rows = main.elements(layout.shape_of(operation.axes) - along)
    parts_of = {
        a: -(-layout.tile.get(a, 1) // main.held.get(a, 1)) for a in along
    }  # threads that hold different elements
    lanes = math.prod(min(main.lanes.get(a, 1), n) for a, n in parts_of.items())
    warps = math.prod(min(main.warps.get(a, 1), -(-n // main.lanes.get(a, 1))) for a, n in parts_of.items())
    sides = layout.size(layout.shape_of(operation.axes) - along)
    steps = rows * math.log2(max(1, lanes))
    if name == "scan":  # of each vector, across the lanes for the last of each, which is added to the next ones
        groups = held / main.vector if layout.fast in along else held
        steps = rows * groups * (1 + math.log2(max(1, lanes)))
        held *= 2
    combined = rows * (held - 1) + steps
    if name == "reduce_product":  # the products are fused into the sums within a thread
        combined = steps
    shuffles = steps * words
    moved = 0.0
    if warps > 1:
        parts = max(1.0, sides * warps / layout.threads)
        combined += parts * math.log2(warps)
        shuffles += parts * math.log2(warps) * words
        moved = 2 * (rows + parts) * words
        first = 0.0 if warp.by_operation["across"] else COST["across"]
        warp.add("across", first + COST["barriers"] * operation.trips)
    issued = combined * combine + rows * held * ELEMENT.get(name, 0.0) + shuffles + moved
    if operation.name.endswith("64"):
        warp.double += combined * operation.trips
    warp.special += SPECIAL.get(name, 0.0) * (rows * held if name in ELEMENT else combined) * operation.trips
    warp.add(name, issued * operation.trips)
    warp.load_store += (shuffles + moved) * operation.trips
    warp.flops += layout.size(operation.axes) * operation.trips * FLOPS.get(name, 0.0)


def convert(warp: Warp, tally: Tally, layout: Layout) -> None:
    """Values whose access has another layout than the tile change lanes: by shuffles where every warp keeps its own rows,
    through shared memory otherwise. A small operand (weights of a row) makes the tile change into its layout and back."""
    full = [a for a in tally.accesses if layout.shape_of(a.axes) == layout.axes and a.axes]
    words, times = 0.0, 0.0
    for access in full:
        own = layout.of(access)
        if not own.order or (own.order == layout.main.order and own.vector == layout.main.vector):
            continue
        if own.order != layout.main.order and not (access.size == 2 and own.vector == layout.main.vector == MATRIX_ROW):
            warp.add("turned", layout.per_thread * COST["turned"] * access.trips)
            warp.add("turn", COST["turn"] + (access.trips - 1) * COST["barrier"])
            warp.load_store += layout.per_thread * access.trips
        else:
            words += layout.per_thread * access.size / 4 * access.trips
            times += access.trips
    widths = {
        layout.of(a).vector
        for a in tally.accesses
        if not a.store
        and layout.fast in layout.shape_of(a.axes) != layout.axes
        and layout.order(a)[:1] == (layout.fast,)
    }
    if widths - {layout.main.vector} and len(layout.axes) > 1:
        back = max((a.size for a in full if a.store), default=0)
        words += layout.per_thread * (4 + back) / 4
        times += 1 + (back > 0)
    if not words:
        return
    if layout.main.warps.get(layout.fast, 1) == 1 and all(layout.of(a).order == layout.main.order for a in full):
        warp.add("shuffled", words * COST["shuffled"])
        warp.load_store += words
    else:
        warp.add("exchanged", words * COST["exchanged"])
        warp.add("exchange", COST["exchange"] + (times - 1) * COST["barrier"])
        warp.load_store += words / 2
