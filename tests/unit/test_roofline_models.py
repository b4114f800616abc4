"""Models of single kinds of kernels, the verdict and its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.roofline import KernelInput, attention, conv, estimate, foreach, gemm
from ridgeline.roofline.architecture import HOPPER, blocks_per_sm, waves
from ridgeline.roofline.autotune import candidate
from ridgeline.roofline.limits import usage
from ridgeline.roofline.model import demand_of
from ridgeline.roofline.peaks import device_spec
from ridgeline.roofline.source import parse_kernel
from ridgeline.roofline.symbolic import Access, Atom, Bound, union_elements
from ridgeline.roofline.triton_model import analyse
from ridgeline.roofline.user_kernels import user_kernel_text
from ridgeline.roofline.verdict import classify, margin
from roofline_kernels import H200, inductor_file, launch, op, pointwise

BF16 = "c10::BFloat16"


@pytest.mark.parametrize(
    ("memory", "compute", "verdict", "points"),
    [
        (70, 20, "memory", 10),
        (59, 58, "latency", 1),
        (65, 66, "compute", 1),
        (60, 60, "memory", 0),
        (10, 90, "compute", 30),
        (5, 3, "latency", 55),
    ],
)
def test_sixty_percent_decides(memory: float, compute: float, verdict: str, points: float) -> None:
    assert classify(memory, compute) == verdict
    assert margin(memory, compute) == points


def activation(function: str, us: float, elements: int = 1 << 24) -> KernelInput:
    body = f"x0 = xindex\ntmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)\n{function}\ntl.store(out_ptr0 + (x0), tmp9, None)"
    text = pointwise("triton_poi_fused_act_0", {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, elements, body)
    return launch(text, "triton_poi_fused_act_0", elements // 1024, us=us, registers=20)


def test_erf_fills_the_issue_slots() -> None:
    gelu = activation(
        "tmp1 = tmp0 * 0.7071\ntmp2 = libdevice.erf(tmp1)\ntmp3 = tmp2 + 1.0\ntmp4 = libdevice.erf(tmp3)\ntmp9 = tmp4 * tmp0",
        38.0,
    )
    found = estimate(gelu, H200)
    assert found.bound == "compute"
    assert found.resource == "issue"
    assert found.reason is not None
    assert "erf (about 28 instructions)" in found.reason
    assert "changes numerics: measure" in found.reason


def test_sums_and_products_take_half_the_slots_where_the_unit_is_half_as_wide() -> None:
    """64 single-precision lanes on an A100, 128 on an H200 (CUDA C++ Programming Guide, arithmetic throughput)."""
    a100 = device_spec("NVIDIA A100-SXM4-80GB", "cuda", {"numSms": 108, "computeMajor": 8, "computeMinor": 0})
    lines = ["tmp1 = tmp0 * tmp0"] + [f"tmp{i + 1} = tmp{i} * tmp0" for i in range(1, 60)] + ["tmp9 = tmp60"]
    kernel = activation("\n".join(lines), 100.0)
    demand, _ = demand_of(kernel, a100)
    assert demand is not None
    assert demand.issued is not None
    busy = usage(demand, a100, 100.0, 100.0)
    assert busy is not None
    clocks = 100e-6 * 1.41e9 * 108
    products = demand.issued - demand.alu - demand.special - demand.load_store
    assert products > 0.8 * demand.issued
    assert busy.compute["issue"] == pytest.approx(100 * products / 2 / clocks)
    wide = usage(demand, H200, 100.0, 100.0)
    assert wide is not None
    assert wide.compute["issue"] == pytest.approx(100 * demand.issued / 4 / (100e-6 * 1.965e9 * 132))


def test_a_copy_is_bound_by_memory_and_the_same_expression_costs_once() -> None:
    once = analyse(activation("tmp9 = libdevice.exp(tmp0)", 20.0))
    twice = analyse(activation("tmp1 = libdevice.exp(tmp0)\ntmp2 = libdevice.exp(tmp0)\ntmp9 = tmp1 + tmp2", 20.0))
    assert once is not None
    assert twice is not None
    assert twice.warp.special == once.warp.special == 8  # elements a thread
    copy = estimate(activation("tmp9 = tmp0", 17.5, 1 << 24), H200)
    assert copy.compute_pct is not None
    assert copy.compute_pct < 30


def test_a_value_that_does_not_vary_in_a_loop_is_computed_before_it() -> None:
    def body(inside: str) -> str:
        return f"""xnumel = 4096
