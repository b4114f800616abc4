"""What may be said of raw times: resolution, cache, windows, hooks. Numbers UP-nn are CASES.md's."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline.analysis import analyze_paths
from ridgeline.bench import document, plan
from ridgeline.bench.measure import Overhead, rank, shown_us, timing
from ridgeline.report.text import render
from trace_build import call, frame, kernel, label, write


def test_a_time_of_zero_is_below_the_timers_resolution() -> None:
    """UP-73."""
    measured = timing([0.0, 0.0, 0.0], cache="warm", clock="cuda events", moved_bytes=4096)
    assert measured.median_us is None
    assert measured.gb_per_s is None
    assert measured.note == "below timer resolution"
    json.dumps(measured.note, allow_nan=False)


def test_a_time_of_a_few_ticks_says_how_right_it_can_be() -> None:
    measured = timing([2e-6] * 8, cache="cold", clock="cuda events", tick_s=5e-7, moved_bytes=4096)
    assert measured.median_us == pytest.approx(2.0)
    assert measured.note == "near the timer's resolution: right within 25 % at best".replace(" %", "%")


def test_a_time_without_a_core_is_said_to_be_too_long() -> None:
    """Two threads and one free core: a kernel of 2 us waits for the other thread's turn, 8 ms, again and again."""
    seconds = [8e-3] * 20
    crowded = timing(seconds, cache="warm", clock="perf_counter", waited=0.42)
    assert crowded.spread == 0.0
    assert (
        crowded.note
        == "its threads were without a core 42% of the time: too long, measure again when the machine is idle"
    )
    assert timing(seconds, cache="warm", clock="perf_counter", waited=0.02).note is None
    assert timing(seconds, cache="warm", clock="perf_counter").note is None


def test_a_short_kernel_keeps_its_digits() -> None:
    """UP-74: 1.42 us +- 3 %, not 0.001 ms."""
    calls = 2000
    seconds = [1.42e-6 * calls * factor for factor in (0.97, 0.985, 1.0, 1.015, 1.03)]
    measured = timing(seconds, cache="warm", clock="perf_counter", calls=calls, tick_s=5e-8, moved_bytes=4096)
    assert measured.median_us == pytest.approx(1.42)
    assert measured.spread == pytest.approx(0.03)
    assert measured.gb_per_s == pytest.approx(4096 / 1.42e-6 / 1e9)
    assert measured.note is None
    assert shown_us(1.42) == "1.42 µs"


@pytest.mark.parametrize(
    ("us", "text"), [(0.0812, "81.2 ns"), (0.9996, "1000 ns"), (54.7, "54.7 µs"), (2473.0, "2.47 ms"), (3e6, "3 s")]
)
def test_times_are_shown_with_three_digits(us: float, text: str) -> None:
    assert shown_us(us) == text


def test_cold_and_warm_are_ranked_apart() -> None:
    """UP-76: the cold order is the true one; the warm times are a tie."""
    cold = rank({"1": 90.9, "2": 54.7, "3": 64.5}, "cold")
    assert cold.order[0] == "2"
    assert cold.tied == ["2"]
    assert cold.slower["1"] == pytest.approx(1.66, abs=0.005)
    assert cold.sentence == "cold cache: 2 is fastest"
    warm = rank({"1": 50.7, "2": 51.7, "3": 51.1}, "warm")
    assert warm.sentence == "warm cache: tie"
    rate = timing([54.7e-6] * 4, cache="cold", clock="cuda events", moved_bytes=2 * 4096 * 4096 * 4).gb_per_s
    assert rate == pytest.approx(2454, rel=0.001)


@pytest.mark.parametrize("gap", [0.0, 40.0, 130.0])
def test_gaps_of_the_host_are_not_the_kernels_time(gap: float, tmp_path: Path) -> None:
    """UP-77: three kernels of 50 us a step, and what the host leaves between them: five steps, through the analysis."""
    events = []
    step = 2 * gap + 150
    for repeat in range(5):
        start = 1000.0 + 1000 * repeat
        events.append(label(start, step, f"ProfilerStep#{repeat}"))
        for number in range(3):
            begin, corr = start + number * (50 + gap), repeat * 3 + number + 1
            events += [call(begin, 0.5, corr=corr), kernel(begin + 0.5, 49.5, f"k{number}", corr=corr)]
    found = analyze_paths([write(tmp_path, events)])
    assert found.source.steps == 5
    assert sum(one.total_us for one in found.kernels) / 5 == pytest.approx(3 * 49.5)
    assert [step_.wall_us for step_ in found.steps] == [pytest.approx(step)] * 5
    assert [step_.busy_us for step_ in found.steps] == [pytest.approx(3 * 49.5)] * 5


def test_pythons_work_before_a_launch_is_not_the_kernels() -> None:
    """UP-79: 44 ms of searching names before a kernel of 0.45 ms."""
    seen = Overhead(kernel_us=450, host_us=44_000)
    assert seen.kernel_us == 450
    assert seen.sentence == "host overhead of measurement 44 ms: not part of the kernel's time"
    assert Overhead(kernel_us=450, host_us=20).sentence is None


def test_the_document_is_strict_json_even_of_nothing_measured() -> None:
    import bench_modules as modules

    read = plan.read(modules.CPP + modules.GOOD, "/x/c.py")
    taken = {"seconds": [0.0, 0.0], "calls": 1, "tick_s": 1e-7, "clock": "perf_counter"}
    result = {"kernels": {"cpp_fused_sin_0": {"warm": taken, "problem": None}}}
    written = document.build(read, result, verify=True)
    (kernel,) = json.loads(json.dumps(written, allow_nan=False))["kernels"]
    assert kernel["warm"]["median_us"] is None
    assert kernel["cold"] is None
    assert kernel["autotune"]["state"] == "not_applicable"


