"""Passes of the first-level cache, counted by hand for one warp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.roofline.instructions import EXCHANGE_CLOCKS
from ridgeline.roofline.layout import Blocked
from ridgeline.roofline.model import demand_of
from ridgeline.roofline.symbolic import Access, Atom
from ridgeline.roofline.triton_model import analyse
from ridgeline.roofline.wavefronts import addresses, passes
from roofline_kernels import H200, inductor_file, launch, pointwise

LINE = Blocked(("x",), 1, {"x": 32}, {"x": 4}, {"x": 1})
TILE = {"x": 128}


def access(stride: int, size: int = 4, *, store: bool = False, **atom: object) -> Access:
    step = {"axes": frozenset("x"), "steps": {"x": 1}, **atom}
    terms = {Atom("x", 1 << 20, **step): stride}  # type: ignore[arg-type]  # a dict of its fields
    return Access(pointer="p", size=size, axes=frozenset("x"), terms=terms, offset=0, trips=1, store=store)


@pytest.mark.parametrize(
    ("stride", "size", "clocks"),
    [(1, 4, 1), (0, 4, 1), (2, 4, 2), (3, 4, 1.5), (6, 4, 3), (8, 4, 8), (32, 4, 32), (33, 4, 16), (1, 2, 1), (8, 2, 4)],
    ids=["a line", "one word", "every other", "three apart", "six apart", "eight apart", "one bank", "all banks of 32 lines", "halves", "halves 16 bytes apart"],
)  # fmt: skip
def test_words_of_a_bank_wait_for_each_other(stride: int, size: int, clocks: float) -> None:
    """Two lines are found in a clock, so that lanes in 32 of them take 16 though their banks differ."""
    assert passes(access(stride, size), LINE, TILE, 1) == clocks


def test_wide_loads_go_in_groups_of_128_bytes() -> None:
    four = Blocked(("x",), 4, {"x": 32}, {"x": 1}, {"x": 4})
    apart = Blocked(("x",), 8, {"x": 32}, {"x": 1}, {"x": 8})
    assert passes(access(1), four, {"x": 128}, 4) == 4
    assert passes(access(1), apart, {"x": 256}, 4) == 8  # weights in single precision beside halves
    assert passes(access(1, 2), apart, {"x": 256}, 8) == 4


def test_a_store_takes_a_clock_for_each_line() -> None:
    assert passes(access(33, store=True), LINE, TILE, 1) == 32
    assert passes(access(1, store=True), LINE, TILE, 1) == 1


def test_quotients_and_remainders_are_followed_lane_by_lane() -> None:
    row = access(64, steps={}, periods={"x": 8})
    assert addresses(row, LINE, TILE) == [256 * (lane // 8) for lane in range(32)]
    assert passes(row, LINE, TILE, 1) == 4  # four rows, all in the first bank
    assert addresses(access(3, periods={"x": 8}), LINE, TILE) == [12 * (lane % 8) for lane in range(32)]
    assert passes(access(1, indirect=True), LINE, TILE, 1) is None


REDUCTION = {"in_ptr0": "*fp32", "in_ptr1": "*bf16", "out_ptr0": "*fp32", "out_ptr1": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
TWICE = """xnumel = 65536
r0_numel = 4096
rnumel = r0_numel
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
r0_base = tl.arange(0, R0_BLOCK)[None, :]
_tmp1 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_ptr0 + (r0_index + 4096*xindex), r0_mask, other=0.0)
    _tmp1 = tl.where(r0_mask, _tmp1 + tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK]), _tmp1)
tmp1 = tl.sum(_tmp1, 1)[:, None]
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_mask = r0_index < r0_numel
    tmp2 = tl.load(in_ptr0 + (r0_index + 4096*xindex), r0_mask, other=0.0)
    tl.store(out_ptr0 + (r0_index + 4096*xindex), tmp2 - tmp1, r0_mask)
"""


@pytest.mark.parametrize(("registers", "times"), [(32, 2), (168, 1)], ids=["sixteen blocks at once", "three at once"])
def test_what_a_later_loop_reads_again_is_fetched_again_where_many_programs_share_a_cache(
    registers: int, times: int
) -> None:
    """Rows of 16 KiB and 128 threads: 16 of them fill 256 KiB, and a 17th would not fit."""
    text = inductor_file("triton_red_twice", REDUCTION, TWICE, "reduction", size_hints={"x": 65536, "r0_": 4096})
    kernel = launch(text, "triton_red_twice", 32768, "XBLOCK=2,R0_BLOCK=1024", registers=registers)
    demand, _ = demand_of(kernel, H200)
    assert demand is not None
    assert demand.cache_read == pytest.approx(times * 65536 * 4096 * 4, rel=0.01)


def test_a_load_of_fewer_elements_than_threads_is_made_where_it_is_used() -> None:
    """A number for each of 32 rows, of which a warp has eight: eight lines, and not one for each of 32 lanes."""
    body = TWICE.replace(
        "tmp1 = tl.sum(_tmp1, 1)[:, None]", "tmp1 = tl.sum(_tmp1, 1)[:, None] * tl.load(in_ptr1 + (64*xindex), None)"
    )
    text = inductor_file("triton_red_rows", REDUCTION, body, "reduction", size_hints={"x": 65536, "r0_": 4096})
    found = analyse(launch(text, "triton_red_rows", 2048, "XBLOCK=32,R0_BLOCK=16"))
    assert found is not None
    (few,) = [a for a in found.tally.accesses if a.pointer == "in_ptr1"]
    assert found.layout.main.lanes["x"] == 8
    assert found.layout.lines(few) == 8


def test_partial_results_are_stored_and_read_across_the_same_banks() -> None:
    """Columns of 128 by 32 rows over eight warps: words of neighbouring lanes lie 32 apart, in the store and in the load."""
    text = inductor_file(
        "triton_red_columns",
        REDUCTION,
        TWICE.replace("r0_index + 4096*xindex", "xindex + 65536*r0_index"),
        "reduction",
        size_hints={"x": 65536, "r0_": 4096},
    )
    found = analyse(launch(text, "triton_red_columns", 512, "XBLOCK=128,R0_BLOCK=32", warps=8))
    assert found is not None
    rows = found.layout.main.held["x"]
    assert found.warp.conflicts == 2 * rows * (32 - EXCHANGE_CLOCKS)


def test_a_table_is_gathered_from_the_first_level_cache_as_far_as_it_fits() -> None:
    """Eight million rows of 128 bytes: each multiprocessor reads 128 KiB once; of 1 MiB three quarters of the requests miss."""
    body = """x = xindex % 32
