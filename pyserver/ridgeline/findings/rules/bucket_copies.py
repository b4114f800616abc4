"""``bucket-copies``: DistributedDataParallel copies every gradient out of the bucket in which it was reduced."""

from __future__ import annotations

from collections import Counter

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.stretches import time_of
from ridgeline.mends import calls_in
from ridgeline.profile import SourceRef

OUT = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
"""The reducer's own mark around the copy of one gradient (``torch/csrc/distributed/c10d/reducer.cpp``)."""

LOUD_PCT = 5.0
"""Of the step. Copying is what torch does by default, so every such program has it; below this it is no more than a hint
(``single-tensor-optimizer`` has the same measure)."""


def rule(facts: Facts) -> list[Candidate]:
    if OUT not in facts.names:
        return []
    rows: set[int] = set()
    lines: Counter[tuple[str, int]] = Counter()
    places: dict[tuple[str, int], SourceRef] = {}
    for row in facts.recorded_work:  # by when the device does it: the host may have asked for it a step earlier
        op = int(facts.work.op[row])
        mark = next((a for a in facts.ancestors(op) if facts.op_name(a) == OUT), None) if op >= 0 else None
        if mark is None:
            continue
        rows.add(mark)
        if (at := facts.line_of_work(row)) is not None:
            lines[at.file, at.line] += 1
            places[at.file, at.line] = at
    if not rows:
        return []
    ops = facts.trace.ops
    stretches = [(int(ops.tid[r]), float(ops.start[r]), facts.op_end(r)) for r in rows]
    claims, device_us = time_of(facts, stretches)
    judged = facts.judged
    cost = saving = facts.real(claims)
    if judged and not facts.on_cpu:
        change = facts.whatif.without(stretches)
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
        cost = max(cost, saving)
    return [
        Candidate(
            code="bucket-copies",
            title="Gradients are copied out of the buckets of DistributedDataParallel",
            fact=f"{words.count(len(rows) / facts.n)} gradients {facts.per} are copied from the buckets in which they were reduced: "
            f""
            f"{words.time(facts.per_step(cost if judged else device_us))}{'' if judged else ' of device work'}.",
            advice="DistributedDataParallel(..., gradient_as_bucket_view=True): gradients are then views of the buckets, and their memory "
            "is needed once instead of twice. (Not with code that calls detach_() on gradients.)",
            at=_constructed(facts) or (places[lines.most_common(1)[0][0]] if lines else None),
            cost_us=cost if judged else device_us,
            saving_us=saving if judged else None,
            claims=claims if judged else None,
            hint=(saving if judged else device_us) < LOUD_PCT / 100.0 * facts.base_us,
            evidence={"copies_per_step": len(rows) / facts.n, "device_us_per_step": facts.per_step(device_us)},
        )
    ]


def _constructed(facts: Facts) -> SourceRef | None:
    """Where the program wraps its model, if that is one place: there the argument goes."""
    found = [
        SourceRef(file=path, line=call.lineno, text=line_of(text, call.lineno))
        for path, tree, text in trees(facts)
        for call in calls_in(tree, "DistributedDataParallel", "DDP")
    ]
    return found[0] if len(found) == 1 else None
