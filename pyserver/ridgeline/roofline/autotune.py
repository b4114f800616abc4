"""Which kernels are likely to gain from a wider search of configurations. A hint until a benchmark has verified it.

On an H200, of Inductor's kernels that ran longer than 3 us and were not memory bound, reductions (rows of 32 bytes, one
warp a row, split reductions) and pointwise kernels whose index is divided gained in more than half of the cases, up to
1.65 times; plain pointwise kernels almost never did, whatever their rate.
"""

from __future__ import annotations

from ridgeline.profile import Bound
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.triton_model import Analysis

SHORTEST_US = 3.0
REDUCTIONS = {"reduction", "persistent_reduction", "split_scan", "cooperative_reduction", "mix_order_reduction"}


def candidate(kernel: KernelInput, analysis: Analysis, bound: Bound) -> bool:
    """Whether to offer a verification. Kernels of a user's own autotuner, and those that coordinate descent has tuned
    already, are none."""
    source = analysis.source
    if not source.by_inductor or kernel.duration_us <= SHORTEST_US or bound == "memory":
        return False
    if (kernel.best_config or {}).get("found_by_coordesc"):
        return False
    divided = any(o.name in ("index_divide", "index_shift") and o.axes for o in analysis.tally.operations)
    return source.heuristic in REDUCTIONS or (source.heuristic == "pointwise" and divided)