r0_numel = 65536
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
r0_base = tl.arange(0, R0_BLOCK)[None, :]
x0 = xindex
tmp0 = tl.load(in_ptr0 + (x0), None)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_1 = r0_index
    tmp1 = tl.load(in_ptr1 + (r0_1 + 65536*x0), None)
    {inside}
    tl.store(out_ptr0 + (r0_1 + 65536*x0), tmp3, None)
"""

    arguments = {
        "in_ptr0": "*fp32",
        "in_ptr1": "*fp32",
        "out_ptr0": "*fp32",
        "xnumel": "i32",
        "r0_numel": "i32",
        "XBLOCK": "constexpr",
        "R0_BLOCK": "constexpr",
    }
    counts = []
    for inside in (
        "tmp2 = libdevice.rsqrt(tmp0)\n    tmp3 = tmp1 - tmp2",
        "tmp2 = libdevice.rsqrt(tmp1)\n    tmp3 = tmp0 - tmp2",
    ):
        text = inductor_file("k", arguments, body(inside), "reduction")
        analysis = analyse(launch(text, "k", 4096, "XBLOCK=1,R0_BLOCK=2048", 8))
        assert analysis is not None
        counts.append(analysis.warp.special)
    assert counts == [1, 8 * 32]  # once a thread; eight elements a thread, 32 trips


def test_neighbours_that_share_a_statistic_load_it_once() -> None:
    body = "x0 = xindex\nx1 = xindex // 4096\ntmp0 = tl.load(in_ptr0 + (x0), None)\ntmp1 = tl.load(in_ptr1 + (x1), None)\ntmp2 = libdevice.rsqrt(tmp1)\ntmp3 = tmp0 * tmp2\ntl.store(out_ptr0 + (x0), tmp3, None)"
    text = pointwise("k", {"in_ptr0": "*bf16", "in_ptr1": "*fp32", "out_ptr0": "*bf16"}, 1 << 22, body)
    analysis = analyse(launch(text, "k", 4096))
    assert analysis is not None
    assert analysis.warp.special == 1


def test_latency_has_a_cause() -> None:
    small = estimate(replace(activation("tmp9 = tmp0", 6.0, 1 << 16), grid=(40, 1, 1)), H200)
    assert (small.bound, small.cause) == ("latency", "too_small")
    assert small.reason is not None
    assert "wave" in small.reason
    starved = replace(activation("tmp9 = tmp0", 60.0), registers=255, block=(256, 1, 1), num_warps=8)
    found = estimate(starved, H200)
    assert (found.bound, found.cause) == ("latency", "low_occupancy")
    tail = replace(activation("tmp9 = tmp0", 60.0, 132 * 16 * 1024 + 1024), grid=(132 * 16 + 1, 1, 1), registers=32)
    assert estimate(tail, H200).cause == "tail"


def test_occupancy_limits() -> None:
    kernel = KernelInput(
        name="k",
        symbol="k",
        category="gemm",
        duration_us=1,
        count=1,
        grid=(132, 1, 1),
        block=(384, 1, 1),
        registers=168,
        shared_memory=200_000,
    )
    assert blocks_per_sm(kernel, HOPPER) == 1
    assert waves(kernel, H200) == 1.0
    light = replace(kernel, registers=32, shared_memory=0, block=(128, 1, 1), grid=(132 * 16, 1, 1))
    assert blocks_per_sm(light, HOPPER) == 16
    assert waves(light, H200) == 1.0


def test_a_transposed_factor_and_leading_dimensions() -> None:
    linear = gemm.product(op("aten::linear", [[4, 7, 32], [64, 32], [64]], ["float"] * 3, 5.0))
    assert linear is not None
    assert (linear.batch, linear.m, linear.n, linear.k) == (1, 28, 64, 32)
    addmm = gemm.product(op("aten::addmm", [[64], [28, 32], [32, 64], [], []], ["float"] * 3 + ["Scalar"] * 2, 5.0))
    assert addmm is not None
    assert addmm.flops == linear.flops
    broken = gemm.product(op("aten::mm", [[28, 32], [31, 64]], ["float"] * 2, 5.0))
    assert broken is None


def test_narrow_tiles_are_bound_by_shared_memory() -> None:
    tile = gemm.tile_of("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NTT")
    assert tile == (320, 128, 64)
    assert gemm.shared_per_tensor("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NTT", tile) == 1.0  # n = 64
    wide = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert gemm.shared_per_tensor(wide, gemm.tile_of(wide)) == 0.75


@pytest.mark.parametrize(
    ("symbol", "columns"),
    [  # columns as Nsight Compute's count of matrix instructions gives them
        ("nvjet_sm90_tst_256x96_64x4_2x1_v_bz_coopA_TNT", 96),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_TNT", 128),
        ("nvjet_sm90_tst_128x160_64x5_4x1_v_bz_NTT", 160),
        ("nvjet_sm90_tst_160x256_64x4_2x1_v_bz_coopA_TNN", 160),
        ("nvjet_sm90_tst_176x128_64x5_1x2_h_bz_TNN", 176),
        ("nvjet_sm90_tst_96x64_64x8_2x4_h_bz_NTN", 96),
        ("nvjet_sm90_tst_64x128_64x8_2x1_v_bz_NTN", 64),
        ("nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_TNN", 96),
        ("nvjet_sm90_tst_128x192_64x5_4x1_v_bz_coopB_NTN", 64),
        ("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT", 64),
        ("nvjet_sm90_tst_64x384_64x3_1x2_h_bz_TNT", 256),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1", 256),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_tilesize256x64x64_warpgroupsize1x1x1", 64),
        ("a_library_of_no_name_128x64_32", 64),
    ],
)
def test_columns_of_a_matrix_instruction(symbol: str, columns: int) -> None:
    tile = gemm.tile_of(symbol)
    assert tile is not None
    assert gemm.instruction_columns(symbol, tile) == columns
    assert gemm.shared_per_tensor(symbol, tile) == (16 + columns / 4) / (columns / 2)


def test_results_are_padded_to_clusters() -> None:
    """18 tiles by 6: in clusters of 2 by 4, of which the first number goes along the result's rows, 20 by 6, as many as the grid has."""
    dims, halves = [[2304, 4096], [4096, 768]], [BF16] * 2
    padded = []
    for cluster in ("2x1", "2x4"):
        symbol = f"nvjet_sm90_tst_128x128_64x6_{cluster}_h_bz_NTT"
        demand, _ = demand_of(op("aten::mm", dims, halves, 25.0, symbol, grid=(8, 15, 1), block=(384, 1, 1)), H200)
        assert demand is not None
        padded.append(demand.tensor_flops)
    assert padded == [2.0 * 2304 * 4096 * 768, 2.0 * 20 * 128 * 4096 * 768]


