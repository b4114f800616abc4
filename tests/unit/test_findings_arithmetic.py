"""Rules about what is computed, and how: precision, layouts, optimizers, attention, decoding."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import TraceBuilder
from ridgeline.findings import double_cost, find, overhead
from ridgeline.findings.rules import attention, decode, float64, single_tensor_optimizer, tensor_core_shape
from ridgeline.profile import Device, Finding, Peaks
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import DeviceInfo

HOPPER = [DeviceInfo(id=0, name="Some GPU", kind="cuda", properties={"computeMajor": 9})]
VOLTA = [DeviceInfo(id=0, name="Some GPU", kind="cuda", properties={"computeMajor": 7})]


FULL = 1000 / 965
"""The step of ``_gemm`` over its device's work: unprofiled the host is ahead, and the gap before the first kernel is gone."""


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _gemm(
    kernel: str = "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_ffma",
    types: tuple[str, str] = ("float", "float"),
    dims: tuple[list[int], list[int]] = ([1024, 1024], [1024, 1024]),
) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "model.py", 21, "y = x @ w")
        b.op("aten::mm", t + 1, 20, dims=list(dims), types=list(types))
        b.kernel(kernel, t + 30, 600.0, launched=t + 10)
        b.kernel("pointwise", t + 630, 365.0, launched=t + 25)
    return b


def test_tf32_by_the_kernels_name() -> None:
    finding = _by_code(find(_gemm().context(devices=HOPPER)), "tf32-off")[0]
    assert finding.line == 21
    assert finding.evidence["changes_numerics"] is True
    assert finding.evidence["mend"] == "matmul-precision-high"
    assert finding.saving_us == pytest.approx(FULL * 600 * (1 - 1 / 3))


@pytest.mark.parametrize(
    "b",
    [
        _gemm("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n"),
        _gemm("cutlass_80_tensorop_s1688gemm"),
        _gemm("nvjet_sm90", types=("c10::BFloat16", "c10::BFloat16")),
    ],
)
def test_tensor_cores_are_left_alone(b: TraceBuilder) -> None:
    assert not _by_code(find(b.context(devices=HOPPER)), "tf32-off")


def test_devices_without_tf32_are_left_alone() -> None:
    assert not _by_code(find(_gemm().context(devices=VOLTA)), "tf32-off")


@pytest.mark.parametrize(("precision", "expected"), [("highest", 1), ("high", 0)])
def test_the_setting_counts_more_than_the_name(precision: str, expected: int) -> None:
    context = _gemm("nvjet_sm90_sss").context(
        devices=HOPPER, sidecar=Sidecar(settings={"float32_matmul_precision": precision})
    )
    assert len(_by_code(find(context), "tf32-off")) == expected


def test_with_measured_peaks_the_bound_of_the_mended_product_counts() -> None:
    context = _gemm().context(devices=HOPPER)
    context.document.devices = [
        Device(
            id=0,
            name="Some GPU",
            kind="cuda",
            peaks=Peaks(source="measured", bandwidth_gb_s=4000, flops={"tf32": 3.6e13}),
        )
    ]
    finding = _by_code(find(context), "tf32-off")[0]
    mended = 2 * 1024**3 / (0.6 * 3.6e13) * 1e6
    assert finding.saving_us == pytest.approx(FULL * (600 - mended), rel=1e-3)


@pytest.mark.parametrize(("elements", "expected"), [(float64.MIN_ELEMENTS - 1, 0), (float64.MIN_ELEMENTS, 1)])
def test_float64_at_the_edge(elements: int, expected: int) -> None:
    b = TraceBuilder()
    for k in range(3):
        b.step(1000.0 * k, 1000.0)
        b.line(1000.0 * k, 1000.0 * k + 900, "loss.py", 4, "loss = out * table")
        b.op("aten::mul", 1000.0 * k + 10, 500, dims=[[elements], [elements]], types=["double", "float"])
    found = _by_code(find(b.context()), "float64")
    assert len(found) == expected
    if found:
        assert found[0].line == 4
        assert found[0].saving_us == pytest.approx((500 - overhead.OP_US) * (1 - double_cost.HALF))
        assert found[0].evidence["changes_numerics"] is True


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("", "information"),
        ("torch.set_default_dtype(torch.float64)\n", "hint"),
        ("DTYPE = torch.float64\nx = torch.zeros(4, dtype=DTYPE)\n", "hint"),
        (
            "class Config:\n    real: torch.dtype = torch.double\ndef f(x, config):\n    return x.to(config.real)\n",
            "hint",
        ),
        ("DTYPE = torch.float64\n", "information"),
        ("DTYPE = torch.float32\nx = torch.zeros(4, dtype=DTYPE)\n", "information"),
        ("x = torch.zeros(4, dtype=torch.float64)\n", "information"),
    ],
)
def test_double_precision_that_is_asked_for(text: str, severity: str) -> None:
    context = _gemm(types=("double", "double")).context(sources={"model.py": text})
    (finding,) = _by_code(find(context), "float64")
    assert finding.severity == severity
    assert (finding.saving_us is None) == (severity == "hint")


