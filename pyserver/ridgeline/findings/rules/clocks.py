"""``unsynchronised-clock``: the program times device work with a host clock and does not wait for the device;
``legacy-profiler``: it uses the profiler of old. Both are read in the user's code, which is parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.facts import Facts
from ridgeline.mends import calls_in
from ridgeline.profile import SourceRef

CLOCKS = ("time", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time_ns", "default_timer")
WAITS = ("synchronize", "item", "cpu", "tolist", "numpy", "wait", "elapsed_time")


def rule(facts: Facts) -> list[Candidate]:
    found = []
    lines = _device_lines(facts)
    for path, tree, text in trees(facts):
        if not facts.on_cpu:
            found += [
                _clock(path, first, second, text) for first, second in _unsynchronised(tree, lines.get(path, set()))
            ]
        found += [_legacy(path, line, text) for line in _legacy_uses(tree)]
    return found


def _device_lines(facts: Facts) -> dict[str, set[int]]:
    lines: dict[str, set[int]] = {}
    for row in facts.recorded_work:
        at = facts.line_of_work(row)
        if at is not None:
            lines.setdefault(at.file, set()).add(at.line)
    return lines


def _unsynchronised(tree: ast.Module, device: set[int]) -> Iterator[tuple[int, int]]:
    """(line of the first clock, line of the second) around device work, in one block, with nothing that waits between."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from _in_block(block, device)


def _in_block(block: list[ast.stmt], device: set[int]) -> Iterator[tuple[int, int]]:
    clocks = [k for k, statement in enumerate(block) if not _is_compound(statement) and _calls(statement, CLOCKS)]
    for first, second in pairwise(clocks):
        between = block[first + 1 : second]
        reads_clock_last = block[second]
        if any(isinstance(s, (ast.For, ast.While)) for s in between):
            continue  # over many steps what is still queued at the end makes no difference
        lines = {n for s in between for n in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
        if lines & device and not any(_calls(s, WAITS) for s in [*between, reads_clock_last]):
            yield block[first].lineno, block[second].lineno


def _is_compound(statement: ast.stmt) -> bool:
    return isinstance(
        statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With, ast.Try)
    )


def _calls(statement: ast.stmt, names: tuple[str, ...]) -> bool:
    return any(True for _ in calls_in(statement, *names))


def _legacy_uses(tree: ast.Module) -> Iterator[int]:
    names = {"torch.autograd.profiler": "torch.autograd.profiler"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("torch.autograd", "torch.autograd.profiler"):
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname: a.name for a in node.names if a.asname and a.name.startswith("torch.autograd")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            head, dot, rest = called.partition(".")
            if (names.get(head, head) + dot + rest) == "torch.autograd.profiler.profile":
                yield node.lineno


def _clock(path: str, first: int, second: int, text: str) -> Candidate:
    return Candidate(
        code="unsynchronised-clock",
        title="A host clock around device work that is not waited for",
        fact=f"The clock is read here and at line {first}, with device work between and nothing that waits for it: it measures "
        "launching, not the work.",
        advice="torch.cuda.synchronize() before reading the clock, torch.cuda.Event, or torch.utils.benchmark.",
        at=SourceRef(file=path, line=second, text=line_of(text, second)),
        evidence={"related": [{"file": path, "line": first, "text": "the clock is started here"}]},
    )


def _legacy(path: str, line: int, text: str) -> Candidate:
    return Candidate(
        code="legacy-profiler",
        title="The legacy profiler",
        fact="torch.autograd.profiler.profile records with another, older collector and knows no schedule.",
        advice="torch.profiler.profile has replaced it.",
        hint=True,
        at=SourceRef(file=path, line=line, text=line_of(text, line)),
    )
