"""``data-loading``: the step waits for the next batch.

On an accelerator only the waits during which the device idles cost anything (a full queue hides the rest); on a CPU all
of them do, since the loop itself stands still. Waits for a batch that was there when it was asked for are its handing over: the
workers keep up, and more of them would change nothing. Nor would they where the time goes into drawing indices: samplers run in the
loop's own thread.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from ridgeline.findings import loading, spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.drawing import LEFT, Drawn, drawn
from ridgeline.findings.facts import Facts
from ridgeline.findings.loading import Batches, Wait
from ridgeline.findings.spans import Spans
from ridgeline.profile import SourceRef
from ridgeline.sidecar import LoaderInfo

SHARE_PCT = 5.0
"""Of the step. The TensorBoard profiler's threshold; a loader with workers that keeps up costs one or two per cent of a
step for handing over the batch (1.02 % in its ResNet-50 example with four workers, 39.6 % without)."""
MAX_WORKERS = 16
"""More than this is rarely better than a cheaper ``__getitem__``."""
MIN_WORKERS = 2
"""One worker makes the next batch only while the step runs; a second hides what varies between batches."""
WORTH = 0.1
"""Of the waits, what workers must take off for them to be advised."""
SLOW = 4.0
"""Fetching that takes as many times what a ready batch would cost is slow in itself, whether workers help or not."""
SAMPLES = 64
"""Moments of the waits at which the loading thread's user statement is looked up."""


def rule(facts: Facts) -> list[Candidate]:
    found = []
    for which in sorted({w[3] for w in facts.loader_waits}):
        mine = [w for w in facts.loader_waits if w[3] == which]
        loader = facts.sidecar.loaders[which] if facts.sidecar is not None and which >= 0 else None
        drawing = drawn(facts, loader, mine)
        apart = drawing is not None and min(drawing.share_pct(facts), drawing.exposed_pct(facts)) >= SHARE_PCT
        if drawing is not None and apart:
            found.append(_drawing(facts, loader, mine, drawing))
        late, ready = loading.by_readiness(facts, loader, mine)
        for waits, judge in ((late, _waiting), (ready, _handed_over)):
            waited = Waited.of(facts, loader, waits, drawing, apart=apart)
            if waited.share_pct >= SHARE_PCT and waited.exposed_pct >= SHARE_PCT:
                found.append(judge(facts, loader, waited))
    return found


@dataclass(frozen=True)
class Waited:
    """Waits of one loader. Times over the recorded steps, as recorded; ``stands_for``: what a microsecond of them is in the time of
    the steps without a recorder, which slows fetching more than the rest."""

    waits: list[Wait]
    exposed: Spans
    total_us: float
    exposed_us: float
    stands_for: float
    plain: float | None
    """Unprofiled over recorded wait, where that was measured."""
    share_pct: float
    exposed_pct: float
    drawing_us: float
    """Of these, without workers, what goes into drawing indices, where that is too little to be judged by itself."""

    @staticmethod
    def of(
        facts: Facts, loader: LoaderInfo | None, waits: list[Wait], drawing: Drawn | None = None, *, apart: bool = False
    ) -> Waited:
        waited = facts.clip(spans.of((w[0], w[1]) for w in waits))
        drawing_us = 0.0 if drawing is None else spans.measure(spans.intersect(waited, drawing.spans))
        if drawing is not None and (apart or _workers(facts, loader) != 0):
            waited, drawing_us = spans.subtract(waited, drawing.spans), 0.0
        exposed = waited if facts.on_cpu else spans.intersect(waited, facts.idle)
        plain = loading.plain_share(facts, loader, waits, drawing.spans if drawing is not None and apart else None)
        stands_for = 1.0 if plain is None else min(1.0, plain / facts.plain_scale)
        total, real = spans.measure(waited), facts.real(exposed)
        return Waited(
            waits=waits,
            exposed=exposed,
            total_us=total,
            exposed_us=real,
            stands_for=stands_for,
            plain=plain,
            share_pct=100.0 * stands_for * total / facts.recorded_us,
            exposed_pct=100.0 * stands_for * real / facts.base_us,
            drawing_us=drawing_us,
        )

    @property
    def cost_us(self) -> float:
        return self.exposed_us * self.stands_for

    def plain_us(self, facts: Facts) -> float:
        """Without a recorder; of a device's host as recorded."""
        return self.total_us * (facts.plain_scale if self.plain is None else self.plain)


