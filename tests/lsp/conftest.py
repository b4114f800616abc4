"""A project with a stored run, and a session of each kind of client."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from lsp_builder import Project
from lsp_client import Session
from lsp_profiles import PROFILES


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)


@pytest_asyncio.fixture(params=PROFILES)
async def session(request: pytest.FixtureRequest, project: Project) -> AsyncIterator[Session]:
    """A session over the project's workspace; make runs before or after, the server watches the store."""
    started = await Session.start(request.param, project.workspace, store=project.store)
    yield started
    await started.stop()


@pytest_asyncio.fixture
async def vscode(project: Project) -> AsyncIterator[Session]:
    started = await Session.start("vscode", project.workspace, store=project.store)
    yield started
    await started.stop()
