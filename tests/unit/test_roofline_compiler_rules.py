"""Rules of the compiler that the walk of a kernel's text follows; instructions are those of Triton 3.6 for sm_90."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.roofline import estimate
from ridgeline.roofline.architecture import HOPPER
from ridgeline.roofline.costs import COST
from ridgeline.roofline.instructions import OVERHEAD, Warp, meeting
from ridgeline.roofline.layout import Blocked, Layout
from ridgeline.roofline.triton_model import Analysis, analyse, demand, top_operation
from roofline_kernels import H200, inductor_file, launch, pointwise

ALL = "xmask = tl.full([XBLOCK], True, tl.int1)[:]\n"


def walked(body: str, pointers: dict[str, str], elements: int, blocks: int | None = None) -> Analysis:
    text = pointwise("k", pointers, elements, ALL + body)
    found = analyse(launch(text, "k", blocks or -(-elements // 1024)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("body", "pointers", "elements", "compiled", "accesses"),
    [
        # a product of halves that is one again: HMUL2 of pairs, nothing converted
        ("tmp0 = tl.load(in_ptr0 + (xindex), None).to(tl.float32)\ntl.store(out_ptr0 + (xindex), tmp0 * 2.0, None)",
         {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, 1 << 22, 25, 2),
        # bytes become floats where they lie in their word
        ("tmp0 = tl.load(in_ptr0 + (xindex), None)\ntl.store(out_ptr0 + (xindex), tmp0.to(tl.float32), None)",
         {"in_ptr0": "*i8", "out_ptr0": "*bf16"}, 1 << 25, 33, 2),
        # an odd limit parts every vector of the load under it, none of the store
        ("x0 = xindex % 50264\nx1 = xindex // 50264\ntmp3 = tl.load(in_ptr0 + (x0 + 50304*x1), x0 < 50257, other=0.0)\n"
         "tl.store(out_ptr0 + (x0 + 50304*x1), tmp3, None)", {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, 50264 * 4096, 103, 9),
        # windows that are shifted along axes that the vector does not follow keep it whole
        ("x0 = xindex % 96\nx1 = (xindex // 96) % 49\nx2 = xindex // 4704\nx3 = xindex % 4704\n"
         "tmp0 = tl.load(in_ptr0 + (x0 + 96*((3 + 7*(x2 % 8) + x1 % 7) % 56) + 5376*((3 + 7*((x2 // 8) % 8) + x1 // 7) % 56) "
         "+ 301056*(x2 // 64)), None).to(tl.float32)\ntl.store(out_ptr0 + (x3 + 4736*x2), tmp0 * 1.5, None)",
         {"in_ptr0": "*bf16", "out_ptr0": "*bf16"}, 4816896, 100, 2),
    ],
)  # fmt: skip
def test_instructions_as_compiled(
    body: str, pointers: dict[str, str], elements: int, compiled: int, accesses: int
) -> None:
    found = walked(body, pointers, elements)
    assert found.warp.issued == pytest.approx(compiled, rel=0.25)
    assert found.warp.load_store == accesses


def test_a_conjunction_with_a_comparison_costs_nothing_more() -> None:
    load = "tmp0 = tl.load(in_ptr0 + (xindex), None)\ntmp1 = tl.load(in_ptr1 + (xindex), None)\n"
    store = "tl.store(out_ptr0 + (xindex), tl.where(tmp2, tmp0, tmp1), None)"
    pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32"}

    def operations(test: str) -> dict[str, float]:
        return walked(load + test + store, pointers, 1 << 22).warp.by_operation

    assert operations("tmp2 = (tmp0 > 1.0) & (tmp1 < 2.0)\n").get("logic", 0.0) == 0.0
    assert operations("tmp2 = (tmp0 > 1.0) | (tmp1 < 2.0)\n").get("logic", 0.0) == 0.0
    asked = operations("tmp3 = (tmp0 > 1.0).to(tl.int64)\ntmp2 = tmp3 != 0\n")  # the truth value itself
    assert asked.get("logic", 0.0) == 0.0
    assert asked["compare"] == pytest.approx(8 * OVERHEAD)


WELFORD = """xnumel = 32768
r0_numel = {numel}
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = {mask}
r0_base = tl.arange(0, R0_BLOCK)[None, :]
tmp1_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
tmp1_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
tmp1_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_ptr0 + (r0_index + {numel}*xindex), r0_mask & xmask, other=0.0)
    mean, m2, weight = triton_helpers.welford_reduce(tmp0, tmp1_mean, tmp1_m2, tmp1_weight, r0_offset == 0)
    tmp1_mean = tl.where(r0_mask & xmask, mean, tmp1_mean)
    tmp1_m2 = tl.where(r0_mask & xmask, m2, tmp1_m2)
    tmp1_weight = tl.where(r0_mask & xmask, weight, tmp1_weight)
