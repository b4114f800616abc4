"""launch-bound, small-kernels, idle, profiler-idle: what counts as the host's lateness, and what does not."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.facts import Facts
from ridgeline.findings.funnel import EDITOR_PCT
from ridgeline.findings.graph_needs import needs
from ridgeline.findings.loops import RUN
from ridgeline.findings.queue import LAUNCH_US
from ridgeline.findings.rules import host_work, launch_bound, small_kernels
from ridgeline.findings.rules.launch_bound import MIN_GAPS, SHARE_PCT
from ridgeline.findings.rules.profiler_idle import SLOWDOWN
from ridgeline.profile import Finding, Memory
from ridgeline.sidecar import Sidecar, Window
from ridgeline.trace.tables import Call, DeviceInfo


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _late(gap_pct: float, *, steps: int = 3, step: float = 10_000.0, kernels: int = 10) -> TraceBuilder:
    """Kernels each launched only after the one before has ended; ``gap_pct`` of the step is gaps."""
    b = TraceBuilder()
    period = step / kernels
    gap = period * gap_pct / 100.0
    for k in range(steps):
        b.step(k * step, step)
        for i in range(kernels):
            t = k * step + i * period
            b.line(t, t + period, "infer.py", 10 + i % 2, f"x = layer{i}(x)")
            b.kernel("small", t + gap, period - gap, launched=t + gap / 2)
    return b


@pytest.mark.parametrize(("share", "expected"), [(SHARE_PCT - 1, 0), (SHARE_PCT + 1, 1)])
def test_at_the_edge(share: float, expected: int) -> None:
    assert len(_by_code(find(_late(share).context()), "launch-bound")) == expected


def test_gain_line_and_what_graphs_need() -> None:
    finding = _by_code(find(_late(50.0).context()), "launch-bound")[0]
    assert (finding.file, finding.line) in {("infer.py", 10), ("infer.py", 11)}
    gaps = 29 / 30  # of thirty gaps: what came before the first kernel of the recording is not known
    assert finding.time_us == pytest.approx(gaps * 5000.0)
    assert finding.saving_us == pytest.approx(gaps * 5000.0), "never more than the gaps; less a microsecond each"
    assert finding.evidence["cuda_graph_needs"]["same_launches_every_step"] is True
    assert finding.evidence["cuda_graph_needs"]["syncs_per_step"] == 0
    assert "CUDA graphs" in finding.message


@pytest.mark.parametrize(("waits", "code"), [(True, "hidden-sync"), (False, "launch-bound")])
def test_a_host_that_waits_cannot_run_ahead(waits: bool, code: str) -> None:
    """Ten kernels of 70 µs; the host needs 30 for each. Where it waits for every one the device idles 30 µs before the next: the
    launches are not slow, they come late. Where it does not wait, but needs 100 for each, they are slow."""
    b = TraceBuilder()
    for k in range(3):
        b.step(k * 1000.0, 1000.0)
        for i in range(10):
            t = k * 1000.0 + 100.0 * i
            b.line(t, t + 100.0, "train.py", 7, "if x.sum() > 0:")
            b.kernel("gemm", t + 30.0, 70.0, launched=t + 29.0)
            if waits:
                b.op("aten::is_nonzero", t + 31.0, 68.9)
                b.sync(t + 32.0, 67.9)
    found = {f.code: f for f in find(b.context())}
    assert {"hidden-sync", "launch-bound"} & set(found) == {code}
    assert found[code].step_gain_pct is not None
    assert found[code].step_gain_pct > 10.0
    assert found[code].saving_us is not None
    assert found[code].time_us is not None
    assert found[code].saving_us <= found[code].time_us


def test_gaps_under_a_full_queue_are_for_fusion() -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(k * 1000.0, 1000.0)
        for i in range(10):
            t = k * 1000.0 + i * 100.0
            b.kernel("gemm", t + 30, 70.0, launched=k * 1000.0 - 50 + i)
    findings = find(b.context())
    assert not _by_code(findings, "launch-bound")
    count, total = Facts(b.context()).queue.short_gaps
    assert (count, total) == (29, pytest.approx(29 * 30.0))


def test_waiting_loading_and_copying_are_not_late_launches() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = k * 1000.0
        b.step(t, 1000.0)
        b.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t, 400.0)
        b.kernel("gemm", t + 405, 595.0, launched=t + 401)
    assert not _by_code(find(b.context()), "launch-bound")


def test_device_idle_is_of_the_device_not_of_a_stream() -> None:
    """One stream waits 49 ms while another keeps the device busy."""
    b = TraceBuilder()
    b.kernel("a", 0.0, 1000.0, stream=7)
    b.kernel("a", 50_000.0, 1000.0, stream=7)
    b.kernel("b", 0.0, 51_000.0, stream=8)
    facts = Facts(b.context())
    assert facts.idle.total == 0.0
    assert not [f for f in find(b.context()) if f.code in ("launch-bound", "idle", "single-gap")]


def test_kernels_of_a_microsecond_every_ten_are_ten_per_cent_busy() -> None:
    b = TraceBuilder()
    b.step(0.0, 10_000.0)
    for i in range(1000):
        b.kernel("tiny", i * 10.0 + 9.0, 1.0, launched=i * 10.0 + 4.0)
    facts = Facts(b.context())
    assert 100 * facts.busy.total / facts.recorded_us == pytest.approx(10.0)
    finding = _by_code(find(b.context()), "launch-bound")[0]
    assert "sampled utilisation" in finding.message
    assert "near 100 %" in finding.message


def test_with_stacks_gaps_prove_nothing() -> None:
    findings = find(_late(60.0).context(stacks=True))
    assert not _by_code(findings, "launch-bound")
    assert not _by_code(findings, "idle")
    assert _by_code(findings, "profiler-idle")[0].severity == "hint"


def test_with_stacks_the_calls_alone_may_prove_it() -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(k * 1000.0, 1000.0)
        for i in range(50):
            b.kernel("tiny", k * 1000.0 + i * 20 + 10, 1.0)  # its launching call takes 3 µs
    finding = _by_code(find(b.context(stacks=True)), "launch-bound")[0]
    assert finding.saving_us is None, "no promise on such a recording"
    assert finding.evidence["call_us_per_step"] == pytest.approx(150.0)
    assert finding.evidence["busy_us_per_step"] == pytest.approx(50.0)


def test_idle_that_exists_only_under_the_profiler_is_corrected_by_the_plain_step() -> None:
    """Plain 3.16 s, profiled 6.17 s, 3.0 s of kernels in both: 5.1 % idle, not 51.4 %."""
    b = TraceBuilder()
    b.step(0.0, 6_170_000.0)
    for i in range(3):
        b.kernel("k", i * 2_000_000.0 + 1_000_000.0, 1_000_000.0, launched=i * 2_000_000.0 + 900_000.0)
    findings = find(b.context(stacks=True, plain_step_us=3_160_000.0, profiled_step_us=6_170_000.0))
    note = _by_code(findings, "profiler-idle")[0]
    assert note.evidence["corrected_idle_pct"] == pytest.approx(5.06, abs=0.05)
    assert note.evidence["idle_share_pct"] == pytest.approx(51.4, abs=0.1)
    assert not _by_code(findings, "launch-bound")


@pytest.mark.parametrize(("slowdown", "expected"), [(SLOWDOWN - 0.05, 0), (SLOWDOWN + 0.05, 1)])
def test_slowdown_at_the_edge(slowdown: float, expected: int) -> None:
    context = _late(60.0).context(plain_step_us=10_000.0 / slowdown, profiled_step_us=10_000.0)
    assert len(_by_code(find(context), "profiler-idle")) == expected


def _busy_host(gap: float, *, every: int = 1, steps: int = 6, step: float = 20_000.0) -> TraceBuilder:
    """Before the kernel of every ``every``-th the host computes something for ``gap`` µs."""
    b = TraceBuilder()
    for k in range(steps):
        t = step * k
        b.step(t, step)
        idle = gap if k % every == 0 else 1.0
        b.line(t, t + idle, "train.py", 8, "table = summarise(rows)")
        b.line(t + idle, t + step, "train.py", 9, "loss = model(x)")
        b.kernel("gemm", t + idle, step - idle, launched=t + idle - 0.5)
    return b


@pytest.mark.parametrize(("gap", "expected"), [(LAUNCH_US - 100, 0), (LAUNCH_US + 100, 1)])
def test_a_gap_too_long_for_launching_is_the_hosts_work(gap: float, expected: int) -> None:
    found = _by_code(find(_busy_host(gap).context()), "host-work")
    assert len(found) == expected
    if found:
        assert (found[0].file, found[0].line) == ("train.py", 8)
        assert found[0].saving_us == pytest.approx(5 / 6 * gap, rel=1e-3)


@pytest.mark.parametrize(("share", "expected"), [(host_work.SHARE_PCT - 0.2, 0), (host_work.SHARE_PCT + 0.2, 1)])
def test_host_work_at_the_edge_of_its_share(share: float, expected: int) -> None:
    gap = share / 100.0 * 100_000.0 * 6 / 5  # five of six gaps have a kernel before them
    assert gap > LAUNCH_US
    assert len(_by_code(find(_busy_host(gap, step=100_000.0).context()), "host-work")) == expected


def test_host_work_now_and_then_is_no_finding() -> None:
    assert not _by_code(find(_busy_host(9_000.0, every=3, steps=9).context()), "host-work")


def test_a_step_of_host_work_is_not_launch_bound() -> None:
    assert not _by_code(find(_busy_host(12_000.0).context()), "launch-bound")


@pytest.mark.parametrize(("kernels", "expected"), [(MIN_GAPS, 0), (MIN_GAPS + 1, 1)])
def test_without_steps_a_few_launches_say_nothing(kernels: int, expected: int) -> None:
    b = TraceBuilder()
    for i in range(kernels):
        b.kernel("small", 100.0 * i, 20.0, launched=100.0 * i - 10)
    assert len(_by_code(find(b.context()), "launch-bound")) == expected


def _layers(count: int, *, parts: str | None = None, product: bool = True) -> TraceBuilder:
    """One statement that adds once per repetition; ``parts``: what it takes out of a tensor, "same" or "another"."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "net.py", 7, "x = x + layer(x)")
        for i in range(count):
            u = t + 40 * i
            if parts:
                index = "0" if parts == "same" else str(i)
                b.op("aten::select", u, 2.0, dims=[[64, 64], [], []], types=["float"], concrete=["", "0", index])
            if product:
                b.op("aten::mm", u + 4, 8.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
                b.kernel("gemm", u + 14, 12.0, launched=u + 6)
            b.op("aten::add", u + 16, 8.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
            b.kernel("add", u + 30, 2.0, launched=u + 20)
    return b


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        (_layers(60), 0),
        (_layers(60, parts="same"), 0),
        (_layers(60, parts="another"), 1),
        (_layers(60, product=False), 1),
    ],
    ids=["layers", "layers that halve a tensor", "a product per part", "no product"],
)
def test_layers_are_no_loop_over_parts(b: TraceBuilder, expected: int) -> None:
    found = [f for f in _by_code(find(b.context()), "small-kernels") if f.line == 7]
    assert len(found) == expected


