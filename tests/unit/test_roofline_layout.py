"""Layouts and instructions of Triton kernels, against what Triton 3.6 made of the same text for sm_90."""

from __future__ import annotations

import pytest

from ridgeline.roofline.instructions import OVERHEAD
from ridgeline.roofline.layout import deal
from ridgeline.roofline.triton_model import Analysis, analyse
from roofline_kernels import inductor_file, launch, pointwise


@pytest.mark.parametrize(
    ("shape", "order", "vector", "warps", "lanes", "along", "held"),
    [
        # #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]}>
        ({"x": 2, "r0_": 512}, ("r0_", "x"), 8, 1, {"r0_": 32, "x": 1}, {"r0_": 1, "x": 1}, {"r0_": 16, "x": 2}),
        # sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]
        ({"x": 16, "r0_": 32}, ("x", "r0_"), 4, 4, {"x": 4, "r0_": 8}, {"x": 1, "r0_": 4}, {"x": 4, "r0_": 1}),
        # sizePerThread = [1, 8], threadsPerWarp = [2, 16], warpsPerCTA = [1, 1]
        ({"x": 4, "r0_": 128}, ("r0_", "x"), 8, 1, {"r0_": 16, "x": 2}, {"r0_": 1, "x": 1}, {"r0_": 8, "x": 2}),
        # sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4]
        ({"x": 1024}, ("x",), 4, 4, {"x": 32}, {"x": 4}, {"x": 8}),
    ],
)
def test_vectors_are_dealt_as_triton_deals_them(
    shape: dict[str, int],
    order: tuple[str, ...],
    vector: int,
    warps: int,
    lanes: dict[str, int],
    along: dict[str, int],
    held: dict[str, int],
) -> None:
    made = deal(shape, order, vector, warps)
    assert (made.lanes, made.warps, made.held) == (lanes, along, held)


def reduced(rows: int, columns: int, warps: int, function: str = "tl.sum") -> Analysis:
    body = f"""xnumel = 4096
r0_numel = {columns}
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
r0_index = tl.arange(0, R0_BLOCK)[None, :]
tmp0 = tl.load(in_ptr0 + (r0_index + {columns}*xindex), None)
tmp1 = {function}(tmp0, 1)[:, None]
tl.store(out_ptr0 + (xindex), tmp1, None)"""
    arguments = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
    text = inductor_file("k", arguments, body, "persistent_reduction")
    found = analyse(launch(text, "k", 4096 // rows, f"XBLOCK={rows},R0_BLOCK={columns}", warps))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "sums", "shuffles", "compiled"),
    [
        (1, 1024, 1, 31 + 5, 5, 65),
        (1, 1024, 4, 7 + 5 + 2, 5 + 2, 57),
        (8, 128, 4, 2 * (3 + 5), 2 * 5, 62),
        (2, 512, 1, 2 * (15 + 5), 2 * 5, 89),
        (1, 4096, 16, 7 + 5 + 4, 5 + 4, 64),
    ],
)
def test_a_sum_in_threads_lanes_and_warps(
    rows: int, columns: int, warps: int, sums: int, shuffles: int, compiled: int
) -> None:
    """Additions and shuffles are those of the compiled kernel; all instructions, which for so small a kernel are mostly
    its frame, within three tenths."""
    found = reduced(rows, columns, warps)
    moved = 4 if warps > 1 and rows == 1 else 0  # through shared memory: a word a warp stored and read, twice
    assert found.warp.by_operation["reduce_sum"] == pytest.approx(OVERHEAD * (sums + shuffles + moved))
    assert found.warp.issued == pytest.approx(compiled, rel=0.3)


def test_a_maximum_that_keeps_nan_takes_three_instructions() -> None:
    found = reduced(1, 1024, 1, "triton_helpers.max2")
    assert found.warp.by_operation["reduce_max"] == pytest.approx(OVERHEAD * (3 * (31 + 5) + 5))
    assert found.warp.issued == pytest.approx(137, rel=0.1)


@pytest.mark.parametrize(
    ("index", "loads", "compiled"),
    [
        ("xindex", 2, 16),  # whole vectors
        ("3*xindex", 8, 44),  # an access an element
        ("xindex // 8", 2, 32),  # neighbours are the same: once a vector
        ("(xindex % 96)*5 + xindex // 96", 8, 85),
    ],
)
def test_loads_by_index(index: str, loads: int, compiled: int) -> None:
    body = f"tmp0 = tl.load(in_ptr0 + ({index}), None)\ntl.store(out_ptr0 + (xindex), tmp0, None)"
    text = pointwise("k", {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}, 1 << 24, body)
    found = analyse(launch(text, "k", 1 << 14))
    assert found is not None
    assert found.warp.by_operation["load"] == pytest.approx(OVERHEAD * loads)
    assert found.warp.issued == pytest.approx(compiled, rel=0.3)


def test_what_is_only_moved_is_not_converted() -> None:
    def conversions(expression: str) -> float:
        body = f"tmp0 = tl.load(in_ptr0 + (xindex), None).to(tl.float32)\ntl.store(out_ptr0 + (xindex), {expression}, None)"
        text = pointwise("k", {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, 1 << 24, body)
        found = analyse(launch(text, "k", 1 << 14))
        assert found is not None
        names = ("widen", "narrow", "half")
        return sum(found.warp.by_operation[name] for name in names) / OVERHEAD

    assert conversions("tmp0") == 0
    assert conversions("tmp0 * tmp0") == pytest.approx(8 / 2)  # of pairs, and none is converted
    assert conversions("tmp0 * 1.5") == pytest.approx(8 / 2)
    assert conversions("tmp0 * 1.7") == pytest.approx(8 + 8 / 2)  # no bfloat16
    assert conversions("tmp0 * tmp0 * tmp0") == pytest.approx(8 + 8 / 2)


def test_halves_before_weights_in_single_precision_change_lanes_twice() -> None:
    """A layer norm of two rows: the tile has vectors of 8, the weights of 4. Triton shuffles the tile, 32 words, to the
    weights' layout and its result, 16 words, back: 48 shuffles, two selects each."""
    body = """xnumel = 8192
r0_numel = 512
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
r0_index = tl.arange(0, R0_BLOCK)[None, :]
tmp0 = tl.load(in_ptr0 + (r0_index + 512*xindex), None)
tmp1 = tl.load(in_ptr1 + (r0_index), None)
tl.store(out_ptr0 + (r0_index + 512*xindex), tmp0 * tmp1, None)"""
    arguments = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*bf16", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
    text = inductor_file("k", arguments, body, "persistent_reduction")
    found = analyse(launch(text, "k", 4096, "XBLOCK=2,R0_BLOCK=512", 1))
    assert found is not None
    assert found.warp.by_operation["shuffled"] == pytest.approx(OVERHEAD * 48 * 3)
