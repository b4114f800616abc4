"""A trace is untrusted: whatever it holds, an estimate comes back, and never a claim above a peak."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.roofline import KernelInput, estimate
from ridgeline.roofline.peaks import device_spec
from ridgeline.roofline.sane import sane
from roofline_kernels import H200, launch, op, pointwise, with_peaks

CPU = device_spec("cpu", "cpu", None, {"flops": {"fp32": 1e11}, "bandwidth_gb_s": {"read": 20.0}})
NAMES = ["aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::convolution", "aten::convolution_backward", "aten::cudnn_convolution", "aten::_flash_attention_forward", "aten::_scaled_dot_product_flash_attention_backward", "aten::_foreach_add_", "aten::copy_", "aten::index", "aten::embedding", "aten::_softmax", "aten::sum", "aten::cat", "aten::max_pool2d", "CompiledFunction", "triton_poi_fused_add_0", "nothing", None]  # fmt: skip
SYMBOLS = ["nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "void at::native::reduce_kernel<512>", "void at::native::vectorized_elementwise_kernel<4>", "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>>", "triton_poi_fused_add_0", "sm80_xmma_wgrad_implicit_gemm", "gemv2T_kernel_val", "splitKreduce_kernel", "flash_fwd_kernel", "Memcpy DtoD", "x"]  # fmt: skip
TEXT = pointwise(
    "triton_poi_fused_add_0",
    {"in_ptr0": "*fp32", "out_ptr0": "*fp32"},
    4096,
    "x0 = xindex % 7\ntmp0 = tl.load(in_ptr0 + (x0), xmask)\ntl.store(out_ptr0 + (xindex), tmp0, xmask)",
)
sizes = st.one_of(st.integers(-3, 10_000), st.none(), st.text(max_size=3), st.floats(allow_nan=True))
shapes = st.one_of(st.lists(st.one_of(sizes, st.lists(sizes, max_size=3)), max_size=5), st.none(), st.integers())
kinds = st.sampled_from(
    [
        "float",
        "c10::BFloat16",
        "c10::Half",
        "double",
        "long int",
        "bool",
        "Scalar",
        "TensorList",
        "",
        "c10::Float8_e4m3fn",
        "???",
    ]
)
whole = st.lists(st.integers(1, 64), min_size=1, max_size=4)


@st.composite
def kernels(draw: st.DrawFn) -> KernelInput:
    count = draw(st.integers(0, 6))
    sane = draw(st.booleans())
    dims: list[Any] = draw(st.lists(whole if sane else shapes, min_size=count, max_size=count))
    return KernelInput(
        name="k",
        symbol=draw(st.sampled_from(SYMBOLS)),
        category=draw(st.sampled_from(["pointwise", "gemm", "memcpy", "memset", "cpp", "other"])),
        duration_us=draw(st.one_of(st.floats(0, 1e6), st.just(0.0), st.just(1e-9))),
        count=1,
        grid=draw(st.one_of(st.none(), st.tuples(*[st.integers(0, 5000)] * 3))),
        block=draw(st.one_of(st.none(), st.tuples(*[st.integers(0, 1024)] * 3))),
        registers=draw(st.one_of(st.none(), st.integers(0, 255))),
        shared_memory=draw(st.one_of(st.none(), st.integers(0, 1 << 20))),
        num_warps=draw(st.one_of(st.none(), st.integers(0, 32))),
        kernel_kwargs=draw(st.one_of(st.none(), st.just("XBLOCK=64"), st.text(max_size=12))),
        kernel_source=draw(st.one_of(st.none(), st.just(TEXT), st.text(max_size=40))),
        op_name=draw(st.sampled_from(NAMES)),
        input_dims=draw(st.one_of(st.none(), st.just(dims))),
        input_types=draw(st.one_of(st.none(), st.lists(kinds, max_size=6))),
        input_strides=draw(st.one_of(st.none(), st.lists(shapes, max_size=6))),
        concrete_inputs=draw(
            st.one_of(
                st.none(), st.lists(st.one_of(st.text(max_size=6), st.just("[1, 1]"), st.just("True")), max_size=9)
            )
        ),
        num_gb=draw(st.one_of(st.none(), st.floats(0, 10))),
        copy_bytes=draw(st.one_of(st.none(), st.floats(0, 1e9))),
        on_cpu=draw(st.booleans()),
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kernels(), st.sampled_from([H200, CPU, with_peaks(1000.0, bf16=100.0), device_spec("?", "cuda", {})]))
def test_an_estimate_always_comes_back(kernel: KernelInput, device: Any) -> None:
    found = estimate(kernel, device)
    for value in (
        found.bytes,
        found.flops,
        found.gb_per_s,
        found.tflop_per_s,
        found.memory_pct,
        found.compute_pct,
        found.waves,
    ):
        assert value is None or (math.isfinite(value) and value >= 0)
    assert found.memory_pct is None or found.memory_pct <= 105
    assert found.compute_pct is None or found.compute_pct <= 105
    if found.tflop_per_s and device.flops.get(found.flop_type or ""):
        assert found.tflop_per_s * 1e12 <= 1.05 * device.flops[found.flop_type or ""] * (1 + 1e-9)
    assert (found.cause is not None) == (found.bound == "latency")
    assert found.resource is None or found.bound in ("memory", "compute")
    assert found.confidence is None or 0 <= found.confidence <= 1


SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(float*, float const*)"
)
COPY = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy>>(int)"
DEPTHWISE = "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel_generic<float, int>(int)"
FLASH = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
BOX = [[64, 1000], [64, 1000], [], []]


@pytest.mark.parametrize(
    "kernel",
    [
        op("aten::_log_softmax_backward_data", BOX, ["float"] * 2, 3.0, SOFTMAX, grid=(0, 1, 1), block=(128, 1, 1)),
        op("aten::_log_softmax_backward_data", BOX, ["float"] * 2, 3.0, SOFTMAX, grid=(16, 1, 1), block=(1 << 31, 65535, 1)),
        op("aten::minimum", [[4, 8], [4, 8]], ["float"] * 2, 9.0, COPY, grid=(8, 1, 1), block=(0, 0, 0)),
        op("aten::copy_", [[3, 8], [3, 8]], ["float"] * 2, 9.0, COPY, input_strides=[[9, 9, 9], [8]], grid=(9, 1, 1), block=(128, 1, 1)),
        op("aten::copy_", [[1] * 900, [10**30]], ["float"] * 2, math.nan, COPY, grid=(9, 1, 1), block=(128, 1, 1)),
        op("aten::sum", [[128, -3, 224]], ["float"], 35.0, "void at::native::reduce_kernel<128, 4, float>", concrete_inputs=["", "[²]"], grid=(9, 1, 1), block=(64, 2, 1)),
        op("aten::_log_softmax", [[0, 0]], ["float"], 2.5, SOFTMAX.replace("backward", "forward"), grid=(16, 1, 1), block=(32, 4, 1)),
        op("aten::_conv_depthwise2d", [[16, 512, 1, 512], []], ["float"] * 2, 75.0, DEPTHWISE, grid=(4096, 1, 1), block=(1024, 1, 1)),
        op("aten::cudnn_convolution", [[0, 0, 0, 0], [0, 0, 0, 0]], ["float"] * 2, 26.0, "sm90_xmma_fprop_implicit_gemm_tilesize64x32x32", category="gemm"),
        op("aten::addmm", [[512], [128, 256], [256, 512]], ["float"] * 3, 50.0, "nvjet_sm90_tst_128x000_64x5_0x1_v_bz_coopB_TNN", category="gemm", grid=(2, 66, 1), block=(384, 1, 1)),
        op("aten::_cudnn_attention_forward", [[4, 12, 1024, 0]] * 3, ["c10::Half"] * 3, 27.0, FLASH, grid=(132, 1, 1), block=(384, 1, 1)),
        op("aten::_cudnn_attention_forward", [[4, 12, 64, 64]] * 3, ["c10::Half"] * 3, 27.0, FLASH.replace("128x64", "0x64"), grid=(132, 1, 1), block=(384, 1, 1)),
        launch(TEXT, "triton_poi_fused_add_0", 4, "XBLOCK=0", us=9.0),
        launch(TEXT, "triton_poi_fused_add_0", 4, "XBLOCK=-4", us=math.inf),
        launch(TEXT, "triton_poi_fused_add_0", 4, warps=10**9, us=9.0),
    ],
    ids=["no blocks", "block of 2^47", "no threads", "strides of another tensor", "sizes beyond all", "sizes below nought", "empty softmax", "filter of no sizes", "empty convolution", "tile of nothing", "empty heads", "block of no keys", "empty tile", "negative tile", "warps"],
)  # fmt: skip
def test_what_no_launch_can_be_is_unknown_and_raises_nothing(kernel: KernelInput) -> None:
    found = estimate(kernel, H200)
    for value in (found.bytes, found.flops, found.memory_pct, found.compute_pct, found.waves, found.gb_per_s):
        assert value is None or (math.isfinite(value) and value >= 0)


def test_a_sentence_claims_no_more_than_the_two_figures() -> None:
    text = pointwise(
        "triton_poi_fused_add_0",
        {"in_ptr0": "*fp32", "out_ptr0": "*fp32"},
        1 << 24,
        "tmp0 = tl.load(in_ptr0 + (xindex), xmask)\ntmp1 = libdevice.erf(libdevice.erf(libdevice.erf(libdevice.erf(tmp0))))\ntl.store(out_ptr0 + (xindex), tmp1, xmask)",
    )
    seen = set()
    for us in (20.0, 30.0, 40.0, 50.0, 60.0, 80.0):
        found = estimate(launch(text, "triton_poi_fused_add_0", 1 << 14, us=us), H200)
        figures = [int(n) for n in re.findall(r"(\d+) %", (found.reason or "").split("DRAM's")[0])]
        assert all(n <= 100 for n in figures)
        seen.add(round(found.compute_pct or 0.0))
    assert 100 in seen, "no estimate was above what the device can do: the test shows nothing"


def test_a_short_kernel_that_no_model_describes_is_too_small() -> None:
    found = estimate(
        op("aten::_conv_depthwise2d", [[64, 512, 64, 64], [512, 1, 7, 7]], ["float"] * 2, 2.0, "wgrad2d_c1_k1_nhwc_reduce", grid=(900, 1, 1), block=(256, 1, 1)),
        H200,
    )  # fmt: skip
    assert (found.bound, found.cause, found.compute_pct) == ("latency", "too_small", None)


def test_a_fill_faster_than_memory_stays_in_the_cache() -> None:
    fill = KernelInput(name="Memset (Device)", symbol="Memset (Device)", category="memset", duration_us=6.64, count=1, copy_bytes=50e6)  # fmt: skip
    found = estimate(fill, H200)
    assert found.reason is not None
    assert "L2" in found.reason
    assert "wrong" not in found.reason
    wrong = estimate(replace(fill, copy_bytes=500e6), H200)
    assert wrong.reason is not None
    assert "wrong" in wrong.reason


def test_whole_strides_and_sizes_pass_unchanged() -> None:
    kernel = op("aten::copy_", [[3, 8], [[2, 2], [0]], []], ["float", "TensorList", "Scalar"], 9.0, input_strides=[[8, 1], [[2, 1], [1]], []], concrete_inputs=["", "", "[1, -1]"], grid=(2**31 - 1, 1, 1), block=(32, 32, 1))  # fmt: skip
    assert sane(kernel) == kernel