def searched(before_us: float, after_us: float) -> dict[str, object]:
    """The document of a Triton kernel that was searched with a clock of half a microsecond."""
    import bench_modules as modules

    read = plan.read(modules.user_module(), "/x/c.py")
    copies = {
        which: {"rounds": [[us * 1e-6] * 4] * 2, "config": config, "compile_s": seconds}
        for which, us, config, seconds in (
            ("plain", before_us, "A", 1.0),
            ("narrow", after_us, "B", 3.0),
            ("wider", after_us, "C", 9.0),
        )
    }
    found = {"tick_s": 5e-7, "copies": copies}
    result = {"kernels": {"scale_kernel_0": {"problem": None, "search": found}}}
    (kernel,) = document.build(read, result, verify=True, exposed_share=0.5)["kernels"]
    return dict(kernel["autotune"])


def test_a_gain_below_the_clocks_own_step_is_not_verified() -> None:
    """2.0 against 1.7 us is 18 %, less than one tick of 0.5 us; 200 against 170 us is the same gain, and real."""
    assert searched(2.0, 1.7)["state"] == "no_gain"
    real = searched(200, 170)
    assert (real["state"], real["config"], real["compile_s"]) == ("verified", "B", 2.0)
    assert real["step_gain"] == pytest.approx(0.5 * (1 - 170 / 200))
    assert searched(170, 200)["config"] is None
    assert searched(0.0, 1.0)["state"] == "not_applicable"


def test_an_autotuners_trials_are_apart_from_what_the_program_runs(tmp_path: Path) -> None:
    """UP-84: the first call launches 100 trials of 10 us, the next three one kernel of 4 us each."""
    events = [
        frame(0, 9000, "run.py(1): main", id=1),
        frame(10, 8000, "triton/testing.py(96): do_bench", id=2, parent=1),
    ]
    for number in range(103):
        trial = number < 100
        at = 20 + 50 * number if trial else 8100 + 100 * (number - 100)
        events += [
            call(at, 2, "cuLaunchKernelEx", corr=number + 1, cat="cuda_driver"),
            kernel(at + 5, 10 if trial else 4, "mine", corr=number + 1, grid=[8, 1, 1], block=[64, 1, 1]),
        ]
    found = analyze_paths([write(tmp_path, events)])
    assert [(one.count, one.total_us, one.median_us, one.share_pct, one.tuning) for one in found.kernels] == [
        (3, 12.0, 4.0, 100.0, False),
        (100, 1000.0, 10.0, None, True),
    ]
    assert [(row.time_us, row.count, row.share_pct) for row in found.categories] == [(12.0, 3, 100.0)]
    (said,) = (one for one in found.quality.warnings if one.code == "autotuning")
    assert said.message.startswith("100 tuning launches (1,000 us) excluded")
    shown = StringIO()
    render(found, Console(width=160, file=shown))
    assert "100 tuning launches (1,000 us) excluded" in shown.getvalue()
    assert found.unattributed.reason == {"trial launches of an autotuner": 1000.0}
    (line,) = found.lines
    assert (line.device_us, line.share_pct) == pytest.approx((12.0, 100.0))
    assert found.unattributed.share_pct == 0.0


def test_bytes_are_those_of_the_call_that_was_measured() -> None:
    import bench_modules as modules

    text = modules.CPP.replace(
        "    return (buf0, )",
        "    buf1 = empty_strided_cpu((u0, 17), (17, 1), torch.float32)\n    cpp_fused_sin_0(buf1, buf1)\n    return (buf0, )",
    )
    read = plan.read(text + modules.GOOD, "/x/c.py")
    first, second = (site.line for site in read.kernels[0].sites)

    def gb(line: int | None) -> float | None:
        row = {"problem": None, "line": line}
        (kernel,) = document.build(read, {"kernels": {"cpp_fused_sin_0": row}}, verify=False)["kernels"]
        return kernel["gb"]  # type: ignore[no-any-return]

    assert gb(first) == gb(None) == pytest.approx(2 * 2 * 17 * 4 / 1e9)
    assert gb(second) is None  # its size is not known: no rate from another call's bytes
    given = {"size": [5, 17], "stride": [17, 1], "dtype": "float32"}
    row = {"problem": None, "line": second, "given": [given, given]}  # what it was really called with in the run
    (kernel,) = document.build(read, {"kernels": {"cpp_fused_sin_0": row}}, verify=False)["kernels"]
    assert kernel["gb"] == pytest.approx(2 * 5 * 17 * 4 / 1e9)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (139, "died (SIGSEGV)"),
        (142, "did not come to its end within the time (--timeout 8) and a minute more, and was stopped"),
        (3, "ended with status 3"),
    ],
)
def test_the_kernel_in_which_the_process_died_is_named(status: int, words: str) -> None:
    import bench_modules as modules

    text = modules.CPP.replace("cpp_fused_sin_0", "cpp_fused_segv_0") + modules.GOOD
    read = plan.read(text, "/x/c.py")
    result = {"at": "cpp_fused_segv_0", "kernels": {}}
    document.cut_short(result, status, 8.0)
    written = document.build(read, result, verify=False)
    assert written["kernels"][0]["problem"] == f"the process {words} in it"
    assert written["notes"][-1] == f"the measuring process {words}: what was measured until then is shown"
