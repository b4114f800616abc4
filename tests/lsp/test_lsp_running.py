"""Runs that the server starts: results, causes, cancel, and that nothing of a run is left, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lsp_builder import Project
from lsp_client import Session, as_json
from ridgeline.lsp.profiling import BUTTONS, doubt
from ridgeline.lsp.store import Library
from ridgeline.profile import QualityWarning
from ridgeline.runs.processes import unsupported
from ridgeline.runs.spec import RunSpec

pytestmark = pytest.mark.skipif(unsupported() is not None, reason=unsupported() or "")

FOREVER = """\
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"],
                         start_new_session=True)
open("pids.tmp", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.tmp", "pids")
print("started", flush=True)
time.sleep(600)
"""

TRAIN = """\
import torch
print("start of training")
layer = torch.nn.Linear(128, 128)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(60):
    x = torch.randn(256, 128)
    loss = torch.nn.functional.gelu(layer(x)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def script(project: Project, text: str) -> Path:
    path = project.workspace / "program.py"
    path.write_text(text, encoding="utf-8")
    return path


async def started_pids(project: Project, session: Session) -> list[int]:
    pids = project.workspace / "pids"
    await session.until(pids.exists, 30, what="the program has started")
    return [int(pid) for pid in pids.read_text(encoding="utf-8").split()]


async def test_an_untrusted_workspace_runs_nothing(project: Project) -> None:
    session = await Session.start("vscode", project.workspace, store=project.store, options={"trusted": False})
    try:
        project.add_run()
        uri = session.open(project.model)
        assert await session.lenses(uri) != {}, "stored runs are shown"
        with pytest.raises(JsonRpcException) as refused:
            await session.request("ridgeline/profile", {"uri": uri})
        assert refused.value.code == -32803
        titles = [action["title"] for action in await session.actions(uri, project.line_of("gelu(h)"))]
        assert not any(word in title for title in titles for word in ("Profile", "Verify", "Benchmark"))
        session.client.protocol.notify("ridgeline/trust", {"trusted": True})
        assert "Profile this file" in [action["title"] for action in await session.actions(uri, 0)]
    finally:
        await session.stop()


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"python": "/nowhere/python"}, "wrong-interpreter"),
        ({"cwd": "/nowhere"}, "bad-target"),
        ({"envFile": "missing.env"}, "bad-setting"),
        ({"args": ["${nonsense}"]}, "bad-setting"),
        ({"analysisPython": "/nowhere/python"}, "analysis-missing"),
        ({"uri": None}, "no-target"),
        ({"uri": "file:///nowhere/x.py"}, "bad-target"),
    ],
)
async def test_what_cannot_be_run_is_said_with_its_cause(
    vscode: Session, project: Project, params: dict[str, Any], code: str
) -> None:
    uri = vscode.open(project.model)
    result = await vscode.request("ridgeline/profile", {"uri": uri, **params})
    assert result["state"] == "failed"
    assert result["cause"]["code"] == code
    assert result["cause"]["message"]
    assert vscode.told["ridgeline/progress"][-1]["state"] == "failed"
    assert not list(project.store.glob("*/*")), "a request that cannot be run leaves no run behind"