y = xindex // 32
tmp0 = tl.load(in_ptr0 + (y), xmask)
tmp1 = tl.load(in_ptr1 + (x + 32*tmp0), xmask)
tl.store(out_ptr0 + (xindex), tmp1, xmask)
"""
    rows = 1 << 23
    text = pointwise("triton_poi_gather", {"in_ptr0": "*i64", "in_ptr1": "*fp32", "out_ptr0": "*fp32"}, 32 * rows, body)

    def asked(table: int) -> float:
        sides = [[rows], [table // 128, 32], [rows, 32]]
        types = ["long int", "float", "float"]
        kernel = launch(text, "triton_poi_gather", 32 * rows // 1024, input_dims=sides, input_types=types)
        demand, _ = demand_of(kernel, H200)
        assert demand is not None
        assert demand.cache_read is not None
        return demand.cache_read - rows * 8

    assert asked(1 << 17) == pytest.approx(132 * 2**17, rel=0.01)
    assert asked(1 << 20) == pytest.approx(132 * 2**20 + 0.75 * rows * 128, rel=0.01)


def test_a_bias_that_is_added_before_a_reduction_decides_its_layout() -> None:
    """Rows of 128 halves, two a program, over two warps: alone each warp has one. A bias in single precision, two elements a
    thread, lies across both warps, and so does the sum with it; a number for each row, fewer than the threads, does not."""
    plain = TWICE.replace("in_ptr0 +", "in_ptr1 +")
    biased = plain.replace(
        "(r0_index + 4096*xindex), r0_mask, other=0.0)\n    _tmp1",
        "(r0_index + 4096*xindex), r0_mask, other=0.0) + tl.load(in_ptr0 + (r0_index), r0_mask)\n    _tmp1",
    )
    assert biased != plain

    def warps_of_a_row(body: str) -> int:
        text = inductor_file("triton_red_biased", REDUCTION, body, "reduction", size_hints={"x": 65536, "r0_": 4096})
        found = analyse(launch(text, "triton_red_biased", 32768, "XBLOCK=2,R0_BLOCK=128", warps=2))
        assert found is not None
        (sum_of,) = [o for o in found.tally.operations if o.name == "reduce_sum"]
        return found.layout.reduced_in(sum_of).warps["r0_"]

    assert warps_of_a_row(plain) == 1
    assert warps_of_a_row(biased) == 2
    assert warps_of_a_row(biased.replace("in_ptr0 + (r0_index)", "in_ptr0 + (xindex)")) == 1


ACROSS = """ynumel = 4096
xnumel = 4096
yoffset = tl.program_id(1) * YBLOCK
yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
xmask = tl.full([XBLOCK], True, tl.int1)[None, :]
tmp0 = tl.load(in_ptr0 + (xindex + 4096*yindex), None).to(tl.float32)
tmp1 = tl.load(in_ptr1 + (yindex + 4096*xindex), None).to(tl.float32)
tmp2 = tl.load(in_ptr2 + (SECOND), None).to(tl.float32)
tl.store(out_ptr0 + (xindex + 4096*yindex), tmp0 + tmp1 * tmp2, None)
"""
HALVES = {"in_ptr0": "*bf16", "in_ptr1": "*bf16", "in_ptr2": "*bf16", "out_ptr0": "*bf16", "ynumel": "i32", "xnumel": "i32", "YBLOCK": "constexpr", "XBLOCK": "constexpr"}  # fmt: skip


def test_what_several_loads_across_feed_is_turned_once() -> None:
    def conflicts(second: str) -> float:
        body = ACROSS.replace("SECOND", second)
        text = inductor_file("triton_poi_across", HALVES, body, size_hints={"y": 4096, "x": 4096})
        kernel = launch(text, "triton_poi_across", 64, "XBLOCK=64,YBLOCK=64", warps=8)
        found = analyse(replace(kernel, grid=(64, 64, 1)))
        assert found is not None
        return found.warp.conflicts

    one, two = conflicts("xindex + 4096*yindex"), conflicts("yindex + 4096*xindex")
    assert one > 0
    assert two == one
