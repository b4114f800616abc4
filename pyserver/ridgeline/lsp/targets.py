"""What can be profiled besides a file as it is: with arguments, as a module, the test under the cursor, entries of launch.json.

``ridgeline/targets`` lists them for a client to choose from; the test is a code action in every editor.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsprotocol import types

from ridgeline.lsp import protocol
from ridgeline.lsp.documents import Document
from ridgeline.lsp.places import folder_of, uri_of
from ridgeline.lsp.requests import RequestError, Where
from ridgeline.lsp.server import Plain, RidgelineServer
from ridgeline.lsp.settings import SettingError

Json = protocol.Json
_HEAD = re.compile(r"(?P<indent>\s*)(?:async\s+def|def|class)\s+(?P<name>\w+)")
_PACKAGE_FILE = re.compile(r"\.__(main|init)__$")


def targets(server: RidgelineServer, document: Document, path: Path, line: int, launch: Any) -> list[protocol.Target]:
    """``launch``: the client's ``launch`` section, whatever it is."""
    where = Where(path, folder_of(path, server.places.folders))
    module = module_name(path, where.folder)
    arguments: protocol.Ask = {"title": "Arguments", "value": "", "placeHolder": "--epochs 1 --name 'a b'"}
    as_module: protocol.Ask = {"title": "Module and Arguments, as after python -m", "value": module, "placeHolder": ""}
    found = [
        _target("terminal", "With arguments…", "once", {"uri": document.uri}, arguments),
        _target("package", "As a module (python -m)…", module, {"uri": document.uri, "module": module}, as_module),
    ]
    test = test_at(document, line)
    if test:
        found.append(_target("beaker", f"The test {test}", "pytest", test_params(document.uri, path, test)))
    found += _of_launch(where, launch)
    return found


def test_at(document: Document, line: int) -> str | None:
    """The pytest node under the cursor, without the file: ``TestClass::test_name``, or the function alone."""
    names: list[str] = []
    outer: float = float("inf")
    for text in reversed(document.lines[: line + 1]):
        head = _HEAD.match(text)
        if head is not None and len(head["indent"]) < outer:
            outer = len(head["indent"])
            names.insert(0, head["name"])
    return "::".join(names) if any(name.startswith("test") for name in names) else None


def test_params(uri: str, path: Path, test: str) -> Json:
    return {"uri": uri, "module": "pytest", "args": [f"{path}::{test}"]}


def module_name(path: Path, folder: Path | None) -> str:
    """``pkg.train`` for ``pkg/train.py`` of the workspace folder, ``pkg`` for its ``__main__.py``."""
    inside = path.relative_to(folder) if folder is not None else Path(path.name)
    return _PACKAGE_FILE.sub("", ".".join(inside.with_suffix("").parts))


def typed(params: Json) -> Json:
    """A request with what a person typed (``words``) as its arguments, the first being the module where one is asked for.

    Split as a POSIX shell would, without expanding anything. Raises :class:`RequestError` for an open quote.
    """
    words = params.get("words")
    if words is None:
        return params
    try:
        split = shlex.split(str(words))
    except ValueError as error:
        raise RequestError("bad-setting", f"these arguments cannot be read: {error}") from error
    if not params.get("module"):
        return {**params, "args": split}
    if not split:
        raise RequestError("no-target", "there is no module to run")
    return {**params, "module": split[0], "args": split[1:]}


def _target(icon: str, label: str, description: str, params: Json, ask: protocol.Ask | None = None) -> protocol.Target:
    return {"icon": icon, "label": label, "description": description, "params": params, "ask": ask}


def _of_launch(where: Where, launch: Any) -> Iterator[protocol.Target]:
    """Python entries that start a program; what cannot be resolved here (``${command:…}``) stays, and is said when chosen."""
    entries = launch.get("configurations") if isinstance(launch, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or entry.get("type") not in ("python", "debugpy"):
            continue
        program, module = entry.get("program"), entry.get("module")
        if entry.get("request") == "attach" or not (program or module):
            continue
        python, args = entry.get("python"), entry.get("args") or []
        params = {name: entry[name] for name in ("cwd", "env", "envFile") if entry.get(name)}
        params["args"] = shlex.split(args) if isinstance(args, str) else [str(argument) for argument in args]
        if module:
            params["module"] = str(module)
        if python:
            params["python"] = python[0] if isinstance(python, list) else str(python)
        file = where.file
        if program:
            try:
                file = where.path(str(program), "program")
            except SettingError:
                continue
        params["uri"] = uri_of(file) if file is not None else None
        description = f"-m {module}" if module else str(program)
        yield _target("debug-alt", str(entry.get("name") or description), description, params)


async def _launch_section(server: RidgelineServer, uri: str) -> Any:
    if not server.can.configuration:
        return None
    item = types.ConfigurationItem(section="launch", scope_uri=uri)
    return (await server.workspace_configuration_async(types.ConfigurationParams(items=[item])) or [None])[0]


def register(server: RidgelineServer) -> None:
    @server.feature(protocol.TARGETS)
    async def on_targets(ls: RidgelineServer, params: Json) -> Plain:
        uri = str(params.get("uri"))
        document, path = ls.documents.get(uri), ls.path_of(uri)
        if document is None or path is None:
            return Plain()
        launch = await _launch_section(ls, uri)
        return Plain(targets(ls, document, Path(path), int(params.get("line") or 0), launch))