def _drawing(facts: Facts, loader: LoaderInfo | None, waits: list[Wait], drawing: Drawn) -> Candidate:
    """For indices."""
    workers, at = _workers(facts, loader), drawing.at
    exposed = drawing.exposed(facts)
    saving = drawing.saving_us(facts)
    cost = facts.real(exposed) * drawing.stands_for
    if not facts.on_cpu:
        # No profiler slows it: what the steps, played again, lose by it is more of it than of other idle time.
        cost = max(cost, min(saving, spans.measure(exposed)))
    length = spans.measure(drawing.spans) if drawing.plain_us is None else drawing.plain_us
    once = drawing.once(facts, SHARE_PCT)
    where = f" ({at.file.rsplit('/', 1)[-1]}:{at.line})" if at is not None else ""
    others = (
        "workers fetch what is drawn there, and take none of it over" if workers else "workers would not take it over"
    )
    return Candidate(
        code="data-loading",
        title="The loop draws the indices of its batches",
        fact=f"The sampler takes {words.time(facts.per_step(length))} {facts.per}{where}, {words.percent(drawing.share_pct(facts))} of "
        f"{facts.whole}: it runs in the loop's own thread (num_workers={workers}); {others}."
        + (" That was in one step only: confirm over more steps." if once else ""),
        advice="Draw for an epoch at once, or keep what each draw computes anew (the running sum of the weights: torch.searchsorted, "
        "np.searchsorted), or let the data set draw (an IterableDataset does it in the workers).",
        at=_line(facts, loader, waits),
        cost_us=cost,
        saving_us=saving,
        claims=exposed,
        stands_for=drawing.stands_for,
        hint=once,
        evidence={
            "drawing_us_per_step": facts.per_step(spans.measure(drawing.spans)),
            "exposed_us_per_step": facts.per_step(spans.measure(exposed)),
            "unprofiled_us_per_step": None if drawing.plain_us is None else facts.per_step(drawing.plain_us),
            "known_by": "the agent's clock" if drawing.timed else "the statements in the loop's thread",
            "num_workers": workers,
            "threshold_pct": SHARE_PCT,
            "assumed_speedup": 1.0 / LEFT,
            "related": [] if at is None else [{"file": at.file, "line": at.line, "text": "draws the indices"}],
        },
    )


def _waiting(facts: Facts, loader: LoaderInfo | None, waited: Waited) -> Candidate:
    """For batches that were not made yet."""
    workers = _workers(facts, loader)
    slowest = _slowest_line(facts, waited.waits) if workers == 0 else None
    batches = loading.batches(facts, loader, waited.waits)
    saving, wanted = _saving(facts, loader, workers, waited, batches)
    worth = saving >= WORTH * waited.cost_us
    slow = waited.plain_us(facts) >= SLOW * batches.ready_us
    # Without workers the loop fetches every batch itself: slow in one step is slow in each.
    once = loading.seen_once(facts, loader, waited.waits) and not (workers == 0 and slow)
    length = waited.total_us if waited.plain is None else waited.plain_us(facts)
    evidence = _evidence(facts, loader, workers, waited, batches)
    evidence["assumes"] = "the work of loading is spread over free cores; waiting for files needs none"
    if slowest is not None:
        evidence["related"] = [{"file": slowest.file, "line": slowest.line, "text": "most of the waiting is here"}]
    known = "" if workers is None else f" (num_workers={workers})"
    only = f" That was in one step{'' if len(facts.steps) == 1 else ' only'}: confirm over more steps." if once else ""
    return Candidate(
        code="data-loading",
        title="The step waits for the data loader",
        fact=f"The loop waits {words.time(facts.per_step(length))} {facts.per} for its next batch, "
        f"{words.percent(waited.share_pct)} of {facts.whole}{known}.{only}{_part_drawn(facts, waited)}",
        advice=_advice(workers, wanted, slowest, worth),
        at=_line(facts, loader, waited.waits),
        cost_us=waited.cost_us,
        saving_us=saving if worth else None,
        claims=waited.exposed if worth else None,
        stands_for=waited.stands_for,
        hint=once or (workers == 0 and not worth and not slow),
        evidence=evidence,
    )