def test_rows_of_tiles_are_padded_to_the_height_of_a_persistent_grid() -> None:
    """98 tiles of positions to 104 where clusters are 8 high; the plain grid of a product of doubles pads nothing."""
    symbol = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_{}_execute"
    found = []
    for kind in ("warpgroupsize1x1x1", "stage3_warpsize4x2x1"):
        kernel = op(
            "aten::mm", [[98 * 128, 256], [256, 128]], ["float"] * 2, 25.0, symbol.format(kind), grid=(13, 8, 1)
        )
        demand, _ = demand_of(kernel, H200)
        assert demand is not None
        found.append(demand.tensor_flops)
    assert found == [2.0 * rows * 128 * 256 * 128 for rows in (104, 98)]


@pytest.mark.parametrize(
    ("tokens", "width", "units", "place", "spilled"),
    [
        (64, 64, 4, "64x64_rf", 23 * 2 + 32 * 2 + 93),
        (35, 24, 3, "64x64_rf", 23 + 32 * 2 + 93),  # one depth of 32; results as wide as 64
        (65, 64, 16, "64x64_rf", 4 * (23 * 2 + 32 * 2 + 93)),  # blocks of 64 by 64
        (64, 128, 16, "64x128_rf", 0),
    ],
)
def test_attention_in_single_precision_by_its_units(
    tokens: int, width: int, units: int, place: str, spilled: int
) -> None:
    """Units of 32 by 32 by 32 for each warp of a block, 3 x 32 matrix instructions each."""
    kernel = op(
        "aten::_efficient_attention_forward",
        [[8, tokens, 16, width]] * 3,
        ["float"] * 3,
        900.0,
        f"fmha_cutlassF_f32_aligned_{place}_sm80(PyTorchMemEffAttention::AttentionKernel)",
        grid=(1, 16, 8),
        block=(32, 4, 1),
    )
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    warps = 8 * 16 * 4
    assert demand.tensor_flops == warps * units * 3 * 2 * 32**3
    assert (demand.cache_write or demand.write or 0.0) - (demand.write or 0.0) == warps * spilled * 128


