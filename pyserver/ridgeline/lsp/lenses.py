"""Code lenses: time per step, share, bound, above hot lines, functions, and places of generated code."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lsprotocol import types

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.comparing import delta_of_kernel, delta_of_line
from ridgeline.lsp.documents import Document
from ridgeline.lsp.navigation import targets_of
from ridgeline.lsp.places import plain
from ridgeline.lsp.server import Plain, RidgelineServer
from ridgeline.lsp.settings import AnnotationSettings
from ridgeline.lsp.views import Row, View

MAX_HEAD = 200
"""Lines in which generated code says what it is."""
_DEFINITION = re.compile(r"(?P<name>\w+) = async_compile\.(?:triton|cpp\w*)\(")
_OWN_KERNEL = re.compile(r"\s*def (?P<name>\w+)\(")
"""Below ``@triton.jit``."""


def chosen_rows(view: View, settings: AnnotationSettings) -> list[Row]:
    """Rows worth a lens: at least ``minimumPercent``, at most ``maximumLenses``, the hottest ones, in the order of lines.

    A function gets one only where several of its lines do not already tell its story: it must hold two rows or more (the
    index sees to that). Of two rows on one line (a function of one line, say) the line's own stays.
    """
    by_line: dict[int, Row] = {}
    for row in view.rows(settings.minimumPercent):
        known = by_line.get(row.line)
        if known is None and len(by_line) >= settings.maximumLenses:
            break
        if known is None or (known.kind == "function" and row.kind == "line"):
            by_line[row.line] = row
    return [by_line[line] for line in sorted(by_line)]


def title(view: View, row: Row, delta: str = "") -> str:
    """``4.13 ms/step · 16 % of step · ~memory bound · shared with L42–43``, without what is not known.

    ``delta``: how the row changed since the run before, in words.
    """
    data, steps = row.data, view.run.steps
    parts = [wording.joined_by_space(wording.time_of(row.time_us, steps), delta), wording.share_words(data)]
    if row.kind == "place":
        kernels = [view.kernels[identity] for identity in data["kernels"]]
        parts += [_bound_of_place(kernels), _origin(kernels)]
    else:
        parts.append(wording.bound_words(data))
        parts.append(wording.shared_words([_now(view, line) for line in data.get("shared_with") or []]))
        if row.kind == "function" or data.get("granularity") == "function":
            parts.append("whole function")
    tuned = view.tuned(row)
    if tuned and tuned.get("status") == "verified":
        parts.append(wording.tuned_words(tuned))
    if row.stale:
        parts.append("edited since")
    return wording.joined(*parts)


def delta_of(server: RidgelineServer, view: View, row: Row) -> str:
    """How a row's time changed since the run before (or the baseline), where that is more than noise."""
    if row.kind == "line":
        return delta_of_line(server, view.run, view.part["path"], row.data["line"])
    # A place of several kernels has no one change; each kernel's own stands in the hover.
    kernels = row.data["kernels"] if row.kind == "place" else []
    return delta_of_kernel(server, view.run, kernels[0]) if len(kernels) == 1 else ""


def _now(view: View, line: int) -> int:
    """A one-based line of the profiled text as it is numbered now."""
    where = view.line_of(line)
    return where[0] + 1 if where is not None else line


def _bound_of_place(kernels: Iterable[wording.Json]) -> str:
    words = {wording.bound_words(kernel) for kernel in kernels}
    return words.pop() if len(words) == 1 else ("mixed" if words - {""} else "")


def _origin(kernels: Iterable[wording.Json]) -> str:
    """``from model.py:41`` (and how many more lines), the user's lines before library ones."""
    own: dict[str, None] = {}
    other: dict[str, None] = {}
    for kernel in kernels:
        for source in kernel.get("source") or []:
            if source.get("line"):
                (other if source.get("library") else own)[f"{wording.base(source['file'])}:{source['line']}"] = None
    names = list(own) or list(other)
    if not names:
        return ""
    return f"from {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def lenses(server: RidgelineServer, uri: str) -> list[protocol.Json]:
    """Code lenses as JSON: a file may have two hundred, and they are asked for after every edit."""
    if not server.settings.annotations.lenses:
        return []
    view, found = server.view(uri), workbench(server, uri)
    if view is None:
        return found
    for row in chosen_rows(view, server.settings.annotations):
        at = {"line": row.line, "character": 0}
        words = title(view, row, delta_of(server, view, row))
        found.append({"range": {"start": at, "end": at}, "command": command_for(server, view, row, words)})
    return found


