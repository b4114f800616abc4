"""How long a round takes without the profiler where nothing marks it, with a counter in place of a device's allocator."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from agent_bench import MAIN, AgentRun, Runner

from ridgeline import profile_io
from ridgeline.analysis import analyze_run
from ridgeline.profile import ProfileDocument

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]

COUNTING = f"""import importlib.util, sys
spec = importlib.util.spec_from_file_location("agent_main", {str(MAIN)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
launch = module._load()
sys.modules["_ridgeline_agent.counted"].allocations = lambda torch, kinds: getattr(sys, "counted", 0)
launch.run(sys.argv[1], frozenset(sys.modules))
"""

PROGRAM = """import json, sys, time
import torch
rounds = []
sys.counted = 0
def answer(x):
    for _ in range(10):
        sys.counted += 1
        x = torch.tanh(x @ x)
    total = 0
    for number in range(30):
        total += number
    return x
@torch.inference_mode()
def serve():
    x = torch.randn(160, 160)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        rounds.append(time.time_ns())
        answer(x)
try:
    serve()
finally:
    json.dump(rounds, open("rounds.json", "w"))
print(sys.counted)
"""


def served(folder: Path) -> AgentRun:
    runner = Runner(folder)
    runner.main = runner.program("counting.py", COUNTING)
    return runner.agent(runner.program("serve.py", PROGRAM), after=0.2, then="stop")


def unprofiled_us(folder: Path, began_ns: int, ended_ns: int) -> float:
    """The rounds of a stretch of time by the program's own clock."""
    rounds = np.array(json.loads((folder / "rounds.json").read_text()))
    inside = rounds[(rounds >= began_ns) & (rounds <= ended_ns)]
    return float(np.diff(inside).mean()) / 1000


def said_of_steps(document: ProfileDocument) -> str:
    return next(w.message for w in document.quality.warnings if w.code == "steps-by-loop")


def test_a_server_is_timed_without_the_profiler_before_its_result_is_published(tmp_path: Path) -> None:
    run = served(tmp_path)
    assert (run.process.returncode, run.process.stderr) == (0, "")
    sidecar = profile_io.read_sidecar(run.folder / "sidecar.json")
    assert (sidecar.errors, sidecar.notes, sidecar.cupti_left) == ([], [], None)
    (window,) = sidecar.windows
    assert window.allocations
    looks = window.plain_counts
    assert len(looks) >= 5
    assert window.end_ns < looks[0][0] <= looks[0][1] < looks[-1][0]
    document = analyze_run(run.folder)
    measured, said = document.totals.plain_step_us, said_of_steps(document)
    if measured is None:  # others had the cores in one of the stretches that are compared
        assert "two stretches of time after the recording differ" in said or "turned to something else" in said
        return
    # In the same stretch, so that what others take of the machine is in both.
    real = min(
        (unprofiled_us(tmp_path, looks[at][1], looks[-1][0]) for at in (0, -5)), key=lambda us: abs(us - measured)
    )
    assert measured == pytest.approx(real, rel=0.25)
    assert document.totals.profiled_step_us is not None
    assert "not known" not in said
