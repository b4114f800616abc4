"""**Time this expression**: what is selected, under ``ridgeline time`` in the user's interpreter, and its time beside the line.

A selection names things that exist only while its program runs. What is known without running it goes into the setup: the
file's imports of the names that are used, and whatever stands in comments ``# ridgeline: setup x = torch.randn(8, 8)``.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol, wording
from ridgeline.lsp.benching import answer, refused, run_tool
from ridgeline.lsp.commands import one_object
from ridgeline.lsp.documents import Document, Edit
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.profiling import refuse, require_trust
from ridgeline.lsp.requests import RequestError, Where, environment, interpreter
from ridgeline.lsp.server import RidgelineServer
from ridgeline.lsp.settings import SettingError
from ridgeline.lsp.tools import Tool, cli_command

Json = protocol.Json
MAX_SHOWN = 60
MAX_SAID = 2
"""Findings that a message repeats."""
_SETUP = re.compile(r"^\s*#\s*ridgeline:\s*setup\s+(?P<code>\S.*)$")
_MISSING = re.compile(r"NameError: name '(\w+)' is not defined")


@dataclass(slots=True)
class Timed:
    """A measurement beside a zero-based line of an open document; it goes when one of its lines is edited."""

    first: int
    last: int
    result: Json

    def follow(self, edit: Edit) -> bool:
        """Moves with the text; whether it still stands."""
        end = edit.first + len(edit.old) - 1
        if self.first <= end and edit.first <= self.last:
            return self._kept(edit)
        if end < self.first:
            self.first += len(edit.new) - len(edit.old)
            self.last += len(edit.new) - len(edit.old)
        return True

    def _kept(self, edit: Edit) -> bool:
        """An edit of whole lines may touch the measured ones without changing them: text inserted right before or after."""
        lines = range(self.first - edit.first, self.last - edit.first + 1)
        if lines[0] < 0 or lines[-1] >= len(edit.old):
            return False
        mine = [edit.old[i] for i in lines]
        for shift in (0, len(edit.new) - len(edit.old)):
            low = lines[0] + shift
            if low >= 0 and edit.new[low : low + len(mine)] == mine:
                self.first, self.last = self.first + shift, self.last + shift
                return True
        return False


def statement_of(document: Document, selected: types.Range) -> str | None:
    """The selection as code that can be timed; ``None`` for a bare name, a constant, and what is no Python.

    ``return f(x)`` becomes ``f(x)``; indented lines lose their common indentation.
    """
    last = min(selected.end.line, len(document.lines) - 1)
    if selected.start.line > last:
        return None
    lines = document.lines[selected.start.line : last + 1]
    lines[-1] = lines[-1][: document.column(last, selected.end.character)] if last == selected.end.line else lines[-1]
    start = document.column(selected.start.line, selected.start.character)
    indent = len(lines[0]) - len(lines[0].lstrip())
    lines[0] = lines[0] if start <= indent else " " * indent + lines[0][start:]
    code = textwrap.dedent("\n".join(lines)).strip()
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not body:
        return None
    only = body[0]
    if len(body) == 1 and isinstance(only, ast.Return) and only.value is not None:
        code, only = ast.unparse(only.value), ast.Expr(only.value)
    bare = len(body) == 1 and isinstance(only, ast.Expr) and isinstance(only.value, (ast.Name, ast.Constant))
    return None if bare else code


def setup_of(document: Document, statement: str, given: str | None = None) -> str:
    """What runs once before: the imports that bind names used here, the setup comments, and what the request gives."""
    comments = [match["code"].rstrip() for line in document.lines if (match := _SETUP.match(line))]
    setup = [*comments, *([given] if given else [])]
    return "\n".join([*_imports(document, "\n".join([*setup, statement])), *setup]) or "pass"


def _imports(document: Document, used_in: str) -> list[str]:
    """The file's top-level absolute imports that bind a name of the code."""
    try:
        tree, code = ast.parse("\n".join(document.lines)), ast.parse(used_in)
    except (SyntaxError, ValueError, RecursionError):
        return []
    used = {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            names = [a for a in node.names if (a.asname or a.name.split(".", 1)[0]) in used]
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            if names and not future:
                node.names = names
                found.append(ast.unparse(node))
    return found


async def time_expression(server: RidgelineServer, params: Json) -> Json:
    """As ``ridgeline/profile``; ``result`` is the document of ``ridgeline time --format json``."""
    require_trust(server)
    if server.runner is not None:
        raise refuse("already-running", "a run is in progress; one at a time keeps the numbers honest")
    uri = str(params.get("uri"))
    document, path = server.documents.get(uri), server.path_of(uri)
    selected = _selected(params.get("range"))
    try:
        if document is None or path is None or selected is None:
            raise RequestError("no-target", "there is nothing selected to time", "select an expression or statements")
        statement = statement_of(document, selected)
        if statement is None:
            raise RequestError("no-target", "the selection is no expression or statement that could be timed")
        where = Where(Path(path), folder_of(Path(path), server.places.folders))
        own = server.settings_of(path)
        python = str(interpreter(params, own, where))
        setup = setup_of(document, statement, params.get("setup"))
        options = ["--setup", setup, "--python", python, "--cwd", str(Path(path).parent), "--format", "json"]
        command = await cli_command(server, params, "time", *options, "--", statement)
        tool = Tool(command, environment=environment(params, own.run, where))
        found = await run_tool(server, tool, title=f"Timing {_short(statement)}", failed="time-failed")
    except RequestError as error:
        found = refused(error)
    except SettingError as error:
        found = answer("failed", str(error), 0.0, "bad-setting")
    _tell(server, found)
    if found["state"] == "done" and selected is not None:
        _keep(server, uri, selected, found["result"])
    return found


async def time_findings(server: RidgelineServer, params: Json) -> Json:
    """What the findings of a document's run ask to have timed: ``ridgeline time --of RUN``, after which they say what was measured.
    ``result`` is its document."""
    require_trust(server)
    if server.runner is not None:
        raise refuse("already-running", "a run is in progress; one at a time keeps the numbers honest")
    uri = str(params.get("uri"))
    view, path = server.view(uri), server.path_of(uri)
    try:
        if view is None or path is None:
            raise RequestError("no-target", "there is no profile of this document")
        where = Where(Path(path), folder_of(Path(path), server.places.folders))
        own = server.settings_of(path)
        options = ["--of", str(view.run.folder), "--python", str(interpreter(params, own, where)), "--format", "json"]
        tool = Tool(
            await cli_command(server, params, "time", *options), environment=environment(params, own.run, where)
        )
        found = await run_tool(server, tool, title="Timing what the findings ask for", failed="time-failed")
    except RequestError as error:
        found = refused(error)
    except SettingError as error:
        found = answer("failed", str(error), 0.0, "bad-setting")
    if found["state"] == "done":
        here = (
            [f for f in found["result"]["findings"] if f.get("file") == view.part["path"]] if view is not None else []
        )
        said = here or found["result"]["findings"]
        found["message"] = " ".join(f["message"] for f in said[:MAX_SAID]) or "timed; no finding asks for it any more"
        server.show_all_again("profiled", server.library.newest())
    if found["state"] != "cancelled":
        kind = types.MessageType.Info if found["state"] == "done" else types.MessageType.Warning
        hint = (found["cause"] or {}).get("hint")
        server.window_show_message(types.ShowMessageParams(kind, found["message"] + (f" ({hint})" if hint else "")))
    return found


def _selected(value: Any) -> types.Range | None:
    try:
        ends = [types.Position(int(value[end]["line"]), int(value[end]["character"])) for end in ("start", "end")]
    except (KeyError, TypeError, ValueError):
        return None
    return types.Range(*ends) if ends[0] != ends[1] and ends[0].line >= 0 else None


def _tell(server: RidgelineServer, found: Json) -> None:
    """Completes the answer's message and says it, as a warning where it failed or is not steady."""
    kind = types.MessageType.Info
    if found["state"] == "done":
        result = found["result"]
        found["message"] = (
            f"{_short(result['statement'])}: {times(result)}, torch {result['torch']} on {result['device']}"
        )
        if result["unstable"]:
            found["message"] += f". Unstable: {result['unstable']}"
            kind = types.MessageType.Warning
    elif found["state"] == "failed":
        missing = _MISSING.search(found["message"])
        if missing is not None:
            advice = f"say what it is in a comment of the file: # ridgeline: setup {missing[1]} = …"
            found["cause"].update(code="name-missing", hint=advice)
        kind = types.MessageType.Warning
    hint = (found["cause"] or {}).get("hint")
    if found["state"] != "cancelled":
        server.window_show_message(types.ShowMessageParams(kind, found["message"] + (f" ({hint})" if hint else "")))


def _keep(server: RidgelineServer, uri: str, selected: types.Range, result: Json) -> None:
    """Beside its line until that is edited, timed again, or its file closed."""
    ends_before = selected.end.character == 0 and selected.end.line > selected.start.line
    last = selected.end.line - 1 if ends_before else selected.end.line
    others = [timed for timed in server.timed.get(uri, []) if timed.last != last]
    server.timed[uri] = [*others, Timed(selected.start.line, last, result)]
    server.refresh()


def times(result: Json) -> str:
    """``41.3 µs (IQR 0.4 µs)``"""
    spread = f" (IQR {wording.duration(result['iqr_us'])})" if result.get("iqr_us") is not None else ""
    return f"{wording.duration(result['median_us'])}{spread}"


def hints(server: RidgelineServer, document: Document, wanted: types.Range) -> list[types.InlayHint]:
    """Measurements at the ends of their lines, ``⏱ 41.3 µs ± 0.2 µs``, with a ``~`` where they are not steady.

    The part after ± is half of the interquartile range; the whole of what was measured is in the tooltip.
    """
    found = []
    for timed in server.timed.get(document.uri, []):
        if not wanted.start.line <= timed.last <= wanted.end.line or timed.last >= len(document.lines):
            continue
        result = timed.result
        spread = f" ± {wording.duration(result['iqr_us'] / 2)}" if result.get("iqr_us") is not None else ""
        label = f"⏱ {'~' if result['unstable'] else ''}{wording.duration(result['median_us'])}{spread}"
        tooltip = f"{_short(result['statement'])}: {times(result)}; {result['blocks']} blocks, {result['calls']} calls"
        tooltip += f"; unstable: {result['unstable']}" if result["unstable"] else ""
        at = document.line_range(timed.last).end
        found.append(types.InlayHint(position=at, label=label, padding_left=True, tooltip=tooltip))
    return found


def _short(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def register(server: RidgelineServer) -> None:
    @server.command(protocol.COMMAND_TIME)
    async def command_time(ls: RidgelineServer, *arguments: Any) -> Json:
        return await time_expression(ls, one_object(arguments))

    @server.command(protocol.COMMAND_TIME_FINDINGS)
    async def command_time_findings(ls: RidgelineServer, *arguments: Any) -> Json:
        return await time_findings(ls, one_object(arguments))
