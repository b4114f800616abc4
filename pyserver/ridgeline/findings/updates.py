"""The program's own loops over parameters: an optimizer that it writes itself, and where in it most happens."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import NamedTuple

from ridgeline.findings import spans
from ridgeline.findings.calling import Calling
from ridgeline.findings.code import trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.loops import HEAVY
from ridgeline.findings.parameter_text import ParameterLoop, parameter_loops
from ridgeline.findings.replay import Change
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef

MOST = 0.5
"""Part of the operations of a stretch that lie within one statement for the stretch to be about that statement."""
KEPT = 0.6
"""Of what an operation in place costs on a CPU besides computing: a ``torch._foreach_`` function goes over the tensors as well, in C++.
On a Xeon with 64 to 4,096 numbers a tensor 0.52 to 0.67 (five kinds of update; one operation 2.4 to 3.4 µs)."""
KEPT_NEW = 0.5
"""The same of one that makes a tensor for the next, which is in place then: 0.45 to 0.62 with 64 to 3,072 numbers (sums, products,
quotients, square roots). ``1 / x`` is two operations, a reciprocal and a product, of which the second is in none: 0.11 to 0.17."""
SUMS = ("aten::add", "aten::add_", "aten::sub", "aten::sub_")
"""What takes a product with a number along: ``a + b * 0.1`` is ``torch._foreach_add(a, b, alpha=0.1)``."""
RANDOM = ("rand", "normal", "uniform", "bernoulli", "exponential")
"""What the names of operations hold that no ``torch._foreach_`` function does: they stay."""
SMALL = 8192
"""Numbers of a tensor up to which that gains anything: with 16,384 a ``_foreach_`` update took 0.8 to 1.1 times as long there, with
65,536 up to 1.7 times, for what lies between two operations no longer fits the caches."""
KERNEL_US = 3.0
"""A kernel that has next to nothing to compute takes no longer."""
HOST_PART = 1.0 / 8.0
"""Of the host's time, on a device: the lists are still put together for each parameter."""
OTHERS = frozenset({*HEAVY, "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
"""Operations of which other findings speak."""
ZEROS = frozenset({"aten::zero_", "aten::fill_", "aten::detach", "detach", "aten::detach_", "aten::requires_grad_"})


class Own(NamedTuple):
    """A loop over parameters in the program's own text."""

    at: SourceRef
    """The statement within it where most of it happens."""
    others: tuple[SourceRef, ...]
    """The statements that are beside it or, if it calls them, within."""
    rounds: float
    """How often the program comes to that statement, in one call."""
    ops: list[int]
    """Outermost operations of all calls."""


def own(facts: Facts, calls: list[Stretch]) -> Own | None:
    """The loop of calls of an optimizer that is the program's: most of the operations lie at statements of its own within. None
    where the optimizer is a library's, or no timeline ran."""
    calling = Calling(facts)
    if calling.stays is None:
        return None
    tops = sorted({facts.outermost(r) for tid, lo, hi in calls for r in facts.ops_between(tid, lo, hi)})
    around = {path[0] for tid, lo, _ in calls if (path := calling.path_at(tid, lo))}
    below: dict[int, list[int]] = defaultdict(list)
    """Node -> operations at it or within what it calls."""
    inner: dict[int, set[int]] = defaultdict(set)
    for op in tops:
        path = calling.path(op)
        cut = next((k for k, node in enumerate(path) if node in around), None)
        if not cut:  # at the call itself, or not within it
            continue
        for node, caller in itertools.pairwise(path[: cut + 1]):
            below[node].append(op)
            inner[caller].add(node)
    roots = [n for call in around for n in inner[call]]
    if sum(len(below[n]) for n in roots) <= MOST * len(tops):
        return None
    best = _most(facts, calling, roots, below, inner, calls)
    at = calling.stays.ref(best)
    if at is None or at.library:
        return None
    beside = sorted({*inner[best]} or {*roots} - {best}, key=lambda n: -_time(facts, below[n]))
    others = [r for n in beside if (r := calling.stays.ref(n)) is not None and (r.file, r.line) != (at.file, at.line)]
    return Own(at, tuple(others), calling.times_in(best, calls) / len(calls), tops)


def _most(
    facts: Facts,
    calling: Calling,
    roots: list[int],
    below: dict[int, list[int]],
    inner: dict[int, set[int]],
    calls: list[Stretch],
) -> int:
    """The innermost statement within which most operations lie. Where a loop is written out in several statements that is none of
    them, and the one with the most time is told."""
    known, at, total = roots, -1, sum(len(below[n]) for n in roots)
    while known:
        best = max(known, key=lambda n: len(below[n]))
        if len(below[best]) <= MOST * total:
            break
        known, at = list(inner[best]), best
    if known and (at < 0 or calling.times_in(known[0], calls) > 2 * calling.times_in(at, calls)):
        at = max(known, key=lambda n: _time(facts, below[n]))
    return at


def _time(facts: Facts, ops: list[int]) -> float:
    return float(facts.trace.ops.dur[ops].sum())


def left_on_cpu(facts: Facts, calls: list[Stretch], ops: list[int], computing_us: float) -> float:
    """What part of the calls stays once ``torch._foreach_`` functions take all parameters at once. What the operations compute stays
    (``computing_us``), and what they cost besides on tensors that are not small; of the others' own cost a part."""
    whole = spans.measure(facts.clip(spans.of((lo, hi) for _, lo, hi in calls)))
    if whole <= 0 or not ops:
        return 1.0
    names = ["", *map(facts.op_name, ops), ""]
    gone = sum(1.0 - _kept(facts, op, names[k], names[k + 2]) for k, op in enumerate(ops)) / len(ops)
    return 1.0 - max(0.0, whole - computing_us) * gone / whole


def _kept(facts: Facts, op: int, before: str, after: str) -> float:
    """Of an operation's own cost. ``before``, ``after``: names of its neighbours."""
    name, dims = facts.op_name(op), facts.all_dims_of(op)
    if max(map(math.prod, dims), default=0) > SMALL or any(word in name for word in RANDOM):
        return 1.0
    if name == "aten::mul" and len(dims) == 1 and (before == "aten::reciprocal" or after in SUMS):
        return 0.0
    return KEPT if name.endswith("_") else KEPT_NEW


def together(facts: Facts, calls: list[Stretch], rounds: float) -> Change:
    """The same on a device: as many kernels as one parameter has now, each of which still goes over the memory of all."""
    events = facts.trace.device_events
    rows = facts.events_launched_in(calls)
    least: dict[int, float] = {}
    for row in rows:
        name = int(events.name[row])
        least[name] = min(least.get(name, KERNEL_US), float(events.dur[row]))
    parts = {}
    for row in rows:
        floor, took = least[int(events.name[row])], float(events.dur[row])
        parts[row] = (took - floor + floor / max(1.0, rounds)) / took if took > 0 else 1.0
    return Change(host=spans.of((lo, hi) for _, lo, hi in calls), host_part=HOST_PART, merged=parts)


def by_hand(facts: Facts, least: int) -> list[tuple[Own, list[Stretch]]]:
    """Loops over parameters in the program's text that are no optimizer's (a moving average, clipping, decay): each with the stretches
    of it that make ``least`` operations or more with nothing else between. Not those that wait for a tensor's value in every round,
    that have products in them, or that zero gradients: others speak of these."""
    calling = Calling(facts)
    spans_of = {p: loops for p, tree, _ in trees(facts) if (loops := parameter_loops(tree))}
    if not spans_of or calling.stays is None:
        return []
    tid = facts.host_thread
    tops = sorted({facts.outermost(r) for lo, hi in facts.steps for r in facts.ops_between(tid, lo, hi)})
    within: dict[int, tuple[str, ParameterLoop] | None] = {}
    found: dict[tuple[str, ParameterLoop], list[list[tuple[int, int]]]] = defaultdict(list)
    before: tuple[str, ParameterLoop] | None = None
    for op in tops:
        if facts.op_name(op).startswith(REGION_PREFIXES):
            continue
        node, loop = _body(calling, op, spans_of, within)
        if loop is not None and facts.in_optimizer(tid, float(facts.trace.ops.start[op])):
            loop = None
        if loop is not None:
            if loop != before:
                found[loop].append([])
            found[loop][-1].append((op, node))
        before = loop
    result = []
    for runs in found.values():
        known = [run for run in runs if len(run) >= least and _is_update(facts, [op for op, _ in run])]
        if not known:
            continue
        calls = [(tid, float(facts.trace.ops.start[run[0][0]]), facts.op_end(run[-1][0])) for run in known]
        at: dict[int, list[int]] = defaultdict(list)
        for op, node in (pair for run in known for pair in run):
            at[node].append(op)
        nodes = sorted(at, key=lambda n: -_time(facts, at[n]))
        places = [ref for n in nodes if (ref := calling.stays.ref(n)) is not None]
        rounds = calling.times_in(nodes[0], calls) / len(calls)
        ops = [op for run in known for op, _ in run]
        result.append((Own(places[0], tuple(places[1:]), rounds, ops), calls))
    return result


def _body(
    calling: Calling,
    op: int,
    spans_of: dict[str, list[ParameterLoop]],
    within: dict[int, tuple[str, ParameterLoop] | None],
) -> tuple[int, tuple[str, ParameterLoop] | None]:
    """The statement of a loop's body that an operation is of or within, as a node, and the loop."""
    assert calling.stays is not None
    for node in calling.path(op):
        if node not in within:
            ref = calling.stays.ref(node)
            loops = spans_of.get(ref.file, []) if ref is not None else []
            line = ref.line if ref is not None else 0
            loop = next((x for x in reversed(loops) if x.first <= line <= x.last), None)
            within[node] = (ref.file, loop) if ref is not None and loop is not None else None
        if within[node] is not None:
            return node, within[node]
    return -1, None


def _is_update(facts: Facts, ops: list[int]) -> bool:
    names = {facts.op_name(op) for op in ops}
    return not (names & OTHERS or names <= ZEROS or any("_foreach_" in n for n in names))
