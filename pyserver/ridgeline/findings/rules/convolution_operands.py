"""``unasked-copy`` within convolutions: a tensor is copied for a reason that no memory format of the model mends (``channels-last`` tells
the others)."""

from __future__ import annotations

from collections import defaultdict

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.convolution_copies import LayoutCopy, layout_copies
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules.bias_copy import LOUD_PCT
from ridgeline.findings.rules.channels_last import ADVICE as OF_CHANNELS_LAST
from ridgeline.findings.whatif import gain
from ridgeline.profile import SourceRef

OPERANDS = {"gradient": "the gradient that comes back to it", "input": "what goes in", "weights": "its weights"}
UNASKED = "unrecognised"
"""The only one for which there is something to be done that surely helps."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    groups: dict[tuple[tuple[str, int] | None, str, str | None], list[LayoutCopy]] = defaultdict(list)
    places: dict[tuple[str, int] | None, SourceRef | None] = {}
    for copy in layout_copies(facts):
        if copy.why in OF_CHANNELS_LAST:
            continue
        at = facts.line_of_work(copy.row)
        key = (at.file, at.line) if at else None
        places[key] = at
        groups[key, copy.why, copy.operand].append(copy)
    return [_candidate(facts, places[key], copies) for (key, _, _), copies in groups.items()]


def _candidate(facts: Facts, at: SourceRef | None, copies: list[LayoutCopy]) -> Candidate:
    rows = [copy.row for copy in copies]
    largest = max(copies, key=lambda copy: float(facts.work.time[copy.row]))
    claims, saving = gain(facts, {copy.row: copy.left for copy in copies})
    source, advice = largest.source, _advice(largest)
    what = OPERANDS[largest.operand] if largest.operand else "one of its tensors"
    sizes = f" ({' x '.join(map(str, source.sizes))})" if source else ""
    often = words.times(len(rows) / facts.n)
    return Candidate(
        code="unasked-copy",
        title="A convolution copies one of its tensors",
        fact=f"A convolution copies {what}{sizes} {often} {facts.per}, {words.time(facts.per_step(facts.time_of(rows)))}: {_why(largest)}.",
        advice=advice,
        at=at,
        cost_us=facts.time_of(rows),
        saving_us=saving if advice else None,
        claims=claims,
        hint=not advice or 100.0 * spans.measure(claims) < LOUD_PCT * facts.base_us,
        evidence={
            "threshold_pct": LOUD_PCT,
            "op": largest.op,
            "operand": largest.operand,
            "because": largest.why,
            "copies_per_step": len(rows) / facts.n,
            "from": source.words if source else None,
            "to": largest.target.words if largest.target else None,
        },
    )


def _why(copy: LayoutCopy) -> str:
    source, target = copy.source, copy.target
    came, goes = (source.words if source else "another layout"), (target.words if target else "another layout")
    if copy.why == "unrecognised":
        return (
            f"it is channels-last, but its batch dimension, of one, was put in after the channels had gone last; by its strides torch does "
            f"not know it for that, and copies it to {goes}"
        )
    if copy.why == "part":
        larger = f" of {source.parent_channels} channels" if source and source.parent_channels else ""
        like = " (as torch.cat in the forward pass gives it back)" if copy.operand == "gradient" else ""
        return f"it is a part of a larger tensor{larger}{like}, and the convolution wants it packed"
    if copy.why == "gradient":
        return f"it arrives in {came} from the operation after it, while the convolution works in channels-last"
    if copy.why == "kernel":
        return f"it goes from {came} to {goes}, the only layout that {copy.op} knows"
    return f"from {came} to {goes}"


def _advice(copy: LayoutCopy) -> str:
    if copy.why != UNASKED:
        return ""
    return (
        "Put the batch dimension in first: x.unsqueeze(0).permute(0, 3, 1, 2) instead of x.permute(2, 0, 1).unsqueeze(0). It is a view as "
        "well, and is taken for channels-last; contiguous(memory_format=torch.channels_last) changes nothing here."
    )
