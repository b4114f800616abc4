"""``data-loading``: the step waits for the next batch.

On an accelerator only the waits during which the device idles cost anything (a full queue hides the rest); on a CPU all
of them do, since the loop itself stands still.
"""

from __future__ import annotations

import math
from collections import Counter

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.profile import SourceRef
from ridgeline.sidecar import LoaderInfo

SHARE_PCT = 5.0
"""Of the step. The TensorBoard profiler's threshold; a loader with workers that keeps up costs one or two per cent of a
step for handing over the batch (1.02 % in its ResNet-50 example with four workers, 39.6 % without)."""
MAX_WORKERS = 16
"""More than this is rarely better than a cheaper ``__getitem__``."""
MIN_WORKERS = 2
"""One worker makes the next batch only while the step runs; a second hides what varies between batches."""
SEND_US, RECEIVE_US = 900.0, 550.0
SEND_US_PER_MB, RECEIVE_US_PER_MB = 650.0, 300.0
"""What handing a batch over costs a worker and the loop, in computing: its tensors are written to shared memory (new pages, one block
a tensor), a thread passes the blocks on, the loop maps them. Of two tensors, on a Xeon: 1.5 ms a batch of a kilobyte, 1.8 of 0.4 MB,
2.7 of 1.6 MB, 7.4 of 6.3 MB. On a device the loop's part is hidden by the queue."""
WORTH = 0.1
"""Of the waits, what workers must take off for them to be advised."""
ITEMSIZE = {
    "double": 8,
    "long int": 8,
    "float": 4,
    "int": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "unsigned char": 1,
    "bool": 1,
}
SAMPLES = 64
"""Moments of the waits at which the loading thread's user statement is looked up."""


def rule(facts: Facts) -> list[Candidate]:
    found = []
    for which in sorted({w[3] for w in facts.loader_waits}):
        mine = [w for w in facts.loader_waits if w[3] == which]
        waited = facts.clip(spans.of((w[0], w[1]) for w in mine))
        total = spans.measure(waited)
        share = 100.0 * total / facts.recorded_us
        exposed = waited if facts.on_cpu else spans.intersect(waited, facts.idle)
        if share < SHARE_PCT or 100.0 * facts.real(exposed) / facts.base_us < SHARE_PCT:
            continue
        loader = facts.sidecar.loaders[which] if facts.sidecar is not None and which >= 0 else None
        found.append(_candidate(facts, loader, mine, total, share, facts.real(exposed), exposed))
    return found


def _candidate(
    facts: Facts,
    loader: LoaderInfo | None,
    waits: list[tuple[float, float, int, int]],
    total: float,
    share: float,
    exposed_us: float,
    exposed: spans.Spans,
) -> Candidate:
    workers = _workers(facts, loader)
    slowest = _slowest_line(facts, waits) if workers == 0 else None
    at = _line(facts, loader, waits)
    rest = facts.recorded_us - total
    saving, wanted = _saving(facts, loader, workers, exposed_us, total, rest, len(waits))
    worth = saving >= WORTH * exposed_us
    evidence: dict[str, object] = {
        "wait_us_per_step": facts.per_step(total),
        "exposed_us_per_step": facts.per_step(exposed_us),
        "wait_share_pct": share,
        "waits_per_step": len(waits) / facts.n,
        "num_workers": workers,
        "threshold_pct": SHARE_PCT,
        "assumes": "the work of loading is spread over free cores; waiting for files needs none",
    }
    if loader is not None:
        evidence |= {
            "pin_memory": loader.pin_memory,
            "prefetch_factor": loader.prefetch_factor,
            "batch_size": loader.batch_size,
            "cpu_share": loader.cpu_share,
        }
    if slowest is not None:
        evidence["related"] = [{"file": slowest.file, "line": slowest.line, "text": "most of the waiting is here"}]
    known = "" if workers is None else f" (num_workers={workers})"
    return Candidate(
        code="data-loading",
        title="The step waits for the data loader",
        fact=f"The loop waits {words.time(facts.per_step(total))} {facts.per} for its next batch, "
        f"{words.percent(share)} of {facts.whole}{known}.",
        advice=_advice(workers, wanted, slowest, worth),
        at=at,
        cost_us=exposed_us,
        saving_us=saving if worth else None,
        claims=exposed if worth else None,
        evidence=evidence,
    )


def _workers(facts: Facts, loader: LoaderInfo | None) -> int | None:
    """As the program set it; from the iterator's name where only a trace is there (0, or None for "some")."""
    if loader is not None:
        return loader.num_workers
    names = [n for n in facts.names if n.startswith("enumerate(DataLoader)#")]
    return 0 if names and all("_SingleProcess" in n for n in names) else None


def _saving(
    facts: Facts,
    loader: LoaderInfo | None,
    workers: int | None,
    exposed_us: float,
    total: float,
    rest: float,
    batches: int,
) -> tuple[float, int | None]:
    """With k workers a batch comes every (load time)/k, so a step takes max(rest, load/k): the wait falls to what the rest of
    the step cannot hide. What of loading is computing (``cpu_share``; all of it, if that is not known) needs a core, and on
    a machine without an accelerator so does the step itself, and handing over batches: no step is shorter than that work spread over
    the cores. Waiting for files needs none. With workers already there the load time is not known, and the wait is only known to be
    at most halved by doubling them."""
    if workers != 0:
        return exposed_us / 2, None
    cores = facts.sidecar.cpu.get("cores") if facts.sidecar is not None else None
    known = isinstance(cores, int) and cores > 0
    free = int(cores) if known and isinstance(cores, int) else MAX_WORKERS
    computing = total * (loader.cpu_share if loader is not None and loader.cpu_share is not None else 1.0)
    load, own = total, rest
    if facts.on_cpu:
        size = _collated_mb(facts)
        sent, received = SEND_US * batches + SEND_US_PER_MB * size, RECEIVE_US * batches + RECEIVE_US_PER_MB * size
        load, own, computing = total + sent, rest + received, computing + sent
    work = (computing + own) / free if facts.on_cpu else computing / max(1, free - 1)
    shortest = max(own, work)
    wanted = min(MAX_WORKERS, max(MIN_WORKERS, math.ceil(1.25 * load / shortest))) if shortest > 0 else MAX_WORKERS
    step = max(shortest, load / wanted)
    return max(0.0, min(exposed_us, total + rest - step)), wanted


def _collated_mb(facts: Facts) -> float:
    """Megabytes of the tensors that were stacked to batches in the waits, over the recorded steps; of arrays that the data set makes
    torch sees the batch being put together."""
    rows = [int(r) for r in facts.ops_named("aten::stack", "aten::cat")]
    waits = facts.loader_spans
    inside = [r for r in rows if spans.within(waits, facts.trace.ops.start[[r]])[0]]
    size = 0
    for row in (r for r in inside if facts.outermost(r) == r):
        item = max((ITEMSIZE.get(kind, 0) for kind in facts.types_of(row)), default=0) or ITEMSIZE["float"]
        size += item * sum(math.prod(dims) for dims in facts.all_dims_of(row))
    return size / 1e6


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
