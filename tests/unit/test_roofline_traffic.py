"""What a walked Triton kernel asks of the two caches: lines a program, parts of sectors, what it reads back, exchanges; and
library kernels whose padding or skipping decides what they move and multiply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.roofline import estimate, gemm
from ridgeline.roofline.conv import convolution
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.model import demand_of
from ridgeline.roofline.peaks import device_spec
from ridgeline.roofline.traffic import ATOMIC, KEPT, PARTIAL, lines, traffic
from ridgeline.roofline.triton_model import analyse
from roofline_kernels import H200, inductor_file, launch, op, pointwise

N = 1 << 22
FLOAT = "float"


def asked(kernel: KernelInput) -> Demand:
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    return demand


def copied(load: str, store: str, element: str = "*fp32", extra: str = "") -> KernelInput:
    """A copy of ``N`` elements in blocks of 1024, ``y`` and ``x`` being the index by rows of 512."""
    body = f"""x = (xindex % 512)
y = xindex // 512
{extra}tmp0 = tl.load(in_ptr0 + ({load}), xmask)
tl.store(out_ptr0 + ({store}), tmp0, xmask)
"""
    text = pointwise("triton_poi_copy", {"in_ptr0": element, "out_ptr0": element}, N, body)
    return launch(text, "triton_poi_copy", N // 1024)


def test_a_program_fetches_every_line_of_its_tile_once() -> None:
    """1024 elements that lie 8192 elements apart in pairs of neighbours: 512 lines, whatever is used of them."""
    kernel = copied("y + 8192*x", "xindex")
    found = analyse(kernel)
    assert found is not None
    (load,) = [a for a in found.tally.accesses if not a.store]
    assert lines(load, found.tally) == 512
    assert asked(kernel).cache_read == N / 1024 * 512 * 128
    assert asked(copied("xindex", "xindex")).cache_read == N * 4


def test_a_write_to_a_part_of_a_sector_costs_more_than_a_whole_one() -> None:
    whole, scattered = asked(copied("xindex", "xindex")), asked(copied("xindex", "y + 8192*x"))
    assert whole.cache_write == N * 4
    assert scattered.cache_write == pytest.approx(N * 32 * PARTIAL)
    assert asked(copied("xindex", "y + 8192*x", "*bf16")).cache_write == pytest.approx(N * 32 * PARTIAL)


def test_a_table_beyond_the_cache_is_fetched_again_for_the_share_that_it_lost() -> None:
    row = "y = xindex // 512\nx = xindex % 512\ntmp9 = tl.load(in_ptr1 + (y), xmask)\n"
    text = pointwise(
        "k",
        {"in_ptr0": "*fp32", "in_ptr1": "*i64", "out_ptr0": "*fp32"},
        16 * N,
        row + "tmp0 = tl.load(in_ptr0 + (x + 512*tmp9), xmask)\ntl.store(out_ptr0 + (xindex), tmp0, xmask)",
    )
    found = analyse(launch(text, "k", 16 * N // 1024))
    assert found is not None
    asked_for, table, indices, cache = 16 * N * 4, 4 * N * 4, 16 * N // 512 * 8, 6e7
    sizes = {"in_ptr0": table, "in_ptr1": indices, "out_ptr0": asked_for}
    read, _, fetched, _ = traffic(found.tally, sizes, cache)
    assert read == table + indices
    assert fetched == pytest.approx(asked_for * (1 - cache * KEPT / table) + indices)
    assert traffic(found.tally, sizes, 1e9)[2] == table + indices


def test_an_atomic_operation_is_a_sector_each() -> None:
    body = """tmp0 = tl.load(in_ptr0 + (xindex), xmask)
tmp1 = tl.load(in_ptr1 + (xindex), xmask)
tl.atomic_add(out_ptr0 + (tmp1), tmp0, xmask, sem='relaxed')
"""
    text = pointwise("triton_poi_put", {"in_ptr0": "*fp32", "in_ptr1": "*i64", "out_ptr0": "*fp32"}, N, body)
    assert asked(launch(text, "triton_poi_put", N // 1024)).cache_write == pytest.approx(N * 32 * ATOMIC)


def test_masked_parts_of_a_concatenation_are_not_fetched() -> None:
    half = copied("y*256 + x", "xindex", extra="xmask = xmask & (x < 256)\n")
    assert asked(half).cache_read == pytest.approx(N / 2 * 4, rel=0.01)


def test_what_a_program_has_written_it_reads_from_cache() -> None:
    def kernel(second: str) -> KernelInput:
        body = f"""xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = tl.full([XBLOCK, 1], True, tl.int1)