@pytest.mark.parametrize(
    ("columns", "tile", "lines"),
    [
        (240, "240x128", 4.5),  # rows begin at multiples of 32 bytes: three quarters of a line more than their 3.75
        (1024, "256x128", 4.0),  # whole lines
        (288, "96x384", 2.0),  # thirds of a row begin at multiples of 64 bytes
        (16, "16x256", 1.0),
    ],
)
def test_pieces_of_results_touch_the_lines_that_they_begin_and_end_in(columns: int, tile: str, lines: float) -> None:
    symbol = f"nvjet_sm90_hsh_{tile}_64x4_1x2_h_bz_TNN"
    kernel = op("aten::mm", [[4096, 256], [256, columns]], [BF16] * 2, 25.0, symbol, grid=(2, 66, 1), block=(384, 1, 1))
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    piece = min(columns, int(tile.split("x")[0])) * 2
    assert (demand.cache_write or 0.0) / (demand.write or 1.0) == pytest.approx(lines * 128 / piece)


def test_winograds_products_are_fewer() -> None:
    dims = [[32, 256, 56, 56], [256, 256, 3, 3], *[[]] * 7]
    types = ["float", "float", *["ScalarList"] * 4, *["Scalar"] * 3]
    concrete = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "False"]
    found = []
    for kind in ("winograd_128x128_ldg1_ldg4_relu_tile148t_nt", "sgemm_plain_nn"):
        symbol = f"void cudnn::ampere_scudnn_{kind}"
        kernel = op("aten::cudnn_convolution", dims, types, 3000.0, symbol, grid=(32, 2, 98), concrete_inputs=concrete)
        demand, _ = demand_of(kernel, H200)
        assert demand is not None
        found.append((demand.flops or 0.0, demand.issued or 0.0))
    assert found[1] == pytest.approx(tuple(2.25 * n for n in found[0]))


def test_a_sparse_product_is_not_a_dense_one() -> None:
    dims = [[10000, 64], [10000, 10000], [10000, 64]]
    symbol = "void cusparse::csrmm_v2_kernel<cusparse::CsrmmPolicy<128, true>>"
    found = estimate(op("aten::addmm", dims, ["float"] * 3, 200.0, symbol, grid=(5000, 1, 1), block=(128, 1, 1)), H200)
    assert (found.bound, found.flops) == ("unknown", None)


def test_a_recurrent_network_in_one_kernel_waits_for_its_steps() -> None:
    dims = [[512, 32, 256], [[1024, 256], [1024, 256], [1024], [1024]], [], [0], [1, 32, 256], [1, 32, 256]]
    types = ["float", "TensorList", "Scalar", "float", "float", "float"]
    symbol = "void RNN_blockPersist_fp_LSTM<float, float, float, 256>"
    found = estimate(op("aten::_cudnn_rnn", dims, types, 900.0, symbol, grid=(64, 1, 1), block=(256, 1, 1)), H200)
    assert (found.bound, found.flops) == ("latency", 2.0 * 512 * 32 * 256 * 1024)
    assert found.borderline


@pytest.mark.parametrize(
    ("columns", "depth", "blocks", "counted"),
    [  # megabytes that memory delivered (Nsight Compute): 1024 columns are eight tiles, which clusters of four make two
        (1024, 4096, 120, 440.6),
        (1024, 3072, 120, 279.2),
        (1024, 1024, 132, 273.4),
        (128, 1024, 132, 51.0),  # one tile: read once
    ],
)
def test_longer_sides_are_swept_for_every_cluster(columns: int, depth: int, blocks: int, counted: float) -> None:
    symbol = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel"
    kernel = op(
        "aten::mm",
        [[12288, depth], [depth, columns]],
        ["float"] * 2,
        300.0,
        symbol,
        grid=(blocks, 1, 1),
        block=(384, 1, 1),
    )
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert (demand.fetched or 0.0) / 1e6 == pytest.approx(counted, rel=0.11)