async def test_a_failing_program_is_a_result_with_a_cause_and_its_output(vscode: Session, project: Project) -> None:
    path = script(project, "print('before')\nimport does_not_exist\n")
    result = await vscode.request("ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable})
    assert result["state"] == "failed"
    assert result["exitStatus"] == 1
    assert result["cause"]["code"] in ("module-missing", "no-torch")
    text = "".join(piece["text"] for piece in vscode.told["ridgeline/output"])
    assert "before" in text
    assert "does_not_exist" in text
    assert Path(result["log"]).is_file()


async def test_cancelling_the_request_leaves_no_process(vscode: Session, project: Project) -> None:
    path = script(project, FOREVER)
    message = vscode.client.protocol.send_request(
        "ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable}, msg_id="the-run"
    )
    pids = await started_pids(project, vscode)
    with pytest.raises(JsonRpcException) as refused:
        await vscode.request("ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable})
    assert "one at a time" in str(refused.value)
    vscode.client.cancel_request(types.CancelParams(id="the-run"))
    with pytest.raises(JsonRpcException):
        await asyncio.wait_for(asyncio.wrap_future(message), 15)
    assert all(gone(pid) for pid in pids), "the answer comes when nothing is left, not before"
    assert vscode.told["ridgeline/progress"][-1]["state"] == "cancelled"
    assert await vscode.lenses(vscode.open(project.model)) == {}, "the server lives"


@pytest.mark.parametrize("profile", ["neovim", "helix"])
async def test_a_run_by_command_is_cancelled_by_its_progress(profile: str, project: Project) -> None:
    session = await Session.start(profile, project.workspace, store=project.store)
    try:
        path = script(project, FOREVER)
        running = asyncio.ensure_future(
            session.command("ridgeline.server.profile", {"uri": path.as_uri(), "python": sys.executable})
        )
        pids = await started_pids(project, session)
        token, reports = next(iter(session.client.progress_reports.items()))
        assert isinstance(reports[0], types.WorkDoneProgressBegin)
        assert reports[0].cancellable
        session.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))
        result = await asyncio.wait_for(running, 15)
        assert result["state"] == "cancelled"
        assert all(gone(pid) for pid in pids)
        assert isinstance(session.client.progress_reports[token][-1], types.WorkDoneProgressEnd)
        assert any("started" in message.message for message in session.client.log_messages), "output goes to the log"
    finally:
        await session.stop()


async def test_cancel_by_command(vscode: Session, project: Project) -> None:
    assert await vscode.command("ridgeline.server.cancel") == {"cancelled": False}
    path = script(project, FOREVER)
    running = asyncio.ensure_future(
        vscode.request("ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable})
    )
    pids = await started_pids(project, vscode)
    assert await asyncio.wait_for(vscode.command("ridgeline.server.cancel"), 15) == {"cancelled": True}
    assert (await running)["state"] == "cancelled"
    assert all(gone(pid) for pid in pids)


async def test_shutdown_stops_the_run(project: Project) -> None:
    session = await Session.start("vscode", project.workspace, store=project.store)
    path = script(project, FOREVER)
    session.client.protocol.send_request("ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable})
    pids = await started_pids(project, session)
    await asyncio.wait_for(session.stop(), 20)
    assert all(gone(pid) for pid in pids)


async def test_killing_the_server_leaves_no_process(project: Project) -> None:
    session = await Session.start("vscode", project.workspace, store=project.store)
    path = script(project, FOREVER)
    session.client.protocol.send_request("ridgeline/profile", {"uri": path.as_uri(), "python": sys.executable})
    pids = await started_pids(project, session)
    server = session.client._server
    assert server is not None
    session.client._stop_event.set()
    os.kill(server.pid, signal.SIGKILL)
    await session.until(lambda: all(gone(pid) for pid in pids), 8, what="the run is gone")


@pytest.mark.torch
@pytest.mark.slow
async def test_a_program_is_profiled_and_shown(vscode: Session, project: Project) -> None:
    pytest.importorskip("torch")
    path = script(project, TRAIN)
    uri = vscode.open(path)
    result = await vscode.request("ridgeline/profile", {"uri": uri, "python": sys.executable})
    assert result["state"] == "done", result["cause"]
    assert result["run"]["steps"] >= 3
    phases = [progress["phase"] for progress in vscode.told["ridgeline/progress"]]
    assert phases.index("importing") < phases.index("recording") < phases.index("analyzing")
    assert vscode.told["ridgeline/progress"][-1]["state"] == "done"
    assert "start of training" in "".join(piece["text"] for piece in vscode.told["ridgeline/output"])
    lenses = await vscode.lenses(uri)
    hottest = max(lenses, key=lambda line: float(lenses[line].split("% of step")[0].rsplit("·", 1)[-1]))
    assert hottest == TRAIN.split("\n").index("    loss = torch.nn.functional.gelu(layer(x)).sum()")
    told = [change["reason"] for change in vscode.told["ridgeline/profileChanged"]]
    await asyncio.sleep(2.5)
    assert [change["reason"] for change in vscode.told["ridgeline/profileChanged"]] == told == ["profiled"], "told once"


RANKS = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
a = torch.randn(64, 64)
for _ in range(40):
    a = (a @ a).tanh()
    dist.all_reduce(a)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.torch
async def test_the_ranks_of_a_job_appear_by_themselves_rank_0_first(vscode: Session, project: Project) -> None:
    """The documented command: one variable says where the runs go, and each rank has its own."""
    path = script(project, RANKS)
    uri = vscode.open(path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*torchrun, sys.executable, "-m", "ridgeline", "profile", "--quiet", "--then", "stop", str(path)]
    job = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "RIDGELINE_RUN_DIR": str(project.store)}, cwd=project.workspace
    )
    assert await job.wait() == 0
    runs: list[Any] = []
    for _ in range(200):
        runs = await vscode.request("ridgeline/runs", {"uri": uri})
        if len(runs) == 2 and await vscode.lenses(uri):
            break
        await asyncio.sleep(0.1)
    assert [run["rank"] for run in runs] == [0, 1]
    assert (await vscode.request("ridgeline/tree", {}))["run"]["rank"] == 0
    assert path.read_text().split("\n").index("    a = (a @ a).tanh()") in await vscode.lenses(uri)


