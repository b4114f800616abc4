"""Explanations of names: the ones that people ask about, and silence about the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ridgeline import explain


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("aten::matmul", "`mm` for two matrices, `bmm` for batches"),
        ("aten::addmm", "fused in the dispatcher"),
        ("Torch-Compiled Region: 3/0", "frame 3, compilation 0"),
        ("Torch-Compiled Region: 3/2", "compiled again because a guard failed"),
        ("TorchDynamo Cache Lookup", "guards"),
        ("AOTDispatcher Runtime Wrapper Prologue", "Host time only"),
        (
            "## Call CompiledFxGraph f56sivw4p2whbxj3vwzw7f7fd54moc6li2qn ##",
            "fxgraph/56/f56sivw4p2whbxj3vwzw7f7fd54moc6li2qn",
        ),
        ("cuLaunchKernelEx", "nvjet"),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "says nothing on newer GPUs"),
        ("Memcpy DtoD (Device -> Device)", "device to device"),
        ("Memcpy HtoD (Pageable -> Device)", "staged"),
        ("nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "cuBLAS"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_", "no tensor cores"),
        ("triton_poi_fused_addmm_gelu_2", "pointwise kernel for addmm, gelu"),
        ("triton_per_fused__softmax__to_copy_div_5", "a row in registers for softmax, to, copy, div."),
        ("triton_red_fused_3", "reduction, over a loop."),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "num_workers is 0"),
        ("aten::scaled_dot_product_attention", "a fused kernel"),
        ("AddmmBackward0", "derivative of Addmm"),
        ("aten::_foreach_add_", "`add` on a list of tensors"),
        ("aten::_fused_adamw_", "whole update of adamw"),
        ("c10d::allreduce_", "process group for allreduce"),
        ("gloo:all_reduce", "through the host's memory"),
        ("Self CPU", "Only self times add up"),
        ("CUDA total", "with everything that it calls"),
        (
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>",
            "never go through memory",
        ),
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>",
            "softmax over rows",
        ),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16>", "thin matrix"),
        ("Memcpy PtoP (Device -> Device)", "one device to another"),
        ("Command Buffer Full", "far ahead of the device"),
        ("cudaStreamWaitEvent", "The host does not wait"),
        ("occupancy", "with little of it"),
        ("self", "add up"),
        ("total", "same microsecond"),
        ("calls", "over all recorded steps"),
    ],
)
def test_names_people_ask_about(name: str, says: str) -> None:
    found = explain.explain(name)
    assert found is not None
    assert says in found.text


@pytest.mark.parametrize("name", ["", "aten::my_own_operator", "my_function", "foo (bar)", "train.py(12): main"])
def test_nothing_is_said_about_the_rest(name: str) -> None:
    assert explain.explain(name) is None


def test_texts_are_sentences() -> None:
    for name in explain.names():
        found = explain.explain(name)
        assert found is not None
        assert found.text[0].isupper() or found.text[0] == "`"
        assert found.text.endswith(".")


def test_only_the_standard_library_is_imported() -> None:
    code = "import sys; import ridgeline.explain; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy','msgspec','pandas','torch')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