@pytest.mark.parametrize(
    ("name", "types", "left"),
    [
        ("aten::mul", ["double", "double"], 0.5),
        ("aten::mul", ["c10::BFloat16", "double"], (2 + 4 + 4) / (2 + 8 + 8)),
        ("aten::mul", ["double", "float"], (4 + 4 + 4) / (8 + 4 + 8)),
        ("aten::mm", ["double", "double"], 1 / float64.SPEEDUP),
    ],
)
def test_on_a_device_the_bytes_of_doubles_are_halved(name: str, types: list[str], left: float) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 90, "loss.py", 4, "loss = out * table")
        b.op(name, t + 1, 20, dims=[[4096, 4096]] * 2, types=types)
        b.kernel("elementwise", t + 4, 600.0, launched=t + 2)
        b.kernel("other", t + 604, 396.0, launched=t + 30)
        b.sync(t + 40, 959.0)
    (finding,) = _by_code(find(b.context()), "float64")
    assert finding.saving_us == pytest.approx(600.0 * (1 - left), rel=0.01)
    assert finding.evidence["assumed_speedup"] == pytest.approx(1 / left)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("aten::linalg_cholesky_ex", True),
        ("aten::cholesky_solve", True),
        ("aten::_linalg_eigh", True),
        ("aten::linalg_vector_norm", False),
        ("aten::mul", False),
    ],
)
def test_double_precision_for_a_factorisation_is_meant(name: str, meant: bool) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "gp.py", 9, "chol = torch.linalg.cholesky(k)")
        b.op("aten::mul", t + 5, 300, dims=[[400, 400]] * 2, types=["double"] * 2)
        b.op(name, t + 310, 400, dims=[[400, 400]], types=["double"])
    (finding,) = _by_code(find(b.context()), "float64")
    assert finding.severity == ("hint" if meant else "information")
    assert (finding.saving_us is None) == meant
    assert (f"They go into {name}" in finding.message) == meant


def test_copies_to_another_layout_within_a_convolution() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 5, "x = self.conv(x)")
        b.op("aten::convolution", t + 1, 100)
        b.op("aten::contiguous", t + 5, 60)
        b.op("aten::copy_", t + 10, 40)
        b.kernel("elementwise_kernel", t + 30, 200.0, launched=t + 20)
        b.kernel("conv", t + 230, 760.0, launched=t + 80)
    (finding,) = _by_code(find(b.context()), "channels-last")
    assert finding.time_us == pytest.approx(200.0)


def test_transposes_around_convolutions() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 8, "x = self.conv(x)")
        for i, name in enumerate(["nchwToNhwcKernel<float>", "implicit_gemm", "nhwcToNchwKernel<float>"]):
            b.kernel(name, t + 250 * i, 250.0, launched=max(0.0, t - 50 + i))
        b.kernel("relu", t + 750, 250.0, launched=t + 4)
    finding = _by_code(find(b.context()), "channels-last")[0]
    assert finding.saving_us == pytest.approx(500.0)
    assert finding.evidence["transposes_per_step"] == 2.0
    assert finding.evidence["norms_us_per_step"] is None


@pytest.mark.parametrize(("took", "layout"), [(400.0, ""), (100.0, ""), (400.0, "_channels_last")])
def test_batch_normalisation_gains_as_well_where_its_layout_changes(took: float, layout: str) -> None:
    """A batch of 32 x 64 x 56 x 56 halves is 12.8 MB; its gradient reads or writes it five times, in channels-last at 58 % of
    1,000 GB/s: 110.7 µs."""
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 8, "x = self.block(x)")
        dims = [[32, 64, 56, 56]] * 2
        b.kernel("nchwToNhwcKernel<half>", t, 100.0, launched=max(0.0, t - 20))
        b.op("aten::native_batch_norm_backward", t + 1, 20, dims=dims, types=["c10::Half"] * 2)
        b.kernel(f"batch_norm_backward{layout}_kernel<half>", t + 100, took, launched=t + 10)
        b.kernel("implicit_gemm", t + 100 + took, 900.0 - took, launched=t + 50)
    context = b.context()
    context.document.devices = [
        Device(id=0, name="Some GPU", kind="cuda", peaks=Peaks(source="datasheet", bandwidth_gb_s=1000.0, flops={}))
    ]
    (finding,) = _by_code(find(context), "channels-last")
    then = 5 * 32 * 64 * 56 * 56 * 2 / (0.58 * 1000e3)
    slower = took > then and not layout
    assert finding.saving_us == pytest.approx(100.0 + (took - then if slower else 0.0))
    assert finding.evidence["norms_us_per_step_channels_last"] == (pytest.approx(then) if slower else None)
    assert ("Batch normalisation takes" in finding.message) == slower


