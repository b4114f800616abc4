"""The roofline cases from the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ridgeline.analysis import analyze_paths
from ridgeline.roofline import attention, conv, estimate, gemm
from ridgeline.roofline.peaks import device_spec
from roofline_kernels import H100, H200, op, with_peaks

BF16, HALF = "c10::BFloat16", "c10::Half"


def share_of_peak(found: Any, device: Any) -> float:
    return float(100 * found.tflop_per_s * 1e12 / device.flops[found.flop_type])


def test_a_trace_with_shapes_gets_the_whole_table(cases: Path) -> None:  # UP-50
    document = analyze_paths([cases / "data/tl/torch_compile_triton/trace.json.gz"])
    rows = {k.symbol: k for k in document.kernels if k.symbol.startswith("triton")}
    expected = {
        "triton_poi_fused__unsafe_view_mul_silu_2": (1_610_612_736, 3054),
        "triton_poi_fused__unsafe_view_add_3": (402_653_184, 2858.8),  # none in place: the reason says which
        "triton_red_fused_add_mean_mul_pow_rsqrt_0": (268_439_552, 3482.9),
        "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1": (402_657_280, 4441.8),
    }
    for name, (count, rate) in expected.items():
        row = rows[name]
        assert row.bytes == count
        assert row.gb_per_s == pytest.approx(rate, rel=1e-3)
        assert row.bound == "memory"
        assert row.bound_reason is not None
        assert "in place" in row.bound_reason
    product = next(
        k for k in document.kernels if k.flops == pytest.approx(1.0995e12, rel=1e-4) and k.category == "gemm"
    )
    assert product.arithmetic_intensity == pytest.approx(1560.4, abs=0.1)


def test_at_reachable_peaks_the_product_is_compute_bound() -> None:  # UP-50
    device = with_peaks(5300.0, bf16=708.0)
    kernel = op(
        "aten::mm", [[32768, 2048], [2048, 8192]], [BF16, BF16], 1099.51e9 / 588.2e12 * 1e6, "Cijk_Alik_Bljk_BBS"
    )
    found = estimate(kernel, device)
    assert found.tflop_per_s == pytest.approx(588.2, rel=1e-3)
    assert found.compute_pct == pytest.approx(83, abs=0.2)
    assert found.bound == "compute"


@pytest.mark.parametrize(("columns", "gb_s", "hot"), [(4096, 5019, True), (16384, 1451, False)])
def test_a_rate_above_the_memorys_comes_from_the_cache(columns: int, gb_s: float, hot: bool) -> None:  # UP-51
    device = device_spec("NVIDIA GeForce RTX 5090", "cuda", {"numSms": 170, "computeMajor": 12, "computeMinor": 0})
    moved = 2 * 4096 * columns * 2
    kernel = op(
        "aten::copy_",
        [[4096, columns], [4096, columns]],
        [HALF, HALF],
        moved / gb_s / 1e3,
        "void at::native::vectorized_elementwise_kernel<8>",
        grid=(4096, 1, 1),
        block=(128, 1, 1),
    )
    found = estimate(kernel, device)
    flags = [n for n in found.notes if "of DRAM peak" in n]
    if hot:
        assert flags == ["280 % of DRAM peak: working set fits L2"]
        assert found.memory_pct is None or found.memory_pct < 95
    else:
        assert not flags
        assert found.gb_per_s == pytest.approx(1451, rel=1e-6)
        assert 100 * found.gb_per_s / 1792 == pytest.approx(81, abs=0.1)


def test_the_dense_peak_of_the_type_really_used() -> None:  # UP-53
    flops = 2 * 8192**3
    half = estimate(
        op(
            "aten::mm",
            [[8192, 8192]] * 2,
            [BF16, BF16],
            flops / 494.7e6,
            "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
        ),
        H100,
    )
    assert share_of_peak(half, H100) == pytest.approx(50.0, abs=0.1)
    plain = estimate(
        op("aten::mm", [[8192, 8192]] * 2, ["float", "float"], flops / 30e6, "ampere_sgemm_128x64_nn"), H100
    )
    assert plain.flop_type == "fp32"
    assert share_of_peak(plain, H100) == pytest.approx(44.8, abs=0.1)
    tf32 = estimate(
        op(
            "aten::mm",
            [[8192, 8192]] * 2,
            ["float", "float"],
            flops / 30e6,
            "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32",
        ),
        H100,
    )
    assert tf32.flop_type == "tf32"
    assert share_of_peak(tf32, H100) == pytest.approx(6.1, abs=0.1)


def test_attention_on_a_processor_has_flops() -> None:  # UP-54
    kernel = op(
        "aten::_scaled_dot_product_flash_attention_for_cpu", [[1, 12, 64, 64]] * 3, ["float"] * 3, 500.0, on_cpu=True
    )
    work = attention.attention(kernel)
    assert work is not None
    assert work.flops == 12_582_912
    device = device_spec("cpu", "cpu", None, {"flops": {"fp32": 1e11}, "bandwidth_gb_s": {"read": 20.0}})
    assert estimate(kernel, device).flops == 12_582_912


def test_no_bound_from_a_missing_count() -> None:  # UP-54
    found = estimate(op("custom::thing", [[4, 4]], ["Opaque"], 50.0), H200)
    assert found.bound == "unknown"
    assert found.flops is None
    assert found.bytes is None


@pytest.mark.parametrize(
    ("name", "dims", "flops"),
    [
        ("aten::mm", [[8, 16], [16, 10]], 2560),
        ("aten::bmm", [[2, 8, 16], [2, 16, 10]], 5120),
        ("aten::mm", [[10, 20], [20, 30]], 12_000),
    ],
)
def test_small_products(name: str, dims: list[list[int]], flops: int) -> None:  # UP-46, UP-54
    work = gemm.product(op(name, dims, ["float", "float"], 5.0))
    assert work is not None
    assert work.flops == flops
    if dims == [[8, 16], [16, 10]]:
        assert work.read + work.write == 1472
    if dims == [[10, 20], [20, 30]]:
        assert work.read + work.write == 4400


def test_a_grouped_convolution() -> None:  # UP-54: 10,368 FLOPs
    work = conv.convolution(
        op(
            "aten::conv2d",
            [[1, 4, 8, 8], [4, 2, 3, 3], []],
            ["float", "float", ""],
            10.0,
            concrete_inputs=["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "2"],
        )
    )
    assert work is not None
    assert work.groups == 2
    assert work.output_shape == (1, 4, 6, 6)
    assert work.flops == 2 * 4 * 36 * 2 * 9


def test_an_impossible_rate_is_rejected() -> None:  # UP-56
    device = with_peaks(2000.0, fp16=400.0)
    found = estimate(op("aten::mm", [[4096, 4096]] * 2, [HALF, HALF], 48.2), device)
    assert found.bound == "unknown"
    assert found.tflop_per_s is None
    assert found.reason is not None
    assert "713 % of the fp16 peak: timing not synchronised" in found.reason


def test_a_tiny_kernel_is_latency_bound(cases: Path) -> None:  # UP-57
    document = analyze_paths([cases / "data/hta/triton_example/triton_example.json.gz"])
    kernel = next(k for k in document.kernels if k.symbol.startswith("triton_poi"))
    assert kernel.bytes == 1200
    assert kernel.gb_per_s == pytest.approx(0.68, abs=0.01)
    assert kernel.bound == "latency"
    assert kernel.bound_cause == "too_small"
    assert kernel.bound_reason is not None
    assert "1 block" in kernel.bound_reason
    assert max(kernel.compute_pct or 0, kernel.memory_pct or 0) < 1


def test_rates_are_decimal_and_times_microseconds() -> None:  # UP-59
    found = estimate(
        op("aten::copy_", [[1 << 29], [1 << 29]], ["signed char", "signed char"], 1000.0), with_peaks(2039.0)
    )
    assert found.bytes == 1_073_741_824
    assert found.gb_per_s == pytest.approx(1073.741824)
