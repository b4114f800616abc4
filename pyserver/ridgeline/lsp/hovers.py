"""Hovers of at most eight lines: time, bound and why, the three top kernels, one action; where the numbers come from last.

In generated code the name under the cursor is explained first, where something certain is known of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from lsprotocol import types

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.comparing import delta_of_kernel
from ridgeline.lsp.diagnostics import is_ignored, severity_of
from ridgeline.lsp.lenses import delta_of, title
from ridgeline.lsp.names import explained, explained_at
from ridgeline.lsp.navigation import generated_locations, source_locations
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.store import ShownRun
from ridgeline.lsp.views import Row, View

MAX_KERNELS = 3
MAX_LINES = 8


def text_of(server: RidgelineServer, view: View, row: Row, before: Sequence[str] = ()) -> list[str]:
    """The lines of a row's hover in markdown, after what is said ``before`` (the meaning of a name)."""
    identities: Sequence[str] = row.data.get("kernels") or row.data.get("top") or []
    kernels = [view.kernels[identity] for identity in identities if identity in view.kernels]
    kernels.sort(key=lambda kernel: -kernel["total_us"])
    name = f"`{row.data['name']}`: " if row.kind == "function" else ""
    lines = [f"**{name}{wording.escape(title(view, row, delta_of(server, view, row)))}**"]
    why = _why(row, kernels)
    if why:
        lines.append(why)
    lines += [_kernel(server, view.run, kernel) for kernel in kernels[:MAX_KERNELS]]
    count = row.data.get("kernel_count", len(kernels))
    if count > MAX_KERNELS:
        lines[-1] += f" · and {count - MAX_KERNELS} more"
    action = _action(server, view, row)
    links = _links(server, view, row, [kernel["id"] for kernel in kernels])
    last = [line for line in (action, links) if line]
    meaning = explained(kernels[0]["name"]) if kernels and not before else ""
    if meaning and len(lines) + len(last) < MAX_LINES - 1:
        lines.append(f"{wording.code(kernels[0]['name'])}: {meaning}")
    return [*[*before, *lines, *last][: MAX_LINES - 1], provenance(view.run, against(server, view.run))]


def _why(row: Row, kernels: Sequence[wording.Json]) -> str:
    """The reason of the bound, from the hottest kernel that has the row's bound."""
    for kernel in kernels:
        if kernel.get("bound_reason") and row.data.get("bound") in (kernel.get("bound"), "mixed", None):
            return wording.escape(kernel["bound_reason"], 200)
    cpu = row.data.get("cpu_us")
    return "" if kernels or cpu is None else f"{wording.duration(cpu)} on the host"


def _kernel(server: RidgelineServer, run: ShownRun, kernel: wording.Json) -> str:
    words = wording.kernel_line(kernel, run.steps, delta_of_kernel(server, run, kernel["id"]))
    return f"{wording.code(kernel['name'])} {wording.escape(wording.joined(words, wording.achieved_words(kernel)))}"


def _action(server: RidgelineServer, view: View, row: Row) -> str:
    """The one thing to do: a finding of this line, else what autotuning gains."""
    line = row.data["line"]
    for finding in view.part["findings"]:
        if finding.get("line") != line or is_ignored(finding, view.document, row.line):
            continue
        if severity_of(server, finding) is not None:
            gain = finding.get("step_gain_pct")
            words = wording.escape(finding["title"]) + (f" (up to {wording.percent(gain)} of the step)" if gain else "")
            return f"→ {words}"
    tuned = wording.tuned_words(view.tuned(row))
    return f"→ {wording.escape(tuned)}" if tuned else ""


def _links(server: RidgelineServer, view: View, row: Row, kernels: Sequence[str]) -> str:
    """Links to the generated code or the user's line, and the trace where the client runs commands from markdown."""
    links = []
    if row.kind == "place":
        for target in source_locations(server, view, kernels)[:2]:
            links.append(
                f"[{wording.escape(wording.base(target.uri))}:{target.range.start.line + 1}]({_address(target)})"
            )
    else:
        for target in generated_locations(server, view, kernels)[:1]:
            links.append(f"[generated code]({_address(target)})")
        for target in generated_locations(server, view, kernels, definitions=True)[:1]:
            links.append(f"[kernel]({_address(target)})")
    if server.wishes.commands and kernels and view.run.wire()["trace"]:
        trace = (
            protocol.CLIENT_OPEN_TRACE
            if protocol.CLIENT_OPEN_TRACE in server.wishes.commands
            else protocol.COMMAND_OPEN_TRACE
        )
        argument = quote(json.dumps([{"run": view.run.id, "kernel": kernels[0]}]), safe="")
        links.append(f"[trace](command:{trace}?{argument})")
    if protocol.CLIENT_OPEN_OVERVIEW in server.wishes.commands:
        argument = quote(json.dumps([{"run": view.run.id}]), safe="")
        links.append(f"[overview](command:{protocol.CLIENT_OPEN_OVERVIEW}?{argument})")
    return " · ".join(links)


def _address(target: types.Location) -> str:
    return f"{target.uri}#L{target.range.start.line + 1}"


def against(server: RidgelineServer, run: ShownRun) -> str:
    """What a run's ▲ and ▼ are against, where there are any."""
    compared = server.compared.get(run.id)
    return f"▲▼ against {compared.against}" if compared is not None and (compared.lines or compared.kernels) else ""


def provenance(run: ShownRun, compared: str = "") -> str:
    """*NVIDIA H200 · 20 steps · overhead 6 % · torch 2.11 · revision 1a2b3c4 · 3 h ago · ▲▼ against the run of 4 h ago*"""
    source = run.manifest.get("source") or {}
    overhead = source.get("profiler_overhead_pct")
    revision = source.get("revision")
    parts = [
        run.device or "",
        f"{run.steps} step{'s' if run.steps != 1 else ''}" if run.steps else "whole window",
        f"overhead {wording.percent(overhead)}" if overhead is not None else "",
        f"torch {source['torch']}" if source.get("torch") else "",
        f"revision {revision[:7]}" if revision else "",
        wording.age(run.info.created),
        compared,
    ]
    return f"*{wording.escape(wording.joined(*parts))}*"


def hover_at(server: RidgelineServer, uri: str, position: types.Position) -> types.Hover | None:
    view = server.view(uri)
    if view is None or not server.settings.annotations.hovers:
        return None
    rows = view.rows_at(position.line)
    # Names in a user's own code are for the language's server to explain.
    named = explained_at(view.document, position) if view.generated else None
    if named is not None:
        return _markdown(text_of(server, view, rows[0], named[0]) if rows else named[0], named[1])
    if not rows:
        return None
    row = rows[0]
    span = max(row.data.get("end", 0) - row.data["line"], 0) if row.kind == "line" else 0
    return _markdown(text_of(server, view, row), view.document.line_range(row.line, end_line=row.line + span))


def _markdown(lines: Sequence[str], where: types.Range) -> types.Hover:
    contents = types.MarkupContent(kind=types.MarkupKind.Markdown, value="  \n".join(lines))
    return types.Hover(contents=contents, range=where)


def register(server: RidgelineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: RidgelineServer, params: types.HoverParams) -> types.Hover | None:
        return hover_at(ls, params.text_document.uri, params.position)
