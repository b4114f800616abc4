"""How Triton spreads a tile over the threads of a block.

Written after Triton 3.6: ``Coalesce.cpp`` picks for every access the axis along which its addresses are contiguous and a
vector of at most 16 bytes along it; accesses of one shape and order take the widest vector among them, but that a store is
never wider than itself. ``BlockedEncodingAttr::get`` then deals the vectors to lanes and warps, the fast axis first.
Values of the whole tile keep the layout of its largest accesses; what has another one is converted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from ridgeline.roofline.symbolic import Access
from ridgeline.roofline.tally import Operation, Tally
from ridgeline.roofline.wavefronts import passes

VECTOR_BYTES = 16
WARP = 32
CACHE_LINE = 128


@dataclass(frozen=True, slots=True)
class Blocked:
    """A layout: for each axis of the tile, neighbouring elements of a thread, lanes and warps along it."""

    order: tuple[str, ...]
    """Axes, fastest first."""
    vector: int
    lanes: dict[str, int]
    warps: dict[str, int]
    held: dict[str, int]
    """Elements of a thread along each axis."""

    def elements(self, axes: frozenset[str]) -> int:
        return math.prod(n for axis, n in self.held.items() if axis in axes)


def deal(shape: dict[str, int], order: tuple[str, ...], vector: int, warps: int) -> Blocked:
    """``BlockedEncodingAttr::get``: along each axis as many lanes, then warps, as it has vectors; the last takes the rest."""
    lanes_left, warps_left, threads_left = WARP, warps, WARP * warps
    lanes: dict[str, int] = {}
    along: dict[str, int] = {}
    for place, axis in enumerate(order):
        own = vector if place == 0 else 1
        if place == len(order) - 1:
            lanes[axis], along[axis] = max(1, lanes_left), max(1, warps_left)
            break
        threads = min(max(1, threads_left), max(1, shape[axis] // own))
        lanes[axis] = min(threads, max(1, lanes_left))
        along[axis] = min(max(1, threads // lanes[axis]), max(1, warps_left))
        warps_left //= along[axis]
        lanes_left //= lanes[axis]
        threads_left //= threads
    held = {}
    for place, axis in enumerate(order):
        own = min(vector if place == 0 else 1, shape[axis])
        held[axis] = max(own, own * -(-shape[axis] // (own * lanes[axis] * along[axis])))
    return Blocked(order, vector, lanes, along, held)


def product(rows: str, columns: str, tile: dict[str, int], warps: int) -> Blocked:
    """The sums of ``tl.dot`` (Triton's ``NvidiaMmaEncodingAttr``): a warp has 16 rows, four lanes share one."""
    down = max(1, min(warps, tile.get(rows, 1) // 16))
    across = max(1, warps // down)
    held = {columns: max(2, tile.get(columns, 1) // (4 * across)), rows: max(1, tile.get(rows, 1) // (8 * down))}
    return Blocked((columns, rows), 2, {columns: 4, rows: 8}, {columns: across, rows: down}, held)


def rank_of(axis: str) -> tuple[int, str]:
    """Position of an axis in the shape of a tile: Inductor's are z, y, x, r; a user's in the order of the text."""
    known = {"z": 0, "y": 1, "x": 2}
    if axis in known:
        return known[axis], ""
    if axis.startswith("r") and "@" not in axis:
        return 3, axis
    line, _, column = axis.partition("@")[2].partition(":")
    return 4, f"{line:0>9}{column:0>9}"


class Layout:
    """The layouts of a kernel's values: that of the whole tile, and of each access."""

    def __init__(self, tally: Tally, threads: int) -> None:
        self.threads = max(WARP, threads)
        self.warps = self.threads // WARP
        self.tile = tally.tile
        self.accesses = tally.accesses
        self.extent = tally.extent
        spans = [self.shape_of(a.axes) for a in tally.accesses] + [self.shape_of(o.axes) for o in tally.operations]
        self.axes = max(spans, key=lambda s: (self.size(s), sorted(s)), default=frozenset())
        self.total = self.size(self.axes)
        self.groups: dict[tuple[frozenset[str], tuple[str, ...]], int] = {}
        weight: dict[tuple[str, ...], int] = defaultdict(int)
        for access in tally.accesses:
            key = self.shape_of(access.axes), self.order(access)
            self.groups[key] = max(self.groups.get(key, 1), self.width(access))
            if key[0] == self.axes:
                weight[key[1]] += 1 if access.store or access.whole else access.size
        default = tuple(sorted(self.axes, key=rank_of, reverse=True))
        # of two that weigh the same the one that has a reduction's elements in a thread: the other is converted to it
        order: tuple[str, ...] = (
            max(weight, key=lambda o: (weight[o], o[:1] != () and o[0].startswith("r"))) if weight else default
        )
        loads = [a for a in tally.accesses if not a.store and self.shape_of(a.axes) == self.axes]
        if loads and loads[-1].indirect:
            order = self.order(loads[-1])
        self.main = deal(self.tile, order, self.groups.get((self.axes, order), 1), self.warps)
        self.fast = order[0] if order else ""
        self.products = [
            product(next(iter(dot.sides[0])), next(iter(dot.sides[1])), self.tile, self.warps)
            for dot in tally.dots
            if all(len(side) == 1 for side in dot.sides)
        ]
        self.per_thread = float(self.main.elements(self.axes)) if self.axes else 1.0

    @property
    def vector(self) -> float:
        return float(min(self.main.vector, self.main.held.get(self.fast, 1)))

    def shape_of(self, axes: frozenset[str]) -> frozenset[str]:
        """Axes along which the tile has more than one element."""
        return frozenset(a for a in axes if self.tile.get(a, 1) > 1)

    def size(self, axes: frozenset[str]) -> int:
        return math.prod(self.tile.get(a, 1) for a in axes)

    def whole(self, axis: str) -> int:
        return self.extent.get(axis) or self.tile.get(axis, 1)

    def order(self, access: Access) -> tuple[str, ...]:
        """Axes of the access, those along which the compiler sees most neighbours next to each other first; the first of the
        shape where it sees none."""
        axes = self.shape_of(access.axes)
        return tuple(sorted(axes, key=lambda a: (-self.contiguity(access, a), rank_of(a))))

    def contiguity(self, access: Access, axis: str) -> int:
        return min(self.tile.get(axis, 1), self.seen(access, axis)) if access.stride(axis) == 1 else 1

    def width(self, access: Access) -> int:
        """Elements that one instruction of a thread moves: at most 16 bytes, as many as are aligned and as it has."""
        order = self.order(access)
        if not order or not access.known:
            return 1
        most = max(1, self.size(frozenset(order)) // self.threads)
        aligned = min(access.alignment(order[0], self.whole(order[0])), self.seen(access, order[0]))
        aligned = min(aligned, access.mask_alignment(order[0]))
        return max(1, min(VECTOR_BYTES // access.size or 1, aligned, self.tile.get(order[0], 1), most))

    def seen(self, access: Access, axis: str) -> int:
        """Neighbours along the axis that the compiler sees to lie next to each other."""
        tile = self.tile.get(axis, 1)
        limits = [
            a.sight.get(axis, tile) if abs(c) == 1 and a.steady.get(axis, 1) <= 1 else a.steady.get(axis, 1)
            for a, c in access.terms.items()
            if axis in a.axes
        ]
        return min(limits, default=tile)

    def of(self, access: Access) -> Blocked:
        """The layout of an access: that of its group, a store's no wider than itself."""
        order = self.order(access)
        own = self.width(access)
        vector = own if access.store else self.groups.get((self.shape_of(access.axes), order), own)
        return deal(self.tile, order, vector, self.warps)

    def elements(self, axes: frozenset[str]) -> float:
        """Elements a thread holds of a value over ``axes``; values of lower rank are repeated in several threads."""
        return float(self.block_of(axes).elements(self.shape_of(axes)))

    def own(self, axes: frozenset[str]) -> float:
        """Elements a thread holds of a value of lower rank than the tile that was not made from it: it is computed in a
        layout of its own, spread over all threads, and only then repeated."""
        shape = self.shape_of(axes)
        return max(1.0, self.size(shape) / self.threads) if shape and shape < self.axes else self.elements(axes)

    def block_of(self, axes: frozenset[str]) -> Blocked:
        """The layout of a value over ``axes``: that of a product whose sums lie there, else of the whole tile."""
        shape = self.shape_of(axes)
        for block in self.products:
            if shape and shape <= set(block.order):
                return block
        if shape <= self.axes or len(shape) < 2:
            return self.main
        return deal(self.tile, tuple(sorted(shape, key=rank_of, reverse=True)), 1, self.warps)

    def reduced_in(self, operation: Operation) -> Blocked:
        """The layout of what is reduced: values take that of the last load that reaches them (RemoveLayoutConversions.cpp works its
        list of loads off from the end), unless it is one of fewer elements than threads. Such a load of a row (a bias) repeats
        its layout for all rows of the tile."""
        main = self.block_of(operation.axes)
        loads = [a for a in self.accesses[: operation.after] if not a.store and a.trips >= operation.trips]
        anchors = [a for a in loads if self.size(self.shape_of(a.axes)) >= self.threads]
        if main is not self.main or not anchors or len(self.axes) < 2:
            return main
        row = self.shape_of(anchors[-1].axes)
        if row == self.axes or self.order(anchors[-1])[:1] != (self.fast,) or not row < self.axes:
            return main
        own = self.of(anchors[-1])
        others = {axis: 1 for axis in main.order if axis not in row}
        order = (*own.order, *(axis for axis in main.order if axis not in row))
        held = {axis: own.held.get(axis, self.tile.get(axis, 1)) for axis in order}
        return Blocked(order, own.vector, {**own.lanes, **others}, {**own.warps, **others}, held)

    def instructions(self, access: Access) -> float:
        """Instructions of a thread for one access to the tile."""
        shape = self.shape_of(access.axes)
        if not shape:
            return 1.0
        held = self.of(access).elements(shape)
        merged = 1.0
        for axis in shape:  # equal addresses of neighbouring elements are loaded once
            merged *= (
                min(access.merged.get(axis, 1), self.main.vector if axis == self.fast else 1) if not access.store else 1
            )
        return max(1.0, held / max(float(self.width(access)), merged))

    def places_apart(self, access: Access) -> float:
        """Addresses of a thread that have to be computed of an access whose index is linear: elements along an axis whose
        stride is a power of two lie at constant distances; of others the 32-bit product might overflow, so each is computed."""
        held = self.of(access).held
        total = 1.0
        for axis in self.shape_of(access.axes):
            strides = [abs(c) for a, c in access.terms.items() if axis in a.axes]
            if any(c & (c - 1) for c in strides):
                total *= held.get(axis, 1)
        return total

    def repeats(self, operation: Operation) -> float:
        """Neighbouring elements of a thread for which the operation is done once."""
        hold = operation.hold.get(self.fast, 1)
        return min(float(hold), self.vector, self.elements(operation.axes)) if hold > 1 else 1.0

    def lines(self, access: Access) -> float:
        """Clocks of the first-level cache for one access of a warp: counted where its addresses are known, else the lines that it
        touches."""
        shape = self.shape_of(access.axes)
        if not shape:
            return 1.0
        few = self.size(shape) < self.threads
        # a load of fewer elements than there are threads is cheap to repeat, so that it is made in the layout of what uses it
        # (isExpensiveLoadOrStore in Triton's Utility.cpp); of a store only the threads that hold something new execute it
        block = self.main if few and not access.store and shape <= self.axes else self.of(access)
        counted = passes(access, block, self.tile, self.width(access))
        counted = self.touched(access) if counted is None else counted
        return counted * min(1.0, -(-self.size(shape) // WARP) / self.warps) if few and access.store else counted

    def touched(self, access: Access) -> float:
        """Cache lines that one access of a warp touches; one where that depends on data. An access that is contiguous along
        some axis has its lanes there (it gets a layout of its own); lanes of the others lie a thread's vector apart."""
        axis = max(access.axes, key=lambda a: (access.run(a, self.whole(a)), a), default="")
        if not axis or not access.known:
            return 1.0
        run = min(access.run(axis, self.whole(axis)), self.tile.get(axis, 1))
        if run > 1:
            elements = min(WARP * float(self.width(access)), float(self.size(access.axes)), self.places(access))
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