r0_base = tl.arange(0, R0_BLOCK)[None, :]
xnumel = 4096
r0_numel = 4096
x0 = xindex
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_1 = r0_index
    tmp0 = tl.load(in_ptr0 + (r0_1 + 4096*x0), None)
    tl.store(out_ptr0 + (r0_1 + 4096*x0), tmp0 * 2.0, None)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_1 = r0_index
    tmp1 = tl.load({second} + (r0_1 + 4096*x0), None)
    tl.store(out_ptr1 + (r0_1 + 4096*x0), tmp1 + 1.0, None)
"""
        pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32", "out_ptr1": "*fp32"}
        text = inductor_file(
            "triton_red_twice", {**pointers, "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"},
            body, "reduction",
        )  # fmt: skip
        return launch(text, "triton_red_twice", 4096, "XBLOCK=1,R0_BLOCK=2048", 8, 60.0)

    whole = 4096 * 4096 * 4
    assert (asked(kernel("in_ptr1")).read, asked(kernel("out_ptr0")).read) == (2 * whole, whole)


def backward(filters: int, channels: int, symbol: str) -> Demand:
    dims = [[16, filters, 64, 64], [16, channels, 64, 64], [filters, channels, 3, 3]]
    found = op(
        "aten::convolution_backward", dims, ["c10::BFloat16"] * 3, 60.0, symbol, grid=(72, 1, 1), block=(384, 1, 1)
    )
    return asked(found)


def test_weight_gradients_are_padded_to_tiles_a_tap() -> None:
    symbol = (
        "sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize{}x64_warpgroupsize1x1x1_g1"
    )
    for tile, filters, channels, padding in (
        ("256x64", 192, 192, 256 / 192),
        ("128x128", 192, 192, (256 / 192) ** 2),
        ("64x128", 4, 192, 16 * 256 / 192),
    ):
        found = backward(filters, channels, symbol.format(tile))
        assert found.tensor_flops == pytest.approx(padding * (found.flops or 0.0))


@pytest.mark.parametrize(("taps", "part"), [(1, 0.25), (3, 1.0)])
def test_a_stride_beyond_the_filter_skips_pixels(taps: int, part: float) -> None:
    dims = [[64, 256, 56, 56], [512, 256, taps, taps]]
    found = op(
        "aten::cudnn_convolution", dims, ["c10::Half"] * 2, 30.0,
        input_strides=[[802816, 1, 14336, 256], [256 * taps * taps, 1, 256 * taps, 256]],
        concrete_inputs=["", "", f"[{taps // 2}, {taps // 2}]", "[2, 2]", "[1, 1]", "1"],
    )  # fmt: skip
    work = convolution(found)
    assert work is not None
    assert work.used_bytes == part * work.input.bytes


def test_products_without_matrix_units_are_padded_and_pay_for_each_sum() -> None:
    def product(m: int, n: int, k: int, batch: int, symbol: str) -> Demand:
        dims, types = [[batch, m, k], [batch, k, n]], [FLOAT, FLOAT]
        return asked(op("aten::bmm", dims, types, 80.0, symbol, grid=(1, 1, batch), block=(64, 1, 1)))

    small = product(5, 5, 64, 16384, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma")
    counted = 73.76e6  # by Nsight Compute on an H200
    assert small.issued == pytest.approx(counted, rel=0.2)
    plain = product(5, 5, 64, 16384, "sgemm_of_no_known_tile")
    assert (small.issued or 0.0) > 50 * (plain.issued or 0.0)


def test_factors_in_tf32_that_do_not_run_along_the_depth_are_turned() -> None:
    symbol = "sm90_xmma_gemm_f32f32_tf32f32_f32_{}_n_tilesize128x128x32_warpgroupsize1x1x1_execute"
    along, across, both = (
        asked(op("aten::mm", [[8192, 1024], [1024, 1024]], [FLOAT] * 2, 60.0, symbol.format(letters))).shared_per_tensor
        for letters in ("tn", "nn", "nt")
    )
    assert across - along == pytest.approx(gemm.TURNED / 128)
    # then both are read and stored, and the rows of the instructions come from registers
    assert both == pytest.approx(gemm.REGISTERS_FED + 4 * gemm.TURNED / 128)


def test_an_op_whose_child_does_the_work_has_no_rate() -> None:
    """25 us of its own for a product of 4 GFLOP on a processor that does 0.12 TFLOP/s."""
    processor = device_spec("a processor", "cpu", {}, measured=None)
    processor = replace(processor, bandwidth_gb_s=20.0, flops={"fp32": 0.12e12})
    dims = [[1024, 1024], [2048, 1024], [2048]]
    found = estimate(op("aten::linear", dims, [FLOAT] * 3, 25.0, on_cpu=True), processor)
    assert (found.flops, found.bound) == (2 * 1024 * 1024 * 2048, "unknown")
    assert (found.tflop_per_s, found.gb_per_s, found.compute_pct, found.memory_pct) == (None, None, None, None)


def test_a_reduction_that_shuffles_much_says_so() -> None:
    """Rows of 32 elements of which a thread holds one: five shuffles and an exchange for each load."""
    body = """xnumel = 131072