# Each failure that people really have: as its program behaves, the code of its cause, and its button.
FAILURES = {
    "out-of-memory": (
        "import torch\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')\n",
        "Profile With…",
    ),
    "disk-full": ("import torch\nraise OSError(28, 'No space left on device')\n", "Choose Another Place"),
    "module-missing": ("import torch\nimport not_installed_here\n", "Select Interpreter"),
    "script-failed": ("import torch\nraise ValueError('no such dataset')\n", None),
    "nothing-recorded": ("import torch\nprint(1 + 1)\n", "Profile With…"),
}


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("code", FAILURES)
async def test_each_failure_has_its_cause_and_its_button(project: Project, code: str) -> None:
    text, button = FAILURES[code]
    session = await Session.start("vscode", project.workspace, store=project.store)
    try:
        wanted = {"uri": script(project, text).as_uri(), "python": sys.executable}
        found = await session.request("ridgeline/profile", wanted)
        assert (found["state"], found["cause"]["code"]) == ("failed", code), found
        assert "\n" not in found["cause"]["message"]
        assert [action["title"] for action in found["cause"]["actions"]] == ([button] if button else [])
    finally:
        await session.stop()


async def test_an_interpreter_without_torch_is_said_with_its_button(vscode: Session, project: Project) -> None:
    bare = project.root / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    wanted = {"uri": script(project, "import torch\n").as_uri(), "python": str(bare / "bin" / "python")}
    found = await vscode.request("ridgeline/profile", {**wanted, "analysisPython": sys.executable})
    assert found["cause"]["code"] == "no-torch", found
    assert [action["title"] for action in found["cause"]["actions"]] == ["Select Interpreter"]


async def test_a_second_run_is_refused_with_the_reason(vscode: Session, project: Project) -> None:
    wanted = {"uri": script(project, FOREVER).as_uri(), "python": sys.executable}
    first = asyncio.ensure_future(vscode.request("ridgeline/profile", wanted))
    pids = await started_pids(project, vscode)
    with pytest.raises(JsonRpcException) as refused:
        await vscode.request("ridgeline/profile", wanted)
    assert (refused.value.code, as_json(refused.value.data)) == (-32803, {"code": "already-running"})
    await vscode.command("ridgeline.server.cancel")
    assert (await first)["state"] == "cancelled"
    assert all(gone(pid) for pid in pids)


def test_a_result_without_the_device_is_doubted(project: Project) -> None:
    """CUPTI that could not start, and CUDA that is not there: there is a result, and its first word is that."""
    silent, asked = project.document(), RunSpec(target="x.py", python=sys.executable, cwd="/", device="cuda")
    silent.quality.warnings.append(QualityWarning(code="no-device-records", message="device activity was not recorded"))
    shown = Library([project.store])
    for document, code in ((silent, "no-device-records"), (project.document(devices=[]), "no-cuda")):
        folder = project.add_run(document)
        shown.forget()
        run = shown.find(folder.id)
        assert run is not None
        found = doubt(run, asked)
        assert found is not None
        assert (found["code"], bool(found["hint"])) == (code, True)
        assert code in BUTTONS
    assert doubt(run, RunSpec(target="x.py", python=sys.executable, cwd="/")) is None