def workbench(server: RidgelineServer, uri: str) -> list[protocol.Json]:
    """What can be done with generated code, above its first line; above each kernel its benchmark, or what was measured.

    A person's own file has the latter above its Triton kernels, once a run knows how they were launched.
    """
    document = server.documents.get(uri)
    if document is None:
        return []
    kind = generated_kind(document)
    if kind is None:
        return _above_kernels(server, uri, document, _OWN_KERNEL) if server.view(uri) is not None else []
    view, argument = server.view(uri), {"uri": uri}
    profile = protocol.CLIENT_PROFILE if protocol.CLIENT_PROFILE in server.wishes.commands else protocol.COMMAND_PROFILE
    offers = [("Profile this module", profile)] if kind == "module" else []
    offers += [("Benchmark", protocol.COMMAND_BENCHMARK), ("Verify autotune", protocol.COMMAND_VERIFY)]
    found = [_plain_lens(0, words, command, argument) for words, command in offers if server.trusted]
    if view is not None and view.run.wire()["trace"]:
        openers = [name for name in (protocol.CLIENT_OPEN_TRACE,) if name in server.wishes.commands]
        command = [*openers, protocol.COMMAND_OPEN_TRACE][0]
        found.append(_plain_lens(0, "Open in Perfetto", command, {"run": view.run.id}))
    return found + _above_kernels(server, uri, document, _DEFINITION if kind == "module" else None)


def _above_kernels(
    server: RidgelineServer, uri: str, document: Document, kernel: re.Pattern[str] | None
) -> list[protocol.Json]:
    """Above each kernel of the text, as many as a file may have lenses: its benchmark, or what that measured."""
    measured, found = dict(server.benched.get(uri, {})), list[protocol.Json]()
    jitted = None
    for number, row in enumerate(document.lines if kernel is not None else ()):
        if row.lstrip().startswith("@triton.jit"):
            jitted = number
        match = kernel.match(row) if kernel is not None else None
        if match is None or (kernel is _OWN_KERNEL and jitted is None):
            continue
        words = measured.pop(number, None) or ("Benchmark" if server.trusted else None)
        if words is not None and len(found) < server.settings.annotations.maximumLenses:
            argument = {"uri": uri, "name": match["name"]}
            found.append(_plain_lens(number, words, protocol.COMMAND_BENCHMARK, argument))
        jitted = None
    rest = [(line, words) for line, words in measured.items() if line < len(document.lines)]
    return found + [_plain_lens(line, words, protocol.COMMAND_BENCHMARK, {"uri": uri}) for line, words in rest]


def generated_kind(document: Document) -> str | None:
    """``module`` or ``kernel`` for what Inductor generated, by what it writes into every such file."""
    head = document.lines[:MAX_HEAD]
    if any(line.startswith("# AOT ID:") for line in head):
        return "module"
    return "kernel" if any(line.startswith("@triton_heuristics.") for line in head) else None


def _plain_lens(line: int, words: str, command: str, argument: protocol.Json) -> protocol.Json:
    at = {"line": line, "character": 0}
    named = {"title": words, "command": command, "arguments": [argument]}
    return {"range": {"start": at, "end": at}, "command": named}


def command_for(server: RidgelineServer, view: View, row: Row, words: str) -> protocol.Json:
    """What a click on a row does: to the generated code of a user's line, to the user's line of generated code."""
    uri = view.document.uri
    argument: protocol.Json
    if protocol.CLIENT_GO_TO in server.wishes.commands:
        argument = {
            "uri": uri,
            "position": {"line": row.line, "character": 0},
            "locations": [plain(location) for location in targets_of(server, view, row)],
            "title": words,
        }
        return {"title": words, "command": protocol.CLIENT_GO_TO, "arguments": [argument]}
    argument = {"uri": uri, "line": row.line, "what": "source" if row.kind == "place" else "kernels"}
    return {"title": words, "command": protocol.COMMAND_SHOW, "arguments": [argument]}


def register(server: RidgelineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def code_lens(ls: RidgelineServer, params: types.CodeLensParams) -> Plain:
        return Plain(lenses(ls, params.text_document.uri))
