"""Library kernels: pointwise kernels by operands and dimensions, products and convolutions fed through shared memory; and
what a Triton kernel finds in the first-level cache."""

from __future__ import annotations

import pytest

from ridgeline.roofline import conv, estimate, gemm, warp_fed
from ridgeline.roofline.limits import usage
from ridgeline.roofline.model import demand_of
from ridgeline.roofline.peaks import device_spec
from ridgeline.roofline.pointwise import dimensions
from ridgeline.roofline.tensors import Tensor
from roofline_kernels import H200, launch, op, pointwise

HALF = "c10::Half"
STRIDED = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<F>>"
A100 = device_spec("NVIDIA A100-SXM4-80GB", "cuda", {"numSms": 108, "computeMajor": 8, "computeMinor": 0})


def tensor(shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    return Tensor(0, shape, strides, HALF, 2)


@pytest.mark.parametrize(
    ("operands", "left"),
    [
        ([tensor((8, 16), (16, 1)), tensor((8, 16), (16, 1))], 1),
        ([tensor((8, 16), (16, 1)), tensor((8, 16), (1, 8))], 2),
        ([tensor((32, 256, 1024), (262144, 1024, 1)), tensor((256, 1024), (1024, 1))], 2),
        ([tensor((4, 16, 64, 256), (262144, 16384, 256, 1)), tensor((4, 16, 64, 256), (786432, 64, 1, 3072))], 3),
        ([tensor((4, 16, 256, 64), (262144, 16384, 64, 1)), tensor((4, 16, 256, 64), (786432, 64, 3072, 1))], 4),
        ([tensor((8, 16), (32, 2))], 1),
        ([tensor((1, 1), (1, 1))], 1),
        ([], 1),
    ],
)
def test_dimensions_join_where_every_operand_allows_it(operands: list[Tensor], left: int) -> None:
    assert dimensions(operands) == left


def strided_copy(strides: list[int]) -> float:
    dims = [[32, 16, 256, 64]] * 2
    steps = [[262144, 16384, 64, 1], strides]
    kernel = op(
        "aten::copy_", dims, [HALF] * 2, 25.0, STRIDED, input_strides=steps, grid=(16384, 1, 1), block=(128, 1, 1)
    )
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.issued is not None
    return demand.issued


def test_each_dimension_left_costs_a_division() -> None:
    assert strided_copy([786432, 64, 3072, 1]) > strided_copy([262144, 16384, 64, 1]) * 1.5


def test_a_number_is_not_a_tensor_of_doubles() -> None:
    symbol = (
        "void at::native::vectorized_elementwise_kernel<8, at::native::BUnaryFunctor<c10::Half, MulFunctor<float>>>"
    )
    dims = [[32, 16, 256, 256], []]
    strides = [[1048576, 65536, 256, 1], []]
    kernel = op(
        "aten::div", dims, [HALF, "double"], 33.2, symbol, input_strides=strides, grid=(32768, 1, 1), block=(128, 1, 1)
    )
    found = estimate(kernel, H200)
    assert found.bound == "memory"
    assert found.flop_type != "fp64"
    assert found.compute_pct is not None
    assert found.compute_pct < 30


def test_where_writes_what_it_chooses() -> None:
    symbol = "void at::native::vectorized_elementwise_kernel<4, at::native::where_kernel_impl>"
    dims = [[65536, 512]] * 3
    kernel = op("aten::where", dims, ["bool", "float", "float"], 102.0, symbol, grid=(65536, 1, 1), block=(128, 1, 1))
    assert estimate(kernel, H200).bytes == 65536 * 512 * (1 + 4 + 4 + 4)


def test_a_table_that_every_block_reads_is_fetched_once_an_sm() -> None:
    elements, channels = 1 << 23, 128
    body = f"""x0 = xindex % {channels}
tmp0 = tl.load(in_ptr0 + (xindex), None)
tmp1 = tl.load(in_ptr1 + (x0), None)
tl.store(out_ptr0 + (xindex), tmp0 + tmp1, None)"""
    pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32"}
    text = pointwise("triton_poi_fused_add_0", pointers, elements, body)
    demand, _ = demand_of(launch(text, "triton_poi_fused_add_0", elements // 1024, us=20.0), H200)
    assert demand is not None
    assert demand.cache_read == 4 * elements + 132 * channels * 4


def shared_lookups(index: str) -> float:
    elements = 1 << 22
    body = f"tmp0 = tl.load(in_ptr0 + ({index}), None)\ntl.store(out_ptr0 + (xindex), tmp0, None)"
    text = pointwise("triton_poi_fused_clone_0", {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, elements, body)
    demand, _ = demand_of(launch(text, "triton_poi_fused_clone_0", elements // 1024, us=20.0), H200)
    assert demand is not None
    return demand.shared_clocks / 4


def test_scattered_lanes_look_up_a_line_each() -> None:
    elements = 1 << 22
    assert shared_lookups("xindex") == 2 * elements * 2 / 128  # read and written, whole lines
    scattered = shared_lookups("4096 * (xindex % 1024) + xindex // 1024")
    assert scattered == pytest.approx(elements + elements * 2 / 128)  # a line for every element that is read


def stated(index: str) -> float:
    elements = 1 << 22
    body = f"""tmp0 = tl.load(in_ptr0 + (xindex), None)
tmp1 = tl.load(in_ptr1 + ({index}), None)
tmp2 = libdevice.rsqrt(tmp1)
tl.store(out_ptr0 + (xindex), tmp0 * tmp2, None)"""
    pointers = {"in_ptr0": "*bf16", "in_ptr1": "*fp32", "out_ptr0": "*bf16"}
    text = pointwise("triton_poi_fused_mul_0", pointers, elements, body)
    demand, _ = demand_of(launch(text, "triton_poi_fused_mul_0", elements // 1024, us=20.0), H200)
    assert demand is not None
    return demand.special * 32 / elements


@pytest.mark.parametrize(
    ("index", "evaluated"),
    [
        ("xindex // 8", 1 / 8),  # once a thread, which holds eight elements
        ("xindex // 12", 1 / 4),  # 12 and where tiles begin have 4 in common
        ("(xindex // 12544) % 64", 1 / 8),
        ("xindex // 7", 1.0),
        ("(xindex % 64) // 4", 1.0),  # a remainder shorter than the tile: the compiler sees nothing more
        ("(xindex % 1024) // 4", 1 / 4),  # the whole tile of 1024
    ],
)
def test_equal_loads_are_merged_where_the_compiler_sees_that_they_are(index: str, evaluated: float) -> None:
    """Triton's AxisInfo.cpp; each was compiled and its instructions counted."""
    assert stated(index) == evaluated


def test_a_copy_across_dimensions_looks_up_a_line_an_element() -> None:
    """[512, 65536] of fp32 from its transpose: one request an element, for a block never comes back to the same line."""
    shape, elements = [512, 65536], 512 * 65536
    kernel = op(
        "aten::copy_",
        [shape, shape],
        ["float", "float"],
        240.0,
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>",
        input_strides=[[65536, 1], [1, 512]],
        grid=(elements // 256, 1, 1),
        block=(128, 1, 1),
    )
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.cache_read == elements * 128
    assert demand.shared_clocks / 4 == elements * (1 + 4 / 128)
    found = estimate(kernel, H200)
    assert found.bound == "memory"
    assert found.resource == "l2"
    assert found.memory_pct is not None
    assert 90 < found.memory_pct <= 100  # Nsight Compute: 98


@pytest.mark.parametrize(
    ("tile", "count", "grid"), [((256, 64), 4, (4, 1)), ((128, 128), 8, (2, 4)), ((64, 64), 1, (1, 1))]
)
def test_warps_take_the_squarest_part(tile: tuple[int, int], count: int, grid: tuple[int, int]) -> None:
    down, across = warp_fed.warp_grid(*tile, count)
    assert tile[0] * across + tile[1] * down == tile[0] * grid[1] + tile[1] * grid[0]


def test_bytes_across_the_depth_are_gathered() -> None:
    def feeding(letters: str) -> float:
        symbol = f"void cutlass::Kernel2<cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_{letters}_align4>"
        dims = [[4096, 4096], [4096, 4096]]
        kernel = op("aten::_int_mm", dims, ["signed char"] * 2, 1088.0, symbol, grid=(256, 4, 1), block=(256, 1, 1))
        demand, _ = demand_of(kernel, H200)
        assert demand is not None
        found = usage(demand, H200, kernel.duration_us)
        assert found is not None
        return found.memory["shared_memory"]

    assert feeding("nn") > 3 * feeding("tn")
    assert 60 < feeding("nn") < 110


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8", (256, 64, 32)),
        ("i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4", (128, 128, 32)),
        ("nvjet_sm90_hsh_128x8_64x12_4x1_v_bz_bias_TNT", (128, 8, 64)),
        ("nhwc_tilesize256x32x32_stage4_warpsize4x1x1", (256, 32, 32)),
        ("no_tile", None),
    ],
)
def test_tiles_in_names(name: str, tile: tuple[int, int, int] | None) -> None:
    assert gemm.tile_of(name) == tile


def test_a_convolution_pads_filters_and_channels_of_each_tap_to_whole_tiles() -> None:
    symbol = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>"
    dims = [[16, 4, 64, 64], [128, 4, 3, 3]]
    concrete = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]
    kernel = op(
        "aten::cudnn_convolution", dims, ["c10::BFloat16"] * 2, 21.4, symbol, concrete_inputs=concrete, grid=(512, 1, 1), block=(128, 1, 1)
    )  # fmt: skip
    work = conv.convolution(kernel)
    assert work is not None
    demand = conv.demand(kernel, work)
    assert demand.tensor_flops == 2 * 16 * 64 * 64 * 128 * 9 * 32  # 32 channels a tap where there are 4
    assert demand.flops == 2 * 16 * 64 * 64 * 128 * 9 * 4


def test_older_instructions_reach_the_peak_of_the_device_that_they_were_made_for() -> None:
    symbol = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn"
    kernel = op(
        "aten::mm", [[4096, 4096]] * 2, ["c10::BFloat16"] * 2, 520.0, symbol, grid=(32, 16, 1), block=(256, 1, 1)
    )
    found = estimate(kernel, A100)
    assert found.bound == "compute"
    assert found.compute_pct is not None
    assert 80 < found.compute_pct <= 100


def test_groups_that_are_launched_one_by_one_share_the_work() -> None:
    symbol = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>"
    concrete = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "4", "False", "False", "True"]
    kernel = op(
        "aten::cudnn_convolution", [[96, 192, 24, 24], [192, 48, 3, 3]], ["c10::BFloat16"] * 2, 17.1, symbol, concrete_inputs=concrete,
        grid=(216, 1, 1), block=(128, 1, 1),
    )  # fmt: skip
    work = conv.convolution(kernel)
    assert work is not None
    assert work.groups == 4
    demand = conv.demand(kernel, work)
    assert demand.flops == work.flops / 4
    assert demand.write == work.output_bytes / 4


def test_helpers_of_a_split_convolution_do_not_multiply() -> None:
    symbol = "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<Shape>>"
    dims = [[64, 768, 14, 14], [64, 3, 224, 224], [768, 3, 16, 16]]
    kernel = op(
        "aten::convolution_backward", dims, ["c10::BFloat16"] * 3, 5.1, symbol, grid=(288, 1, 1), block=(128, 1, 1)
    )
    work = conv.convolution(kernel)
    assert work is not None
    demand = conv.demand(kernel, work)
    assert demand.tensor_flops is None
    assert demand.write == 768 * 3 * 16 * 16 * 2
    assert demand.read == 2 * 768 * 3 * 16 * 16 * 4
