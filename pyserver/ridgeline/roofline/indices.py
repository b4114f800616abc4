"""Arithmetic of indices in a Triton kernel: kept affine where it is; divisions by constants make atoms."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ridgeline.roofline.symbolic import Atom, Value, add, count_of, form

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker

SHORT = 1 << 15
"""A remainder below this is divided further in 16 bits, which takes unpacking."""
RESIDUES, KNOWN = 8, 0.3
"""Divisor up to which the remainders of a vector's elements are known but for the sign of where it begins, and the share of the
instructions for one, or for its comparison, that are left."""
FAR = 1 << 20
"""Stands for a stride that is only known at run time."""


def index_arithmetic(walker: Walker, op: ast.operator, left: Value, right: Value) -> Value:
    """Integer arithmetic on indices: kept affine where it is; divisions by constants make atoms."""
    wide = 2.0 if loaded(left) or loaded(right) else 1.0
    axes = left.axes | right.axes
    some = 1.0 if axes else 0.0
    mark = len(walker.tally.operations)
    if isinstance(op, (ast.Add, ast.Sub)):
        terms, offset = add(left, right, 1 if isinstance(op, ast.Add) else -1)
        base = summed(terms, left, right) if terms else None
        tag = type(op) if base is None else "sum"
        result = walker.apply("index_add", [left, right], some * wide, tag=tag, same=base)
        if terms is not None:
            if base is not None:
                result.key = walker.number(("sum", base, offset))
            return noted(walker, mark, affine(result, terms, offset))
    elif isinstance(op, ast.Mult):
        factor, other = (left, right) if isinstance(left.const, int) else (right, left)
        known = form(other)
        result = walker.apply("index_multiply", [left, right], some * wide)
        if isinstance(factor.const, int) and known is not None:
            by = int(factor.const)
            return noted(
                walker, mark, affine(result, {a: c * by for a, c in known[0].items()} if by else {}, known[1] * by)
            )
        scalar, other = (left, right) if left.terms == {} and not left.axes else (right, left)
        if scalar.terms == {} and scalar.const is None and other.terms:
            walker.fresh += 1
            steps = dict.fromkeys(other.axes, FAR)
            return affine(result, {Atom(f"*{walker.fresh}", count_of(other.terms), other.axes, steps): 1}, 0)
    elif isinstance(op, (ast.FloorDiv, ast.Mod)) and isinstance(right.const, int) and right.const > 0:
        return divided(walker, isinstance(op, ast.Mod), left, int(right.const), wide, right.run_time)
    else:
        result = walker.apply("index_shift", [left, right], some * wide, tag=type(op))
    return opaque(walker, (left, right), result)


def summed(terms: Mapping[Atom, int], left: Value, right: Value) -> tuple[tuple[str, int], ...] | None:
    """What a sum of two indices amounts to: numbers are added last (LLVM's Reassociate), so that sums which differ in them are one
    sum. None where a number is added, or something that was loaded."""
    if left.const is not None or right.const is not None or any(a.indirect or a.name.startswith("?") for a in terms):
        return None
    return tuple(sorted((atom.name, c) for atom, c in terms.items()))


def loaded(value: Value) -> bool:
    """Whether it is computed from 64-bit data, not from 32-bit indices."""
    return value.kind == "long" and any(a.indirect for a in value.terms or {})


def affine(result: Value, terms: dict[Atom, int], offset: int) -> Value:
    result.kind, result.terms, result.offset = "int", terms, offset
    result.hold = held(terms, result.axes)
    return result


def noted(walker: Walker, mark: int, result: Value) -> Value:
    """Tells the operations noted since ``mark`` what is known of their result."""
    linear = not any(a.periods or a.indirect or a.name.startswith("?") for a in result.terms or {})
    for operation in walker.tally.operations[mark:]:
        operation.hold, operation.linear = result.hold, linear
    return result


def held(terms: dict[Atom, int], axes: frozenset[str]) -> dict[str, int]:
    """Neighbouring elements along each axis for which the compiler sees that the form does not change."""
    return {axis: n for axis in axes if (n := steadiness(terms, axis)) > 1}


def is_residue(terms: Mapping[Atom, int] | None) -> bool:
    """Whether it is a remainder that differs within a vector and is known for each of its elements."""
    if not terms or len(terms) != 1:
        return False
    (atom,) = terms
    period = max(atom.periods.values(), default=0)
    return "%" in atom.name and 1 < period <= RESIDUES and not period & (period - 1) and any(atom.steps.values())


def steadiness(terms: Iterable[Atom], axis: str) -> int:
    """A power of two; 0 where nothing varies along the axis."""
    length = math.gcd(*(a.steady.get(axis, 1) for a in terms if axis in a.axes))
    return length & -length


def followed(terms: Mapping[Atom, int], axis: str, tile: int) -> int:
    """Neighbours along the axis that the compiler sees to follow each other."""
    moving = [a for a in terms if axis in a.axes and a.steady.get(axis, 1) < tile]
    if len(moving) == 1 and terms[moving[0]] == 1 and not moving[0].name.startswith("?"):
        return min(tile, moving[0].sight.get(axis, tile))
    return 1


def divided(walker: Walker, modulo: bool, left: Value, divisor: int, wide: float, run_time: bool = False) -> Value:
    power = divisor & (divisor - 1) == 0 and not run_time
    axes = left.axes
    known = form(left)
    if known is None:
        result = walker.apply("index_shift" if power else "index_divide", [left], wide, tag=(modulo, divisor))
        return opaque(walker, (left,), result)
    terms, offset = known
    text = "+".join(f"{c}*{a.name}" for a, c in sorted(terms.items(), key=lambda t: t[0].name)) + f"+{offset}"
    name = f"({text}){'%' if modulo else '//'}{divisor}"
    negative = modulo and (known[1] != 0 or any(c < 0 for c in terms.values()))  # the sign has to be looked after
    cost = (wide * wide * (3.0 if negative and power else 1.0) if not power or negative else wide) if axes else 0.0
    mark = len(walker.tally.operations)
    if power:
        moving = any(c * step == 1 for a, c in terms.items() for step in a.steps.values())
        if modulo and divisor <= RESIDUES and moving and not loaded(left):
            cost *= KNOWN  # of neighbours in a vector that begins at a multiple of it
        result = walker.apply("index_mask" if modulo else "index_shift", [left], cost, name, (modulo, divisor))
    else:  # the remainder is made from the quotient
        result = walker.apply("integer_divide" if run_time else "index_divide", [left], cost, name, divisor)
        if modulo:
            result = walker.apply("index_multiply", [left, result], cost, name, divisor)
    if not negative and any("%" in a.name for a in terms) and count_of(terms) <= SHORT:
        walker.apply("index_narrow", [left], cost, name, (modulo, divisor))
    reach = offset + sum(c * (a.count - 1) for a, c in terms.items() if c > 0)
    whole = count_of(terms)
    count = min(divisor, whole) if modulo else min(max(1, reach // divisor + 1), whole)
    steps = {x: sum(c * a.steps.get(x, 0) for a, c in terms.items()) for x in axes}
    periods: dict[str, int] = {}
    for axis, step in steps.items():
        inner = math.gcd(*(a.periods.get(axis, 0) for a in terms)) if terms else 0
        here = divisor // step if step and divisor % step == 0 else 1 if step and step % divisor else 0
        periods[axis] = math.gcd(inner, here)
    if not modulo and offset % divisor:  # x // c breaks where x + offset is a multiple of c
        periods = {x: math.gcd(p, offset) if steps[x] else p for x, p in periods.items()}
    if not modulo:
        steps = {x: s // divisor if s % divisor == 0 else 0 for x, s in steps.items()}
    shift = offset % divisor if modulo else 0
    # As Triton's AxisInfo.cpp sees it: only where the operand is contiguous over the whole tile does a quotient stay the
    # same, or a remainder grow, for as many neighbours as the divisor has in common with where tiles begin.
    common = math.gcd(divisor, offset)
    common &= -common
    steady = {x: n for x in axes if (n := steadiness(terms, x)) > 1}
    sight = dict.fromkeys(axes, 1)
    for axis in axes:
        tile = walker.tally.tile.get(axis, 1)
        if followed(terms, axis, tile) >= tile:
            (sight if modulo else steady)[axis] = min(tile, common)
    atom = Atom(name, count, axes, steps, periods, steady, sight, any(a.indirect for a in terms), shift)
    return noted(walker, mark, affine(result, {atom: 1}, 0))


def opaque(walker: Walker, values: Sequence[Value], result: Value) -> Value:
    """An index whose form is lost: it takes at most as many values as what it is made of."""
    walker.fresh += 1
    atoms: dict[Atom, int] = {}
    for value in values:
        atoms.update((value.terms or {}) if value.const is None else {})
    count = math.prod(max(1, a.count) for a in atoms) if atoms else 1
    tally = walker.tally
    extent = math.prod(tally.extent.get(a, tally.tile.get(a, 1)) for a in result.axes)
    extent *= math.prod(max(1, a.count) for a in atoms if not a.axes)
    indirect = any(a.indirect for a in atoms) or not atoms
    atom = Atom(
        f"?{walker.fresh}",
        max(1, min(count, extent) if atoms else extent),
        result.axes,
        {},
        dict(result.hold),
        dict(result.hold),
        indirect=indirect,
    )
    result.kind, result.terms, result.offset = "long" if any(v.kind == "long" for v in values) else "int", {atom: 1}, 0
    return result