HALF = "c10::BFloat16"


@pytest.mark.parametrize(
    ("n", "expected"),
    [(50_257, 1), (50_304, 0), (tensor_core_shape.MIN_DIM + 1, 1), (tensor_core_shape.MIN_DIM - 1, 0)],
)
def test_tensor_core_shape(n: int, expected: int) -> None:
    b = _gemm("nvjet", types=(HALF, HALF), dims=([4096, 1024], [1024, n]))
    found = _by_code(find(b.context(devices=HOPPER)), "tensor-core-shape")
    assert len(found) == expected
    if found:
        assert found[0].severity == "hint", "without a peak nobody knows what padding gains"
        assert found[0].saving_us is None
        assert found[0].evidence["verified"] is False


@pytest.mark.parametrize(
    ("shapes", "strides", "expected"),
    [
        (([50_257, 4096], [4096, 1024]), ([1, 50_257], [1024, 1]), 1),
        (([50_304, 4096], [4096, 1024]), ([1, 50_304], [1024, 1]), 0),
        (([50_257, 4096], [4096, 1024]), ([4096, 1], [1024, 1]), 0),
        (([4096, 1024], [1024, 50_257]), ([1024, 1], [1, 1024]), 1),
    ],
    ids=["a weight's gradient", "the same padded", "rows of a multiple", "the head itself"],
)
def test_rows_that_begin_at_odd_places(
    shapes: tuple[list[int], ...], strides: tuple[list[int], ...], expected: int
) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.op("aten::mm", t + 1, 50, dims=list(shapes), types=[HALF, HALF], strides=list(strides))
        b.kernel("cutlass", t + 10, 900.0, launched=t + 5)
    assert len(_by_code(find(b.context(devices=HOPPER)), "tensor-core-shape")) == expected


def test_the_padded_product_can_be_timed_as_it_is_written() -> None:
    b = _gemm("nvjet", types=(HALF, HALF), dims=([4096, 1023], [1023, 50_257]))
    (finding,) = _by_code(find(b.context(devices=HOPPER)), "tensor-core-shape")
    now, padded = finding.evidence["time"]
    assert "4096, 1023" in now
    assert "1023, 50257" in now
    assert "4096, 1024" in padded
    assert "1024, 50304" in padded


@pytest.mark.parametrize(
    ("now", "padded", "severity"), [(600.0, 200.0, "information"), (600.0, 590.0, "hint"), (600.0, 700.0, "hint")]
)
def test_after_timing_the_padded_product_the_measurement_counts(now: float, padded: float, severity: str) -> None:
    context = _gemm("nvjet", types=(HALF, HALF), dims=([4096, 1024], [1024, 50_257])).context(devices=HOPPER)
    (before,) = _by_code(find(context), "tensor-core-shape")
    context.timed = dict(zip(before.evidence["time"], (now, padded)))
    (after,) = _by_code(find(context), "tensor-core-shape")
    assert (after.severity, after.evidence["verified"]) == (severity, True)
    if severity == "information":
        assert after.saving_us == pytest.approx(FULL * 600 * (1 - padded / now))
        assert "the padded product (N=50304, K=1024) 200 µs" in after.message
    else:
        assert after.saving_us is None
        assert "leave it as it is" in after.message


@pytest.mark.parametrize(("kind", "dtype"), [("c10::Half", "torch.float16"), ("c10::BFloat16", "torch.bfloat16")])
def test_the_product_is_timed_in_its_own_type(kind: str, dtype: str) -> None:
    b = _gemm("nvjet", types=(kind, kind), dims=([4096, 1024], [1024, 50_257]))
    (finding,) = _by_code(find(b.context(devices=HOPPER)), "tensor-core-shape")
    assert all(statement.count(dtype) == 2 for statement in finding.evidence["time"])


