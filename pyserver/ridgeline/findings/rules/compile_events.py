"""``graph-break``, ``recompile``, ``cudagraph-skip``, ``fallback-kernel``: what torch.compile could not do, with its own
reason, on the line that it names."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.regions import Regions
from ridgeline.profile import CompileEvent, SourceRef

RECOMPILES = 2
"""From one line. The first recompile makes a size dynamic, which is as it should be; more of them means that something
else changes from call to call."""
LIMIT_SIGNS = ("recompile_limit", "cache_size_limit")
"""Dynamo's words when it gives a function up after too many recompiles."""
UNCOMPILED_PCT = 1.0
"""Of the step: from here on what a break leaves uncompiled is named. A truth value asked at the break is less."""
GUARD_ID = re.compile(r"^\d+/\d+: ")
BREAK_PREFIX = re.compile(r"^Encountered graph break when attempting to trace [^\n]*\n+")
USER_LINE = re.compile(r'File "([^"]+)", line (\d{1,9})')


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
    given_up: list[CompileEvent] = []
    for event in facts.document.compile_events:
        if any(sign in event.reason for sign in LIMIT_SIGNS) and event.kind != "recompile":
            given_up.append(event)
        elif event.kind in KINDS:
            groups[(event.kind, *_place(facts, event))].append(event)
    uncompiled = facts.time_of(Regions(facts).uncompiled()) if any(kind == "break" for kind, _, _ in groups) else 0.0
    found = [
        _candidate(facts, KINDS[kind], file, line, events, limit=bool(given_up), uncompiled=uncompiled)
        for (kind, file, line), events in groups.items()
    ]
    if given_up and not any(kind == "recompile" for kind, _, _ in groups):
        found.append(_candidate(facts, KINDS["recompile"], given_up[0].file, given_up[0].line, given_up, limit=True))
    return found


def _place(facts: Facts, event: CompileEvent) -> tuple[str | None, int | None]:
    """The line that the reason itself names, if it lies in the user's code; else the one torch was at."""
    for file, line in reversed(USER_LINE.findall(event.reason)):
        if file == event.file or file in facts.context.sources:
            return file, int(line)
    return event.file, event.line


def _candidate(
    facts: Facts,
    kind: _Kind,
    file: str | None,
    line: int | None,
    events: list[CompileEvent],
    *,
    limit: bool,
    uncompiled: float = 0.0,
) -> Candidate:
    count = f" ({words.times(len(events))})" if len(events) > 1 else ""
    took = [e.time_us for e in events if e.time_us is not None]
    recompiles = kind.code == "recompile"
    given_up = " Dynamo has given up: it runs uncompiled now." if recompiles and limit else ""
    if kind.code == "graph-break" and uncompiled >= UNCOMPILED_PCT / 100.0 * facts.recorded_us:
        given_up = (
            f" Of what runs in compiled regions {words.time(facts.per_step(uncompiled))} {facts.per} is not compiled; a break in a "
            "loop leaves the whole function to Python."
        )
    launches = facts.graph_launches / facts.n if kind.code == "cudagraph-skip" and not facts.on_cpu else None
    return Candidate(
        code=kind.code,
        title=kind.title,
        fact=f"{kind.says}{count}: {_short(events[0].reason)}.{given_up}",
        advice=kind.advice,
        at=SourceRef(file=file, line=line, method="torch", confidence=1.0) if file and line else None,
        hint=recompiles and len(events) < RECOMPILES and not limit,
        evidence={
            "reasons": [e.reason for e in events[:5]],
            "count": len(events),
            "threshold": RECOMPILES if recompiles else None,
            "compile_us": sum(took) if took else None,
            "uncompiled_us_per_step": facts.per_step(uncompiled) if kind.code == "graph-break" else None,
            "graph_launches_per_step": launches,
        },
    )


def _short(reason: str) -> str:
    """The first line, without torch's preamble, its compile id before a guard, and the source text behind it."""
    reason = BREAK_PREFIX.sub("", reason)
    first = next((line.strip() for line in reason.splitlines() if line.strip()), reason)
    first = GUARD_ID.sub("", first).split("  #", 1)[0].split(" Found from", 1)[0].rstrip(" .")
    return first[:197] + "…" if len(first) > 198 else first
