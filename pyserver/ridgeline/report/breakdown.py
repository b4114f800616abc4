"""Where the step goes: disjoint parts that add up to the window of a device. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from ridgeline.profile import Device, Idle, Kernel, ProfileDocument

Group = Literal["useful", "limited", "moving", "idle"]

CAUSES = {
    "launch": "launch gaps: the next kernel had not been launched",
    "sync": "waiting after a synchronisation",
    "loader": "waiting for data loading",
    "copy": "waiting around copies",
    "compile": "waiting for compilation",
    "profiler": "the profiler: at work, and what it slows on the host",
    "tail": "after the last kernel of the window",
    "other": "other host work",
}
ROUNDING = 1e-3
"""Part of a device's window below which what is left over is not shown: overlap at the window's edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    label: str
    group: Group
    us: float
    """Over the window, not per step."""


def parts(document: ProfileDocument, device: Device) -> list[Part]:
    """The window of ``device`` (its span where steps are not known) in disjoint parts, largest of a group first.

    Kernels count with their exposed time, so nothing counts twice; what several kernels share is a part of its own.
    The causes of idle time are those of the first device: for others idle time is one part.
    """
    whole = device.window_us if device.window_us is not None else device.span_us
    if whole is None:
        return []
    sums: dict[str, float] = {}
    for kernel in document.kernels:
        if kernel.device == device.id and kernel.exposed_us is not None:
            name = _place(kernel)
            sums[name] = sums.get(name, 0.0) + kernel.exposed_us
    found = [Part(name=name, label=label, group=group, us=sums.get(name, 0.0)) for name, label, group in _BUSY]
    idle = _idle(document, device, whole)
    shared = whole - sum(sums.values()) - sum(part.us for part in idle)
    if shared > ROUNDING * whole:
        found.append(Part(name="overlap", label="several kernels or copies at once", group="useful", us=shared))
    return [part for part in [*found, *sorted(idle, key=lambda part: -part.us)] if part.us > 0]


_BUSY: tuple[tuple[str, str, Group], ...] = (
    ("compute", "kernels bound by compute", "useful"),
    ("memory", "kernels bound by memory traffic", "useful"),
    ("latency", "kernels bound by latency, of at least one wave", "limited"),
    ("underfilled", "kernels of less than one wave (the device is not filled)", "limited"),
    ("unknown", "kernels whose bound is not known", "limited"),
    ("communication", "communication that nothing hides", "moving"),
    ("copies", "copies and memsets that nothing hides", "moving"),
)


def _place(kernel: Kernel) -> str:
    if kernel.category in ("memcpy", "memset"):
        return "copies"
    if kernel.category == "communication":
        return "communication"
    if kernel.launch.waves is not None and kernel.launch.waves < 1:
        return "underfilled"
    return kernel.bound


def _idle(document: ProfileDocument, device: Device, whole: float) -> list[Part]:
    share = device.window_idle_pct if device.window_us is not None else device.idle_pct
    total = (share or 0.0) / 100 * whole
    known = [(field.name, float(getattr(document.idle, field.name))) for field in fields(Idle)]
    if device is document.devices[0] and sum(us for _, us in known) > 0:
        return [Part(name=f"idle_{name}", label=CAUSES[name], group="idle", us=us) for name, us in known if us > 0]
    return [Part(name="idle", label="idle", group="idle", us=total)] if total > 0 else []