@pytest.mark.parametrize(("short_of", "expected"), [(1.05, 0), (1.2, 1), (2.0, 1), (9.0, 1)])
def test_a_product_near_what_padded_ones_reach_is_left_alone(short_of: float, expected: int) -> None:
    """600 µs of 2·4096·1024·50257 operations, on a device whose layers reach ``short_of`` times that."""
    context = _gemm("nvjet", types=(HALF, HALF), dims=([4096, 1024], [1024, 50_257])).context(devices=HOPPER)
    achieved = 2 * 4096 * 1024 * 50_257 / 600e-6 / 1e12
    peaks = Peaks(source="measured", bandwidth_gb_s=4000.0, flops={"bf16": short_of * achieved / 0.6})
    context.document.devices = [Device(id=0, name="Some GPU", kind="cuda", peaks=peaks)]
    found = _by_code(find(context), "tensor-core-shape")
    assert len(found) == expected
    if found:
        speedup = min(short_of, tensor_core_shape.MAX_SPEEDUP)
        assert found[0].severity == "information"
        assert found[0].saving_us == pytest.approx(FULL * 600 * (1 - 1 / speedup))


def _conv_norm(bias: list[int], channels: int = 16, *, training: str = "True") -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 5, "x = self.norm(self.conv(x))")
        b.op("aten::conv2d", t + 1, 100, dims=[[8, 3, 32, 32], [16, 3, 3, 3], bias], types=["float"] * 3)
        given = ["", "", "", "", "", training, "0.1", "1e-05", "True"]
        b.op("aten::batch_norm", t + 110, 100, dims=[[8, channels, 32, 32]], types=["float"], concrete=given)
    return b


@pytest.mark.parametrize(("bias", "channels", "expected"), [([16], 16, 1), ([], 16, 0), ([16], 32, 0)])
def test_a_bias_before_batch_norm(bias: list[int], channels: int, expected: int) -> None:
    assert len(_by_code(find(_conv_norm(bias, channels).context()), "conv-bias")) == expected


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("needed", [False, True])
def test_a_bias_without_effect_has_a_gradient_without_one(needed: bool, autocast: bool) -> None:
    """The addition, and the sum over the batch that is the bias's gradient: the latter only where every convolution of the
    statement is one of these. Under autocast each calls another of its name, on tensors of the other type."""
    b = _conv_norm([16])
    for k in range(3):
        t = 1000.0 * k
        if autocast:
            b.op("aten::conv2d", t + 20, 80, dims=[[8, 3, 32, 32], [16, 3, 3, 3], [16]], types=[HALF] * 3)
        b.op("aten::add_", t + 50, 10)
        b.kernel("add", t + 60, 60.0, launched=t + 52)
        b.op("aten::convolution_backward", t + 400, 100)
        b.op("aten::sum", t + 410, 50)
        b.kernel("reduce", t + 500, 90.0, launched=t + 420)
        b.kernel("wgrad", t + 590, 400.0, launched=t + 480)
        if needed:
            b.op("aten::conv2d", t + 520, 20, dims=[[8, 3, 32, 32], [16, 3, 3, 3], [16]], types=["float"] * 3)
            b.op("aten::relu", t + 560, 20, dims=[[8, 16, 32, 32]], types=["float"])
    (finding,) = _by_code(find(b.context()), "conv-bias")
    assert finding.time_us == pytest.approx(60.0 if needed else 150.0)


def test_in_evaluation_a_bias_is_part_of_the_running_mean() -> None:
    assert not _by_code(find(_conv_norm([16], training="False").context()), "conv-bias")


def _optimizer(
    ops: int, name: str = "Optimizer.step#SGD.step", inner: str = "aten::add_", *, time: float = 3000.0
) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.op("aten::addmm", t, 6000)
        b.line(t + 6100, t + 9900, "train.py", 33, "opt.step()")
        b.range(name, t + 6200, time)
        for i in range(ops):
            b.op(inner, t + 6201 + (time - 2) / ops * i, 0.7 * time / ops)
    return b


@pytest.mark.parametrize(
    ("ops", "expected"), [(single_tensor_optimizer.OPS_PER_STEP - 1, 0), (single_tensor_optimizer.OPS_PER_STEP, 1)]
)
def test_single_tensor_optimizer_at_the_edge(ops: int, expected: int) -> None:
    found = _by_code(find(_optimizer(ops).context()), "single-tensor-optimizer")
    assert len(found) == expected
    if found:
        assert (found[0].line, found[0].evidence["mend"]) == (33, "fused-optimizer")
        assert found[0].time_us == pytest.approx(3000.0)
        assert "fused=True" in found[0].message


MOMENTUM = ("aten::add", "aten::mul_", "aten::add_", "aten::add_")
ADAM = (
    *("aten::add_", "aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::item"),
    *("aten::sqrt", "aten::div", "aten::add_", "aten::addcdiv_"),
)
WITH = {"aten::add": 2, "aten::add_": 2, "aten::lerp_": 2, "aten::addcmul_": 3, "aten::addcdiv_": 3, "aten::item": 0}
"""Tensors of an operation; one, if it is not here."""


