"""What PyTorch's own kernels execute, from their machine code: a table that ``tests/golden/aten_sass.py`` reads off the
library (torch 2.11, sm_90) without a GPU and without counters.

A kernel is found by its name without namespaces, arguments and the width of its vectors. It is known by the instructions of a thread
outside of loops, what a further dimension of its operands costs (TensorIterator divides by the sizes of all of them), and its
loops: instructions, nesting, bytes read and written in one trip.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib import resources

NAMESPACE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\b[A-Za-z_]\w*::(?=[A-Za-z_(])")
VECTOR = re.compile(r"^(vectorized_elementwise_kernel)<\d+,")
SUFFIX = re.compile(r"(?<=\d)u?l\b")
TABLE = "aten_sm90.tsv.gz"


@dataclass(slots=True, frozen=True)
class Loop:
    instructions: int
    """Of one trip, without loops in it."""
    depth: int
    """1 for a loop in no other."""
    loads: int
    read: int
    """Bytes that a thread reads in a trip."""
    written: int
    alu: int = 0
    """Of the instructions, those of the integer and comparison unit."""


@dataclass(slots=True, frozen=True)
class Code:
    once: int
    """Instructions of a thread outside of loops, where its operands have one dimension."""
    dimension: float
    """More for each further one."""
    alu: float
    """Share of all that the integer and comparison unit executes; of wide products, special functions, double precision:"""
    heavy: float
    special: float
    double: float
    shared: float
    loops: tuple[Loop, ...]


def plain(symbol: str) -> str:
    """``void at::native::f<c10::Half>(int)`` as ``f<half>``: what no change of namespaces or of arguments alters."""
    name = re.sub(r"\s+", "", NAMESPACE.sub("", symbol.removeprefix("void ")))
    depth = 0
    for i, c in enumerate(name):
        depth += (c in "<{") - (c in ">}" and name[i - 1 : i] != "-")
        if c == "(" and depth == 0:
            name = name[:i]
            break
    return VECTOR.sub(r"\1<", SUFFIX.sub("", name)).lower()


def key(symbol: str) -> str:
    return hashlib.blake2b(plain(symbol).encode(), digest_size=5).hexdigest()


def row(name: str, code: Code) -> str:
    """A line of the table."""
    shares = (round(100 * v) for v in (code.alu, code.heavy, code.special, code.double, code.shared))
    loops = ";".join(f"{x.instructions},{x.depth},{x.loads},{x.read},{x.written},{x.alu}" for x in code.loops)
    return "\t".join([key(name), str(code.once), f"{code.dimension:g}", *map(str, shares), loops])


def read(line: str) -> tuple[str, Code]:
    name, once, dimension, *shares, loops = line.split("\t")
    parts = tuple(Loop(*map(int, part.split(","))) for part in loops.split(";") if part)
    alu, heavy, special, double, shared = (int(v) / 100 for v in shares)
    return name, Code(int(once), float(dimension), alu, heavy, special, double, shared, parts)


@functools.cache
def table() -> dict[str, str]:
    text = gzip.decompress(resources.files(__package__).joinpath(TABLE).read_bytes()).decode()
    return {line.split("\t", 1)[0]: line for line in text.splitlines() if line and not line.startswith("#")}


@functools.lru_cache(maxsize=4096)
def code_of(symbol: str) -> Code | None:
    """None for kernels that the table does not have."""
    line = table().get(key(symbol))
    return read(line)[1] if line else None


def nests(code: Code) -> list[tuple[Loop, ...]]:
    """Outermost loops, each with those in it."""
    found: list[list[Loop]] = []
    for loop in code.loops:
        if loop.depth == 1 or not found:
            found.append([loop])
        else:
            found[-1].append(loop)
    return [tuple(n) for n in found]


UNROLLED = 8
"""Loads of a trip from which a loop is one that the compiler unrolled, with what remains beside it: it is not run where the trips
are few."""


def in_passes(symbol: str, passes: int) -> float | None:
    """Instructions of a warp of a kernel whose longest loop runs as often as told; None where the table does not have it."""
    code = code_of(symbol)
    if code is None:
        return None
    longest = max((x.instructions for x in code.loops), default=0)
    return float(code.once + sum(x.instructions for x in code.loops) + (passes - 1) * longest)


REMAINDER = 3
"""Times less than the loop beside it that a loop moves in a trip which takes what that left."""


def of_warp(code: Code, dimensions: int, read: float, written: float, taps: tuple[int, int]) -> float:
    """Instructions of a warp. ``read`` and ``written`` are the bytes that a thread moves: they say how often a loop runs that moves
    them. Loops that only read are passes over all of it, but for what an unrolled loop beside them leaves. ``taps`` are the rows of
    a window and its elements, for loops within a loop."""
    total = code.once + code.dimension * (dimensions - 1)
    parts = nests(code)
    puts = [sum(x.written for x in nest) for nest in parts]
    moves = [sum(x.read + x.written for x in nest) for nest in parts]
    writes = max(puts, default=0) if written else 0
    for i, nest in enumerate(parts):
        if not moves[i]:
            total += sum(loop.instructions for loop in nest)
        elif puts[i] and written:
            if puts[i] == writes:
                total += streamed(nest, read, written, taps)
                writes = -1  # what is written is written once: the others are other ways of doing it
        elif REMAINDER * moves[i] > max(moves[max(0, i - 1) : i + 2]):
            total += streamed(nest, read, 0.0, taps)
    return total


def streamed(nest: tuple[Loop, ...], read: float, written: float, taps: tuple[int, int]) -> float:
    """Instructions of the loops that move a kernel's data: the one that writes, or else reads, most in a trip runs until all is moved;
    those around it run once, and those in it as often as a window has elements."""
    place = 0
    if taps == (1, 1):
        side = "written" if written and any(x.written for x in nest) else "read"
        place = max(range(len(nest)), key=lambda i: (getattr(nest[i], side), -i))
    loop = nest[place]
    per_trip, bytes_moved = (loop.written, written) if loop.written and written else (loop.read, read)
    trips = bytes_moved / per_trip if per_trip and bytes_moved else 1.0
    if loop.loads < UNROLLED or (place == 0 and len(nest) > 1):
        trips = max(1.0, trips)
    around = float(sum(x.instructions for x in nest[:place] if x.depth < loop.depth))
    beside = [x for x in nest if x.depth == loop.depth and x is not loop and not x.written] if loop.depth > 1 else []
    if taps == (1, 1):
        around += sum(max(1.0, read / x.read) * x.instructions for x in beside if REMAINDER * x.read > loop.read)
    within = [x for x in nest[place + 1 :] if x.depth > loop.depth]
    return around + trips * (loop.instructions + (window(within, taps) if taps != (1, 1) else once(within)))


def once(loops: list[Loop]) -> float:
    return float(sum(x.instructions for x in loops if x.loads < UNROLLED))


def window(loops: list[Loop], taps: tuple[int, int]) -> float:
    """Instructions of loops over the rows and elements of a window: the compiler unrolls the inner one and leaves what remains, at
    most one less, in the outer, so that their loads tell by how much. Loops with none in them only run at the edges."""
    if not loops:
        return 0.0
    deepest = max(x.depth for x in loops)
    inner = max((x for x in loops if x.depth == deepest), key=lambda x: x.loads)
    rows = next((x for x in reversed(loops[: loops.index(inner)]) if x.depth == deepest - 1), None)
    if rows is None:
        return float(taps[1] * inner.instructions)
    width = max(1, taps[1] // max(1, taps[0]))
    by = round(inner.loads / (inner.loads - rows.loads)) if 0 < rows.loads < inner.loads else 1
    whole, rest = divmod(width, by)
    each = whole * inner.instructions + rows.instructions * (rest / (by - 1) if by > 1 else 1.0)
    return taps[0] * each


@dataclass(slots=True, frozen=True)
class Reduction:
    """Of ``reduce_kernel`` (ATen/native/cuda/Reduce.cuh): instructions of a thread for an element that it reads in vectors, from
    elements that lie a stride apart, and that it has to find by dividing; to combine with another lane, and with another warp."""

    vector: float
    strided: float
    general: float
    lane: float
    warp: float
    alu: float = 0.35
    """Share of the loop over elements that the integer and comparison unit executes."""


SUM = Reduction(vector=2.75, strided=5.75, general=30.75, lane=6, warp=11)
"""Of a sum in single precision, for kernels that the table does not have: what is compiled while the program runs."""


def reduction_of(symbol: str, itemsize: int) -> Reduction:
    """The loops of such a kernel lie in its code in the order of its source: over vectors, over elements that are found by
    dividing, that lie a stride apart, that follow one another; then the exchanges between warps and lanes."""
    code = code_of(symbol)
    if code is None:
        return SUM
    first = next((i for i, x in enumerate(code.loops) if x.written), len(code.loops))
    over = [x.instructions / max(1.0, x.read / itemsize) for x in code.loops[:first] if x.read]
    exchanges = [x.instructions for x in code.loops[first:] if x.written]
    if len(over) < 4 or not exchanges:
        return SUM
    alu = code.loops[0].alu / max(1, code.loops[0].instructions)
    return Reduction(over[0], over[2], over[1], min(exchanges), max(exchanges[:2]), alu)
