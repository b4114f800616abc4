"""``token-decode``: a text grows token by token and every step computes all of it again, or its cache by concatenation."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from ridgeline.findings import spans, words
from ridgeline.findings.calling import Calling
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.loop_text import Loops
from ridgeline.findings.whatif import gain
from ridgeline.profile import SourceRef

GROWTH = 8
"""Consecutive sizes that each are one larger than the last. By chance that does not happen."""
OPEN = 8
"""Tensors of one statement that are followed at the same time."""
LINEAR = ("aten::linear", "aten::embedding", "aten::matmul")
CACHE = ("aten::cat",)
SPEEDUP = 4.0
"""With a cache a step computes one token, not all of them; what remains is limited by reading the weights."""


class _Growth(NamedTuple):
    rows: list[int]
    first: int
    last: int
    """Smallest and largest size seen."""
    tokens: list[int]
    """Of the rows the first of each size: one a token."""


class _Call(NamedTuple):
    """Dimensions of a call's inputs, and its row."""

    row: int
    dims: list[list[int]]
    size: int = 0
    """The one that grows."""


def rule(facts: Facts) -> list[Candidate]:
    if growing := _growing(facts, LINEAR):
        # Of several statements (every layer has one) the first to run: there the text enters the model, or the first of its layers.
        return [_whole_text(facts, growing[0])]
    if growing := _growing(facts, CACHE):
        return [_cache(facts, growing)]
    return []


def _growing(facts: Facts, names: tuple[str, ...]) -> list[_Growth]:
    """Ops of one statement and name whose input grows by one from call to call, by statement, in the order of their first op."""
    groups: dict[tuple[str, int, str], list[_Call]] = defaultdict(list)
    for row in map(int, facts.ops_named(*names)):
        at = facts.line_of_op(facts.outermost(row))
        dims = facts.all_dims_of(row)
        if at is not None and dims:
            groups[at.file, at.line, facts.op_name(row)].append(_Call(row, dims))
    found = []
    for entries in groups.values():
        chain = next((c for c in _chains(entries) if len(c) >= GROWTH), None)
        if chain is not None:
            found.append(_Growth([c.row for c in entries], chain[0].size, chain[-1].size, [c.row for c in chain]))
    return found


def _chains(entries: list[_Call]) -> list[list[_Call]]:
    """Consecutive shapes, each one longer than the last. One statement may call the same op on several tensors in turn: each call
    goes on with the chain that it fits."""
    chains: list[list[_Call]] = []
    for call in entries:
        if any(chain[-1].dims == call.dims for chain in chains[-OPEN:]):
            continue
        for chain in reversed(chains[-OPEN:]):
            size = _one_longer(chain[-1].dims, call.dims)
            if size is not None:
                if len(chain) == 1:
                    chain[0] = chain[0]._replace(size=size - 1)
                chain.append(call._replace(size=size))
                break
        else:
            chains.append([call])
    return chains


def _one_longer(before: list[list[int]], after: list[list[int]]) -> int | None:
    """The new size if exactly one size of one input grew, by one."""
    if [len(d) for d in before] != [len(d) for d in after]:
        return None
    changes = [(a, b) for x, y in zip(before, after) for a, b in zip(x, y) if a != b]
    return changes[0][1] if len(changes) == 1 and changes[0][1] == changes[0][0] + 1 else None


def _cache(facts: Facts, growing: list[_Growth]) -> Candidate:
    """All statements that make a cache longer (keys and values have one each) as one, at the first."""
    rows = [row for growth in growing for row in growth.rows]
    places = [at for growth in growing if (at := facts.line_of_op(facts.outermost(growth.rows[0]))) is not None]
    tops = {facts.outermost(row) for row in rows}
    work = [r for r in facts.recorded_work if facts.work.op[r] >= 0 and facts.outermost(int(facts.work.op[r])) in tops]
    # What is written of the new token stays.
    stays = 2.0 / (growing[0].first + growing[0].last)
    claims, saving = gain(facts, dict.fromkeys(work, stays))
    total = facts.time_of(work)
    return Candidate(
        code="token-decode",
        title="The cache grows by concatenation",
        fact=f"torch.cat makes a new tensor, one longer each time ({growing[0].first} … {growing[0].last}), "
        f"{words.times(len(rows) / facts.n)} {facts.per}: {words.time(facts.per_step(total))}.",
        advice="Allocate the cache once at its full length and write into it (index_copy_): no copy, static shapes, and CUDA "
        "graphs become possible.",
        at=places[0],
        cost_us=total,
        saving_us=saving,
        claims=claims,
        evidence={
            "calls_per_step": len(rows) / facts.n,
            "threshold_calls": GROWTH,
            "first_length": growing[0].first,
            "last_length": growing[0].last,
            "related": [{"file": o.file, "line": o.line, "text": "of the same cache"} for o in places[1:]],
        },
    )


def _whole_text(facts: Facts, growth: _Growth) -> Candidate:
    at = facts.line_of_op(facts.outermost(growth.rows[0]))
    once = Calling(facts).once_in(growth.tokens)  # innermost first
    enters = once[0] if once else at
    at = _asking(facts, once) or at
    if enters is None or at is None or (enters.file, enters.line) == (at.file, at.line):
        enters = None
    work = [r for r in facts.recorded_work if facts.line_of_work(r) is not None]
    claims = facts.claims_of(work)
    total = facts.time_of(work)
    return Candidate(
        code="token-decode",
        title="Every new token computes the whole text again",
        fact=f"The input grows by one from call to call ({growth.first} … {growth.last}) and all of it is computed each time: "
        f"{words.time(facts.per_step(total))} {facts.per}."
        + (f" It enters the model at {enters.file.rsplit('/', 1)[-1]}:{enters.line}." if enters else ""),
        advice="Keep keys and values of earlier tokens (a KV cache, allocated once) and feed only the new token.",
        at=at,
        cost_us=total,
        saving_us=spans.measure(claims) * (1.0 - 1.0 / SPEEDUP),
        claims=claims,
        general=True,
        evidence={
            "first_length": growth.first,
            "last_length": growth.last,
            "assumed_speedup": SPEEDUP,
            "threshold_calls": GROWTH,
            "related": [{"file": enters.file, "line": enters.line, "text": "the text enters the model"}]
            if enters
            else [],
        },
    )


def _asking(facts: Facts, once: list[SourceRef]) -> SourceRef | None:
    """The statement that hands the whole text over, which is what to change: of those that the program comes to once a token
    (innermost first) the first that stands in a loop; who takes the tokens from a generator stands in one around it."""
    texts = {path: Loops(tree) for path, tree, _ in trees(facts)} if once else {}
    return next((p for p in once if p.file in texts and texts[p.file].around(p.line)), once[-1] if once else None)
