"""Plans of modules that are out of the ordinary: several indices, frozen weights, branches, damaged files."""

from __future__ import annotations

import warnings
from random import Random

import pytest

import bench_modules as modules
from ridgeline.bench import bounds, document, harness, plan
from ridgeline.bench.bytes import harness_bytes

LOOKED_UP = """
    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
    auto tmp1 = tmp0;
    auto tmp2 = c10::convert<int64_t>(tmp1);
    TORCH_CHECK((0 <= tmp2) & (tmp2 < 5000L), "index out of bounds: 0 <= tmp2 < 5000L");
    auto tmp4 = in_ptr1[static_cast<int64_t>(x1 + 64L*tmp0)];
    auto tmp0 = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr2 + static_cast<int64_t>(x1 + 9L*x0), static_cast<int64_t>(9L));
    auto tmp1 =
    [&]
    {
        tmp0.store(tmpbuf.data(), static_cast<int64_t>(9L));
    }
    ()
    ;
    TORCH_CHECK((at::vec::VecMask<int64_t,2>(tmp1 < 20)).all_masked(), "index out of bounds: 0 <= tmp1 < 20L");
    auto tmp0 = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
    auto tmp1 = static_cast<int64_t>(50);
    auto tmp2 = remainder_integral(tmp0, tmp1);
    TORCH_CHECK((0 <= tmp2) & (tmp2 < 50L), "index out of bounds: 0 <= tmp2 < 50L");
"""
WRAPPED = """
    tmp0 = tl.load(in_ptr3 + (x1), xmask, eviction_policy='evict_last')
    tmp6 = tl.load(in_ptr4 + (x0), xmask)
    tmp1 = tl.full([XBLOCK], 512, tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((0 <= tmp4) & (tmp4 < 512)) | ~(xmask), "index out of bounds: 0 <= tmp4 < 512")
    tmp5 = tl.load(in_ptr1 + (x0 + 64*tmp4), xmask)
    tmp7 = tl.full([XBLOCK], 30, tl.int32)
    tmp8 = tmp6 + tmp7
    tmp9 = tmp6 < 0
    tmp10 = tl.where(tmp9, tmp8, tmp6)
    tmp11 = tl.load(in_ptr5 + (tmp10), xmask)
"""


def test_each_index_has_a_bound_of_its_own() -> None:
    """A table of 5,000 rows beside one of 20: random numbers below 20 would read the large one from the cache."""
    assert bounds.by_pointer(LOOKED_UP) == {"in_ptr0": 5000, "in_ptr2": 20}
    assert bounds.of(LOOKED_UP) == 20
    assert bounds.by_pointer(WRAPPED) == {"in_ptr3": 512, "in_ptr4": 30}  # the second states no more than what it adds
    assert bounds.by_pointer("") == {}


def test_an_input_is_made_below_the_bound_of_its_own_kernel() -> None:
    text = INDEXED.replace(
        "in_ptr0[x0];",
        'in_ptr0[x0];\n    TORCH_CHECK((0 <= tmp0) & (tmp0 < 700L), "index out of bounds: 0 <= tmp0 < 700L");',
    )
    read = plan.read(text, "/x/c.py")
    assert read.kernels[0].sites[0].arguments[0]["bound"] == 700
    assert read.inputs is not None
    assert [one.get("bound") for one in read.inputs] == [700, None]


INDEXED = """# AOT ID: ['0_inference']
import torch
async_compile = AsyncCompile()


cpp_fused_index_0 = async_compile.cpp_pybinding(['const int64_t*', 'const float*', 'float*'], r'''
extern "C"  void  kernel(const int64_t* in_ptr0, const float* in_ptr1, float* out_ptr0)
{
    auto tmp0 = in_ptr0[x0];
    out_ptr0[x0] = in_ptr1[tmp0];
}
''')


async_compile.wait(globals())

def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)
    cpp_fused_index_0(reinterpret_tensor(arg0_1, (8, ), (1, ), 0), arg1_1, buf0)
    return (buf0, )


def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((2, 4), (4, 1), device='cpu', dtype=torch.int64)
    arg1_1 = rand_strided((700, ), (1, ), device='cpu', dtype=torch.float32)
    return [arg0_1, arg1_1]
"""


FROZEN = """# AOT ID: ['0_inference']
import torch
async_compile = AsyncCompile()
_frozen_param1 = None  # device(type='cpu') torch.float32 (128,) (1,) 7f0cb5bb3e80
_frozen_param3 = None  # device(type='cuda', index=0) torch.int64 (4, 8) (1, 4) 7f0cb5bb3390
odd = None


cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0) {}
''')


async_compile.wait(globals())

def call(args):
    arg0_1, = args
    args.clear()
    buf0 = empty_strided_cpu((128, ), (1, ), torch.float32)
    cpp_fused_add_0(_frozen_param1, buf0)
    cpp_fused_add_0(odd, buf0)
    return (buf0, )


"""