tmp2, tmp3, tmp4 = triton_helpers.welford(tmp1_mean, tmp1_m2, tmp1_weight, 1)
tl.store(out_ptr0 + (xindex), tmp2[:, None], xmask)"""


def welford(numel: int, masked: bool) -> dict[str, float]:
    mask = "xindex < xnumel" if masked else "tl.full([XBLOCK], True, tl.int1)[:, None]"
    arguments = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}  # fmt: skip
    text = inductor_file("k", arguments, WELFORD.format(numel=numel, mask=mask), "reduction")
    found = analyse(launch(text, "k", 32768, "XBLOCK=1,R0_BLOCK=2048", 16))
    assert found is not None
    return found.warp.by_operation


def test_a_loop_is_unrolled_by_its_size_and_counts_are_constants_where_no_mask_is() -> None:
    short, long = welford(64 * 2048, False), welford(256 * 2048, False)
    masked, kept = welford(4 * 2048, True), welford(64 * 2048, True)
    assert "loop" not in short  # what constants save counts for it
    assert long["loop"] == pytest.approx(256 * COST["loop"] * OVERHEAD)
    assert short["welford_plain"] == pytest.approx(256 * COST["welford_plain"] * OVERHEAD)
    assert long["welford_plain"] == pytest.approx(1024 * COST["welford_plain"] * OVERHEAD)  # one reciprocal a trip
    assert kept["loop"] == pytest.approx(64 * COST["loop"] * OVERHEAD)
    assert kept["welford_step"] == pytest.approx(256 * COST["welford_step"] * OVERHEAD)
    assert "reduce_counted" in short
    assert "reduce_counted" in long
    assert "reduce_welford" in masked  # who has elements at all is only known when it runs


def test_what_a_decided_choice_leaves_out_is_not_loaded() -> None:
    body = """tmp0 = tl.load(in_ptr0 + (xindex), None)
tmp1 = tl.load(in_ptr1 + (xindex), None)
tmp2 = tl.full([1], 0, tl.int32)
tmp3 = tl.full([1], 1, tl.int32)
tmp4 = tl.where(tmp2 == tmp3, tmp0, tmp1)
tl.store(out_ptr0 + (xindex), tmp4, None)"""
    pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32"}
    found = walked(body, pointers, 1 << 24)
    assert {a.pointer for a in found.tally.accesses} == {"in_ptr1", "out_ptr0"}
    kept = walked(body.replace("tmp2 == tmp3", "xindex == tmp3"), pointers, 1 << 24)
    assert {a.pointer for a in kept.tally.accesses} == {"in_ptr0", "in_ptr1", "out_ptr0"}


def test_a_sweep_that_comes_back_after_half_the_cache_reads_again() -> None:
    """A stack of two, of which each half takes one operand: both are read in both halves."""
    body = """x1 = xindex // {half}
x0 = xindex % {half}
tmp0 = tl.load(in_ptr0 + (x0), None)
tmp1 = tl.load(in_ptr1 + (x0), None)
tl.store(out_ptr0 + (xindex), tl.where(x1 == 0, tmp0, tmp1), None)"""
    pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32"}
    for half, times in ((1 << 23, 2), (1 << 18, 1)):
        text = pointwise("k", pointers, 2 * half, ALL + body.format(half=half))
        kernel = launch(text, "k", 2 * half // 1024)
        found = analyse(kernel)
        assert found is not None
        made = demand(kernel, found, H200.sm_count, H200.l2_bytes)
        assert made.read == 2 * half * 4
        assert made.fetched == times * made.read


def test_rows_that_begin_anywhere_end_in_parts_of_sectors() -> None:
    body = """yindex = (tl.program_id(1)) * YBLOCK + tl.arange(0, YBLOCK)[:, None]
xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[None, :]
tmp0 = tl.load(in_ptr0 + (yindex + 4096*xindex), None)
tl.store(out_ptr0 + (xindex + {row}*yindex), tmp0, None)"""
    arguments = {"in_ptr0": "*bf16", "out_ptr0": "*bf16", "ynumel": "i32", "xnumel": "i32", "YBLOCK": "constexpr", "XBLOCK": "constexpr"}  # fmt: skip
    written = []
    for row in (64, 49):
        head = f"ynumel = 4096\nxnumel = {min(row, 64)}\n"
        text = inductor_file("k", arguments, head + body.format(row=row))
        kernel = replace(launch(text, "k", 2, "XBLOCK=32,YBLOCK=32"), grid=(2, 128, 1))
        found = analyse(kernel)
        assert found is not None
        made = demand(kernel, found, H200.sm_count)
        assert made.cache_write is not None
        assert made.write is not None
        written.append(made.cache_write / made.write)
    assert written[0] == pytest.approx(1.0)
    assert written[1] > 1.8  # of 64 bytes from anywhere two sectors of three are parts


def test_several_kernels_in_one_are_each_of_their_share_of_programs() -> None:
    body = """pid = tl.program_id(0)
XBLOCK: tl.constexpr = 1024
num_xblocks_0 = tl.cdiv(3072, XBLOCK)
num_xblocks_1 = num_xblocks_0 + tl.cdiv(1024, XBLOCK)
if pid < num_xblocks_0:
    pid_offset = pid
    xnumel = 3072
    xoffset = pid_offset * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_ptr0 + (xindex), None)
    tl.store(out_ptr0 + (xindex), tl_math.exp(tmp0), None)
elif pid < num_xblocks_1:
    pid_offset = pid - num_xblocks_0
    xnumel = 1024
    xoffset = pid_offset * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tmp1 = tl.load(in_ptr1 + (xindex), None)
    tl.store(out_ptr1 + (xindex), tmp1 + 1.0, None)
else:
    pass"""
    pointers = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32", "out_ptr1": "*fp32"}
    found = analyse(launch(inductor_file("k", pointers, body, "foreach"), "k", 4, ""))
    assert found is not None
    assert found.warp.by_operation["exp_fast"] == pytest.approx(0.75 * 8 * COST["exp_fast"] * OVERHEAD)
    assert found.warp.by_operation["float"] == pytest.approx(0.25 * 8 * OVERHEAD)


TEMPLATE = """BLOCK_M : tl.constexpr = 32
BLOCK_N : tl.constexpr = 32
BLOCK_K : tl.constexpr = 128
INDEX_DTYPE : tl.constexpr = tl.int32
M = 8192
N = 4096
K = 1024
pid = tl.program_id(0).to(INDEX_DTYPE)
grid_n = (N + BLOCK_N - 1) // BLOCK_N
pid_m = pid // grid_n
pid_n = pid % grid_n
rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
offs_k = tl.arange(0, BLOCK_K)
acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
for k_idx in range(K, 0, -BLOCK_K):
    a = tl.load(arg_A + (offs_k[None, :] + 1024*rm[:, None]))
    b = tl.load(arg_B + ((tl.broadcast_to(offs_k[:, None] + 1024*rn[None, :], [BLOCK_K, BLOCK_N])).broadcast_to(a.shape)))
    acc += tl.dot(a, b, allow_tf32=False)
rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
tl.store(out_ptr0 + (rn[None, :] + 4096*rm[:, None]), acc, None)"""


def test_a_template_of_a_product() -> None:
    """Tiles of 32 by 32 are fed from shared memory, which their warps read twice, and from the second-level cache: Nsight
    Compute has memory at 84 % and compute at 30 % for such a product, with a GELU behind it, of 469 us."""
    text = inductor_file("k", {"arg_A": "*fp16", "arg_B": "*fp16", "out_ptr0": "*fp16"}, TEMPLATE, "template")
    shapes = [[8192, 1024], [4096, 1024], [8192, 4096]]
    kernel = launch(text, "k", 32768, "", us=469.0, input_dims=shapes, input_types=["c10::Half"] * 3)
    found = analyse(kernel)
    assert found is not None
    assert not found.tally.open_loop
    assert [(d.rows, d.columns, d.depth, d.trips) for d in found.tally.dots] == [(32, 32, 128, 8)]
    made = demand(kernel, found, H200.sm_count)
    assert made.write == 8192 * 4096 * 2
    assert made.cache_sectors == pytest.approx(32768 * 8 * 2 * 32 * 128 * 2, rel=0.01)
    judged = estimate(kernel, H200)
    assert judged.bound == "memory"
    assert judged.memory_pct == pytest.approx(84, abs=6)
    assert judged.compute_pct == pytest.approx(30, abs=10)
    assert judged.flops == pytest.approx(2 * 8192 * 4096 * 1024, rel=0.01)
    assert HOPPER.l2_data_bytes < HOPPER.l2_read_bytes


def test_a_scan_costs_what_its_function_does() -> None:
    helper = "\n\n@triton.jit\ndef _combine(a, b):\n    return {expression}\n"
    body = """xindex = tl.program_id(0) + tl.arange(0, XBLOCK)[:, None]
r0_index = tl.arange(0, R0_BLOCK)[None, :]
tmp0 = tl.load(in_ptr0 + (r0_index + 1024*xindex), None)
tmp1, = tl.associative_scan((tmp0,), 1, _combine)
tl.store(out_ptr0 + (r0_index + 1024*xindex), tmp1, None)"""
    arguments = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}
    costs = []
    for expression in ("a + b", "a + tl_math.log(b)"):
        text = inductor_file("k", arguments, body, "persistent_reduction") + helper.format(expression=expression)
        found = analyse(launch(text, "k", 8192, "XBLOCK=1,R0_BLOCK=1024", 8))
        assert found is not None
        costs.append(found.warp.by_operation["scan"])
    assert costs[1] > 10 * costs[0]


def test_weights_by_channel_in_single_precision_beside_halves_lie_over_two_groups_of_lanes() -> None:
    body = (
        "x0 = xindex % 64\ntmp0 = tl.load(in_ptr0 + (xindex), None).to(tl.float32)\n"
        "tmp1 = tl.load(in_ptr1 + (x0), None, eviction_policy='evict_last')\ntl.store(out_ptr0 + (xindex), tmp0 * tmp1, None)"
    )
    found = walked(body, {"in_ptr0": "*bf16", "in_ptr1": "*fp32", "out_ptr0": "*bf16"}, 1 << 22)
    weights = next(a for a in found.tally.accesses if a.pointer == "in_ptr1")
    whole = next(a for a in found.tally.accesses if a.pointer == "in_ptr0")
    layout = Layout(found.tally, 128)
    assert layout.lines(whole) == 4  # 512 bytes of a warp
    assert layout.lines(weights) == 8  # 32 lanes of 16 bytes, 32 bytes apart


@pytest.mark.parametrize(("vector", "warps", "ways"), [(4, 4, 4), (1, 4, 4), (8, 4, 4), (4, 8, 8)])
def test_words_of_reductions_across_warps_meet_in_banks(vector: int, warps: int, ways: int) -> None:
    lanes = 32 // vector
    block = Blocked(("x", "r0_"), vector, {"x": lanes, "r0_": vector}, {"x": 1, "r0_": warps}, {"x": vector, "r0_": 1})
    assert meeting(block, frozenset("x"), warps) == ways
    assert meeting(block, frozenset(), warps) == 1


def test_a_mask_of_dropout_that_is_stored_changes_its_layout() -> None:
    body = (
        "tmp0 = tl.load(in_ptr0 + 0)\ntmp1 = tl.rand(tmp0, (xindex).to(tl.uint32))\ntmp2 = tmp1 > 0.1\n"
        "tmp3 = tl.load(in_ptr1 + (xindex), None).to(tl.float32)\n{}tl.store(out_ptr1 + (xindex), tmp2.to(tl.float32) * tmp3, None)"
    )
    pointers = {"in_ptr0": "*i64", "in_ptr1": "*bf16", "out_ptr0": "*i1", "out_ptr1": "*bf16"}
    stored = walked(body.format("tl.store(out_ptr0 + (xindex), tmp2, None)\n"), pointers, 1 << 22).warp
    kept = walked(body.format(""), pointers, 1 << 22).warp
    assert stored.by_operation["mask"] == pytest.approx(8 * COST["mask"] * OVERHEAD)
    assert "mask" not in kept.by_operation


@pytest.mark.parametrize(
    ("body", "sums"),
    [
        ("x + 96*y", 1),
        ("x + 96*y|1 + x + 96*y", 2),
        ("1 + x + 96*y|2 + x + 96*y|97 + x + 96*y", 4),
        ("x + 96*y|x + 192*y", 2),
    ],
    ids=["one", "and its neighbour", "a window", "other rows"],
)
def test_sums_that_differ_in_a_number_are_one_sum(body: str, sums: int) -> None:
    """Numbers are added last: each of them once, to what the others come to."""
    places = body.split("|")
    loads = "\n".join(f"tmp{i} = tl.load(in_ptr0 + ({place}), xmask)" for i, place in enumerate(places))
    total = " + ".join(f"tmp{i}" for i in range(len(places)))
    text = pointwise(
        "triton_poi_window",
        {"in_ptr0": "*fp32", "out_ptr0": "*fp32"},
        1 << 20,
        f"x = xindex % 64\ny = xindex // 64\n{loads}\ntl.store(out_ptr0 + (xindex), {total}, xmask)",
    )
    found = analyse(launch(text, "triton_poi_window", 1024))
    assert found is not None
    added = sum(o.count for o in found.tally.operations if o.name == "index_add")
    frame = 1  # where the program begins
    assert added - frame == sums


def test_a_normal_random_number_is_two_even_ones_their_logarithm_root_and_cosine() -> None:
    """Compiled for sm_90, without the cosine's path for large arguments: about 123 instructions an element."""
    body = "tmp0 = tl.load(in_ptr0 + (xindex), xmask)\ntmp1 = {}(7, xindex)\ntl.store(out_ptr0 + (xindex), tmp0 * tmp1, xmask)"
    issued = []
    for function in ("tl.rand", "tl.randn"):
        text = pointwise("triton_poi_random", {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}, 1 << 20, body.format(function))
        found = analyse(launch(text, "triton_poi_random", 1024))
        assert found is not None
        issued.append(found.warp.issued / 8)
    assert issued[1] - issued[0] == pytest.approx(123 - 52, rel=0.05)


