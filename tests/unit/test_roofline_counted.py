"""Library kernels beside what Nsight Compute counted on an H200 (PyTorch 2.11): one of each kind.

Shapes, launches and times in the step are the recording's; percentages are those of the kernel alone on a cold cache.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ridgeline.roofline import KernelInput, estimate
from ridgeline.roofline.model import demand_of
from roofline_kernels import H200, op

AT = "void at::native::"
HALF, F32, I64 = "c10::Half", "float", "long int"


def launch(name: str, dims: list[Any], kind: str, us: float, symbol: str, grid: tuple[int, ...], block: tuple[int, ...], **more: Any) -> KernelInput:  # fmt: skip
    types = [kind if shape else "Scalar" for shape in dims]
    return op(f"aten::{name}", dims, more.pop("types", types), us, symbol, grid=grid, block=block, **more)


def topk(us: float, symbol: str, grid: int = 32768, block: tuple[int, ...] = (256, 1, 1)) -> KernelInput:
    return launch("topk", [[16, 2048, 2048], [], [], [], []], F32, us, symbol, (grid, 1, 1), block)


def product(m: int, k: int, n: int, us: float, symbol: str, blocks: tuple[int, ...]) -> KernelInput:
    dims = [[m, k], [k, n], [m, n]]
    return launch("mm", dims, HALF, us, symbol, blocks, (384, 1, 1), input_strides=[[k, 1], [1, k], [n, 1]])


def convolved(source: list[int], weight: list[int], lists: list[str], kind: str, us: float, symbol: str, grid: tuple[int, ...], threads: int = 128) -> KernelInput:  # fmt: skip
    """``cudnn_convolution`` of channels-last tensors; ``lists``: padding and stride."""
    dims: list[Any] = [source, weight, [], [], [], [], [], [], []]
    types = [kind, kind, "ScalarList", "ScalarList", "ScalarList", *["Scalar"] * 4]
    strides = [[c * h * w, 1, w * c, c] for _, c, h, w in (source, weight)] + [[]] * 7
    concrete = ["", "", *lists, "[1, 1]", "1", "False", "False", "True"]
    return op(
        "aten::cudnn_convolution",
        dims,
        types,
        us,
        symbol,
        grid=grid,
        block=(threads, 1, 1),
        input_strides=strides,
        concrete_inputs=concrete,
    )


def lstm(us: float, symbol: str, grid: tuple[int, ...], threads: int, backward: bool = False) -> KernelInput:
    """One layer of 512 both ways over [1024, 8, 384], the batch first."""
    weights = [[2048, 384], [2048, 512], [2048], [2048]] * 2
    dims: list[Any] = [[1024, 8, 384], weights, [], [3678208], [2, 1024, 512], [2, 1024, 512]]
    types = [F32, "TensorList", "Scalar", F32, F32, F32]
    name = "_cudnn_rnn_backward" if backward else "_cudnn_rnn"
    return op(f"aten::{name}", dims, types, us, symbol, grid=grid, block=(threads, 1, 1))


XMMA = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_{}_n_tilesize{}x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cudnn"
)


def attention(batch: int, heads: int, tokens: int, width: int, us: float, backward: bool = False) -> KernelInput:
    each = [batch, heads, tokens, width]
    knob = "bprop_wgmma_f16_knob_26_64x64x64_1x4x1" if backward else "fprop_wgmma_f16_knob_7_64x128x64_4x1x1"
    symbol = f"cudnn_generated_fort_native_sdpa_sm90_flash_{knob}_cga1x1x1_kernel0_0"
    name = "_cudnn_attention_backward" if backward else "_cudnn_attention_forward"
    dims: list[Any] = [each] * (5 if backward else 3)
    return op(f"aten::{name}", dims, [HALF] * len(dims), us, symbol, grid=(132, 1, 1), block=(384, 1, 1))


STRIDED = "sm90_xmma_dgrad_implicit_gemm_indexed_{}_nhwckrsc_nhwc_tilesize{}_warpgroupsize{}x1x1_g1_strided_execute_kernel__5x_cudnn"


def transposed(source: list[int], channels: int, kind: str, us: float, symbol: str, grid: tuple[int, ...], threads: int) -> KernelInput:  # fmt: skip
    """``cudnn_convolution_transpose`` with filters of 4 by 4 and a stride of 2."""
    dims: list[Any] = [source, [source[1], channels, 4, 4], *[[]] * 8]
    types = [kind, kind, *["ScalarList"] * 4, *["Scalar"] * 4]
    concrete = ["", "", "[1, 1]", "[0, 0]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]
    name = "aten::cudnn_convolution_transpose"
    return op(name, dims, types, us, symbol, grid=grid, block=(threads, 1, 1), concrete_inputs=concrete)


def fft(symbol: str, us: float, grid: tuple[int, ...], block: tuple[int, ...]) -> KernelInput:
    """Of 128 by 128 real numbers."""
    dims: list[Any] = [[16, 64, 128, 128], [], [], []]
    return launch("_fft_r2c", dims, F32, us, f"void {symbol}, (padding_t)6, unsigned int, float>", grid, block)


def gradient(us: float, symbol: str, grid: tuple[int, ...], threads: tuple[int, ...]) -> KernelInput:
    """Of a convolution of 128 channels of 16 by 16 to 64, by 3 by 3."""
    dims: list[Any] = [[64, 64, 16, 16], [64, 128, 16, 16], [64, 128, 3, 3], *[[]] * 8]
    types = [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"]
    concrete = ["", "", "", "[64]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]
    return op("aten::convolution_backward", dims, types, us, symbol, grid=grid, block=threads, concrete_inputs=concrete)


COUNTED: dict[str, tuple[KernelInput, float, float, float]] = {
    # name -> kernel, percent of compute and of memory, points that the estimate may be off
    "digits of a selection": (topk(145.9, f"{AT}mbtopk::computeBlockDigitCounts<float, unsigned int, unsigned int, 2>"), 52, 40, 4),
    "gathering what was selected": (topk(278.3, f"{AT}mbtopk::gatherTopK<float, unsigned int, 2>"), 67, 46, 27),  # its stores scatter
    "counts below a digit": (topk(70.6, f"{AT}mbtopk::computeBlockwiseWithinKCounts<unsigned int, float>"), 41, 19, 13),
    "sorting 16 values": (topk(25.8, f"{AT}bitonicSortKVInPlace<2, -1, 16, 16, float, long>", 2048, (16, 16, 1)), 43, 75, 4),
    "a copy that turns tiles of 32 by 16": (
        launch("copy_", [[8192, 32, 16], [8192, 32, 16], []], F32, 13.1, f"{AT}elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>", (16384, 1, 1), (128, 1, 1), input_strides=[[512, 16, 1], [512, 1, 32], []]),
        51, 66, 5,
    ),
    "rows of 288 bytes": (
        product(200704, 96, 288, 63.1, "nvjet_sm90_hsh_96x384_64x3_1x2_h_bz_coopA_TNN", (2, 66, 1)), 24, 53, 4,
    ),
    "tiles halved between groups of warps": (
        product(50176, 192, 768, 37.6, "nvjet_sm90_hsh_192x192_64x4_2x1_v_bz_coopB_TNN", (2, 66, 1)), 41, 52, 6,
    ),
    "single precision: sums meet in the banks": (
        launch("mm", [[104448, 256], [256, 512], [104448, 512]], F32, 105.2, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", (132, 1, 1), (384, 1, 1), input_strides=[[256, 1], [1, 256], [512, 1]]),
        59, 70, 3,
    ),
    "an image of three channels, gathered without shared memory": (
        convolved([128, 3, 240, 240], [32, 3, 3, 3], ["[1, 1]", "[2, 2]"], HALF, 133.3, "sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x32x16_stage1_warpsize4x1x1_g1_tensor16x8x16_aligna2_alignc4_execute_kernel__5x_cudnn", (1, 14400, 1)),
        54, 43, 11,
    ),
    "rows of half a line in a convolution": (
        convolved([64, 96, 56, 56], [192, 96, 2, 2], ["[0, 0]", "[2, 2]"], "c10::BFloat16", 51.0, "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_64x128_32x6_nhwc_align8>", (1568, 1, 1)),
        40, 73, 11,
    ),
    "a convolution with Hopper's copies": (
        convolved([16, 1024, 1, 3000], [1024, 1024, 1, 3], ["[0, 1]", "[1, 2]"], HALF, 207.6, "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize256x128x64_warpgroupsize2x1x1_g1_execute_segment_k_off_kernel__5x_cudnn", (132, 1, 1), 384),
        84, 66, 4,
    ),
    "a product that streams more than the cache holds, after others' writes": (
        launch("addmm", [[32], [32768, 512], [512, 32], [], [], [32768, 32]], F32, 24.9, "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", (15, 7, 1), (384, 1, 1), input_strides=[[1], [512, 1], [1, 512], [], [], [32, 1]]),
        21, 69, 6,
    ),
    "attention of 1500 by 1500": (attention(16, 16, 1500, 64, 384.1), 54, 28, 8),
    "attention of 196 by 196, backwards: blocks of 64": (attention(64, 12, 196, 64, 114.3, True), 34, 40, 3),
    "attention of heads 32 wide": (attention(16, 8, 1024, 32, 81.8), 47, 30, 4),
    "attention of heads 32 wide, backwards": (attention(16, 6, 1024, 32, 153.1, True), 44, 57, 6),
    "a transposed convolution with instructions before Hopper's": (
        op("aten::cudnn_convolution_transpose", [[16, 256, 1, 64], [256, 128, 1, 32], *[[]] * 8], [F32, F32, *["ScalarList"] * 4, *["Scalar"] * 4], 20.0, "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_align4>", grid=(256, 1, 1), block=(128, 1, 1), concrete_inputs=["", "", "[0, 8]", "[0, 0]", "[1, 16]", "[1, 1]", "1", "False", "False", "True"]),
        40, 50, 9,
    ),
    "gates of all steps' inputs": (lstm(43.8, XMMA.format("tn", 128), (66, 2, 1), 384), 62, 65, 3),
    "gates of a state": (lstm(12.2, XMMA.format("tn", 128), (64, 2, 1), 384), 31, 29, 7),
    "the gradient of a state": (lstm(19.0, XMMA.format("nn", 64), (8, 8, 1), 384, True), 24, 25, 3),
    "the cells of a step": (lstm(13.2, "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>", (2048, 1, 1), 256), 40, 40, 12),  # 10.8 us alone
    "the cells of a step backwards": (lstm(11.0, "void LSTM_elementWise_bp1<float, float, float>", (2048, 1, 1), 256, True), 29, 41, 8),  # 9.6 us alone
    "rows of 288 bytes in a convolution": (
        convolved([128, 24, 60, 60], [144, 24, 1, 1], ["[0, 0]", "[1, 1]"], HALF, 55.8, "nvjet_sm90_hsh_144x256_64x4_1x2_h_ssched_bz_coopA_TNN", (2, 66, 1), 384),
        15, 64, 3,
    ),
    "phases of a transposed convolution, positions fetched by threads": (
        transposed([512, 256, 8, 8], 128, "c10::BFloat16", 58.0, STRIDED.format("bf16bf16_bf16f32_f32", "256x128x64", 2), (66, 2, 1), 384),
        61, 56, 3,
    ),
    "the same with three channels, which take a whole tile": (
        transposed([512, 128, 16, 16], 3, "c10::BFloat16", 88.6, STRIDED.format("bf16bf16_bf16f32_f32", "256x64x64", 1), (30, 4, 1), 384),
        39, 64, 5,
    ),
    "the same with an image that the cache does not hold": (
        transposed([128, 128, 32, 32], 64, F32, 159.6, STRIDED.format("f32f32_tf32f32_f32", "256x64x32", 1), (120, 1, 1), 384),
        47, 70, 7,
    ),
    "the same in single precision: filters come from registers": (
        transposed([128, 256, 16, 16], 128, F32, 124.8, STRIDED.format("f32f32_tf32f32_f32", "256x64x32", 1), (60, 2, 1), 384),
        60, 53, 3,
    ),
    "a transposed convolution to three channels, element by element": (
        transposed([128, 64, 64, 64], 3, F32, 290.0, "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>", (1, 128, 128), 64),
        44, 70, 6,
    ),
    "clearing what others add to": (
        transposed([128, 64, 64, 64], 3, F32, 18.6, "void cudnn::engines_precompiled::scalePackedTensor_kernel<float, float>", (24576, 1, 1), 256),
        76, 29, 12,
    ),
    "rows of a transform, real": (fft("vector_fft_symm_r2c<128u, EPT<8u>, 8u, 32u", 41.9, (16384, 1, 1), (8, 8, 1)), 35, 80, 10),
    "columns of a transform": (fft("regular_fft<128u, EPT<16u>, 32u, 4u", 42.4, (2080, 1, 1), (32, 8, 1)), 27, 57, 4),
    "a product of complex numbers": (
        launch("bmm", [[1152, 16, 64], [1152, 64, 64]], "c10::complex<float>", 22.0, "void cutlass::Kernel2<cutlass_80_tensorop_c1688gemm_32x32_16x4_nn_align1>", (2, 1, 1152), (128, 1, 1), input_strides=[[1, 73728, 1152]] * 2),
        59, 62, 20,
    ),
    "a convolution of one pixel and three channels without matrix units": (
        convolved([16, 3, 128, 128], [64, 3, 1, 1], ["[0, 0]", "[1, 1]"], F32, 28.8, "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>", (16, 16, 16)),
        66, 77, 11,
    ),
    "a number times a tensor, into another": (
        launch("mul", [[], [16, 64, 128, 128], [16, 64, 128, 128]], F32, 32.8, f"{AT}vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >", (16384, 1, 1), (128, 1, 1), types=["double", F32, F32]),
        6, 71, 13,
    ),
    "before the gradient of attention: zeros in single precision": (
        op("aten::_cudnn_attention_backward", [[512, 8, 77, 64]] * 5, ["c10::BFloat16"] * 5, 44.0, "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>", grid=(5, 512, 8), block=(128, 1, 1)),
        31, 68, 3,
    ),
    "images of 16 by 16 transformed, padded to 32": (
        gradient(22.0, "void fft2d_r2c_32x32<float, false, 1u, false>", (512, 1, 1), (512, 1, 1)), 47, 37, 12,
    ),
    "half as many images": (
        gradient(10.6, "void fft2d_r2c_32x32<float, false, 1u, false>", (256, 1, 1), (512, 1, 1)), 40, 32, 7,
    ),
    "back from their transforms": (
        gradient(18.4, "void fft2d_c2r_32x32<float, false, false, 1u, false, false>", (512, 1, 1), (512, 1, 1)), 45, 40, 4,
    ),
    "products of the transforms, one for each of 544 frequencies": (
        gradient(59.8, "sm80_xmma_gemm_cf32cf32_f32f32_cf32_tn_n_tilesize64x64x8_stage3_warpsize2x2x1_ffma_aligna8_alignc8_execute_kernel__5x_cublas", (2, 1, 544), (128, 1, 1)),
        71, 51, 9,
    ),
    "filters turned round": (gradient(5.4, "void flip_filter<float, float>", (64, 64, 1), (16, 16, 1)), 42, 43, 28),
    "gradients of keys that four heads share": (
        op("aten::_cudnn_attention_backward", [*[[4, 16, 1024, 64]] * 2, *[[4, 4, 1024, 64]] * 2, [4, 16, 1024, 64]], ["c10::BFloat16"] * 5, 4.4, "void cudnn::fusion::fmha_reduce_head<true>", grid=(64, 4, 4), block=(128, 1, 1)),
        16, 34, 8,
    ),
    "a product of few steps before Hopper's: factors are rounded to tf32": (
        op("aten::convolution_backward", [[64, 128, 16, 16], [64, 64, 16, 16], [128, 64, 1, 1], *[[]] * 8], [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"], 5.7, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>", grid=(4, 1, 64), block=(128, 1, 1), concrete_inputs=["", "", "", "[128]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        25, 27, 6,
    ),
    "a first convolution of images": (
        convolved([64, 3, 224, 224], [64, 3, 7, 7], ["[3, 3]", "[2, 2]"], HALF, 122.0, "sm90_xmma_fprop_image_first_layer_f16f16_f32_f16_nhwckrsc_nhwc_hmma_k64c4r7s7_stride2x2_tile16x64x64_tensor1688_execute_kernel_kernel__5x_cudnn", (2, 7, 64)),
        46, 72, 14,
    ),
    "a convolution whose filters eight blocks share": (
        convolved([4, 256, 96, 128], [256, 256, 3, 3], ["[1, 1]", "[1, 1]"], F32, 168.0, "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn", (15, 8, 1), 384),
        79, 64, 3,
    ),
    "channels of each tap padded to whole tiles": (
        convolved([16, 80, 1, 3000], [1024, 80, 1, 3], ["[0, 1]", "[1, 1]"], HALF, 83.0, "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize256x96x32_warpgroupsize2x1x1_g1_execute_segment_k_off_kernel__5x_cudnn", (30, 4, 1), 384),
        38, 69, 33,  # what its rows of 160 bytes cost the L2 is not known
    ),
    "tiles of 96 columns in a product of squares": (
        launch("bmm", [[6, 1024, 1024], [6, 1024, 1024]], "c10::BFloat16", 20.5, "nvjet_sm90_tst_256x96_64x4_2x1_v_bz_coopA_TNT", (2, 66, 1), (384, 1, 1)),
        68, 61, 4,
    ),
    "thin tiles of a layout conversion": (
        convolved([4, 256, 96, 128], [720, 256, 3, 3], ["[1, 1]", "[1, 1]"], F32, 11.0, "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>", (1, 8, 720), 256),
        72, 29, 10,
    ),
    "attention of 50 by 50: most of it before and after the scores": (attention(512, 12, 50, 64, 107.0), 43, 29, 6),
    "a gradient of filters in tf32: both factors are turned": (
        op("aten::convolution_backward", [[128, 128, 32, 32], [128, 64, 64, 64], [128, 64, 4, 4], *[[]] * 8], [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"], 233.0, "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32_warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn", grid=(128, 1, 1), block=(384, 1, 1), concrete_inputs=["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        39, 66, 5,
    ),
    "the same of nine taps, for which the grid has room for ten": (
        op("aten::convolution_backward", [[64, 128, 16, 16], [64, 64, 16, 16], [128, 64, 3, 3], *[[]] * 8], [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"], 26.0, "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32_warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn", grid=(130, 1, 1), block=(384, 1, 1), concrete_inputs=["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        29, 44, 8,
    ),
    "products without matrix units whose factors run along the depth": (
        launch("mm", [[2048, 258], [258, 20000]], F32, 570.0, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas", (32, 313, 1), (128, 1, 1)),
        81, 94, 8,
    ),
    "the same of one step": (
        launch("mm", [[1048576, 8], [8, 8]], F32, 49.0, "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas", (16384, 1, 1), (64, 1, 1)),
        75, 53, 5,
    ),
    "a product whose factors and result together exceed the cache": (
        launch("bmm", [[256, 64, 256], [256, 256, 256]], "c10::BFloat16", 15.9, "nvjet_sm90_tst_128x64_64x8_2x1_v_bz_NTT", (2, 66, 1), (384, 1, 1)),
        16, 65, 4,
    ),
    "an image of three channels without matrix units": (
        convolved([64, 3, 128, 128], [128, 3, 4, 4], ["[1, 1]", "[4, 4]"], F32, 43.5, "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize256x64x8_stage3_warpsize2x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn", (2, 256, 1)),
        54, 34, 4,
    ),
    "a matrix times a vector, two lanes a row": (
        launch("mm", [[65536, 64], [64, 1]], F32, 10.9, "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, true, true, false, 5", (4096, 1, 1), (2, 16, 1)),
        11, 71, 5,
    ),
    "a convolution of few channels that is a plain product": (
        convolved([64, 3, 224, 224], [96, 3, 4, 4], ["[0, 0]", "[4, 4]"], HALF, 102.0, "void precomputed_convolve_sgemm<__half, 128, 6, 7, 3, 3, 5, 1, false>", (3136, 1, 1), 256),
        69, 72, 6,
    ),
    "attention in single precision: registers do not suffice": (
        op("aten::_efficient_attention_forward", [[48, 256, 16, 64]] * 3, [F32] * 3, 419.2, "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", grid=(4, 16, 48), block=(32, 4, 1)),
        49, 70, 7,
    ),
    "the same of 35 by 35 and heads 24 wide": (
        op("aten::_efficient_attention_forward", [[2048, 35, 8, 24]] * 3, [F32] * 3, 533.9, "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", grid=(1, 8, 2048), block=(32, 4, 1)),
        50, 67, 8,
    ),
    "its gradient": (
        op("aten::_efficient_attention_backward", [[48, 256, 16, 64]] * 4, [F32] * 4, 959.6, "fmha_cutlassB_f32_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel)", grid=(4, 16, 48), block=(128, 1, 1)),
        45, 34, 10,
    ),
    "a volume of one channel made one of 32, on its way back": (
        op("aten::cudnn_convolution", [[2, 1, 64, 96, 96], [32, 1, 3, 3, 3], *[[]] * 7], [HALF, HALF, *["ScalarList"] * 3, *["Scalar"] * 4], 72.6, "void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>", grid=(18432, 1, 2), block=(256, 1, 1), concrete_inputs=["", "", "[1, 1, 1]", "[1, 1, 1]", "[1, 1, 1]", "1", "True", "False", "True"]),
        63, 40, 5,
    ),
    "the gradient of an image for three filters, before Hopper's": (
        op("aten::convolution_backward", [[16, 3, 192, 192], [16, 64, 192, 192], [3, 64, 3, 3], *[[]] * 8], [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"], 93.7, "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_256x64_16x4_nhwc_unity_stride_align4>", grid=(2304, 1, 1), block=(128, 1, 1), concrete_inputs=["", "", "", "[3]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        42, 73, 8,
    ),
    "moments of channels, read twice": (
        op("aten::cudnn_batch_norm", [[64, 64, 112, 112], *[[64]] * 4], [F32] * 5, 460.4, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", grid=(64, 1, 1), block=(512, 1, 1)),
        25, 27, 3,
    ),
    "the same where the cache keeps them": (
        op("aten::cudnn_batch_norm", [[64, 128, 28, 28], *[[128]] * 4], [F32] * 5, 26.2, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 32, true, 1, true>", grid=(128, 1, 1), block=(512, 1, 1)),
        55, 27, 4,
    ),
    "their gradient": (
        op("aten::cudnn_batch_norm_backward", [*[[64, 64, 112, 112]] * 2, *[[64]] * 5], [F32] * 7, 1164.3, "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>", grid=(64, 1, 1), block=(512, 1, 1)),
        7, 18, 3,
    ),
    "the gradient of one filter: a matrix times a vector": (
        op("aten::convolution_backward", [[16, 1, 128, 128], [16, 128, 128, 128], [1, 128, 1, 1], *[[]] * 8], [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"], 38.9, "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, true", grid=(4, 1, 32), block=(32, 16, 1), concrete_inputs=["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]),
        23, 78, 10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_percentages(name: str) -> None:
    kernel, compute, memory, points = COUNTED[name]
    found = estimate(kernel, H200)
    assert found.compute_pct is not None
    assert found.memory_pct is not None
    assert found.compute_pct == pytest.approx(compute, abs=points)
    assert found.memory_pct == pytest.approx(memory, abs=points)


def test_a_bias_is_copied_for_as_many_elements_as_the_launch_has() -> None:
    """``addmm`` first spreads its bias over the result; the op's factors are not that kernel's."""
    dims = [[1], [104448, 512], [512, 1], [], [], [104448, 1]]
    kernel = launch(
        "addmm", dims, F32, 1.7, f"{AT}elementwise_kernel<128, 2, direct_copy_kernel_cuda>", (408, 1, 1), (128, 1, 1)
    )
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.write is not None
    assert demand.write <= 408 * 128 * 2 * 4
    assert estimate(kernel, H200).bound == "latency"  # Nsight Compute: 5 and 4 %


def test_factors_of_a_product_leave_the_second_level_cache_for_every_tile() -> None:
    """[512, 8192] by [8192, 1024] in tiles of 64 by 64, two of which share a factor: 62 % by Nsight Compute, of which 32 % memory."""
    dims = [[512, 8192], [8192, 1024], [512, 1024]]
    strides = [[1, 512], [1024, 1], [1024, 1]]
    symbol = "nvjet_sm90_tst_64x64_64x13_1x2_h_bz_NTT"
    kernel = launch("mm", dims, "c10::BFloat16", 17.4, symbol, (2, 64, 1), (384, 1, 1), input_strides=strides)
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.tiles_read == 512 * 8192 * 2 * 16 + 1024 * 8192 * 2 * 4
    found = estimate(kernel, H200)
    assert found.memory_pct == pytest.approx(62, abs=9)


def test_few_blocks_cannot_move_all_of_the_ops_tensors() -> None:
    """A step of CTC's gradient, 8 blocks in 1.2 us: 105 MB are the op's, not this launch's."""
    dims = [[16], [512, 16, 1024], [16, 60], [], [], [16], [16, 512, 121]]
    types = [F32, F32, I64, "ScalarList", "ScalarList", F32, F32]
    kernel = launch("_ctc_loss_backward", dims, F32, 1.2, f"{AT}ctc_loss_zero_padded_gradients<float>", (1, 8, 1), (512, 2, 1), types=types)  # fmt: skip
    found = estimate(kernel, H200)
    assert (found.bound, found.cause) == ("latency", "too_small")  # Nsight Compute: 1 and 1 %
    assert found.memory_pct is None


