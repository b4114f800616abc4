"""``small-kernels``: one statement of the step issues many tiny operations, as a Python loop over tensor elements does."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.loops import RUN, Loops
from ridgeline.findings.replay import Change
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef
from ridgeline.trace.tables import I64

COUNT_PER_STEP = 40
"""Of one operation on the same shapes, from one statement and step, in a loop over parts (``loops.py``)."""
MEDIAN_US = 10.0
"""TraceLens calls a kernel short below this; a launch costs the host about as much."""
SPEEDUP = 10.0
"""Of the statement's kernels once it is one operation on whole tensors: fifty launches become a few. The host goes round once."""


ALONE = 0.9
"""Part of all operations above which a statement is all there is to a recording without steps."""
JOIN_US = 50.0
JOIN_ALONE_US = 1000.0
"""Longest stretch between two ops of a statement that counts as its own, with other statements' ops between and without."""
VIEWS = (
    "aten::as_strided aten::view aten::t aten::transpose aten::detach detach aten::expand aten::select aten::slice aten::permute "
    "aten::reshape aten::unsqueeze aten::squeeze aten::empty aten::empty_like aten::empty_strided aten::result_type "
    "aten::resolve_conj aten::resolve_neg aten::lift_fresh aten::alias aten::chunk aten::split aten::unbind"
).split()
"""Operations that compute nothing. On a CPU they are rows like any other; alone they make no loop."""
NOTHING_US = 0.5
"""A CPU's operation that takes no longer computes nothing either: ``to`` and ``contiguous`` of what is as it should be."""
NODE = re.compile(r"\w+Backward\d*")
"""A node of the backward pass; in the traces of early Kineto nothing encloses it that says so."""
REDUCER = re.compile(r"torch(\.|::)distributed(\.ddp\.|::)reducer::")
"""DistributedDataParallel handles one gradient after another (``bucket-copies``)."""


