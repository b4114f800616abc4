"""Bytes that the accesses of a walked Triton kernel move: between memory and the second-level cache, and from there to the
cores."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping

from ridgeline.roofline.layout import CACHE_LINE, Layout
from ridgeline.roofline.symbolic import Access, Atom, count_of, intersected, union_elements
from ridgeline.roofline.tally import Tally
from ridgeline.roofline.wavefronts import addresses

COUNTER = re.compile(r"loop\d+")
"""A loop's counter: that of a later loop over the same places has another number."""
BURST = 64
"""Bytes that memory delivers at least."""
SECTOR = 32
"""Bytes that the second-level cache writes at once."""
PARTIAL, ATOMIC = 1.75, 1.2
"""What a write to a part of a sector costs, and an atomic operation, over one to a whole sector: the rest has to be read."""
KEPT = 0.5
"""Share of the second-level cache within which what was read is found again: both of its halves keep what they serve."""
FIRST_LEVEL_BYTES = 262144
"""First-level cache and shared memory of a multiprocessor (H100 architecture paper)."""
TABLE_BYTES = 65536
"""Tables up to this size together stay in the first-level cache beside what streams through: a quarter of an SM's 256 KiB."""


def traffic(tally: Tally, sizes: Mapping[str, int], cache: float | None = None) -> tuple[float, float, float, bool]:
    """Compulsory bytes read and written, bytes that memory delivers for the reads, and whether loaded indices make them an upper
    bound. Memory delivers whole bursts, and delivers again what a second-level cache of ``cache`` bytes has lost when a later
    part of the grid comes back to it."""
    groups: dict[tuple[str, bool], list[Access]] = defaultdict(list)
    for access in tally.accesses:
        groups[access.pointer, access.store].append(access)
        if access.atomic:
            groups[access.pointer, False].append(access)
    totals = {False: 0.0, True: 0.0}
    fetched = 0.0
    upper = False
    again: list[tuple[float, float]] = []
    own = {a.pointer for a in first_of_each(tally) if a.store and not a.atomic}
    for (pointer, store), accesses in groups.items():
        if not store and pointer in own:
            continue  # the program reads what it has just written, from cache
        size = accesses[0].size
        whole = sizes.get(pointer)
        touched = union_elements(accesses) * size
        if not all(a.known for a in accesses) and whole is not None:
            touched = whole
        upper = upper or any(a.indirect for a in accesses)
        touched = min(touched, whole) if whole is not None else touched
        totals[store] += touched
        if not store:
            together = max(a.burst() for a in accesses) * size * len({a.offset for a in accesses})
            bursts = touched * max(1.0, BURST / together)
            bursts = min(bursts, whole) if whole is not None else bursts
            fetched += bursts
            again.append((min(sweeps(a, tally) for a in accesses), bursts))
            if whole and cache and all(a.known for a in accesses):
                fetched += max(0.0, gathered(accesses) * (1.0 - cache * KEPT / whole) - bursts)
    if cache:
        moved = fetched + totals[True]
        fetched += sum((times - 1) * size for times, size in again if times > 1 and moved / times > cache * KEPT)
    return totals[False], totals[True], fetched, upper


def gathered(accesses: list[Access]) -> float:
    """Bytes that loaded indices ask of a table, every time that one asks. Those of the part of the table that the second-level cache
    keeps are found there."""
    asked: dict[object, float] = {}
    for access in accesses:
        if any(a.name.startswith("loaded") for a in access.terms):
            key = access.offset, tuple(sorted((a.name, c) for a, c in access.terms.items() if c))
            asked[key] = max(asked.get(key, 0.0), float(access.distinct() * access.size))
    return sum(asked.values())


def sweeps(access: Access, tally: Tally) -> float:
    """How often a grid along one axis comes back to the same addresses from the beginning: where only the lower part of the index
    is in them."""
    extent = tally.extent.get("x", 0)
    if not extent or not access.known or access.indirect or len(tally.extent) > 1 or len(access.terms) != 1:
        return 1.0
    (atom,) = access.terms
    period = atom.periods.get("x", 0)
    return max(1.0, extent / period) if period and atom.steps.get("x", 0) else 1.0


