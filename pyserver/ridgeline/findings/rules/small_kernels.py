"""``small-kernels``: one statement of the step issues many tiny operations, as a Python loop over tensor elements does."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ridgeline.findings import overhead, spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import GEMM_OPS
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.loops import RUN, Loops
from ridgeline.findings.part_loops import PartLoop, part_loops, rounds
from ridgeline.findings.program_loops import ProgramLoops
from ridgeline.findings.repeated import Repeated, merged
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
COMPILED_SPEEDUP = 3.0
"""Of a loop whose rounds wait for one another, once it is compiled. Least of several on a Xeon: a CRF's forward pass 4.4 times without
gradients and 3.5 with, a moving average 8.1."""
COMPILED_PRODUCTS = 1.2
"""The same where a round has a product (``x[:, t] + h @ w``), which stays: 1.2 times without gradients and 1.8 with."""
RECURRENT_LOUD_PCT = 5.0
"""Of the step. Nothing but compiling helps such a loop, and that takes its own time for each length: below this it is a hint."""
RECURRENT = 0.5
"""Part of a loop above which it is one whose rounds wait for one another."""
OVERHEAD = 0.5
"""Part of a loop's time on a CPU that is not computing. Below, it goes into what the operations compute, which batching leaves."""
ALONE = 0.9
"""Part of all operations above which a statement is all there is to a recording without steps."""
JOIN_US = 50.0
JOIN_ALONE_US = 1000.0
"""Longest stretch between two ops of a statement that counts as its own, with other statements' ops between and without."""
VIEWS = (
    "aten::as_strided aten::view aten::t aten::transpose aten::detach detach aten::expand aten::select aten::slice aten::permute "
    "aten::reshape aten::unsqueeze aten::squeeze aten::empty aten::empty_like aten::empty_strided aten::result_type "
    "aten::resolve_conj aten::resolve_neg aten::lift_fresh aten::alias aten::chunk aten::split aten::unbind aten::narrow "
    "aten::flatten aten::unflatten aten::movedim aten::swapaxes aten::view_as aten::expand_as aten::reshape_as"
).split()
"""Operations that compute nothing. On a CPU they are rows like any other; alone they make no loop."""
BOOKKEEPING = (*VIEWS, "aten::fill_", "aten::zero_")
"""What may lie within an operation that does the computing itself: ``sum`` clears its result."""
NOTHING_US = 0.5
"""A CPU's operation that takes no longer computes nothing either: ``to`` and ``contiguous`` of what is as it should be."""
NODE = re.compile(r"\w+Backward\d*")
"""A node of the backward pass; in the traces of early Kineto nothing encloses it that says so."""
REDUCER = re.compile(r"torch(\.|::)distributed(\.ddp\.|::)reducer::")
"""DistributedDataParallel handles one gradient after another (``bucket-copies``)."""


LAYERS = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
"""Recurrent layers, whose loop over time is torch's own where no library has a kernel for them."""


