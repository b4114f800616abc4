"""The tree of hot kernels, lines and findings, for clients that have a place for one."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.changes import changes
from ridgeline.lsp.comparing import delta_of_kernel, delta_of_line
from ridgeline.lsp.diagnostics import SEVERITIES, severity_of
from ridgeline.lsp.heat import bucket_of
from ridgeline.lsp.hot import place_of, sorted_kernels
from ridgeline.lsp.hovers import provenance
from ridgeline.lsp.names import explained
from ridgeline.lsp.places import is_file_name
from ridgeline.lsp.server import Listener, RidgelineServer
from ridgeline.lsp.store import ShownRun

MAX_ITEMS = 100


def tree(server: RidgelineServer, sort: str = "time", filter_text: str = "") -> protocol.Tree:
    run = server.library.newest()
    if run is None:
        return {"run": None, "note": None, "groups": []}
    hot, counts = run.hot(), run.manifest.get("counts") or {}
    kernels = [kernel_item(server, run, kernel) for kernel in sorted_kernels(hot["kernels"], sort)]
    lines = [_line_item(server, run, line) for line in hot["lines"] if line.get("unsplit_us")]
    findings = [_finding_item(server, run, f) for f in hot["findings"] if severity_of(server, f) is not None]
    changed = changes(server, run)
    groups: list[protocol.TreeGroup] = []
    if changed is not None:
        groups.append({**changed, "items": [item for item in changed["items"] if _has(item, filter_text)]})
    for group, label, items, count in (
        ("kernels", "Kernels", kernels, counts.get("kernels")),
        ("lines", "Lines", lines, counts.get("lines")),
        ("findings", "Findings", findings, len(findings)),
    ):
        shown = [item for item in items if _has(item, filter_text)][:MAX_ITEMS]
        description = str(count) if not filter_text else f"{len(shown)} of {count}"
        groups.append({"id": group, "label": label, "description": description, "items": shown})  # type: ignore[typeddict-item]
    return {"run": run.wire(), "note": _note(run), "groups": groups}


def _note(run: ShownRun) -> str:
    """One line above the tree: the device, the step, when; and the first thing to know before trusting a number."""
    step = run.step_us
    parts = [
        run.device or "",
        f"{wording.duration(step)} per step" if step and run.steps else "",
        wording.age(run.info.created),
    ]
    warnings = (run.manifest.get("quality") or {}).get("warnings") or []
    return wording.joined(*parts, *[" ".join(str(warning["message"]).split())[:120] for warning in warnings[:1]])


def _has(item: protocol.TreeItem, text: str) -> bool:
    text = text.lower().strip()
    return text in f"{item['label']} {item['description']} {item['tooltip']}".lower()


def kernel_item(server: RidgelineServer, run: ShownRun, kernel: wording.Json) -> protocol.TreeItem:
    generated = [
        place_of(server, run, g["file"], g.get("line") or (g.get("calls") or [1])[0])
        for g in kernel.get("generated") or []
    ]
    places = [place for place in generated if place is not None]
    sources = [place_of(server, run, s["file"], s["line"]) for s in kernel.get("source") or [] if s.get("line")]
    words = wording.kernel_line(kernel, run.steps, delta_of_kernel(server, run, kernel["id"]))
    lines = [
        f"**{wording.escape(wording.clean_name(kernel['name'], 200))}**",
        wording.escape(words),
        wording.escape(kernel.get("bound_reason") or "", 200),
        explained(kernel["name"]),
        wording.escape(wording.joined(f"{kernel['count']} launches", str(kernel["category"]).replace("_", " "))),
        _source_words(kernel, any(sources)),
        provenance(run),
    ]
    return {
        "id": f"kernel:{kernel['id']}",
        "label": wording.clean_name(kernel["name"]),
        "description": words,
        "tooltip": "  \n".join(line for line in lines if line),
        "icon": "symbol-event" if kernel["category"] in ("memcpy", "memset", "communication") else "symbol-function",
        "contextValue": "kernel",
        "location": next((s for s in sources if s is not None), places[0] if places else None),
        "kernel": kernel["id"],
        "file": places[0]["uri"] if places else None,
    }


def _source_words(kernel: wording.Json, linked: bool) -> str:
    names = [f"{wording.base(s['file'])}:{s['line']}" for s in (kernel.get("source") or [])[:3] if s.get("line")]
    if not names:
        return "no source line known"
    missing = "" if linked or not is_file_name(str(kernel["source"][0]["file"])) else " (not in this workspace)"
    return wording.escape("from " + ", ".join(names) + missing)


def _line_item(server: RidgelineServer, run: ShownRun, line: wording.Json) -> protocol.TreeItem:
    delta = delta_of_line(server, run, str(line["file"]), int(line["line"]))
    time = wording.joined_by_space(wording.time_of(line.get("unsplit_us"), run.steps), delta)
    where = place_of(server, run, str(line["file"]), int(line["line"]))
    words = wording.joined(time, wording.share_words(line), wording.bound_words(line))
    place = f"{line['file']}:{line['line']}" + (
        "" if where or not is_file_name(line["file"]) else " (not in this workspace)"
    )
    tooltip = [
        wording.code((line.get("text") or "").strip(), 120) if line.get("text") else "",
        wording.escape(words),
        wording.escape(place),
    ]
    return {
        "id": f"line:{line['file']}:{line['line']}",
        "label": f"{wording.base(str(line['file']))}:{line['line']}",
        "description": wording.joined(words, (line.get("text") or "").strip()[:60]),
        "tooltip": "  \n".join([*[part for part in tooltip if part], provenance(run)]),
        "icon": "flame"
        if bucket_of(float(line.get("step_share_pct") or line.get("share_pct") or 0.0)) >= 3
        else "symbol-event",
        "contextValue": "line",
        "location": where,
        "kernel": next(iter(line.get("top") or []), None),
        "file": None,
    }


def _kernel_of(run: ShownRun, finding: protocol.Json) -> str | None:
    """What a trace is opened at for a finding: the kernel that it names, else the hottest of its line."""
    named = (finding.get("evidence") or {}).get("kernel")
    if any(kernel["id"] == named for kernel in run.hot()["kernels"]):
        return str(named)
    place = (finding.get("file"), finding.get("line"))
    tops = (line.get("top") or [] for line in run.hot()["lines"] if (line["file"], line["line"]) == place)
    return next((top[0] for top in tops if top), None)


def _finding_item(server: RidgelineServer, run: ShownRun, finding: protocol.Json) -> protocol.TreeItem:
    severity = severity_of(server, finding)
    icon = {SEVERITIES["warning"]: "warning", SEVERITIES["error"]: "error"}.get(severity or SEVERITIES["hint"], "info")
    gain = finding.get("step_gain_pct")
    file, line = finding.get("file"), finding.get("line")
    return {
        "id": f"finding:{finding['code']}:{file or ''}:{line or 0}",
        "label": finding["title"],
        "description": wording.joined(
            f"~{wording.percent(gain)} of step" if gain else "", f"{wording.base(file)}:{line}" if file and line else ""
        ),
        "tooltip": "  \n".join(
            [f"**{wording.escape(finding['title'])}**", wording.escape(finding.get("message") or ""), provenance(run)]
        ),
        "icon": icon,
        "contextValue": "finding",
        "location": place_of(server, run, file, line) if file and line else None,
        "kernel": _kernel_of(run, finding),
        "file": None,
    }


@dataclass
class Sender(Listener):
    """Pushes the tree when another run is shown."""

    server: RidgelineServer
    sent: str | None = None

    def shown(self, uris: set[str], reason: protocol.Reason) -> None:
        if not self.server.wishes.tree:
            return
        run = self.server.library.newest()
        if reason != "restored" or (run.id if run else None) != self.sent:
            self.sent = run.id if run else None
            self.server.tell(protocol.TREE, tree(self.server))

    def compared(self, run: ShownRun) -> None:
        if self.server.wishes.tree and run.id == self.sent:
            self.server.tell(protocol.TREE, tree(self.server))


def register(server: RidgelineServer) -> None:
    server.listeners.append(Sender(server))

    @server.feature(protocol.TREE)
    def on_tree(ls: RidgelineServer, params: protocol.Json) -> protocol.Tree:
        return tree(ls, str(params.get("sort") or "time"), str(params.get("filter") or ""))