def test_attention_layouts_and_masks() -> None:
    types = [BF16] * 3
    heads_second = attention.attention(
        op(
            "aten::_scaled_dot_product_flash_attention",
            [[2, 8, 128, 64]] * 3,
            types,
            50.0,
            concrete_inputs=["", "", "", "0.", "False", "False"],
        )
    )
    heads_third = attention.attention(
        op(
            "aten::_flash_attention_forward",
            [[2, 128, 8, 64]] * 3,
            types,
            50.0,
            concrete_inputs=["", "", "", "", "", "128", "128", "0.", "False", "False"],
        )
    )
    causal = attention.attention(
        op(
            "aten::_flash_attention_forward",
            [[2, 128, 8, 64]] * 3,
            types,
            50.0,
            concrete_inputs=["", "", "", "", "", "128", "128", "0.", "True", "False"],
        )
    )
    assert heads_second is not None
    assert heads_third is not None
    assert causal is not None
    full = 4 * 2 * 8 * 128 * 128 * 64
    assert heads_second.flops == heads_third.flops == full
    assert causal.flops == full / 2
    backward = attention.attention(
        op("aten::_scaled_dot_product_flash_attention_backward", [[2, 8, 128, 64]] * 5, [BF16] * 5, 50.0)
    )
    assert backward is not None
    assert backward.flops == 2.5 * full
    grouped = attention.attention(
        op("aten::_cudnn_attention_forward", [[2, 8, 128, 64], [2, 2, 128, 64], [2, 2, 128, 64]], types, 50.0)
    )
    assert grouped is not None
    assert grouped.read == (2 * 8 * 128 * 64 + 2 * 2 * 128 * 128) * 2


def test_attention_of_generations_that_were_not_measured_is_borderline() -> None:
    found = estimate(
        op(
            "aten::_efficient_attention_forward",
            [[8, 512, 16, 64]] * 3,
            [BF16] * 3,
            300.0,
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
            grid=(8, 16, 8),
            block=(128, 1, 1),
        ),
        H200,
    )
    assert found.borderline
    assert found.confidence is not None
    assert found.confidence <= 0.5
    assert found.flops == 4 * 8 * 16 * 512 * 512 * 64


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_gradients_do_the_forwards_work(transposed: bool) -> None:
    forward = conv.convolution(
        op(
            "aten::cudnn_convolution",
            [[8, 16, 32, 32], [32, 16, 3, 3]],
            [BF16, BF16],
            20.0,
            concrete_inputs=["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"],
        )
    )
    assert forward is not None
    assert forward.output_shape == (8, 32, 16, 16)
    assert forward.flops == 2 * 8 * 16 * 16 * 32 * 16 * 9
    backward = conv.convolution(
        op("aten::convolution_backward", [[8, 32, 16, 16], [8, 16, 32, 32], [32, 16, 3, 3]], [BF16] * 3, 20.0)
    )
    assert backward is not None
    assert backward.flops == forward.flops


def test_foreach_lists() -> None:
    symbol = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>"
    lists = [[[1024, 1024], [1024]], [[1024, 1024], [1024]]]
    work = foreach.demand(op("aten::_foreach_add_", lists, ["TensorList", "TensorList"], 10.0, symbol, grid=(17, 1, 1)))
    assert work is not None
    assert work.read == 2 * (1024 * 1024 + 1024) * 4
    assert work.write == (1024 * 1024 + 1024) * 4
    copy = symbol.replace("BinaryOpListAlphaFunctor<float, 2, 2, 0>", "CopyFunctor<float, c10::BFloat16, 2, 1, 1>")
    narrow = foreach.demand(
        op("aten::_foreach_copy_", lists, ["TensorList", "TensorList"], 10.0, copy, grid=(17, 1, 1))
    )
    assert narrow is not None
    assert narrow.write == 2 * (narrow.read or 0)


