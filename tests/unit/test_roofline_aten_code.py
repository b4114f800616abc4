"""PyTorch's own kernels by their machine code: the table's keys and rows, the trips of loops, the edges of each rule. Right values
are the code's (``tests/golden/aten_sass.py``, torch 2.11, sm_90), and what Nsight Compute counted of the same launches."""

from __future__ import annotations

import math

import pytest

from ridgeline.roofline import aten, aten_code, pointwise
from ridgeline.roofline.aten_code import Code, Loop, code_of, of_warp, plain, read, reduction_of, row
from ridgeline.roofline.aten_issue import reduced, reduced_dimensions, restrided, scanned, taps_of
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, tensors

NOCAST = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1})"
WHOLE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(int)"
MAX = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MaxOps<float>, unsigned int, float, 4, 4> >(int)"
BY_FOUR = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(int)"


def contiguous(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def launch(op: str, shapes: list[list[int]], symbol: str, grid: tuple[int, int, int], block: tuple[int, int, int], **more: object) -> KernelInput:  # fmt: skip
    given: dict[str, object] = {
        "input_types": ["float" if s else "Scalar" for s in shapes],
        "input_strides": [contiguous(s) for s in shapes],
        **more,
    }
    return KernelInput(
        name=symbol,
        symbol=symbol,
        category="kernel",  # type: ignore[arg-type]
        duration_us=50.0,
        count=1,
        grid=grid,
        block=block,
        op_name=f"aten::{op}",
        input_dims=shapes,
        **given,  # type: ignore[arg-type]
    )


def of_a_warp(kernel: KernelInput) -> float:
    demand = aten.demand(kernel)
    assert demand is not None
    assert demand.issued is not None
    return demand.issued / (math.prod(kernel.grid or ()) * -(-math.prod(kernel.block or ()) // 32))


def test_names_lose_what_versions_change() -> None:
    assert plain(WHOLE) == "vectorized_elementwise_kernel<cudafunctor_add<float>,array<char*,3>>"
    older = WHOLE.replace("std::array<char*, 3ul>", "at::detail::Array<char*, 3>").replace("kernel<4,", "kernel<2,")
    assert plain(older) == plain(WHOLE)
    assert plain("void at::native::(anonymous namespace)::f<c10::Half>(int)") == plain("f<Half>(long)") == "f<half>"


def test_lambdas_and_arguments_of_functions_within_a_name_stay() -> None:
    assert plain(NOCAST).endswith("{lambda(int)#1}>")
    assert plain("f<g(int)::{lambda(float)#1}>(int)") != plain("f<g(int)::{lambda(float)#2}>(int)")


def test_a_row_comes_back() -> None:
    code = Code(66, 24.0, 0.34, 0.1, 0.02, 0.0, 0.05, (Loop(11, 1, 1, 16, 0, 4),))
    assert read(row(WHOLE, code)) == (aten_code.key(WHOLE), code)


def test_unknown_kernels_have_no_code() -> None:
    assert code_of("void at::native::never_heard_of<float>(int)") is None


def test_whole_vectors_as_counted() -> None:
    kernel = launch("add", [[65536, 512], [65536, 512], []], WHOLE, (32768, 1, 1), (128, 1, 1))
    assert of_a_warp(kernel) == 34  # counted


@pytest.mark.parametrize(
    ("shapes", "grid", "counted"),
    [
        ([[500000, 4, 32], [500000, 4, 1]], 250000, 109.0),  # two dimensions
        ([[512, 16, 1024], [1, 16, 1]], 32768, 137.0),  # three: in the middle one the second operand moves
    ],
)
def test_a_further_dimension_costs_a_division(shapes: list[list[int]], grid: int, counted: float) -> None:
    assert of_a_warp(launch("mul", shapes, NOCAST, (grid, 1, 1), (128, 1, 1))) == counted


def test_dimensions_are_sorted_as_the_iterator_does() -> None:
    def of(*strides: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> int:
        return pointwise.dimensions([Tensor(i, s, t, "float", 4) for i, (s, t) in enumerate(zip(shapes, strides))])

    # corners of boxes against corners of others: no two dimensions of both lie one after another
    assert of((4, 4, 1), (128, 128, 4, 1), shapes=((110592, 1, 2), (4, 1, 32, 2))) == 4
    assert of((512, 1), shapes=((64, 512),)) == 1
    assert of((1, 64), shapes=((64, 512),)) == 1  # any order that is dense
    assert of((1024, 1), shapes=((64, 512),)) == 2


def test_launches_tell_what_operands_make_together() -> None:
    symbol = NOCAST.replace("128, 2", "128, 2")
    pair = [[110592, 1, 2], [4, 1, 32, 2]]
    whole = aten.demand(launch("mul", pair, symbol, (110592, 1, 1), (128, 1, 1)))
    assert whole is not None
    assert whole.write == 4 * 110592 * 32 * 2 * 4
    half = aten.demand(launch("mul", pair, symbol, (400, 1, 1), (128, 1, 1)))  # no place for all of them
    assert half is not None
    assert half.write is not None
    assert half.write < whole.write / 100


def test_streamed_loops_run_until_all_is_moved() -> None:
    code = Code(100, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(20, 1, 1, 16, 16), Loop(9, 1, 1, 4, 4)))
    assert of_warp(code, 1, 160.0, 160.0, (1, 1)) == 100 + 10 * 20  # the other loop is what remains
    assert of_warp(code, 1, 0.1, 0.1, (1, 1)) == 100 + 20  # never less than once
    unrolled = Code(100, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(200, 1, 8, 32, 0),))
    assert of_warp(unrolled, 1, 8.0, 0.0, (1, 1)) == 100 + 50  # a quarter of what the compiler unrolled
    inner = Code(52, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(20, 1, 0, 0, 0), Loop(18, 2, 1, 4, 4)))
    assert of_warp(inner, 1, 98.0, 98.0, (1, 1)) == 52 + 20 + 24.5 * 18  # batch normalisation: counted 513


def test_windows_are_trips_of_inner_loops() -> None:
    code = Code(24, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(176, 1, 0, 0, 4), Loop(16, 2, 0, 0, 0), Loop(19, 3, 1, 4, 0)))
    assert of_warp(code, 1, 16.0, 4.0, (3, 9)) == 24 + 176 + 3 * 16 + 9 * 19


