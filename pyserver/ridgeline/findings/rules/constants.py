"""``constant-rebuilt``: a mask, a table of positions or the like is computed anew in every step, always the same.

Two things must agree. The statement's text: everything in it is made by a constructor from sizes and numbers. And the
recording: in every step the statement runs the same operations on the same sizes, none of which takes a second tensor.
"""

from __future__ import annotations

from collections import defaultdict

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.constant_text import Constant, constants
from ridgeline.findings.facts import Facts
from ridgeline.findings.fresh import computed
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef

PER_STEP = 0.5
"""Times a step. Less often it is rebuilt because something changed."""
JOIN_US = 50.0
"""Python between two operations of a statement takes less."""
MOST = 2 / 3
"""Of the longest statement's time: statements that take about as much take turns at being it."""
RELATED = 4
RANDOM = (
    "rand",
    "normal",
    "uniform",
    "bernoulli",
    "multinomial",
    "poisson",
    "dropout",
    "exponential",
    "geometric",
    "::item",
)
"""What the names of operations hold that give another value each time, called by a library's function; or one that a tensor held, where
the text looks like a number."""


def rule(facts: Facts) -> list[Candidate]:
    found = []
    for path, tree, text in trees(facts):
        lines = {c.statement.lineno: c for c in constants(tree)}
        if not lines:
            continue
        of_function: dict[int, dict[int, list[int]]] = defaultdict(dict)
        for line, rows in sorted(_calls_at(facts, path, lines).items()):
            if len(rows) >= PER_STEP * facts.n and _always_the_same(facts, rows, lines[line]):
                of_function[lines[line].function][line] = rows
        for statements in of_function.values():
            places = [SourceRef(file=path, line=line, text=line_of(text, line)) for line in statements]
            found.append(_candidate(facts, places, list(statements.values())))
    return found


def _calls_at(facts: Facts, path: str, lines: dict[int, Constant]) -> dict[int, list[int]]:
    """Outermost ops within the recorded steps by these lines."""
    found: dict[int, list[int]] = defaultdict(list)
    starts = facts.trace.ops.start
    inside = spans.within(spans.of(facts.host_steps) if facts.steps else facts.recorded, starts)
    for row in sorted({facts.outermost(int(r)) for r in range(len(facts.trace.ops.start))}):
        if not inside[row] or facts.op_name(row).startswith(REGION_PREFIXES):
            continue
        at = facts.line_of_op(row)
        if at is not None and at.file == path and at.line in lines:
            found[at.line].append(row)
    return found


def _always_the_same(facts: Facts, rows: list[int], constant: Constant) -> bool:
    """The same operations on the same sizes in every step, and every step the same number; unless all names are known, each
    with one tensor at most, or as many with two as the text has operators between constants."""
    signature: list[tuple[tuple[str, int], ...]] = []
    for lo, hi in facts.host_steps:
        mine = [r for r in rows if lo <= facts.trace.ops.start[r] < hi]
        signature.append(tuple((facts.op_name(r), int(facts.trace.ops.args[r])) for r in mine))
    if len(signature) < 2 or len(set(signature)) != 1 or not signature[0]:
        return False
    if any(word in facts.op_name(r) for r in rows for word in RANDOM):
        return False
    if not any(facts.trace.ops.args[r] >= 0 for r in rows):
        return False
    with_two = [sum(bool(d) for d in facts.all_dims_of(r)) > 1 for r in rows]
    if constant.known or not any(with_two):
        return True
    once = _period(signature[0])
    few = sum(with_two) * once <= constant.pairs * len(rows) and once >= constant.operators
    return few and not any(_takes_a_parameter(facts, r) for r in rows)


