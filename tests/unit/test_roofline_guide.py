"""The worked numbers of the roofline guide."""

from __future__ import annotations

import pytest

from ridgeline.roofline import estimate, gemm, sentences
from ridgeline.roofline.peaks import datasheet, device_spec, ridge_points
from roofline_kernels import H200, op, with_peaks

BF16 = "c10::BFloat16"
HALF = "c10::Half"


def test_ridge_of_an_a100() -> None:
    assert ridge_points(2000.0, {"bf16": 312e12})["bf16"] == pytest.approx(156)


def test_a_4096_cubed_product() -> None:
    work = gemm.product(op("aten::mm", [[4096, 4096], [4096, 4096]], [HALF, HALF], 200.0))
    assert work is not None
    assert work.flops == pytest.approx(1.37e11, rel=5e-3)
    assert work.read + work.write == pytest.approx(1.0e8, rel=1e-2)
    assert work.flops / (work.read + work.write) == pytest.approx(1365, abs=1)


def test_a_large_product_is_compute_bound() -> None:
    kernel = op(
        "aten::mm",
        [[4096, 4096], [4096, 4096]],
        [HALF, HALF],
        190.0,
        "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
        grid=(2, 66, 1),
        block=(384, 1, 1),
    )
    found = estimate(kernel, H200)
    assert found.bound == "compute"
    assert found.resource == "tensor"
    assert found.arithmetic_intensity == pytest.approx(1365, abs=1)


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::native_layer_norm", [[65536, 1024]]),
        ("aten::_softmax", [[65536, 1024]]),
        ("aten::add", [[65536, 1024], [65536, 1024]]),
    ],
)
def test_normalisations_and_additions_are_memory_bound(name: str, dims: list[list[int]]) -> None:
    elements = 65536 * 1024
    flops_a_byte = 5 * elements / (2 * elements * len(dims) * 1.5)  # even at five operations an element
    assert flops_a_byte < 5
    moved = (len(dims) + 1) * elements * 2
    kernel = op(
        name,
        dims,
        [BF16] * len(dims),
        moved / 4.2e6,
        "void at::native::vectorized_elementwise_kernel<8>",
        grid=(elements // 4096, 1, 1),
        block=(128, 1, 1),
    )
    found = estimate(kernel, H200)
    assert found.bytes == moved
    assert found.bound == "memory"
    assert found.resource == "dram"


def test_a_decoding_step_of_a_7b_model_moves_its_weights() -> None:
    weights = 7e9
    work = gemm.Product(1, 1, 1_000_000, 7000, 2, 2, HALF, 2 * weights)
    assert work.k * work.n * work.itemsize == pytest.approx(14e9)
    at_2tb = 14e9 / 2.0e12
    assert at_2tb == pytest.approx(7e-3)
    assert at_2tb / 4 == pytest.approx(1.75e-3)  # int4 weights
    assert "int4 would move 0.25 of it" in sentences.decode(work, 85.0)


def test_decode_is_memory_bound_however_many_flops_the_chip_has() -> None:
    kernel = op(
        "aten::mm",
        [[1, 8192], [8192, 8192]],
        [HALF, HALF],
        34.0,
        "nvjet_sm90_hsh_64x8_64x16_2x1_v_bz_TNT",
        grid=(2, 64, 1),
        block=(384, 1, 1),
    )
    found = estimate(kernel, H200)
    assert found.bound == "memory"
    assert found.resource == "dram"
    assert found.reason is not None
    assert "weights" in found.reason
    assert "int4" in found.reason
    assert "twice the FLOPs would change nothing" in found.reason


def test_a_product_of_padding_says_so() -> None:
    kernel = op(
        "aten::mm",
        [[8192, 1024], [1024, 4096]],
        [BF16, BF16],
        90.0,
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
        useful_rows_pct=40.0,
    )
    assert any("60 % of its rows are padding" in note for note in estimate(kernel, H200).notes)


def test_peaks_are_dense() -> None:
    sheet = datasheet("NVIDIA H100 80GB HBM3")
    assert sheet is not None
    assert sheet.flops["bf16"] == 989.4
    assert sheet.flops["tf32"] == 494.7
    assert max(sheet.flops["bf16"], sheet.flops["fp16"]) < 1979


@pytest.mark.parametrize(
    ("name", "gb_s", "bf16"),
    [
        ("NVIDIA A100-SXM4-80GB", 2039, 312),
        ("NVIDIA A100-SXM4-40GB", 1555, 312),
        ("NVIDIA H100 PCIe", 2000, 756),
        ("NVIDIA A10G", 600, 70),
        ("NVIDIA A10", 600, 125),
        ("NVIDIA L40S", 864, 362),
        ("NVIDIA L4", 300, 121),
        ("NVIDIA L40", 864, 181),
    ],
)
def test_families_are_found_by_the_start_of_the_name(name: str, gb_s: float, bf16: float) -> None:
    sheet = datasheet(name)
    assert sheet is not None
    assert (sheet.bandwidth_gb_s, sheet.flops["bf16"]) == (gb_s, bf16)


def test_a_device_nobody_knows_has_no_peaks() -> None:
    spec = device_spec("Some Accelerator 9000", "cuda", {"numSms": 10})
    assert spec.peaks_source == "unknown"
    assert spec.bandwidth_gb_s is None
    assert spec.flops == {}


def test_a_measured_rate_is_the_best_of_measurement_observation_and_clock_scaled_datasheet() -> None:
    measured = {
        "flops": {"bf16": 701e12, "int8": 1.1e15},
        "bandwidth_gb_s": {"read": 4379.0, "copy": 4248.0},
        "clocks_mhz": {"clocks.max.sm": 1500.0},
    }
    spec = device_spec("NVIDIA H200", "cuda", {"numSms": 132}, measured, {"bf16": 830e12})
    assert spec.flops["bf16"] == pytest.approx(830e12)  # the datasheet's 989.4 at 1.83 GHz is 811 at 1.5
    assert spec.flops["tf32"] == pytest.approx(494.7e12 * 1.5 / 1.83)
    assert spec.bandwidth_gb_s == 4379.0
    assert spec.peaks_source == "measured"


def test_a_slice_of_a_device_has_a_share_of_its_rates() -> None:
    spec = device_spec("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "cuda", {"numSms": 16})
    assert spec.flops["bf16"] == pytest.approx(989.4e12 * 16 / 132)
    assert spec.bandwidth_gb_s == pytest.approx(3350 * 16 / 132)


def test_units_are_decimal() -> None:
    kernel = op("aten::copy_", [[1 << 27], [1 << 27]], ["float", "float"], 1000.0)
    found = estimate(kernel, with_peaks(5300.0))
    assert found.bytes == 1_073_741_824
    assert found.gb_per_s == pytest.approx(1073.741824)