@pytest.mark.parametrize(("run", "expected"), [(RUN - 1, 0), (RUN, 1)])
def test_the_length_of_a_run_at_the_edge(run: int, expected: int) -> None:
    """Four layers, within each of which an operation repeats."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "net.py", 7, "heads.append(x[i] * w)")
        for i in range(4 * run):
            u = t + 80 * i
            if i % run == 0:
                b.op("aten::mm", u, 8.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
            b.op("aten::mul", u + 16, 8.0, dims=[[64]], types=["float"])
            b.kernel("mul", u + 30, 2.0, launched=u + 20)
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


@pytest.mark.parametrize(
    ("around", "expected"),
    [("Int8PerChannel", 1), ("_Quantise", 1), ("aten::linalg_loop", 0), ("Int8PerChannelBackward", 0)],
)
def test_a_loop_within_a_function_of_the_programs_own_is_one(around: str, expected: int) -> None:
    """A ``torch.autograd.Function`` is a scope of its own in the trace; what torch's operators repeat within is theirs."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "net.py", 7, "rows = [(w * s).round() for w in weight]")
        b.op(around, t + 5, 9000.0, dims=[[100, 64]], types=["float"])
        for i in range(100):
            u = t + 80 * i
            b.op("aten::mul", u + 16, 8.0, dims=[[64]], types=["float"])
            b.kernel("mul", u + 30, 2.0, launched=u + 20)
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