def _handed_over(facts: Facts, loader: LoaderInfo | None, waited: Waited) -> Candidate:
    """Of batches that were ready. What a batch of one tensor would cost remains; how long the worker's thread takes to answer is a
    matter of the machine's load, so that only what the loop computes counts as saved, and no more of it than so many tensors cost."""
    workers = _workers(facts, loader)
    batches = loading.batches(facts, loader, waited.waits)
    share = loader.cpu_share if loader is not None else None
    computing = waited.cost_us * (1.0 if share is None else share)
    saving = max(0.0, min(computing, batches.receive_us) - batches.least_us)
    large = saving >= SHARE_PCT / 100.0 * facts.base_us
    evidence = _evidence(facts, loader, workers, waited, batches)
    evidence["ready_us_per_step"] = facts.per_step(batches.ready_us)
    thread = (
        ""
        if facts.on_cpu or (loader is not None and loader.pin_memory)
        else " With pin_memory=True a thread does it beside the loop."
    )
    return Candidate(
        code="data-loading",
        title="Batches that are ready are handed over",
        fact=f"The next batch is ready when the loop asks for it; handing it over from its worker takes "
        f"{words.time(facts.per_step(waited.total_us))} {facts.per}, {words.percent(waited.share_pct)} of {facts.whole} "
        f"({words.things(batches.tensors, 'tensor')} a batch, num_workers={workers}). The workers keep up.",
        advice=f"Fewer and larger tensors a batch, or fewer bytes: each tensor is passed on by itself.{thread}",
        at=_line(facts, loader, waited.waits),
        cost_us=waited.cost_us,
        saving_us=saving if large else None,
        claims=waited.exposed if large else None,
        stands_for=waited.stands_for,
        hint=not large or loading.seen_once(facts, loader, waited.waits),
        evidence=evidence,
    )


def _evidence(
    facts: Facts, loader: LoaderInfo | None, workers: int | None, waited: Waited, batches: Batches
) -> dict[str, object]:
    evidence: dict[str, object] = {
        "wait_us_per_step": facts.per_step(waited.total_us),
        "exposed_us_per_step": facts.per_step(waited.exposed_us),
        "wait_share_pct": waited.share_pct,
        "waits_per_step": len(waited.waits) / facts.n,
        "num_workers": workers,
        "threshold_pct": SHARE_PCT,
        "handing_over_us_per_step": facts.per_step(batches.ready_us),
        "drawing_us_per_step": facts.per_step(waited.drawing_us),
    }
    if loader is not None:
        evidence |= {
            "pin_memory": loader.pin_memory,
            "prefetch_factor": loader.prefetch_factor,
            "batch_size": loader.batch_size,
            "cpu_share": loader.cpu_share,
            "unprofiled_wait_us": loader.plain_us,
            "batch_tensors": loader.batch_tensors,
            "batch_bytes": loader.batch_bytes,
        }
    return evidence


def _part_drawn(facts: Facts, waited: Waited) -> str:
    """Where it is a tenth of it or more."""
    if waited.drawing_us < WORTH * waited.total_us or not waited.drawing_us:
        return ""
    part = waited.plain_us(facts) * waited.drawing_us / waited.total_us
    return f" {words.time(facts.per_step(part))} of it is the sampler's, which workers would not take over."


def _workers(facts: Facts, loader: LoaderInfo | None) -> int | None:
    """As the program set it; from the iterator's name where only a trace is there (0, or None for "some")."""
    if loader is not None:
        return loader.num_workers
    names = [n for n in facts.names if n.startswith("enumerate(DataLoader)#")]
    return 0 if names and all("_SingleProcess" in n for n in names) else None


