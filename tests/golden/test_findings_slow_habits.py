"""The program of slow habits, recorded by ``ridgeline profile`` on an H200: every habit on its own statement."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ridgeline.analysis import analyze_run
from ridgeline.profile import ProfileDocument

ARCHIVE = Path(__file__).parent / "data" / "findings_slow_habits_h200.tar.xz"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> ProfileDocument:
    folder = tmp_path_factory.mktemp("h200")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return analyze_run(folder / "slow_habits")


@pytest.mark.parametrize(
    ("code", "line", "statement"),
    [
        ("data-loading", 34, "for step, (x, y) in enumerate(loader):"),
        ("host-round-trip", 21, "host = mask.double().cpu().numpy()"),
        ("hidden-sync", 44, "running += loss.item()"),
        ("hidden-sync", 49, "if (total > 1e9):"),
        ("small-kernels", 48, "total = total + out[j % 8].sum() * 0.5"),
        ("pageable-copy", 37, "x = x.to(device)"),
    ],
)
def test_each_habit_on_its_statement(document: ProfileDocument, code: str, line: int, statement: str) -> None:
    found = [f for f in document.findings if f.code == code and f.line == line]
    assert len(found) == 1, f"{code} at `{statement}`"
    assert (found[0].file or "").endswith("slow_habits.py")


def test_the_loader_is_the_first_thing_to_mend(document: ProfileDocument) -> None:
    assert document.findings[0].code == "summary"
    assert document.findings[0].message.startswith("1. The step waits for the data loader (slow_habits.py:34)")


def test_promises_stay_within_the_plain_step(document: ProfileDocument) -> None:
    plain = document.totals.plain_step_us
    assert plain is not None
    assert sum(f.saving_us or 0.0 for f in document.findings) <= plain