def rule(facts: Facts) -> list[Candidate]:
    # Without steps, what repeats within one cannot be told from what repeats because steps do, unless nothing with weights
    # lies between for as long as it takes, or every repetition takes one row of a tensor: that is no batch.
    run, varying = (RUN, True) if facts.steps else (COUNT_PER_STEP, False)
    groups: dict[tuple[str, int], dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    everything: dict[tuple[str, int], list[int]] = defaultdict(list)
    places: dict[tuple[str, int], SourceRef] = {}
    forward: list[int] = []
    for row in facts.recorded_work:
        at = facts.line_of_work(row)
        if at is None or at.library or _is_loading(facts, row):
            continue
        everything[at.file, at.line].append(row)
        if _is_anothers(facts, row):
            continue
        forward.append(row)
        places.setdefault((at.file, at.line), at)
        if facts.on_cpu and not _computes(facts, row):
            continue
        groups[at.file, at.line][_signature(facts, row)].append(row)
        if facts.steps:
            groups[at.file, at.line][_of_any_size(facts, row)].append(row)
    loops, text = Loops(facts), ProgramLoops(facts)
    found: list[Repeated] = []
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
                or _calls(facts, rows) < COUNT_PER_STEP * facts.n
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
            found.append(Repeated(places[key], sorted(set(repeated)), everything[key], stretches, times))
    back = sorted(set(itertools.chain(*everything.values())) - set(forward))
    for part in part_loops(facts, text, loops, forward, back) if facts.steps else ():
        if facts.on_cpu or float(np.median(facts.work.time[part.rows])) < MEDIAN_US:
            found.append(_of_text(facts, part, places))
    one_each = [_rounds_at_once(facts, loop, text, loops) for loop in merged(facts, found)]
    candidates = [_candidate(facts, loop, everything, text) for loop in one_each]
    return [c for c in candidates if c is not None]


def _calls(facts: Facts, rows: list[int]) -> int:
    """How many calls of the host these are: one operation (``topk``, a sort) may come with a dozen kernels."""
    ops = [int(facts.work.op[r]) for r in rows]
    return len({facts.outermost(op) for op in ops if op >= 0}) + sum(op < 0 for op in ops)


def _of_text(facts: Facts, part: PartLoop, places: dict[tuple[str, int], SourceRef]) -> Repeated:
    at = part.within.at
    place = places.get((at.file, at.line)) or SourceRef(file=at.file, line=at.line, function=at.function)
    computing = [r for r in part.forward if not facts.on_cpu or _computes(facts, r)]
    return Repeated(place, computing, part.rows, part.stretches, part.times, part.within)


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


def _is_anothers(facts: Facts, row: int) -> bool:
    """Within compiled code, a recurrent layer, the backward pass and the optimizer something else does the repeating."""
    op = int(facts.work.op[row])
    names = [facts.op_name(a) for a in facts.ancestors(op)] if op >= 0 else []
    if any(
        name in LAYERS or name.startswith(REGION_PREFIXES) or NODE.fullmatch(name) or REDUCER.match(name)
        for name in names
    ):
        return True
    return op in facts.unflattened or _is_library_loop(facts, row)


def _is_loading(facts: Facts, row: int) -> bool:
    """Tensors that a dataset makes in the loop's own thread are the loader's matter (``data-loading``)."""
    op, waits = int(facts.work.op[row]), facts.loader_spans
    start = float(facts.trace.ops.start[op]) if op >= 0 else float(facts.work.start[row])
    at = int(np.searchsorted(waits.start, start, side="right")) - 1
    return at >= 0 and start < waits.end[at]


def _computes(facts: Facts, row: int) -> bool:
    """Whether an operation on a CPU does the computing itself, not those within it."""
    op = int(facts.work.op[row])
    return op >= 0 and facts.has_only(op, *BOOKKEEPING)


def _is_library_loop(facts: Facts, row: int) -> bool:
    """Optimizers loop over parameters (``single-tensor-optimizer``), the backward pass over nodes."""
    op, call = int(facts.work.op[row]), int(facts.work.call[row])
    if op >= 0:
        return facts.in_optimizer(int(facts.trace.ops.tid[op]), float(facts.trace.ops.start[op]))
    return call >= 0 and facts.in_optimizer(int(facts.trace.calls.tid[call]), float(facts.trace.calls.start[call]))


def _candidate(
    facts: Facts, loop: Repeated, by_line: dict[tuple[str, int], list[int]], text: ProgramLoops
) -> Candidate | None:
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
        # A loop that goes over tokens calls the whole model as well.
        events |= {e for e in facts.events_launched_in(loop.stretches) if _is_of(facts, loop, e)}
        gaps = spans.of((g.start, g.end) for g in facts.queue.late_gaps if g.event in events)
        claims = spans.together(
            spans.subtract(facts.clip(gaps), facts.queue.excused), facts.event_spans(sorted(events))
        )
    cost = facts.real(claims)
    if facts.on_cpu:
        whole_us = cost
        cost -= overhead.computing(facts, host)
        if cost < OVERHEAD * whole_us:
            return None
    recurrent = _recurrent_part(loop, by_line, text)
    at_once = 1.0 / (loop.times if facts.on_cpu else SPEEDUP)
    products = any(facts.op_name(int(facts.work.op[r])) in GEMM_OPS for r in loop.everything if facts.work.op[r] >= 0)
    compiled = 1.0 / (COMPILED_PRODUCTS if products else COMPILED_SPEEDUP)
    left = recurrent * compiled + (1.0 - recurrent) * at_once
    saving = cost * (1.0 - left)
    if not facts.on_cpu and facts.judged:
        # The host goes round once instead.
        host_left = recurrent * compiled + (1.0 - recurrent) / loop.times
        change = Change(host=host, host_part=host_left, merged=dict.fromkeys(sorted(events), left))
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
        cost = max(cost, saving)  # at the program's own pace
    judged = facts.judged
    median = float(np.median(facts.work.time[rows]))
    return Candidate(
        code="small-kernels",
        title="Many tiny operations from one statement",
        fact=f"This statement issues {words.count(count)} operations {facts.per}, {words.time(median)} each in the middle; "
        + (
            f"with {'Python between' if facts.on_cpu else 'the gaps before'} them they take {words.time(facts.per_step(cost))}"
            f"{', whatever they compute' if facts.on_cpu else ''}.{_waits(recurrent)}"
            if judged
            else f"together they compute {words.time(facts.per_step(busy))}; their gaps are not judged: {facts.unjudged_because}."
        ),
        advice=_mend(recurrent),
        # Launches that come late after a wait are the wait's (``hidden-sync``), also where it lies within the loop.
        general=not facts.on_cpu and _is_held_up(facts, loop.stretches),
        hint=recurrent > RECURRENT and saving < RECURRENT_LOUD_PCT / 100.0 * facts.base_us,
        at=at,
        cost_us=cost if judged else None,
        known_us=busy,
        saving_us=saving if judged else None,
        claims=claims if judged else None,
        evidence={
            "operations_per_step": count,
            "median_us": median,
            "busy_us_per_step": facts.per_step(busy),
            "threshold_per_step": COUNT_PER_STEP,
            "threshold_us": MEDIAN_US,
            "assumed_speedup": 1.0 / left,
            "recurrent_part": recurrent,
            "times_round": loop.times,
            "related": [{"file": o.file, "line": o.line, "text": "of the same loop"} for o in loop.others],
        },
    )


def _rounds_at_once(facts: Facts, loop: Repeated, text: ProgramLoops, loops: Loops) -> Repeated:
    """Within rounds that wait for one another (the words of a sentence), those of the inner loop (its tags) and no more."""
    inner = text.between_recurrent(loop.at)
    known = rounds(facts, loops, inner, rows=False) if inner else 0.0
    return loop._replace(times=min(known, loop.times)) if known else loop


def _recurrent_part(loop: Repeated, by_line: dict[tuple[str, int], list[int]], text: ProgramLoops) -> float:
    """Part of what a loop does that needs the round before; 0 where the text says that nothing does, or is not at hand."""
    if loop.within is not None:
        return 0.0
    waiting = sum(len(by_line[at.file, at.line]) for at in (loop.at, *loop.others) if text.recurrent(at))
    return waiting / len(loop.everything)


def _mend(recurrent: float) -> str:
    if not recurrent:
        return "Work on whole tensors instead of a Python loop over their parts, or compile the function so that they fuse."
    if recurrent < 1.0:
        return "Take what does not need it out of the loop, on whole tensors, and compile the rest."
    return "Compile the function so that they fuse, or use a library's kernel for the recurrence."


def _waits(recurrent: float) -> str:
    if not recurrent:
        return ""
    if recurrent < 1.0:
        return f" {100.0 * recurrent:.0f} % of it needs the round before."
    return " Each round needs the one before, so they cannot be computed at once."


def _is_of(facts: Facts, loop: Repeated, event: int) -> bool:
    """Whether an event is a statement's of the loop, or none's."""
    place = facts.line_of_event(event)
    return place is None or any((at.file, at.line) == (place.file, place.line) for at in (loop.at, *loop.others))


def _is_held_up(facts: Facts, stretches: list[Stretch]) -> bool:
    """Whether the host waits for the device within the loop."""
    return any(tid == block.tid and lo <= block.start < hi for block in facts.blocks for tid, lo, hi in stretches)


def _between(facts: Facts, tops: list[int], others: I64) -> spans.Spans:
    """Host time from the first of consecutive ops of a statement to the last: Python's part between them, and what leads to
    no statement (autograd adding up gradients) are the statement's, as long as no other statement's op lies between."""
    start = facts.trace.ops.start[tops]
    end = start + facts.trace.ops.dur[tops]
    following = np.append(start[1:], end[-1])
    alone = np.append(np.diff(np.searchsorted(others, tops)) == 0, True)
    near = following - end < np.where(alone, JOIN_ALONE_US, JOIN_US)
    return facts.clip(spans.union(start, np.where(near, np.maximum(following, end), end)))
