"""Machine instructions that one warp of a Triton kernel issues, by the unit that executes them.

An operation of the source stands for so many instructions an element (:mod:`ridgeline.roofline.costs`); how many elements a
thread holds follows from Triton's layouts (:mod:`ridgeline.roofline.layout`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ridgeline.roofline.costs import ALU, COST, DOUBLE, ELEMENT, FLOPS, HEAVY, REDUCE, SPECIAL
from ridgeline.roofline.layout import CACHE_LINE, WARP, Blocked, Layout
from ridgeline.roofline.tally import Operation, Tally
from ridgeline.roofline.wavefronts import WORD

OVERHEAD = 1.04
"""Moves, predicates and jumps beside what the source asks for: the median over some 500 kernels, about 200 of them of
programs that are not kept in the repository (``tests/golden/roofline_costs.py`` compares those of any capture)."""
DEAR = 8.0
"""Instructions from which the compiler would rather convert a function's result between layouts than compute it again in
another (RemoveLayoutConversions.cpp weighs the two)."""
EXCHANGE_CLOCKS = 2.0
"""Clocks of the first-level cache's data path for an exchange through shared memory: read off Nsight Compute on an H200, a hundred
kernels in which this part is at least two fifths busy, to 11 points on average. Words meet in its banks."""
SHUFFLE_CLOCKS = 1.0
"""Of a shuffle: a word a lane, all banks at once."""
MATRIX_ROW = 8
"""Elements of 16 bits that Hopper's matrix stores turn at once."""
MATRIX_PASSES = 2 * 2 * WARP / CACHE_LINE
"""Of an element of 16 bits that they turn, for a warp: written and read."""
ONE_EACH = 0.8
"""Share of the instructions to combine two means that are left within a thread where each is of one element or none (sm_90)."""
UNROLLED = 700.0
"""Instructions up to which the compiler unrolls a loop whole: of 120 loops in kernels compiled for sm_90 those that come to fewer
are unrolled, but for two, and those that come to more are not, but for five of four trips."""
FEW_TRIPS = 8
"""Trips up to which Welford's update under a mask is weighed with the division by a constant that it becomes when the loop is unrolled."""
BOOST = 4.0
"""How much larger, at most, a loop may be that becomes smaller by what is constant in each trip (LLVM's MaxPercentThresholdBoost)."""


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
    shuffles: float = 0.0
    """Exchanges between the lanes of a warp alone."""
    conflicts: float = 0.0
    """Those that exchanges take longer because their words meet in banks of shared memory."""
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
            counted = any(o.name == "welford_step" for o in tally.operations) and not tally.uncounted
            reduce(
                warp, operation, layout, counted, any(o.name == "welford_step" and not o.loop for o in tally.operations)
            )
            continue
        count = operation.trips * operation.count * evaluations(operation, layout, tally)
        name = operation.name
        if name == "loop" and operation.loop in unrolled:
            continue
        if name.startswith("index_") and operation.linear and operation.loop:
            count /= tally.loops[operation.loop]  # what a loop adds to it is added to the address
        # without a mask all elements have the same count: its reciprocal, if it is no constant, serves all of a trip
        if name == "welford_step" and not operation.loop:  # the first elements are means themselves
            name, count = "where", 1.5 * count if tally.uncounted else 0.0
        elif name == "welford_step" and (operation.loop in unrolled or not tally.uncounted):
            name = "welford_counted" if tally.uncounted else "welford_plain"
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
    warp.add("program", COST["program"])
    warp.add("policy", COST["policy"] * max(float(tally.policy), hinted / 2))  # by the uniform unit
    convert(warp, tally, layout)
    through = max(0.0, warp.load_store - accessed - warp.shuffles)
    warp.exchanges = SHUFFLE_CLOCKS * warp.shuffles + EXCHANGE_CLOCKS * through + warp.conflicts
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
    rolled = defaultdict[int, float](float)
    for operation in tally.operations:
        if operation.loop and operation.name != "loop":
            plain = cost = COST.get(operation.name) or REDUCE[operation.name.removesuffix("64")][0]
            if operation.name == "welford_step" and not tally.uncounted:
                cost = COST["welford_plain"]
            elif operation.name == "welford_step" and tally.loops[operation.loop] <= FEW_TRIPS:
                cost = COST["welford_masked"]
            times = operation.trips * operation.count * evaluations(operation, layout, tally)
            size[operation.loop] += times * cost
            rolled[operation.loop] += times * plain if not tally.uncounted else times * cost
    for access in tally.accesses:
        if access.loop:
            made = access.trips * layout.instructions(access) * (1 + COST["address"])
            size[access.loop] += made
            rolled[access.loop] += made
    # what constants save counts (getFullUnrollBoostingFactor in LLVM's LoopUnrollPass.cpp)
    boost = {n: min(BOOST, max(1.0, rolled[n] / size[n])) if size[n] else 1.0 for n in tally.loops}
    return {number for number in tally.loops if size[number] <= UNROLLED * boost[number]}


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