def _on_cpu(kind: str, ops: tuple[str, ...], numbers: int, op_us: float) -> list[Finding]:
    """An optimizer on forty parameters and one small one, of which an operation takes 2 µs; 1 µs of Python after each."""
    b = TraceBuilder()
    t = 0.0
    for _ in range(3):
        u = t + 1000.0
        for size in [numbers] * 40 + [4]:
            for name in ops:
                tensors = WITH.get(name, 1)
                took = op_us if size == numbers and tensors else 2.0
                dims: list[list[int]] = [[size]] * tensors if tensors else [[]]
                b.op(name, u, took, dims=dims, types=["float"] * len(dims))
                u += took + 1.0
        b.range(f"Optimizer.step#{kind}.step", t + 999.0, u - t - 999.0)
        b.op("aten::addmm", t, 900.0)
        b.step(t, u - t)
        t = u
    return _by_code(find(b.context()), "single-tensor-optimizer")


@pytest.mark.parametrize(
    ("kind", "ops", "kept"), [("SGD", ("aten::add_",), 0.6), ("SGD", MOMENTUM, 0.15), ("Adam", ADAM, 1.6 / 9)]
)
def test_of_small_operations_what_each_parameter_costs_stays(kind: str, ops: tuple[str, ...], kept: float) -> None:
    (finding,) = _on_cpu(kind, ops, 4, 2.0)
    assert 1.0 / finding.evidence["assumed_speedup"] == pytest.approx(kept, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "ops", "kept"), [("SGD", MOMENTUM, 6.5 / 11), ("Adam", ADAM, 7 / 23), ("Adagrad", ADAM, 5 / 23)]
)
def test_of_large_operations_what_a_fused_one_reads_and_writes_stays(
    kind: str, ops: tuple[str, ...], kept: float
) -> None:
    """A million numbers each: what an operation costs besides is nothing to that."""
    (finding,) = _on_cpu(kind, ops, 2**20, 2000.0)
    # All operations take as long here, whatever they read and write.
    assert 1.0 / finding.evidence["assumed_speedup"] == pytest.approx(kept, rel=0.02)


def test_plain_sgd_on_large_tensors_gains_nothing() -> None:
    assert not _on_cpu("SGD", ("aten::add_",), 2**20, 2000.0)


@pytest.mark.parametrize(("share", "severity"), [(4.9, "hint"), (5.1, "information")])
def test_what_every_program_does_on_a_cpu_is_loud_only_where_it_costs_much(share: float, severity: str) -> None:
    """Plain SGD: of operations that compute nothing 0.6 stay."""
    assert single_tensor_optimizer.CPU_LOUD_PCT == 5.0
    time = 100.0 * share / (1 - single_tensor_optimizer.KEPT_OPS["SGD"])
    (finding,) = _by_code(find(_optimizer(400, time=time).context()), "single-tensor-optimizer")
    assert finding.severity == severity
    assert finding.step_gain_pct == pytest.approx(share, rel=0.01)


def test_a_fused_optimizer_is_left_alone() -> None:
    assert not _by_code(find(_optimizer(60, inner="aten::_fused_adamw_").context()), "single-tensor-optimizer")


def test_an_optimizer_that_is_not_torchs_gets_no_promise() -> None:
    b = _optimizer(single_tensor_optimizer.OPS_PER_STEP + 1, "Optimizer.step#FusedLamb.step")
    (finding,) = _by_code(find(b.context()), "single-tensor-optimizer")
    assert (finding.severity, finding.saving_us) == ("hint", None)
    assert "foreach=True" not in finding.message


def test_an_optimizer_without_a_fused_form_gets_no_promise_on_a_cpu() -> None:
    (finding,) = _by_code(find(_optimizer(60, "Optimizer.step#RMSprop.step").context()), "single-tensor-optimizer")
    assert "no fused RMSprop" in finding.message
    assert (finding.severity, finding.saving_us) == ("hint", None)
    assert "mend" not in finding.evidence


@pytest.mark.parametrize("text", ["opt.zero_grad(set_to_none=False)", "model.zero_grad(set_to_none=False)"])
def test_zeroed_gradients(text: str) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 300, "train.py", 11, text)
        if text.startswith("opt"):
            b.range("Optimizer.zero_grad#SGD.zero_grad", t + 1, 290)
        for i in range(4):
            b.op("aten::zero_", t + 10 + 60 * i, 50)
        b.op("aten::mm", t + 310, 600)
    (finding,) = _by_code(find(b.context()), "zero-grad")
    assert finding.line == 11
    assert finding.saving_us == pytest.approx(200.0)
    assert finding.evidence["gradients_per_step"] == 4.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p.grad.zero_()", 1),
        ("param.grad.data.zero_()", 1),
        ("p.grad.fill_(0)", 1),
        ("torch._foreach_zero_(grads)", 1),
        ("buffer.zero_()", 0),
        ("self.gradual.zero_()", 0),
    ],
)
def test_gradients_zeroed_by_hand(text: str, expected: int) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 300, "train.py", 11, text)
        for i in range(4):
            b.op("aten::zero_", t + 10 + 60 * i, 50)
        b.op("aten::mm", t + 310, 600)
    found = _by_code(find(b.context()), "zero-grad")
    assert len(found) == expected
    if found:
        assert found[0].saving_us == pytest.approx(200.0)
        assert "p.grad = None" in found[0].message
        assert "mend" not in found[0].evidence, "no edit of one call mends a loop"