@pytest.mark.parametrize(
    ("op", "shapes", "strides", "axis", "dimensions"),
    [
        ("gather", [[384, 256], [], [384, 65536]], [[256, 1], [], [65536, 1]], "1", 2),
        ("gather", [[4, 32, 4], [], [4, 110592, 4]], [[128, 4, 1], [], [110592, 1, 0]], "1", 3),
        ("scatter", [[50000, 1000], [], [50000, 1]], [[1000, 1], [], [1, 1]], "-1", 1),
        ("gather", [[50000], [], [300]], [[1], [], [1]], "-1", 1),
    ],
)
def test_gathers_have_no_stride_where_the_index_tells(op: str, shapes: list[list[int]], strides: list[list[int]], axis: str, dimensions: int) -> None:  # fmt: skip
    kinds = ["float", "Scalar", "long int"]
    kernel = launch(op, shapes, "_scatter_gather_elementwise_kernel", (1, 1, 1), (128, 1, 1), input_types=kinds, input_strides=strides, concrete_inputs=["", axis])  # fmt: skip
    assert pointwise.dimensions(restrided(kernel, tensors(kernel))) == dimensions  # as the counted instructions say


def test_windows_of_unrolled_loops() -> None:
    # avg_pool2d_out_cuda_frame: sixteen taps a trip, up to fifteen in what remains of a row
    code = Code(
        24, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(183, 1, 0, 0, 2), Loop(122, 2, 15, 30, 0), Loop(79, 3, 16, 32, 0))
    )
    assert of_warp(code, 1, 8.0, 2.0, (3, 9)) == pytest.approx(24 + 183 + 3 * 122 * 3 / 15)
    assert of_warp(code, 1, 8.0, 2.0, (2, 64)) == 24 + 183 + 2 * 2 * 79


def test_planes_are_taken_by_the_loop_that_writes_most() -> None:
    # upsample_bilinear2d_out_frame: four planes a trip in single precision, what remains around it
    code = Code(129, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(214, 1, 12, 48, 12), Loop(115, 2, 16, 64, 16)))
    assert of_warp(code, 1, 4096.0, 1024.0, (1, 1)) == 129 + 214 + 64 * 115


@pytest.mark.parametrize(
    ("op", "lists", "window"),
    [
        ("max_pool2d_with_indices", ["[3, 3]", "[2, 2]"], (3, 9)),
        ("avg_pool2d_backward", ["[3, 3]", "[2, 2]"], (2, 4)),  # windows that an element lies in
        ("avg_pool2d_backward", ["[2]", ""], (1, 1)),
        ("im2col", ["[5, 5]", "[1, 1]"], (5, 25)),
        ("adaptive_avg_pool2d", ["[7, 7]"], (1, 1)),  # a size, not a window
        ("relu", [], (1, 1)),
    ],
)
def test_windows_of_ops(op: str, lists: list[str], window: tuple[int, int]) -> None:
    kernel = launch(op, [[8, 64, 56, 56]], "f", (1, 1, 1), (32, 1, 1), concrete_inputs=["", *lists])
    assert taps_of(kernel, tensors(kernel)) == window


