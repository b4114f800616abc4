"""What torch.compile reports, and the overhead of calling what it made."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.rules.compile_events import RECOMPILES
from ridgeline.findings.rules.compiled_overhead import SHARE_PCT
from ridgeline.profile import CompileEvent, Finding


def _find(events: list[CompileEvent], b: TraceBuilder | None = None) -> list[Finding]:
    if b is None:
        b = TraceBuilder()
        b.step(0.0, 1000.0)
        b.kernel("k", 0.0, 1000.0, launched=-5.0)
    context = b.context()
    context.document.compile_events = events
    return find(context)


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def test_breaks_each_on_its_line() -> None:
    """A function with .item() on line 6 and print on line 8: two breaks."""
    findings = _find(
        [
            CompileEvent(kind="break", reason="Tensor.item", file="f.py", line=6),
            CompileEvent(kind="break", reason="call to print\n  Hint: …", file="f.py", line=8),
            CompileEvent(kind="break", reason="Tensor.item", file="f.py", line=6),
        ]
    )
    assert [(f.line, f.severity) for f in _by_code(findings, "graph-break")] == [(6, "information"), (8, "information")]
    first = _by_code(findings, "graph-break")[0]
    assert first.evidence["count"] == 2
    assert first.saving_us is None, "no promise: what a cut costs cannot be read from the cut"


@pytest.mark.parametrize(("count", "severity"), [(RECOMPILES - 1, "hint"), (RECOMPILES, "information")])
def test_the_first_recompile_is_as_it_should_be(count: int, severity: str) -> None:
    events = [CompileEvent(kind="recompile", reason=f"L['n'] == {k}", file="f.py", line=3) for k in range(count)]
    (finding,) = _by_code(_find(events), "recompile")
    assert finding.severity == severity


def test_skipped_graphs_with_the_reason_and_no_graph_launch() -> None:
    event = CompileEvent(
        kind="cudagraph_skip", reason="skipping cudagraphs due to cpu device (x)", file="m.py", line=12
    )
    (finding,) = _by_code(_find([event]), "cudagraph-skip")
    assert finding.line == 12
    assert "CUDA graphs skipped: skipping cudagraphs due to cpu device" in finding.message
    assert finding.evidence["graph_launches_per_step"] == 0.0


def test_a_fallback_on_its_line() -> None:
    event = CompileEvent(
        kind="fallback", reason="Torchinductor does not support complex operators", file="c.py", line=5
    )
    (finding,) = _by_code(_find([event]), "fallback-kernel")
    assert finding.line == 5
    assert "ATen fallback" in finding.message


def _region(overhead: float) -> TraceBuilder:
    """Ten calls of a tiny region in a CPU step of 10 ms, each with ``overhead`` µs of lookup and prologue."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 10_000.0
        b.step(t, 10_000.0)
        b.op("aten::mm", t + 5000, 4000)
        for i in range(10):
            s = t + 300 * i
            b.line(s, s + 290, "tiny.py", 14, "x = compiled(x)")
            b.op("TorchDynamo Cache Lookup", s, overhead / 2)
            b.op("Torch-Compiled Region: 0/0", s + overhead / 2, overhead / 2 + 10)
            b.op("AOTDispatcher Runtime Wrapper Prologue", s + overhead / 2 + 1, overhead / 2)
            b.op("cpp_fused_add_0", s + overhead + 2, 5)
    return b


@pytest.mark.parametrize(("overhead", "expected"), [(10 * SHARE_PCT - 2, 0), (10 * SHARE_PCT + 2, 1)])
def test_a_region_too_small_to_be_worth_calling(overhead: float, expected: int) -> None:
    found = _by_code(_find([], _region(overhead)), "compiled-overhead")
    assert len(found) == expected
    if found:
        assert found[0].line == 14
        assert found[0].evidence["calls_per_step"] == 10.0


