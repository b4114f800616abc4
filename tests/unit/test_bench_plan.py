"""The plan of a benchmark is read from the text: harness, sizes, signatures, fallbacks. Numbers UP-nn are CASES.md's."""

from __future__ import annotations

import ast
import tarfile
from pathlib import Path

import pytest

import bench_modules as modules
from ridgeline.bench import bounds, callers, harness, plan
from ridgeline.bench.bytes import harness_bytes, moved_bytes
from ridgeline.bench.needs import of as needs_of


@pytest.mark.parametrize(
    ("tail", "note"),
    [
        (modules.UNQUOTED, "the harness is no valid Python (arg0_1 = rand_strided((2, 17), (17, 1), device=cpu:0"),
        (modules.BRACES, "gives sizes in C++ braces"),
        (modules.DO_BENCH, "imports do_bench, which this torch does not have"),
        ("", "carries no harness"),
    ],
    ids=["unquoted-device", "braces", "do_bench", "absent"],
)
def test_a_broken_harness_leaves_the_structure_readable(tail: str, note: str) -> None:
    """UP-64: kernels, launch lines and sizes without running the harness, and one note with its place."""
    read = plan.read(modules.CPP + tail, "/x/c.py")
    (kernel,) = read.kernels
    (site,) = kernel.sites
    assert (kernel.name, site.line, site.problem) == ("cpp_fused_sin_0", modules.CALL_LINE, None)
    expected = {"size": [2, 17], "stride": [17, 1], "dtype": "float32", "device": "cpu"}
    assert read.inputs is not None
    assert [{**one, "device": one["device"].split(":")[0]} for one in read.inputs] == [expected]
    assert len(read.notes) == 1
    assert note in read.notes[0]
    ast.parse(read.body)  # what is left can be loaded


def test_a_sound_harness_has_nothing_said_about_it() -> None:
    read = plan.read(modules.CPP + modules.GOOD, "/x/c.py")
    assert read.harness.complete
    assert read.notes == []
    assert moved_bytes(read.kernels[0].signature, read.kernels[0].sites[0].arguments) == 2 * 2 * 17 * 4


def test_fp8_inputs_are_described_with_their_bytes() -> None:
    """UP-63: 16 x 32 elements of one byte."""
    tail = modules.GOOD.replace("(2, 17), (17, 1)", "(16, 32), (32, 1)").replace("float32", "float8_e4m3fn")
    (described,) = harness.read(modules.CPP + tail).inputs
    assert described["dtype"] == "float8_e4m3fn"
    assert harness_bytes(described) == 512


def test_complex_inputs_count_eight_bytes_and_the_fallback_is_named() -> None:
    """UP-68."""
    text = modules.CPP.replace("(2, 17), (17, 1)", "(8, 8), (8, 1)").replace(
        "    cpp_fused_sin_0(arg0_1, buf0)",
        "    buf1 = torch.ops.aten.mul.Tensor(arg0_1, arg0_1)\n    cpp_fused_sin_0(buf1, buf0)",
    )
    tail = modules.GOOD.replace("(2, 17), (17, 1)", "(8, 8), (8, 1)").replace("float32", "complex64")
    (fallback,) = plan.read(text + tail, "/x/c.py").fallbacks
    assert fallback["line"] == modules.CALL_LINE
    assert fallback["reason"] == "complex op runs as aten fallback: aten::mul"
    assert set(fallback["input_bytes"]) == {512}


def test_a_size_that_only_a_run_knows_is_named_until_it_is_given() -> None:
    """UP-61: no bytes, so no GB/s, before u0 is known."""
    text = modules.CPP.replace(
        "    buf0 = empty_strided_cpu((2, 17), (17, 1), torch.float32)",
        "    buf5 = torch.ops.aten.nonzero.default(arg0_1)\n    u0 = buf5.size(0)\n    buf0 = empty_strided_cpu((u0, 17), (17, 1), torch.float32)",
    )
    read = plan.read(text + modules.GOOD, "/x/c.py")
    assert read.unbacked == ["u0"]
    assert read.kernels[0].sites[0].problem == "size u0 is known only in a run: give a value (--size u0=VALUE)"
    given = plan.read(text + modules.GOOD, "/x/c.py", {"u0": 100})
    (site,) = given.kernels[0].sites
    assert site.problem is None
    assert site.arguments[1]["size"] == [100, 17]


