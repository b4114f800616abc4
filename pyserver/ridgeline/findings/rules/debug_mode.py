"""``debug-mode``: the program runs with a switch that is meant for finding errors. Read in the user's code, which is
parsed, never run; only what is switched on by a constant counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.facts import Facts
from ridgeline.mends import calls_in
from ridgeline.profile import SourceRef

ANOMALY = "Anomaly detection checks every gradient for NaN and keeps a stack for every operation"
LAUNCH = "CUDA_LAUNCH_BLOCKING makes the host wait for every kernel"
VARIABLE = "CUDA_LAUNCH_BLOCKING"


def rule(facts: Facts) -> list[Candidate]:
    return [
        Candidate(
            code="debug-mode",
            title="A switch for finding errors is on",
            fact=f"{what}.",
            advice="Leave it off once the error is found.",
            at=SourceRef(file=path, line=line, text=line_of(text, line)),
            evidence={"switch": what.split(" ", 1)[0]},
        )
        for path, tree, text in trees(facts)
        for line, what in _switches(tree, cuda=not facts.on_cpu)
    ]


def _switches(tree: ast.Module, *, cuda: bool) -> Iterator[tuple[int, str]]:
    for call in calls_in(tree, "set_detect_anomaly", "detect_anomaly"):
        if not _off(call):
            yield call.lineno, ANOMALY
    for node in ast.walk(tree) if cuda else ():
        if isinstance(node, ast.Assign) and any(_is_variable(t) for t in node.targets) and _is_one(node.value):
            yield node.lineno, LAUNCH


def _off(call: ast.Call) -> bool:
    """Whether its first argument is not the constant True (what a variable holds is not known)."""
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "mode")]
    return any(not (isinstance(a, ast.Constant) and a.value is True) for a in given)


def _is_variable(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == VARIABLE
        and ast.unparse(target.value) in ("os.environ", "environ")
    )


def _is_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == "1"
