"""``attention-unfused``: attention written out (product, softmax, product), or ``scaled_dot_product_attention`` that fell
back to its mathematical form: the matrix of scores goes through memory several times."""

from __future__ import annotations

import math

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import shape_of
from ridgeline.findings.places import RELATED
from ridgeline.findings.whatif import gain
from ridgeline.profile import SourceRef

MIN_KEYS = 64
"""Shorter than this the scores are small and the fused kernel gains little."""
NEAR_OPS = 40
"""Outermost ops between the two products: scaling, mask, softmax, dropout and views."""
DEVICE_SPEEDUP = 2.5
"""Of the fused kernel over the written-out form, forward and backward, for 256 to 2048 keys, where no peak is known."""
PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::addmm", "aten::mm", "aten::matmul")
"""What a CPU's fused kernel does as well: it goes through the scores block by block, as it makes them, so that all other passes over
them go. The product that its backward pass makes anew takes about what not storing the scores saves (a fused form took 33 and 17 % off
two steps of which those passes were 33 and 17 %)."""
FUSED = {"forward": (4, 0.30), "backward": (10, 0.25)}
"""Operations of the fused kernel per score and element of a head, and what part of the peak of 16-bit products it reaches: cuDNN's
kernels for heads of 64 over 1024 keys on an H200 reach 0.24 to 0.30 and 0.21 to 0.24 (``clean_transformer``, and llama_train and
gpt2_train of ``tests/golden/data/roofline``, causal halves counted as half)."""
CPU_MOST = 4.0
"""No more than so many times: the exponentials stay too."""
HALF = ("c10::Half", "c10::BFloat16")
SOFTMAX = ("aten::_softmax", "aten::softmax")
MATH = "aten::_scaled_dot_product_attention_math"
DROPOUT = ("aten::native_dropout", "aten::bernoulli_", "aten::bernoulli")


def rule(facts: Facts) -> list[Candidate]:
    found = []
    written = _written_out(facts)
    if written:
        found.append(_candidate(facts, written, fallback=False))
    mathematical = [int(r) for r in facts.ops_named(MATH)]
    if mathematical:
        found.append(_candidate(facts, mathematical, fallback=True))
    return found


def _written_out(facts: Facts) -> list[int]:
    """Softmax ops whose scores come from a product and go into one."""
    products = [int(r) for r in facts.ops_named("aten::bmm", "aten::baddbmm")]
    found = []
    for row in map(int, facts.ops_named("aten::_softmax")):
        dims = facts.dims_of(row)
        if not dims or len(dims[0]) < 3 or dims[0][-1] < MIN_KEYS or dims[0][-2] == 1:
            continue
        if any(facts.op_name(a) == MATH for a in facts.ancestors(row)):
            continue
        scores = tuple(dims[0][-2:])
        tid = facts.trace.ops.tid[row]
        before = [p for p in products if p < row and facts.trace.ops.tid[p] == tid][-2:]
        after = [p for p in products if p > row and facts.trace.ops.tid[p] == tid][:2]
        makes = any((s := shape_of(facts, p)) is not None and (s.m, s.n) == scores for p in before)
        takes = any((s := shape_of(facts, p)) is not None and (s.m, s.k) == scores for p in after)
        if makes and takes:
            found.append(row)
    return found


def _candidate(facts: Facts, rows: list[int], *, fallback: bool) -> Candidate:
    places: dict[tuple[str, int], SourceRef] = {}
    for row in rows:
        at = facts.line_of_op(facts.outermost(row))
        if at is not None:
            places.setdefault((at.file, at.line), at)
    work = _work(facts, rows, fallback=fallback)
    total = facts.time_of(work)
    fused = _fused_us(facts, rows, work, fallback=fallback)
    stays = facts.time_of(r for r in work if facts.chain_of(r)[:1] and facts.chain_of(r)[0] in PRODUCTS)
    speedup = (
        total / max(stays, total / CPU_MOST) if facts.on_cpu else max(1.0, total / fused) if fused else DEVICE_SPEEDUP
    )
    ways = 2 if any(_is_backward(facts, r) for r in work) else 1
    claims, saving = gain(facts, dict.fromkeys(work, 1.0 / speedup), ops=ways * len(rows))
    dims = facts.dims_of(rows[0])
    dropped = facts.on_cpu and _drops(facts, work)
    first = next(iter(places.values()), None)
    return Candidate(
        code="attention-unfused",
        title="Attention misses the fused kernel",
        fact=(
            f"scaled_dot_product_attention takes its mathematical form {words.times(len(rows) / facts.n)} {facts.per}"
            if fallback
            else f"Attention over {dims[0][-1]} keys is written out {words.times(len(rows) / facts.n)} {facts.per}"
        )
        + f": {words.time(facts.per_step(total))} with its softmax and products.",
        advice="Its weights are dropped out while it trains, which the fused kernel of a CPU cannot do; dropout=0.0 there would be "
        "another model."
        if dropped
        else "See what keeps it from the fused kernel: torch.nn.attention.sdpa_kernel names the reason (mask, type, head size)."
        if fallback
        else "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask) computes the same without storing the scores "
        "(other rounding). Give it tensors of four dimensions (batch, heads, positions, width): with three it may take the same way as "
        "here.",
        at=first,
        cost_us=total,
        saving_us=None if dropped else saving,
        claims=None if dropped else claims,
        hint=dropped,
        evidence={
            "weights_dropped_out": dropped,
            "attentions_per_step": len(rows) / facts.n,
            "scores": dims[0] if dims else None,
            "assumed_speedup": speedup,
            "related": [
                {"file": p.file, "line": p.line, "text": "another attention"}
                for p in list(places.values())[1 : 1 + RELATED]
            ],
        },
    )


