"""What the walk of a Triton kernel's text notes: its operations, memory accesses and matrix products, and how often each happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ridgeline.roofline.symbolic import Access


@dataclass(slots=True)
class Operation:
    """``count`` instances of a kind of operation for every element of the tile over ``axes``, ``trips`` times."""

    name: str
    axes: frozenset[str]
    trips: float
    count: float = 1.0
    hold: Mapping[str, int] = field(default_factory=dict)
    atom: str | None = None
    """The atom that an operation on indices makes: it is needed once for each access that uses it."""
    linear: bool = False
    """Whether the result is a sum of plain indices."""
    sliced: bool = False
    """Whether an operand comes out of a reduction."""
    along: frozenset[str] = frozenset()
    """Of a reduction, the axes that it removes."""
    loop: int = 0
    """Number of the innermost loop in which it is done, 0 outside of all."""
    after: int = 0
    """How many accesses were noted before it."""


@dataclass(slots=True)
class Dot:
    """A matrix product of tiles: 2 * rows * columns * depth FLOPs, ``trips`` times a program."""

    rows: int
    columns: int
    depth: int
    element: str
    size: int
    """Bytes an element of the first factor."""
    trips: float
    in_registers: bool
    """Whether the first factor was computed, so that it lies in registers."""
    sides: tuple[frozenset[str], frozenset[str]]
    """Axes of the rows and of the columns."""

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.columns * self.depth


@dataclass(slots=True, kw_only=True)
class Tally:
    operations: list[Operation] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    tile: dict[str, int] = field(default_factory=dict)
    """Tile axis -> elements."""
    extent: dict[str, int] = field(default_factory=dict)
    """Tile axis -> elements of the whole problem, where known."""
    policy: bool = False
    """Whether any access names a policy of the second-level cache, which is made once."""
    fp16: bool = False
    """Whether its halves are fp16, not bfloat16: another unit converts them."""
    open_loop: bool = False
    """Whether the trips of a loop depend on what is not known."""
    loops: dict[int, int] = field(default_factory=dict)
    """Number of a loop -> trips, of those that run more than once and that the text does not unroll."""
    uncounted: bool = False
    """Whether a mask that the compiler cannot decide keeps Welford's updates from being of a known number of elements."""
    unknown: set[str] = field(default_factory=set)
    """Callees whose cost is not known: instruction counts are a lower bound."""
