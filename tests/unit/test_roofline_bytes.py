"""Bytes of generated kernels: every distinct address once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ridgeline.roofline import KernelInput, cpp_source, cpp_work, estimate
from ridgeline.roofline.peaks import device_spec
from ridgeline.roofline.triton_model import analyse, buffer_bytes, traffic
from roofline_kernels import H200, inductor_file, launch, pointwise

LOOP_HEAD = """xnumel = {x}
r0_numel = {r}
rnumel = r0_numel
RBLOCK: tl.constexpr = R0_BLOCK
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = xindex < xnumel
r0_base = tl.arange(0, R0_BLOCK)[None, :]
x0 = xindex
"""
REDUCTION = {"xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr", "R0_BLOCK": "constexpr"}


def read_written(kernel: KernelInput) -> tuple[float, float]:
    analysis = analyse(kernel)
    assert analysis is not None
    read, write, _, _ = traffic(analysis.tally, buffer_bytes(kernel, analysis.source))
    return read, write


def total(kernel: KernelInput) -> float:
    return sum(read_written(kernel))


def test_an_argument_updated_in_place_is_read_and_written() -> None:  # UP-46
    body = "x0 = xindex\ntmp0 = tl.load(in_out_ptr0 + (x0), xmask)\ntmp1 = tmp0 * tmp0\ntl.store(in_out_ptr0 + (x0), tmp1, xmask)"
    text = pointwise("triton_poi_fused_mm_mul_0", {"in_out_ptr0": "*fp32"}, 1_000_000, body)
    assert total(launch(text, "triton_poi_fused_mm_mul_0", 977)) == 8_000_000


def test_kernels_of_a_recorded_module(cases: Path) -> None:  # UP-46
    log = (cases / "data/tlp/inductor_provenance_jit_debug_handle_log.txt").read_text()
    kernels = {}
    for block in re.findall(r"async_compile\.triton\('(\w+)', '''\n(.*?)'''", log, re.DOTALL):
        kernels[block[0]] = "\n".join(line.removeprefix("\t") for line in block[1].splitlines())
    found = {name: total(launch(text, name, 1, "XBLOCK=128")) for name, text in kernels.items()}
    assert found == {
        "triton_poi_fused_addmm_relu_sigmoid_threshold_backward_0": 512 + 64 + 512 + 128,
        "triton_poi_fused_mul_1": 1600,
        "triton_poi_fused_addmm_gelu_2": 3600,
    }


def test_an_unused_input_moves_nothing() -> None:  # UP-47 a
    body = "x0 = xindex\ntmp0 = tl.load(in_ptr0 + (x0), xmask)\ntmp1 = tl.load(in_ptr1 + (x0), xmask)\ntmp2 = tmp0 + tmp1\ntl.store(out_ptr0 + (x0), tmp2, xmask)"
    text = pointwise(
        "k", {"in_ptr0": "*fp16", "unused_ptr": "*fp16", "in_ptr1": "*fp16", "out_ptr0": "*fp16"}, 5_000_000, body
    )
    assert total(launch(text, "k", 4883)) == 30_000_000


def test_a_slice_and_a_broadcast_row() -> None:  # UP-47 b
    body = """x0 = xindex % 1000000
x1 = xindex // 1000000
x2 = xindex
tmp0 = tl.load(in_ptr0 + (x2), xmask)
tmp1 = tl.load(in_ptr1 + (1000000 + x0 + 5000000*x1), xmask)
tmp2 = tl.load(in_ptr2 + (x0), xmask, eviction_policy='evict_last')
tmp3 = tmp0 + tmp1
tmp4 = tmp3 + tmp2
tl.store(out_ptr0 + (x2), tmp4, xmask)"""
    text = pointwise(
        "k", {"in_ptr0": "*fp16", "in_ptr1": "*fp16", "in_ptr2": "*fp16", "out_ptr0": "*fp16"}, 5_000_000, body
    )
    half = "c10::Half"
    dims = [[5, 1_000_000], [5, 5_000_000], [1_000_000], [5, 1_000_000], []]
    kernel = launch(text, "k", 4883, input_dims=dims, input_types=[half, half, half, half, "Scalar"])
    assert total(kernel) == 32_000_000


def test_a_sum_over_a_middle_dimension() -> None:  # UP-47 c
    body = """xnumel = 1000000
