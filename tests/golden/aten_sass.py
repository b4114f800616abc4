"""What PyTorch's own kernels execute, read off their machine code: no counters, no GPU.

usage: python tests/golden/aten_sass.py LIBTORCH_CUDA [--tools FOLDER] [--work FOLDER] [--match TEXT…] [--table FILE]

``LIBTORCH_CUDA`` is a CUDA build's ``libtorch_cuda.so``; ``--tools`` has ``cuobjdump`` (Triton's wheel brings it); ``c++filt`` is
binutils'. Code for sm_90 is taken out once into ``--work``, with an index of names. ``--match`` prints what is found for kernels whose
demangled names hold all of the texts; ``--table`` writes the table that ``ridgeline.roofline.aten_code`` reads.

The main path of a thread is the longest way through the kernel that calls no function, traps nowhere and spills nothing if there is
such a way (calls are for rare operands); a whole block of ``vectorized_elementwise_kernel`` takes the way without predicated loads.
TensorIterator's offset calculator (``OffsetCalculator.cuh``) is a loop over up to 25 dimensions, unrolled with an exit after
each: a chain of branches to one place. The path is taken with one dimension and with three, which gives what a further one
costs. A loop is counted apart: the instructions of one trip, and the loads in it, which tell how far it is unrolled.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.roofline import aten_code

LINE = re.compile(r"\s*/\*([0-9a-f]{4,6})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?);")
SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
LABEL = re.compile(r"^(\.L_x_\d+):")
SYMBOLS, FUNCTION = 2, 2
"""Kinds of a section and of a symbol (ELF)."""
TARGET = re.compile(r"(0x[0-9a-f]+)\s*$")
CHAIN = 8
"""Branches to one place that make it the exit of the unrolled loop over dimensions (25 of them)."""
ALU = ("ISETP", "FSETP", "FSEL", "SEL", "IADD3", "LOP3", "SHF", "LEA", "PRMT", "FMNMX", "IMNMX", "VIMNMX", "VIADD", "F2FP", "MOV", "PLOP3", "FSET", "ISET", "BMSK", "SGXT", "POPC", "FLO", "IABS", "P2R", "R2P", "VABSDIFF", "DSETP_", "HMNMX2", "HSETP2", "FCHK_", "LOP", "SHL", "SHR", "BREV")  # fmt: skip
SPECIAL = ("MUFU", "I2F", "F2I", "FRND", "F2F", "I2I", "FCHK", "POPC", "FLO", "BREV")
DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
HEAVY = re.compile(r"IMAD\.(WIDE|HI)|XMAD|IDP")
LOADS = ("LDG", "LD.", "ATOM", "RED")
SHARED = ("LDS", "STS", "SHFL", "ATOMS", "LDSM")
FLOW = {"BRA", "BRX", "EXIT", "RET", "JMP", "CALL", "BPT"}
COMPARED = re.compile(r"ISETP\.(GT|NE|EQ|LT|GE|LE)(?:\.U32)?\.AND (P\d), PT, R\d+(?:\.reuse)?, (0x[0-9a-f]+), PT")
OPPOSITE = {"GT": "LE", "LE": "GT", "NE": "EQ", "EQ": "NE", "LT": "GE", "GE": "LT"}
FLOAT, TYPES = 6, 45
"""Number of the type that stands for all where a kernel switches over types at run time, and how many there are (c10/core/ScalarType.h)."""


@dataclass(slots=True)
class Block:
    start: int
    count: int = 0
    alu: int = 0
    heavy: int = 0
    special: int = 0
    double: int = 0
    loads: int = 0
    read: int = 0
    """Bytes that its loads from memory take, and"""
    written: int = 0
    """its stores put."""
    shared: int = 0
    guarded: int = 0
    """Loads and stores under a predicate."""
    slow: int = 0
    """Calls, traps, local memory."""
    calls: list[int] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    """Where it goes on, the next instruction first."""
    branches: bool = False
    compared: tuple[str, int] | None = None
    """Of a branch on a register compared with a number: the comparison that takes it, and the number."""


FIELDS = ("count", "alu", "heavy", "special", "double", "loads", "read", "written", "shared", "guarded")
Counts = tuple[int, ...]
ZERO: Counts = (0,) * len(FIELDS)


def plus(a: Counts, b: Counts) -> Counts:
    return tuple(x + y for x, y in zip(a, b))


@dataclass(slots=True)
class Way:
    """Instructions on a path outside of loops, and the loops on it: (counts of one trip, depth)."""

    slow: int
    counts: Counts
    loops: tuple[tuple[Counts, int], ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        return -self.slow, self.counts[0] + sum(c[0] for c, _ in self.loops)

    def then(self, other: Way) -> Way:
        return Way(self.slow + other.slow, plus(self.counts, other.counts), self.loops + other.loops)


Instruction = tuple[int, str, str, str]
"""Address, predicate, opcode, operands."""


@dataclass(slots=True, frozen=True)
class Kind:
    base: str
    alu: bool
    heavy: bool
    special: bool
    double: bool
    loads: bool
    read: int
    written: int
    shared: bool


@functools.cache
def kind_of(op: str) -> Kind:
    base = op.split(".")[0]
    access = op.startswith(LOADS)
    return Kind(
        base,
        base in ALU,
        bool(HEAVY.match(op)),
        base in SPECIAL and not (base == "F2F" and "BF16" in op),
        base in DOUBLE,
        access,
        width(op) if access and base != "RED" else 0,
        width(op) if base in ("STG", "ST", "RED") else 0,
        base in SHARED,
    )


def blocks_of(code: Sequence[Instruction]) -> dict[int, Block]:
    leaders = {code[0][0]}
    for i, (_, _, op, rest) in enumerate(code):
        if kind_of(op).base in FLOW:
            if i + 1 < len(code) and not op.startswith(("CALL", "BPT")):
                leaders.add(code[i + 1][0])
            found = TARGET.search(rest)
            if found:
                leaders.add(int(found.group(1), 16))
    blocks: dict[int, Block] = {}
    current = Block(-1)
    for i, (address, predicate, op, rest) in enumerate(code):
        if address in leaders:
            if current.start >= 0 and not current.next and not current.branches:
                current.next.append(address)
            current = blocks[address] = Block(address)
        kind = kind_of(op)
        base = kind.base
        current.count += 1
        current.alu += kind.alu
        current.heavy += kind.heavy
        current.special += kind.special
        current.double += kind.double
        current.loads += kind.loads
        current.read += kind.read
        current.written += kind.written
        current.shared += kind.shared
        current.guarded += bool(predicate) and (kind.loads or base == "STG")
        current.slow += base in ("BPT", "STL", "LDL")
        if base not in FLOW:
            continue
        after = code[i + 1][0] if i + 1 < len(code) else None
        found = TARGET.search(rest)
        if base in ("BRA", "JMP") and found and ".DIV" not in op:
            current.branches = True
            if (predicate or re.match(r"!?U?P\d", rest)) and after is not None:
                current.next.append(after)
                current.compared = comparison(code, i)
            current.next.append(int(found.group(1), 16))
        elif base in ("EXIT", "RET", "BPT"):
            current.branches = True
            if predicate and after is not None:
                current.next.append(after)
        elif base == "BRX":
            current.branches = True
            current.next.append(-1)
        elif base == "CALL":
            current.slow += 10
            if found:
                current.calls.append(int(found.group(1), 16))
    tables(blocks)
    return blocks


def width(op: str) -> int:
    return next(
        (n for mark, n in ((".128", 16), (".64", 8), ("U8", 1), ("S8", 1), ("U16", 2), ("S16", 2)) if mark in op), 4
    )


def comparison(code: Sequence[Instruction], at: int) -> tuple[str, int] | None:
    """Of the branch at ``at``: ``("GT", 9)`` where it is taken if a register is greater than nine; None where it hangs on more."""
    if at == 0 or not code[at][1]:
        return None
    _, predicate, op, rest = code[at - 1]
    found = COMPARED.match(f"{op} {rest}")
    if predicate or found is None or found.group(2) != code[at][1].lstrip("@!"):
        return None
    kind = found.group(1) if "!" not in code[at][1] else OPPOSITE[found.group(1)]
    return kind, int(found.group(3), 16)


def taken(compared: tuple[str, int], value: int) -> bool:
    kind, number = compared
    return {
        "GT": value > number,
        "NE": value != number,
        "EQ": value == number,
        "LT": value < number,
        "GE": value >= number,
        "LE": value <= number,
    }[kind]


def tables(blocks: dict[int, Block]) -> None:
    """A jump by table may go to any block after it that nothing else leads to."""
    reached = {n for b in blocks.values() for n in b.next} | {c for b in blocks.values() for c in b.calls}
    jumps = sorted(b.start for b in blocks.values() if -1 in b.next)
    orphans = sorted(set(blocks) - reached - {min(blocks)})
    for i, start in enumerate(jumps):
        end = jumps[i + 1] if i + 1 < len(jumps) else max(blocks) + 1
        own = [o for o in orphans if start < o < end]
        cases = [o for o in own if blocks[o].next or blocks[o].count > 2]
        cases.sort(key=lambda o: blocks[o].count)
        blocks[start].next = cases[len(cases) // 2 : len(cases) // 2 + 1]  # the case in the middle stands for all


class Walk:
    def __init__(self, blocks: dict[int, Block], name: str, dimensions: int) -> None:
        whole = "vectorized_elementwise" in name
        self.rare_loops = "elementwise_kernel<" in name and "grid_stride" not in name
        """A loop in a function of one element is for rare operands: large angles."""
        self.blocks = blocks
        self.memo: dict[int, Way] = {}
        self.next = {b.start: [n for n in b.next if n in blocks] for b in blocks.values()}
        if "WithCast" in name or ("gpu_kernel_impl<" in name and "elementwise_kernel<" in name):
            for b in blocks.values():  # TypeCast: a tree of comparisons at each access
                if b.compared and b.compared[1] < TYPES and len(self.next[b.start]) == 2:
                    self.next[b.start] = [self.next[b.start][taken(b.compared, FLOAT)]]
        into: dict[int, list[int]] = defaultdict(list)
        for b in blocks.values():
            if len(b.next) == 2:
                into[b.next[1]].append(b.start)
        for target, sources in into.items():
            sources = sorted(s for s in sources if s < target)
            if len(sources) < CHAIN:
                continue
            for i, source in enumerate(sources):
                self.next[source] = [target] if i == dimensions else self.next[source][:1]
            # one exit more than dimensions: the first is for none at all
        if whole:
            self.vectors()

    def vectors(self) -> None:
        """Of a kernel that takes whole vectors: not the way for the last block, whose accesses are guarded one by one."""
        start = min(self.blocks)
        while len(self.next[start]) == 1:
            start = self.next[start][0]
        ways = [(self.reach_guarded(n), n) for n in self.next[start]]
        if len(ways) == 2 and ways[0][0] != ways[1][0]:
            self.next[start] = [min(ways)[1]]

    def reach_guarded(self, start: int) -> int:
        seen, stack, guarded = set(), [start], 0
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            guarded += self.blocks[at].guarded
            stack += self.next[at]
        return guarded

    def callee(self, start: int) -> Way:
        if start not in self.memo:
            self.memo[start] = Way(0, ZERO)
            if start in self.blocks:
                self.memo[start] = self.path(self.reachable(start), start, 0)
        return self.memo[start]

    def reachable(self, start: int) -> frozenset[int]:
        seen, stack = set(), [start]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                stack += self.next[at]
        return frozenset(seen)

    def path(self, nodes: frozenset[int], start: int, depth: int, closed: int | None = None) -> Way:
        """The main path from ``start`` within ``nodes``; edges to ``closed`` (the head of the loop walked) are its end."""
        order = components(nodes, self.next, closed)
        place = {n: i for i, part in enumerate(order) for n in part}
        entered: dict[int, set[int]] = defaultdict(set)
        for n in nodes:
            for m in self.next[n]:
                if m in place and place[m] != place[n]:
                    entered[place[m]].add(m)
        best: dict[int, Way] = {}
        for i, part in enumerate(order):  # in reverse topological order: what follows is known
            head = start if start in part else min((n for n in part if n in entered[i]), default=min(part))
            looped = len(part) > 1 or (head in self.next[head] and head != closed)
            leaving = [
                best[place[m]] for n in part for m in self.next[n] if m in place and m not in part and m != closed
            ]
            after = max(leaving, key=lambda p: p.rank, default=Way(0, ZERO))
            if looped:
                trip = (
                    self.path(frozenset(part), head, depth + 1, head) if head != closed or depth == 0 else Way(0, ZERO)
                )
                own = Way(trip.slow + 5 * self.rare_loops, ZERO, ((trip.counts, depth + 1), *trip.loops))
            else:
                own = self.of(head)
            best[i] = own.then(after)
        return best[place[start]]

    def of(self, start: int) -> Way:
        block = self.blocks[start]
        path = Way(block.slow, tuple(getattr(block, f) for f in FIELDS))
        for call in block.calls:
            path = path.then(Way(0, self.callee(call).counts))
        return path


def components(nodes: frozenset[int], edges: dict[int, list[int]], closed: int | None) -> list[list[int]]:
    """Strongly connected components in reverse topological order (Tarjan), without edges to ``closed``."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(nodes):
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = []

        def enter(n: int, work: list[tuple[int, Iterator[int]]] = work) -> None:
            index[n] = low[n] = len(index)
            stack.append(n)
            on.add(n)
            work.append((n, iter([m for m in edges[n] if m in nodes and m != closed])))

        enter(root)
        while work:
            node, rest = work[-1]
            for m in rest:
                if m not in index:
                    enter(m)
                    break
                if m in on:
                    low[node] = min(low[node], index[m])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while True:
                        m = stack.pop()
                        on.discard(m)
                        part.append(m)
                        if m == node:
                            break
                    found.append(part)
    return found


