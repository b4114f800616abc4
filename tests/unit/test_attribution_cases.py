"""The attribution cases of the field (CASES.md), each with the value that is right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attribution_build import Attributed, attributed, wrapper_text
from ridgeline.attribution import attribute
from ridgeline.attribution.frame_tree import parse_frame
from ridgeline.attribution.model import PhaseOf
from ridgeline.attribution.paths import owner, remap
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.split import line_rows
from ridgeline.attribution.stacks import StackResolver
from ridgeline.inductor.provenance import read_provenance
from ridgeline.sidecar import Graph, Sidecar
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
from trace_build import call, frame, kernel, label, op

KEY = "## Call CompiledFxGraph fabc ##"


def of_file(path: Path) -> Attributed:
    trace = read_trace(path)
    work = work_table(trace)
    return Attributed(trace, work, attribute(trace, work))


def test_up_26_a_replayed_graph_keeps_time_per_kernel_and_the_line_of_its_launch(cases: Path) -> None:
    one = of_file(cases / "data/tl/inference/vllm_decode_full/graph_execution.json.gz")
    events = one.trace.device_events
    replayed = np.flatnonzero(events.correlation[one.work.event] == 505113)
    assert len(replayed) == 421
    assert float(one.work.time[replayed].sum()) == pytest.approx(10388.482, abs=0.01)
    assert len({one.symbol(r) for r in replayed.tolist()}) > 10
    lines = {(r.file, r.line) for row in replayed.tolist() for r in one.refs(row)}
    methods = {r.method for row in replayed.tolist() for r in one.refs(row)}
    assert len(lines) == 1, "the launch's place, never a guess a kernel"
    assert all(m.endswith("via_graph") for m in methods)


def test_up_29_triton_launches_come_through_the_driver(tmp_path: Path, cases: Path) -> None:
    one = attributed(
        tmp_path,
        op(0, 20, "triton_poi_fused_add_0", ext=3),
        call(5, 2, "cuLaunchKernel", corr=35, ext=3, cat="cuda_driver"),
        kernel(30, 1.76, "triton_poi_fused_add_0", corr=35, ext=3),
    )
    assert one.trace.strings[int(one.trace.ops.name[one.work.op[0]])] == "triton_poi_fused_add_0"
    bert = of_file(cases / "data/tl/h100/gaunernst_bert-small-uncased__1016001.json.gz")
    kernels = [r for r in range(len(bert.work.start)) if bert.work.work[r] == 0]
    assert len(kernels) == 60
    assert all(bert.work.call[r] >= 0 for r in kernels)


def test_up_30_a_generic_name_gives_way_to_the_launching_op(tmp_path: Path) -> None:
    events = []
    for i, name in enumerate(("triton_poi_fused_add_cos_sin_0", "triton_red_fused_sum_1")):
        t = 100 * i
        events += [
            op(t, 20, name, ext=i + 1, kernel_hash=f"h{i}", kernel_file=f"/tmp/x/h{i}.py"),
            call(t + 5, 2, "cuLaunchKernel", corr=i + 1, ext=i + 1, cat="cuda_driver"),
            kernel(t + 30, 10, "triton__0d1d2d3", corr=i + 1, ext=i + 1),
        ]
    one = attributed(tmp_path, *events)
    assert [one.symbol(r) for r in range(2)] == ["triton_poi_fused_add_cos_sin_0", "triton_red_fused_sum_1"]


def test_up_31_one_name_in_three_modules(tmp_path: Path) -> None:
    generated, events = tmp_path / "generated", []
    generated.mkdir()
    text = "async_compile = AsyncCompile()\ncpp_fused_add_mul_relu_0 = async_compile.cpp_pybinding(['float*'], '''\n''')\n\n\ndef call(args):\n    cpp_fused_add_mul_relu_0(x)\n"
    for n in range(3):
        (generated / f"cmodule{n}.py").write_text(f"# AOT ID: ['{n}_inference']\n{text}")
        events += [
            op(100 * n, 50, f"Torch-Compiled Region: 0/{n}"),
            op(100 * n + 10, 10 + n, f"graph_{n}_cpp_fused_add_mul_relu_0"),
        ]
    one = attributed(tmp_path, *events, generated=generated)
    found = {}
    for row in range(len(one.work.start)):
        if one.result.site[row] >= 0:
            found[Path(one.result.sites[int(one.result.site[row])].module or "").stem] = float(one.work.time[row])
    assert found == {"cmodule0": 10, "cmodule1": 11, "cmodule2": 12}


def test_up_32_a_kernel_launched_from_three_lines(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.mkdir()
    (generated / "cmod.py").write_text(wrapper_text([(90, "k"), (95, "k"), (99, "k")], {"k": 40}))
    events, number = [], 0
    for iteration, durations in enumerate(((10, 20, 30), (11, 21, 31))):
        events.append(label(1000 * iteration, 500, KEY))
        for i, dur in enumerate(durations):
            number += 1
            t = 1000 * iteration + 100 * (i + 1)
            events += [
                op(t, 20, "k", ext=number),
                call(t + 5, 2, "cuLaunchKernel", corr=number, ext=number, cat="cuda_driver"),
                kernel(t + 40, dur, "k", corr=number, ext=number),
            ]
    one = attributed(tmp_path, *events, generated=generated)
    times: dict[int | None, float] = {}
    for row in range(6):
        times[one.call_line(row)] = times.get(one.call_line(row), 0) + float(one.work.time[row])
    assert times == {90: 21, 95: 41, 99: 61}
    assert {one.result.sites[int(s)].definition_line for s in one.result.site} == {40}
    assert float(one.work.time.sum()) == 123


def test_up_33_frames_give_the_function_not_the_statement(tmp_path: Path) -> None:
    events = [
        frame(0, 100, "c1.py(3): attn", id=1),
        frame(10, 20, "<built-in method matmul of type object at 0x7f00>", id=2, parent=1),
        op(11, 18, "aten::matmul"),
        frame(40, 20, "<built-in method softmax of type object at 0x7f00>", id=3, parent=1),
        op(41, 18, "aten::softmax"),
        frame(-10, 200, "c1.py(9): <module>", id=4),
    ]
    one = attributed(tmp_path, *events)
    lines, rest = one.lines()
    assert [(line.line, line.granularity) for line in lines] == [(3, "function")]
    assert lines[0].device_us == 36
    assert rest.device_us == 0


def test_up_33_one_fitting_statement_is_claimed_where_the_source_is_at_hand(tmp_path: Path) -> None:
    source = tmp_path / "c1.py"
    source.write_text(
        "import torch\n\ndef attn(q, k):\n    s = 1\n    # scores\n    a = torch.matmul(q, k)\n    return torch.softmax(a, -1)\n"
    )
    events = [
        frame(-10, 200, f"{source}(9): <module>", id=4),
        frame(0, 100, f"{source}(3): attn", id=1, parent=4),
        frame(10, 20, "<built-in method matmul of type object at 0x7f00>", id=2, parent=1),
        op(11, 18, "aten::matmul"),
    ]
    (ref,) = attributed(tmp_path, *events).refs(0)
    assert (ref.line, ref.method) == (6, "source_match")
    assert ref.confidence < 1


def test_up_34_backward_by_sequence_and_forward_thread(tmp_path: Path) -> None:
    def forward(tid: int, t: float, name: str, number: int) -> list[dict[str, object]]:
        return [
            frame(t - 20, 60, "train.py(90): run", id=10 * number + 1, tid=tid),
            frame(t - 5, 30, name, id=10 * number, parent=10 * number + 1, tid=tid),
            op(t, 10, "aten::mm", ext=number, tid=tid, **{"Sequence number": 7, "Fwd thread id": 0}),
            call(t + 2, 2, corr=number, ext=number, tid=tid),
            kernel(t + 20, 5, "gemm", corr=number, ext=number),
        ]

    def backward(t: float, number: int, forward_thread: int) -> list[dict[str, object]]:
        return [
            op(t, 10, "MmBackward0", ext=number, tid=2, **{"Sequence number": 7, "Fwd thread id": forward_thread}),
            call(t + 2, 2, corr=number, ext=number, tid=2),
            kernel(t + 20, 30 if forward_thread == 1 else 40, "gemm_backward", corr=number, ext=number),
        ]

    one = attributed(
        tmp_path,
        *forward(1, 100, "model.py(12): forward", 1),
        *backward(300, 2, 1),
        *backward(400, 3, 3),
    )
    lines, rest = one.lines()
    (line,) = lines
    assert (line.file, line.line) == ("model.py", 12)
    assert (line.phase.forward_us, line.phase.backward_us) == (5, 30)
    assert rest.device_us == 40, "the same number of another forward thread is not this line"


def test_up_35_a_compiled_backward_without_source_nodes(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.mkdir()
    comment = "Topologically Sorted Source Nodes: [], Original ATen: [aten.gelu_backward]"
    text = wrapper_text(
        [(30, "triton_poi_fused_gelu_backward_0")],
        {"triton_poi_fused_gelu_backward_0": 12},
        "2_backward",
        {30: comment},
    )
    (generated / "cback.py").write_text(text)
    one = attributed(
        tmp_path,
        label(0, 100, KEY),
        op(10, 20, "triton_poi_fused_gelu_backward_0", ext=1),
        call(12, 2, "cuLaunchKernel", corr=1, ext=1, cat="cuda_driver"),
        kernel(40, 9, "triton_poi_fused_gelu_backward_0", corr=1, ext=1),
        generated=generated,
    )
    assert one.refs(0) == ()
    assert one.reason(0) == "source not recorded (backward of graph 2)"
    assert one.call_line(0) == 30
    assert one.result.aten[int(one.result.aten_set[0])] == ("aten.gelu_backward",)
    assert one.result.phase[0] == int(PhaseOf.BACKWARD)
    assert [m.kind for m in one.result.modules] == ["backward"]


def test_up_36_lines_of_a_public_log(cases: Path) -> None:
    log = read_provenance(cases / "data/tlp/inductor_provenance_jit_debug_handle_log.txt")
    (graph,) = log.graphs
    resolver = StackResolver(SourceStore())
    found = {
        handle: {ref.line for ref in resolver.resolve(stacks).refs} for handle, stacks in graph.kernel_stacks.items()
    }
    assert found == {
        "triton_poi_fused_addmm_relu_sigmoid_threshold_backward_0:1": {79, 80, 81},
        "triton_poi_fused_mul_1:2": {82},
        "triton_poi_fused_addmm_gelu_2:3": {83, 84},
        "extern_kernels.mm:4": {79},
        "extern_kernels.mm:5": {83},
    }


def test_up_38_kernels_of_other_threads_are_summed_under_their_reason(tmp_path: Path) -> None:
    one = attributed(
        tmp_path,
        op(0, 10, "aten::mm", ext=1, tid=1),
        call(2, 2, corr=1, ext=1, tid=1),
        kernel(20, 7, "gemm", corr=1, ext=1),
        call(30, 2, corr=2, tid=9),
        kernel(50, 5, "gemm", corr=2),
    )
    _, rest = one.lines()
    assert rest.reason["other threads, whose Python lines were not recorded"] == 5
    assert rest.device_us == 12
    assert rest.share_pct == 100


def test_up_40_each_microsecond_once(tmp_path: Path) -> None:
    nested = ["aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"]
    one = attributed(
        tmp_path,
        *[op(i, 50 - 2 * i, name, ext=i + 1) for i, name in enumerate(nested)],
        call(10, 2, corr=1, ext=4),
        kernel(60, 12, "conv", corr=1, ext=4),
    )
    lines, rest = one.lines()
    assert sum(line.device_us for line in lines) + rest.device_us == 12
    assert one.result.aten[int(one.result.aten_set[0])] == ("aten.cudnn_convolution",)


def test_up_42_kernels_from_before_the_window_stay_apart(cases: Path) -> None:
    one = of_file(cases / "data/tl/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    before = [r for r in range(len(one.work.start)) if one.reason(r) == "launched before recording began"]
    assert (len(before), len(one.work.start)) == (509, 1707)
    assert round(100 * len(before) / len(one.work.start), 1) == 29.8


def test_up_43_cpp_kernels_itemised_or_not(tmp_path: Path) -> None:
    off = attributed(tmp_path, op(0, 100, KEY), op(10, 30, "aten::mm"))
    assert {off.symbol(r): float(off.work.time[r]) for r in range(2)} == {
        "generated C++ (not itemised)": 70,
        "aten::mm": 30,
    }
    generated = tmp_path / "generated"
    generated.mkdir()
    (generated / "cmod.py").write_text(
        "# AOT ID: ['0_inference']\ncpp_fused_sum_0 = async_compile.cpp_pybinding(['float*'], '''\n''')\n\n\ndef call(args):\n    cpp_fused_sum_0(x)\n"
    )
    on = attributed(tmp_path, op(0, 100, KEY), op(10, 30, "graph_0_cpp_fused_sum_0"), generated=generated)
    rows = {on.symbol(r): on.call_line(r) for r in range(2)}
    assert rows == {"cpp_fused_sum_0": 7, "generated module (Python)": None}


def test_a_module_of_operators_alone_has_no_cpp_that_could_be_itemised(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.mkdir()
    (generated / "cmod.py").write_text(
        "# AOT ID: ['0_inference']\n\n\ndef call(args):\n    extern_kernels.mm(x, y, out=buf0)\n    return (buf0, )\n"
    )
    ran = Sidecar(graphs=[Graph(path=str(generated / "cmod.py"), cache_key="cmod", fx_key="fabc")])
    one = attributed(tmp_path, op(0, 100, KEY), op(10, 30, "aten::mm"), generated=generated, sidecar=ran)
    assert {one.symbol(r): float(one.work.time[r]) for r in range(2)} == {
        "generated module (Python)": 70,
        "aten::mm": 30,
    }
    assert not [note for note in one.result.notes if "cpp_wrapper" in note]


def test_up_111_paths_of_another_machine(tmp_path: Path) -> None:
    assert parse_frame("<string>(1): <module>") is None
    assert owner("vllm/v1/worker/gpu_model_runner.py") == "user"
    assert owner("torch/nn/functional.py") == "library"
    assert owner("/opt/venv/lib/python3.11/site-packages/timm/models/vit.py") == "library"
    assert owner("/tmp/torchinductor_me/ab/cabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz.py") == "generated"
    assert (
        remap("/data/users/x/proj/model.py", [("/data/users/x", "/w"), ("/data/users/x/proj", "/w2")]) == "/w2/model.py"
    )
    (tmp_path / "model.py").write_text("def g(x):\n    return x.sin()\n")
    one = attributed(
        tmp_path,
        frame(-10, 200, "run.py(5): main", id=1),
        frame(0, 50, "/data/users/x/proj/model.py(1): g", id=2, parent=1),
        frame(5, 40, "<built-in method sin of Tensor object at 0x7f>", id=3, parent=2),
        op(10, 20, "aten::sin"),
        source_roots=[("/data/users/x/proj", str(tmp_path))],
    )
    (ref,) = one.refs(0)
    assert (ref.file, ref.line, ref.text) == (str(tmp_path / "model.py"), 2, "return x.sin()")


@pytest.mark.parametrize("root", ["C:\\Users\\x\\proj", "C:/Users/x/proj/", "C:\\Users\\x\\proj\\"])
def test_up_111_a_root_of_windows_is_written_as_windows_does(tmp_path: Path, root: str) -> None:
    (tmp_path / "model.py").write_text("def g(x):\n    return x.sin()\n")
    events = (
        frame(-10, 200, "run.py(5): main", id=1),
        frame(0, 50, "C:\\Users\\x\\proj\\model.py(1): g", id=2, parent=1),
        op(10, 20, "aten::sin"),
    )
    one = attributed(tmp_path, *events, source_roots=[(root, str(tmp_path))])
    (ref,) = one.refs(0)
    assert (ref.file, ref.line) == (str(tmp_path / "model.py"), 2)
    assert not any("--source-root" in note for note in one.result.notes)
    one = attributed(tmp_path, *events, source_roots=[("C:\\elsewhere", str(tmp_path))])
    assert any("no file that the recording names lies there" in note for note in one.result.notes)


def test_a_provenance_log_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "dedicated.log").write_text("hello\n")
    one = attributed(tmp_path, op(10, 20, "aten::sin"), provenance=tmp_path / "dedicated.log")
    assert any("holds no log of TORCH_TRACE" in note for note in one.result.notes)


def test_up_114_shares_add_to_100(tmp_path: Path) -> None:
    events = []
    for i, (dur, line) in enumerate(((50, 3), (30, 3), (15, 9), (5, None))):
        t = 100 * i
        if line is not None:
            events += [
                frame(t - 3, 40, "a.py(1): main", id=10 * i + 1),
                frame(t - 2, 30, f"a.py({line}): f{line}", id=10 * i + 2, parent=10 * i + 1),
            ]
        events += [
            op(t, 10, "aten::add", ext=i + 1),
            call(t + 2, 2, corr=i + 1, ext=i + 1),
            kernel(t + 40, dur, "k", corr=i + 1, ext=i + 1),
        ]
    one = attributed(tmp_path, *events)
    lines, rest = one.lines()
    assert {line.line: line.share_pct for line in lines} == {3: 80, 9: 15}
    assert rest.share_pct == 5


@pytest.mark.parametrize(
    "name",
    [
        "torch/_inductor/config.py(0): f",
        "<built-in method softmax of type object at 0x7f>",
        "nn.Module: Linear_3",
        "<frozen importlib._bootstrap>(12): _load",
        "<string>(1): launcher",
    ],
)
def test_up_115_frames_that_are_no_place(name: str) -> None:
    assert parse_frame(name) is None


def test_up_115_a_notebook_cell_is_no_link(tmp_path: Path) -> None:
    one = attributed(
        tmp_path,
        frame(-10, 200, "run.py(5): main", id=1),
        frame(0, 50, "/tmp/ipykernel_12/3481.py(4): g", id=2, parent=1),
        op(10, 20, "aten::sin"),
    )
    assert one.refs(0) == ()
    assert one.reason(0) == "a notebook cell whose source is not at hand"


def test_never_the_line_where_the_profiler_started(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text(
        "import torch\n\n\ndef main(x):\n    for _ in range(9):\n        x = x + 1\n        y = x + 2\n    return y\n"
    )
    events = [
        frame(0, 500, f"{source}(5): main", id=1),
        frame(1, 20, "torch/profiler/profiler.py(894): step", id=2, parent=1),
        frame(2, 10, "torch/autograd/profiler.py(398): _start_trace", id=3, parent=2),
        op(100, 20, "aten::add"),
    ]
    (ref,) = attributed(tmp_path, *events).refs(0)
    assert (ref.line, ref.method) == (4, "function"), "the function's own line, not 5"
    source.unlink()
    assert attributed(tmp_path, *events).refs(0) == ()


def test_every_attribution_case_of_the_field_is_here(cases: Path) -> None:
    text, here = (cases / "CASES.md").read_text(), Path(__file__).read_text()
    named = [
        block.split(" ", 2)[1]
        for block in text.split("\n### ")[1:]
        if "- area: attribution" in block
        for block in [f"### {block}"]
    ]
    elsewhere = {"UP-28", "UP-39", "UP-44"}  # steps without device work, ranges and labels: other rooms
    missing = [n for n in named if n not in elsewhere and f"test_{n.lower().replace('-', '_')}" not in here]
    assert missing == []
    assert json.dumps(sorted(elsewhere)) == json.dumps([n for n in sorted(elsewhere) if n in named])


def test_rows_and_rest_hold_all_time_of_real_traces(cases: Path) -> None:
    for name in ("mi300/resnet_act_checkpoint", "inference/sglang_decode/sglang_Qwen3-8B_decode", "b200/eager_trace"):
        one = of_file(cases / f"data/tl/{name}.json.gz")
        lines, rest = line_rows(one.trace, one.work, one.result, np.zeros(len(one.work.start), dtype=np.int32), ["k"])
        assert sum(line.device_us for line in lines) + rest.device_us == pytest.approx(
            float(one.work.time.sum()), rel=1e-12
        )
