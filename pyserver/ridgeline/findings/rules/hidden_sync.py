"""``hidden-sync``: the host waits for the device inside the step.

With an accelerator the cost is the device's gap until its queue refills (``blocking.py``), not the host's wait. On a
CPU-only machine ``.item()`` waits for nothing: all that can be said is that it would on an accelerator, as a hint, with
what it costs here.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from ridgeline.findings import spans, words
from ridgeline.findings.blocking import Block
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import SUGGEST_PCT
from ridgeline.findings.replay import Change
from ridgeline.profile import SourceRef

PER_STEP = 0.5
"""Occurrences a step. Less often is logging now and then, which is how it should be done."""
UNJUDGED_SHARE = 0.01
"""Of the device's work. Where gaps cannot be judged the wait still bounds what a synchronisation can cost."""
COPIES = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::cpu")
SCALAR_BYTES = 8
SYNCING_OPS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
VALUES = (*SYNCING_OPS, "aten::tolist", "aten::to", "aten::_to_copy")
"""Outermost ops that give a value to Python. Others read numbers of their own that live on the host: ``x[mask] = 0.0``."""
SCALER_TEXT = re.compile(r"scaler\w*\.(step|unscale_|update)\(", re.IGNORECASE)
"""A loss scaler asks whether the gradients are finite; it cannot do without."""
SYNCING_TEXT = re.compile(
    r"\.item\(|\.tolist\(|\.cpu\(|\.numpy\(|\bfloat\(|\bint\(|\bbool\(|\bprint\(|\bif\b|\bwhile\b|\bassert\b|\bnot\b|\band\b|\bor\b"
    r"|f[\"']|\.format\(|log|append\(|(?<!\.)\b(?:min|max|sorted|any|all|round)\("
)
"""What in a statement turns a tensor into a Python value. ``item`` ops also stem from samplers and optimizers, on tensors
that live on the host for good: their user statement (the loop, ``opt.step()``) has none of these."""

SIZES = ("aten::nonzero", "aten::masked_select", "aten::index", "aten::unique", "aten::_unique2")
NUMBERS = ("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense")
SCALER = "A fused optimizer takes the scaler's answer on the device; bfloat16 needs no scaler."
EXPLAINS = {
    "aten::item": "takes a number from the device",
    "aten::is_nonzero": "asks the device for a truth value",
    "aten::nonzero": "needs the number of elements found, which only the device knows",
    "aten::_to_copy": "copies a tensor to the host",
    "aten::to": "copies a tensor to the host",
    "aten::copy_": "copies a tensor to the host",
    "aten::masked_select": "makes a tensor whose size only the device knows",
    "aten::index": "indexes with a mask, whose size only the device knows",
    "aten::unique": "makes a tensor whose size only the device knows",
    "aten::_unique2": "makes a tensor whose size only the device knows",
}


def rule(facts: Facts) -> list[Candidate]:
    return _on_cpu(facts) if facts.on_cpu else _on_device(facts)


def _on_device(facts: Facts) -> list[Candidate]:
    if not spans.measure(facts.busy):
        return []  # the device's part was not recorded: nothing can be said about waiting for it
    groups: dict[tuple[str, int] | str, list[Block]] = defaultdict(list)
    for block in facts.blocks:
        if block.direction == "HtoD" or is_round_trip(block):
            continue  # pageable-copy and host-round-trip speak of those
        if block.op < 0 and block.at is None and (len(facts.steps) < 2 or facts.document.source.kind == "module"):
            # A bare synchronisation without a statement: as likely the recorder's as the program's. A generated module by
            # itself never has one; who runs it waits after each call.
            continue
        # All that a statement waits for, forward and backward, goes with it: one wait alone is made up for by the next.
        groups[(block.at.file, block.at.line) if block.at else block.op_name or block.call_name].append(block)
    return [_candidate(facts, group) for group in groups.values() if len(group) >= PER_STEP * facts.n]


def is_round_trip(block: Block) -> bool:
    """A whole tensor that goes to the host, not a number."""
    return block.op_name in COPIES and block.direction == "DtoH" and block.nbytes > SCALAR_BYTES


