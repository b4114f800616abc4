"""``conv-bias``: a convolution adds a bias that the batch normalisation after it takes out again."""

from __future__ import annotations

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.places import RELATED
from ridgeline.findings.whatif import gain

CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
TRAINING = 5
"""Position of ``training`` among the arguments of ``aten::batch_norm``."""
NEXT_OPS = 3
"""The normalisation follows at once; between them at most ops that only look at shapes."""


def rule(facts: Facts) -> list[Candidate]:
    if not len(facts.ops_named(*CONVOLUTIONS)):
        return []
    ops = facts.trace.ops
    tops = [r for r in range(len(ops.start)) if facts.outermost(r) == r and facts.within(float(ops.start[r]))]
    pairs: list[int] = []
    for at, row in enumerate(tops):
        dims = facts.dims_of(row)
        if facts.op_name(row) not in CONVOLUTIONS or len(dims) < 3 or not dims[2]:
            continue
        after = [r for r in tops[at + 1 : at + 1 + NEXT_OPS] if ops.tid[r] == ops.tid[row]]
        for norm in after:
            given = facts.dims_of(norm)
            same = len(given) > 0 and len(given[0]) > 1 and given[0][1] == dims[1][0]
            if facts.op_name(norm) == "aten::batch_norm" and same and not _evaluates(facts, norm):
                pairs.append(row)
                break
    return [_candidate(facts, pairs)] if pairs else []


def _evaluates(facts: Facts, norm: int) -> bool:
    """Whether the normalisation uses its running mean: of that the bias is a part, and to leave it out changes the result."""
    args = int(facts.trace.ops.args[norm])
    given = (facts.trace.op_args.concrete_inputs[args] or []) if args >= 0 else []
    return len(given) > TRAINING and given[TRAINING] == "False"


def _candidate(facts: Facts, convolutions: list[int]) -> Candidate:
    mine = set(convolutions)
    added = [
        r
        for r in facts.recorded_work
        if any(a in mine for a in facts.ancestors(int(facts.work.op[r]))) and "aten::add_" in facts.chain_of(r)
    ]
    rows = added + (_gradients(facts, convolutions) if added else [])
    claims, saving = gain(facts, dict.fromkeys(rows, 0.0))
    total = facts.time_of(rows)
    at = facts.line_of_op(convolutions[0])
    places = {(p.file, p.line): p for c in convolutions if (p := facts.line_of_op(c)) is not None}
    return Candidate(
        code="conv-bias",
        title="A bias before batch normalisation has no effect",
        fact=f"A bias that the batch normalisation after it subtracts again is added by {words.things(len(convolutions) / facts.n, 'convolution')} {facts.per}"
        + (f": {words.time(facts.per_step(total))}." if rows else "."),
        advice="bias=False in those convolutions; the result is the same.",
        at=at,
        cost_us=total if rows else None,
        saving_us=saving if rows else None,
        claims=claims if rows else None,
        noted=True,
        hint=not rows,
        evidence={
            "convolutions_per_step": len(convolutions) / facts.n,
            "related": [
                {"file": p.file, "line": p.line, "text": "another convolution whose bias has no effect"}
                for p in list(places.values())[1 : 1 + RELATED]
            ],
        },
    )


def _gradients(facts: Facts, convolutions: list[int]) -> list[int]:
    """The sums over the batch that are the gradients of those biases: where all convolutions of a statement have one that has no
    effect."""
    # Under autocast a convolution calls one of its name on tensors of the other type.
    others = {facts.outermost(int(c)) for c in facts.ops_named(*CONVOLUTIONS)} - set(convolutions)
    needed = {(p.file, p.line) for c in others if (p := facts.line_of_op(c)) is not None}
    places = {(p.file, p.line) for c in convolutions if (p := facts.line_of_op(c)) is not None} - needed
    found = []
    for row in facts.recorded_work:
        chain = facts.chain_of(row)
        if "aten::sum" in chain and "aten::convolution_backward" in chain:
            at = facts.line_of_work(row)
            if at is not None and (at.file, at.line) in places:
                found.append(row)
    return found
