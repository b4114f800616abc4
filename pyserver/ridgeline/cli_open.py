"""``ridgeline open RUN|TRACE``: the trace in Perfetto, from a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.cli_common import CommandError, check_seconds, say
from ridgeline.profile import Kernel, ProfileDocument

if TYPE_CHECKING:
    from ridgeline.perfetto.server import TraceServer


def run(what: str, *, kernel: str | None, browser: bool, announce: bool, idle_s: float) -> int:
    """Serves until interrupted, idle for long, or (``announce``) standard input closes. Raises :class:`CommandError`.

    ``announce`` is for editors: one JSON line with the URL on standard output, one for each link that is followed.
    """
    from ridgeline.perfetto.open import open_trace
    from ridgeline.trace.errors import TraceError

    check_seconds("--idle", idle_s)
    trace, document = _find(what)
    chosen = _kernel(document, kernel) if kernel else _hottest(document)

    def reveal(kernel_id: str) -> None:
        found = next((one for one in document.kernels if one.id == kernel_id), None) if document else None
        places = [[place.file, place.line] for place in found.source] if found else []
        print(json.dumps({"event": "reveal", "kernel": kernel_id, "places": places}), flush=True)

    try:
        server, cleaned = open_trace(
            trace, document=document, kernel=chosen, reveal=reveal if announce else None, idle_s=idle_s
        )
    except TraceError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read {trace}: {error.strerror or error}") from error
    try:
        if announce:
            ui = "local" if server.served.ui is not None else "public"
            print(json.dumps({"event": "serving", "url": server.url, "ui": ui, "notes": cleaned.notes}), flush=True)
            threading.Thread(target=_follow_stdin, args=(server,), daemon=True).start()
        else:
            for note in cleaned.notes:
                say(note)
            print(server.url, flush=True)
            _show(server.url, server.port, browser)
        server.closed.wait()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        server.close()
        shutil.rmtree(cleaned.path.parent, ignore_errors=True)
    return 0


def _follow_stdin(server: TraceServer) -> None:
    """An editor says here by which name its person's browser will ask; when it is gone, so are we."""
    for line in sys.stdin:
        try:
            host = json.loads(line)["allow"]
        except (ValueError, TypeError, KeyError):
            continue
        if isinstance(host, str):
            server.allow(host)
    server.closed.set()


def _show(url: str, port: int, browser: bool) -> None:
    if browser and (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32")
    ):
        webbrowser.open(url)
    elif os.environ.get("SSH_CONNECTION"):
        say(f"from your laptop: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE, then open the address there")
    say("open the address in a browser; Ctrl-C ends it")


def _find(what: str) -> tuple[Path, ProfileDocument | None]:
    from ridgeline import profile_io
    from ridgeline.runs.store import StoreError, resolve_run

    path = Path(what)
    if path.is_file():
        return path, None
    try:
        folder = path if (path / "trace.json.gz").is_file() else resolve_run(path).path
        trace = folder / "trace.json.gz"
        if not trace.is_file():
            raise CommandError(f"{folder} holds no trace; nothing was recorded in this run")
        return trace, profile_io.read(folder) if (folder / "profile.json").is_file() else None
    except StoreError as error:
        raise CommandError(str(error)) from error
    except profile_io.UnreadableError as error:
        raise CommandError(str(error)) from error


def _hottest(document: ProfileDocument | None) -> Kernel | None:
    return next((kernel for kernel in document.kernels if kernel.slice is not None), None) if document else None


def _kernel(document: ProfileDocument | None, wanted: str) -> Kernel:
    """By id, else by name. A trace alone has no kernels to choose from."""
    for kernel in document.kernels if document else []:
        if wanted in (kernel.id, kernel.name, kernel.symbol):
            return kernel
    raise CommandError(f"--kernel {wanted}: no such kernel in the profile; ids are in ridgeline analyze --format json")
