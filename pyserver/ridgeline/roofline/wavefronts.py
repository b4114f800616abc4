"""Passes of the first-level cache's data stage that one access of a warp takes.

Data lie in 32 banks of four bytes, in shared memory and in the cache alike. Lanes are served in groups that ask for 128 bytes
(32 lanes of up to four bytes each, 16 of eight, 8 of sixteen), and of a group each bank delivers one word in a clock. The
lanes' addresses follow from the layout and the form of the index, so that the passes are counted, not estimated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ridgeline.roofline.symbolic import Access, Atom

if TYPE_CHECKING:
    from ridgeline.roofline.layout import Blocked

LANES = 32
BANKS, WORD = 32, 4
GROUP_BYTES = BANKS * WORD
LOOKED_UP = 2
"""Lines that the tag stage finds in a clock."""


def passes(access: Access, block: Blocked, tile: Mapping[str, int], width: int) -> float | None:
    """Of one instruction that moves ``width`` elements a lane; of a store every line is one, whatever its bank. None where
    addresses depend on data."""
    places = addresses(access, block, tile)
    if places is None:
        return None
    moved = width * access.size
    together = max(1, min(LANES, GROUP_BYTES // max(WORD, moved)))
    total = 0.0
    for first in range(0, LANES, together):
        banks: dict[int, set[int]] = defaultdict(set)
        lines: set[int] = set()
        for place in places[first : first + together]:
            for word in range(place // WORD, (place + moved - 1) // WORD + 1):
                banks[word % BANKS].add(word)
                lines.add(word // BANKS)
        total += len(lines) if access.store else max(len(lines) / LOOKED_UP, *map(len, banks.values()))
    return total


def addresses(access: Access, block: Blocked, tile: Mapping[str, int]) -> list[int] | None:
    """In bytes, of the first element of each lane of a block's first warp."""
    spread = [axis for axis in block.order if tile.get(axis, 1) > 1]
    for atom in access.terms:
        if (atom.indirect or atom.name.startswith(("?", "*"))) and atom.axes.intersection(spread):
            return None
    if not access.known:
        return None
    return [
        access.size * sum(c * value(atom, place) for atom, c in access.terms.items())
        for place in (position(block, tile, lane) for lane in range(LANES))
    ]


def position(block: Blocked, tile: Mapping[str, int], lane: int) -> dict[str, int]:
    """Index along each axis of a lane's first element; lanes beyond the tile hold its elements again."""
    place = {}
    for number, axis in enumerate(block.order):
        along = block.lanes.get(axis, 1)
        lane, own = divmod(lane, along)
        place[axis] = own * (block.vector if number == 0 else 1) % max(1, tile.get(axis, 1))
    return place


def value(atom: Atom, place: Mapping[str, int]) -> int:
    total = 0
    for axis in atom.axes:
        index, period, step = place.get(axis, 0), atom.periods.get(axis, 0), atom.steps.get(axis, 0)
        total += step * (index % period if period else index) if step or not period else index // period
    return total
