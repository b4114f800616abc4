"""What a loader's batches cost: fetching them, handing them over from a worker process, and waiting for one that is not made yet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from ridgeline.findings import spans
from ridgeline.findings.facts import Facts
from ridgeline.findings.spans import Spans
from ridgeline.sidecar import LoaderInfo

SEND_US, SEND_US_PER_TENSOR, SEND_US_PER_MB = 400.0, 250.0, 650.0
RECEIVE_US, RECEIVE_US_PER_TENSOR, RECEIVE_US_PER_MB = 300.0, 125.0, 300.0
READY_US, READY_US_PER_TENSOR = 450.0, 170.0
"""What handing a batch over costs a worker and the loop, in computing: its tensors are written to shared memory (new pages, one block
a tensor), the worker's thread passes one file descriptor a tensor on over a socket of its own, the loop unpickles and maps them,
and touches the pages for the first time. Measured with ``DataLoader``s of one worker whose batch was ready, 80 batches each of 1, 2, 4
and 8 tensors and of 10 kB to 10 MB, on two cores of a Xeon, torch 2.13. The loop's own thread computed 0.44, 0.54, 0.76 and 1.1 ms for
1, 2, 4 and 8 tensors of 0.1 MB in all, and waited 0.7, 0.8, 1.1 and 1.7; the worker computed 0.6, 1.0, 1.7 and 2.3 ms. With more
programs than cores it computed up to twice that and waited up to ten times as long, since the worker's thread has to be given a core."""
TENSORS = 2
"""Of a batch that nothing is known of: inputs and targets."""
PLAIN_WAITS = 3
"""Unprofiled waits that say how long one is."""
AGAIN = 2
"""Steps in which the loop waits, for its waits to be more than something that happens once."""
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

Wait = tuple[float, float, int, int]
"""``Facts.loader_waits``"""


@dataclass(frozen=True)
class Batches:
    """The batches that were waited for in the recorded steps."""

    count: int
    tensors: int
    """Of one batch."""
    mb: float
    """Of all of them."""

    @property
    def send_us(self) -> float:
        """Computing of the workers to hand all of them over."""
        return self.count * (SEND_US + SEND_US_PER_TENSOR * self.tensors) + SEND_US_PER_MB * self.mb

    @property
    def receive_us(self) -> float:
        """Computing of the loop to be given all of them."""
        return self.count * (RECEIVE_US + RECEIVE_US_PER_TENSOR * self.tensors) + RECEIVE_US_PER_MB * self.mb

    @property
    def ready_us(self) -> float:
        """How long the loop takes to be given all of them, which were ready, computing and waiting for the worker's thread."""
        return self.count * (READY_US + READY_US_PER_TENSOR * self.tensors) + RECEIVE_US_PER_MB * self.mb

    @property
    def least_us(self) -> float:
        """The same if each batch were one tensor."""
        return self.count * (RECEIVE_US + RECEIVE_US_PER_TENSOR) + RECEIVE_US_PER_MB * self.mb


def batches(facts: Facts, loader: LoaderInfo | None, waits: list[Wait]) -> Batches:
    """As the agent saw them; else as many tensors as usual, of the size of what was stacked in the waits."""
    tensors, size = (None, None) if loader is None else (loader.batch_tensors, loader.batch_bytes)
    mb = _collated_mb(facts) if size is None else len(waits) * size / 1e6
    return Batches(len(waits), TENSORS if tensors is None else tensors, mb)


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


def by_readiness(facts: Facts, loader: LoaderInfo | None, waits: list[Wait]) -> tuple[list[Wait], list[Wait]]:
    """Waits for a batch that was not made yet, or may not have been, and those for one that only had to be handed over."""
    if loader is None or len(loader.ready) != len(loader.waits):
        return waits, []
    ready = {facts.offset(wait.start_ns) for wait, flag in zip(loader.waits, loader.ready, strict=True) if flag}
    return [wait for wait in waits if wait[0] not in ready], [wait for wait in waits if wait[0] in ready]


def plain_share(
    facts: Facts, loader: LoaderInfo | None, waits: list[Wait], drawing: Spans | None = None
) -> float | None:
    """On a CPU, without workers: an unprofiled wait over a recorded one, at most 1, both in their middles; None where that was not
        measured. Fetching is Python, a call an item, and the recorder slows calls more than it slows arithmetic. ``drawing``: indices drawn
    meanwhile, which are then no part of either."""
    if not (facts.on_cpu and waits) or loader is None or loader.num_workers or not _measured(loader):
        return None
    plain, drawn = loader.plain_us or 0.0, drawing if drawing is not None else spans.nothing()
    recorded = median(
        end - start - spans.measure(spans.intersect(drawn, spans.of([(start, end)]))) for start, end, _, _ in waits
    )
    if drawing is not None:
        plain = max(0.0, plain - (loader.plain_drawn_us or 0.0))
    return min(1.0, plain / recorded) if recorded > 0 else None


def _measured(loader: LoaderInfo) -> bool:
    return loader.plain_us is not None and loader.plain_waits >= PLAIN_WAITS


def seen_once(facts: Facts, loader: LoaderInfo | None, waits: list[Wait]) -> bool:
    """Whether all of it lies in one step, of however many, and nothing like it was met while nothing was recorded: an epoch's
    beginning, workers that start, another program's burst. (Several workers may be late with several batches at once, and then with
    none for as many steps.)"""
    if loader is not None and (loader.plain_late >= AGAIN if loader.num_workers else _measured(loader)):
        return False
    if not facts.steps:
        return len(waits) < AGAIN
    return sum(any(start < e and end > s for start, end, _, _ in waits) for s, e in facts.steps) < AGAIN