def _candidate(facts: Facts, group: list[Block]) -> Candidate:
    what = group[0].op_name or group[0].call_name
    # What the loader waits for is the loader's, though it begins where a sync left the queue empty.
    gap = spans.subtract(
        spans.together(*(b.gap for b in group)), spans.together(facts.loader_spans, facts.compile_spans)
    )
    cost = facts.real(gap)
    saving = spans.measure(gap) if facts.judged else None
    if saving is not None and 100.0 * saving >= SUGGEST_PCT * facts.gate_us:  # else nothing is promised anyway
        # Without the wait the host is ahead and the queue full: played again, at the program's own pace.
        saving = facts.whatif.saving(Change(waits={c for b in group for c in b.calls}))
        gap = _with_late_launches(facts, gap, saving)
        cost = max(cost, min(saving, spans.measure(gap)))
    host, wait = sum(b.host_us for b in group), sum(b.wait_us for b in group)
    explicit = group[0].op < 0
    scaler = group[0].at is not None and SCALER_TEXT.search(group[0].at.text or "") is not None
    why = "synchronises explicitly" if explicit else EXPLAINS.get(what, "waits for the device")
    text = (group[0].at.text or "").strip() if group[0].at else ""
    return Candidate(
        code="hidden-sync",
        title="Explicit synchronisation in the step" if explicit else "The host waits for the device",
        fact=f"{_quote(text, what)} {why}, {words.times(len(group) / facts.n)} {facts.per}: the host waits "
        f"{words.time(facts.per_step(wait))}, and the device then idles "
        + (
            f"{words.time(facts.per_step(cost))} until it has work again."
            if facts.judged
            else f"(not judged in time: {facts.unjudged_because})."
        ),
        advice=SCALER if scaler else _advice(facts, group[0]),
        at=group[0].at,
        cost_us=cost if facts.judged else None,
        saving_us=saving,
        claims=gap if facts.judged else None,
        noted=True,
        # Unjudged, only what surely is the program's own reading of a value is more than a hint.
        hint=scaler
        or (
            not facts.judged
            and (
                explicit
                or what not in EXPLAINS
                or group[0].at is None
                or wait < UNJUDGED_SHARE * spans.measure(facts.busy)
            )
        ),
        evidence={
            "op": what,
            "count_per_step": len(group) / facts.n,
            "host_us_per_step": facts.per_step(host),
            "wait_us_per_step": facts.per_step(wait),
            "device_gap_us_per_step": facts.per_step(spans.measure(gap)) if facts.judged else None,
            "wait_in": group[0].call_name,
            "threshold_per_step": PER_STEP,
        },
    )


def _with_late_launches(facts: Facts, gap: spans.Spans, saving: float) -> spans.Spans:
    """A host that waits cannot run ahead: after the gap that the wait itself leaves, launches go on coming late. As many of those gaps
    as make up the saving are the wait's, not the launches'."""
    late = spans.subtract(facts.queue.launch_spans, gap)
    lacking = saving - facts.real(gap)
    if lacking <= 0 or not len(late.start):
        return gap
    known = np.cumsum([facts.real(spans.of([(a, b)])) for a, b in zip(late.start.tolist(), late.end.tolist())])
    upto = int(np.searchsorted(known, lacking)) + 1
    return spans.together(gap, spans.of(zip(late.start[:upto].tolist(), late.end[:upto].tolist())))


def _on_cpu(facts: Facts) -> list[Candidate]:
    groups: dict[tuple[str, int], list[tuple[int, SourceRef]]] = defaultdict(list)
    seen: set[int] = set()
    for row in facts.ops_named(*SYNCING_OPS):
        top = facts.outermost(int(row))
        at = facts.line_of_op(top)
        if (
            facts.op_name(top) not in VALUES
            or top in seen
            or at is None
            or not _turns_into_a_value(at)
            or _is_librarys(facts, top)
        ):
            continue
        seen.add(top)
        groups[at.file, at.line].append((top, at))
    found = []
    for group in groups.values():
        if len(group) < PER_STEP * facts.n:
            continue
        spent = sum(float(facts.trace.ops.dur[top]) for top, _ in group)
        at = group[0][1]
        found.append(
            Candidate(
                code="hidden-sync",
                title="This would make an accelerator wait",
                fact=f"{_quote((at.text or '').strip(), 'aten::item')} turns a tensor into a Python value, "
                f"{words.times(len(group) / facts.n)} {facts.per}. On this CPU that costs {words.time(facts.per_step(spent))}; "
                "on an accelerator the host would wait there for all queued work.",
                at=at,
                cost_us=spent,
                noted=True,
                hint=True,
                evidence={
                    "op": facts.op_name(group[0][0]),
                    "count_per_step": len(group) / facts.n,
                    "host_us_per_step": facts.per_step(spent),
                    "threshold_per_step": PER_STEP,
                    "measured_on": "cpu",
                },
            )
        )
    return found


def _turns_into_a_value(at: SourceRef) -> bool:
    return at.text is None or SYNCING_TEXT.search(at.text) is not None


def _is_librarys(facts: Facts, op: int) -> bool:
    """Optimizers and samplers read scalars that live on the host whatever the device."""
    tid, start = int(facts.trace.ops.tid[op]), float(facts.trace.ops.start[op])
    return facts.in_range(tid, start, "Optimizer.") or any(
        s <= start < e and t == tid for s, e, t, _ in facts.loader_waits
    )


def _quote(text: str, fallback: str) -> str:
    """The statement without its comment; the operation where only the function is known."""
    statement = text.split("  #", 1)[0].strip()
    known = statement and len(statement) <= 80 and not statement.startswith(("def ", "async def ", "class "))
    return f"`{statement}`" if known else f"`{fallback}`"


def _advice(facts: Facts, block: Block) -> str:
    if block.op < 0:
        return "Outside measurements nothing needs it: the next copy to the host waits by itself."
    start = float(facts.trace.ops.start[block.op])
    within = {facts.op_name(row) for row in facts.ops_between(block.tid, start, facts.op_end(block.op))}
    what = {block.op_name, *within}
    if not what.isdisjoint(SIZES):
        return "Keep the shape fixed (torch.where, a mask that is multiplied) so that the host need not know the size."
    if block.op_name in EXPLAINS or not what.isdisjoint(NUMBERS):
        return "Keep the value on the device (add it up there) and read it every so many steps, or after the loop."
    return "The operation waits by itself; the recording does not tell for what. Another one that does the same may not have to."
