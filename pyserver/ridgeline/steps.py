"""What a share of the step is a share of."""

from __future__ import annotations


def undisturbed_us(recorded_us: float | None, plain_us: float | None, *, on_cpu: bool) -> float | None:
    """A step, in microseconds, as it takes without the profiler.

    The profiler slows the host, not an accelerator: kernels take as long as ever in a step that got longer, and would look
    smaller than they are. So where a plain step was measured beside the recorded ones it is the whole. On a CPU the recorded
    work got longer with its step, which stays the whole.
    """
    return recorded_us if on_cpu or plain_us is None else plain_us
