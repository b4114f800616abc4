"""What can be profiled besides the file as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lsp_builder import Project
from lsp_client import Session
from ridgeline.lsp.requests import RequestError
from ridgeline.lsp.targets import module_name, typed

TESTS = """\
import torch

def helper():
    return 1

class TestProduct:
    def test_tanh(self):
        a = torch.randn(8, 8)
        return a

    @staticmethod
    def other(): ...

def test_alone():
    pass
"""
LAUNCH = {
    "configurations": [
        {"name": "A module", "type": "debugpy", "module": "pkg.train", "args": ["--x", "a b"], "env": {"TOKEN": "t"}},
        {"name": "A file", "type": "python", "program": "${workspaceFolder}/other.py", "args": "--n 3 'c d'", "python": ["/v/python"]},
        {"name": "Attach", "type": "debugpy", "request": "attach", "module": "no"},
        {"name": "Node", "type": "node", "program": "no.js"},
        {"name": "Unresolved", "type": "debugpy", "program": "${command:pick}"},
        "nonsense",
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"args": ["as they are"]}, {"args": ["as they are"]}),
        ({"words": "--name 'a b' --n 3"}, {"args": ["--name", "a b", "--n", "3"]}),
        ({"words": ""}, {"args": []}),
        ({"module": "m", "words": "pkg.train --x \"$HOME\""}, {"module": "pkg.train", "args": ["--x", "$HOME"]}),
    ],
)  # fmt: skip
def test_what_is_typed_is_split_and_not_expanded(params: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {key: value for key, value in typed(params).items() if key != "words"} == expected


@pytest.mark.parametrize("params", [{"words": "'open"}, {"module": "m", "words": " "}])
def test_what_cannot_be_read_is_said(params: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        typed(params)


def test_names_of_modules() -> None:
    names = [
        module_name(Path("/w") / name, Path("/w"))
        for name in ("a.py", "pkg/b.py", "pkg/__main__.py", "pkg/__init__.py")
    ]
    assert names == ["a", "pkg.b", "pkg", "pkg"]
    assert module_name(Path("/elsewhere/c.py"), None) == "c"


async def test_targets_of_a_line(vscode: Session, project: Project) -> None:
    vscode.client.set_configuration(LAUNCH, section="launch")
    path = project.workspace / "pkg" / "test_product.py"
    path.parent.mkdir()
    path.write_text(TESTS, encoding="utf-8")
    uri = vscode.open(path)

    async def labels(line: int) -> list[str]:
        return [target["label"] for target in await vscode.request("ridgeline/targets", {"uri": uri, "line": line})]

    inside = TESTS.split("\n").index("        return a")
    assert "The test TestProduct::test_tanh" in await labels(inside)
    assert not any("The test" in label for label in await labels(3)), "a helper is no test"
    assert "The test test_alone" in await labels(TESTS.split("\n").index("    pass"))
    found = {t["label"]: t for t in await vscode.request("ridgeline/targets", {"uri": uri, "line": inside})}
    assert found["With arguments…"]["ask"]["title"] == "Arguments"
    assert found["As a module (python -m)…"]["ask"]["value"] == "pkg.test_product"
    assert found["The test TestProduct::test_tanh"]["params"] == {
        "uri": uri,
        "module": "pytest",
        "args": [f"{path}::TestProduct::test_tanh"],
    }
    assert found["A module"]["params"] == {
        "uri": uri,
        "module": "pkg.train",
        "args": ["--x", "a b"],
        "env": {"TOKEN": "t"},
    }
    assert found["A file"]["params"] == {
        "uri": (project.workspace / "other.py").as_uri(),
        "args": ["--n", "3", "c d"],
        "python": "/v/python",
    }
    assert not {"Attach", "Node", "Unresolved"} & set(found)


async def test_the_test_under_the_cursor_is_an_action_everywhere(session: Session, project: Project) -> None:
    path = project.workspace / "test_product.py"
    path.write_text(TESTS, encoding="utf-8")
    uri = session.open(path)
    titles = [action["title"] for action in await session.actions(uri, TESTS.split("\n").index("        return a"))]
    assert "Profile the test TestProduct::test_tanh" in titles
    assert not any("Profile the test" in action["title"] for action in await session.actions(uri, 0))
