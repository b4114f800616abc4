"""``bias-copy``: ``addmm`` fuses bias and product in the dispatcher, not in a kernel: the bias is first copied to the
output, then the GEMM adds to it. ``unasked-copy``: other copies within the device that the user did not write."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.blocking import direction_of
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.convolution_copies import CONVOLUTIONS
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef

BIAS_OPS = ("aten::addmm", "aten::addmv", "aten::baddbmm", "extern_kernels.addmm")
SILENT_OPS = {
    "aten::reshape": "reshape of a tensor whose strides do not allow a view",
    "aten::contiguous": "a contiguous() within a library call",
    "aten::einsum": "einsum brings its operands into order",
    "aten::matmul": "matmul brings its operands into order",
    "aten::repeat": "repeat writes the copies out (expand does not)",
    "aten::repeat_interleave": "repeat_interleave writes the copies out",
}
LOUD_PCT = 5.0
"""Of the step, from which an unasked copy is more than a hint: joining the heads of attention costs two to four per cent in
most transformers, and there is nothing to be done about it."""
ASKED = ("contiguous(", "clone(", ".copy_(", ".to(", "repeat(", "repeat_interleave(")


def rule(facts: Facts) -> list[Candidate]:
    if facts.on_cpu:
        return []
    bias: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    other: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    places: dict[tuple[str, int] | None, SourceRef | None] = {None: None}
    for row in map(int, facts.device_rows):
        op = int(facts.trace.device_events.op[row])
        if op < 0 or not (facts.op_name(op) == "aten::copy_" or direction_of(facts.event_name(row)) == "DtoD"):
            continue
        if not facts.within(float(facts.trace.device_events.start[row])):
            continue
        chain = [facts.op_name(r) for r in facts.ancestors(op)]
        at = facts.line_of_event(row)
        key = (at.file, at.line) if at else None
        places[key] = at
        if chain[0] in BIAS_OPS or (chain[0] == "aten::copy_" and any(c in BIAS_OPS for c in chain)):
            bias[key].append(row)
        elif any(c in CONVOLUTIONS for c in chain):
            continue  # a matter of layout: ``channels_last``, ``convolution_operands``
        elif key is not None and at is not None and not any(word in (at.text or "") for word in ASKED):
            silent = next((c for c in chain if c in SILENT_OPS), None)
            if silent is not None:
                other[key[0], key[1], silent].append(row)
    found = [_bias(facts, places[key], rows) for key, rows in bias.items()]
    return found + [_other(facts, places[f, n], op, rows) for (f, n, op), rows in other.items()]


def _sizes(facts: Facts, rows: list[int]) -> list[int]:
    sizes = facts.trace.device_events.bytes[rows]
    return sorted({int(s) for s in sizes[np.isfinite(sizes)]}, reverse=True)


def _bias(facts: Facts, at: SourceRef | None, rows: list[int]) -> Candidate:
    claims = facts.queue.critical(rows)
    cost, sizes = spans.measure(facts.exposed(np.array(rows, dtype=np.int32))), _sizes(facts, rows)
    largest = f" ({words.size(sizes[0])})" if sizes else ""
    return Candidate(
        code="bias-copy",
        title="The bias is copied to the output before the GEMM",
        fact=f"addmm writes the bias to its output{largest} {words.times(len(rows) / facts.n)} {facts.per} before the product is added: "
        f"{words.time(facts.per_step(cost))}. It is fused in the dispatcher, not in a kernel.",
        advice="At most the copy can be saved: a one-dimensional bias goes into the GEMM's epilogue, and max-autotune can choose a "
        "template that adds it there.",
        at=at,
        cost_us=cost,
        saving_us=spans.measure(claims),
        claims=claims,
        noted=True,
        evidence={"copies_per_step": len(rows) / facts.n, "bytes": sizes[:3]},
    )


def _other(facts: Facts, at: SourceRef | None, op: str, rows: list[int]) -> Candidate:
    claims = facts.queue.critical(rows)
    cost = spans.measure(facts.exposed(np.array(rows, dtype=np.int32)))
    return Candidate(
        code="unasked-copy",
        title="A copy that the program does not ask for",
        fact=f"{SILENT_OPS[op][0].upper()}{SILENT_OPS[op][1:]}: {words.time(facts.per_step(cost))} {facts.per} of copying.",
        advice="Keep the layout that the next operation wants, so that a view is enough.",
        at=at,
        cost_us=cost,
        saving_us=spans.measure(claims),
        claims=claims,
        hint=100.0 * spans.measure(claims) < LOUD_PCT * facts.base_us,
        evidence={
            "threshold_pct": LOUD_PCT,
            "op": op,
            "copies_per_step": len(rows) / facts.n,
            "bytes": _sizes(facts, rows)[:3],
        },
    )
