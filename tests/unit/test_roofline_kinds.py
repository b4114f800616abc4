"""Kinds of library kernels: bytes and FLOPs by hand from their shapes, and a verdict that can be defended.

The names are those of kernels of PyTorch 2.11, cuDNN and cuBLAS on an H200, shortened; the times are such as their bytes or
FLOPs would take.
"""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.roofline import KernelInput, estimate
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.limits import cold_time, written_back
from ridgeline.roofline.model import demand_of
from roofline_kernels import H200, op

BF16, HALF, F32, I64, FP8, INT8 = "c10::BFloat16", "c10::Half", "float", "long int", "c10::Float8_e4m3fn", "signed char"
AT = "void at::native::"


def at(name: str, dims: list[Any], types: list[str], us: float, symbol: str, blocks: int, threads: int = 128, **more: Any) -> KernelInput:  # fmt: skip
    types = types + [""] * (len(dims) - len(types))
    return op(f"aten::{name}", dims, types, us, symbol, grid=(blocks, 1, 1), block=(threads, 1, 1), **more)


POOL = [[64, 64, 112, 112], [], [], [], [], []]
PLANE, WINDOWED = 64 * 64 * 112 * 112, 64 * 64 * 56 * 56
LISTS = ["", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"]
CASES: dict[str, tuple[KernelInput, float, float]] = {
    # name -> kernel, bytes read, bytes written
    "maximum pooling": (
        at("max_pool2d_with_indices", POOL, [HALF], 60, f"{AT}max_pool_forward_nhwc<c10::Half, int>", 6272, 1024, concrete_inputs=LISTS),
        PLANE * 2, WINDOWED * (2 + 8),
    ),
    "average pooling": (
        at("avg_pool2d", POOL, [HALF], 50, f"{AT}avg_pool2d_out_cuda_frame<c10::Half, float, int>", 12544, 1024, concrete_inputs=["", "[2, 2]", "[]", "[0, 0]"]),
        PLANE * 2, WINDOWED * 2,
    ),
    "pooling backward": (
        at("max_pool2d_with_indices_backward", [[64, 64, 56, 56], [64, 64, 112, 112], [], [], [], [], [], [64, 64, 56, 56]], [HALF, HALF, "", "", "", "", "", I64], 80, f"{AT}max_pool_backward_nchw<c10::Half, float>", 25088, 256),
        WINDOWED * (2 + 8), PLANE * 2,
    ),
    "interpolation": (
        at("upsample_nearest2d", [[16, 320, 32, 32], [], [], []], [HALF], 60, f"{AT}upsample_nearest2d_nhwc_out_frame<c10::Half>", 81920, 256, concrete_inputs=["", "[64, 64]", "", ""]),
        16 * 320 * 32 * 32 * 2, 16 * 320 * 64 * 64 * 2,
    ),
    "embedding": (
        at("embedding", [[50304, 768], [16, 1024]], [BF16, I64], 15, f"{AT}vectorized_gather_kernel<16, long>", 16384, 96),
        16384 * 768 * 2, 16384 * 768 * 2,
    ),
    "embedding backward": (
        at("embedding_dense_backward", [[16384, 768], [16, 1024], [], [], []], [BF16, I64], 60, f"{AT}compute_grad_weight<c10::BFloat16, long>", 6000),
        16384 * 768 * 2 + 16384 * 8, 16384 * 768 * 2,
    ),
    "negative log likelihood": (
        at("nll_loss_forward", [[16384, 50304], [16384], [], [], []], [F32, I64], 15, f"{AT}nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>", 1, 32),
        16384 * (4 + 8), 2 * 4,
    ),
    "top k": (
        at("topk", [[4096, 50304], [], [], [], []], [F32], 900, f"{AT}sbtopk::gatherTopK<float, unsigned int, 2, false>", 4096, 1024),
        4096 * 50304 * 4, 0,
    ),
    "cumulative sum": (
        at("cumsum", [[16384, 1024], [], []], [F32], 60, f"{AT}tensor_kernel_scan_innermost_dim<float, std::plus<float> >", 1024, 512),
        16384 * 1024 * 4, 16384 * 1024 * 4,
    ),
    "softmax of a large vocabulary": (
        at("_softmax", [[16384, 50304], [], []], [F32], 2500, f"{AT}cunn_SoftMaxForward<4, float, float, float, SoftMaxForwardEpilogue>", 16384, 1024),
        16384 * 50304 * 4, 16384 * 50304 * 4,
    ),
    "layer norm": (
        at("native_layer_norm", [[16384, 1024], [], [1024], [1024], []], [BF16, "ScalarList", BF16, BF16], 45, f"{AT}vectorized_layer_norm_kernel<c10::BFloat16, float>", 16384),
        (16384 * 1024 + 2 * 1024) * 2, 16384 * 1024 * 2,
    ),
    "dropout": (
        at("native_dropout", [[16384, 1024], [], []], [BF16], 25, f"{AT}fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 4, bool>", 1056, 256),
        16384 * 1024 * 2, 16384 * 1024 * (2 + 1),
    ),
    "addition": (
        at("add", [[16384, 4096], [16384, 4096], []], [BF16, BF16], 100, f"{AT}vectorized_elementwise_kernel<8, CUDAFunctor_add<c10::BFloat16> >", 65536),
        2 * 16384 * 4096 * 2, 16384 * 4096 * 2,
    ),
    "cast": (
        at("copy_", [[16384, 4096], [16384, 4096], []], [BF16, F32], 90, f"{AT}vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda>", 65536),
        16384 * 4096 * 4, 16384 * 4096 * 2,
    ),
    "comparison": (
        at("gt", [[16384, 4096], []], [F32], 80, f"{AT}vectorized_elementwise_kernel<4, compare_scalar_kernel<float> >", 65536),
        16384 * 4096 * 4, 16384 * 4096,
    ),
    "fill": (
        at("fill_", [[16384, 4096], []], [F32], 60, f"{AT}vectorized_elementwise_kernel<4, FillFunctor<float> >", 65536),
        0, 16384 * 4096 * 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_bytes_of_a_kind(kind: str) -> None:
    kernel, read, written = CASES[kind]
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert (demand.read, demand.write) == (read, written)
    found = estimate(kernel, H200)
    assert found.bytes == read + written
    assert found.bound != "unknown"
    assert found.reason is not None


@pytest.mark.parametrize(
    ("name", "dims", "types", "us", "symbol", "flops", "kind"),
    [
        ("mm", [[8192, 4096], [4096, 4096]], [HALF, HALF], 400.0, "nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", 2 * 8192 * 4096 * 4096, "fp16"),
        ("_scaled_mm", [[8192, 4096], [4096, 4096]], [FP8, FP8], 180.0, "nvjet_sm90_qqtst_128x256_128x4_2x1_v_bz_coopA_TNT", 2 * 8192 * 4096 * 4096, "fp8"),
        ("_int_mm", [[8192, 4096], [4096, 4096]], [INT8, INT8], 300.0, "sm80_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize128x256x64_stage3", 2 * 8192 * 4096 * 4096, "int8"),
        ("mm", [[4096, 4096], [4096, 4096]], [F32, F32], 350.0, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_execute", 2 * 4096**3, "tf32"),
        ("mm", [[4096, 4096], [4096, 4096]], [F32, F32], 2600.0, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_kernel", 2 * 4096**3, "fp32"),
        ("bmm", [[96, 1024, 64], [96, 64, 1024]], [BF16, BF16], 60.0, "nvjet_sm90_tst_128x128_64x4_1x2_h_bz_NNN", 2 * 96 * 1024 * 64 * 1024, "bf16"),
    ],
)  # fmt: skip
def test_products_by_type(
    name: str, dims: list[Any], types: list[str], us: float, symbol: str, flops: float, kind: str
) -> None:
    found = estimate(at(name, dims, types, us, symbol, 1024, 256), H200)
    assert found.flops == flops
    assert found.flop_type == kind
    assert found.bound in ("compute", "memory")
    assert found.resource in ("tensor", "issue", "shared_memory", "dram", "l2")


def test_a_depthwise_convolution_names_its_filter_before_its_stride() -> None:
    kernel = at(
        "_conv_depthwise2d", [[64, 256, 56, 56], [256, 1, 3, 3], [], [], [], [], []], [F32, F32], 200.0,
        f"{AT}conv_depthwise2d_forward_kernel<3, float, int>", 8448, 512,
        concrete_inputs=["", "", "[3, 3]", "", "[1, 1]", "[1, 1]", "[1, 1]"],
    )  # fmt: skip
    found = estimate(kernel, H200)
    positions = 64 * 56 * 56
    assert found.flops == 2 * positions * 256 * 9
    assert found.bytes == 2 * positions * 256 * 4 + 256 * 9 * 4


def test_a_fused_optimizer_reads_four_lists_and_writes_three() -> None:
    lists = [[[1024, 1024]] * 8] * 4
    symbol = f"{AT}multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float>"
    kernel = at("_fused_adamw_", [*lists, [], []], ["TensorList"] * 4, 70.0, symbol, 128, 512)
    elements = 8 * 1024 * 1024
    found = estimate(kernel, H200)
    assert found.bytes == 7 * elements * 4
    assert found.bound == "memory"


@pytest.mark.parametrize(
    ("symbol", "sure"),
    [
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0", True),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>", False),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", False),
    ],
)
def test_attention_by_name(symbol: str, sure: bool) -> None:
    kernel = at("_scaled_dot_product_cudnn_attention", [[8, 16, 1024, 64]] * 3, [BF16] * 3, 100.0, symbol, 1024, 384)
    found = estimate(kernel, H200)
    assert found.flops == 4 * 8 * 16 * 1024 * 1024 * 64
    assert found.bytes == 4 * 8 * 16 * 1024 * 64 * 2
    assert found.bound != "unknown"
    assert sure or found.borderline  # instructions of a kind that was not measured here


def test_what_a_vector_kernel_issues() -> None:
    """Eight elements of half precision, two operands: 12 of the thread, three addresses and vectors (3 each), 16 conversions
    in and 4 out, 8 additions. Nsight Compute counts 51."""
    kernel = at("add", [[1 << 20], [1 << 20], []], [HALF, HALF], 5.0, f"{AT}vectorized_elementwise_kernel<8, CUDAFunctor_add<c10::Half> >", 1024)  # fmt: skip
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.issued == 1024 * 128 / 32 * (12 + 3 * 3 + 16 + 4 + 8)


def test_what_stays_in_the_cache_does_not_pass_the_pins() -> None:
    """A cast of 2 GiB to half of it: all that is read, and the writes but for their third of the second-level cache."""
    elements = 1 << 29
    kernel = at("copy_", [[elements], [elements], []], [BF16, F32], 850.0, f"{AT}vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda>", elements // 1024)  # fmt: skip
    found = estimate(kernel, H200)
    assert found.bytes == elements * 6
    assert found.dram_bytes == pytest.approx(elements * 6 - 50e6 / 3)


@pytest.mark.parametrize(
    ("read", "write", "stays"),
    [(0, 100e6, 22e6), (100e6, 100e6, 22e6), (100e6, 50e6, 50e6 / 3), (100e6, 25e6, 10e6), (20e6, 10e6, 10e6)],
    ids=["writes only", "as much", "a third", "a fifth", "all of little"],
)
def test_last_writes_share_the_cache_with_what_is_read(read: float, write: float, stays: float) -> None:
    """At most 22 of 50 MB. Of products the same."""
    assert write - written_back(Demand(read=read, write=write), H200) == pytest.approx(stays)
    assert write - written_back(Demand(read=read, write=write, tensor_flops=1e12), H200) == pytest.approx(stays)


def test_a_kernel_that_streams_is_no_faster_than_memory() -> None:
    """34 MB read and 34 written, in cache when it starts: recorded in 14.5 us, 16.2 to 16.6 under Nsight Compute."""
    streams = Demand(read=33.6e6, write=33.6e6)
    assert cold_time(streams, H200, 14.5) == pytest.approx(16.4, abs=0.4)
    assert cold_time(streams, H200, 19.0) == pytest.approx(19.0, abs=0.2)


def test_what_was_written_before_delays_a_long_kernel_only_in_a_step() -> None:
    """400 MB moved in 98 us of a step, of which those before it take a few to drain; not where it is far from streaming."""
    streams = Demand(read=200e6, write=200e6)
    assert 94 < cold_time(streams, H200, 98.0) < 97
    assert cold_time(streams, H200, 140.0) == 140.0
