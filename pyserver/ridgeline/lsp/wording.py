"""Numbers and sentences of the editor views, in one place so that lens, hint, hover, tree and symbols agree.

Times are per step where steps are known (``4.13 ms/step``), else totals of the window (``41.3 ms``). Estimated values
carry ``~``. Markdown from a profile is escaped: names and messages may come from a trace of anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import PurePath
from typing import Any

from ridgeline.units import duration as duration
from ridgeline.units import percent as percent

Json = Mapping[str, Any]
MAX_NAME = 60


def time_of(us: float | None, steps: int | None) -> str:
    """``4.13 ms/step``, or ``41.3 ms`` without steps."""
    if us is None:
        return "-"
    return f"{duration(us / steps)}/step" if steps else duration(us)


def share_of(item: Json) -> tuple[float | None, str]:
    """The share that views lead with, in percent, and of what: of the step where it is known, else of the device's time."""
    if item.get("step_share_pct") is not None:
        return float(item["step_share_pct"]), "of step"
    if item.get("share_pct") is not None:
        split, whole = item.get("device_us") or 0.0, item.get("unsplit_us") or 0.0
        # A line's share is of its split time, so that lines add up; the time beside it is the whole.
        return float(item["share_pct"]) * (whole / split if split and whole else 1.0), "of device time"
    return None, ""


def share_words(item: Json) -> str:
    value, of = share_of(item)
    return f"{percent(value)} {of}" if value is not None else ""


def bound_words(item: Json) -> str:
    """``~memory bound``, ``mixed``, ``latency bound``; empty when it is not known. Works for rows and kernels."""
    bound = item.get("bound")
    if bound in (None, "unknown"):
        return ""
    estimated = item["estimated"] if "estimated" in item else item.get("bound_source") != "counters"
    mark = "~" if estimated else ""
    return f"{mark}mixed" if bound == "mixed" else f"{mark}{bound} bound"


def shared_words(lines: Sequence[int]) -> str:
    """``shared with L42–43, L50`` from one-based line numbers."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    if not runs:
        return ""
    names = [f"L{first}" if first == last else f"L{first}–{last}" for first, last in runs[:4]]
    return "shared with " + ", ".join(names) + (" …" if len(runs) > 4 else "")


def joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def delta_words(change: Json | None) -> str:
    """``▼ 12 %`` faster, ``▲ 8 %`` slower than before, ``new``; empty within the noise."""
    if change is None or change["verdict"] not in ("faster", "slower", "appeared"):
        return ""
    if change["verdict"] == "appeared":
        return "new"
    before, after = change.get("before_us"), change.get("after_us")
    if not before or after is None:
        return ""
    percent = 100.0 * abs(after - before) / before
    return f"{'▼' if change['verdict'] == 'faster' else '▲'} {percent:.0f} %"


def joined_by_space(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def tuned_words(tuned: Json | None) -> str:
    """``1.30× with another configuration`` if verified, ``~1.3× predicted`` if not; empty without a gain."""
    if not tuned or not tuned.get("speedup") or tuned["speedup"] <= 1.0:
        return ""
    if tuned.get("status") == "verified":
        return f"autotune: {tuned['speedup']:.2f}× verified"
    return f"autotune: ~{tuned['speedup']:.1f}× predicted" if tuned.get("status") == "candidate" else ""


def age(created: float) -> str:
    """``just now``, ``12 min ago``, ``3 h ago``, ``5 days ago``, from unix seconds."""
    seconds = datetime.now(timezone.utc).timestamp() - created
    if not created or seconds < 0:
        return ""
    for limit, unit, name in ((60, 0, "just now"), (3600, 60, "min ago"), (48 * 3600, 3600, "h ago")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name}" if unit else name
    return f"{int(seconds // 86400)} days ago"


_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#])")


def clean_name(name: str, limit: int = MAX_NAME) -> str:
    """A kernel's or frame's name on one line: without memory addresses, shortened in the middle."""
    name = _ADDRESS.sub("0x…", " ".join(name.split()))
    if len(name) <= limit:
        return name
    keep = limit - 1
    return name[: keep - keep // 3] + "…" + name[len(name) - keep // 3 :]


def escape(text: str, limit: int = 400) -> str:
    """Text as markdown shows it literally, on one line."""
    text = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", text if len(text) <= limit else text[: limit - 1] + "…")


def code(text: str, limit: int = MAX_NAME) -> str:
    """Inline code; a backtick cannot end it early."""
    return "`" + clean_name(text, limit).replace("`", "'") + "`"


def base(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name


def kernel_line(kernel: Json, steps: int | None, delta: str = "") -> str:
    """Description of a kernel: ``2.10 ms/step ▼ 12 % · 8.1 % of step · ~memory bound``."""
    time = joined_by_space(time_of(kernel.get("total_us"), steps), delta)
    return joined(time, share_words(kernel), bound_words(kernel))


def achieved_words(kernel: Json) -> str:
    """What the bound rests on: ``84 % of memory bandwidth``, ``61 % of compute peak``."""
    mark = "" if kernel.get("bound_source") == "counters" else "~"
    if kernel.get("bound") == "memory" and kernel.get("memory_pct") is not None:
        return f"{mark}{percent(kernel['memory_pct'])} of memory bandwidth"
    if kernel.get("bound") == "compute" and kernel.get("compute_pct") is not None:
        return f"{mark}{percent(kernel['compute_pct'])} of compute peak"
    return ""


def benched_words(row: Json) -> str:
    """Of a kernel that was measured by itself: ``8.02 µs alone (warm), 9.10 µs (cold) · 2810 GB/s · autotune: 1.30× verified``."""
    if row.get("problem"):
        return f"not measured: {row['problem']}"
    times = [(state, (row.get(state) or {}).get("median_us")) for state in ("warm", "cold")]
    said = ", ".join(f"{duration(us)} ({state})" for state, us in times if us is not None)
    rates = [(row.get(state) or {}).get("gb_per_s") for state in ("cold", "warm")]
    rate = next((f"{rate:.4g} GB/s" for rate in rates if rate), "")
    tuned = row.get("autotune") or {}
    gain = f"autotune: {tuned['sentence']}" if tuned.get("sentence") else ""
    if tuned.get("state") == "verified":
        gain = f"autotune: {tuned['speedup']:.2f}× verified"
    notes = [str((row.get(state) or {}).get("note") or "") for state in ("warm", "cold")]
    crowded = any("without a core" in note for note in notes)
    doubt = "too long: the machine is busy" if crowded else "unsteady" if any("unsteady" in n for n in notes) else ""
    return joined(f"alone: {said}" if said else "below the timer's resolution", rate, gain, doubt)