@pytest.mark.parametrize(("loading", "expected"), [(False, 1), (True, 0)])
def test_what_a_dataset_makes_is_the_loaders_matter(loading: bool, expected: int) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        if loading:
            b.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, 4_000.0)
        b.line(t, t + 4_000, "data.py", 11, "yield torch.tensor(cells)")
        for i in range(64):
            b.op("aten::to", t + 50 * i, 4.0, dims=[[64]], types=["float"])
        b.op("aten::mm", t + 4_500, 5_000.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


@pytest.mark.parametrize(("others", "expected"), [(0, 0), (5, 0), (20, 1)])
def test_without_steps_a_program_of_one_statement_repeats_by_its_own_loop(others: int, expected: int) -> None:
    """Five other operations in ninety are the program's beginning; twenty are another part of the same loop."""
    b = TraceBuilder()
    b.line(0.0, 10_000.0, "serve.py", 14, "y = run(x)")
    for i in range(80):
        b.op("aten::copy_", 100.0 * i, 8.0, dims=[[64]], types=["float"])
    b.line(10_000.0, 20_000.0, "serve.py", 15, "z = z.clone()")
    for i in range(others):
        b.op("aten::clone", 10_000 + 100.0 * i, 50.0, dims=[[512]], types=["float"])
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("index", "dim", "data", "expected"),
    [("row", "0", [64, 64], 1), ("batch", "0", [64, 64], 0), ("row", "1", [64, 64], 0), ("row", "0", [64], 0)],
)
def test_without_steps_a_loop_over_single_rows_is_one_and_over_batches_is_not(
    index: str, dim: str, data: list[int], expected: int, alone: bool
) -> None:
    """``model(x[i : i + 1])`` against ``model(x[i : i + 32])``, a time step ``x[:, t]`` of a recurrent network, and a position
    of a vector of them; also where the statement is all there is."""
    b = TraceBuilder()
    width = 1 if index == "row" else 32
    for i in range(60):
        t = 200.0 * i
        b.line(t, t + 150, "train.py", 7, "out = model(x[i : i + 1])")
        taken = ["", dim, str(i * width), str((i + 1) * width), "1"]
        b.op("aten::slice", t, 2.0, dims=[data, [], [], [], []], types=["float"], concrete=taken)
        b.op("aten::mm", t + 10, 8.0, dims=[[width, 64], [64, 64]], types=["float", "float"])
        if alone:
            continue
        b.line(t + 150, t + 200, "train.py", 8, "total += out")
        b.op("aten::add_", t + 160, 30.0, dims=[[64]], types=["float"])
    found = [f for f in _by_code(find(b.context()), "small-kernels") if f.line == 7]
    assert len(found) == expected


