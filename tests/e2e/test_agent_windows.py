"""Which window the agent finds, and how a program ends with it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from agent_bench import Runner

from ridgeline.runs.causes import of_program
from ridgeline.runs.spec import RunSpec

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(3600),  # a cold compilation on a busy machine
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]

LOOP = """import sys, torch
from torch.profiler import record_function
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
def step():
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_a_training_loop_gets_a_settled_window_between_plain_steps(runner: Runner) -> None:
    run = runner.agent(runner.program("loop.py", LOOP + "for _ in range(200): step()\nprint('end')\n"))
    assert (run.process.returncode, run.process.stdout, run.process.stderr) == (0, "end\n", "")
    sidecar = run.sidecar()
    (window,) = sidecar["windows"]
    assert (window["reason"], window["marker"], window["complete"]) in [
        ("stable", "optimizer", True),
        ("gave_up", "optimizer", True),
    ]
    assert len(window["steps"]) == len(sidecar["profiled_steps_ns"])
    assert all(window["start_ns"] <= step["start_ns"] < step["end_ns"] <= window["end_ns"] for step in window["steps"])
    steps = len(window["steps"])
    assert sum(event["name"] == "Optimizer.step#SGD.step" for event in run.events()) in (steps, steps - 1)
    assert window["ran_ns"] > 0
    assert window["waited_ns"] >= 0
    assert 0 < window["running"] <= 1.01
    assert 0 < window["plain_running"] <= 1.01
    assert 0 <= window["asleep_ns"] < window["end_ns"] - window["start_ns"]
    assert sidecar["timeline"]["threads"]
    assert (run.folder / "captured").exists()
    assert run.phases()[-1] == "done"


def test_stop_ends_the_program_once_the_result_is_there_and_lets_it_clean_up(runner: Runner) -> None:
    text = LOOP + "try:\n    while True: step()\nfinally:\n    print('cleaned up')\nprint('never')\n"
    run = runner.agent(runner.program("endless.py", text), then="stop")
    assert (run.process.returncode, run.process.stdout, run.process.stderr) == (0, "cleaned up\n", "")
    assert run.sidecar()["windows"][0]["marker"] == "optimizer"


def test_stop_works_where_the_steps_run_in_a_thread(runner: Runner) -> None:
    text = LOOP + "import threading\ndef work():\n    while True: step()\n"
    text += "t = threading.Thread(target=work, daemon=True); t.start()\nwhile True: t.join(0.1)\n"
    run = runner.agent(runner.program("thread.py", text), then="stop")
    assert run.process.returncode == 0
    assert run.sidecar()["windows"][0]["marker"] == "optimizer"


def test_a_program_of_one_step_is_shown_whole_with_a_note(runner: Runner) -> None:
    run = runner.agent(runner.program("short.py", LOOP + "step()\nprint('short')\n"))
    assert run.process.stdout == "short\n"
    sidecar = run.sidecar()
    (window,) = sidecar["windows"]
    assert (window["reason"], window["steps"]) == ("whole", [])
    assert any(event["name"] == "aten::linear" for event in run.events())
    assert any("before it marked two steps" in note for note in sidecar["notes"])


def test_a_program_that_leaves_inside_its_window_keeps_the_steps_of_it(runner: Runner) -> None:
    text = LOOP + "import os\nfor _ in range(12): step()\nos._exit(3)\n"
    run = runner.agent(runner.program("leaves.py", text), warmup=1, steps=100)
    assert (run.process.returncode, run.process.stderr) == (3, "")
    sidecar = run.sidecar()
    (window,) = sidecar["windows"]
    assert (window["reason"], window["complete"]) == ("stable", False)
    assert len(window["steps"]) == len(sidecar["profiled_steps_ns"]) == 8, "two early, one settled, one to warm up"
    assert any("before its window was full: 8 steps" in note for note in sidecar["notes"])
    assert sidecar["exit_status"] == 3
    assert run.phases()[-1] == "done"


def test_inference_without_any_marker_gets_a_stretch_of_time(runner: Runner) -> None:
    text = "import torch\nm = torch.nn.Linear(64, 64)\ntry:\n    with torch.no_grad():\n"
    text += "        while True: m(torch.randn(32, 64))\nfinally: print('served')\n"
    run = runner.agent(runner.program("infer.py", text), then="stop")
    assert (run.process.returncode, run.process.stdout) == (0, "served\n")
    (window,) = run.sidecar()["windows"]
    assert window["reason"] == "timer"
    assert sum(event["name"] == "aten::linear" for event in run.events()) > 100


def test_after_opens_the_window_at_its_time(runner: Runner) -> None:
    text = LOOP + "import time\nend = time.time() + 6\nwhile time.time() < end: step(); time.sleep(0.01)\n"
    run = runner.agent(runner.program("server.py", text), after=2.0)
    sidecar = run.sidecar()
    (window,) = sidecar["windows"]
    assert window["reason"] == "after"
    assert window["start_ns"] - sidecar["imported_torch_ns"] >= 2e9


def test_a_label_around_all_epochs_spans_two_recordings_without_harm(runner: Runner) -> None:
    text = LOOP + "with record_function('all \"epochs\" ü'):\n    for _ in range(200):\n"
    text += "        with record_function('schritt ü'): step()\nprint('end')\n"
    run = runner.agent(runner.program("labels.py", text))
    assert (run.process.returncode, run.process.stdout, run.process.stderr) == (0, "end\n", "")
    assert {label[3] for label in run.sidecar()["labels"]} == {"schritt ü"}


