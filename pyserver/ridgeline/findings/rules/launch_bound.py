"""``launch-bound``: the device's queue is empty because the host launches too slowly.

A gap counts when the next launch call began after the device had run dry, while the host was neither waiting, loading,
copying nor compiling, and when it is not so long that the host must have been at something else (``host-work``). Low busy
time alone is idleness, not its cause. Stacks slow the host several times over: on such
a recording gaps prove nothing, and only the time of the driver calls themselves (C code, which stacks do not slow down)
does: where the calls alone take longer than the device's work, the host cannot keep up whatever the profiler costs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.graph_needs import needs, told
from ridgeline.findings.queue import OPERATOR
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef

SHARE_PCT = 15.0
"""Of the step. Recording shapes slows a host-bound step by up to 20 % (measured without stacks, batch size 1), so less
than this can be the recording's own doing; TraceLens flags idle time from the same share."""
MIN_GAPS = 10
"""In a recording without steps. Fewer launches than this are a start or an end, not a program's way of working."""
OWN_KERNELS = 100
"""That one operator launches by itself, from which on it is a library's own loop: cuDNN's recurrent layers launch some for each step of
time and layer, thousands together; a ``_foreach`` function, a sort or a convolution stays below."""
OWN_PART = 0.5
"""Of the time before late launches, from which on these libraries' loops are the cause. The program cannot fuse them, nor can
torch.compile; what is left (a graph around that module) is for who knows it, so it is a hint."""
REMAINING_US = 1.0
"""A gap between two kernels of one CUDA graph."""
RELATED = 3


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu or not len(facts.launch_calls):
        return []
    if not facts.judged:
        return _by_calls(facts)
    late = facts.queue.launch_spans
    lost = facts.late_us(late)
    # Both must say so: the gaps themselves, and what the document's idle time puts down to them, which is what is shown.
    share = 100.0 * min(lost, facts.real(late)) / facts.base_us if facts.base_us else 0.0
    gaps = len(facts.queue.launching)
    if share < SHARE_PCT or (not facts.steps and gaps < MIN_GAPS):
        return []
    share = 100.0 * lost / facts.base_us
    launches = len(facts.launch_calls)
    lines = _lines(facts)
    saving = min(lost, max(0.0, _saving(facts) - gaps * REMAINING_US))
    own = _own_loops(facts)
    return [
        Candidate(
            code="launch-bound",
            title="The host launches too slowly for the device",
            fact=f"The device idles {words.time(facts.per_step(lost))} {facts.per} ({words.percent(share)}) because the next launch "
            f"(of {words.count(launches / facts.n)}) had not been made. A sampled utilisation{_sampler(facts)} would still read near 100 %."
            + (own.told if own is not None else ""),
            advice=_advice(facts) if own is None else _of_a_library(facts),
            at=lines[0][0] if lines else None,
            cost_us=lost,
            saving_us=saving,
            claims=late,
            general=True,
            min_gain_pct=SHARE_PCT,
            hint=own is not None,
            evidence=_evidence(facts, lines)
            | {
                "launch_gap_us_per_step": facts.per_step(lost),
                "gaps_per_step": gaps / facts.n,
                "share_pct": share,
                "threshold_pct": SHARE_PCT,
                "scaled_to_plain_step": facts.idle_scale != 1.0,
                "library_loops": None if own is None else own.kernels,
            },
        )
    ]


class _OwnLoops(NamedTuple):
    """Operators that launch many kernels each by themselves."""

    told: str
    kernels: dict[str, float]
    """By name, those of a call."""


def _own_loops(facts: Facts) -> _OwnLoops | None:
    """Where they are what most of the device's waiting is before."""
    events = facts.trace.device_events
    of_op = np.bincount(np.maximum(events.op[facts.device_rows], -1) + 1, minlength=1)
    lost: dict[str, float] = defaultdict(float)
    calls: dict[str, set[int]] = defaultdict(set)
    whole = 0.0
    for gap in facts.queue.launching:
        op = int(events.op[gap.event])
        whole += gap.end - gap.start
        if op >= 0 and of_op[op + 1] >= OWN_KERNELS and facts.op_name(op).startswith(OPERATOR):
            lost[facts.op_name(op)] += gap.end - gap.start
            calls[facts.op_name(op)].add(op)
    part = sum(lost.values()) / whole if whole else 0.0
    if part <= OWN_PART:
        return None
    kernels = {
        name: float(np.mean([of_op[op + 1] for op in calls[name]]))
        for name in sorted(lost, key=lambda name: -lost[name])
    }
    named = " and ".join(f"{name} ({words.count(count)} a call)" for name, count in list(kernels.items())[:2])
    return _OwnLoops(
        f" {words.percent(100.0 * part)} of it lies before kernels that a library launches in a loop of its own: {named}.",
        kernels,
    )


def _of_a_library(facts: Facts) -> str:
    more = "give each of its launches more work (a larger batch, fewer and longer steps)"
    if _kind(facts) not in ("cuda", "rocm"):
        return f"{more.capitalize()}."
    return (
        "Nothing fuses them. Capture that module by itself in a graph (torch.cuda.make_graphed_callables; its shapes must stay, and nothing "
        f"in it may wait for the device), or {more}."
    )