@pytest.mark.parametrize("harness_too", [False, True])
def test_frozen_weights_are_made_in_the_shape_that_the_file_says(harness_too: bool) -> None:
    """From the comments where they stand; a harness gives them as globals."""
    text = FROZEN
    if harness_too:
        text = text.replace(
            "_frozen_param1 = None  # device(type='cpu') torch.float32 (128,) (1,) 7f0cb5bb3e80",
            "_frozen_param1 = None",
        )
        text += """def get_args():
    from torch._dynamo.testing import rand_strided
    global _frozen_param1
    _frozen_param1 = rand_strided((128, ), (1, ), device='cpu', dtype=torch.float32)
    arg0_1 = rand_strided((1, ), (1, ), device='cpu', dtype=torch.float32)
    return [arg0_1]
"""
    read = plan.read(text, "/x/c.py")
    assert read.constants["_frozen_param1"] == harness.tensor([128], [1], "float32", "cpu")
    assert read.constants["_frozen_param3"] == harness.tensor([4, 8], [1, 4], "int64", "cuda:0")
    first, second = read.kernels[0].sites
    assert (first.problem, first.arguments[0]) == (None, read.constants["_frozen_param1"])
    assert (
        second.problem
        == "odd is a value of the program's (a frozen weight, a constant), which the file does not describe"
    )
    assert (len(read.inputs or []), len(read.harness.inputs)) == (int(harness_too), int(harness_too))


BRANCHES = """# AOT ID: ['0_inference']
import torch
async_compile = AsyncCompile()


cpp_fused_sin_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0) {}
''')
cpp_fused_cos_1 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0) {}
''')

def true_graph_0(args):
    true_graph_0_arg0_1, = args
    args.clear()
    assert_size_stride(true_graph_0_arg0_1, (40, ), (1, ), 'input')
    true_graph_0_buf0 = empty_strided_cpu((40, ), (1, ), torch.float32)
    cpp_fused_sin_0(true_graph_0_arg0_1, true_graph_0_buf0)
    return (true_graph_0_buf0, )


async_compile.wait(globals())

class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        assert_size_stride(arg0_1, (40, ), (1, ), 'input')
        assert_size_stride(arg1_1, (8, ), (1, ), 'input')
        if arg0_1.item():
            true_graph_0_args = [arg0_1,]
            buf2 = true_graph_0(true_graph_0_args)
        else:
            buf3 = empty_strided_cpu((8, ), (1, ), torch.float32)
            cpp_fused_cos_1(arg1_1, buf3)
        return (buf2[0], )
"""


def test_the_branches_of_a_condition_are_calls_too() -> None:
    """Whichever branch the inputs take, and with the inputs of ``call`` as the module's own."""
    read = plan.read(BRANCHES, "/x/c.py")
    sites = {kernel.name: kernel.sites for kernel in read.kernels}
    assert [(s.line, s.problem, s.arguments[0]["size"]) for s in sites["cpp_fused_sin_0"]] == [(18, None, [40])]
    assert [(s.line, s.problem, s.arguments[0]["size"]) for s in sites["cpp_fused_cos_1"]] == [(35, None, [8])]
    assert [one["size"] for one in read.inputs or []] == [[40], [8]]


def test_a_damaged_file_is_read_or_refused_in_one_line() -> None:
    """Cut, with characters that belong nowhere, with lines exchanged: a plan or ``PlanError``, nothing else."""
    random = Random(7)
    texts = [modules.CPP + modules.GOOD, modules.user_module(), INDEXED, FROZEN, BRANCHES, modules.USER_KERNEL]
    refused: list[str] = []
    for number in range(600):
        text = random.choice(texts)
        at = random.randrange(len(text))
        if number % 3 == 0:
            text = text[:at]
        elif number % 3 == 1:
            text = (
                text[:at] + random.choice(["\0", "(", ")", "'''", "\n", "-1", "9" * 30, "007", "u0"]) + text[at + 2 :]
            )
        else:
            rows = text.splitlines(keepends=True)
            one, other = random.randrange(len(rows)), random.randrange(len(rows))
            rows[one], rows[other] = rows[other], rows[one]
            text = "".join(rows)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read = plan.read(text, "/x/c.py", {"u0": 3})
        except plan.PlanError as error:
            refused.append(str(error))
            continue
        document.request(read, path="/t/x.py", caches=["cold"], timeout_s=1, verify=True)
        document.build(read, {}, verify=True)
    assert 0 < len(refused) < 600
    assert not any("\n" in message for message in refused)


def test_sizes_and_strides_that_do_not_fit_have_no_bytes() -> None:
    text = BRANCHES.replace("empty_strided_cpu((8, ), (1, )", "empty_strided_cpu((8, 2), (1, )")
    (site,) = next(kernel.sites for kernel in plan.read(text, "/x/c.py").kernels if kernel.name == "cpp_fused_cos_1")
    assert site.problem == "a size is not understood"
    assert harness_bytes({"size": [8, 2], "stride": [1], "dtype": "float32"}) is None