def first_of_each(tally: Tally) -> list[Access]:
    """The first access to each pointer, in the order of the text."""
    first: dict[str, Access] = {}
    for access in tally.accesses:
        first.setdefault(access.pointer, access)
    return list(first.values())


def cached_traffic(
    tally: Tally,
    layout: Layout,
    programs: int,
    holders: int,
    grain: int = CACHE_LINE,
    resident: int = 1,
    sizes: Mapping[str, int] | None = None,
) -> tuple[float, float]:
    """Bytes between the cores and the second-level cache, in whole lines (``grain``) or sectors. Every program fetches the lines of its own tile, whole ones: a
    request for one sector takes the cache's time for a line. What overlaps within a program is fetched once, but what a later
    loop reads again is fetched again where the lines of the ``resident`` programs of a multiprocessor do not fit its first-level
    cache. Small tables that all programs read (weights of channels, statistics of groups) are fetched once by each of
    ``holders`` first-level caches, as long as they fit there together. ``sizes`` are those of the buffers, where known."""
    wide = {a for a, n in tally.extent.items() if n > 1}
    write = 0.0
    reads: dict[object, list[tuple[float, float, int]]] = defaultdict(list)
    for access in tally.accesses:
        tile = math.prod(min(tally.tile.get(a, 1), tally.extent.get(a, 1 << 62)) for a in access.axes)
        moved = float(programs * tile * access.trips * access.size)
        whole = 1.0
        if wide and wide <= access.axes:  # the last programs overhang
            whole = min(1.0, math.prod(tally.extent[a] for a in wide) * float(access.size) / moved) if moved else 1.0
        if access.store:
            write += moved * whole * part_written(access, tally, layout)
            continue
        lost = any(a.name.startswith("?") and not a.periods for a in access.terms) or not access.known
        fetched = moved if lost else float(programs * access.trips * lines(access, tally, grain) * grain)
        if access.indirect and (gathered_from := (sizes or {}).get(access.pointer)):
            # lines of a table are met again as far as the first-level cache holds it
            missed = max(0.0, 1.0 - FIRST_LEVEL_BYTES / gathered_from)
            fetched = min(fetched, gathered_from * holders + missed * fetched)
        if fetched <= TABLE_BYTES * programs:
            fetched /= max(1.0, neighbours(access, tally) / holders)
        key = (
            (access.pointer, tuple(sorted((COUNTER.sub("loop", a.name), c) for a, c in access.terms.items())))
            if access.known
            else access.pointer
        )
        together = access.burst()
        table = access.distinct() / together * math.ceil(together * access.size / grain) * grain
        reads[key].append((fetched * whole, table if access.known and not access.indirect else math.inf, access.offset))
    totals = []
    for group in reads.values():
        # windows that differ in their offset alone lie in each other's lines where they are wasteful
        windows = [max(f for f, _, at in group if at == offset) for offset in {at for _, _, at in group}]
        used = max(max(windows), min(sum(windows), sum(windows) / CACHE_LINE * layout_bytes(tally, layout)))
        totals.append((max(table for _, table, _ in group), used, max(used, in_passes(group))))
    if sum(used for _, used, _ in totals) * resident > FIRST_LEVEL_BYTES * programs:
        totals = [(table, repeated, repeated) for table, _, repeated in totals]
    read = held = 0.0
    for table, used, _ in sorted(totals):
        fits = held + table <= TABLE_BYTES
        held += table if fits else 0.0
        read += min(used, table * holders) if fits else used
    return read, write


def neighbours(access: Access, tally: Tally) -> float:
    """Programs in a row that read the same places, for ``x // c`` stays where it is. A multiprocessor gets one in so many of them as
    there are multiprocessors: what the first has fetched the others find in its cache."""
    together = math.inf
    for atom in access.terms:
        for axis in atom.axes:
            if tally.extent.get(axis, 0) <= tally.tile.get(axis, 1):
                continue
            if axis != "x" or atom.steps.get(axis, 0) or atom.indirect or atom.name.startswith("?"):
                return 1.0
            together = min(together, atom.periods.get(axis, 1) / tally.tile.get(axis, 1))
    return together if together < math.inf else 1.0