def test_an_op_that_nobody_registered_leaves_both_kernels_measurable(cases: Path) -> None:
    """UP-60: the module of tlparse's simple.log, written by a torch before 2.11."""
    rows = (cases / "data" / "tlp" / "simple.log").read_text(errors="replace").split("\n")
    start = next(i for i, row in enumerate(rows) if '"inductor_output_code"' in row) + 1
    end = next(i for i in range(start, len(rows)) if not rows[i].startswith("\t"))
    read = plan.read("\n".join(row[1:] for row in rows[start:end]), "/x/c.py")
    sizes = {
        k.name: (k.sites[0].line, k.sites[0].problem, moved_bytes(k.signature, k.sites[0].arguments))
        for k in read.kernels
    }
    assert sizes == {
        "triton_poi_fused_native_dropout_0": (160, None, 20_971_520 + 8),
        "triton_poi_fused_baz_gelu_native_dropout_1": (164, None, 62_914_560),
    }
    assert {(f["line"], f["op"]) for f in read.fallbacks} >= {(168, "test::baz")}
    assert read.harness.complete  # the shape of benchmark_compiled_module before 2.11


def test_what_a_users_kernel_needs_from_the_users_file_is_listed() -> None:
    """UP-67: constant and helper named with the file; None passes through."""
    (kernel,) = plan.read(modules.user_module(), "/x/c.py").kernels
    assert set(kernel.needs) == {
        "kernel scale_kernel needs constant BLOCK from /home/me/model.py",
        "kernel scale_kernel needs helper halve from /home/me/model.py",
    }
    (site,) = kernel.sites
    assert site.problem is None
    assert site.arguments[1] is None
    assert site.arguments[2] == 64


def test_a_kernel_that_stands_alone_needs_nothing() -> None:
    text = modules.USER_KERNEL.replace(
        "@triton_heuristics", "BLOCK = 64\n\ndef halve(x):\n    return x / 2\n\n@triton_heuristics"
    )
    assert needs_of(text, "scale_kernel", None) == []


def test_a_script_is_refused_in_one_line() -> None:
    with pytest.raises(plan.PlanError, match="is no file that Inductor wrote"):
        plan.read("import torch\nprint(torch.ones(2))\n", "/x/train.py")


def test_a_module_that_calls_from_cpp_is_refused_in_one_line() -> None:
    text = '\n\nimport torch\nfrom torch._inductor.codecache import CppWrapperCodeCache\n\ncpp_wrapper_src = (\nr"""\n"""\n)\n'
    with pytest.raises(
        plan.PlanError, match="cannot be benchmarked one by one; `ridgeline profile` runs it as a whole"
    ):
        plan.read(text + "inductor_entry = CppWrapperCodeCache.load_pybinding(\n)\n", "/x/c.py")


def test_every_generated_file_of_the_corpus_is_understood(corpus: Path) -> None:
    """Every kernel of every module has a call with sizes; bytes of simple kernels agree with Inductor's own number."""
    kernels, stated = 0, []
    for workload in ("mlp_train", "encoder_train", "user_triton"):
        with tarfile.open(corpus / workload / "generated.tar.gz") as archive:
            for member in archive:
                if not member.name.endswith(".py"):
                    continue
                stream = archive.extractfile(member)
                assert stream is not None
                read = plan.read(stream.read().decode(), member.name)
                for kernel in read.kernels:
                    kernels += 1
                    if read.file_kind == "module" or kernel.meta.get("kernel_num_gb"):
                        assert kernel.sites, kernel.name
                        assert kernel.sites[0].problem is None, kernel.sites[0].problem
                    if kernel.meta.get("kernel_num_gb") and kernel.name.startswith("triton_poi"):
                        moved = moved_bytes(kernel.signature, kernel.sites[0].arguments)
                        assert moved is not None
                        stated.append(moved / kernel.meta["kernel_num_gb"] / 1e9)
    assert kernels > 60
    # Buffers count whole: never less than what Inductor counts, and the same unless a slice is read.
    assert min(stated) == pytest.approx(1, abs=0.02)
    assert sum(abs(ratio - 1) < 0.02 for ratio in stated) > 0.7 * len(stated)