def test_with_zeroed_gradients_goes_the_addition_to_them() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.range("Optimizer.zero_grad#SGD.zero_grad", t + 1, 290)
        b.op("aten::zero_", t + 10, 100)
        b.op("torch::autograd::AccumulateGrad", t + 500, 220)
        b.op("aten::add_", t + 505, 200)
    (finding,) = _by_code(find(b.context()), "zero-grad")
    assert finding.saving_us == pytest.approx(300.0)


def test_gradients_zeroed_by_one_call_are_counted_each() -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.range("Optimizer.zero_grad#SGD.zero_grad", t + 1, 290)
        b.op("aten::_foreach_zero_", t + 10, 100, dims=[[[64, 64], [64], [8, 64]]], types=["TensorList"])
        for i in range(3):
            b.op("torch::autograd::AccumulateGrad", t + 300 + 100 * i, 55)
            b.op("aten::add_", t + 302 + 100 * i, 50)
    (finding,) = _by_code(find(b.context()), "zero-grad")
    assert finding.evidence["gradients_per_step"] == 3.0
    assert finding.saving_us == pytest.approx(100.0 + 3 * 50.0)


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_of_every_zeroed_gradient_the_first_addition_is_saved(losses: int) -> None:
    """Two losses add to the same gradients: the second addition is made whatever zero_grad does."""
    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.range("Optimizer.zero_grad#SGD.zero_grad", t + 1, 90)
        for i in range(2):
            b.op("aten::zero_", t + 10 + 40 * i, 30, dims=[[64, 64]], types=["float"])
        for i in range(2 * losses):
            b.op("torch::autograd::AccumulateGrad", t + 200 + 100 * i, 55)
            b.op("aten::add_", t + 202 + 100 * i, 50)
    (finding,) = _by_code(find(b.context()), "zero-grad")
    assert finding.saving_us == pytest.approx(2 * 30.0 + 2 * 50.0)


MEGABYTE = [512, 512]
LIST = [[MEGABYTE] * 2, [MEGABYTE] * 2]


@pytest.mark.parametrize(
    ("zeroed", "dropped", "activation", "made", "promised"),
    [
        ([MEGABYTE] * 2, [], [64, 64], None, True),  # as much as is kept
        ([*[MEGABYTE] * 2, [4]], [], [64, 64], None, False),
        ([[64, 64]] * 200, [], [64, 64], None, True),  # small ones go back into the heap
        ([MEGABYTE] * 3, [], [512, 1024], None, True),  # a larger block was freed
        ([MEGABYTE] * 2, [[64, 64]], [64, 64], None, False),  # another model's, dropped already
        ([MEGABYTE] * 2, [], [64, 64], LIST, False),  # what the optimizer makes of them
        ([[4096, 4096]], [], [64, 64], None, True),  # 64 MB: the system's now as well
        ([[2048, 4096]] * 2, [], [64, 64], None, True),  # 32 MB, the largest that may stay
    ],
)
def test_gradients_that_may_need_new_pages_are_promised_nothing(
    zeroed: list[list[int]],
    dropped: list[list[int]],
    activation: list[int],
    made: list[list[list[int]]] | None,
    promised: bool,
) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = 10_000.0 * k
        b.step(t, 10_000.0)
        b.line(t, t + 3000, "train.py", 11, "p.grad.zero_()")
        for i, dims in enumerate(zeroed):
            b.op("aten::zero_", t + 10 + 12 * i, 10, dims=[dims], types=["float"])
        b.op("MulBackward0", t + 3100, 50, dims=[activation], types=["float"])
        for i, dims in enumerate(dropped):
            b.op("torch::autograd::AccumulateGrad", t + 3200 + 10 * i, 5, dims=[dims], types=["float"])
        b.op("torch::autograd::AccumulateGrad", t + 4000, 220, dims=[zeroed[0]], types=["float"])
        b.op("aten::add_", t + 4005, 200, dims=[zeroed[0]] * 2, types=["float"] * 2)
        b.range("Optimizer.step#Lion.step", t + 5000, 500)
        if made is not None:
            b.op("aten::_foreach_lerp", t + 5010, 100, dims=made, types=["TensorList"] * 2)
    (finding,) = _by_code(find(b.context()), "zero-grad")
    assert (finding.saving_us is not None) is promised
    assert finding.evidence["pages_may_cost_it"] is not promised
    assert ("no saving is promised" in finding.message) is not promised
    assert finding.time_us == pytest.approx(10.0 * len(zeroed) + 200.0)


