"""Multi-kernels: every member is measured on its own arguments, and the fastest is named for each state of the cache."""

from __future__ import annotations

import ast
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from bench_inside import load_inside
from ridgeline.bench import document, multi, plan


def kernel(name: str, pointers: str) -> str:
    """The definition of a Triton kernel with that many pointers and a size."""
    names = [f"{kind}_ptr{n}" for n, kind in enumerate(pointers.split())]
    signature = ", ".join([*(f"'{one}': '*fp32'" for one in names), "'xnumel': 'i32'"])
    return (
        f"{name} = async_compile.triton('{name}', '''\nimport triton\n\n@triton_heuristics.reduction(\n"
        f"    inductor_meta={{'kernel_name': '{name}'}},\n    triton_meta={{'signature': {{{signature}}}}},\n)\n"
        f"@triton.jit\ndef {name}({', '.join(names)}, xnumel):\n    pass\n''', device_str='cuda')\n\n\n"
    )


MODULE = (
    "# AOT ID: ['0_inference']\nimport torch\nasync_compile = AsyncCompile()\n\n\n"
    + kernel("triton_red_fused_sum_0", "in in out")
    + kernel("triton_per_fused_sum_1", "in out")
    + """arg_index = {
    0: [slice(0, 4, None)],
    1: [slice(0, 1, None), slice(2, 4, None)],
}
multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', [
    triton_red_fused_sum_0,
    triton_per_fused_sum_1,
], arg_index=arg_index)


async_compile.wait(globals())

def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    assert_size_stride(arg0_1, (64, 32), (32, 1))
    assert_size_stride(arg1_1, (64, ), (1, ))
    buf0 = empty_strided_cuda((64, ), (1, ), torch.float32)
    multi_kernel_0.run(arg0_1, arg1_1, buf0, 64, stream=stream0)
    return (buf0, )
"""
)


def test_each_member_gets_the_arguments_that_the_call_keeps_for_it() -> None:
    read = plan.read(MODULE, "/x/c.py")
    sites = {one.name: one.sites for one in read.kernels}
    assert set(sites) == {"triton_red_fused_sum_0", "triton_per_fused_sum_1"}
    line = next(n for n, row in enumerate(MODULE.splitlines(), 1) if "multi_kernel_0.run(" in row)
    assert [(s.line, s.names, s.problem) for s in sites["triton_red_fused_sum_0"]] == [
        (line, ["arg0_1", "arg1_1", "buf0", "64"], None)
    ]
    assert [s.names for s in sites["triton_per_fused_sum_1"]] == [["arg0_1", "buf0", "64"]]
    asked = document.request(read, path="/t/c.py", caches=["cold"], timeout_s=1, verify=False)
    assert asked["multi"] == {"multi_kernel_0": ["triton_red_fused_sum_0", "triton_per_fused_sum_1"]}


def test_without_an_index_every_member_takes_all() -> None:
    older = MODULE.replace("], arg_index=arg_index)", "])")
    read = plan.read(older, "/x/c.py")
    assert [len(one.sites[0].arguments) for one in read.kernels] == [4, 4]
    odd = ast.parse(
        "arg_index = {0: [slice(f(), 3)]}\nm = async_compile.multi_kernel('m', [a, b], arg_index=arg_index)"
    )
    assert multi.choices(odd)["m"].index == {}


def taken(micro: float) -> dict[str, Any]:
    seconds = [micro * 1e-6 * part for part in (0.99, 1.0, 1.0, 1.01)]
    return {"seconds": seconds, "calls": 1, "tick_s": 0.0, "clock": "cuda events"}


def test_the_fastest_is_named_and_a_tie_is_one() -> None:
    read = plan.read(MODULE, "/x/c.py")
    rows = {
        "triton_red_fused_sum_0": {"problem": None, "cold": taken(90.9), "warm": taken(50.7)},
        "triton_per_fused_sum_1": {"problem": None, "cold": taken(54.7), "warm": taken(51.2)},
    }
    (choice,) = document.build(read, {"kernels": rows}, verify=False)["multi_kernels"]
    assert choice["cold"]["sentence"] == "cold cache: triton_per_fused_sum_1 is fastest"
    assert choice["cold"]["slower"]["triton_red_fused_sum_0"] == pytest.approx(1.66, abs=0.005)
    assert choice["warm"]["sentence"] == "warm cache: tie"
    del rows["triton_per_fused_sum_1"]
    (choice,) = document.build(read, {"kernels": rows}, verify=False)["multi_kernels"]
    assert choice["cold"] is None


def test_in_the_run_every_member_is_measured_once_and_the_call_goes_on() -> None:
    pytest.importorskip("torch")
    load_inside()
    kernels = importlib.import_module("_ridgeline_bench.kernels")
    measured: list[Any] = []
    ran: list[Any] = []
    measuring = SimpleNamespace(request={"path": "/x/c.py"}, rows={}, wanted={"red": {}, "per": {}})

    def take(name: str, kernel: Any, given: list[Any], named: dict[str, Any], origin: str, line: int | None) -> None:
        measured.append((name, kernel, given))
        measuring.rows[name] = {}

    measuring.take = take
    several = SimpleNamespace(
        kernels=["R", "P"],
        _get_filtered_args=lambda given, index: given[: 3 - index],
        run=lambda *given, **named: ran.append(given),
    )
    proxy = kernels.MultiProxy(["red", "per"], several, measuring)
    proxy.run(1, 2, 3, stream=0)
    proxy.run(4, 5, 6, stream=0)
    assert measured == [("red", "R", [1, 2, 3]), ("per", "P", [1, 2])]
    assert ran == [(1, 2, 3), (4, 5, 6)]
