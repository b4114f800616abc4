"""A replayed CUDA graph: the trace has no op for its kernels, the generated module says what they multiply."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.analysis import Recording, analyze
from ridgeline.roofline.wrapper_shapes import calls_of

WRAPPER = """
def partition_0(args):
    primals_1, primals_2 = args
    assert_size_stride(primals_1, (64, 32), (32, 1))
    assert_size_stride(primals_2, (16, 32), (32, 1))
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((64, 16), (16, 1), torch.bfloat16)
        extern_kernels.mm(primals_1, reinterpret_tensor(primals_2, (32, 16), (1, 32), 0), out=buf0)
        buf1 = reinterpret_tensor(buf0, (4, 16, 16), (256, 16, 1), 0); del buf0
        extern_kernels.bmm(buf1, buf1, out=unknown)
"""


def test_sizes_of_a_library_call() -> None:
    (line, found), *others = calls_of(WRAPPER).items()
    assert others == []  # the second result was allocated elsewhere: its type is not known
    assert line == 8
    assert found.op_name == "aten::mm"
    assert found.dims == [[64, 32], [32, 16]]
    assert found.strides == [[32, 1], [1, 32]]
    assert found.types == ["bfloat16", "bfloat16"]
    assert calls_of("def call(") == {}


def test_products_of_a_graph_have_their_work(corpus: Path) -> None:
    folder = corpus / "encoder_cudagraph"
    document = analyze(Recording(trace=folder / "trace.json.gz", generated=folder / "generated.tar.gz"))
    total = sum(k.total_us for k in document.kernels)
    assert sum(k.total_us for k in document.kernels if k.bound == "unknown") < 0.05 * total
    products = [k for k in document.kernels if k.symbol.startswith("nvjet")]
    known = [k for k in products if k.flops]
    assert len(known) >= 0.9 * len(products)
    attention = next(k for k in known if "64x256_64x5_1x2_h_bz_NNN" in k.symbol)
    assert attention.flops == 2 * 128 * 512 * 512 * 64
    assert attention.bytes == pytest.approx((128 * 512 * 512 + 2 * 128 * 512 * 64) * 2)
    assert attention.bound == "memory"


def test_a_users_kernel_launched_directly_is_read_in_the_users_file(corpus: Path) -> None:
    folder = corpus / "user_triton"
    recording = Recording(
        trace=folder / "trace.json.gz",
        generated=folder / "generated.tar.gz",
        source_roots=[("/home/user/project", str(folder))],
    )
    rows = [k for k in analyze(recording).kernels if k.symbol in ("softmax_kernel", "axpy_kernel")]
    assert {k.symbol for k in rows} == {"softmax_kernel", "axpy_kernel"}
    assert all(k.bound == "memory" for k in rows)
    inferred = [k for k in rows if k.bound_reason and "inferred from its grid" in k.bound_reason]
    assert len(inferred) == 2  # the launch under torch.compile has its sizes
    assert all((k.bound_confidence or 1) <= 0.8 and not k.borderline for k in inferred)
    whole = 8192 * 4000 * 4
    assert next(k for k in inferred if k.symbol == "axpy_kernel").bytes == pytest.approx(3 * whole, rel=0.03)
    assert next(k for k in inferred if k.symbol == "softmax_kernel").bytes == pytest.approx(2 * whole, rel=0.03)