@pytest.mark.parametrize(
    ("time", "expected"), [(small_kernels.NOTHING_US - 0.1, 0), (small_kernels.NOTHING_US + 0.1, 1)]
)
def test_operations_that_find_nothing_to_do_make_no_loop(time: float, expected: int) -> None:
    """``clip_grad_norm_`` asks every gradient's norm to be on the device where it is."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 1_000.0
        b.step(t, 1_000.0)
        b.line(t, t + 1_000, "train.py", 9, "clip_grad_norm_(model.parameters(), 1.0)")
        for i in range(64):
            b.op("aten::to", t + 10 * i, time, dims=[[]], types=["float"])
        b.op("aten::mm", t + 700, 250.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


def _loop(count: int, time: float = 2.0, *, compiled: bool = False, node: str | None = None) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "loss.py", 7, "total = total + out[i].sum()")
        if compiled:
            b.op("Torch-Compiled Region: 0/0", t, 9_000)
        for i in range(count):
            if node:
                b.op(node, t + 20 * i - 2, 14.0)
            b.op("aten::sum", t + 20 * i, 10.0, dims=[[64]], types=["float"])
            b.kernel("reduce", t + 20 * i + 12, time, launched=t + 20 * i + 5)
        b.kernel("gemm", t + 20 * count + 20, 9_900 - 20 * count, launched=t + 20 * count)
    return b


@pytest.mark.parametrize("waits", [True, False])
def test_a_loop_that_waits_in_its_rounds_comes_after_what_it_waits_for(waits: bool) -> None:
    b = _loop(60)
    for k in range(3):
        for i in range(60 if waits else 0):
            b.sync(k * 10_000.0 + 20 * i + 10.5, 4.0)
    (loop,) = small_kernels.rule(Facts(b.context()))
    assert loop.general is waits


@pytest.mark.parametrize(("node", "expected"), [("Forward", 1), ("CudnnConvolutionBackward", 0), ("SumBackward0", 0)])
def test_what_nodes_of_the_backward_pass_repeat_is_no_loop_of_the_statement(node: str, expected: int) -> None:
    """Nothing encloses them in the traces of early Kineto: cuDNN clears a workspace for each of fifty convolutions."""
    assert len(_by_code(find(_loop(60, node=node).context()), "small-kernels")) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(small_kernels.COUNT_PER_STEP - 1, 0), (small_kernels.COUNT_PER_STEP + 1, 1)]
)
def test_small_kernels_at_the_edge_of_their_number(count: int, expected: int) -> None:
    found = _by_code(find(_loop(count).context()), "small-kernels")
    assert len(found) == expected
    if found:
        assert (found[0].file, found[0].line) == ("loss.py", 7)
        assert found[0].saving_us is not None


@pytest.mark.parametrize(("off", "severity"), [(-0.01, "hint"), (0.01, "information")])
def test_a_loop_whose_gaps_are_not_judged_is_weighed_by_what_it_computes(off: float, severity: str) -> None:
    """Of a step of 10 ms; with its gaps it would be a seventh of it."""
    (found,) = _by_code(find(_loop(60, EDITOR_PCT * 100.0 / 60 + off).context(stacks=True)), "small-kernels")
    assert found.severity == severity
    assert "their gaps are not judged" in found.message
    assert (found.time_us, found.saving_us) == (None, None)


@pytest.mark.parametrize(("off", "severity"), [(-0.01, "hint"), (0.01, "information")])
def test_an_optimizer_whose_gaps_are_not_judged_is_weighed_by_what_it_computes(off: float, severity: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.kernel("gemm", t, 6000.0)
        b.range("Optimizer.step#Adam.step", t + 6200, 3000.0)
        for i in range(100):
            b.op("aten::add_", t + 6201 + 25 * i, 20)
            b.kernel("add", t + 6210 + 25 * i, EDITOR_PCT + off, launched=t + 6205 + 25 * i)
    (found,) = _by_code(find(b.context(stacks=True)), "single-tensor-optimizer")
    assert found.severity == severity
    assert found.time_us is None


@pytest.mark.parametrize(("heavy", "expected"), [(False, 1), (True, 0)])
def test_a_loop_over_what_is_left_has_other_sizes_each_time(heavy: bool, expected: int) -> None:
    """``order = order[1:]``: a loop, unless something with weights lies between, as between layers of several widths."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.line(t, t + 10_000, "nms.py", 7, "overlap = iou(boxes[best], boxes[order])")
        for i in range(60):
            b.op("aten::minimum", t + 20 * i, 5.0, dims=[[60 - i, 2], [2]], types=["float"] * 2)
            b.kernel("minimum", t + 20 * i + 12, 2.0, launched=t + 20 * i + 4)
            if heavy:
                b.op("aten::linear", t + 20 * i + 8, 5.0, dims=[[60 - i, 2], [2, 2]], types=["float"] * 2)
        b.kernel("gemm", t + 1300, 8000.0, launched=t + 1250)
    assert len(_by_code(find(b.context()), "small-kernels")) == expected