def test_the_arguments_of_a_replayed_graph_are_nobodys() -> None:
    kernel = activation("tmp9 = tmp0", 30.0)
    replayed = replace(
        kernel,
        kernel_kwargs=None,
        num_warps=None,
        op_name="CompiledFunction",
        input_dims=[[8], [8]],
        input_types=[BF16, BF16],
    )
    assert estimate(replayed, H200).bytes == estimate(kernel, H200).bytes
    product = op(
        "CompiledFunction", [[64, 64], [64, 64]], [BF16, BF16], 30.0, "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    )
    assert estimate(product, H200).bound == "unknown"


def test_candidates_are_reductions_and_divided_indices() -> None:
    plain = activation("tmp9 = libdevice.erf(tmp0)", 40.0)
    divided = pointwise(
        "triton_poi_fused_clone_0",
        {"in_ptr0": "*bf16", "out_ptr0": "*bf16"},
        1 << 22,
        "x0 = xindex % 64\nx1 = xindex // 64\ntmp0 = tl.load(in_ptr0 + (x1 + 65536*x0), None)\ntl.store(out_ptr0 + (xindex), tmp0, None)",
    )
    for kernel, expected in ((plain, False), (launch(divided, "triton_poi_fused_clone_0", 4096, us=12.0), True)):
        analysis = analyse(kernel)
        assert analysis is not None
        assert candidate(kernel, analysis, "latency") is expected
        assert candidate(kernel, analysis, "memory") is False
        assert candidate(replace(kernel, duration_us=2.0), analysis, "latency") is False
        assert candidate(replace(kernel, best_config={"found_by_coordesc": True}), analysis, "latency") is False


USER = """
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(out_ptr, in_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(in_ptr + row * stride + offs, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    num = tl.exp(x)
    tl.store(out_ptr + row * stride + offs, num / tl.sum(num, axis=0), mask=mask)

@triton.jit
def count_kernel(i_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + tl.load(i_ptr + offset), 1)
"""


def test_a_users_kernel_without_sizes_is_a_marked_guess_or_unknown() -> None:
    assert user_kernel_text("softmax_kernel", ["x = 1", USER]) == USER
    assert user_kernel_text("other", [USER]) is None
    streaming = KernelInput(
        name="softmax_kernel",
        symbol="softmax_kernel",
        category="user_triton",
        duration_us=65.0,
        count=1,
        grid=(8192, 1, 1),
        block=(128, 1, 1),
        kernel_source=USER,
    )
    guess = estimate(streaming, H200)
    assert guess.bound == "memory"
    assert guess.borderline
    assert guess.confidence is not None
    assert guess.confidence <= 0.5
    assert any("guess" in note for note in guess.notes)
    atomic = replace(streaming, name="count_kernel", symbol="count_kernel", duration_us=360.0)
    assert estimate(atomic, H200).bound == "unknown"
    assert estimate(replace(streaming, kernel_source=None), H200).bound == "unknown"


def test_hostile_text_is_only_parsed() -> None:
    assert parse_kernel("raise SystemExit") is None
    assert parse_kernel("def broken(") is None
    assert parse_kernel("(" * 5000 + ")" * 5000) is None
    trap = "import os\n@triton.jit\ndef k(in_ptr0, x: tl.constexpr):\n    y = __import__('os').system('touch /tmp/never')\n    z = 10 ** 10 ** 10\n    tl.load(in_ptr0 + y)\n"
    found = estimate(launch(trap, "k", 4, us=20.0), H200)
    assert found.bound in ("unknown", "latency")


def test_constants_that_explode_are_left_alone() -> None:
    squares = "\n".join(["z = 3"] + ["z = z * z"] * 500)
    text = pointwise("k", {"in_ptr0": "*fp32"}, 1024, f"{squares}\ntl.load(in_ptr0 + (xindex), None)")
    assert analyse(launch(text, "k", 1)) is not None


def test_a_long_kernel_is_walked_in_time() -> None:
    steps = "\n".join(f"tmp{i + 1} = tmp{i} * tmp{i} + tmp{max(0, i - 1)}" for i in range(2000))
    body = f"x0 = xindex\ntmp0 = tl.load(in_ptr0 + (x0), None)\n{steps}\ntl.store(out_ptr0 + (x0), tmp2000, None)"
    text = pointwise("k", {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}, 1 << 20, body)
    analysis = analyse(launch(text, "k", 1024))
    assert analysis is not None
    assert analysis.warp.flops == pytest.approx(1024 * 4000, rel=0.51)


def test_addresses() -> None:
    x, y = Atom("x", 100, frozenset("x"), {"x": 1}), Atom("y", 10, frozenset("y"), {"y": 1})
    base = Access(pointer="p", size=4, axes=frozenset("xy"), terms={x: 1, y: 100}, offset=0, trips=1, store=False)
    assert base.distinct() == 1000
    assert (
        Access(pointer="p", size=4, axes=frozenset("xy"), terms={x: 1, y: 1}, offset=0, trips=1, store=False).distinct()
        == 109
    )
    masked = Access(
        pointer="p",
        size=4,
        axes=frozenset("xy"),
        terms={x: 1, y: 100},
        offset=0,
        trips=1,
        store=False,
        bounds=(Bound(((x, 1),), 0, 30), Bound(((x, 1),), 10, 100)),
    )
    assert masked.distinct() == 200
    assert union_elements([base, base]) == 1000
    shifted = Access(pointer="p", size=4, axes=frozenset("xy"), terms={x: 1, y: 300}, offset=100, trips=1, store=False)
    unshifted = Access(pointer="p", size=4, axes=frozenset("xy"), terms={x: 1, y: 300}, offset=0, trips=1, store=False)
    assert union_elements([shifted, unshifted]) == 2000
