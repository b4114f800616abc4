"""Loads, stores and atomic operations of a Triton kernel: where they go, under what mask, and what they convert."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from ridgeline.roofline import blocks
from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.indices import held
from ridgeline.roofline.symbolic import INTEGER, KIND_OF, Access, Atom, Value

if TYPE_CHECKING:
    from ridgeline.roofline.walk import Walker


def memory(walker: Walker, node: ast.Call, name: str) -> Value:
    """A load, store or atomic operation through a pointer that is affine in the tile's indices, or not."""
    place = walker.value(node.args[0]) if node.args else Value()
    owner = walker.value(node.func.value) if isinstance(node.func, ast.Attribute) and place.items else Value()
    if owner.block is not None:  # descriptor.load([row, column])
        place = blocks.placed(walker, owner.block, place.items or ())
    keywords = {k.arg: k.value for k in node.keywords if k.arg}
    stored = walker.value(node.args[1]) if name != "load" and len(node.args) > 1 else None
    position = 1 if name == "load" else 3 if name == "atomic_cas" else 2
    mask_node = node.args[position] if len(node.args) > position else keywords.get("mask")
    mask = walker.value(mask_node) if mask_node is not None else Value(key=None)
    kind = KIND_OF.get(place.element, "float")
    if place.pointer is None:
        walker.tally.unknown.add(name)
        return Value(place.axes, kind, level=walker.level)
    policy = any("evict" in ast.unparse(k) for k in node.keywords if k.arg == "eviction_policy")
    walker.tally.policy |= policy
    key = (
        "load",
        place.pointer,
        tuple(sorted((a.name, c) for a, c in (place.terms or {}).items())),
        place.offset,
        mask.key,
    )
    predicated = mask_node is not None and ast.unparse(mask_node) != "None" and mask.const is not True
    access = note_access(walker, place, mask, name, None if name != "load" or place.terms is None else key, predicated)
    access.hinted = policy and predicated
    if stored is not None and not (kind == "half" and stored.halves):
        walker.settle(stored)
    if stored is not None and not (stored.raw is not None and kind == stored.raw.kind):
        if kind == "half" and stored.halves:
            walker.apply("half", [v.raw or v for v in stored.halves], tag=stored.key)
        elif kind == "half" and stored.kind == "float" and stored.const is None:
            walker.apply("narrow", [stored], tag="store")
        elif kind in ("int", "bool") and stored.kind in ("float", "bool"):
            walker.apply("unpack" if stored.kind == "bool" else "float_int", [stored], tag="store")
    if stored is not None and not name.startswith("atomic_"):
        return Value()
    hold = {a: n for a in place.axes if (n := access.hold(a, 1 << 20)) > 1}
    result = Value(
        place.axes, kind, hold=dict(access.merged), level=walker.level, key=(key, walker.level), of_load=True
    )
    if name == "load" and access.size == 1 and kind != "eight" and place.axes:
        result.byte = kind != "bool"
        if not result.byte:
            walker.apply("unpack", [result])
    if kind in INTEGER and name == "load":
        walker.fresh += 1
        result.terms = {
            Atom(f"loaded{walker.fresh}", access.distinct(), place.axes, {}, hold, access.merged, indirect=True): 1
        }
    return result


def note_access(walker: Walker, place: Value, mask: Value, name: str, key: object, predicated: bool) -> Access:
    extents = [walker.tally.extent.get(a) for a in place.axes]
    access = Access(
        pointer=place.pointer or "",
        size=itemsize(place.element) or 4,
        axes=place.axes,
        terms=dict(place.terms or {}),
        offset=place.offset,
        trips=math.prod(walker.trips),
        loop=walker.loops[-1],
        store=name != "load",
        atomic=name.startswith("atomic_"),
        bounds=mask.bounds + place.bounds,
        known=place.terms is not None,
        whole=KIND_OF.get(place.element) in INTEGER,
        iterations=math.prod(e for e in extents if e) if all(extents) else None,
        # what is loaded under a mask is loaded again for each neighbour: a predicated load is not known to be the same
        merged={} if predicated else held(place.terms or {}, place.axes),
        mask_hold={a: mask.hold.get(a, 1) for a in mask.axes} if predicated else {},
    )
    if key is None or (key, walker.level) not in walker.seen:
        walker.tally.accesses.append(access)
        walker.seen.add((key, walker.level))
    return access