def in_passes(group: list[tuple[float, float, int]]) -> float:
    """Bytes of accesses to the same places, by (bytes, table, offset): those that come to an offset again do so in a later loop."""
    passes: dict[int, float] = defaultdict(float)
    met: dict[int, int] = defaultdict(int)
    for fetched, _, offset in group:
        passes[met[offset]] = max(passes[met[offset]], fetched)
        met[offset] += 1
    return sum(passes.values())


def lines(access: Access, tally: Tally, grain: int = CACHE_LINE) -> float:
    """Cache lines, or sectors, that one program touches with one access to its tile: the values that each part of the index takes there,
    those next to each other in one line."""
    parts = []
    for atom, coefficient in access.terms.items():
        count = math.prod(values(atom, axis, tally) for axis in atom.axes)
        count = min(count, max(1, atom.count))
        if count > 1 and coefficient:
            parts.append((abs(coefficient) if not atom.name.startswith("*") else CACHE_LINE, count))
    elements = math.prod(min(tally.tile.get(a, 1), tally.extent.get(a, 1 << 62)) for a in access.axes)
    run, held, apart = 1, 1, 1.0
    for coefficient, count in sorted(parts):
        if coefficient <= run or (apart == 1.0 and coefficient * access.size < grain):
            run += coefficient * (count - 1)
            held *= count
        else:
            apart *= count
    run = min(run, -(-run * elements // held))  # indices that were loaded may repeat: no more places than elements
    apart = max(1.0, min(apart, elements / held))
    return float(min(max(1.0, run * access.size / grain) * apart, elements)) * unmasked(access)


def unmasked(access: Access) -> float:
    """Share of the elements that masks leave, of what a launch could touch (a part of a concatenation)."""
    share = 1.0
    for bound in intersected(access.bounds):
        whole = count_of(dict(bound.terms))
        share *= min(1.0, max(0, min(bound.high, whole) - max(bound.low, 0)) / whole) if whole else 1.0
    return share


def values(atom: Atom, axis: str, tally: Tally) -> int:
    """Different values of the part of an index within a tile."""
    tile = min(tally.tile.get(axis, 1), tally.extent.get(axis, 1 << 62))
    period = atom.periods.get(axis, 0)
    if not period:
        return tile
    return min(tile, period) if atom.steps.get(axis, 0) else -(-tile // period)


def part_written(access: Access, tally: Tally, layout: Layout) -> float:
    """Sectors' worth of work for the bytes that a store writes, over whole sectors. Both ends of a stretch that begins anywhere lie in
    sectors of which the rest is read."""
    runs = [(min(access.run(a, layout.whole(a)), tally.tile.get(a, 1)), a) for a in access.axes] if access.known else []
    run, axis = max(runs, default=(1, ""))
    row = max(1, run) * access.size
    if access.atomic:
        return max(1.0, SECTOR / row) * ATOMIC
    if run == 1 and (counted := sectors_written(access, layout)) is not None:
        return counted
    aligned = access.alignment(axis, layout.whole(axis)) if run > 1 else 1
    apart = 1.0 - min(SECTOR, aligned * access.size, row) / SECTOR
    touched = row / SECTOR + apart
    parts = min(touched, 2 * apart)
    return (touched + parts * (PARTIAL - 1.0)) * SECTOR / row


def sectors_written(access: Access, layout: Layout) -> float | None:
    """The same for a store that is contiguous along no axis, by the lanes of one warp: several may meet in a sector (planes of
    a picture that are written in turn). None where addresses depend on data."""
    places = addresses(access, layout.of(access), layout.tile) if access.axes else None
    if places is None:
        return None
    filled: dict[int, set[int]] = defaultdict(set)
    for place in places:
        filled[place // SECTOR].add(place)
    written = sum(1.0 if len(own) * access.size == SECTOR else PARTIAL for own in filled.values())
    return written * SECTOR / (len(set(places)) * access.size)


def layout_bytes(tally: Tally, layout: Layout) -> float:
    """Bytes of a line that a warp's access uses along the fast axis: all of it where accesses are contiguous."""
    runs = [
        min(a.run(layout.fast, layout.whole(layout.fast)) * a.size, CACHE_LINE)
        for a in tally.accesses
        if not a.store and a.known
    ]
    return float(min(runs, default=CACHE_LINE))