@pytest.mark.parametrize(("time", "expected"), [(small_kernels.MEDIAN_US - 1, 1), (small_kernels.MEDIAN_US + 1, 0)])
def test_small_kernels_at_the_edge_of_their_time(time: float, expected: int) -> None:
    assert len(_by_code(find(_loop(60, time).context()), "small-kernels")) == expected


def test_compiled_code_repeats_by_itself() -> None:
    assert not _by_code(find(_loop(80, compiled=True).context()), "small-kernels")


def test_the_profilers_buffer_of_a_final_synchronisation_is_not_a_gap() -> None:
    """1.78 ms of final synchronisation over 26 µs of work."""
    b = TraceBuilder()
    b.step(0.0, 2000.0)
    b.kernel("add", 30.0, 26.0, launched=10.0)
    b.call("cudaDeviceSynchronize", 60.0, 1780.0, Call.SYNC)
    codes = {f.code for f in find(b.context())}
    assert not codes & {"hidden-sync", "launch-bound"}


def test_with_the_line_timeline_gaps_need_a_plain_step() -> None:
    sidecar = Sidecar(windows=[Window(trace="trace.json.gz", reason="stable", lines=True)], cupti_left=True)
    assert not _by_code(find(_late(60.0).context(sidecar=sidecar)), "launch-bound")
    beside = find(_late(60.0).context(sidecar=sidecar, plain_step_us=9_500.0, profiled_step_us=10_000.0))
    (finding,) = _by_code(beside, "launch-bound")
    assert finding.evidence["scaled_to_plain_step"] is True
    assert finding.time_us == pytest.approx(29 / 30 * 6000.0 * 5500.0 / 6000.0)


