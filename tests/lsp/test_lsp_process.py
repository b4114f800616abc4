"""The server's process: what it imports, what it writes, how it ends, and that the page about it is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.lsp import protocol

ROOT = Path(__file__).resolve().parent.parent.parent
FORBIDDEN = {"torch", "numpy", "pandas", "msgspec", "typer", "rich", "triton"}


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def initialize(process_id: int | None, folder: Path) -> bytes:
    return frame(
        {
            "id": 1,
            "method": "initialize",
            "params": {"processId": process_id, "rootUri": folder.as_uri(), "capabilities": {}},
        }
    )


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *(arguments or ("-m", "ridgeline.lsp"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"RIDGELINE_RUN_DIR": str(folder), "PATH": "/usr/bin:/bin"},
    )


def read_answer(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    length = 0
    while (header := process.stdout.readline()) != b"\r\n":
        assert header.startswith((b"Content-Length", b"Content-Type")), f"not the protocol: {header!r}"
        if header.startswith(b"Content-Length"):
            length = int(header.split(b":")[1])
    return json.loads(process.stdout.read(length))


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import json, sys; from ridgeline.lsp.main import create_server; create_server(); "
        "import ridgeline.lsp.profiling, ridgeline.lsp.running; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    packages = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not packages & FORBIDDEN
    stdlib = set(sys.stdlib_module_names) | {"__main__", "__mp_main__"}
    others = {name for name in packages - stdlib if not name.startswith(("_", "sitecustomize", "usercustomize"))}
    allowed = {
        "ridgeline",
        "pygls",
        "lsprotocol",
        "attr",
        "attrs",
        "cattr",
        "cattrs",
        "typing_extensions",
        "platformdirs",
    }
    assert others <= allowed | {"exceptiongroup", "pkg_resources", "distutils"}, others - allowed


def test_it_starts_isolated_with_only_its_own_libraries(tmp_path: Path) -> None:
    """As the extension starts it: no site-packages, no user variables, the libraries given by path."""
    libraries = [path for path in sys.path if path.endswith("site-packages")] + [str(ROOT / "pyserver")]
    code = f"import sys; sys.path[:0] = {libraries!r}; from ridgeline.lsp.main import main; main([])"
    process = start(tmp_path, "-I", "-S", "-c", code)
    out, err = process.communicate(initialize(None, tmp_path), timeout=30)
    assert b'"capabilities"' in out, err.decode()


@pytest.mark.parametrize("how", ["print", "os.write", "child"])
def test_what_is_printed_does_not_reach_the_protocol(tmp_path: Path, how: str) -> None:
    say = {
        "print": "print('stray')",
        "os.write": "import os; os.write(1, b'stray')",
        "child": "import subprocess; subprocess.run(['echo', 'stray'])",
    }[how]
    code = (
        "from ridgeline.lsp import main as m\nreal = m.create_server\n"
        f"def create():\n    {say}\n    return real()\nm.create_server = create\nm.main([])"
    )
    process = start(tmp_path, "-c", code)
    out, err = process.communicate(initialize(None, tmp_path), timeout=30)
    assert out.startswith(b"Content-Length"), out[:80]
    assert b"stray" not in out
    assert b"stray" in err


def test_it_ends_when_its_input_does(tmp_path: Path) -> None:
    process = start(tmp_path)
    process.communicate(initialize(None, tmp_path), timeout=30)
    assert process.returncode == 0


def test_it_ends_when_the_clients_process_is_gone(tmp_path: Path) -> None:
    """Its standard input may be held open by another process of the editor's."""
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start(tmp_path)
    assert process.stdin is not None
    process.stdin.write(initialize(editor.pid, tmp_path))
    process.stdin.flush()
    assert read_answer(process)["id"] == 1
    process.stdin.write(frame({"method": "initialized", "params": {}}))
    process.stdin.flush()
    editor.kill()
    editor.wait()
    process.wait(10)
    process.stdin.close()


def test_a_client_in_another_container_names_a_process_that_is_not_here(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdin is not None
    process.stdin.write(initialize(2**22 - 1, tmp_path) + frame({"method": "initialized", "params": {}}))
    process.stdin.flush()
    assert read_answer(process)["id"] == 1
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_the_page_names_what_the_code_has() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    names = {value for key, value in vars(protocol).items() if key.isupper() and isinstance(value, str)}
    assert {name for name in names if name not in page} == set()
    named = set(re.findall(r"`(ridgeline[./][A-Za-z./]+)`", page)) | set(re.findall(r"`(ridgeline/[A-Za-z]+)`", page))
    unknown = {name for name in named if name.startswith(("ridgeline/", "ridgeline.server.")) and name not in names}
    assert unknown - {"ridgeline/lsp/protocol.py"} == set()


def test_shapes_on_the_page_have_the_fields_of_the_code() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    for shape in (
        protocol.RunInfo,
        protocol.Annotations,
        protocol.AnnotatedLine,
        protocol.TreeItem,
        protocol.ProfileResult,
    ):
        for name in shape.__annotations__:
            assert f'"{name}"' in page or f"{name}" in page, f"{shape.__name__}.{name}"


def test_advertised_commands_are_those_of_the_page(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdin is not None
    process.stdin.write(initialize(None, tmp_path))
    process.stdin.flush()
    capabilities = read_answer(process)["result"]["capabilities"]
    process.communicate(timeout=30)
    commands = {value for key, value in vars(protocol).items() if key.startswith("COMMAND_")}
    assert set(capabilities["executeCommandProvider"]["commands"]) == commands
    assert capabilities["textDocumentSync"]["change"] == 2


@pytest.mark.slow
def test_the_start_is_mostly_pygls(tmp_path: Path) -> None:
    """At most one and a half times importing pygls alone; the least of several runs in turns, so that load does not decide."""
    sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
    import lsp_startup

    result = lsp_startup.measure(5)
    assert result["server_initialize_s"]["min"] <= 1.5 * result["pygls_import_s"]["min"]
    assert result["rss_mb"] < 120
    assert result["forbidden_imports"] == []
