"""A compiled model on the CPU: C++ kernels under their names, and lines that stay right across Inductor's caches."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from agent_bench import AgentRun, Runner

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.xdist_group("agent_compiled"),  # one cold compilation, not one a worker
    pytest.mark.timeout(3600),  # a cold compilation on a busy machine
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="profiling runs on Linux only"),
]

BODY = """import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(32, 32, bias=False)

    def forward(self, x):
        y = self.out(x)
        y = F.gelu(y)
        return y + x


model = Block()
step = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(40):
    step(torch.randn(64, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""

FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)')


def stated_lines(run: AgentRun, program: Path) -> set[tuple[int, str]]:
    """(line, text) of the program's frames in all kernel stacks, as Inductor stated them."""
    found = set()
    for graph in run.sidecar()["graphs"]:
        for stacks in graph["kernel_stacks"].values():
            for stack in stacks:
                found.update(
                    (int(n), text.strip()) for file, n, _, text in FRAME.findall(stack) if file == str(program)
                )
    return found


def check_lines(run: AgentRun, program: Path) -> set[int]:
    """Every stated line holds the stated text in the file as it is now; the lines."""
    assert run.process.returncode == 0, run.process.stderr
    assert run.process.stdout == "trained\n"
    assert run.sidecar()["errors"] == []
    lines = program.read_text().splitlines()
    stated = stated_lines(run, program)
    assert stated
    for number, text in stated:
        assert lines[number - 1].strip() == text
    return {number for number, _ in stated}


def generated(run: AgentRun) -> set[str]:
    return {graph["path"] for graph in run.sidecar()["graphs"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[AgentRun, set[int]]]:
    folder = tmp_path_factory.mktemp("compiled")
    runner = Runner(folder, {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")})
    texts = {
        "cold": BODY,
        "warm": BODY,
        "below": BODY + "\n# a comment below\nprint(end='')\n",
        "above": "# three\n# comment\n# lines\n" + BODY,
    }
    results = {}
    for name, text in texts.items():
        program = runner.program("train.py", text)
        run = runner.agent(program)
        results[name] = (run, check_lines(run, program))
    return results


def test_kernels_appear_under_their_names_at_their_call_sites(runs: dict[str, tuple[AgentRun, set[int]]]) -> None:
    run, _ = runs["cold"]
    sites = [event["name"] for event in run.events() if event.get("cat") == "cpu_op" and "@" in event["name"]]
    kernels = {name.split("@")[0] for name in sites}
    assert kernels
    assert all(name.startswith("cpp_fused") for name in kernels)
    assert any(event["name"] == "aten::mm" for event in run.events())
    paths = {Path(path).stem: path for path in generated(run)}
    for site in set(sites):
        name, line, stem = re.fullmatch(r"(.+)@(\d+)#(\w+)", site).groups()  # type: ignore[union-attr]
        text = run.text_of(paths[stem]).splitlines()[int(line) - 1]
        assert f"{name}(" in text


def test_forward_and_backward_are_told_apart_and_share_the_call_line(
    runs: dict[str, tuple[AgentRun, set[int]]],
) -> None:
    run, _ = runs["cold"]
    graphs = run.sidecar()["graphs"]
    assert sorted(graph["is_backward"] for graph in graphs) == [False, True]
    assert {graph["compile_id"] for graph in graphs} == {"0/0"}
    calls = {tuple(graph["call_stack"][-1][:2]) for graph in graphs}
    assert [BODY.splitlines()[line - 1].strip()[:4] for _, line in calls] == ["step"]
    assert all(graph["instrumented"] for graph in graphs)


def test_a_warm_cache_brings_the_same_modules_and_lines(runs: dict[str, tuple[AgentRun, set[int]]]) -> None:
    assert generated(runs["warm"][0]) == generated(runs["cold"][0])
    assert runs["warm"][1] == runs["cold"][1]


def test_an_edit_below_changes_nothing(runs: dict[str, tuple[AgentRun, set[int]]]) -> None:
    assert generated(runs["below"][0]) == generated(runs["cold"][0])
    assert runs["below"][1] == runs["cold"][1]


def test_an_edit_above_moves_the_lines(runs: dict[str, tuple[AgentRun, set[int]]]) -> None:
    assert runs["above"][1] == {line + 3 for line in runs["cold"][1]}


def test_compilation_is_reported_apart_and_outside_the_window(runs: dict[str, tuple[AgentRun, set[int]]]) -> None:
    sidecar = runs["cold"][0].sidecar()
    window = sidecar["windows"][0]
    assert window["marker"] == "optimizer"
    assert sidecar["compiles"]
    assert all(compile["end_ns"] <= window["start_ns"] for compile in sidecar["compiles"])
    assert len(window["steps"]) >= 3
    assert len(sidecar["plain_steps_ns"]) >= 3
