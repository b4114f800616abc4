"""Values of a Triton kernel as far as sizes, addresses and instruction counts need them.

A value knows over which tile axes it varies, its machine type, and, for integers, its form
``offset + sum(coefficient * atom)``. An atom is something that takes a known number of distinct values: a tile axis,
the program's number along a grid axis, a loop counter, ``x // c``, ``x % c``, or a loaded index.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["float", "half", "double", "int", "long", "bool", "eight", "pointer"]
LARGEST = 1 << 62
DIVISIBLE = 16
"""Triton notes of an argument whether it is a multiple of this (``tt.divisibility``), and nothing else."""
INTEGER: frozenset[str] = frozenset(("int", "long"))
KIND_OF: dict[str, Kind] = {
    "bf16": "half", "fp16": "half", "fp32": "float", "fp64": "double", "i32": "int", "u32": "int", "i16": "int",
    "u16": "int", "i64": "long", "u64": "long", "i1": "bool", "u1": "bool", "i8": "int", "u8": "int", "fp8e4nv": "eight",
    "fp8e5": "eight", "fp8e4b8": "eight", "fp8e5b16": "eight",
    "bfloat16": "half", "float16": "half", "float32": "float", "float64": "double", "int32": "int", "uint32": "int",
    "int16": "int", "uint16": "int", "int64": "long", "uint64": "long", "int1": "bool", "int8": "int", "uint8": "int",
    "float8e4nv": "eight", "float8e5": "eight",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absent:
    """The value None of a Triton argument: a pointer that was not given."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor descriptor that was made on the host: the tile that it loads, the tensor's sides and strides."""

    tile: tuple[int, ...]
    sides: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=True, slots=True)
class Atom:
    """Something that takes ``count`` distinct values 0 … count-1."""

    name: str
    count: int = field(compare=False)
    axes: frozenset[str] = field(compare=False, default=frozenset())
    steps: Mapping[str, int] = field(compare=False, default_factory=dict)
    """How it moves for a unit step along a tile axis (0 for ``x // c``: it stays for c steps)."""
    periods: Mapping[str, int] = field(compare=False, default_factory=dict)
    """Axis -> steps after which the movement breaks: c of ``x // c`` and ``x % c``."""
    steady: Mapping[str, int] = field(compare=False, default_factory=dict)
    """Axis -> neighbouring elements for which the compiler sees that it is the same (Triton's constancy)."""
    sight: Mapping[str, int] = field(compare=False, default_factory=dict)
    """Axis -> neighbouring elements that the compiler sees to follow each other (Triton's contiguity); the whole tile where
    not given."""
    indirect: bool = field(compare=False, default=False)
    shift: int = field(compare=False, default=0)
    """Offset inside ``(x + shift) % c``: stretches begin at multiples of it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A mask's claim that ``offset + sum(terms)`` lies below ``high`` (and not below ``low``)."""

    terms: tuple[tuple[Atom, int], ...]
    low: int
    high: int
    run_time: bool = False
    """Whether the limit is an argument of the launch, of which the compiler knows at most that it is a multiple of 16."""


@dataclass(slots=True)
class Value:
    axes: frozenset[str] = frozenset()
    kind: Kind = "float"
    terms: dict[Atom, int] | None = None
    """None: not a known affine form. An empty dict: uniform over atoms."""
    offset: int = 0
    const: Any = None
    """A known number (or bool; of compile-time arguments also a text or ``ABSENT``), None otherwise."""
    pointer: str | None = None
    element: str = "fp32"
    bounds: tuple[Bound, ...] = ()
    items: tuple[Value, ...] | None = None
    hold: dict[str, int] = field(default_factory=dict)
    """Axis -> neighbouring elements along it that are equal (1 where not given): what the compiler computes once."""
    level: int = 0
    """Depth of the innermost loop that it varies in: what varies in none is computed before the loops."""
    raw: Value | None = None
    """The half-precision value of which this is the conversion: one that is only moved is never converted. Or the truth value
    that this is as a number: compared with 0 it is that value again."""
    halves: tuple[Value, ...] = ()
    """Of a sum or product of two half-precision values, not noted yet, its operands: converted back at once it is one operation on
    pairs of them, without conversions."""
    byte: bool = False
    """A whole number of one byte, still in its word: a conversion to floating point takes it from there."""
    of_load: bool = False
    """Whether it comes from memory: equal ones are only found within a stretch of code without branches."""
    compared: bool = False
    """The result of a comparison, which takes in a conjunction with what is known already."""
    negated: bool = False
    """A sign that a sum or product absorbs, but no function."""
    product: bool = False
    """The result of a multiplication, which a sum that uses it absorbs."""
    sliced: bool = False
    """Whether it comes out of a reduction, so that it lies as a slice of the whole tile does."""
    block: Any = None
    """Of a block pointer or descriptor: its :class:`~ridgeline.roofline.blocks.Block`."""
    run_time: bool = False
    """Whether the number is one that the compiler does not know: an argument of the launch."""
    key: Any = field(default_factory=object)
    """Equal for values that the compiler sees to be the same."""

    @property
    def affine(self) -> bool:
        return self.terms is not None


