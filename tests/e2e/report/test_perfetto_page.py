"""A trace recorded on an H200 in Perfetto: the interface of this machine, and the bridge to the public one, stubbed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.analysis import analyze_run
from ridgeline.perfetto import open as opening
from ridgeline.perfetto.server import TraceServer, local_ui
from ridgeline.profile import ProfileDocument

CHECK = Path(__file__).with_name("perfetto.mjs")
RECORDED = Path(__file__).parents[2] / "golden" / "data" / "h200_runs" / "mlp_train.tar.gz"

pytestmark = pytest.mark.editor


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ProfileDocument]:
    folder = tmp_path_factory.mktemp("run")
    with tarfile.open(RECORDED) as tar:
        tar.extractall(folder, filter="data")
    return folder / "mlp_train" / "trace.json.gz", analyze_run(folder / "mlp_train")


@pytest.fixture
def served(run: tuple[Path, ProfileDocument]) -> Iterator[TraceServer]:
    trace, document = run
    server, cleaned = opening.open_trace(trace, document=document, kernel=document.kernels[1])
    assert cleaned.selected is not None
    yield server
    server.close()
    shutil.rmtree(cleaned.path.parent)


def look(mode: str, server: TraceServer, document: ProfileDocument) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js here; make page installs it")
    command = [node, str(CHECK), mode, server.url, document.kernels[1].symbol]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_right_slice_is_selected_offline(served: TraceServer, run: tuple[Path, ProfileDocument]) -> None:
    if local_ui() is None:
        pytest.skip("no copy of Perfetto's interface here; the extra ridgeline[perfetto] has one")
    look("local", served, run[1])


@pytest.mark.parametrize("mode", ["bridge", "silent"])
def test_the_bridge_hands_over_the_trace_or_says_what_to_do(
    mode: str, served: TraceServer, run: tuple[Path, ProfileDocument]
) -> None:
    served.served.ui = None
    look(mode, served, run[1])