def _saving(
    facts: Facts, loader: LoaderInfo | None, workers: int | None, waited: Waited, batches: Batches
) -> tuple[float, int | None]:
    """With k workers a batch comes every (load time)/k, so a step takes max(rest, load/k): the wait falls to what the rest of
    the step cannot hide, and to what handing over a ready batch costs. What of loading is computing (``cpu_share``; all of it, if
    that is not known) needs a core, and on a machine without an accelerator so does the step itself, and handing over batches: no
    step is shorter than that work spread over the cores. Waiting for files needs none. With workers already there the load time is
    not known, and the wait is only known to be at most halved by doubling them.

    Times without a recorder, in which handing over was measured; what is returned is of recorded time."""
    if workers != 0:
        return waited.cost_us / 2, None
    scale = facts.plain_scale
    cores = facts.sidecar.cpu.get("cores") if facts.sidecar is not None else None
    known = isinstance(cores, int) and cores > 0
    free = int(cores) if known and isinstance(cores, int) else MAX_WORKERS
    total = waited.plain_us(facts)
    rest = max(0.0, facts.recorded_us * scale - total) if scale < 1.0 else facts.recorded_us - waited.total_us
    drawing = total * waited.drawing_us / waited.total_us if waited.total_us > 0 else 0.0  # which stays in the loop
    total, rest = total - drawing, rest + drawing
    computing = total * (loader.cpu_share if loader is not None and loader.cpu_share is not None else 1.0)
    load, own = total, rest + batches.ready_us
    if facts.on_cpu:
        load += batches.send_us
        work = (computing + batches.send_us + rest + batches.receive_us) / free
    else:
        work = computing / max(1, free - 1)
    shortest = max(own, work)
    wanted = min(MAX_WORKERS, max(MIN_WORKERS, math.ceil(1.25 * load / shortest))) if shortest > 0 else MAX_WORKERS
    step = max(shortest, load / wanted)
    return max(0.0, min(waited.cost_us, (total + rest - step) / scale)), wanted


def _advice(workers: int | None, wanted: int | None, slowest: SourceRef | None, worth: bool) -> str:
    where = f" Most of it is spent at {slowest.file.rsplit('/', 1)[-1]}:{slowest.line}." if slowest else ""
    if workers == 0 and not worth:
        return f"Handing a batch over from a worker process would cost as much: make loading itself cheaper.{where}"
    if workers == 0:
        return f"Load in worker processes: num_workers={wanted}, persistent_workers=True.{where}"
    return "The workers do not keep up: more of them, a larger prefetch_factor, or a cheaper __getitem__." + where


def _line(facts: Facts, loader: LoaderInfo | None, waits: list[tuple[float, float, int, int]]) -> SourceRef | None:
    if loader is not None and loader.file is not None and loader.line is not None:
        return SourceRef(file=loader.file, line=loader.line, method="loader", confidence=1.0)
    start, _, tid, _ = waits[0]
    # At its first moment the wait has not yet entered the dataset's own code.
    return facts.context.attribution.host_line(tid, start)


def _slowest_line(facts: Facts, waits: list[tuple[float, float, int, int]]) -> SourceRef | None:
    """The user statement that the loading thread was in for most of the waits, if it is not the loop itself."""
    seen: Counter[tuple[str, int]] = Counter()
    places: dict[tuple[str, int], SourceRef] = {}
    loop = _line(facts, None, waits)
    per_wait = max(1, SAMPLES // len(waits))
    for start, end, tid, _ in waits:
        for k in range(per_wait):
            place = facts.context.attribution.host_line(tid, start + (end - start) * (k + 0.5) / per_wait)
            if place is not None and (loop is None or (place.file, place.line) != (loop.file, loop.line)):
                seen[place.file, place.line] += 1
                places[place.file, place.line] = place
    if not seen:
        return None
    key, count = seen.most_common(1)[0]
    return places[key] if 2 * count >= per_wait * len(waits) else None
