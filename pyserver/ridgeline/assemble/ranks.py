"""Several ranks of one job: who is waited for. The document itself is that of the first trace."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline import units
from ridgeline.profile import Finding
from ridgeline.trace.multi import Collective, collectives, rank_of
from ridgeline.trace.tables import Trace

WAIT_PCT = 10.0
"""Of communication time: below this the ranks arrive together as nearly as launches allow (TensorBoard's plugin calls
communication itself worth a word from 10 % of the step)."""


def ranks_of(traces: Sequence[Trace]) -> list[int]:
    """The ranks in the order given; their position where a trace does not say."""
    return [rank if (rank := rank_of(trace)) is not None else position for position, trace in enumerate(traces)]


def straggler(traces: Sequence[Trace], steps: int | None) -> Finding | None:
    """The rank that the others wait for, if one is behind most of the waiting; it claims no saving of its own, since the
    time is already in the exposed communication."""
    found = collectives(traces)
    if not found:
        return None
    ranks = ranks_of(traces)
    waits = [sum(each.waits[i] for each in found) for i in range(len(traces))]
    transfer = sum(each.transfer for each in found)
    total = sum(waits) + transfer * len(traces)
    if total <= 0 or 100 * sum(waits) / total < WAIT_PCT:
        return None
    late = [_caused(found, i) for i in range(len(traces))]
    worst = max(range(len(traces)), key=late.__getitem__)
    per = steps or 1
    return Finding(
        code="rank-straggler",
        title=f"Rank {ranks[worst]} is waited for",
        severity="information",
        message=(
            f"Over {len(found)} collectives the transfer itself takes {units.duration(transfer / per)}"
            f"{' a step' if steps else ''}; the other ranks wait {units.duration(max(waits) / per)} more. Rank "
            f"{ranks[worst]} arrives last in {sum(each.straggler == worst for each in found)} of them: look at its work, "
            "not at the ranks whose collectives are long."
        ),
        time_us=max(waits) / per,
        evidence={
            "transfer_us": transfer,
            "wait_us_by_rank": {str(rank): wait for rank, wait in zip(ranks, waits)},
            "collectives": len(found),
            "threshold_pct": WAIT_PCT,
        },
        doc="docs/findings/rank-straggler.md",
    )


def _caused(found: Sequence[Collective], rank: int) -> float:
    """Waiting of all others in the collectives to which ``rank`` came last."""
    return sum(sum(each.waits) for each in found if each.straggler == rank)