def _attention(keys: int, *, math: bool = False) -> TraceBuilder:
    b = TraceBuilder()
    q, k, s, v = [8, 128, 64], [8, 64, keys], [8, 128, keys], [8, keys, 64]
    for step in range(3):
        t = 1000.0 * step
        b.step(t, 1000.0)
        b.line(t, t + 990, "attention.py", 12, "weights = scores.softmax(-1)")
        if math:
            b.op("aten::scaled_dot_product_attention", t + 1, 980)
            b.op("aten::_scaled_dot_product_attention_math", t + 2, 970)
        b.op("aten::bmm", t + 10, 200, dims=[q, k], types=["float", "float"])
        b.op("aten::softmax", t + 220, 210, dims=[s], types=["float"])
        b.op("aten::_softmax", t + 225, 200, dims=[s], types=["float"])
        b.op("aten::bmm", t + 440, 200, dims=[s, v], types=["float", "float"])
    return b


@pytest.mark.parametrize(("keys", "expected"), [(attention.MIN_KEYS - 1, 0), (attention.MIN_KEYS, 1)])
def test_attention_written_out_at_the_edge(keys: int, expected: int) -> None:
    found = _by_code(find(_attention(keys).context()), "attention-unfused")
    assert len(found) == expected
    if found:
        assert found[0].line == 12
        assert found[0].time_us == pytest.approx(610.0, abs=15)


@pytest.mark.parametrize(("kind", "backward"), [("c10::BFloat16", False), ("c10::BFloat16", True), ("float", False)])
def test_what_the_fused_kernel_takes_follows_from_its_products(kind: str, backward: bool) -> None:
    """128 heads of 64 over 1024 keys: 34.4 Gflop forward, which 30 % of 1,000 Tflop/s do in 114.5 µs; 2.5 times as many backward,
    at 25 %: 343.6 µs. In float32 nothing is known of the kernel."""
    b = TraceBuilder()
    for k in range(3):
        t = 2000.0 * k
        b.step(t, 2000.0)
        b.line(t, t + 990, "attention.py", 12, "weights = scores.softmax(-1)")
        scores = [8, 16, 1024, 1024]
        b.op("aten::bmm", t + 1, 10, dims=[[128, 1024, 64], [128, 64, 1024]], types=[kind] * 2)
        b.kernel("gemm", t + 4, 296.0, launched=t + 2)
        b.op("aten::_softmax", t + 20, 10, dims=[scores], types=[kind])
        b.kernel("softmax", t + 300, 500.0, launched=t + 21)
        b.op("aten::bmm", t + 40, 10, dims=[[128, 1024, 1024], [128, 1024, 64]], types=[kind] * 2)
        b.kernel("gemm", t + 800, 200.0, launched=t + 41)
        if backward:
            b.op("autograd::engine::evaluate_function: SoftmaxBackward0", t + 60, 20)
        b.op("aten::_softmax_backward_data", t + 61, 10, dims=[scores, scores], types=[kind] * 2)
        b.kernel("softmax_backward", t + 1000, 900.0, launched=t + 62)
        b.kernel("other", t + 1900, 100.0, launched=t + 90)
        b.sync(t + 100, 1899.0)
    context = b.context()
    peaks = Peaks(source="datasheet", bandwidth_gb_s=4800.0, flops={"bf16": 1e15})
    context.document.devices = [Device(id=0, name="Some GPU", kind="cuda", peaks=peaks)]
    (finding,) = _by_code(find(context), "attention-unfused")
    flops = 128 * 1024 * 1024 * 64
    forward, back = 4 * flops / 0.30e15 * 1e6, 10 * flops / 0.25e15 * 1e6
    fused = forward + (back if backward else 0.0)
    speedup = 1896.0 / fused if kind != "float" else attention.DEVICE_SPEEDUP
    assert finding.time_us == pytest.approx(1896.0)
    assert finding.evidence["assumed_speedup"] == pytest.approx(speedup)
    assert finding.saving_us == pytest.approx(1896.0 * (1 - 1 / speedup), rel=0.02)


def test_attention_that_fell_back() -> None:
    (finding,) = _by_code(find(_attention(256, math=True).context()), "attention-unfused")
    assert "mathematical form" in finding.message