def test_reductions_have_the_loops_of_their_code() -> None:
    sum_ = reduction_of(SUM, 4)
    assert (sum_.vector, sum_.strided, sum_.lane, sum_.warp) == (2.75, 5.75, 6, 11)
    largest = reduction_of(MAX, 4)
    assert (largest.vector, largest.strided, largest.lane, largest.warp) == (18.75, 21.5, 23, 32)
    assert largest.alu > sum_.alu
    assert reduction_of("reduction_prod_kernel", 4) == aten_code.SUM


@pytest.mark.parametrize(
    ("op", "symbol", "shape", "given", "grid", "block", "counted"),
    [
        ("sum", SUM, [50000, 1000], "[1]", (3125, 1, 1), (32, 16, 1), 285),
        ("sum", SUM, [65536, 512], "[1]", (4096, 1, 1), (32, 16, 1), 240),
        ("max", MAX, [50000, 1000], "1", (3125, 1, 1), (32, 16, 1), 957),
        ("max", MAX, [4, 110592, 32], "-1", (27648, 1, 1), (32, 16, 1), 359),
        ("prod", "reduction_prod_kernel", [4, 110592, 32, 2], "-1", (55296, 1, 1), (2, 256, 1), 157),
        ("sum", BY_FOUR, [784, 768], "[0]", (6, 1, 1), (32, 4, 1), 2173),
        ("sum", BY_FOUR, [512, 1024], "[0]", (8, 1, 1), (32, 4, 1), 1510),
    ],
)
def test_reductions_as_counted(op: str, symbol: str, shape: list[int], given: str, grid: tuple[int, int, int], block: tuple[int, int, int], counted: float) -> None:  # fmt: skip
    kernel = launch(op, [shape, []], symbol, grid, block, concrete_inputs=["", given])
    assert of_a_warp(kernel) == pytest.approx(counted, rel=0.12)


def test_dimensions_that_a_reduction_removes() -> None:
    def of(op: str, *given: str) -> set[int]:
        return reduced_dimensions(launch(op, [[4, 5, 6]], SUM, (1, 1, 1), (32, 1, 1), concrete_inputs=["", *given]), 3)

    assert of("sum", "[-1]", "False") == {2}
    assert of("sum", "[]", "False") == of("sum") == {0, 1, 2}
    assert of("max", "-2", "False") == {1}
    assert of("norm", "2", "[0]", "False") == {0}  # the first number is the order of the norm


def test_the_integer_unit_of_a_reduction() -> None:
    kernel = launch("max", [[50000, 1000]], MAX, (3125, 1, 1), (32, 16, 1), concrete_inputs=["", "1"])
    issued, alu = reduced(kernel, 5e7, 3125 * 512, tensors(kernel)[0], aten.OTHER)
    assert alu / issued == pytest.approx(0.61, abs=0.06)  # counted


@pytest.mark.parametrize(
    ("shape", "block", "counted"), [([65536, 512], (16, 32, 1), 2896), ([50000, 5], (512, 1, 1), 352)]
)
def test_scans_as_counted(shape: list[int], block: tuple[int, int, int], counted: float) -> None:
    kernel = launch("cumsum", [shape, [], []], "tensor_kernel_scan_innermost_dim<float>", (1, 1, 1), block)
    issued, clocks = scanned(kernel, tensors(kernel)[0])
    warps = shape[0] * block[0] / 32
    assert issued / warps == pytest.approx(counted, rel=0.03)
    assert clocks > 0


def test_parts_of_sectors_are_fetched_and_written_whole() -> None:
    shape = [128, 224, 224]
    one = launch("fill_", [shape, []], NOCAST, (25088, 1, 1), (128, 1, 1), input_strides=[[150528, 672, 3], []])
    demand = aten.demand(one)
    assert demand is not None
    assert demand.write == 3 * 128 * 224 * 224 * 4
    assert demand.fetched == demand.write
    dense = aten.demand(launch("fill_", [shape, []], NOCAST, (25088, 1, 1), (128, 1, 1)))
    assert dense is not None
    assert (dense.write, dense.fetched) == (128 * 224 * 224 * 4, 0.0)