def _period(calls: tuple[tuple[str, int], ...]) -> int:
    """Of a statement that runs several times a step: how many of the calls are one run."""
    return next(n for n in range(1, len(calls) + 1) if len(calls) % n == 0 and calls == calls[:n] * (len(calls) // n))


def _takes_a_parameter(facts: Facts, op: int) -> bool:
    """Whether a tensor without dimensions that is no number of Python's (those are ``double`` and ``long int``) goes in."""
    return any(
        not dims and kind in ("float", "c10::Half", "c10::BFloat16")
        for dims, kind in zip(facts.dims_of(op), facts.types_of(op))
    )


def _candidate(facts: Facts, places: list[SourceRef], rows_of: list[list[int]]) -> Candidate:
    """Of the statements of one function, which mostly make one thing of another. The first of those that take the most speaks."""
    rows = [row for rows in rows_of for row in rows]
    mine = set(rows)
    work = [r for r in facts.recorded_work if facts.outermost(int(facts.work.op[r])) in mine]
    if facts.on_cpu or not facts.judged:
        claims = _statement(facts, rows) if facts.on_cpu else facts.claims_of(work)
        cost = spans.measure(claims)
        saving = computed(facts, claims) if facts.on_cpu else cost
    else:
        change = facts.whatif.without(_stretches(facts, rows))
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
        cost = max(facts.real(claims), min(saving, spans.measure(claims)))
    took = _took(facts, rows_of)
    first = next(k for k, us in enumerate(took) if us >= MOST * max(took))
    others = [place for k, place in enumerate(places) if k != first]
    said = "This statement makes the same tensor"
    if others:
        lines = (
            "line"
            + "s" * (len(others) > 1)
            + " "
            + ", ".join(str(place.line) for place in others[:RELATED])
            + (", …" if len(others) > RELATED else "")
        )
        said = f"This statement and {words.count(len(others))} more of its function ({lines}) make the same tensors"
    return Candidate(
        code="constant-rebuilt",
        title="A constant is computed in every step",
        fact=f"{said} in every step, {words.time(facts.per_step(cost))} {facts.per}.",
        advice=f"Make {'them' if others else 'it'} once, in __init__ with register_buffer or before the loop, on the device where "
        f"{'they are' if others else 'it is'} used.",
        at=places[first],
        cost_us=cost,
        saving_us=saving,
        claims=claims,
        stands_for=facts.fresh.share,
        evidence={
            "operations_per_step": len(rows) / facts.n,
            "device_us_per_step": facts.per_step(facts.time_of(work)),
            "threshold_per_step": PER_STEP,
            "related": [{"file": o.file, "line": o.line, "text": "of the same constant"} for o in others],
        },
    )


def _took(facts: Facts, rows_of: list[list[int]]) -> list[float]:
    """Each statement's time: the device's and the gaps before it, where it waits for that; else the host's."""
    if not facts.on_cpu:
        of_op: dict[int, list[int]] = defaultdict(list)
        for row in facts.recorded_work:
            of_op[facts.outermost(int(facts.work.op[row]))].append(row)
        device = [spans.measure(facts.claims_of([w for row in rows for w in of_op[row]])) for rows in rows_of]
        if any(device):
            return device
    return [sum(end - start for _, start, end in _stretches(facts, rows)) for rows in rows_of]


def _statement(facts: Facts, rows: list[int]) -> spans.Spans:
    """On a CPU Python's part between the operations goes with them."""
    return facts.clip(spans.of((lo, hi) for _, lo, hi in _stretches(facts, rows)))


def _stretches(facts: Facts, rows: list[int]) -> list[Stretch]:
    """From the first of the statement's operations to the last, each time that it runs; no other statement's lie within."""
    ops = facts.trace.ops
    found: list[Stretch] = []
    for row in sorted(rows):
        tid, start, end = int(ops.tid[row]), float(ops.start[row]), facts.op_end(row)
        near = bool(found) and found[-1][0] == tid and start - found[-1][2] < JOIN_US
        if near and not facts.ops_between(tid, found[-1][2], start):
            found[-1] = (tid, found[-1][1], end)
        else:
            found.append((tid, start, end))
    return found