r0_numel = 32
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = tl.full([XBLOCK, R0_BLOCK], True, tl.int1)
r0_index = tl.arange(0, R0_BLOCK)[None, :]
x0 = xindex
r0_1 = r0_index
tmp0 = tl.load(in_ptr0 + (x0 + 131072*r0_1), None)
tmp1 = tl.sum(tmp0, 1)[:, None]
tmp2 = tl.sum(tmp0 * tmp0, 1)[:, None]
tl.store(out_ptr0 + (x0), tmp1 + tmp2, None)
"""
    arguments = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
    text = inductor_file("triton_per_sums", arguments, body, "persistent_reduction")
    found = asked(launch(text, "triton_per_sums", 131072 // 8, "XBLOCK=8,R0_BLOCK=32", 8))
    assert found.exchanged
    assert not asked(copied("y + 8192*x", "xindex")).exchanged


def test_planes_that_are_written_in_turn_fill_sectors_together() -> None:
    """Three planes, an element each in turn: of 32 lanes, an element apart, eleven lie next to each other in two sectors of a plane
    (the last but for one). Sectors of which a part is written cost more."""
    found = asked(
        copied(
            "xindex", "w + 16384*v + 49152*u", extra="v = xindex % 3\nw = (xindex // 3) % 16384\nu = xindex // 49152\n"
        )
    )
    assert found.cache_write is not None
    assert N * 4 < found.cache_write < 3.5 * N * 4
    scattered = asked(copied("xindex", "y + 8192*x"))
    assert scattered.cache_write == pytest.approx(N * 32 * PARTIAL)


@pytest.mark.parametrize(("programs", "times"), [(1024, 132 / 1024), (128, 1.0), (1, 1.0)], ids=["many", "few", "one"])
def test_programs_that_read_the_same_row_share_what_a_multiprocessor_has_fetched(programs: int, times: float) -> None:
    """Of 1024 neighbours that read a row each of 132 multiprocessors gets eight, of 128 one at most. Rows are of 64 KiB over all of
    the grid, too many to be kept as a table."""
    body = f"""r0_numel = 1024
r0_index = tl.arange(0, R0_BLOCK)[None, :]
xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
tmp0 = tl.load(in_ptr0 + (r0_index + 1024*(xindex // {programs})), None)
tl.store(out_ptr0 + (r0_index + 1024*xindex), tmp0, None)
"""
    signature = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
    text = inductor_file("triton_per_rows", signature, "xnumel = 65536\n" + body, "persistent_reduction", size_hints={"x": 65536, "r0_": 1024})  # fmt: skip
    found = asked(launch(text, "triton_per_rows", 65536, "XBLOCK=1,R0_BLOCK=1024"))
    assert found.cache_read == pytest.approx(65536 * 4096 * times, rel=0.01)
