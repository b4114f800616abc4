"""The tree's group of changes: the step, what kind of work and which kernels changed, and which findings are gone."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.comparing import Compared
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.store import ShownRun

Json = protocol.Json
MAX_KERNELS = 8
"""Those that changed most; each kernel and line has its own ▲▼ in the other groups, lenses and hovers."""
ICONS = {"faster": "arrow-down", "slower": "arrow-up", "same": "dash", "appeared": "add", "vanished": "remove"}


def changes(server: RidgelineServer, run: ShownRun) -> protocol.TreeGroup | None:
    """``None`` where there is no earlier run, or it is still being compared."""
    compared = server.compared.get(run.id)
    if compared is None:
        return None
    items = [_item(*row) for row in _rows(compared)]
    return {"id": "changes", "label": "Changes", "description": f"against {compared.against}", "items": items}


def _rows(compared: Compared) -> Iterator[tuple[str, str, str, str]]:
    """Label, description, tooltip, icon."""
    found = compared.document
    per = "/step" if found["basis"] == "step" else ""
    # Of runs that were recorded differently nothing is said of wall time; the reason stands in its place.
    if found["step"]:
        yield _row("Step", found["step"], "")
    for reason in found["refused"]:
        yield "Wall time is not compared", reason, reason, "info"
    yield _row("Device time", found["device"], per)
    for title in found["resolved"]:
        yield "Gone", title, f"Measured again: {title} is not found any more.", "check"
    for change in found["categories"]:
        yield _row(str(change["label"]).replace("_", " "), change, per)
    for change in found["kernels"][:MAX_KERNELS]:
        renamed = f"was {change['renamed_from']}" if change.get("renamed_from") else ""
        yield _row(wording.clean_name(change["label"]), change, per, renamed)


def _row(label: str, change: Json, per: str, more: str = "") -> tuple[str, str, str, str]:
    tooltip = wording.joined(more, _noise_words(change))
    return label, _change_words(change, per), tooltip, ICONS[change["verdict"]]


def _change_words(change: Json, per: str) -> str:
    """``4.10 → 2.05 ms/step ▼ 50 %``; ``25.1 ms, no change beyond noise``; ``new, 2.05 ms``; ``gone, was 2.05 ms``."""
    before, after = change["before_us"], change["after_us"]
    if before is None:
        return f"new, {wording.duration(after)}{per}"
    if after is None:
        return f"gone, was {wording.duration(before)}{per}"
    if change["verdict"] == "same":
        return f"{wording.duration(after)}{per}, no change beyond noise"
    return f"{wording.duration(before)} → {wording.duration(after)}{per} {wording.delta_words(change)}"


def _noise_words(change: Json) -> str:
    return f"noise of both runs: ±{wording.duration(change['noise_us'])}" if change["noise_us"] is not None else ""


def _item(label: str, description: str, tooltip: str, icon: str) -> protocol.TreeItem:
    return {
        "id": f"change:{label}:{description}",
        "label": label,
        "description": description,
        "tooltip": "  \n".join(f"{wording.escape(line)}" for line in (f"{label}: {description}", tooltip) if line),
        "icon": icon,
        "contextValue": "change",
        "location": None,
        "kernel": None,
        "file": None,
    }
