"""Runs recorded by the agent on an H200 (``data/h200_runs``): device time on statements, checked against the programs."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ridgeline.analysis import analyze_run
from ridgeline.profile import ProfileDocument

DATA = Path(__file__).parent / "data" / "h200_runs"

# For each program: what its lines must be, by text, with the least part (per cent) of the attributed device time.
MLP = {
    "h = self.fc1(x)": 25.0,
    "h = torch.relu(self.fc2(h)) + x": 25.0,
    "opt.step()": 10.0,
    "h = torch.nn.functional.gelu(h)": 2.0,
}
ENCODER = {
    "score = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5": 10.0,
    "attn = score.softmax(-1) @ v": 10.0,
    "return x + self.down(torch.nn.functional.silu(self.up(self.n2(x))))": 25.0,
    "opt.step()": 5.0,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ProfileDocument]:
    folder = tmp_path_factory.mktemp("runs")
    documents = {}
    for archive in DATA.glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        name = archive.name.removesuffix(".tar.gz")
        documents[name] = analyze_run(folder / name)
    return documents


@pytest.mark.parametrize("name", ["mlp_train", "encoder_train", "slow_habits"])
def test_nearly_all_device_time_is_on_statements(runs: dict[str, ProfileDocument], name: str) -> None:
    document = runs[name]
    assert document.totals.self_device_us is not None
    on_statements = sum(line.device_us for line in document.lines if line.granularity == "statement")
    assert on_statements >= 0.98 * document.totals.self_device_us
    assert document.unattributed.share_pct is not None
    assert document.unattributed.share_pct <= 1.0


@pytest.mark.parametrize(("name", "expected"), [("mlp_train", MLP), ("encoder_train", ENCODER)])
def test_the_hot_lines_are_the_right_ones(
    runs: dict[str, ProfileDocument], name: str, expected: dict[str, float]
) -> None:
    shares = {line.text: line.share_pct or 0.0 for line in runs[name].lines}
    for text, least in expected.items():
        assert shares.get(text, 0.0) >= least, (text, shares)


def test_phases_of_a_compiled_step(runs: dict[str, ProfileDocument]) -> None:
    lines = {line.text: line for line in runs["mlp_train"].lines}
    # The input needs no gradient: one product forward, one backward. Behind it: one forward, two backward.
    first, second = lines["h = self.fc1(x)"].phase, lines["h = torch.relu(self.fc2(h)) + x"].phase
    assert first.backward_us == pytest.approx(first.forward_us, rel=0.3)
    assert second.backward_us > 1.3 * second.forward_us > 0
    optimizer = lines["opt.step()"]
    assert optimizer.phase.optimizer_us == pytest.approx(optimizer.device_us)


PHASES = {
    # forward, backward, optimizer, in microseconds of the window
    "mlp_train": (1115.358, 1604.990, 424.928),
    "encoder_train": (1078.937, 1878.630, 295.072),
    "slow_habits": (414.848, 95.456, 1.792),
}


@pytest.mark.parametrize("name", sorted(PHASES))
def test_all_device_time_has_a_phase(runs: dict[str, ProfileDocument], name: str) -> None:
    phases, total = runs[name].phases, runs[name].totals.self_device_us
    assert phases is not None
    assert (phases.forward_us, phases.backward_us, phases.optimizer_us) == pytest.approx(PHASES[name], abs=0.001)
    assert phases.forward_us + phases.backward_us + phases.optimizer_us + phases.unknown_us == pytest.approx(total)
    # Rows of lines hold the same, less what no line is known for.
    assert sum(line.phase.optimizer_us for line in runs[name].lines) <= phases.optimizer_us * 1.000001


def test_every_generated_kernel_leads_to_its_module_and_call_line(runs: dict[str, ProfileDocument]) -> None:
    for kernel in runs["mlp_train"].kernels:
        if kernel.name.startswith("triton_"):
            calls = [call for ref in kernel.generated for call in ref.call_lines]
            assert sum(call.count for call in calls) == kernel.count, kernel.name
            assert kernel.aten


def test_each_habit_is_found_on_its_statement(runs: dict[str, ProfileDocument]) -> None:
    document = runs["slow_habits"]
    found = {(f.code, f.line) for f in document.findings}
    text = {line.line: line.text or "" for line in document.lines}
    assert ("data-loading", 34) in found
    assert {line for code, line in found if code == "hidden-sync"} == {44, 49}
    assert "loss.item()" in text[44]
    assert text[49].startswith("if (total")
    assert ("host-round-trip", 21) in found
    assert ("small-kernels", 48) in found
    assert ("pageable-copy", 37) in found


def test_a_module_by_itself_is_shown_on_its_own_call_lines(runs: dict[str, ProfileDocument]) -> None:
    """``ridgeline profile GENERATED.py`` of a transformer's forward module (an excerpt: four of its twenty steps)."""
    document = runs["generated_forward"]
    assert document.source.kind == "module"
    (module,) = document.modules
    (file,) = {line.file for line in document.lines}
    assert file == module.file
    assert document.unattributed.device_us == 0.0
    assert sum(line.device_us for line in document.lines) == pytest.approx(document.totals.self_device_us)
    kernels = {kernel.id: kernel for kernel in document.kernels}
    for line in document.lines:
        assert line.text is not None
        for name in (kernels[identity].name for identity in line.kernels):
            assert not name.startswith("triton_") or f"{name}.run(" in line.text
    categories = {row.category: row.time_us for row in document.categories}
    assert {"gemm", "pointwise", "reduction", "persistent_reduction", "attention", "memset"} == set(categories)
    assert sum(categories.values()) == pytest.approx(document.totals.self_device_us)
    # The device's time and the wall are of the same steps: what the categories come to is busy time, and less than the wall.
    (device,) = document.devices
    assert device.busy_us == pytest.approx(document.totals.self_device_us, rel=0.01)
    assert device.busy_us < document.totals.wall_us
    # The runner waits for the device after each call; that is no fault of the person's.
    assert "hidden-sync" not in {finding.code for finding in document.findings}


def test_shares_are_of_the_step_that_nobody_recorded(runs: dict[str, ProfileDocument]) -> None:
    """Recorded with lines, the step took 63 ms instead of 9.9; its kernels took the same 3.2 ms, a third of a real step."""
    document = runs["encoder_train"]
    plain = document.totals.plain_step_us
    assert plain is not None
    assert document.totals.profiled_step_us is not None
    assert document.totals.profiled_step_us > 5 * plain
    shares = sum(k.step_share_pct or 0.0 for k in document.kernels)
    exposed = sum(k.exposed_us or 0.0 for k in document.kernels)
    assert shares == pytest.approx(100 * exposed / plain, rel=1e-6)
    assert 30 < shares < 36
