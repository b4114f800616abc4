"""The packaged extension: what is in it, that the server runs from it alone, and that its manifest is consistent.

Needs ``extension/ridgeline.vsix`` (``npm run package`` in ``extension/``), or one named in ``RIDGELINE_VSIX``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from ridgeline.lsp import protocol
from ridgeline.lsp.settings import Settings

pytestmark = pytest.mark.editor

ROOT = Path(__file__).resolve().parents[2]
VSIX = Path(os.environ.get("RIDGELINE_VSIX", ROOT / "extension" / "ridgeline.vsix"))
MAX_BYTES = 2_000_000
IMPORTS = {"attrs": ["attr", "attrs"], "cattrs": ["cattr", "cattrs"], "typing_extensions": ["typing_extensions"]}
"""Import names of distributions that differ from the distribution's name."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not VSIX.is_file():
        pytest.skip(f"{VSIX} is not there; run npm run package in extension/")
    folder = tmp_path_factory.mktemp("vsix")
    with zipfile.ZipFile(VSIX) as archive:
        archive.extractall(folder)
    return folder / "extension"


@pytest.fixture(scope="module")
def manifest(unpacked: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((unpacked / "package.json").read_text())
    return data


def isolated(libs: Path, code: str) -> str:
    """Standard output of ``code`` in an interpreter that sees the standard library and ``libs`` alone."""
    command = [sys.executable, "-I", "-S", "-B", "-c", f"import sys; sys.path.insert(0, {str(libs)!r}); {code}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_every_bundled_distribution_imports_from_the_bundle(unpacked: Path) -> None:
    libs = unpacked / "bundled" / "libs"
    infos = sorted(libs.glob("*.dist-info"))
    names = [Parser().parsestr((info / "METADATA").read_text())["Name"] for info in infos]
    assert {"ridgeline", "pygls", "lsprotocol", "attrs", "cattrs", "platformdirs"} <= set(names)
    for name in names:
        for module in IMPORTS.get(name, [name.replace("-", "_")]):
            code = f"import importlib.metadata as m, {module}; print(m.version({name!r})); print({module}.__file__)"
            version, file = isolated(libs, code).splitlines()
            assert version
            assert Path(file).is_relative_to(libs), (name, file)


def test_every_requirement_of_the_server_is_bundled(unpacked: Path) -> None:
    """All modules of the server import without site-packages, so none of them needs what is not in the package."""
    code = (
        "import pkgutil, importlib, ridgeline.lsp as p; "
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(p.__path__, 'ridgeline.lsp.') "
        "if not m.name.endswith('__main__')]; "
        "print(*[n for n in ('torch', 'numpy', 'pandas', 'msgspec') if n in sys.modules])"
    )
    assert isolated(unpacked / "bundled" / "libs", code).split() == []


def test_the_server_answers_although_the_user_has_broken_packages(unpacked: Path, tmp_path: Path) -> None:
    for name in ("attr", "pygls", "lsprotocol", "cattrs", "json"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the wrong one')")
    params = {"processId": os.getpid(), "rootUri": None, "capabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(unpacked / "bundled" / "boot.py")],
        input=b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        env={**os.environ, "PYTHONPATH": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert b'"serverInfo"' in done.stdout, done.stderr.decode()
    assert b"ridgeline.server.profile" in done.stdout


def test_the_server_finds_the_page_of_every_finding(unpacked: Path) -> None:
    pages = sorted(page.name for page in (ROOT / "docs" / "findings").glob("*.md"))
    code = (
        "from ridgeline.lsp.diagnostics import page_of; "
        f"print(sum(page_of('docs/findings/' + name) is not None for name in {pages!r}))"
    )
    assert int(isolated(unpacked / "bundled" / "libs", code)) == len(pages) > 20


def test_the_package_is_small_and_clean(unpacked: Path) -> None:
    assert VSIX.stat().st_size < MAX_BYTES
    with zipfile.ZipFile(VSIX) as archive:
        names = archive.namelist()
        bad = [name for name in names if re.search(r"\.pyc$|node_modules|\.map$|\.ts$|direct_url|/tests?/", name)]
        assert bad == []
        here = str(ROOT).encode()
        assert [name for name in names if here in archive.read(name)] == []
    for needed in ("README.md", "CHANGELOG.md", "LICENSE.txt"):
        assert any((unpacked / name).is_file() for name in (needed, needed.lower())), needed


def test_the_manifest_is_what_the_publishing_tools_ask_for(unpacked: Path, manifest: dict[str, Any]) -> None:
    width, height = struct.unpack(">II", (unpacked / manifest["icon"]).read_bytes()[16:24])
    assert width == height >= 128
    assert manifest["license"] == "Apache-2.0"
    assert {"Debuggers", "Machine Learning"} <= set(manifest["categories"])
    types = manifest["devDependencies"]["@types/vscode"]
    assert manifest["engines"]["vscode"] == f"^{types}", "the types must be those of the oldest editor"
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (unpacked / "readme.md").read_text()):
        assert (unpacked / picture).is_file(), picture


def test_menus_walkthrough_and_welcome_name_only_commands_that_exist(manifest: dict[str, Any]) -> None:
    contributes = manifest["contributes"]
    declared = {command["command"] for command in contributes["commands"]}
    used = {item["command"] for items in contributes["menus"].values() for item in items}
    text = json.dumps([contributes["viewsWelcome"], contributes["walkthroughs"]])
    used |= set(re.findall(r"(?:command:|onCommand:)(ridgeline\.[\w.]+)", text))
    assert used <= declared
    source = "\n".join(file.read_text() for file in (ROOT / "extension" / "src").glob("*.ts"))
    for command in declared:
        assert re.search(rf"\b{re.escape(command.removeprefix('ridgeline.'))}\b", source), (
            f"{command} is not registered"
        )


def test_the_settings_are_those_that_the_server_reads(manifest: dict[str, Any]) -> None:
    """Each setting of the server is offered with the same default, and nothing else is, but for the client's own."""
    own = {"run.showOutput", "server.python", "trace.server", "editorButton", "perfetto.open", "perfetto.interface"}
    offered = {
        name.removeprefix("ridgeline."): schema["default"]
        for section in manifest["contributes"]["configuration"]
        for name, schema in section["properties"].items()
    }
    known: dict[str, Any] = {}

    def collect(value: Any, prefix: str) -> None:
        for entry in dataclasses.fields(value):
            inner = getattr(value, entry.name)
            if dataclasses.is_dataclass(inner):
                collect(inner, f"{prefix}{entry.name}.")
            else:
                known[prefix + entry.name] = inner

    collect(Settings(), "")
    assert {name: offered[name] for name in offered if name not in own} == {
        name: known[name] for name in known if name in offered
    }
    assert set(offered) - own <= set(known)


def test_what_runs_code_is_restricted_in_untrusted_workspaces(manifest: dict[str, Any]) -> None:
    restricted = set(manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
    offered = {name for section in manifest["contributes"]["configuration"] for name in section["properties"]}
    dangerous = {
        name for name in offered if re.search(r"python$|wheelhouse$|\.(args|cwd|env|envFile|path|interface)$", name)
    }
    assert dangerous == restricted


def test_the_clients_names_are_the_servers(manifest: dict[str, Any]) -> None:
    names = {
        value
        for key, value in vars(protocol).items()
        if key.startswith(("COMMAND_", "CLIENT_")) and isinstance(value, str)
    }
    source = (ROOT / "extension" / "src" / "protocol.ts").read_text()
    for name in names:
        assert f'"{name.removeprefix("ridgeline.").removeprefix("server.")}"' in source, name