def rule(facts: Facts) -> list[Candidate]:
    # Without steps, what repeats within one cannot be told from what repeats because steps do, unless nothing with weights
    # lies between for as long as it takes, or every repetition takes one row of a tensor: that is no batch.
    run, varying = (RUN, True) if facts.steps else (COUNT_PER_STEP, False)
    groups: dict[tuple[str, int], dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    everything: dict[tuple[str, int], list[int]] = defaultdict(list)
    places: dict[tuple[str, int], SourceRef] = {}
    for row in facts.recorded_work:
        at = facts.line_of_work(row)
        if at is None or at.library or _is_loading(facts, row):
            continue
        everything[at.file, at.line].append(row)
        if _is_not_the_statements(facts, row):
            continue
        groups[at.file, at.line][_signature(facts, row)].append(row)
        if facts.steps:
            groups[at.file, at.line][_of_any_size(facts, row)].append(row)
        places[at.file, at.line] = at
    loops = Loops(facts)
    found: list[_Loop] = []
    all_rows = sum(map(len, everything.values()))
    for key, kinds in groups.items():
        # What repeats is then the program's own loop around its one statement, unless it goes over rows.
        alone = not facts.steps and len(everything[key]) > ALONE * all_rows
        repeated: list[int] = []
        stretches: list[Stretch] = []
        times = math.inf
        for what, rows in kinds.items():
            if (
                len(rows) < COUNT_PER_STEP * facts.n
                or (facts.on_cpu and facts.names[int(facts.work.name[rows[0]])] in VIEWS)
                or not (NOTHING_US if facts.on_cpu else 0.0) <= float(np.median(facts.work.time[rows])) < MEDIAN_US
            ):
                continue
            ops = [int(facts.work.op[r]) for r in rows if facts.work.op[r] >= 0]
            mine = loops.over_parts(ops, run, varying=varying, light=not alone, parts=not isinstance(what, _OfAnySize))
            stretches += mine
            repeated += rows if mine else []
            times = min(times, len(rows) / len(mine)) if mine else times
        if repeated:
            found.append(_Loop(places[key], sorted(set(repeated)), everything[key], stretches, times))
    return [_candidate(facts, loop, everything) for loop in _merged(facts, found)]


class _Loop(NamedTuple):
    at: SourceRef
    repeated: list[int]
    """Rows of work that the loop repeats."""
    everything: list[int]
    """All that the statement causes, the backward pass included."""
    stretches: list[Stretch]
    """Of the host, from the first repetition to the last."""
    times: float
    """How often it goes round."""
    others: tuple[SourceRef, ...] = ()
    """More statements of the same loop."""


def _merged(facts: Facts, loops: list[_Loop]) -> list[_Loop]:
    """One of each loop: statements whose stretches are mostly the same belong together; the one with the most work speaks."""
    kept: list[_Loop] = []
    for loop in sorted(loops, key=lambda x: -float(facts.work.time[x.everything].sum())):
        mine = spans.of((lo, hi) for _, lo, hi in loop.stretches)
        for k, other in enumerate(kept):
            theirs = spans.of((lo, hi) for _, lo, hi in other.stretches)
            if 2 * spans.measure(spans.intersect(mine, theirs)) > min(spans.measure(mine), spans.measure(theirs)):
                kept[k] = other._replace(
                    repeated=sorted([*other.repeated, *loop.repeated]),
                    everything=[*other.everything, *loop.everything],
                    stretches=[*other.stretches, *loop.stretches],
                    others=(*other.others, loop.at),
                )
                break
        else:
            kept.append(loop)
    return kept


def _signature(facts: Facts, row: int) -> object:
    """What a loop repeats: one operation on one set of shapes. The layers of a model repeat as well, a dozen times."""
    op = int(facts.work.op[row])
    shapes = tuple(map(tuple, facts.dims_of(op))) if op >= 0 else None
    return int(facts.work.name[row]), shapes


class _OfAnySize(NamedTuple):
    """One operation on tensors of so many dimensions, of whatever sizes: a loop over what is left (``order = order[1:]``) has
    others each time. Only with nothing heavy between is that a loop."""

    name: int
    ranks: tuple[int, ...]


def _of_any_size(facts: Facts, row: int) -> _OfAnySize:
    op = int(facts.work.op[row])
    return _OfAnySize(int(facts.work.name[row]), tuple(map(len, facts.dims_of(op))) if op >= 0 else ())


def _is_not_the_statements(facts: Facts, row: int) -> bool:
    """Within compiled code, the backward pass and the optimizer something else does the repeating."""
    op = int(facts.work.op[row])
    names = [facts.op_name(a) for a in facts.ancestors(op)] if op >= 0 else []
    if any(name.startswith(REGION_PREFIXES) or NODE.fullmatch(name) or REDUCER.match(name) for name in names):
        return True
    return op in facts.unflattened or (facts.on_cpu and not _leaf(facts, row)) or _is_library_loop(facts, row)


def _is_loading(facts: Facts, row: int) -> bool:
    """Tensors that a dataset makes in the loop's own thread are the loader's matter (``data-loading``)."""
    op, waits = int(facts.work.op[row]), facts.loader_spans
    start = float(facts.trace.ops.start[op]) if op >= 0 else float(facts.work.start[row])
    at = int(np.searchsorted(waits.start, start, side="right")) - 1
    return at >= 0 and start < waits.end[at]


def _leaf(facts: Facts, row: int) -> bool:
    op = int(facts.work.op[row])
    return op >= 0 and not facts.has_children(op)


def _is_library_loop(facts: Facts, row: int) -> bool:
    """Optimizers loop over parameters (``single-tensor-optimizer``), the backward pass over nodes."""
    op, call = int(facts.work.op[row]), int(facts.work.call[row])
    if op >= 0:
        return facts.in_optimizer(int(facts.trace.ops.tid[op]), float(facts.trace.ops.start[op]))
    return call >= 0 and facts.in_optimizer(int(facts.trace.calls.tid[call]), float(facts.trace.calls.start[call]))


def _candidate(facts: Facts, loop: _Loop, by_line: dict[tuple[str, int], list[int]]) -> Candidate:
    at, rows = loop.at, loop.repeated
    count, busy = len(rows) / facts.n, float(facts.work.time[rows].sum())
    mine = set(loop.everything)
    others = [int(facts.work.op[r]) for rows_of in by_line.values() for r in rows_of if r not in mine]
    tops = {facts.outermost(int(facts.work.op[r])) for r in loop.everything if facts.work.op[r] >= 0}
    whole = facts.clip(spans.of((lo, hi) for _, lo, hi in loop.stretches))
    host = spans.together(whole, _between(facts, sorted(tops), np.sort(np.array(others, dtype=np.int64))))
    if facts.on_cpu:
        claims = host
    else:
        events = {int(facts.work.event[r]) for r in loop.everything}
        events |= set(facts.events_launched_in(loop.stretches))
        gaps = spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in events)
        claims = spans.together(
            spans.subtract(facts.clip(gaps), facts.queue.excused), facts.event_spans(sorted(events))
        )
    cost = facts.real(claims)
    left = 1.0 / (loop.times if facts.on_cpu else SPEEDUP)
    saving = cost * (1.0 - left)
    if not facts.on_cpu and facts.judged:
        # The host goes round once instead.
        change = Change(host=host, host_part=1.0 / loop.times, merged=dict.fromkeys(sorted(events), 1.0 / SPEEDUP))
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
        cost = max(cost, saving)  # at the program's own pace
    judged = facts.judged
    median = float(np.median(facts.work.time[rows]))
    return Candidate(
        code="small-kernels",
        title="Many tiny operations from one statement",
        fact=f"This statement issues {words.count(count)} operations {facts.per}, {words.time(median)} each in the middle; "
        + (
            f"with the gaps before them they take {words.time(facts.per_step(cost))}."
            if judged
            else f"together they compute {words.time(facts.per_step(busy))}; their gaps are not judged: {facts.unjudged_because}."
        ),
        advice="Work on whole tensors instead of a Python loop over their parts, or compile the function so that they fuse.",
        at=at,
        cost_us=cost if judged else None,
        saving_us=saving if judged else None,
        claims=claims if judged else None,
        evidence={
            "operations_per_step": count,
            "median_us": median,
            "busy_us_per_step": facts.per_step(busy),
            "threshold_per_step": COUNT_PER_STEP,
            "threshold_us": MEDIAN_US,
            "assumed_speedup": loop.times if facts.on_cpu else SPEEDUP,
            "times_round": loop.times,
            "related": [{"file": o.file, "line": o.line, "text": "of the same loop"} for o in loop.others],
        },
    )


def _between(facts: Facts, tops: list[int], others: I64) -> spans.Spans:
    """Host time from the first of consecutive ops of a statement to the last: Python's part between them, and what leads to
    no statement (autograd adding up gradients) are the statement's, as long as no other statement's op lies between."""
    start = facts.trace.ops.start[tops]
    end = start + facts.trace.ops.dur[tops]
    following = np.append(start[1:], end[-1])
    alone = np.append(np.diff(np.searchsorted(others, tops)) == 0, True)
    near = following - end < np.where(alone, JOIN_ALONE_US, JOIN_US)
    return facts.clip(spans.union(start, np.where(near, np.maximum(following, end), end)))
