"""The environment of the analysis: built once, told while it is, cancelled whole, and never half there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from ridgeline.lsp import environment
from ridgeline.lsp.environment import READY, Builder
from ridgeline.lsp.requests import RequestError
from ridgeline.runs.processes import unsupported

pytestmark = pytest.mark.skipif(unsupported() is not None, reason=unsupported() or "")
VERSION = list(sys.version_info[:2])


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that has none, and a list of what is wanted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("ridgeline-test-absent==1\n", encoding="utf-8")
    monkeypatch.setattr(environment, "REQUIREMENTS", wanted)
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


async def test_what_cannot_be_installed_is_said_and_leaves_nothing_ready(wheels: Path) -> None:
    told: list[str] = []
    with pytest.raises(RequestError) as failed:
        await Builder(told.append).build(sys.executable, VERSION, wheels)
    assert failed.value.code == "analysis-build"
    assert "could not install the analysis packages" in str(failed.value)
    assert "ridgeline-test-absent" in str(failed.value)
    assert told[0].startswith("building")
    assert not list(environment.root().glob(f"*/{READY}"))


async def test_what_is_built_is_used_again_until_it_is_forgotten(wheels: Path) -> None:
    environment.REQUIREMENTS.write_text("# nothing\n", encoding="utf-8")
    python = await Builder(lambda _: None).build(sys.executable, VERSION, wheels)
    assert Path(python).is_relative_to(environment.root())
    told: list[str] = []
    assert await Builder(told.append).build(sys.executable, VERSION, wheels) == python
    assert told == []
    environment.forget()
    assert not Path(python).exists()


async def test_a_cancelled_build_is_no_failure_and_leaves_no_process(wheels: Path) -> None:
    builder = Builder(lambda _: None)
    building = asyncio.ensure_future(builder.build(sys.executable, VERSION, wheels))
    while builder._process is None:
        await asyncio.sleep(0.01)
    builder.cancel()
    with pytest.raises(RequestError) as ended:
        await building
    assert ended.value.code == "cancelled"
    await asyncio.wait_for(builder.over(), 30)
    assert builder._process.returncode is not None
    assert not list(environment.root().glob(f"*/{READY}"))


async def test_without_a_list_of_packages_it_says_what_to_set(wheels: Path) -> None:
    environment.REQUIREMENTS.unlink()
    with pytest.raises(RequestError) as failed:
        await Builder(lambda _: None).build(sys.executable, VERSION, None)
    assert failed.value.code == "analysis-missing"
    assert "ridgeline.analysis.python" in (failed.value.hint or "")
