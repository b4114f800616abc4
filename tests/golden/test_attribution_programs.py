"""Programs whose lines are known by construction, profiled by the agent on the CPU: each op's line is the marked one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attribution_runs import PROGRAMS, Run, check_eager, fused_lines, marks, record
from ridgeline.attribution.model import PhaseOf
from ridgeline.attribution.split import line_rows

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.xdist_group("attribution_programs"),
    pytest.mark.timeout(2400),
]


Runs = Callable[..., Run]


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each program is profiled once, with the compilation cache that the environment names or one for the session."""
    folder = tmp_path_factory.mktemp("attribution")
    cache = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or folder / "inductor")
    done: dict[tuple[str, ...], Run] = {}

    def profiled(program: str, *args: str) -> Run:
        key = (program, *args)
        if key not in done:
            done[key] = record(PROGRAMS / program, folder / "_".join(key), *args, cache=cache)
        return done[key]

    return profiled


def test_eager_training_loop(profiled: Runs) -> None:
    run = profiled("eager_loop.py")
    assert check_eager(run, marks(run.program)) >= 0.98
    phases = {int(run.attribution.phase[r]) for r in range(len(run.work.start)) if run.lines(r)}
    assert {int(PhaseOf.FORWARD), int(PhaseOf.BACKWARD), int(PhaseOf.OPTIMIZER)} <= phases


def test_rows_and_the_rest_hold_all_time(profiled: Runs) -> None:
    run = profiled("eager_loop.py")
    work = run.work
    lines, rest = line_rows(run.trace, work, run.attribution, (0 * work.name), ["all"])
    assert sum(line.device_us for line in lines) + rest.device_us == pytest.approx(float(work.time.sum()), abs=1e-6)
    assert sum(rest.reason.values()) == pytest.approx(rest.device_us, abs=1e-9)
    optimizer = next(line for line in lines if line.text and line.text.startswith("opt.step()"))
    assert optimizer.phase.optimizer_us == pytest.approx(optimizer.device_us)


def test_threads_keep_their_lines_also_where_one_ends_and_the_next_begins(profiled: Runs) -> None:
    run = profiled("threads.py")
    assert check_eager(run, marks(run.program)) >= 0.98


def test_three_lines_one_kernel_and_one_kernel_three_places(profiled: Runs) -> None:
    run = profiled("fused.py")
    wanted = marks(run.program)
    kernels = fused_lines(run, wanted)
    assert kernels["cpp_fused_cos_mul_sin_tanh_0"] == {wanted["sin"], wanted["cos"], wanted["tanh"]}
    assert kernels["cpp_fused_asinh_0"] == {wanted["asinh"]}, "before the graph break"
    assert kernels["cpp_fused_atan_0"] == {wanted["atan"]}, "after the graph break"
    assert kernels["cpp_fused_expm1_sum_0"] == {wanted["expm1"]}, "two modules of a recompile"
    assert kernels["cpp_fused_log1p_mul_0"] == {wanted["log1p"]}, "dynamic shapes"
    for name, symbol in (("erf", "cpp_fused_erf_0"), ("mm", "aten::mm")):
        places: dict[int, set[int]] = {}
        for row in range(len(run.work.start)):
            site = int(run.attribution.site[row])
            if run.symbol(row) == symbol and site >= 0:
                call = run.attribution.sites[site].call_line
                assert call is not None
                places.setdefault(call, set()).update(run.lines(row))
        assert [places[call] for call in sorted(places)] == [{wanted[f"{name}:{k}"]} for k in (1, 2, 3)]


def test_the_modules_of_a_recompile_stay_apart(profiled: Runs) -> None:
    run = profiled("fused.py")
    modules = {
        run.attribution.sites[int(run.attribution.site[row])].module
        for row in range(len(run.work.start))
        if run.symbol(row) == "cpp_fused_expm1_sum_0" and run.attribution.site[row] >= 0
    }
    assert len(modules) == 2


def test_compiled_forward_and_backward(profiled: Runs) -> None:
    run = profiled("trained.py", "mine")
    wanted = marks(run.program)
    backward = 0
    for row in range(len(run.work.start)):
        site = int(run.attribution.site[row])
        if site < 0:
            continue
        if run.op(row) in ("aten::addmm", "aten::mm"):
            assert run.lines(row) == {wanted["mm"]}
        if run.symbol(row).startswith("cpp_fused"):
            assert wanted["region"] not in run.lines(row), run.symbol(row)
        if run.attribution.phase[row] == int(PhaseOf.BACKWARD):
            backward += 1
            assert run.lines(row) <= set(range(wanted["mm"], wanted["tanh"] + 1)), "a statement of forward"
    assert backward > 0


def test_a_library_model_is_charged_to_the_call_of_the_region(profiled: Runs) -> None:
    run = profiled("trained.py", "library")
    wanted = marks(run.program)
    kernels = [r for r in range(len(run.work.start)) if run.symbol(r).startswith("cpp_fused")]
    assert kernels
    for row in kernels:
        refs = run.attribution.sources[int(run.attribution.source[row])]
        assert run.lines(row) == {wanted["region"]}
        library = [ref for ref in refs if ref.library]
        assert library
        assert all("/site-packages/fakelib/" in ref.file for ref in library)


def test_cold_warm_and_after_edits(tmp_path: Path) -> None:
    program, cache = tmp_path / "program" / "tiny.py", tmp_path / "cache"
    program.parent.mkdir()
    shutil.copy(PROGRAMS / "tiny.py", program)
    for number, edit in enumerate((None, None, "\n# above\n\n")):
        if edit is not None:
            head, rest = program.read_text().split("    y = a", 1)
            program.write_text(edit + head + edit + "    y = a" + rest)
        run = record(program, tmp_path / f"run{number}", cache=cache)
        wanted = marks(program)
        kernels = fused_lines(run, wanted)
        assert kernels["cpp_fused_cos_mul_sin_0"] == {wanted["sin"], wanted["cos"]}
        assert kernels["cpp_fused_atan_0"] == {wanted["atan"]}


@pytest.mark.soak
def test_cold_warm_and_after_edits_of_a_larger_program(tmp_path: Path) -> None:
    program, cache = tmp_path / "program" / "fused.py", tmp_path / "cache"
    program.parent.mkdir()
    shutil.copy(PROGRAMS / "fused.py", program)
    for number, edit in enumerate((None, None, "\n# above\n\n", "# and again\n")):
        if edit is not None:
            text = program.read_text()
            head, rest = text.split("def places", 1)
            program.write_text(edit + head + edit + "def places" + rest)
        run = record(program, tmp_path / f"run{number}", cache=cache)
        wanted = marks(program)
        kernels = fused_lines(run, wanted)
        assert kernels["cpp_fused_cos_mul_sin_tanh_0"] == {wanted["sin"], wanted["cos"], wanted["tanh"]}
        assert kernels["cpp_fused_erf_0"] == {wanted[f"erf:{k}"] for k in (1, 2, 3)}
        assert kernels["cpp_fused_atan_0"] == {wanted["atan"]}