def test_the_first_elements_of_welfords_update_are_means_themselves() -> None:
    """A loop of one trip without a mask: nothing but the way from four elements of a thread to one, and across the lanes."""
    text = inductor_file(
        "triton_red_once",
        {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"},
        """xnumel = 65536
r0_numel = 128
rnumel = r0_numel
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
r0_base = tl.arange(0, R0_BLOCK)[None, :]
m = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
s = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
w = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    tmp0 = tl.load(in_ptr0 + (r0_index + 128*xindex), None)
    m, s, w = triton_helpers.welford_reduce(tmp0, m, s, w, roffset == 0)
a, b, c = triton_helpers.welford(m, s, w, 1)
tl.store(out_ptr0 + (xindex), b[:, None], None)
""",
        "reduction",
        size_hints={"x": 65536, "r0_": 128},
    )  # fmt: skip
    found = analyse(launch(text, "triton_red_once", 32768, "XBLOCK=2,R0_BLOCK=128", warps=2))
    assert found is not None
    assert not found.warp.by_operation.get("welford_counted")
    assert not found.warp.by_operation.get("welford_plain")
    assert found.warp.by_operation["reduce_counted"] == pytest.approx(OVERHEAD * (8 * 7.3 + 5 * 2))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("index_step", "arithmetic of indices"),
        ("reduce_sum", "the reduction within and across warps"),
        ("reduce_welford", "Welford's means put together"),
        ("double_sqrt", "double precision"),
        ("nan_max", "maxima that keep NaN"),
        ("lgamma", "lgamma"),
    ],
)
def test_what_issues_most_is_said_in_words(name: str, words: str) -> None:
    warp = Warp()
    warp.add(name, 10.0)
    assert top_operation(warp) == words
    warp.add("float", 9.0)
    warp.add("load", 100.0)
    assert top_operation(warp) == "loads"