def _saving(facts: Facts) -> float:
    """What the launches hold up of a step in which nothing else does: where the host waits, loads or works on something of its own it
    cannot run ahead, and launches that come late after that are not slow. So the steps are played without all that, once with the
    host's launching and once without. A graph leaves the host nothing to do but what it does without launching."""
    whatif = facts.whatif
    work = facts.queue.long_gaps if len(facts.steps) > 1 else []  # within one step nobody else speaks of them
    other = spans.together(facts.loader_spans, spans.of((g.start, g.end) for g in work))
    free = Change(host=other, waits={wait.call for wait in whatif.replay.waits})
    return whatif.saving(replace(free, host=whatif.replay.host)) - whatif.saving(free)


def _by_calls(facts: Facts) -> list[Candidate]:
    busy = spans.measure(facts.busy)
    if not busy or facts.call_us <= busy:
        return []
    return [
        Candidate(
            code="launch-bound",
            title="The host launches too slowly for the device",
            fact=f"The launch calls alone, {words.count(len(facts.launch_calls) / facts.n)} {facts.per}, take {words.time(facts.per_step(facts.call_us))}"
            f", the device's work {words.time(facts.per_step(busy))}: the host cannot keep up. Idle time itself is not "
            f"judged here: {facts.unjudged_because}.",
            advice=_advice(facts),
            at=_most_calls(facts),
            general=True,
            evidence=_evidence(facts, [])
            | {
                "call_us_per_step": facts.per_step(facts.call_us),
                "busy_us_per_step": facts.per_step(busy),
                "stacks": facts.stacks,
            },
        )
    ]


def _most_calls(facts: Facts) -> SourceRef | None:
    """The user statement whose launch calls take the most time."""
    calls = facts.trace.calls
    spent: dict[tuple[str, int], float] = defaultdict(float)
    places: dict[tuple[str, int], SourceRef] = {}
    for row in map(int, facts.launch_calls):
        at = facts.line_of_call(row)
        if at is not None:
            spent[at.file, at.line] += float(calls.dur[row])
            places[at.file, at.line] = at
    return places[max(spent, key=lambda key: spent[key])] if spent else None


def _lines(facts: Facts) -> list[tuple[SourceRef, float]]:
    """User statements by the gaps before their kernels, largest first."""
    lost: dict[tuple[str, int], float] = defaultdict(float)
    places: dict[tuple[str, int], SourceRef] = {}
    measured = spans.measure(facts.queue.launch_spans)
    scale = facts.late_us(facts.queue.launch_spans) / measured if measured else 1.0
    for gap in facts.queue.launching:
        at = facts.line_of_event(gap.event)
        if at is not None:
            lost[at.file, at.line] += (gap.end - gap.start) * scale  # like the whole of them
            places[at.file, at.line] = at
    return [(places[key], us) for key, us in sorted(lost.items(), key=lambda item: -item[1])]


def _evidence(facts: Facts, lines: list[tuple[SourceRef, float]]) -> dict[str, object]:
    """What CUDA graphs need, and whether this region has it."""
    compiled = any(n.startswith("Torch-Compiled Region") for n in facts.names)
    per_step = _launches_of_steps(facts)
    count, short_us = facts.queue.short_gaps
    asked = needs(facts)
    related = [
        {
            "file": at.file,
            "line": at.line,
            "text": f"{words.time(facts.per_step(us))} {facts.per} of gaps before its kernels",
        }
        for at, us in lines[1 : 1 + RELATED]
    ]
    related += [
        {"file": at.file, "line": at.line, "text": f"CUDA graphs need {need.text}"}
        for need in asked
        if need.has is False
        for at in need.lines
    ]
    return {
        "launches_per_step": len(facts.launch_calls) / facts.n,
        "busy_us_per_step": facts.per_step(spans.measure(facts.busy)),
        "graph_launches_per_step": facts.graph_launches / facts.n,
        "compiled": compiled,
        "cuda_graph_needs": {
            "syncs_per_step": len(facts.blocks) / facts.n,
            "same_launches_every_step": len(set(per_step)) <= 1 if len(per_step) > 1 else None,
        }
        | {need.name: {"has": need.has, "needs": need.text, "seen": need.seen} for need in asked},
        "gaps_under_a_full_queue": {"per_step": count / facts.n, "us_per_step": facts.per_step(short_us)},
        "related": related,
    }


def _launches_of_steps(facts: Facts) -> list[int]:
    starts = facts.trace.calls.start[facts.launch_calls]
    return [int(((starts >= lo) & (starts < hi)).sum()) for lo, hi in facts.steps]


def _kind(facts: Facts) -> str:
    """cuda | rocm | xpu | mtia | other: of the first device that did anything."""
    return next((device.kind for device in facts.trace.devices if device.kind != "cpu"), "other")


def _sampler(facts: Facts) -> str:
    tool = {"cuda": "nvidia-smi", "rocm": "rocm-smi"}.get(_kind(facts))
    return f" ({tool})" if tool else ""


def _advice(facts: Facts) -> str:
    graphs = {"cuda": "CUDA graphs", "rocm": "HIP graphs"}.get(_kind(facts))
    if graphs is None:
        return "Give each launch more work: a larger batch, fewer small operations; torch.compile fuses them."
    compiled = any(n.startswith("Torch-Compiled Region") for n in facts.names)
    how = 'torch.compile(..., mode="reduce-overhead")' if not compiled else 'mode="reduce-overhead" in torch.compile'
    asked = told(needs(facts))
    if facts.graph_launches:
        return f"Part of it runs as {graphs} already; bring the rest in, or make each step larger (batch size). {asked}"
    return f"{graphs} ({how}) replay all launches as one. {asked} Or give each launch more work (batch size, fewer small operations)."