def reduce(warp: Warp, operation: Operation, layout: Layout, counted: bool = False, ones: bool = False) -> None:
    """A tree: serially within a thread, by shuffles within a warp, through shared memory across warps (Triton's
    ReduceOpToLLVM.cpp: a word a row and warp is stored, read back spread over all threads, reduced by shuffles, stored, read).
    ``counted``: the compiler knows how many elements each partial mean is of; ``ones``: that it is one at most."""
    name = operation.name.removesuffix("64")
    if name == "reduce_welford" and counted:
        name = "reduce_counted"
    combine, words = REDUCE[name]

    along = layout.shape_of(
        operation.along or frozenset(a for a in operation.axes if a.startswith("r")) or operation.axes
    )
    main = layout.reduced_in(operation)
    held = float(main.elements(along))
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
        combine = operation.count  # every thread also adds up what the warps before its own have come to
        held += groups * warps if warps > 1 else 0.0
    combined = rows * (held - 1) * (ONE_EACH if name == "reduce_welford" and ones else 1.0) + steps
    if name == "reduce_product":  # the products are fused into the sums within a thread
        combined = steps
    shuffles = steps * words
    moved = 0.0
    if warps > 1:
        parts = max(1.0, sides * warps / layout.threads)
        combined += parts * math.log2(warps)
        shuffles += parts * math.log2(warps) * words
        moved = 2 * (rows + parts) * words
        ways = meeting(main, layout.shape_of(operation.axes) - along, warps)
        warp.conflicts += (
            2 * rows * words * max(0.0, ways - EXCHANGE_CLOCKS) * operation.trips
        )  # stored, and read as stored
        first = 0.0 if warp.by_operation["across"] else COST["across"]
        warp.add("across", first + COST["barriers"] * operation.trips)
    issued = combined * combine + rows * held * ELEMENT.get(name, 0.0) + shuffles + moved
    if operation.name.endswith("64"):
        warp.double += combined * operation.trips
    warp.special += SPECIAL.get(name, 0.0) * (rows * held if name in ELEMENT else combined) * operation.trips
    warp.add(name, issued * operation.trips)
    warp.load_store += (shuffles + moved) * operation.trips
    warp.shuffles += shuffles * operation.trips
    warp.flops += layout.size(operation.axes) * operation.trips * FLOPS.get(name, 0.0)


def meeting(main: Blocked, rows: frozenset[str], warps: int) -> float:
    """Lanes whose words meet in one of the 32 banks when warps store what their rows came to: those of a row lie together, one a warp
    (getOrderWithAxisAtBeginning), so that the next lane's row lies a vector of rows further."""
    axis = next((a for a in main.order if a in rows), None)
    if axis is None:
        return 1.0
    lanes = main.lanes.get(axis, 1)
    apart = warps * (min(main.vector, main.held.get(axis, 1)) if axis == main.order[0] else 1)
    return lanes / max(1.0, min(lanes, 32 / min(32, apart)))


def convert(warp: Warp, tally: Tally, layout: Layout) -> None:
    """Values whose access has another layout than the tile change lanes: by shuffles where every warp keeps its own rows,
    through shared memory otherwise. A small operand (weights of a row) makes the tile change into its layout and back."""
    full = [a for a in tally.accesses if layout.shape_of(a.axes) == layout.axes and a.axes]
    words, times, turned = 0.0, 0.0, 0.0
    stored = {a.size for a in full if a.store}
    reduced = any(o.name.removesuffix("64") in REDUCE for o in tally.operations)
    if len(stored) > 1 and min(stored) == 1 < layout.main.vector and warp.by_operation.get("philox") and not reduced:
        # random numbers stay in the layout of their indices where two need them: a mask that is stored, and what it is for
        warp.add("exchange", 2 * COST["exchange"])
        warp.add("mask", min(layout.per_thread, MATRIX_ROW) * COST["mask"])
        warp.load_store += 8
    for access in full:
        own = layout.of(access)
        if not own.order or (own.order == layout.main.order and own.vector == layout.main.vector):
            continue
        if own.order != layout.main.order and not (
            access.size == 2 and own.vector == layout.main.vector >= MATRIX_ROW / 2
        ):
            warp.add("turned", layout.per_thread * COST["turned"] * access.trips)
            warp.add("turn", COST["turn"] + (access.trips - 1) * COST["barrier"])
            warp.load_store += layout.per_thread * access.trips
            warp.conflicts += EXCHANGE_CLOCKS * layout.per_thread * max(0.0, access.size / WORD - 1) * access.trips
        else:
            words += layout.per_thread * access.size / 4 * access.trips
            times += access.trips
            if own.order != layout.main.order:
                # what several such loads feed meets in their layout, and is turned once (RemoveLayoutConversions.cpp)
                turned = max(turned, MATRIX_PASSES * layout.per_thread * access.trips)
    warp.conflicts += turned
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
        warp.shuffles += words
    else:
        warp.add("exchanged", words * COST["exchanged"])
        warp.add("exchange", COST["exchange"] + (times - 1) * COST["barrier"])
        warp.load_store += words / 2