@pytest.mark.parametrize(
    ("kind", "said", "unsaid"),
    [("cuda", "CUDA graphs", "HIP"), ("rocm", "HIP graphs", "CUDA"), ("xpu", "torch.compile", "graphs")],
)
def test_the_advice_is_for_the_device_that_is_there(kind: str, said: str, unsaid: str) -> None:
    context = _late(50.0).context()
    context.trace.devices = [DeviceInfo(id=-1, name="a CPU", kind="cpu"), DeviceInfo(id=0, name="a device", kind=kind)]
    facts = Facts(context)
    advice = launch_bound._advice(facts) + launch_bound._sampler(facts)
    assert said in advice
    assert unsaid not in advice


def _graphable(*, sync: bool = False, copy: str | None = None, grows: bool = False, loads: bool = False) -> Facts:
    """Host-bound steps of eleven launches, with one thing or another in them that a graph cannot have."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        if loads:
            b.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, 50.0)
        if copy:
            b.line(t, t + 90, "train.py", 30, "x = x.to(device)")
            b.op(copy, t + 50, 30)
            b.copy("Memcpy HtoD (Pinned -> Device)", t + 70, 20, launched=t + 60)
        for i in range(11):
            u = t + 100 + i * 900
            b.line(u, u + 900, "train.py", 40, "h = layer(h)")
            b.op("aten::mm", u, 400, dims=[[8 + (k if grows else 0), 64], [64, 64]], types=["float", "float"])
            b.kernel("gemm", u + 500, 100, launched=u + 200)
        if sync:
            b.line(t + 9_705, t + 9_790, "train.py", 44, "torch.cuda.synchronize()")
            b.sync(t + 9_710, 5.0, name="cudaDeviceSynchronize")
    context = b.context(sidecar=Sidecar(devices=[{"index": 0, "total_memory": 80 * 10**9}]))
    context.document.memory = Memory(device=0, peak_bytes=20 * 10**9)
    return Facts(context)


@pytest.mark.parametrize(
    ("facts", "name", "seen", "line"),
    [
        (_graphable(sync=True), "no_syncs", "1 per step at train.py:44", 44),
        (
            _graphable(copy="aten::to"),
            "addresses",
            "inputs come in new tensors at train.py:30: copy_ into the same",
            30,
        ),
        (_graphable(grows=True), "shapes", "operations or shapes vary between steps from aten::mm on", 40),
        (_graphable(loads=True), "no_host_work", "loading once per step, which stays outside", None),
    ],
)
def test_what_a_region_lacks_for_cuda_graphs_is_named_with_its_line(
    facts: Facts, name: str, seen: str, line: int | None
) -> None:
    lacking = [need for need in needs(facts) if need.has is False]
    assert [(need.name, need.seen) for need in lacking] == [(name, seen)]
    assert [p.line for p in lacking[0].lines] == ([line] if line else [])
    (finding,) = _by_code(find(facts.context), "launch-bound")
    assert f"({seen})" in finding.message
    assert finding.evidence["cuda_graph_needs"][name]["has"] is False
    if line:
        assert (line, f"CUDA graphs need {lacking[0].text}") in [
            (r["line"], r["text"]) for r in finding.evidence["related"]
        ]


def test_what_a_region_has_for_cuda_graphs() -> None:
    facts = _graphable(copy="aten::copy_")
    assert {need.name: need.has for need in needs(facts)} == {
        "shapes": True, "no_syncs": True, "addresses": None, "no_host_work": None, "memory": True,
    }  # fmt: skip
    (finding,) = _by_code(find(facts.context), "launch-bound")
    assert "these steps have static shapes, no synchronisation, memory of their own." in finding.message
    assert "Also needed: stable addresses" in finding.message


def test_shapes_that_were_not_recorded_are_not_vouched_for() -> None:
    shapes = next(need for need in needs(Facts(_late(50.0).context())) if need.name == "shapes")
    assert shapes.has is None


@pytest.mark.parametrize(
    "marked", ["Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", None]
)
def test_the_thread_of_the_steps_is_not_that_of_the_backward_pass(marked: str | None) -> None:
    """Autograd's thread may have more operations than the one that runs the loop."""
    b = TraceBuilder()
    b.op("aten::mm", 0.0, 50.0)
    b.op("autograd::engine::evaluate_function: MmBackward0", 60.0, 400.0, tid=7)
    b.op("aten::mm", 61.0, 390.0, tid=7)
    if marked:
        b.range(marked, 470.0, 5.0)
    assert Facts(b.context()).host_thread == 1


