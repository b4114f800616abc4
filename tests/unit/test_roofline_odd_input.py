"""A trace is untrusted: whatever it holds, an estimate comes back, and never a claim above a peak."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.roofline import KernelInput, estimate
from ridgeline.roofline.peaks import device_spec
from roofline_kernels import H200, pointwise, with_peaks

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