def analysed(name: str, code: Sequence[Instruction]) -> tuple[Way, Way]:
    """The main path with one dimension and with three."""
    code = [c for c in code if c[2] != "NOP"]
    blocks = blocks_of(code)
    one, three = Walk(blocks, name, 1), Walk(blocks, name, 3)
    start = code[0][0]
    return one.path(one.reachable(start), start, 0), three.path(three.reachable(start), start, 0)


def extract(library: Path, tools: Path, work: Path) -> None:
    if not any(work.glob("*.cubin")):
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [tools / "cuobjdump", "-xelf", "sm_90", library.resolve()], cwd=work, check=True, capture_output=True
        )


def functions(cubin: Path) -> dict[str, int]:
    """Mangled names of a cubin's kernels, and their places in its table of symbols (ELF, 64 bits)."""
    data = cubin.read_bytes()
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    table = next(s for s in sections if s[1] == SYMBOLS)
    texts = sections[table[6]][4]
    found = {}
    for i in range(table[5] // 24):
        name, kind = struct.unpack_from("<IB", data, table[4] + 24 * i)
        if kind & 15 == FUNCTION:
            found[data[texts + name : data.index(b"\0", texts + name)].decode()] = i
    return found


def demangled(names: Sequence[str]) -> list[str]:
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def disassembled(
    cubin: Path, tools: Path, names: Iterable[str] | None = None
) -> Iterator[tuple[str, list[Instruction]]]:
    places = functions(cubin)
    chosen = ["-fun", ",".join(str(places[n]) for n in names)] if names is not None else []
    process = subprocess.Popen([tools / "nvdisasm", "-c", *chosen, cubin], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name, code, labels = "", [], {}
    waiting: list[str] = []
    for line in process.stdout:
        if found := LINE.match(line):
            address = int(found.group(1), 16)
            for label in waiting:
                labels[label] = address
            waiting.clear()
            code.append((address, found.group(2) or "", found.group(3), found.group(4)))
        elif found := LABEL.match(line):
            waiting.append(found.group(1))
        elif found := SECTION.match(line):
            if code:
                yield name, resolved(code, labels)
            name, code, labels = found.group(1), [], {}
    if code:
        yield name, resolved(code, labels)
    process.wait()


def resolved(code: list[Instruction], labels: dict[str, int]) -> list[Instruction]:
    """With addresses for labels."""
    place = lambda m: f"{labels.get(m.group(1), 0):#x}"  # noqa: E731
    return [(a, p, op, re.sub(r"`\((\.L_x_\d+)\)", place, rest) if "`" in rest else rest) for a, p, op, rest in code]


def every_loop(name: str, code: Sequence[Instruction]) -> tuple[aten_code.Loop, ...]:
    """All loops of ``reduce_kernel`` by their place, on the main path or not; exchanges between threads in the place of bytes written."""
    blocks = blocks_of([c for c in code if c[2] != "NOP"])
    walk = Walk(blocks, name, 1)
    loops = []
    for part in sorted(components(walk.reachable(code[0][0]), walk.next, None), key=min):
        if len(part) > 1 or part[0] in walk.next[part[0]]:
            trip = walk.path(frozenset(part), min(part), 1, min(part)).counts
            shared, loads, read, alu = (trip[FIELDS.index(f)] for f in ("shared", "loads", "read", "alu"))
            loops.append(aten_code.Loop(trip[0], 1, loads, 0 if shared else read, shared, alu))
    return tuple(loops)


def code_of(name: str, code: Sequence[Instruction]) -> aten_code.Code:
    one, three = analysed(name, code)
    total = one.counts
    for counts, _ in one.loops:
        total = plus(total, counts)
    share = {f: v / max(1, total[0]) for f, v in zip(FIELDS, total)}
    at = {f: i for i, f in enumerate(FIELDS)}
    loops = tuple(
        aten_code.Loop(c[0], depth, c[at["loads"]], c[at["read"]], c[at["written"]], c[at["alu"]])
        for c, depth in one.loops
    )
    if "reduce_kernel<" in name:
        loops = every_loop(name, code)
    further = max(0.0, (three.counts[0] - one.counts[0]) / 2)
    units = (share[f] for f in ("alu", "heavy", "special", "double", "shared"))
    return aten_code.Code(one.counts[0], further, *units, loops)


LEFT_OUT = re.compile(
    r"multi_tensor_apply|flash|cutlass|fmha|nccl|c10d|all_reduce|symm|two_shot|one_shot|multimem|nvshmem|PyTorchMemEff|tinygemm|rocm|sparse|jagged|sampled"
    r"|Float8|Float4|signed char|complex<double>|complex<c10::Half>|UInt|quint|qint|\bbits|native::apply_kernel|_elemwise_kernel"
    r"|DeviceSegmentedRadixSort|kernelPointwiseApply|cub::detail::merge|vectorized_elementwise_kernel<(2|8|16),"
    r"|reduce_kernel<256|unfold_backward"
)
"""Other models' kernels, rare types, and those of which others in the table say the same (vectors of another width)."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--tools", type=Path, required=True, help="folder with cuobjdump and nvdisasm")
    parser.add_argument("--work", type=Path, required=True, help="folder for the extracted code")
    parser.add_argument("--match", nargs="*", default=[], help="texts that names must hold")
    parser.add_argument("--table", type=Path)
    args = parser.parse_args(argv)
    sys.setrecursionlimit(20000)
    extract(args.library, args.tools, args.work)
    lines: dict[str, str] = {}
    for cubin in sorted(args.work.glob("*.cubin")):
        mangled = list(functions(cubin))
        names = {
            m: d
            for m, d in zip(mangled, demangled(mangled))
            if not LEFT_OUT.search(d) and all(t in d for t in args.match)
        }
        for name, code in disassembled(cubin, args.tools, names) if names else ():
            if name in names:
                found = code_of(names[name], code)
                lines[aten_code.key(names[name])] = aten_code.row(names[name], found)
                if args.match:
                    print(f"{aten_code.plain(names[name])}\n  {found}")
    if args.table:
        text = "# torch 2.11, sm_90: tests/golden/aten_sass.py\n" + "\n".join(lines[k] for k in sorted(lines)) + "\n"
        args.table.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