def test_a_kernels_file_without_a_harness_takes_the_arguments_of_its_call(tmp_path: Path, corpus: Path) -> None:
    """As Inductor writes them by default: the module that calls it lies in the same cache."""
    with tarfile.open(corpus / "mlp_train" / "generated.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(tmp_path)
    with_harness, without = {}, {}
    for file in tmp_path.glob("*/??/*.py"):
        text = file.read_text()
        if "AsyncCompile()" in text:
            continue
        with_harness[file] = plan.read(text, str(file)).kernels[0].sites[0]
        read = plan.read(harness.split(text)[0], str(file))
        assert read.kernels[0].sites[0].problem is not None
        callers.complete(read, file)
        without[file] = (read.kernels[0].sites[0], read.notes)
    assert len(without) == 23
    found = [file for file, (site, _) in without.items() if site.problem is None]
    assert len(found) >= 20  # the rest belongs to modules that are not in the archive
    for file in found:
        site, notes = without[file]
        assert any("arguments as in its call in c" in note for note in notes)
        for ours, theirs in zip(site.arguments, with_harness[file].arguments, strict=True):
            if isinstance(theirs, dict):
                assert {**ours, "device": "cuda:0"} == {**theirs, "device": "cuda:0"}, file.name
            else:
                assert ours == theirs


SHARED = """

def get_args():
    from torch._dynamo.testing import rand_strided
    _shared_storage_0 = rand_strided((102,), (1,), device='cpu', dtype=torch.float32)
    arg0_1 = torch.as_strided(_shared_storage_0, (2, 17), (17, 1))
    arg1_1 = torch.as_strided(_shared_storage_0, (17, 2), (1, 17), 34)
    return [arg0_1, arg1_1]
"""


def test_inputs_that_share_memory_are_read_as_views_of_one_buffer() -> None:
    """torch 2.13 and newer keep what inputs share."""
    found = harness.read(modules.CPP + SHARED)
    assert found.complete
    assert found.inputs == [
        {"size": [2, 17], "stride": [17, 1], "dtype": "float32", "device": "cpu",
         "of": {"name": "_shared_storage_0", "size": [102], "offset": 0}},
        {"size": [17, 2], "stride": [1, 17], "dtype": "float32", "device": "cpu",
         "of": {"name": "_shared_storage_0", "size": [102], "offset": 34}},
    ]  # fmt: skip


def test_they_are_made_as_such() -> None:
    torch = pytest.importorskip("torch")
    from ridgeline.agent.made import make_all

    described = [
        *harness.read(modules.CPP + SHARED).inputs,
        7,
        {"same_as": 0, **harness.tensor([2], [1], "float32", "cpu")},
    ]
    first, second, number, again = make_all(torch, described, None)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert (second.storage_offset(), second.shape, second.stride(), number) == (34, (17, 2), (1, 17), 7)
    assert again is first


def test_sizes_are_read_from_what_torch_2_14_asserts() -> None:
    text = modules.CPP.replace(
        "    assert_size_stride(arg0_1, (2, 17), (17, 1))\n",
        "    assert_size_stride_grouped((arg0_1, arg1_1), ((2, 17), ()), ((17, 1), ()), 'input')\n"
        "    buf9 = torch.ops.aten.sort.default(arg0_1)\n    buf8 = buf9[0]\n"
        "    assert_tensor_metadata(buf8, (4, 17), (17, 1), torch.int64, 'torch.ops.aten.sort.default')\n",
    )
    text = text.replace("arg0_1, = args", "arg0_1, arg1_1 = args").replace("sin_0(arg0_1, buf0)", "sin_0(buf8, buf0)")
    read = plan.read(text, "/x/c.py")
    assert read.inputs is not None
    assert [(one["size"], one["stride"]) for one in read.inputs] == [([2, 17], [17, 1]), ([], [])]
    (site,) = read.kernels[0].sites
    assert site.problem is None
    assert {k: site.arguments[0][k] for k in ("size", "dtype")} == {"size": [4, 17], "dtype": "int64"}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("tl.device_assert((0 <= tmp4) & (tmp4 < 512), 'index out of bounds: 0 <= tmp4 < 512')", 512),
        ('TORCH_CHECK((0 <= tmp2) & (tmp2 < 500L), "index out of bounds: 0 <= tmp2 < 500L");', 500),
        # Nothing asserted: the size that is added to an index below zero.
        (
            "auto tmp5 = 500L;\n   auto tmp6 = c10::convert<int64_t>(tmp5);\n   auto tmp7 = int64_t(tmp4 + tmp6);\n"
            "   auto tmp8 = tmp4 < 0;\n   auto tmp9 = tmp8 ? tmp7 : tmp4;",
            500,
        ),
        (
            "auto tmp5 = 500L;\n   auto tmp6 = c10::convert<int64_t>(tmp5);\n   auto tmp7 = int64_t(static_cast<"
            "std::make_unsigned_t<int64_t>>(tmp4) + static_cast<std::make_unsigned_t<int64_t>>(tmp6));\n"
            "   auto tmp8 = tmp4 < 0;\n",
            500,
        ),
        (
            "tmp1 = tl.full([XBLOCK], 30522, tl.int32)\n    tmp2 = tmp0 + tmp1\n    tmp3 = tmp0 < 0\n"
            "    tmp4 = tl.where(tmp3, tmp2, tmp0)\n",
            30522,
        ),
        ("auto tmp5 = 500L;\n   auto tmp6 = tmp5 + tmp1;", None),
    ],
)
def test_the_bound_of_an_index_is_read_from_the_kernel(text: str, bound: int | None) -> None:
    assert bounds.of(text) == bound
