"""Whether a search of configurations is worth it: measured in alternating rounds, and never a slower one recommended.

The kernel as compiled is compared with two copies: the narrow search is what the narrow remedy switches on, the wider one
begins at the best of several configurations. Two rounds of each show drift (clocks, temperature): what a copy differs by
between its rounds counts as spread, as does the scatter within a round.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

LEAST_GAIN = 0.05
"""Below 5 % a gain is not worth a longer compilation, whatever the spread."""
NARROW = 'torch.compile(..., options={"coordinate_descent_tuning": True})'
WIDER = 'torch.compile(..., options={"coordinate_descent_tuning": True, "max_autotune_pointwise": True})'
WIDE = 'torch.compile(..., mode="max-autotune-no-cudagraphs")'
LAST_BITS = "a reduction may add in another order, so the last bits of its result may change"

State = Literal["verified", "no_gain"]


@dataclass(slots=True, frozen=True, kw_only=True)
class Verdict:
    state: State
    before_us: float
    after_us: float
    speedup: float
    """before / after: below 1 the search picked a slower one."""
    spread: float
    """What the gain has to exceed, as a part of the time."""
    sentence: str
    config: str | None = None
    """The faster configuration; None unless verified."""
    step_gain: float | None = None
    """Of the whole step: exposed share x (1 - 1/speedup); None without a profile."""
    compile_s: float | None = None
    remedy: str | None = None
    wider: str | None = None
    """The wide switch, which also changes the GEMM backends."""
    caution: str | None = None


def judge(
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    *,
    config: str | None = None,
    exposed_share: float | None = None,
    compile_s: float | None = None,
    reduces: bool = False,
    within: Sequence[float] = (),
    searched: str = "the wider search",
    remedy: str = NARROW,
) -> Verdict:
    """``before`` and ``after`` are the rounds of A and of B (any unit of time, the same for both; reported as microseconds).

    ``within`` are further spreads known from elsewhere (as parts). Verified only if before/after - 1 exceeds both the
    spread and 5 %. Raises ``ValueError`` without positive samples.
    """
    a, b = median_of(before), median_of(after)
    speedup = a / b
    spread = spread_of(before, after, within=within)
    gain = speedup - 1
    if gain > max(spread, LEAST_GAIN):
        return Verdict(
            state="verified",
            before_us=a,
            after_us=b,
            speedup=speedup,
            spread=spread,
            sentence=f"{speedup:.2f}x faster with {searched}",
            config=config,
            step_gain=step_gain(speedup, exposed_share),
            compile_s=compile_s,
            remedy=remedy,
            wider=f"{WIDE} searches more, and also changes the GEMM backends",
            caution=LAST_BITS if reduces else None,
        )
    if -gain > max(spread, 0.0) and speedup < 1:
        sentence = f"{searched} is {1 / speedup:.2f}x slower here: leave it off"
    elif gain > LEAST_GAIN:
        sentence = f"no gain that exceeds the spread of {spread:.0%}"
    else:
        sentence = f"no gain worth it ({gain:+.1%})"
    return Verdict(
        state="no_gain", before_us=a, after_us=b, speedup=speedup, spread=spread, sentence=sentence, compile_s=compile_s
    )


@dataclass(slots=True, frozen=True, kw_only=True)
class Copy:
    """One of the copies, measured: ``rounds`` of samples in microseconds, and seconds until it had run once."""

    rounds: list[list[float]]
    config: str | None = None
    compile_s: float = 0.0


def recommend(
    plain: Copy,
    narrow: Copy,
    wider: Copy,
    *,
    within: Sequence[float] = (),
    exposed_share: float | None = None,
    reduces: bool = False,
) -> tuple[Verdict, list[dict[str, Any]]]:
    """(the verdict with its remedy, both searches in short). The narrow one, unless the wider one's gain over it is real too."""

    def judged(before: Copy, after: Copy, searched: str, remedy: str) -> Verdict:
        return judge(
            before.rounds,
            after.rounds,
            config=after.config,
            exposed_share=exposed_share,
            compile_s=max(0.0, after.compile_s - plain.compile_s),
            reduces=reduces,
            within=within,
            searched=searched,
            remedy=remedy,
        )

    first = judged(plain, narrow, "coordinate descent", NARROW)
    second = judged(plain, wider, "the wider search", WIDER)
    better = second.state == "verified" and (
        first.state != "verified" or judged(narrow, wider, "the wider search", WIDER).state == "verified"
    )
    searches = [
        {"search": name, "us": one.after_us, "speedup": one.speedup, "spread": one.spread, "state": one.state,
         "config": copy.config, "compile_s": one.compile_s}
        for name, one, copy in (("narrow", first, narrow), ("wider", second, wider))
    ]  # fmt: skip
    return (second if better else first), searches


def step_gain(speedup: float, exposed_share: float | None) -> float | None:
    """Part of the step's time that is saved: Amdahl on what the kernel does not hide behind other work."""
    return None if exposed_share is None else exposed_share * (1 - 1 / speedup)


def fixed_configuration(heuristic: str, configurations: int | None) -> str | None:
    """A kernel that Inductor never tunes: flagged as a candidate, verified by a second measurement only."""
    if heuristic == "foreach" and (configurations or 1) <= 1:
        return "autotune candidate: foreach kernel with a fixed config"
    return None


def spread_of(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], *, within: Sequence[float] = ()
) -> float:
    """What a difference of A and B has to exceed, as a part of the time: scatter within rounds, drift between them."""
    return max([*(_scatter(r) for r in (*before, *after)), _drift(before), _drift(after), *within])


def median_of(rounds: Sequence[Sequence[float]]) -> float:
    """Raises ``ValueError`` where it is not above zero."""
    values = [value for samples in rounds for value in samples]
    if not values or statistics.median(values) <= 0:
        raise ValueError("no time above the timer's resolution: nothing to compare")
    return statistics.median(values)


def _scatter(samples: Sequence[float]) -> float:
    """Interquartile range (of four samples or more, else the whole range) as a part of the median."""
    if len(samples) < 2:
        return 0.0
    if len(samples) < 4:
        return (max(samples) - min(samples)) / statistics.median(samples)
    q1, middle, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return (q3 - q1) / middle


def _drift(rounds: Sequence[Sequence[float]]) -> float:
    medians = [statistics.median(samples) for samples in rounds if samples]
    return (max(medians) - min(medians)) / min(medians) if len(medians) > 1 else 0.0
