"""One HTML file with everything in it: data, script and style. It asks no network for anything, and its policy forbids it.

The script and style are built from ``extension/webview`` (``make web``) into ``assets/``. Whatever a trace holds is data
in a JSON block; the script puts it into the page as text only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"
MARK = "<!-- a Ridgeline report -->"
"""In the first bytes of a report, so that only a report is overwritten unasked."""

_TEMPLATE = """<!doctype html>
{mark}
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="page"><noscript>This page is drawn by its own script; with scripts off, ask for the figures with
<code>ridgeline analyze</code>.</noscript></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


class NotBuiltError(Exception):
    """The page's script is not part of this installation; the message says what to do."""


def render(data: dict[str, Any]) -> str:
    """The page of :func:`ridgeline.report.page_data.page_data`. Raises :class:`NotBuiltError`."""
    script, style = _asset("page.js"), _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    text = _TEMPLATE.format(
        mark=MARK,
        policy=policy,
        title=html.escape(f"{data['head']['title']} · Ridgeline"),
        style=style,
        data=embedded(data),
        script=script,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def embedded(data: dict[str, Any]) -> str:
    """Strict JSON in which no tag, comment or line separator of HTML or JavaScript can stand."""
    text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Half a surrogate pair is legal in JSON text of a trace and cannot be written as UTF-8.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _asset(name: str) -> str:
    try:
        text = (ASSETS / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotBuiltError(
            "this installation was made from sources without the page's script: run `make web` there (it needs npm), "
            "or install a built wheel; `ridgeline analyze` shows the same figures as text"
        ) from None
    if re.search(r"</(script|style)", text, re.IGNORECASE):
        raise NotBuiltError(f"{ASSETS / name} would end its own element: build it again with `make web`")
    return text
