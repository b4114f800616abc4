"""``channels-last``: every convolution transposes its input to the layout that tensor cores want, and back."""

from __future__ import annotations

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.places import related

TRANSPOSES = ("nchwtonhwc", "nhwctonchw")
"""In the names of cuDNN's kernels."""
CONVOLUTIONS = ("aten::_convolution", "aten::convolution", "aten::cudnn_convolution", "aten::convolution_backward")
"""Ops within which ``contiguous`` copies an operand whose layout is not that of the other (a batch in NCHW, weights in NHWC)."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    rows = [r for r in facts.recorded_work if _transposes(facts, r)]
    if not rows:
        return []
    claims, total = facts.claims_of(rows), facts.time_of(rows)
    lines = facts.by_line(rows)
    return [
        Candidate(
            code="channels-last",
            title="Convolutions transpose their tensors",
            fact=f"{words.count(len(rows) / facts.n)} layout transposes {facts.per} around convolutions take {words.time(facts.per_step(total))}.",
            advice="model.to(memory_format=torch.channels_last) and the same for the input: cuDNN then needs no transposes.",
            at=lines[0][0],
            cost_us=total,
            saving_us=spans.measure(claims),
            claims=claims,
            evidence={
                "transposes_per_step": len(rows) / facts.n,
                "related": related(facts, lines, lines[0][0]),
            },
        )
    ]


def _transposes(facts: Facts, row: int) -> bool:
    """A transposing kernel of cuDNN's, or a copy to another layout that a convolution makes of its operand."""
    name = facts.names[int(facts.work.name[row])].lower()
    if any(t in name for t in TRANSPOSES):
        return True
    chain = facts.chain_of(row)
    return "aten::copy_" in chain and "aten::contiguous" in chain and any(c in CONVOLUTIONS for c in chain)
