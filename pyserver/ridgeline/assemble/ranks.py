"""Several ranks of one job: who is waited for. The document itself is that of the first trace."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline import units
from ridgeline.profile import Finding
from ridgeline.trace.multi import Collective, collectives, rank_of, world_size_of
from ridgeline.trace.tables import Trace

WAIT_PCT = 10.0
"""Of communication time: below this the ranks arrive together as nearly as launches allow (TensorBoard's plugin calls
communication itself worth a word from 10 % of the step)."""


def ranks_of(traces: Sequence[Trace]) -> list[int]:
    """The ranks in the order given; their position where a trace does not say."""
    return [rank if (rank := rank_of(trace)) is not None else position for position, trace in enumerate(traces)]


def missing_ranks(traces: Sequence[Trace]) -> str | None:
    """In words, the ranks of the job whose traces are not among these; None where none is missing, or nothing is known."""
    known = {rank_of(trace) for trace in traces}
    worlds = {world_size_of(trace) for trace in traces}
    world = worlds.pop() if len(worlds) == 1 else None
    if world is None or None in known:
        return None
    absent = world - len(known)
    if absent <= 0:
        return None
    few = [str(rank) for rank in range(min(world, len(known) + 8)) if rank not in known][:8]
    which = f"{'rank' if absent == 1 else 'ranks'} {', '.join(few)}{', …' if absent > len(few) else ''}"
    return f"{which} of {world} not among the traces: what the others wait for may be there"


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