def test_a_fused_step_of_sgd_neither_divides_nor_writes_the_gradient() -> None:
    shapes = [[4, 1152], [16], [16], [1024], [1024], [2192, 1024], [1024, 1024]]
    symbol = f"{AT}(anonymous namespace)::multi_tensor_apply_kernel<{AT}(anonymous namespace)::TensorListMetadata<2>, {AT}(anonymous namespace)::FusedSgdMathFunctor<c10::BFloat16, 2>, double>"
    kernel = launch("_fused_sgd_", [shapes, shapes, []], "c10::BFloat16", 17.7, symbol, (56, 1, 1), (512, 1, 1), types=["TensorList", "TensorList", "TensorList"])  # fmt: skip
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert (demand.read, demand.write) == (2 * 3299872 * 2, 3299872 * 2)  # Nsight Compute: 13.2 MB read
    found = estimate(kernel, H200)
    assert found.compute_pct == pytest.approx(6, abs=2)


def test_a_transposed_convolution_reads_its_image_in_every_phase_of_the_stride() -> None:
    """Nsight Compute: 269 MB read, 119 MB written while it runs, beside the 22 that stay in the cache."""
    kernel = transposed([128, 128, 32, 32], 64, F32, 159.6, STRIDED.format("f32f32_tf32f32_f32", "256x64x32", 1), (120, 1, 1), 384)  # fmt: skip
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.write == 128 * 64 * 64 * 64 * 4
    assert demand.fetched == pytest.approx(269.05e6, rel=0.02)


