"""Two profiles side by side: what changed, told from noise. Standard library only; works on decoded documents.

All times are microseconds per step where both profiles know steps, else per recorded window. A row changes only where
its two medians differ by more than the spreads of both runs explain; nothing is claimed inside that. Wall time is not
compared between runs that were recorded differently (stacks slow the host several times over): then device time is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Literal

from ridgeline.same_lines import Place, pairs

Json = Mapping[str, Any]
Verdict = Literal["faster", "slower", "same", "appeared", "vanished"]

FLOOR = 0.02
"""Relative change below which nothing is claimed: clocks and temperature move a GPU kernel by one to two per cent."""
SPREADS = 1.5
"""How many interquartile ranges (the mean of both runs') a change must exceed: the distance at which box plots call a
value an outlier (Tukey 1977)."""
FEW = 20
"""The spread of ``n`` samples counts (1 + FEW / n) times: the interquartile range of three is off by its own size, and a
profile has hundreds of rows that may each look changed by chance. Chosen so that two halves of one recording agree."""
UNKNOWN = 0.5
"""Interquartile range, relative, that a row of one or two launches is taken to have: it shows none of its own."""
RESOLUTION_US = 0.1
"""CUPTI's timestamps step by 32 ns on current devices; sums of a few such steps are not a change."""
GONE = 0.005
"""Part of the device time below which an appeared or vanished kernel is not named."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Change:
    """One row: a kernel, a line, a category, the step or the device as a whole."""

    label: str
    before_us: float | None
    after_us: float | None
    verdict: Verdict
    noise_us: float | None = None
    """What had to be exceeded."""
    key: str = ""
    """Kernel id or ``file:line`` in the later profile, where there is one."""
    renamed_from: str | None = None

    @property
    def delta_us(self) -> float:
        return (self.after_us or 0.0) - (self.before_us or 0.0)

    @property
    def delta_pct(self) -> float | None:
        return 100 * self.delta_us / self.before_us if self.before_us else None


@dataclass(slots=True, kw_only=True)
class Comparison:
    before: str
    after: str
    basis: Literal["step", "window"]
    step: Change | None
    """Wall time of a step; None where it must not be compared, with the reason in ``refused``."""
    device: Change
    """Summed device time."""
    kernels: list[Change] = field(default_factory=list)
    lines: list[Change] = field(default_factory=list)
    categories: list[Change] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    """Findings of the earlier profile that are gone, by code and place."""

    @property
    def headline(self) -> Change:
        return self.step or self.device

    @property
    def changed(self) -> bool:
        return self.headline.verdict != "same"


def compare(before: Json, after: Json) -> Comparison:
    """Both are decoded ``profile.json`` documents of schema 1."""
    steps = (_steps(before), _steps(after))
    basis: Literal["step", "window"] = "step" if all(steps) else "window"
    per = (steps[0] or 1, steps[1] or 1) if basis == "step" else (1, 1)
    refused = _refusals(before, after, basis)
    pairs, appeared, vanished = _match(before["kernels"], after["kernels"], per)
    # On a CPU all kernels share the machine with whatever else runs: what moves the steps moves every row.
    contended = max(_contention(before), _contention(after))
    wobble = (
        max(_step_spread(before), _step_spread(after), contended / SPREADS)
        if _on_cpu(before) or _on_cpu(after)
        else 0.0
    )
    device = _whole(
        "device time",
        sum(k["total_us"] for k in before["kernels"]) / per[0],
        sum(k["total_us"] for k in after["kernels"]) / per[1],
        max(wobble, _kernel_spread(before, after)),
    )
    kernels = [_kernel_change(a, b, wobble) for a, b in pairs]
    largest = max(device.before_us or 0.0, device.after_us or 0.0)
    kernels += [_alone(k, "appeared", largest) for k in appeared]
    kernels += [_alone(k, "vanished", largest) for k in vanished]
    kernels.sort(key=lambda c: -abs(c.delta_us))
    return Comparison(
        before=str(before["source"].get("path")),
        after=str(after["source"].get("path")),
        basis=basis,
        step=None if refused else _step_change(before, after, contended),
        device=device,
        kernels=kernels,
        lines=_line_changes(before["lines"], after["lines"], per, wobble),
        categories=_category_changes(before["categories"], after["categories"], per, wobble),
        refused=refused,
        resolved=_resolved(before, after),
    )


def _steps(document: Json) -> int | None:
    steps = document["source"].get("steps")
    return int(steps) if steps else None


def _on_cpu(document: Json) -> bool:
    return any(d.get("kind") == "cpu" for d in document["devices"])


def _refusals(before: Json, after: Json, basis: str) -> list[str]:
    """Why wall time is not compared, in words."""
    reasons = []
    for name, words in (("stacks", "stacks"), ("shapes", "shapes"), ("memory", "memory")):
        a = before["source"].get("recorded_with", {}).get(name)
        b = after["source"].get("recorded_with", {}).get(name)
        if bool(a) != bool(b):
            which = "the first" if a else "the second"
            reasons.append(
                f"only {which} was recorded with {words}, which slows the host; device time is compared instead"
            )
    if basis == "window":
        reasons.append("the steps of one or both are not known, so windows of different length cannot be compared")
    names = [sorted({d["name"] for d in document["devices"]}) for document in (before, after)]
    if names[0] != names[1]:
        reasons.append(f"different devices: {', '.join(names[0]) or 'none'} and {', '.join(names[1]) or 'none'}")
    return reasons


def _walls(document: Json) -> list[float]:
    return [float(s["wall_us"]) for s in document["steps"]]


def _iqr(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    q = quantiles(values, n=4, method="inclusive")
    return q[2] - q[0]


def _step_spread(document: Json) -> float:
    """Interquartile range of the steps over their median; at least that of the plain steps beside them."""
    walls = _walls(document)
    return _iqr(walls) / median(walls) if walls and median(walls) > 0 else 0.0


def _contention(document: Json) -> float:
    """How much longer host time may have become for want of a core, relative to what it would be: w / (1 - w)."""
    waited = min((document["source"].get("cpu_wait_pct") or 0.0) / 100, 0.99)
    return waited / (1 - waited)


def _kernel_spread(before: Json, after: Json) -> float:
    """Spread of the summed device time: of independent kernels, so squares add."""
    spreads = []
    for document in (before, after):
        total = sum(k["total_us"] for k in document["kernels"])
        squares = sum((k["count"] * (k["q3_us"] - k["q1_us"])) ** 2 for k in document["kernels"])
        spreads.append(squares**0.5 / total if total else 0.0)
    return max(spreads)


def _whole(label: str, before: float, after: float, spread: float) -> Change:
    noise = _noise(before, after, spread)
    return Change(label=label, before_us=before, after_us=after, verdict=_verdict(before, after, noise), noise_us=noise)


def _step_change(before: Json, after: Json, contended: float) -> Change | None:
    """Unprofiled steps where both runs have them, else the recorded ones."""
    plain = [d["totals"].get("plain_step_us") for d in (before, after)]
    walls = [_walls(before), _walls(after)]
    if not all(walls) and not all(plain):
        return None
    a, b = (float(p) if all(plain) else median(w) for p, w in zip(plain, walls))
    spread = sum(_iqr(w) * _uncertain(len(w)) for w in walls) / 2
    noise = max(FLOOR * min(a, b), SPREADS * spread, contended * max(a, b))
    return Change(label="step", before_us=a, after_us=b, verdict=_verdict(a, b, noise), noise_us=noise)


def _uncertain(samples: float) -> float:
    """What the spread of so many samples is multiplied by."""
    return 1 + FEW / max(samples, 1.0)


def _noise(before: float, after: float, spread: float) -> float:
    """``spread`` is relative, of the run that varied more, so it is taken of the larger value."""
    return max(FLOOR * min(before, after), SPREADS * spread * max(before, after))


def _verdict(before: float, after: float, noise: float) -> Verdict:
    if abs(after - before) <= max(noise, RESOLUTION_US):
        return "same"
    return "faster" if after < before else "slower"


def _shape(kernel: Json) -> tuple[Any, ...]:
    launch = kernel.get("launch") or {}
    return (kernel["category"], tuple(launch.get("grid") or ()), tuple(launch.get("block") or ()))


def _origin(kernel: Json) -> tuple[Any, ...]:
    """What a kernel does and where it comes from, whatever Inductor called it this time."""
    lines = tuple(sorted({(s["text"] or "") for s in kernel["source"] if not s.get("library")}))
    return (*_shape(kernel), tuple(sorted(kernel.get("aten") or ())), lines)


@dataclass(slots=True)
class _Row:
    """Launches that are compared as one: a kernel, or all kernels of a name where the runs split them differently (a
    CUDA graph's replay carries no shapes)."""

    name: str
    key: str
    time_us: float = 0.0
    """Medians times launches a step: one slow launch among many is no change of the kernel."""
    spread_us: float = 0.0
    launches: float = 0.0

    def add(self, kernel: Json, steps: int) -> _Row:
        count = kernel["count"] / steps
        self.time_us += kernel["median_us"] * count
        if kernel["count"] > 2:
            self.spread_us += (kernel["q3_us"] - kernel["q1_us"]) * count * _uncertain(kernel["count"])
        else:
            self.spread_us += UNKNOWN * kernel["median_us"] * count
        self.launches += count
        return self


def _row(kernels: Sequence[Json], steps: int) -> _Row:
    row = _Row(name=kernels[0]["name"], key=kernels[0]["id"])
    for kernel in kernels:
        row.add(kernel, steps)
    return row


def _by(kernels: Iterable[Json], key: Callable[[Json], Any]) -> dict[Any, list[Json]]:
    groups: dict[Any, list[Json]] = defaultdict(list)
    for kernel in kernels:
        groups[key(kernel)].append(kernel)
    return groups


def _match(
    before: Sequence[Json], after: Sequence[Json], per: tuple[int, int]
) -> tuple[list[tuple[_Row, _Row]], list[_Row], list[_Row]]:
    """Pairs (by id; by name where the ids differ; by origin where the names do), what appeared, what vanished."""
    pairs: list[tuple[_Row, _Row]] = []
    left, right = _by(before, lambda k: k["name"]), _by(after, lambda k: k["name"])
    for name in list(left.keys() & right.keys()):
        a, b = left.pop(name), right.pop(name)
        ids_a, ids_b = {k["id"]: k for k in a}, {k["id"]: k for k in b}
        if ids_a.keys() == ids_b.keys():
            pairs += [(_row([ids_a[i]], per[0]), _row([ids_b[i]], per[1])) for i in ids_b]
        else:
            pairs.append((_row(a, per[0]), _row(b, per[1])))
    rest_a = _by((k for group in left.values() for k in group), _origin)
    rest_b = _by((k for group in right.values() for k in group), _origin)
    for origin in list(rest_a.keys() & rest_b.keys()):
        pairs.append((_row(rest_a.pop(origin), per[0]), _row(rest_b.pop(origin), per[1])))
    return (
        pairs,
        [_row([k], per[1]) for group in rest_b.values() for k in group],
        [_row([k], per[0]) for group in rest_a.values() for k in group],
    )


def _kernel_change(before: _Row, after: _Row, wobble: float) -> Change:
    noise = max(
        _noise(before.time_us, after.time_us, wobble),
        SPREADS * (before.spread_us + after.spread_us) / 2,
        RESOLUTION_US * max(before.launches, after.launches),
    )
    return Change(
        label=after.name,
        before_us=before.time_us,
        after_us=after.time_us,
        verdict=_verdict(before.time_us, after.time_us, noise),
        noise_us=noise,
        key=after.key,
        renamed_from=before.name if before.name != after.name else None,
    )


def _alone(row: _Row, verdict: Verdict, whole_us: float) -> Change:
    named: Verdict = verdict if row.time_us >= GONE * whole_us else "same"
    before, after = (None, row.time_us) if verdict == "appeared" else (row.time_us, None)
    return Change(label=row.name, before_us=before, after_us=after, verdict=named, key=row.key)


def _line_changes(before: Iterable[Json], after: Iterable[Json], per: tuple[int, int], spread: float) -> list[Change]:
    """A line is the same line when its text is, wherever it has moved (:mod:`ridgeline.same_lines`)."""
    sums: tuple[dict[Place, float], dict[Place, float]] = (defaultdict(float), defaultdict(float))
    for side, rows, steps in ((0, before, per[0]), (1, after, per[1])):
        for row in rows:
            sums[side][Place(row["file"], row["line"], row.get("text") or "")] += row["device_us"] / steps
    changes = []
    for old, new in pairs(sums[0], sums[1]):
        here = new or old
        assert here is not None
        label = f"{here.name}: {here.text or here.line}"
        a, b = sums[0].get(old) if old else None, sums[1].get(new) if new else None
        changes.append(_time_change(label, a, b, spread, f"{here.file}:{here.line}"))
    return sorted(changes, key=lambda c: -abs(c.delta_us))


def _category_changes(
    before: Iterable[Json], after: Iterable[Json], per: tuple[int, int], spread: float
) -> list[Change]:
    sums: tuple[dict[str, float], dict[str, float]] = (defaultdict(float), defaultdict(float))
    for side, rows, steps in ((0, before, per[0]), (1, after, per[1])):
        for row in rows:
            sums[side][str(row["category"])] += row["time_us"] / steps
    names = dict.fromkeys([*sums[1], *sums[0]])
    changes = [_time_change(name, sums[0].get(name), sums[1].get(name), spread, name) for name in names]
    return sorted(changes, key=lambda c: -abs(c.delta_us))


def _time_change(label: str, before: float | None, after: float | None, spread: float, key: str) -> Change:
    noise = _noise(before or 0.0, after or 0.0, spread)
    verdict: Verdict = "appeared" if before is None else "vanished" if after is None else _verdict(before, after, noise)
    return Change(label=label, before_us=before, after_us=after, verdict=verdict, noise_us=noise, key=key)


def _resolved(before: Json, after: Json) -> list[str]:
    """Findings that were there and are not any more: "measured again: the bottleneck is gone"."""
    still = {(f["code"], (f.get("file") or "").rsplit("/", 1)[-1]) for f in after["findings"]}
    gone = []
    for finding in before["findings"]:
        name = (finding.get("file") or "").rsplit("/", 1)[-1]
        if finding["code"] != "summary" and finding["severity"] != "hint" and (finding["code"], name) not in still:
            gone.append(f"{finding['code']}: {finding['title']}" + (f" ({name}:{finding['line']})" if name else ""))
    return gone
