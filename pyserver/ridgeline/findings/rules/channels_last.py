"""``channels-last``: every convolution transposes its input to the layout that tensor cores want, and back."""

from __future__ import annotations

import math
from collections import defaultdict

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.convolution_copies import layout_copies
from ridgeline.findings.facts import Facts
from ridgeline.findings.places import related
from ridgeline.findings.whatif import gain

NORMS = {"aten::native_batch_norm": (3, 0.26), "aten::native_batch_norm_backward": (5, 0.58)}
"""Batch normalisation by torch's own kernels: how often each element is read or written (statistics 1, result 2; gradient 5), and
what part of the memory's bandwidth the kernels for channels-last reach (``clean_convolutions`` on an H200: 580 GB/s of 4,800 for
the statistics, 2,820 for the result, 2,270 and 3,240 for the two of the gradient). Those for NCHW reach a fifth of it."""
NORM_KERNEL = "batch_norm"
OTHER_LAYOUT = "channels_last"
ITEMSIZE = {"float": 4, "c10::Half": 2, "c10::BFloat16": 2}


ADVICE = {
    "model": "model.to(memory_format=torch.channels_last) and the same for the input: cuDNN then needs no transposes.",
    "unknown": "If model and input are in NCHW (no strides were recorded): model.to(memory_format=torch.channels_last) and the same for "
    "the input.",
    "input": "The model is channels-last already; make what goes in so as well: x.to(memory_format=torch.channels_last) where it is made, "
    "best where the loader makes it, and no view or reshape that undoes it.",
}
"""By what is not channels-last."""


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    of: dict[str, list[int]] = defaultdict(list)
    for copy in layout_copies(facts):
        if copy.why in ADVICE:
            of[copy.why].append(copy.row)
    if "unknown" in of and len(of) > 1:  # they are what the others are
        of[max((why for why in of if why != "unknown"), key=lambda why: facts.time_of(of[why]))] += of.pop("unknown")
    return [_candidate(facts, why, sorted(rows)) for why, rows in of.items()]


def _candidate(facts: Facts, why: str, rows: list[int]) -> Candidate:
    norms = _norms(facts) if why != "input" else {}
    claims, saving = gain(facts, dict.fromkeys(rows, 0.0) | norms)
    total, normed = facts.time_of(rows), facts.time_of(norms)
    after = sum(part * float(facts.work.time[row]) for row, part in norms.items())
    lines = facts.by_line(rows)
    around = "around convolutions whose weights are channels-last" if why == "input" else "around convolutions"
    return Candidate(
        code="channels-last",
        title="Convolutions transpose their tensors" if why != "input" else "Convolutions transpose what goes in",
        fact=f"{words.things(len(rows) / facts.n, 'layout transpose')} {facts.per} {around} take {words.time(facts.per_step(total))}."
        + (
            f" Batch normalisation takes {words.time(facts.per_step(normed))} in this layout, about "
            f"{words.time(facts.per_step(after))} in the other."
            if norms
            else ""
        ),
        advice=ADVICE[why],
        at=lines[0][0],
        cost_us=total + normed - after,
        saving_us=saving,
        claims=claims,
        evidence={
            "not_channels_last": why,
            "transposes_per_step": len(rows) / facts.n,
            "transposes_us_per_step": facts.per_step(total),
            "norms_us_per_step": facts.per_step(normed) if norms else None,
            "norms_us_per_step_channels_last": facts.per_step(after) if norms else None,
            "related": related(facts, lines, lines[0][0]),
        },
    )


def _norms(facts: Facts) -> dict[int, float]:
    """Kernels of batch normalisations that run in NCHW -> part of their time that those of the other layout take."""
    peaks = next((d.peaks for d in facts.document.devices if d.id == facts.device), None)
    if peaks is None or not peaks.bandwidth_gb_s:
        return {}
    kernels: dict[int, list[int]] = defaultdict(list)
    for row in facts.recorded_work:
        op, name = int(facts.work.op[row]), facts.names[int(facts.work.name[row])]
        if op >= 0 and facts.op_name(op) in NORMS and NORM_KERNEL in name and OTHER_LAYOUT not in name:
            kernels[op].append(row)
    found: dict[int, float] = {}
    for op, rows in kernels.items():
        passes, reached = NORMS[facts.op_name(op)]
        nbytes = _bytes(facts, op)
        now = float(facts.work.time[rows].sum())
        if nbytes and now > 0:
            then = passes * nbytes / (reached * peaks.bandwidth_gb_s * 1e3)
            if then < now:
                found.update(dict.fromkeys(rows, then / now))
    return found


def _bytes(facts: Facts, op: int) -> float:
    """Of an op's first input, if it has the four dimensions of a batch of images; else 0."""
    dims, types = facts.dims_of(op), facts.types_of(op)
    if not dims or len(dims[0]) != 4 or not types:
        return 0.0
    return float(math.prod(dims[0]) * ITEMSIZE.get(types[0], 0))