def test_where_calls_alone_prove_it_the_statement_that_makes_most_of_them_is_named() -> None:
    b = TraceBuilder()
    b.step(0.0, 1_000.0)
    for i in range(20):
        t = 40.0 * i
        b.line(t, t + 40, "serve.py", 16 if i % 4 else 17, "out = model(x)")
        b.kernel("small", t + 20, 1.0, launched=t + 5)
    (finding,) = _by_code(find(b.context(stacks=True)), "launch-bound")
    assert finding.line == 16


def _recurrent(kernels: int, *, name: str = "aten::_cudnn_rnn", gap: float = 30.0, before: float = 0.0) -> TraceBuilder:
    """One operator that launches so many kernels of 10 µs, each so long after the one before has ended, and prepares before the first."""
    b = TraceBuilder()
    for k in range(3):
        t = 20_000.0 * k
        b.step(t, 20_000.0)
        b.line(t, t + 20_000, "asr.py", 71, "x, _ = self.rnn(x)")
        b.kernel("conv", t + 10, 90.0, launched=t)
        b.op(name, t + 70, before + kernels * (10 + gap) + 60)
        for i in range(kernels):
            start = t + 100 + before + i * (10 + gap) + gap
            b.kernel("LSTM_elementWise", start, 10.0, launched=start - 5)
        end = t + 100 + before + kernels * (10 + gap) + gap
        b.kernel("gemm", end + 10, t + 20_000 - end - 10, launched=t + 60)
    return b


