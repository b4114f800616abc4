"""Small generated files as Inductor writes them, for the tests of the benchmark."""

from __future__ import annotations

CPP = """# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
async_compile = AsyncCompile()


cpp_fused_sin_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r\'\'\'
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
}
\'\'\')


async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    args.clear()
    assert_size_stride(arg0_1, (2, 17), (17, 1))
    buf0 = empty_strided_cpu((2, 17), (17, 1), torch.float32)
    cpp_fused_sin_0(arg0_1, buf0)
    return (buf0, )
"""
CALL_LINE = 1 + CPP[: CPP.index("    cpp_fused_sin_0(")].count("\n")

GOOD = """

def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((2, 17), (17, 1), device='cpu', dtype=torch.float32)
    return [arg0_1]


def benchmark_compiled_module(args, times=10, repeat=10):
    from torch._inductor.utils import print_performance
    fn = lambda: call(list(args))
    return print_performance(fn, times=times, repeat=repeat)


if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    args = get_args()
    compiled_module_main('None', lambda times, repeat: benchmark_compiled_module(args, times=times, repeat=repeat))
"""
UNQUOTED = GOOD.replace("device='cpu'", "device=cpu:0")
BRACES = GOOD.replace("rand_strided((2, 17), (17, 1)", "rand_strided({2, 17}, {17, 1}")
DO_BENCH = GOOD.replace("import print_performance", "import do_bench, print_performance")

USER_KERNEL = """
import triton
import triton.language as tl

@triton_heuristics.user_autotune(
    configs=[{'num_warps': 4}],
    inductor_meta={'grid_type': 'Grid1D', 'max_autotune': False},
    triton_meta={'signature': {'x_ptr': '*fp32', 'y_ptr': '*fp32', 'n': 'i32'}, 'device': None},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def scale_kernel(x_ptr, y_ptr, n):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, halve(tl.load(x_ptr + offs, mask=offs < n)), mask=offs < n)
"""


def user_module() -> str:
    """A module whose user kernel refers to a constant and a helper of the user's file, and is called with ``None``."""
    return (
        "# AOT ID: ['0_inference']\nimport torch\nasync_compile = AsyncCompile()\n\n\n"
        "# Original path: /home/me/model.py:20\n"
        f"scale_kernel_0 = async_compile.triton('scale_kernel', '''{USER_KERNEL}''', device_str='cuda')\n\n\n"
        "async_compile.wait(globals())\n\ndef call(args):\n    arg0_1, = args\n    args.clear()\n"
        "    assert_size_stride(arg0_1, (64, ), (1, ))\n"
        "    scale_kernel_0.run(arg0_1, None, 64, stream=stream0)\n    return (arg0_1, )\n"
    )