@pytest.mark.parametrize(("dropout", "severity"), [(False, "information"), (True, "hint")])
def test_a_cpu_has_no_fused_attention_with_dropout(dropout: bool, severity: str) -> None:
    b = _attention(256, math=True)
    if dropout:
        for step in range(3):
            b.op("aten::bernoulli_", 1000.0 * step + 650, 50, dims=[[8, 128, 256]], types=["float"])
    (finding,) = _by_code(find(b.context()), "attention-unfused")
    assert finding.severity == severity
    assert (finding.saving_us is None) == dropout


def test_a_softmax_over_classes_is_no_attention() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.op("aten::mm", 0.0, 500.0, dims=[[128, 64], [64, 1000]], types=["float"] * 2)
    b.op("aten::_softmax", 510.0, 300.0, dims=[[128, 1000]], types=["float"])
    assert not _by_code(find(b.context()), "attention-unfused")


def _decode(lengths: list[int], name: str = "aten::embedding") -> TraceBuilder:
    b = TraceBuilder()
    for k, n in enumerate(lengths):
        b.line(100.0 * k, 100.0 * k + 90, "generate.py", 9, "logits = model(ids)")
        dims: list[Any] = [[500, 64], [4, n]] if name == "aten::embedding" else [[[4, n, 64], [4, 1, 64]], []]
        b.op(name, 100.0 * k + 5, 80, dims=dims, types=["float", "long int"])
    return b


@pytest.mark.parametrize(("count", "expected"), [(decode.GROWTH - 1, 0), (decode.GROWTH, 1)])
def test_decoding_without_a_cache_at_the_edge(count: int, expected: int) -> None:
    found = _by_code(find(_decode([64 + k for k in range(count)]).context()), "token-decode")
    assert len(found) == expected
    if found:
        assert (found[0].line, found[0].evidence["first_length"]) == (9, 64)


def test_two_tensors_of_one_statement_that_grow_together() -> None:
    b = TraceBuilder()
    for k in range(12):
        b.line(100.0 * k, 100.0 * k + 90, "gpt.py", 32, "x = self.wte(idx) + self.wpe(pos)")
        b.op("aten::embedding", 100.0 * k + 5, 20, dims=[[500, 64], [4, 48 + k]], types=["float", "long int"])
        b.op("aten::embedding", 100.0 * k + 30, 20, dims=[[512, 64], [48 + k]], types=["float", "long int"])
    (finding,) = _by_code(find(b.context()), "token-decode")
    assert (finding.line, finding.evidence["first_length"], finding.evidence["last_length"]) == (32, 48, 59)


def test_the_statement_at_which_the_text_enters_is_named() -> None:
    b = TraceBuilder()
    for k in range(12):
        t = 1000.0 * k
        b.line(t, t + 90, "gpt.py", 32, "x = self.wte(idx)")
        b.op("aten::embedding", t + 5, 20, dims=[[500, 64], [4, 48 + k]], types=["float", "long int"])
        b.line(t + 90, t + 900, "gpt.py", 17, "q = self.qkv(x)")
        for layer in range(6):
            b.op("aten::linear", t + 100 * (layer + 1), 20, dims=[[4, 48 + k, 64], [64, 64]], types=["float"] * 2)
    (finding,) = _by_code(find(b.context()), "token-decode")
    assert finding.line == 32


def test_a_cache_that_grows_by_concatenation() -> None:
    (finding,) = _by_code(find(_decode([64 + k for k in range(12)], "aten::cat").context()), "token-decode")
    assert "concatenation" in finding.title
    assert finding.time_us is not None
    assert finding.saving_us is not None
    stays = 2 / (64 + 75)  # of each new tensor the token's part is written anyway
    assert finding.saving_us == pytest.approx(finding.time_us * (1 - stays), rel=0.01)


def test_keys_and_values_that_grow_are_one_cache() -> None:
    b = TraceBuilder()
    for k in range(12):
        for at, line in enumerate((14, 15)):
            t = 1000.0 * k + 400.0 * at
            b.line(t, t + 390, "cache.py", line, "self.k = torch.cat((self.k, k), dim=2)")
            b.op("aten::cat", t + 5, 100, dims=[[[4, 8, 64 + k, 32], [4, 8, 1, 32]]], types=["TensorList"])
    (finding,) = _by_code(find(b.context()), "token-decode")
    assert finding.line == 14
    assert finding.evidence["related"] == [{"file": "cache.py", "line": 15, "text": "of the same cache"}]
    assert finding.time_us == pytest.approx(2 * 12 * 100)


@given(
    st.lists(st.integers(16, 512), min_size=8, max_size=20).filter(lambda xs: all(b - a != 1 for a, b in pairwise(xs)))
)
def test_lengths_that_vary_are_no_decoding(lengths: list[int]) -> None:
    assert not _by_code(find(_decode(lengths).context()), "token-decode")
