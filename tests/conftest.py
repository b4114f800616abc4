"""Shared fixtures: where the corpus and the cases from the field lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines here are shared: an example may take long without any fault of its own.
settings.register_profile("ridgeline", deadline=None)
settings.load_profile("ridgeline")

ROOT = Path(__file__).resolve().parent.parent


def _folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or ROOT.parent / "shared" / default)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The captures from an H200: one folder a workload. Skips with the reason where they are not on this machine."""
    folder = _folder("RIDGELINE_CORPUS", "corpus")
    if (folder / "h200").is_dir():
        folder = folder / "h200"
    if not (folder / "mlp_train").is_dir():
        pytest.skip(f"corpus not found at {folder}; set RIDGELINE_CORPUS to the folder with h200/")
    return folder


@pytest.fixture(scope="session")
def cases() -> Path:
    """The cases from the field (``CASES.md`` and ``data/``). Skips with the reason where they are not on this machine."""
    folder = _folder("RIDGELINE_CASES", "cases")
    if not (folder / "CASES.md").is_file():
        pytest.skip(f"cases not found at {folder}; set RIDGELINE_CASES to the folder with CASES.md")
    return folder
