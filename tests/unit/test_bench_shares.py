"""Shares of the wall: Inductor's own report recomputed its way, the guide's figures explained, ours from one run."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline.analysis import analyze_paths
from ridgeline.bench import shares
from ridgeline.profile import (
    CallLine,
    CategoryRow,
    File,
    GeneratedRef,
    Kernel,
    Module,
    ProfileDocument,
    Source,
    Totals,
)
from ridgeline.report.modules import side_by_side, wall_share
from ridgeline.report.text import render

_ROW = re.compile(r"^\s+== (?P<category>\w+) category kernels ==|^Total\s+(?P<total>[\d.]+)\s+(?P<pct>[\d.]+)%")
_KERNEL = re.compile(r"^\S.*\s(?P<ms>[\d.e-]+)\s+\d+\s+[\d.]+%$")


def harness_figures(text: str) -> tuple[dict[str, float], float]:
    """Milliseconds a call by category, summed over the kernels' rows, and the wall (ms) that the report divides by."""
    sums: dict[str, float] = {}
    category = None
    for row in text.splitlines():
        if (match := _ROW.match(row)) is not None:
            category = match["category"]
        elif category is not None and (kernel := _KERNEL.match(row)) is not None:
            sums[category] = sums.get(category, 0.0) + float(kernel["ms"])
    wall = re.search(r"^Total wall time ([\d.]+) ms$", text, re.MULTILINE)
    assert wall is not None
    return sums, float(wall[1])


def test_inductors_own_report_computed_its_way(corpus: Path) -> None:
    (path,) = [p for p in (corpus / "mixnet_train").glob("harness_*.txt") if "Output for tabulate" in p.read_text()]
    figures, wall = harness_figures(path.read_text())
    assert wall == 16.194
    report = shares.inductor_way(figures, wall)
    assert report.shares_pct == {
        "triton_pointwise": pytest.approx(28.89, abs=0.005),
        "triton_reduction": pytest.approx(12.92, abs=0.005),
        "triton_persistent_reduction": pytest.approx(1.55, abs=0.005),
        "unknown": pytest.approx(47.03, abs=0.005),
    }
    assert report.busy_pct == pytest.approx(90.39, abs=0.01)
    assert report.explanation is None