@pytest.mark.parametrize(("kernels", "expected"), [(1, 1), (12, 0)])
def test_on_a_device_the_launches_of_a_region_are_what_is_in_it(kernels: int, expected: int) -> None:
    """60 µs of lookup and prologue, 3 µs of the device's work a kernel, each launched in 15 µs: where the launches take longer than
    the call, leaving the region eager helps nothing."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 400.0
        b.step(t, 400.0)
        b.line(t, t + 390, "tiny.py", 14, "x = compiled(x)")
        b.op("TorchDynamo Cache Lookup", t + 1, 30)
        b.op("Torch-Compiled Region: 0/0", t + 32, 40 + 15 * kernels)
        b.op("AOTDispatcher Runtime Wrapper Prologue", t + 33, 30)
        for i in range(kernels):
            b.kernel("triton_poi_fused_add_0", t + 80 + 15 * i, 3.0, launched=t + 70 + 15 * i)
    assert len(_by_code(_find([], b), "compiled-overhead")) == expected


def _generated(name: str, kind: str, dur: float = 300.0) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = k * 1000.0
        b.step(t, 1000.0)
        b.line(t, t + 990, "rotate.py", 7, "return view_as_real(z * turn)")
        b.op("Torch-Compiled Region: 0/0", t, 990)
        b.op("## Call CompiledFxGraph fabc ##", t + 5, 980)
        b.op("cpp_fused_sin_0", t + 10, 500)
        b.op(name, t + 600, dur, dims=[[64, 64]], types=[kind])
    return b


def test_complex_types_run_as_fallback() -> None:
    (finding,) = _by_code(_find([], _generated("aten::mul", "c10::complex<float>", 2.0)), "fallback-kernel")
    assert (finding.line, finding.severity) == (7, "information")
    assert finding.evidence["complex"] is True


@pytest.mark.parametrize(
    ("name", "dur", "expected"),
    [
        ("aten::sort", 300.0, 1),
        ("aten::sort", 4.0, 0),
        ("aten::mm", 300.0, 0),
        ("aten::_scaled_dot_product_flash_attention", 300.0, 0),
    ],
)
def test_fallbacks_that_cost_something_and_library_calls(name: str, dur: float, expected: int) -> None:
    assert len(_by_code(_find([], _generated(name, "float", dur)), "fallback-kernel")) == expected


def test_the_guards_own_line_and_the_limit() -> None:
    reason = "3/0: n['a'] == 0      # return x * n  # f.py:19 in h\nUser stack trace:\n  File \"f.py\", line 19, in h\n    return"
    events = [
        CompileEvent(kind="recompile", reason=reason, file="f.py", line=18),
        CompileEvent(kind="fallback", reason="torch._dynamo hit config.recompile_limit (8)", file="f.py", line=30),
    ]
    findings = _find(events)
    (finding,) = _by_code(findings, "recompile")
    assert (finding.line, finding.severity) == (19, "information")
    assert "n['a'] == 0." in finding.message
    assert "runs uncompiled" in finding.message
    assert not _by_code(findings, "fallback-kernel")


def test_the_preamble_of_a_break_is_left_out() -> None:
    reason = "Encountered graph break when attempting to trace CALL: a function call:\n\nUnsupported Tensor.item() call\n  Explanation"
    (finding,) = _by_code(_find([CompileEvent(kind="break", reason=reason, file="f.py", line=6)]), "graph-break")
    assert finding.message.startswith("The compiled function is cut in two: Unsupported Tensor.item() call.")


def _left_to_python(*, graph: bool) -> TraceBuilder:
    """A region whose function Dynamo left to Python, beside one (``graph``) that runs generated code."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 1000.0
        b.step(t, 1000.0)
        b.line(t, t + 990, "solve.py", 18, "z = torch.tanh(self.mix(z) + u)")
        b.op("Torch-Compiled Region: 0/0", t, 600)
        b.op("aten::tanh", t + 10, 500, dims=[[64, 64]], types=["float"])
        if graph:
            b.op("Torch-Compiled Region: 1/0", t + 610, 380)
            b.op("## Call CompiledFxGraph fabc ##", t + 620, 300)
            b.op("cpp_fused_sin_0", t + 630, 200)
    return b


@pytest.mark.parametrize("graph", [False, True])
def test_what_a_break_leaves_to_python_is_no_fallback(graph: bool) -> None:
    events = [CompileEvent(kind="break", reason="Data-dependent branching", file="solve.py", line=21)]
    findings = _find(events, _left_to_python(graph=graph))
    assert not _by_code(findings, "fallback-kernel")
    (finding,) = _by_code(findings, "graph-break")
    assert finding.evidence["uncompiled_us_per_step"] == pytest.approx(500.0)
    assert "500 µs per step is not compiled" in finding.message


def test_a_break_whose_parts_are_compiled_leaves_nothing() -> None:
    events = [CompileEvent(kind="break", reason="print", file="rotate.py", line=7)]
    (finding,) = _by_code(_find(events, _generated("aten::sort", "float")), "graph-break")
    assert finding.evidence["uncompiled_us_per_step"] == 0.0
    assert "not compiled" not in finding.message


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("aten::sum", "buf3 = workspace_0.sum(dim=0)", 0),
        ("aten::sum", "buf3 = torch.ops.aten.sum.dim_IntList(arg0_1, [0])", 1),
        ("aten::sum", "# aten.sum.dim_IntList([0])", 0),
        ("aten::sort", "buf3 = torch.ops.aten.sort.stable(arg0_1, stable=True)", 1),
        ("aten::sort", None, 1),
        ("aten::sum", None, 0),
    ],
)
def test_what_a_module_does_to_its_own_buffers_is_no_fallback(name: str, line: str | None, expected: int) -> None:
    """Inductor adds up the parts of a split reduction by a method of its workspace; a fallback goes through ``torch.ops``."""
    text = f"def call(args):\n    arg0_1, = args\n    {line}\n    return (buf3, )\n"
    context = _generated(name, "float").context()
    context.generated = {} if line is None else {"cabc.py": text, "kernel.py": "def triton_(in_ptr0): pass"}
    assert len(_by_code(find(context), "fallback-kernel")) == expected


def test_a_fallback_of_many_operators_is_one_call() -> None:
    """On a CPU every operator within it is a row of work; on a device one operator may be several kernels."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 1000.0
        b.step(t, 1000.0)
        b.line(t, t + 990, "infer.py", 7, "y = model(x)")
        b.op("Torch-Compiled Region: 0/0", t, 990)
        b.op("## Call CompiledFxGraph fabc ##", t + 5, 980)
        for i in range(2):
            u = t + 10 + 400 * i
            b.op("aten::_transformer_encoder_layer_fwd", u, 390)
            for j in range(5):
                b.op("aten::add", u + 10 + 60 * j, 50, dims=[[64, 64]], types=["float"])
    found = _by_code(_find([], b), "fallback-kernel")
    assert [(f.evidence["op"], f.evidence["calls_per_step"]) for f in found] == [
        ("aten::_transformer_encoder_layer_fwd", 2.0)
    ]
    assert "2 times per step" in found[0].message


def test_a_step_that_was_interrupted_does_not_hide_the_overhead_of_the_others() -> None:
    b = _region(10 * SHARE_PCT + 25)
    b.step(30_000.0, 400_000.0)
    b.op("aten::mm", 30_100.0, 399_000.0)
    assert len(_by_code(_find([], b), "compiled-overhead")) == 1