r0_numel = 20
R0_BLOCK: tl.constexpr = 32
xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
xmask = xindex < xnumel
r0_index = tl.arange(0, R0_BLOCK)[None, :]
r0_mask = r0_index < r0_numel
r0_2 = r0_index
x0 = xindex % 1000
x1 = xindex // 1000
x3 = xindex
tmp0 = tl.load(in_ptr0 + (x0 + 1000*r0_2 + 20000*x1), r0_mask & xmask, other=0.0).to(tl.float32)
tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
tmp4 = tl.sum(tmp3, 1)[:, None]
tl.store(out_ptr0 + (x3), tmp4, xmask)"""
    arguments = {"in_ptr0": "*fp16", "out_ptr0": "*fp16", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr"}
    text = inductor_file("k", arguments, body, "persistent_reduction")
    assert total(launch(text, "k", 31250, "XBLOCK=32")) == 42_000_000


def test_rows_that_are_read_in_two_passes_count_once() -> None:  # UP-47 d
    body = (
        LOOP_HEAD.format(x=10, r=1_000_000)
        + """_tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    tmp0 = tl.load(in_ptr0 + (r0_1 + 1000000*x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp9 = tl.load(in_ptr1 + (r0_1), r0_mask, other=0.0).to(tl.float32)
    tmp1 = tl.broadcast_to(tmp0 + tmp9, [XBLOCK, R0_BLOCK])
    tmp3 = _tmp2 + tmp1
    _tmp2 = tl.where(r0_mask & xmask, tmp3, _tmp2)
tmp2 = tl.sum(_tmp2, 1)[:, None]
for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
    r0_index = r0_offset + r0_base
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    tmp4 = tl.load(in_ptr0 + (r0_1 + 1000000*x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp5 = tl.load(in_ptr2 + (r0_1), r0_mask, other=0.0).to(tl.float32)
    tmp6 = tl.load(in_ptr3 + (r0_1), r0_mask, other=0.0).to(tl.float32)
    tmp7 = (tmp4 - tmp2) * tmp5 + tmp6
    tl.store(out_ptr1 + (r0_1 + 1000000*x0), tmp7, r0_mask & xmask)
"""
    )
    pointers = {"in_ptr0": "*fp16", "in_ptr1": "*fp16", "in_ptr2": "*fp16", "in_ptr3": "*fp16", "out_ptr1": "*fp16"}
    text = inductor_file("k", {**pointers, **REDUCTION}, body, "reduction")
    assert total(launch(text, "k", 10, "XBLOCK=1,R0_BLOCK=2048", 16)) == 46_000_000


def test_an_indexed_write_is_an_upper_bound() -> None:  # UP-49
    body = """x1 = xindex // 5000
x0 = xindex % 5000
tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
tmp1 = tl.full([XBLOCK], 10000, tl.int32)
tmp2 = tmp0 + tmp1
tmp3 = tmp0 < 0
tmp4 = tl.where(tmp3, tmp2, tmp0)
tmp5 = tl.full([1], 3.0, tl.float32)
tl.store(out_ptr0 + (x0 + 5000*tmp4), tmp5, xmask)"""
    text = pointwise("k", {"in_ptr0": "*i32", "out_ptr0": "*fp32"}, 100_000_000, body)
    kernel = launch(
        text, "k", 97657, us=120.0, input_dims=[[20000], [10000, 5000], []], input_types=["int", "float", "Scalar"]
    )
    assert total(kernel) == pytest.approx(0.200e9, rel=1e-3)
    found = estimate(kernel, H200)
    assert any("upper bound" in note for note in found.notes)
    assert found.bytes == pytest.approx(0.200e9, rel=1e-3)


def test_a_split_scan_moves_its_input_and_its_output() -> None:  # UP-49
    body = """xnumel = 1
r0_numel = 50000000
rnumel = r0_numel
RBLOCK: tl.constexpr = R0_BLOCK
xoffset = tl.program_id(1) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:]
r0_offset = tl.program_id(0) * R0_BLOCK
r0_index = r0_offset + tl.arange(0, R0_BLOCK)[:]
r0_mask = r0_index < r0_numel
r0_0 = r0_index
tmp0 = tl.load(in_ptr0 + (r0_0), r0_mask, other=0.0)
tmp1 = tmp0.to(tl.float32)
tmp2 = tl.broadcast_to(tmp1, [R0_BLOCK])
tmp3 = tl.associative_scan(tmp2, 0, _triton_helper_fn_add0)
tl.store(out_ptr0 + (r0_0), tmp3, r0_mask)"""
    arguments = {"in_ptr0": "*fp32", "out_ptr0": "*fp32", **REDUCTION}
    text = inductor_file("k", arguments, body, "split_scan")
    assert total(launch(text, "k", 24415, "XBLOCK=1,R0_BLOCK=2048", 8)) == 400_000_000


def test_a_gather_of_rows_is_capped_by_the_table() -> None:
    body = """x1 = xindex // 1024
x0 = xindex % 1024
tmp0 = tl.load(in_ptr0 + (x1), xmask)
tmp1 = tl.load(in_ptr1 + (x0 + 1024*tmp0), xmask)
tl.store(out_ptr0 + (xindex), tmp1, xmask)"""
    text = pointwise("k", {"in_ptr0": "*i64", "in_ptr1": "*bf16", "out_ptr0": "*bf16"}, 1024 * 8192, body)
    small = launch(
        text,
        "k",
        8192,
        input_dims=[[8192], [100, 1024], [8192, 1024], []],
        input_types=["long int", "c10::BFloat16", "c10::BFloat16", "Scalar"],
    )
    assert read_written(small) == (8192 * 8 + 100 * 1024 * 2, 8192 * 1024 * 2)
    large = launch(
        text,
        "k",
        8192,
        input_dims=[[8192], [100_000, 1024], [8192, 1024], []],
        input_types=["long int", "c10::BFloat16", "c10::BFloat16", "Scalar"],
    )
    assert read_written(large)[0] == 8192 * 8 + 8192 * 1024 * 2


def test_halves_of_a_concatenation() -> None:
    body = """x0 = xindex % 2048
x1 = xindex // 2048
tmp1 = tl.full([1], 896, tl.int64)
tmp2 = x0 < tmp1
tmp3 = tl.load(in_ptr0 + (128 + 1024*x1 + x0), tmp2, other=0.0)
tmp4 = x0 >= tmp1
tmp5 = tl.full([1], 1024, tl.int64)
tmp6 = x0 < tmp5
tmp7 = tmp4 & tmp6
tmp8 = tl.load(in_ptr1 + (1024*x1 + ((-896) + x0)), tmp7, other=0.0)
tmp9 = x0 >= tmp5
tmp10 = tl.load(in_ptr2 + (1024*x1 + ((-1024) + x0)), tmp9, other=0.0)
tmp11 = tl.where(tmp7, tmp8, tmp10)
tmp12 = tl.where(tmp2, tmp3, tmp11)
tl.store(out_ptr0 + (xindex), tmp12, None)"""
    text = pointwise(
        "k", {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "in_ptr2": "*fp32", "out_ptr0": "*fp32"}, 16384 * 2048, body
    )
    read, write = read_written(launch(text, "k", 32768))
    assert read == 16384 * (896 + 128 + 1024) * 4
    assert write == 16384 * 2048 * 4


def test_sliding_windows_overlap() -> None:
    loads = "\n".join(f"tmp{i} = tl.load(in_ptr0 + ({i} + 2*x0 + 200*x1))" for i in range(3))
    body = f"x0 = xindex % 99\nx1 = xindex // 99\n{loads}\ntmp9 = tmp0 + tmp1\ntmp10 = tmp9 + tmp2\ntl.store(out_ptr0 + (xindex), tmp10, xmask)"
    text = pointwise("k", {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}, 99 * 1000, body)
    read, write = read_written(launch(text, "k", 97))
    assert write == 99_000 * 4
    assert read <= 200_000 * 4  # not three times 99,000
    assert read >= 198_000 * 4


@pytest.mark.parametrize(
    ("element", "size"),
    [("fp8e4nv", 1), ("i8", 1), ("bf16", 2), ("fp16", 2), ("fp32", 4), ("i32", 4), ("fp64", 8), ("i64", 8), ("i1", 1)],
)
def test_every_type(element: str, size: int) -> None:
    body = "x0 = xindex\ntmp0 = tl.load(in_ptr0 + (x0), xmask)\ntl.store(out_ptr0 + (x0), tmp0, xmask)"
    text = pointwise("k", {"in_ptr0": f"*{element}", "out_ptr0": f"*{element}"}, 4096, body)
    assert total(launch(text, "k", 4)) == 2 * 4096 * size


def test_symbolic_sizes_come_from_the_recorded_scalars() -> None:
    body = """xoffset = tl.program_id(0) * XBLOCK
xindex = xoffset + tl.arange(0, XBLOCK)[:]
xmask = xindex < xnumel
x0 = xindex
tmp0 = tl.load(in_ptr0 + (x0), xmask)
tl.store(out_ptr0 + (x0), tmp0, xmask)"""
    text = inductor_file(
        "k", {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "ks0": "i64", "xnumel": "i32", "XBLOCK": "constexpr"}, body
    )
    kernel = launch(
        text,
        "k",
        3,
        input_dims=[[3000], [3000], [], []],
        input_types=["float", "float", "Scalar", "Scalar"],
        concrete_inputs=["", "", "30", "3000"],
    )
    assert total(kernel) == 24_000


CPP = """
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       const int64_t* in_ptr1,
                       bfloat16* out_ptr0,
                       float* out_ptr1)
{
    auto out_ptr2 = in_out_ptr0;
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(1000L); x0+=static_cast<int64_t>(1L))
    {
        for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(512L); x1+=static_cast<int64_t>(16L))
        {
            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 1024L*x0), static_cast<int64_t>(16));
            auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
            auto tmp2 = at::vec::Vectorized<float>::loadu(out_ptr2 + static_cast<int64_t>(x1 + 512L*x0), static_cast<int64_t>(16));
            tmp2.store(in_out_ptr0 + static_cast<int64_t>(x1 + 512L*x0));
            tmp0.store(out_ptr0 + static_cast<int64_t>(x1 + 512L*x0));
            out_ptr1[static_cast<int64_t>(x0)] = tmp1;
        }
    }
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(1000L); x0+=static_cast<int64_t>(1L))
    {
        auto tmp0 = out_ptr1[static_cast<int64_t>(x0)];
        out_ptr1[static_cast<int64_t>(x0)] = tmp0;
    }
}
"""


def test_a_kernel_for_the_processor() -> None:
    read = 1000 * 512 * 4 + 1000 * 8 + 1000 * 512 * 4  # half of each row, the indices, what is updated in place
    write = 1000 * 512 * 4 + 1000 * 512 * 2 + 1000 * 4  # what it wrote itself is not read from memory
    assert cpp_source.traffic(CPP) == (read, write)
    assert cpp_source.traffic("int main() {}") is None


def test_a_processors_kernel_is_bound_by_its_memory() -> None:
    device = device_spec("cpu", "cpu", None, {"flops": {"fp32": 3e11}, "bandwidth_gb_s": {"copy": 25.0}, "threads": 2})
    moved = sum(cpp_source.traffic(CPP) or (0.0, 0.0))
    kernel = KernelInput(
        name="cpp_fused_0",
        symbol="cpp_fused_0",
        category="cpp",
        duration_us=moved / 20e3,
        count=1,
        kernel_source=CPP,
        on_cpu=True,
    )
    found = estimate(kernel, device)
    assert found.bytes == moved
    assert found.bound == "memory"
    assert found.memory_pct == pytest.approx(80)
    assert found.reason is not None
    assert "at 2 threads" in found.reason


def test_work_of_a_kernel_for_the_processor() -> None:
    text = """
for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(100L); x0+=static_cast<int64_t>(1L))
{
    for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(40L); x1+=static_cast<int64_t>(16L))
    {
        if(C10_LIKELY(x1 < static_cast<int64_t>(32L)))
        {
            auto tmp1 = tmp0 * tmp0;
            auto tmp2 = tmp1.exp();
            auto tmp3 = tmp2 / tmp1;
        }
        if(C10_UNLIKELY(x1 >= static_cast<int64_t>(32L)))
        {
            auto tmp1 = tmp0 * tmp0;
        }
    }
    auto tmp4 = tmp3 + tmp3;
}
auto tmp5 = tmp4 - tmp3;
"""
    done = cpp_work.work(text)
    assert done is not None
    assert done.flops == 100 * 40 * 3 + 100 + 1
    assert done.effort == 2 * (100 * 40 * (1 + 15 + 5) + 100 + 1)
    assert cpp_work.work("int main() {}") is None
