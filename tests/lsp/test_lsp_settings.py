"""Settings as clients send them, the variables in them, and the specification of a run that comes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from lsp_builder import Project
from lsp_client import Session
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.requests import RequestError, inherited_environment, run_spec
from ridgeline.lsp.settings import SettingError, Settings, read, read_env_file, substitute
from ridgeline.runs.processes import unsupported


def test_every_key_is_optional() -> None:
    settings, problems = read(None)
    assert problems == []
    assert (settings.annotations.minimumPercent, settings.annotations.maximumLenses, settings.run.then) == (
        1.0,
        200,
        "stop",
    )


def test_one_bad_value_does_not_switch_everything_off() -> None:
    given = {
        "annotations": {"lenses": "yes", "hints": False, "minimumPercent": 5},
        "run": {"args": [1], "steps": True},
        "x": 1,
    }
    settings, problems = read(given)
    assert settings.annotations.lenses is True
    assert settings.annotations.hints is False
    assert settings.annotations.minimumPercent == 5.0
    assert settings.run.args == []
    assert settings.run.steps is None
    assert len(problems) == 3
    assert "ridgeline.annotations.lenses: 'yes' is not a boolean" in problems
    assert read("nonsense")[1] == ["ridgeline is not an object"]


def test_severities_by_code_then_for_all_then_information() -> None:
    settings, _ = read({"diagnostics": {"severity": {"launch-bound": "off", "*": "hint", "odd": "loud"}}})
    assert [settings.diagnostics.of(code) for code in ("launch-bound", "other", "odd")] == [
        "off",
        "hint",
        "information",
    ]


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    file, folder = Path("/w/src/train.py"), Path("/w")
    text = "${workspaceFolder}|${file}|${fileDirname}|${env:DATA}|${env:UNSET_HERE}|${userHome}"
    assert substitute(text, name="x", file=file, folder=folder) == f"/w|/w/src/train.py|/w/src|/data||{Path.home()}"
    with pytest.raises(SettingError, match=r"ridgeline\.run\.cwd: unknown variable \$\{command:x\}"):
        substitute("${command:x}", name="ridgeline.run.cwd", file=file, folder=folder)
    with pytest.raises(SettingError, match="has no value here"):
        substitute("${workspaceFolder}", name="x", file=file, folder=None)


def test_env_files(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# comment\nA=1\nexport B = \"two words\" \nC=x # trailing\nD='#no'\nnonsense\n=v\nE=a=b\n", encoding="utf-8"
    )
    assert read_env_file(path) == {"A": "1", "B": "two words", "C": "x", "D": "#no", "E": "a=b"}
    with pytest.raises(SettingError, match="envFile"):
        read_env_file(tmp_path / "missing")


def test_a_request_goes_before_the_setting_and_the_setting_before_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n", encoding="utf-8")
    script = tmp_path / "train.py"
    settings, _ = read(
        {"run": {"envFile": ".env", "env": {"B": "setting", "C": "setting"}, "args": ["--x"], "steps": 5}}
    )
    params = {"env": {"C": "request"}, "python": sys.executable, "analysisPython": sys.executable, "steps": 7}
    spec = run_spec(params, script, [tmp_path], settings)
    assert spec.env == {"A": "file", "B": "setting", "C": "request"}
    assert (spec.args, spec.steps, spec.cwd, spec.then) == (["--x"], 7, str(tmp_path), "stop")
    assert (spec.keep_on_cancel, spec.output) == (False, "events")
    assert run_spec({**params, "args": []}, script, [tmp_path], settings).args == [], "no arguments is an answer"
    module = run_spec({**params, "module": "pkg.train"}, None, [tmp_path], settings)
    assert (module.target, module.module, module.cwd) == ("pkg.train", True, str(tmp_path))


def test_categories_go_to_the_analysis(tmp_path: Path) -> None:
    """In the order of the setting; what the analysis would refuse after the run is refused before it."""
    wanted = {"python": sys.executable, "analysisPython": sys.executable}
    settings, problems = read({"categories": {"norms": ["*layer_norm*", "*batch_norm*"], "copies": "*copy*"}})
    assert problems == []
    assert run_spec(wanted, tmp_path / "a.py", [tmp_path], settings).analysis[3:] == [
        "--category", "norms=*layer_norm*", "--category", "norms=*batch_norm*", "--category", "copies=*copy*",
    ]  # fmt: skip
    assert run_spec(wanted, tmp_path / "a.py", [tmp_path], Settings()).analysis[3:] == []
    settings, problems = read({"categories": {"norms": 3}})
    assert settings.categories == {}
    assert problems == ["ridgeline.categories: {'norms': 3} is not a map of patterns or lists of them"]
    refused: list[Any] = [{"norms": ""}, {"norms": []}, {"a=b": "*x*"}, {" ": "*x*"}, {"norms": "x" * 300}]
    for bad in refused:
        settings, _ = read({"categories": bad})
        with pytest.raises(RequestError, match=r"ridgeline\.categories") as error:
            run_spec(wanted, tmp_path / "a.py", [tmp_path], settings)
        assert error.value.code == "bad-setting"


def test_the_folders_environment_is_found_and_a_missing_interpreter_is_said(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    wanted = {"analysisPython": sys.executable}
    assert run_spec(wanted, tmp_path / "a.py", [tmp_path], Settings()).python == str(python)
    with pytest.raises(RequestError) as error:
        run_spec({**wanted, "python": "/nowhere/python"}, tmp_path / "a.py", [tmp_path], Settings())
    assert error.value.code == "wrong-interpreter"


def test_without_a_folder_a_program_runs_where_it_is(tmp_path: Path) -> None:
    """No workspace is open: there is no folder to fall back on, and no variable of one."""
    wanted = {"python": sys.executable, "analysisPython": sys.executable}
    spec = run_spec(wanted, tmp_path / "a.py", [], Settings())
    assert (spec.cwd, spec.user_roots) == (str(tmp_path), [])
    with pytest.raises(RequestError) as error:
        run_spec({**wanted, "args": ["${workspaceFolder}"]}, tmp_path / "a.py", [], Settings())
    assert error.value.code == "bad-setting"
    assert "open a folder" in str(error.value)


def test_a_generated_module_is_asked_for_with_its_inputs_and_a_program_without(tmp_path: Path) -> None:
    """One without a harness of its own would have nothing to be called with."""
    wanted = {"python": sys.executable, "analysisPython": sys.executable}
    module, script = tmp_path / "c.py", tmp_path / "train.py"
    module.write_text(
        "# AOT ID: ['0_inference']\nfrom torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n"
        "def call(args):\n    arg0_1, = args\n    args.clear()\n    assert_size_stride(arg0_1, (8, 4), (4, 1))\n"
        "    buf0 = torch.ops.aten.sort.stable(arg0_1)\n    return (buf0, )\n",
        encoding="utf-8",
    )
    script.write_text("import torch\n", encoding="utf-8")
    spec = run_spec(wanted, module, [tmp_path], Settings())
    assert spec.module_inputs is not None
    assert spec.module_inputs["inputs"][0]["size"] == [8, 4]
    assert run_spec(wanted, script, [tmp_path], Settings()).module_inputs is None
    assert run_spec({**wanted, "args": ["--x"]}, module, [tmp_path], Settings()).module_inputs is None


def test_the_innermost_folder_holds_a_file() -> None:
    folders = [Path("/w"), Path("/w/sub"), Path("/other")]
    assert folder_of(Path("/w/sub/a.py"), folders) == Path("/w/sub")
    assert folder_of(Path("/elsewhere/a.py"), folders) is None
    assert folder_of(None, folders) == Path("/w")


def test_the_editors_variables_stay_behind_and_the_users_path_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ELECTRON_RUN_AS_NODE", "VSCODE_IPC_HOOK", "PYTHONHOME"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    found = inherited_environment()
    assert not {"ELECTRON_RUN_AS_NODE", "VSCODE_IPC_HOOK", "PYTHONHOME"} & set(found)
    assert found["PYTHONPATH"] == "/mine"


async def test_each_folder_has_its_own_settings(tmp_path: Path) -> None:
    """Severities, and the place where its runs are kept and found."""
    one, two = Project.make(tmp_path / "one"), Project.make(tmp_path / "two")
    one.add_run()
    two.add_run()
    own = {"storage": {"path": "${workspaceFolder}/../runs"}, "diagnostics": {"severity": {"hidden-sync": "error"}}}
    first = {"storage": {"path": str(one.store)}}
    session = await Session.start(
        "vscode", one.workspace, store=tmp_path / "default", configuration=first, others={two.workspace: own}
    )
    try:
        uris = [(project, session.open(project.model)) for project in (one, two)]
        severities = {}
        for project, uri in uris:
            item = project.line_of("loss.item()")
            await session.until(lambda uri=uri: session.client.diagnostics.get(uri), 20, "findings of each folder")
            severities[project.root.name] = {
                found.code: found.severity
                for found in session.client.diagnostics[uri]
                if found.range.start.line == item
            }
            assert "4.10 ms/step" in (await session.lenses(uri))[project.line_of("gelu(h)")]
        assert severities["one"] == {"hidden-sync": types.DiagnosticSeverity.Information}
        assert severities["two"] == {"hidden-sync": types.DiagnosticSeverity.Error}
    finally:
        await session.stop()


@pytest.mark.skipif(unsupported() is not None, reason=unsupported() or "")
async def test_a_run_takes_the_settings_of_its_files_folder(tmp_path: Path) -> None:
    one, two = Project.make(tmp_path / "one"), Project.make(tmp_path / "two")
    said = two.workspace / "said.json"
    (two.workspace / "program.py").write_text(
        "import json, os, sys\n"
        f"open({str(said)!r}, 'w').write(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get('WHO')]))\n"
    )
    own = {
        "python": sys.executable,
        "storage": {"path": str(two.store)},
        "run": {"args": ["--data", "${workspaceFolder}/d"], "env": {"WHO": "two"}},
    }
    first = {"python": "/nowhere/python", "run": {"args": ["--of-one"], "env": {"WHO": "one"}}}
    session = await Session.start(
        "vscode", one.workspace, store=tmp_path / "default", configuration=first, others={two.workspace: own}
    )
    try:
        uri = (two.workspace / "program.py").as_uri()
        # Settings are asked for once the session has begun; until then there are none to take.
        for _ in range(50):
            found = await session.request("ridgeline/profile", {"uri": uri})
            if said.exists() and json.loads(said.read_text())[2] is not None:
                break
            await asyncio.sleep(0.05)
        assert json.loads(said.read_text()) == [["--data", f"{two.workspace}/d"], str(two.workspace), "two"]
        assert "without importing torch" in found["cause"]["message"]
        assert list(two.store.iterdir())
    finally:
        await session.stop()


def test_the_documented_configuration_for_helix_is_understood() -> None:
    """Helix answers for a section with the part of ``config`` below its name."""
    tomllib = pytest.importorskip("tomllib")
    page = (Path(__file__).resolve().parents[2] / "docs" / "editors.md").read_text(encoding="utf-8")
    languages = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    server = languages["language-server"]["ridgeline"]
    assert [server["command"], *server["args"]] == ["ridgeline", "lsp"]
    settings, problems = read(server["config"]["ridgeline"])
    assert (settings.annotations.minimumPercent, problems) == (1.0, [])
    assert "ridgeline" in next(one for one in languages["language"] if one["name"] == "python")["language-servers"]
