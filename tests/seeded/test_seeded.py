"""The seeded suite: marks read rightly, a sample live, the recordings of a device machine, and all of it in a soak."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import markers
import pack
import record_device
import savings
import suite

CPU = suite.HERE / "cpu"
DEVICE = suite.HERE / "device"
FROZEN = suite.HERE / "frozen" / "runs.tar.xz"
SAMPLE = ("running_loss_item", "slow_decode", "zero_grad_zeros", "clean_regression", "clean_compiled_inference")
"""Live in every run: both findings of the loop, a mechanical mend, and a program with nothing to find."""


def test_marks_are_taken_out_and_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(
        "# options: --lengths\na = 1\nb = slow(a)  # finds: float64\n# mend: b = fast(a)\n# mend: c = b\nd = 2  # may: idle\n"
    )
    program = markers.read(path)
    assert program.expected == (("float64", 3),)
    assert program.allowed == (("idle", 6),)
    assert program.options == ("--lengths",)
    assert program.faulty.splitlines()[1:] == [
        "a = 1", "b = slow(a)", "", "", "d = 2",
    ]  # fmt: skip
    assert program.mended is not None
    assert program.mended.splitlines()[2:] == ["", "b = fast(a)", "c = b", "d = 2"]


def test_a_recording_runs_more_steps_than_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("def main(steps: int = 40) -> None:\n    other(steps=40)  # finds: float64\n")
    program = markers.read(path)
    assert program.recorded == f"def main(steps: int = {markers.MANY}) -> None:\n    other(steps=40)\n"
    assert len(program.digests) == 2, "recordings of both texts are its own"
    for program in markers.read_all(DEVICE):
        assert len(program.recorded.splitlines()) == len(program.faulty.splitlines())
        assert "steps: int = " in program.recorded


def test_promises_against_pairs() -> None:
    """The median pair counts; pairs that disagree about the sign are said to tell nothing apart."""
    document = {
        "findings": [
            {"code": "float64", "step_gain_pct": 12.0},
            {"code": "float64", "step_gain_pct": 8.0},
            {"code": "zero-grad", "step_gain_pct": None},
        ]
    }
    steady = savings.row_of("a", "float64", document, [[100.0, 80.0], [100.0, 75.0], [100.0, 74.0]])
    assert (steady.promised_pct, steady.real_pct, steady.ratio) == (20.0, 25.0, 1.25)
    assert steady.told
    noisy = savings.row_of("b", "float64", document, [[100.0, 80.0], [100.0, 95.0], [100.0, 101.0]])
    assert (noisy.real_pct, noisy.told) == (pytest.approx(5.0), False)
    none = savings.row_of("c", "zero-grad", document, [[100.0, 80.0]])
    assert none.ratio is None
    *rows, every, agreeing = savings.table([steady, noisy, none]).splitlines()
    assert ["(noise)" in row for row in rows] == [False, True, False]
    assert every.startswith("1 of 2 promises kept")
    assert agreeing.startswith("1 of 1 promises kept")


def test_a_mend_needs_a_line_above_it(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("# mend: x = 1\n")
    with pytest.raises(ValueError, match="without a line above"):
        markers.read(path)


@pytest.mark.parametrize("path", [*sorted(CPU.glob("*.py")), *sorted(DEVICE.glob("*.py"))], ids=lambda p: p.stem)
def test_programs_are_programs(path: Path) -> None:
    program = markers.read(path)
    ast.parse(program.faulty)
    ast.parse(program.mended or "")
    assert "# finds:" not in program.faulty
    assert "# mend:" not in program.faulty
    assert bool(program.expected) != path.stem.startswith("clean_")


def test_there_are_enough_of_them() -> None:
    programs = markers.read_all(CPU) + markers.read_all(DEVICE)
    assert sum(bool(p.expected) for p in programs) >= 40
    assert sum(not p.expected for p in programs) >= 20


def test_judging() -> None:
    program = markers.Seeded("p", "", None, (("float64", 3), ("zero-grad", 9)), allowed=(("conv-bias", 4),))

    def finding(code: str, line: int | None, severity: str = "information") -> dict[str, object]:
        return {"code": code, "line": line, "severity": severity}

    outcome = suite.judge(
        program,
        [
            finding("summary", None),
            finding("float64", 3, "hint"),
            finding("zero-grad", 10),
            finding("conv-bias", 4),
            finding("one-step", None, "hint"),
        ],
    )
    assert outcome.found == [("float64", 3)]
    assert outcome.missed == [("zero-grad", 9)]
    assert outcome.wrong == [("zero-grad", 10)], "the right code on a wrong line is wrong"
    assert suite.precision([outcome]) == 50.0
    assert suite.recall([outcome]) == 50.0
    allowed = replace(program, allowed=(("zero-grad", 10), ("zero-grad", 12)))
    outcome = suite.judge(allowed, [finding("float64", 3), finding("zero-grad", 12)])
    assert (outcome.missed, outcome.wrong, outcome.beside) == ([], [], [("zero-grad", 12)])
    assert "at zero-grad:12" in suite.table([outcome])
    assert "recall 100.0 % (1 at an allowed line)" in suite.table([outcome])
    elsewhere = suite.judge(replace(program, allowed=(("conv-bias", 10),)), [finding("conv-bias", 10)])
    assert elsewhere.missed == list(program.expected), "what is allowed for one finding is not for another"


def test_packing_leaves_out_only_what_is_not_read(tmp_path: Path) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2.25}
    events = [
        {**op, "args": {"External id": 7, "Ev Idx": 3}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 1, "tid": 1, "ts": 1.5},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    ]
    path = tmp_path / "trace.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    pack.trim(path)
    with gzip.open(path, "rt") as file:
        trimmed = json.load(file)
    assert trimmed == {"schemaVersion": 1, "traceEvents": [{**op, "args": {"External id": 7}}, events[2]]}
    first = path.read_bytes()
    pack.trim(path)
    assert path.read_bytes() == first, "the same recording gives the same bytes"


@pytest.mark.parametrize(
    ("count", "name", "shorter"),
    [(50_000, "aten::mm", True), (50_000, "Optimizer.step#SGD.step", False), (100, "aten::mm", False)],
)
def test_only_long_recordings_without_steps_are_cut(count: int, name: str, shorter: bool) -> None:
    events: list[dict[str, object]] = [{"ph": "M", "name": "process_name"}]
    for k in range(count):
        events.append({"ph": "X", "name": name, "ts": 10.0 * k, "dur": 5.0, "args": {"correlation": k}})
        events.append({"ph": "X", "name": "kernel", "ts": 10.0 * k + 100_000, "dur": 5.0, "args": {"correlation": k}})
    kept = pack.cut(events)
    assert (len(kept) < len(events)) is shorter
    if shorter:
        calls = [e for e in kept if e["name"] == name]
        kernels = [e for e in kept if e["name"] == "kernel"]
        assert len(calls) == len(kernels) == int(pack.CUT_US / 10), "every launch keeps its kernel"


def test_of_many_events_the_first_steps_are_kept() -> None:
    """Twelve steps of 1,500 launches; kernels run long after them."""
    per_step, us = 1500, 10.0
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name"}]
    for k in range(12 * per_step):
        events.append({"ph": "X", "name": "launch", "ts": us * k, "dur": 5.0, "args": {"correlation": k}})
        events.append({"ph": "X", "name": "kernel", "ts": us * k + 1e6, "dur": 5.0, "args": {"correlation": k}})
    length = int(per_step * us * 1000)
    steps = [{"start_ns": 5 + k * length, "end_ns": 5 + (k + 1) * length} for k in range(12)]
    trace = {"baseTimeNanoseconds": 5, "traceEvents": events}
    sidecar: dict[str, Any] = {"windows": [{"steps": steps, "end_ns": steps[-1]["end_ns"]}]}
    assert pack.cut_steps(trace, sidecar)
    assert sidecar["windows"] == [{"steps": steps[: pack.STEPS], "end_ns": steps[pack.STEPS - 1]["end_ns"]}]
    kept = [e["name"] for e in trace["traceEvents"]]  # type: ignore[attr-defined]
    assert kept.count("launch") == kept.count("kernel") == pack.STEPS * per_step
    assert not pack.cut_steps(trace, sidecar), "no more steps than are kept"


def test_what_is_missing_is_recorded_again(tmp_path: Path) -> None:
    """Programs that changed since they were recorded, and new ones."""
    programs = markers.read_all(DEVICE)
    missing = record_device.missing(programs)
    with tarfile.open(FROZEN) as packed:
        kept = {m.name.split("/")[1] for m in packed.getmembers() if m.name.endswith("/sidecar.json")}
    assert kept | missing == {p.name for p in programs}
    changed = dataclasses.replace(programs[0], faulty=programs[0].faulty + "# changed\n")
    assert programs[0].name in record_device.missing([changed])


def test_what_a_device_machine_is_asked_for() -> None:
    a, b, c = (markers.Seeded(name, "", mended, ()) for name, mended in (("a", None), ("b", "x"), ("c", "y")))

    def asked(record: list[str] | None, pairs: list[str] | None, lacking: set[str] | None = None) -> str:
        jobs = record_device.chosen([a, b, c], record, pairs, lacking)
        assert all(recorded != timed for _, recorded, timed in jobs)
        return " ".join(p.name.upper() if recorded else p.name for p, recorded, _ in jobs)

    assert asked(None, None) == "A B C b c"
    assert asked(None, None, {"a", "c"}) == "A C b c"
    assert asked(None, []) == "b c"
    assert asked(None, ["c", "b"]) == "c b"
    assert asked([], None) == "A B C"
    assert asked(["a"], ["c"]) == "A c"
    with pytest.raises(SystemExit, match="no such programs: d"):
        asked(["d"], None)


def test_every_lane_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [record_device.visible(n) for n in range(3)] == ["0", "1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [record_device.visible(n) for n in range(3)] == ["3", "5", "3"]


@pytest.mark.parametrize("items", ["range", "loader", "short loader", "shorter loader"])
def test_steps_are_timed_without_what_comes_before_them(items: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(record_device.time, "perf_counter", lambda: now[0])
    clock = record_device.StepClock(record_device.WARM + 20, lambda: None)
    now[0] += 100.0  # its preparation
    assert list(clock.range(3)) == [0, 1, 2], "another loop of the program"
    if items == "range":
        for _ in clock.range(clock.steps):
            now[0] += 0.002
    else:
        more = {"loader": 5, "short loader": 0, "shorter loader": -7}
        batches = [0] * (clock.steps + more[items])
        loader = type("Loader", (list,), {"dataset": None})(batches)
        for step, _ in clock.enumerate(loader):
            if step == clock.steps:
                break
            now[0] += 0.002
        now[0] += 50.0  # what comes after
    assert clock.step_us == pytest.approx(2_000.0)


def test_a_program_without_a_loop_over_steps_is_not_timed() -> None:
    with pytest.raises(RuntimeError, match="no loop"):
        _ = record_device.StepClock(30, lambda: None).step_us


def _report(outcome: suite.Outcome) -> None:
    print(suite.table([outcome]).splitlines()[0])


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_live(name: str) -> None:
    pytest.importorskip("torch")
    (outcome,) = suite.live([markers.read(CPU / f"{name}.py")], _report)
    assert outcome.error is None
    assert not outcome.missed
    assert not outcome.wrong
    _promises_agree(name, outcome.findings)


def test_recordings_of_a_device_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    if not FROZEN.is_file():
        pytest.skip("no recordings yet: tests/seeded/record_device.py makes them on a machine with a CUDA device")
    said: dict[str, list[dict[str, Any]]] = {}
    judge = suite.judge
    monkeypatch.setattr(suite, "judge", lambda p, findings: judge(p, said.setdefault(p.name, findings)))
    outcomes = suite.frozen(markers.read_all(DEVICE), FROZEN, _report)
    print(suite.table(outcomes))
    assert len(outcomes) >= 15, "most programs changed since they were recorded: record them again"
    assert suite.precision(outcomes) >= 95.0
    assert suite.recall(outcomes) >= 90.0
    assert not [o.name for o in outcomes if o.wrong and not o.expected], "nothing above hint on a clean program"
    for name, findings in said.items():
        _promises_agree(name, findings)


def _promises_agree(name: str, findings: list[dict[str, Any]]) -> None:
    """None above its bound or what the thing costs, all together not above the step, none said twice."""
    promised = [f for f in findings if f["saving_us"] is not None]
    step = next(f for f in findings if f["code"] == "summary")["evidence"]["step_us"]
    assert sum(f["saving_us"] for f in promised) <= step * 1.0001, name
    assert sum(f["step_gain_pct"] for f in promised) <= 100.01, name
    assert len({(f["code"], f["file"], f["line"], f["message"]) for f in findings}) == len(findings), name
    for finding in promised:
        assert finding["saving_us"] <= min(finding["saving_bound_us"], finding["time_us"]) * 1.0001, (name, finding)


PLAYED = (
    "item_every_step",
    "zero_grad_keeps_tensors",
    "mask_every_pass",
    "full_float32",
    "single_tensor_adam",
    "clean_loader",
)
"""Steps that the device sets the pace of, steps that the host does, and such as wait."""


def test_recorded_steps_played_as_they_are_take_their_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the recorded pace, over whole recordings of an H200; the last step's work may end after the last step."""
    from ridgeline import analysis
    from ridgeline.findings import Context
    from ridgeline.findings.facts import Facts

    if not FROZEN.is_file():
        pytest.skip("no recordings yet: tests/seeded/record_device.py makes them on a machine with a CUDA device")
    contexts: list[Context] = []
    monkeypatch.setattr(analysis, "find", lambda context: contexts.append(context) or [])
    with tarfile.open(FROZEN) as packed:
        wanted = [m for m in packed.getmembers() if m.name.split("/")[1:2] and m.name.split("/")[1] in PLAYED]
        packed.extractall(tmp_path, wanted, filter="data")
    runs = [tmp_path / "runs" / name for name in PLAYED if (tmp_path / "runs" / name / "sidecar.json").is_file()]
    assert runs
    for run in runs:
        analysis.analyze_run(run)
        facts = Facts(contexts[-1])
        assert facts.whatif.replay.step_us(facts.n) == pytest.approx(facts.step_us, rel=0.06), run.name


@pytest.mark.soak
@pytest.mark.torch
@pytest.mark.timeout(7200)
def test_all_of_them_live() -> None:
    pytest.importorskip("torch")
    outcomes = suite.live(markers.read_all(CPU), _report)
    print(suite.table(outcomes))
    for outcome in outcomes:
        if outcome.error is None:
            _promises_agree(outcome.name, outcome.findings)
    assert suite.precision(outcomes) >= 95.0
    assert suite.recall(outcomes) >= 90.0
    assert not [o.name for o in outcomes if o.wrong and not o.expected], "nothing above hint on a clean program"