def test_the_programs_own_profiler_keeps_its_files_and_is_harvested(runner: Runner) -> None:
    text = (
        LOOP
        + """
from torch.profiler import profile, schedule, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3, repeat=2),
             on_trace_ready=lambda p: p.export_chrome_trace(f"own_{p.step_num}.json")) as p:
    for _ in range(10):
        with record_function("my_step"):
            step()
        p.step()
print(len(p.key_averages()))
"""
    )
    program = runner.program("own.py", text)
    plain = runner.plain(program)
    theirs = {path.name: path for path in runner.folder.glob("own_*.json")}
    counts = {name: _ops(path) for name, path in theirs.items()}
    run = runner.agent(program)
    assert run.process.stdout == plain.stdout
    assert {path.name for path in runner.folder.glob("own_*.json")} == set(theirs)
    assert {name: _ops(path) for name, path in theirs.items()} == counts
    sidecar = run.sidecar()
    assert [window["reason"] for window in sidecar["windows"]] == ["user_profiler"] * 2
    assert [len(window["steps"]) for window in sidecar["windows"]] == [3, 3]
    assert {label[3] for label in sidecar["labels"]} == {"my_step"}


def _ops(path: Path) -> int:
    return sum(event.get("cat") == "cpu_op" for event in json.loads(path.read_text())["traceEvents"])


def test_the_loader_is_described_with_the_line_of_its_loop(runner: Runner) -> None:
    text = LOOP + "from torch.utils.data import DataLoader\ndata = [torch.randn(64) for _ in range(800)]\n"
    text += "for epoch in range(2):\n    for batch in DataLoader(data, batch_size=8):\n        step()\n"
    program = runner.program("load.py", text)
    run = runner.agent(program)
    (loader,) = run.sidecar()["loaders"]
    assert (loader["file"], loader["num_workers"], loader["batch_size"]) == (str(program), 0, 8)
    assert "in DataLoader" in text.splitlines()[loader["line"] - 1]
    window = run.sidecar()["windows"][0]
    assert len(loader["waits"]) >= len(window["steps"]) - 1


def test_graph_breaks_and_recompilations_are_noted_where_they_happened(runner: Runner) -> None:
    text = """import torch
@torch.compile(backend="eager")
def f(x, n):
    y = x * n
    torch._dynamo.graph_break()
    return y + 1
for n in (1, 2, 3):
    f(torch.ones(4), n)
"""
    notes = runner.agent(runner.program("breaks.py", text)).sidecar()["compile_notes"]
    breaks = [note for note in notes if note["kind"] == "break"]
    assert [note["line"] for note in breaks] == [5]
    assert "graph_break" in breaks[0]["reason"]
    assert any(note["kind"] == "recompile" and note["line"] in (2, 3) for note in notes)


def test_a_crash_leaves_the_frames_it_happened_in(runner: Runner) -> None:
    text = LOOP + "import ctypes\ndef crash():\n    ctypes.string_at(0)\nstep()\ncrash()\n"
    program = runner.program("crash.py", text)
    run = runner.agent(program)
    assert run.process.returncode == -signal.SIGSEGV
    cause = of_program(
        RunSpec(target=str(program), python=sys.executable, cwd=str(runner.folder)),
        run.folder,
        runner.env(),
        returncode=run.process.returncode,
        last=None,
        errors="",
    )
    assert cause.code == "killed"
    assert "SIGSEGV" in cause.message
    frames = (run.folder / "crash.txt").read_text(encoding="utf-8")
    line = text.splitlines().index("    ctypes.string_at(0)") + 1
    assert f'File "{program}", line {line} in crash' in frames
    assert ", in " in cause.message
    assert cause.hint is not None
    assert "crash.txt" in cause.hint


def test_a_program_that_ends_well_leaves_no_frames(runner: Runner) -> None:
    run = runner.agent(runner.program("well.py", LOOP + "step()\n"))
    assert run.process.returncode == 0
    assert not (run.folder / "crash.txt").exists()


PADDED = """import torch
model = torch.nn.Sequential(torch.nn.Embedding(50, 16, padding_idx=0), torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
ids = torch.randint(1, 50, (4, 32)) * (torch.arange(32)[None] < torch.tensor([[5], [9], [12], [20]]))
for step in range(10_000):
    model(ids).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
raise ValueError('the program has an end of its own')
"""


def test_of_ten_thousand_steps_a_few_are_recorded_and_the_programs_own_error_stays(runner: Runner) -> None:
    """With the lengths that the outermost module's inputs show, none of them read within the window."""
    run = runner.agent(runner.program("long.py", PADDED), lengths=True)
    assert run.process.returncode == 1
    assert "ValueError: the program has an end of its own" in run.process.stderr
    sidecar = run.sidecar()
    (window,) = sidecar["windows"]
    assert 0 < len(window["steps"]) <= 100
    assert len(run.events()) < 100_000
    assert sidecar["lengths"][0] == [5, 9, 12, 20]
    assert set(sidecar["padded_to"]) == {32}
    assert sidecar["lengths_at"] == [str(run.folder.parent / "long.py"), 6]
    assert sidecar["errors"] == []