@dataclass(slots=True, kw_only=True)
class Access:
    """One load, store or atomic of a kernel."""

    pointer: str
    size: int
    axes: frozenset[str]
    terms: dict[Atom, int]
    offset: int
    trips: float
    store: bool
    atomic: bool = False
    bounds: tuple[Bound, ...] = ()
    known: bool = True
    """False where the address has no affine form."""
    whole: bool = False
    """Whether its elements are whole numbers: indices, mostly."""
    iterations: int | None = None
    """Elements of the whole problem over its axes, where known: no access touches more different ones."""
    loop: int = 0
    """Number of the innermost loop around it, 0 outside of all."""
    hinted: bool = False
    """Whether it is a load under a mask that names a policy of the second-level cache."""
    mask_hold: Mapping[str, int] = field(default_factory=dict)
    """Axis along which its mask varies -> neighbours for which the compiler sees that the mask is the same."""
    merged: Mapping[str, int] = field(default_factory=dict)
    """Axis -> neighbouring elements whose address the compiler sees to be the same, so that they are loaded once."""

    @property
    def linear(self) -> bool:
        """Whether the address is a sum of plain indices, so that all that a thread needs lie at constant distances."""
        return self.known and not any(a.periods or a.indirect or a.name.startswith("?") for a in self.terms)

    @property
    def indirect(self) -> bool:
        return any(a.indirect for a in self.terms)

    @property
    def scattered(self) -> bool:
        """Whether an atom's values are not the numbers 0 … count-1, so that nothing can be said of the span."""
        return any(a.indirect or a.name.startswith(("?", "*")) for a in self.terms)

    def distinct(self) -> int:
        """Different elements that all programs together touch: the product of the atoms' ranges, narrowed by masks and
        by the span of the addresses."""
        counts = {a: max(1, a.count) for a, c in self.terms.items() if c}
        total = 1
        left = dict(counts)
        for bound in intersected(self.bounds):
            part = [a for a, _ in bound.terms]
            if not part or any(a not in left for a in part):
                continue
            scale = {self.terms[a] / c for a, c in bound.terms}
            if len(scale) == 1:
                total *= max(0, min(math.prod(left.pop(a) for a in part), bound.high - max(bound.low, 0)))
        lost = [a for a in left if a.name.startswith("?")]
        steps = sorted(abs(self.terms[a]) for a in counts if a not in lost)
        if lost and steps and steps[0] > 1 and not self.indirect:  # what is not known lies between the steps of what is
            inner = min(math.prod(left.pop(a) for a in lost), max(1, steps[0]))
            total *= inner
        total *= math.prod(left.values())
        if self.iterations is not None:
            total = min(total, self.iterations)
        return min(total, self.span()[1] - self.span()[0] + 1) if not self.scattered else total

    def hold(self, axis: str, most: int) -> int:
        """Neighbouring elements along ``axis`` that share one address."""
        if axis not in self.axes or self.stride(axis) != 0:
            return 1
        periods = [a.periods.get(axis, 0) for a in self.terms if axis in a.axes]
        length = math.gcd(*periods) if periods else 0
        return max(1, min(most, length & -length)) if length else 1

    def overlap(self) -> float:
        """How often an element is touched because windows overlap: what lies in the first-level cache already."""
        counts = math.prod(max(1, a.count) for a, c in self.terms.items() if c)
        if self.iterations is not None:
            counts = min(counts, self.iterations)
        low, high = self.span()
        return max(1.0, counts / (high - low + 1)) if not self.scattered else 1.0

    def burst(self) -> int:
        """Elements that lie together: how far the atoms' ranges fill memory without a gap."""
        filled = 1
        known = (t for t in self.terms.items() if t[1] and not t[0].indirect and not t[0].name.startswith(("?", "*")))
        for coefficient, count in sorted((abs(c), max(1, a.count)) for a, c in known):
            if coefficient > filled:
                break
            filled = max(filled, coefficient * count)
        return filled

    def span(self) -> tuple[int, int]:
        """Lowest and highest element offset."""
        low = high = self.offset
        for atom, coefficient in self.terms.items():
            reach = coefficient * (max(1, atom.count) - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    def stride(self, axis: str) -> int | None:
        """Elements that a unit step along a tile axis moves the address; None if that depends on data."""
        total = 0
        for atom, coefficient in self.terms.items():
            if axis not in atom.axes:
                continue
            if atom.indirect and atom.periods.get(axis, 1) <= 1:
                return None
            total += coefficient * atom.steps.get(axis, 0)
        return total

    def run(self, axis: str, extent: int) -> int:
        """Length in elements of the contiguous stretch along ``axis``, 1 if it is not contiguous."""
        if self.stride(axis) != 1:
            return 1
        length = extent
        for atom in self.terms:
            if atom.periods.get(axis):
                length = math.gcd(length, atom.periods[axis])
        return max(1, length)

    def alignment(self, axis: str, extent: int) -> int:
        """The power of two of elements that every contiguous stretch along ``axis`` starts at a multiple of."""
        length = self.run(axis, extent)
        align = length & -length
        for coefficient in self.terms.values():
            if abs(coefficient) > 1:
                align = min(align, coefficient & -coefficient)
        for shift in (self.offset, *(a.shift for a in self.terms if a.steps.get(axis))):
            if shift:
                align = min(align, shift & -shift)
        return max(1, align)

    def mask_alignment(self, axis: str) -> int:
        """Neighbours along ``axis`` for which the compiler sees that the mask is the same: a vector is all in or all out."""
        return self.mask_hold.get(axis, 1 << 20)


def intersected(bounds: Iterable[Bound]) -> list[Bound]:
    """One bound for each form, the narrowest."""
    merged: dict[tuple[tuple[Atom, int], ...], Bound] = {}
    for bound in bounds:
        known = merged.get(bound.terms)
        if known is not None:
            bound = Bound(bound.terms, max(known.low, bound.low), min(known.high, bound.high), bound.run_time)
        merged[bound.terms] = bound
    return list(merged.values())


def union_elements(accesses: Iterable[Access]) -> int:
    """Different elements that several accesses of one buffer touch together.

    Accesses with the same coefficients that differ in their offset touch different elements, unless their spans say that
    they cannot (a sliding window). The union is at least the largest and at most the sum, and within the overall span.
    """
    largest: dict[tuple[tuple[str, int], ...], dict[tuple[int, tuple[Bound, ...]], int]] = {}
    low: int | None = None
    high = 0
    indirect = False
    for access in accesses:
        key = tuple(sorted((a.name, c) for a, c in access.terms.items() if c))
        group = largest.setdefault(key, {})
        place = (access.offset, access.bounds)
        group[place] = max(group.get(place, 0), access.distinct())
        first, last = access.span()
        low, high = (first if low is None else min(low, first)), max(high, last)
        indirect = indirect or access.scattered
    if not largest:
        return 0
    total = max(sum(group.values()) for group in largest.values())
    return total if indirect or low is None else min(total, high - low + 1)


def truth(value: Value) -> bool:
    """Of a known value, as Python sees it."""
    return value.const is not ABSENT and bool(value.const)


def add(a: Value, b: Value, sign: int = 1) -> tuple[dict[Atom, int] | None, int]:
    """Terms and offset of ``a + sign * b``; terms None if either has no affine form."""
    left, right = form(a), form(b)
    if left is None or right is None:
        return None, 0
    terms = dict(left[0])
    for atom, coefficient in right[0].items():
        terms[atom] = terms.get(atom, 0) + sign * coefficient
        if terms[atom] == 0:
            del terms[atom]
    return terms, left[1] + sign * right[1]


def form(value: Value) -> tuple[dict[Atom, int], int] | None:
    if isinstance(value.const, int):
        return {}, int(value.const)
    return (value.terms, value.offset) if value.terms is not None else None


def count_of(terms: Mapping[Atom, int]) -> int:
    """Distinct values of an affine form: at most the product of its atoms' ranges and at most its span."""
    product = math.prod(max(1, a.count) for a in terms)
    span = 1 + sum(abs(c) * (max(1, a.count) - 1) for a, c in terms.items())
    return min(product, span)