def test_gradients_of_a_transposed_convolution_are_a_convolution_and_filters() -> None:
    dims: list[Any] = [[128, 3, 128, 128], [128, 64, 64, 64], [64, 3, 4, 4], *[[]] * 8]
    types = [F32, F32, F32, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", ""]
    concrete = ["", "", "", "[3]", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1", "[True, True, False]"]
    image, given, filters = (float(math.prod(shape) * 4) for shape in dims[:3])
    for symbol, read, write in (
        ("sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x32x16_stage1_warpsize4x1x1_g1_tensor16x8x8_aligna4_alignc8_execute_kernel__5x_cudnn", image + filters, given),
        ("void wgrad_alg0_engine_NHWC<float, 128, 5, 5, 3, 3, 3, false, 512>", image + given, filters),
    ):  # fmt: skip
        kernel = op("aten::convolution_backward", dims, types, 102.8, symbol, grid=(2, 4096, 1), block=(128, 1, 1), concrete_inputs=concrete)  # fmt: skip
        demand, _ = demand_of(kernel, H200)
        assert demand is not None
        assert (demand.read, demand.write) == (read, write)
        assert demand.flops == 2 * 128 * 64 * 64 * 64 * 3 * 16


def test_a_transform_does_five_n_log_n() -> None:
    demand, _ = demand_of(fft("regular_fft<128u, EPT<16u>, 32u, 4u", 42.4, (2080, 1, 1), (32, 8, 1)), H200)
    assert demand is not None
    elements = 16 * 64 * 128 * 65  # half of the frequencies and one
    assert demand.flops == elements * 5 * 7
    assert (demand.read, demand.write) == (elements * 8, elements * 8)  # Nsight Compute: 68.2 MB read
    assert demand.issued == pytest.approx(1.145e7, rel=0.07)