def test_operands_that_do_not_broadcast_are_not_multiplied() -> None:
    # a normalisation's weights lie along the channels, not the last dimension
    symbol = NOCAST.replace("BinaryFunctor", "GroupNormKernelImplInternal")
    kernel = launch("native_group_norm", [[4, 256, 96, 128], [256], [256]], symbol, (49152, 1, 1), (128, 1, 1))
    demand = aten.demand(kernel)
    assert demand is not None
    assert demand.write == 4 * 256 * 96 * 128 * 4


def test_loops_that_only_read_are_passes() -> None:
    # cunn_SoftMaxForward: maximum, sum, result, each in vectors and then what remains; counted 1488 for 32,000 halves a row
    passes = (Loop(22, 1, 1, 16, 0), Loop(7, 1, 1, 2, 0), Loop(88, 1, 1, 16, 0), Loop(17, 1, 1, 2, 0), Loop(170, 1, 1, 16, 16), Loop(29, 1, 1, 2, 2))  # fmt: skip
    code = Code(311, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, passes)
    row = 32000 * 2 / 1024
    assert of_warp(code, 1, row, row, (1, 1)) == pytest.approx(311 + row / 16 * (22 + 88 + 170))


def test_a_pointwise_kernel_of_cat_copies_one_part() -> None:
    copy = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::Half)#1}>(at::TensorIteratorBase&, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::Half)#1} const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::Half)#1}>(at::TensorIteratorBase&, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::Half)#1} const&)::{lambda(int)#1})"
    part = [2, 32, 64, 96, 96]
    kernel = launch("cat", [[part, part], []], copy, (73728, 1, 1), (128, 1, 1), input_types=["TensorList", "Scalar"], input_strides=None)  # fmt: skip
    demand = aten.demand(kernel)
    assert demand is not None
    assert demand.read == demand.write == math.prod(part) * 2  # the type is in the name alone
    assert of_a_warp(kernel) == 170  # counted: two dimensions


@pytest.mark.parametrize(
    ("symbol", "each"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, F>(int)", 8),
        ("void at::native::vectorized_elementwise_kernel<16, F>(int)", 16),
        ("unrolled_elementwise_kernel<F, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>>", 4),
        ("void at::native::elementwise_kernel<128, 2, F>(int)", 2),
        ("void at::native::reduce_kernel<512, 1, F>(int)", None),
    ],
)
def test_elements_that_a_thread_has_places_for(symbol: str, each: int | None) -> None:
    assert pointwise.most_of_thread(symbol) == each


@pytest.mark.parametrize(
    ("symbol", "size"),
    [
        ("f<OpaqueType<8u>, unsigned>", 8),
        ("{lambda(c10::BFloat16)#1}", 2),
        ("{lambda(unsigned char)#1}", 1),
        ("f", None),
    ],
)
def test_bytes_of_what_is_copied_are_in_the_name(symbol: str, size: int | None) -> None:
    assert aten.element_bytes(symbol) == size


@pytest.mark.parametrize(("size", "items", "bits"), [("float", 32, 32), ("c10::Half", 4, 16)])
def test_sorts_of_slices_go_over_four_bits_in_a_pass(size: str, items: int, bits: int) -> None:
    symbol = f"void at::native::radixSortKVInPlace<2, -1, 32, {items}, {size}, long, unsigned int>(int)"
    code = code_of(symbol)
    assert code is not None
    longest = max(x.instructions for x in code.loops)
    each = aten_code.in_passes(symbol, bits // 4)
    assert each == code.once + sum(x.instructions for x in code.loops) + (bits // 4 - 1) * longest
    kernel = launch("topk", [[4096, 32768], []], symbol, (4096, 1, 1), (32, 1, 1), input_types=[size, "Scalar"])
    demand = aten.demand(kernel)
    assert demand is not None
    assert demand.issued == 4096 * each
    assert demand.read == 4096 * 32 * items * (bits // 8 + 8)  # of what was chosen, not of the whole slices
    assert aten_code.in_passes("radixSortKVInPlace<2, -1, 32, 5, float, long>", 8) is None


def test_passes_within_a_loop() -> None:
    # cunn_SpatialSoftMaxForward: maximum and sum read the whole dimension, the third pass reads and writes it
    inner = (Loop(10, 3, 1, 4, 0), Loop(11, 3, 0, 0, 0), Loop(18, 3, 1, 4, 0), Loop(20, 3, 1, 4, 4))
    code = Code(27, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, (Loop(13, 1, 0, 0, 0), Loop(45, 2, 0, 0, 0), *inner))
    trips = 56.0 / 4
    assert of_warp(code, 1, 56.0, 56.0, (1, 1)) == 27 + 13 + 45 + trips * (10 + 18 + 20)