def _fused_us(facts: Facts, rows: list[int], work: list[int], *, fallback: bool) -> float | None:
    """What the fused kernel takes for all of them, forward and, where there is one, backward: bound by its products. None where
    the sizes or the device's peak are not known, or the numbers are not of 16 bits."""
    peaks = next((d.peaks for d in facts.document.devices if d.id == facts.device), None)
    peak = peaks.flops.get("bf16") if peaks else None
    if facts.on_cpu or not peak:
        return None
    scores = 0.0
    for row in rows:
        dims, types = facts.dims_of(row), facts.types_of(row)
        head = _head(facts, row, fallback=fallback)
        if head is None or not types or types[0] not in HALF:
            return None
        shape = [*dims[0][:-1], dims[1][-2]] if fallback else dims[0]
        scores += head * math.prod(shape)
    ways = ["forward"] + (["backward"] if any(_is_backward(facts, r) for r in work) else [])
    return sum(scores * FUSED[way][0] / (FUSED[way][1] * peak) * 1e6 for way in ways)


def _head(facts: Facts, row: int, *, fallback: bool) -> int | None:
    """Elements of a head: what the queries' product sums over."""
    if fallback:
        dims = facts.dims_of(row)
        return dims[0][-1] if len(dims) > 1 and len(dims[0]) > 1 and len(dims[1]) > 1 else None
    scores = tuple(facts.dims_of(row)[0][-2:])
    tid = facts.trace.ops.tid[row]
    before = [
        int(p) for p in facts.ops_named("aten::bmm", "aten::baddbmm") if p < row and facts.trace.ops.tid[p] == tid
    ]
    shapes = [s for p in before[-2:] if (s := shape_of(facts, p)) is not None and (s.m, s.n) == scores]
    return shapes[-1].k if shapes else None


def _is_backward(facts: Facts, row: int) -> bool:
    return any(facts.op_name(a).startswith("autograd::engine") for a in facts.ancestors(int(facts.work.op[row])))


def _drops(facts: Facts, work: list[int]) -> bool:
    """Whether weights of the attention are dropped out."""
    return any(facts.op_name(a) in DROPOUT for r in work for a in facts.ancestors(int(facts.work.op[r])))


def _work(facts: Facts, rows: list[int], *, fallback: bool) -> list[int]:
    """Work of the attention itself: inside the op if it is one, else everything with the scores' shape nearby, and of the
    backward pass what attribution leads to the same statements with the same shape."""
    if fallback:
        mine = set(rows)
        return [r for r in facts.recorded_work if any(a in mine for a in facts.ancestors(int(facts.work.op[r])))]
    shapes = {tuple(facts.dims_of(row)[0]) for row in rows}
    flat = {(s[-2], s[-1]) for s in shapes}
    found = []
    for work in facts.recorded_work:
        for op in facts.ancestors(int(facts.work.op[work])):
            if any(len(d) >= 3 and (d[-2], d[-1]) in flat for d in facts.dims_of(op)) or _makes(facts, op, flat):
                found.append(work)
                break
    return found


def _makes(facts: Facts, op: int, flat: set[tuple[int, int]]) -> bool:
    shape = shape_of(facts, op) if facts.op_name(op) in ("aten::bmm", "aten::baddbmm") else None
    return shape is not None and (shape.m, shape.n) in flat
