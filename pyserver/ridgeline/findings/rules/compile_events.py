"""``graph-break``, ``recompile``, ``cudagraph-skip``, ``fallback-kernel``: what torch.compile could not do, with its own
reason, on the line that it named."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.profile import CompileEvent, SourceRef

RECOMPILES = 2
"""From one line. The first recompile makes a size dynamic, which is as it should be; more of them means that something
else changes from call to call."""


GUARD_ID = re.compile(r"^\d+/\d+: ")


class _Kind(NamedTuple):
    code: str
    title: str
    says: str
    advice: str


KINDS = {
    "break": _Kind(
        "graph-break",
        "torch.compile breaks the graph here",
        "The compiled function is cut in two",
        "Move it out of the compiled function, or write it in tensor operations: every cut costs guards, a call and the "
        "fusion across it.",
    ),
    "recompile": _Kind(
        "recompile",
        "The function is compiled again and again",
        "Compiled anew",
        "Keep what the guard names the same, pass it as a tensor, or mark the size dynamic (torch._dynamo.mark_dynamic).",
    ),
    "cudagraph_skip": _Kind(
        "cudagraph-skip",
        "CUDA graphs are skipped",
        "CUDA graphs skipped",
        'mode="reduce-overhead" has no effect until this is mended.',
    ),
    "fallback": _Kind(
        "fallback-kernel",
        "An operation that Inductor does not compile",
        "Runs as an ATen fallback, which nothing fuses with",
        "Write it in operations that compile, if it costs anything here.",
    ),
}


def rule(facts: Facts) -> list[Candidate]:
    groups: dict[tuple[str, str | None, int | None], list[CompileEvent]] = defaultdict(list)
    for event in facts.document.compile_events:
        groups[event.kind, event.file, event.line].append(event)
    return [_candidate(facts, KINDS[kind], events) for (kind, _, _), events in groups.items() if kind in KINDS]


def _candidate(facts: Facts, kind: _Kind, events: list[CompileEvent]) -> Candidate:
    first = events[0]
    count = f" ({words.times(len(events))})" if len(events) > 1 else ""
    took = [e.time_us for e in events if e.time_us is not None]
    return Candidate(
        code=kind.code,
        title=kind.title,
        fact=f"{kind.says}{count}: {_short(first.reason)}.",
        advice=kind.advice,
        at=SourceRef(file=first.file, line=first.line, method="torch", confidence=1.0)
        if first.file and first.line
        else None,
        hint=kind.code == "recompile" and len(events) < RECOMPILES,
        evidence={
            "reasons": [e.reason for e in events[:5]],
            "count": len(events),
            "compile_us": sum(took) if took else None,
            "graph_launches_per_step": facts.graph_launches / facts.n
            if kind.code == "cudagraph-skip" and not facts.on_cpu
            else None,
        },
    )


def _short(reason: str) -> str:
    """The first line, without torch's compile id before a guard and the source text behind it."""
    first = next((line.strip() for line in reason.splitlines() if line.strip()), reason)
    first = GUARD_ID.sub("", first).split("  #", 1)[0].rstrip(" .")
    return first[:197] + "…" if len(first) > 198 else first
