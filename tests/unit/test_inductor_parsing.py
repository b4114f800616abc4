"""Generated modules, kernel files, kernel names and TORCH_TRACE logs, read as text."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from ridgeline.attribution import _read_log
from ridgeline.attribution.builder import Builder
from ridgeline.inductor.files import GeneratedFiles
from ridgeline.inductor.kernel_file import parse_kernel_file
from ridgeline.inductor.module import is_wrapper, op_name, parse_wrapper
from ridgeline.inductor.names import is_generic, split_ops, split_site, strip_addresses, take_apart
from ridgeline.inductor.provenance import parse_provenance, read_provenance

WRAPPER = """\
# AOT ID: ['3_backward']
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()


# kernel path: /tmp/torchinductor_me/ab/cabc.py
# Topologically Sorted Source Nodes: [h, y], Original ATen: [aten.relu, aten.add]
triton_poi_fused_add_relu_0 = async_compile.triton('triton_poi_fused_add_relu_0', \'\'\'
@triton.jit
def triton_poi_fused_add_relu_0(in_ptr0):
    triton_not_a_call.run(in_ptr0)
\'\'\', device_str='cuda')


# Original path: /home/me/model.py:20
mine_0 = async_compile.triton('mine', \'\'\'
@triton.jit
def mine(x):
    pass
\'\'\', device_str='cuda')

cpp_fused_mul_1 = async_compile.cpp_pybinding(['const float*'], r\'\'\'
void kernel() { extern_kernels.mm(a); }
\'\'\')


def partition_0(args):
    # [Provenance debug handles] extern_kernels.mm:2
    extern_kernels.mm(a, b, out=buf1)


class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        arg0_1, = args
        # Topologically Sorted Source Nodes: [h, y], Original ATen: [aten.relu, aten.add]
        # [Provenance debug handles] triton_poi_fused_add_relu_0:1
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_relu_0.run(arg0_1, 64, stream=stream0)
        (buf1,) = self.partitions[0](partition0_args)
        # [Provenance debug handles] cpp_fused_mul_1:3
        cpp_fused_mul_1(buf1)
        # [Provenance debug handles] torch.ops.aten.sort.stable:4
        buf2 = torch.ops.aten.sort.stable(buf1, stable=False)
        buf3 = buf2[0]
        # [Provenance debug handles] mine_0:5
        mine_0.run(buf3, stream=stream0)
        return (buf3, )


def benchmark_compiled_module(args):
    extern_kernels.mm(never)
"""


def test_call_sites_in_the_order_of_execution() -> None:
    module = parse_wrapper(WRAPPER, "m.py")
    assert module.kind == "backward"
    assert [(c.callee, c.kind, c.handle) for c in module.calls] == [
        ("triton_poi_fused_add_relu_0", "kernel", "triton_poi_fused_add_relu_0:1"),
        ("extern_kernels.mm", "extern", "extern_kernels.mm:2"),
        ("cpp_fused_mul_1", "kernel", "cpp_fused_mul_1:3"),
        ("torch.ops.aten.sort.stable", "fallback", "torch.ops.aten.sort.stable:4"),
        ("mine_0", "kernel", "mine_0:5"),
    ]
    rows = WRAPPER.split("\n")
    for call in module.calls:
        assert call.callee in rows[call.line - 1]
    assert module.calls[0].aten == ("aten.relu", "aten.add")
    assert module.calls[0].nodes == ("h", "y")


def test_definitions_with_their_files() -> None:
    kernels = parse_wrapper(WRAPPER, "m.py").kernels
    assert set(kernels) == {"triton_poi_fused_add_relu_0", "mine_0", "cpp_fused_mul_1"}
    assert kernels["triton_poi_fused_add_relu_0"].path == "/tmp/torchinductor_me/ab/cabc.py"
    assert kernels["triton_poi_fused_add_relu_0"].body_line == 10
    assert (kernels["mine_0"].symbol, kernels["mine_0"].original_path, kernels["mine_0"].original_line) == (
        "mine",
        "/home/me/model.py",
        20,
    )
    assert kernels["mine_0"].path is None, "comments of one definition do not reach the next"


@pytest.mark.parametrize(
    "text", ["", "def call(args):\n", "\x00\xff", "x = async_compile.triton('a', '''\nnever closed", "    class\n  def"]
)
def test_odd_text_is_read_without_an_error(text: str) -> None:
    assert parse_wrapper(text, "m.py").calls == []


def test_a_torn_module_keeps_what_stands_before() -> None:
    assert [c.line for c in parse_wrapper(WRAPPER[: WRAPPER.index("        buf3 =")], "m.py").calls][:2] == [41, 29]


def test_ops_of_library_calls() -> None:
    assert op_name("extern_kernels.addmm") == "aten::addmm"
    assert op_name("torch.ops.mylib.attend.default") == "mylib::attend"
    assert op_name("aten.sort.stable") == "aten::sort"
    assert op_name("triton_poi_fused_add_0") is None


def test_kernel_file() -> None:
    text = (
        "import triton\n@triton_heuristics.persistent_reduction(\n    size_hints={'x': 1},\n"
        "    inductor_meta={'kernel_name': 'triton_per_fused_sum_0'},\n)\n@triton.jit\ndef triton_(x):\n    pass\n"
    )
    kernel = parse_kernel_file(text, "k.py")
    assert kernel is not None
    assert (kernel.symbol, kernel.kernel_name, kernel.line, kernel.heuristic) == (
        "triton_",
        "triton_per_fused_sum_0",
        7,
        "persistent_reduction",
    )
    assert not is_wrapper(text)
    assert parse_kernel_file("x = 1\n", "k.py") is None


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("triton_per_fused__softmax_add_3", "persistent reduction: softmax, add"),
        ("triton_poi_fused_add_copy__244", "pointwise: add, copy"),
        ("triton_red_fused__to_copy_gelu_native_layer_norm_3", "reduction: to_copy, gelu, native_layer_norm"),
        ("graph_0_cpp_fused__softmax_add_mul_relu_sum_0", "C++ kernel: softmax, add, mul, relu, sum"),
        ("triton_for_fused_0", "foreach"),
        ("triton_tem_fused_addmm_relu_1", "template: addmm, relu"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"),
    ],
)
def test_names_for_people(name: str, label: str) -> None:
    assert take_apart(name).label == label


def test_names_that_say_nothing() -> None:
    assert all(is_generic(n) for n in ("triton_", "triton__0d1d2d3", "triton__0d1d2d3de4"))
    assert not any(is_generic(n) for n in ("triton_poi_fused_add_0", "softmax_kernel"))
    assert split_ops("_log_softmax_backward_data_add") == ("_log_softmax_backward_data", "add")


def test_an_instrumented_call_names_its_line() -> None:
    assert split_site("extern_kernels.mm@120#cabc") == ("extern_kernels.mm", 120, "cabc")
    assert split_site("aten::mm") is None
    assert strip_addresses("<built-in method f of type object at 0x7f12>") == "<built-in method f of type object>"


def test_public_log_with_handles(cases: Path) -> None:
    """UP-36: definitions, launches and library calls of a known module."""
    log = read_provenance(cases / "data" / "tlp" / "inductor_provenance_jit_debug_handle_log.txt")
    (graph,) = log.graphs
    assert graph.module is not None
    assert [k.body_line for k in graph.module.kernels.values()] == [69, 114, 159]
    assert [c.line for c in graph.module.calls if c.kind == "kernel"] == [204, 211, 223]
    assert [c.line for c in graph.module.calls if c.kind == "extern"] == [197, 216]
    assert {c.handle for c in graph.module.calls} == set(graph.kernel_stacks)


def _record(head: dict[str, object], payload: str | None = None) -> str:
    text = f"V1129 12:29:22.345000 455 torch/_x.py:1] {json.dumps({'frame_id': 0, 'frame_compile_id': 0, **head})}\n"
    return text + "".join(f"\t{line}\n" for line in (payload or "").split("\n") if payload is not None)


def _log(stacks: str) -> str:
    return (
        _record({"inductor_output_code": {"filename": "/tmp/x/cabc.py"}}, WRAPPER)
        + _record({"artifact": {"name": "inductor_provenance_tracking_kernel_stack_traces"}}, stacks)
        + _record({"artifact": {"name": "fx_graph_cache_miss"}}, json.dumps({"key": "fkey"}))
    )


def test_log_of_one_graph() -> None:
    log = parse_provenance(_log(json.dumps({"extern_kernels.mm:2": ['  File "a.py", line 3, in f\n    x\n']})))
    (graph,) = log.graphs
    assert (graph.path, graph.fx_key, graph.compile_id) == ("/tmp/x/cabc.py", "fkey", "0/0")
    assert set(graph.kernel_stacks) == {"extern_kernels.mm:2"}


def test_a_damaged_payload_costs_only_itself() -> None:
    log = parse_provenance(_log('{"extern_kernels.mm:2": ["') + "V1129 12:29:22.345000 455 torch/_x.py:1] {broken\n")
    assert log.skipped == 2
    assert (log.graphs[0].kernel_stacks, log.graphs[0].fx_key) == ({}, "fkey")


def test_corrupted_public_log_is_read(cases: Path) -> None:
    """UP-70: one payload lost its closing brace; the graphs are as in the whole one, and it is named."""
    whole = read_provenance(cases / "data" / "tlp" / "simple.log")
    damaged = read_provenance(cases / "data" / "tlp" / "simple_corrupted_json.log")
    assert [g.path for g in damaged.graphs] == [g.path for g in whole.graphs]
    (graph,) = damaged.graphs
    assert graph.module is not None
    assert len([k for k in graph.module.kernels.values() if k.how == "triton"]) == 2
    assert (whole.events, damaged.events) == (50, 49)
    assert (whole.damaged, damaged.damaged) == ([], [("6762d47fdbf80071626529f25dc69013", 13)])
    builder = Builder(0)
    _read_log(cases / "data" / "tlp" / "simple_corrupted_json.log", builder)
    (note,) = builder.notes
    assert "payload 6762d47fdbf80071626529f25dc69013 of line 13" in note


def test_a_cut_archive_of_a_log(tmp_path: Path) -> None:
    packed = gzip.compress((_log("{}") * 50).encode())
    path = tmp_path / "t.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    log = read_provenance(path)
    assert log.truncated


def test_an_archive_is_read_in_memory_and_links_are_not_followed(tmp_path: Path) -> None:
    archive = tmp_path / "generated.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        data = WRAPPER.encode()
        member = tarfile.TarInfo("../../evil/cabc.py")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("x/clink.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    files = GeneratedFiles(archive)
    assert files.text("/anywhere/ab/cabc.py") == WRAPPER
    assert files.text("x/clink.py") is None
    assert files.skipped == 1
    assert list(tmp_path.iterdir()) == [archive]
    assert list(files.wrappers()) == ["cabc.py"]


CPP_WRAPPER = """\

import torch
from torch._inductor.codecache import CppWrapperCodeCache

cpp_wrapper_src = (
r'''
extern "C"  void  cpp_fused_add_0(float* in_out_ptr0);
static inline void call_triton_poi_fused_mul_1(const AtenTensorHandle x) {
    launchKernel(kernels.triton_poi_fused_mul_1, 1, 1, 1);
}
void inductor_entry_impl(AtenTensorHandle* input_handles) {
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(2, int_array_0));
    // Topologically Sorted Source Nodes: [matmul], Original ATen: [aten.mm]
    // [Provenance debug handles] aoti_torch_cpu_mm_out:1
    {
    KernelContextGuard _ctx("aoti_torch_cpu_mm_out", R"(
  File "/home/me/model.py", line 7, in block
)");
    RAIIAtenRecordFunctionHandle record_("aoti_torch_cpu_mm_out", nullptr);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf0, arg0_1, arg1_1));
    }
    // [Provenance debug handles] cpp_fused_add_0:2
    cpp_fused_add_0((float*)(buf3.data_ptr()));
    // Topologically Sorted Source Nodes: [h, y], Original ATen: [aten.mul, aten.relu]
    // [Provenance debug handles] triton_poi_fused_mul_1:3
    call_triton_poi_fused_mul_1(buf3);
    // [Provenance debug handles] cpp_fused_lost_4:4
} // inductor_entry_impl
''')
"""


def test_the_calls_of_a_cpp_wrapper_are_read_from_its_comments() -> None:
    assert is_wrapper(CPP_WRAPPER)
    module = parse_wrapper(CPP_WRAPPER, "/tmp/c.py")
    rows = CPP_WRAPPER.splitlines()
    read = [(call.callee, call.kind, call.handle, call.op, rows[call.line - 1].strip()) for call in module.calls]
    assert read == [
        (
            "aoti_torch_cpu_mm_out",
            "extern",
            "aoti_torch_cpu_mm_out:1",
            "aten::mm",
            "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf0, arg0_1, arg1_1));",
        ),
        ("cpp_fused_add_0", "kernel", "cpp_fused_add_0:2", None, "cpp_fused_add_0((float*)(buf3.data_ptr()));"),
        ("triton_poi_fused_mul_1", "kernel", "triton_poi_fused_mul_1:3", None, "call_triton_poi_fused_mul_1(buf3);"),
        (
            "cpp_fused_lost_4",
            "kernel",
            "cpp_fused_lost_4:4",
            None,
            "// [Provenance debug handles] cpp_fused_lost_4:4",
        ),
    ]
    assert [call.aten for call in module.calls] == [("aten.mm",), (), ("aten.mul", "aten.relu"), ()]
    assert (module.cpp, module.kernels) == (True, {})


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("aoti_torch_cuda_addmm_out", "aten::addmm"),
        (
            "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu",
            "aten::_scaled_dot_product_flash_attention_for_cpu",
        ),
        ("aoti_torch_empty_strided", None),
        ("triton_poi_fused_add_0", None),
    ],
)
def test_operators_of_the_c_interface_have_their_dispatcher_names(name: str, op: str | None) -> None:
    assert op_name(name) == op


def test_any_cut_of_a_cpp_wrapper_is_read_without_harm() -> None:
    for end in range(0, len(CPP_WRAPPER), 7):
        parse_wrapper(CPP_WRAPPER[:end], "/tmp/c.py")