@pytest.mark.parametrize(
    ("kernels", "name", "hint"),
    [
        (launch_bound.OWN_KERNELS - 1, "aten::_cudnn_rnn", False),
        (launch_bound.OWN_KERNELS, "aten::_cudnn_rnn", True),
        (launch_bound.OWN_KERNELS, "Torch-Compiled Region: 0/0", False),
        (launch_bound.OWN_KERNELS, "mine::scan", False),
    ],
)
def test_a_librarys_own_loop_is_a_hint_with_its_own_advice(kernels: int, name: str, hint: bool) -> None:
    (finding,) = _by_code(find(_recurrent(kernels, name=name, gap=60.0).context()), "launch-bound")
    assert (finding.file, finding.line) == ("asr.py", 71)
    assert (finding.severity == "hint") is hint
    assert (f"{name} ({kernels} a call)" in finding.message) is hint
    assert ("make_graphed_callables" in finding.message) is hint
    assert ("reduce-overhead" in finding.message) is not hint


@pytest.mark.parametrize(("others", "hint"), [(0.45, True), (0.55, False)])
def test_it_is_one_where_most_of_the_waiting_is_the_librarys(others: float, hint: bool) -> None:
    """A part of the gaps' time is before kernels of operators with one kernel each."""
    count, gap = launch_bound.OWN_KERNELS, 20.0
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.op("aten::_cudnn_rnn", t, count * 40.0)
        for i in range(count):
            b.kernel("LSTM_elementWise", t + 40 * i + gap, 20.0, launched=t + 40 * i + gap - 5)
        for i in range(count):
            start, late = t + count * 40.0 + 60 * i, gap * others / (1 - others)
            b.op("aten::add", start, 50.0)
            b.kernel("add", start + late, 60.0 - late, launched=start + late - 5)
    (finding,) = _by_code(find(b.context()), "launch-bound")
    assert (finding.severity == "hint") is hint


@pytest.mark.parametrize(
    ("name", "launching"), [("aten::_cudnn_rnn_backward", True), ("mine::scan", False), (None, False)]
)
def test_an_operator_that_prepares_for_long_launches_late(name: str | None, launching: bool) -> None:
    """5 ms before its first kernel: no work of the program's own, unless the operator is."""
    b = _recurrent(20, name=name or "aten::other", before=5000.0)
    if name is None:  # an operator that begins when the device has idled for long
        b = TraceBuilder()
        for k in range(3):
            t = 20_000.0 * k
            b.step(t, 20_000.0)
            b.kernel("conv", t + 10, 90.0, launched=t)
            b.op("aten::mm", t + 5000, 100.0)
            b.kernel("gemm", t + 5100, 14_800.0, launched=t + 5050)
    facts = Facts(b.context())
    assert len(facts.queue.long_gaps) == (0 if launching else 3)
    assert any(g.end - g.start > LAUNCH_US for g in facts.queue.launching) is launching
    assert bool(_by_code(host_work.rule(facts), "host-work")) is not launching  # type: ignore[arg-type]


def test_the_summary_of_an_idle_device_says_what_for_and_names_the_hint() -> None:
    b = _recurrent(launch_bound.OWN_KERNELS, gap=60.0)
    context = b.context()
    context.document.idle.launch, context.document.idle.sync = 18_000.0, 300.0
    summary = find(context)[0]
    assert summary.code == "summary"
    assert "(late launches for the most part)" in summary.message
    assert "A hint may be: The host launches too slowly for the device (asr.py:71)" in summary.message
    assert "no single cause" not in summary.message