def test_ours_of_the_training_step_beside_inductors_of_the_module_alone(corpus: Path, tmp_path: Path) -> None:
    """Device times of the forward module agree by category; shares of the wall do not, and must not.

    Inductor's report is of 100 calls of the module alone, whose wall (16.194 ms) comes from another run without a profiler.
    Ours is one step of the training program while a profiler with stacks ran (464 ms, launching most of it): the same
    device time is a smaller part of that wall, and with the backward pass a smaller part of the device's time.
    """
    (path,) = [p for p in (corpus / "mixnet_train").glob("harness_*.txt") if "Output for tabulate" in p.read_text()]
    theirs, wall_ms = harness_figures(path.read_text())
    with tarfile.open(corpus / "mixnet_train" / "generated.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if stream is not None:
                target = tmp_path / Path(member.name).parent.name / Path(member.name).name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(stream.read())
    document = analyze_paths([corpus / "mixnet_train" / "trace.json.gz"], generated=tmp_path)
    modules, rows = side_by_side(document)
    assert [module.kind for module in modules] == ["forward", "backward"]
    assert modules[0].file.endswith(path.stem.removeprefix("harness_") + ".py")
    ours = {row.category: row.by_module[0] / 1e3 for row in rows}
    assert ours["pointwise"] == pytest.approx(theirs["triton_pointwise"], rel=0.02)
    assert ours["reduction"] == pytest.approx(theirs["triton_reduction"], rel=0.02)
    assert ours["persistent_reduction"] == pytest.approx(theirs["triton_persistent_reduction"], rel=0.02)
    # What Inductor calls unknown are the library's kernels; ours have names.
    library = sum(ours.get(name, 0.0) for name in ("convolution", "gemm", "memset", "memcpy", "other"))
    assert library == pytest.approx(theirs["unknown"], rel=0.02)
    # Its shares of the wall are these device times over another wall.
    wall = document.totals.wall_us
    assert wall is not None
    assert wall / 1e3 > 20 * wall_ms
    for row in rows:
        share = wall_share(document, row.by_module[0])
        assert share is not None
        assert share * wall / 1e5 == pytest.approx(ours[row.category])
    assert sum(wall_share(document, one.time_us) or 0.0 for one in document.categories) < 100


def test_the_guides_figures_cannot_be_of_one_run() -> None:
    guide = {"pointwise": 28.58, "reduction": 13.85, "persistent reduction": 3.89, "unknown": 56.57}
    report = shares.explained(guide)
    assert report.busy_pct == pytest.approx(102.89)
    assert report.explanation is not None
    assert report.explanation.startswith("the shares sum to 102.89 %: the wall time comes from another run")


def test_the_same_figures_over_their_own_runs_wall_stay_below_the_whole() -> None:
    """Device times of a run of 17 ms divided by the 16 ms of another: 102 %; by their own wall: 96 %."""
    device = {"pointwise": 6_000.0, "unknown": 10_320.0}
    wrong = shares.inductor_way({name: us / 1e3 for name, us in device.items()}, wall_ms=16.0)
    assert wrong.explanation is not None
    ours = shares.of_one_run(device, busy_us=16_320.0, wall_us=17_000.0)
    assert sum(wall for _, wall in ours.values()) == pytest.approx(96.0)
    assert sum(device_share for device_share, _ in ours.values()) == pytest.approx(100.0)


def test_kernels_on_two_streams_do_not_make_more_than_the_wall() -> None:
    ours = shares.of_one_run({"a": 900.0, "b": 600.0}, busy_us=900.0, wall_us=1000.0)
    assert sum(wall for _, wall in ours.values()) == pytest.approx(90.0)


def test_a_wall_of_zero_has_no_shares() -> None:
    with pytest.raises(ValueError, match="no shares"):
        shares.inductor_way({"a": 1.0}, 0.0)


def kernel(identity: str, category: str, total: float, refs: list[GeneratedRef]) -> Kernel:
    return Kernel(
        id=identity, name=identity, symbol=identity, device=0, category=category, count=2, total_us=total, min_us=1,
        q1_us=1, median_us=1, q3_us=1, max_us=1, share_pct=1, generated=refs,
    )  # type: ignore[arg-type]  # fmt: skip


def test_forward_and_backward_stand_beside_each_other() -> None:
    forward, backward = "/g/cf.py", "/g/cb.py"
    shared = [
        GeneratedRef(file=forward, call_lines=[CallLine(line=9, time_us=30.0, count=1)]),
        GeneratedRef(file=backward, call_lines=[CallLine(line=7, time_us=70.0, count=1)]),
    ]
    document = ProfileDocument(
        source=Source(kind="run", path="/x/t.py", steps=2),
        totals=Totals(wall_us=1000.0),
        kernels=[kernel("k", "pointwise", 100.0, shared), kernel("m", "gemm", 200.0, [])],
        modules=[
            Module(file=backward, kind="backward", kernels=["k", "m"]),
            Module(file=forward, kind="forward", kernels=["k"]),
        ],
    )
    modules, rows = side_by_side(document)
    assert [module.kind for module in modules] == ["forward", "backward"]
    assert {row.category: row.by_module for row in rows} == {"gemm": [0.0, 100.0], "pointwise": [15.0, 35.0]}
    assert wall_share(document, 100.0) == pytest.approx(10.0)
    assert wall_share(ProfileDocument(source=Source(kind="trace", path="x")), 100.0) is None


def test_the_text_lists_modules_with_a_place_at_which_they_can_be_opened(tmp_path: Path) -> None:
    here = tmp_path / "cforward.py"
    here.write_text("")
    document = ProfileDocument(
        source=Source(kind="run", path="/x/t.py", steps=2),
        totals=Totals(wall_us=1000.0),
        files=[File(path="/gone/cbackward.py", snapshot="files/abc.py", kind="generated")],
        categories=[CategoryRow(device=0, category="gemm", time_us=600.0, share_pct=100.0, count=2)],
        kernels=[kernel("k", "gemm", 200.0, []), kernel("m", "pointwise", 400.0, [])],
        modules=[
            Module(file="/gone/cbackward.py", kind="backward", kernels=["m"], device_us=400.0),
            Module(file=str(here), kind="forward", kernels=["k"], device_us=200.0),
        ],
    )
    out = io.StringIO()
    render(document, Console(file=out, width=100, color_system=None))
    text = out.getvalue()
    assert "forward cforward" in text
    assert text.index("forward cforward") < text.index("backward cbackwar")
    assert f"  forward   100 µs a step, {here}\n" in text
    assert "  backward  200 µs a step, cbackward.py, kept in the run folder as files/abc.py" in text
    document.source = Source(kind="module", path=str(here), steps=2)  # a module's own profile: that file is known
    out = io.StringIO()
    render(document, Console(file=out, width=100, color_system=None))
    assert "Generated modules" not in out.getvalue()
